"""One row of independent logits, whose columns fall into groups of the same law."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from onehead.aim.logits.blocks import LONG_ROW, SHORTEST_RULE, Block
from onehead.aim.logits.softmax_row import Column, SoftmaxRow, cached_row

Array = NDArray[np.float64]

LONGEST_ROW = 4096  # columns that are sampled; longer rows are extrapolated towards their limit (L2)


@dataclass(frozen=True)
class ColumnGroup:
    """Columns of a row whose logits have the same ``variances``, per unit of variance of each sector of the map, and
    their ``count``.
    """

    variances: tuple[float, ...]
    count: int


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Row(Block):
    """One row of independent logits; its coordinates are differences from the last one.

    ``from_half_length``: a row that is too long to be sampled is extrapolated from half as many columns as usual.
    """

    shares_logits = False

    columns: tuple[ColumnGroup, ...]
    multiplicity: float = 1.0
    on_lattice: bool = False
    from_half_length: bool = False

    @property
    def length(self) -> int:
        """Number of columns of the row."""
        return sum(column.count for column in self.columns)

    @property
    def row_count(self) -> int:
        """One."""
        return 1

    @property
    def dim(self) -> int:
        """Number of coordinates, without computing their covariance."""
        return self.length - 1

    @property
    def sector_count(self) -> int:
        """Sectors of the map that it sees."""
        return len(self.columns[0].variances)

    @cached_property
    def select(self) -> NDArray[np.int64]:
        """Indices of the coordinates: one row with all of them."""
        return np.array([[*range(self.dim), -1]])

    @cached_property
    def sectors(self) -> tuple[Array, ...]:
        """Covariances diag(v_b) + v_n of the coordinates for each sector."""
        counts, found = [column.count for column in self.columns], []
        for sector in range(self.sector_count):
            variances = np.repeat([column.variances[sector] for column in self.columns], counts)
            found.append(np.diag(variances[:-1]) + variances[-1])
        return tuple(found)

    @cached_property
    def field_covariance(self) -> Array:
        """Covariance of the differences of fields from that of the last column."""
        return np.eye(self.dim) + 1.0

    @cached_property
    def variances(self) -> Array:
        """Variance of every logit at unit variance in every sector."""
        return self.variances_at(self.sector_count * (1.0,))

    def variances_at(self, powers: Sequence[float]) -> Array:
        """Return the variance of every logit where the sectors of the map have these variances."""
        counts = [column.count for column in self.columns]
        return np.repeat([float(np.dot(column.variances, powers)) for column in self.columns], counts)

    @property
    def normal_groups(self) -> NDArray[np.int64]:
        """Group of columns that each logit belongs to."""
        return np.repeat(np.arange(len(self.columns)), [column.count for column in self.columns])

    @property
    def group_weights(self) -> Array:
        """Variances of the groups of columns."""
        return np.array([column.variances for column in self.columns]).T

    def logits_of(self, normals: Array) -> Array:
        """Return the normals themselves."""
        return normals

    @property
    def log2_points(self) -> int:
        """log2 of the number of points: fewer for long rows, which are self-averaging."""
        n = self.length
        finest = 13 if self.multiplicity > 1 else 12 if n <= 5 else 11  # rows of different lengths have fewer each
        return max(finest - max(0, n.bit_length() - LONG_ROW.bit_length()), SHORTEST_RULE)

    @property
    def label_kinds(self) -> int:
        """Number of groups of columns."""
        return len(self.columns)

    @property
    def row(self) -> "Row":
        """The row itself."""
        return self

    @cached_property
    def sampled(self) -> "Row":
        """The row that is sampled in its place, if it is too long.

        A linear extrapolation in 1/n from a row of n columns has an error of order (1/n - 1/N)/N at N columns. The
        longer the row, the shorter the sampled one may be; the error is kept below its value for the shortest row
        that is extrapolated, from half as many columns.
        """
        if self.length <= LONGEST_ROW:
            return self
        (first, *rest), long = self.columns, self.length
        short = max(int(long / (1.0 + (long / LONGEST_ROW) ** 2)), LONGEST_ROW // 16) // (
            2 if self.from_half_length else 1
        )
        cut = ColumnGroup(first.variances, first.count - (self.length - short))
        return replace(self, columns=(cut, *rest))

    @property
    def at_half_length(self) -> "Row":
        """The row that is extrapolated from half as many columns as usual."""
        return replace(self, from_half_length=True)

    def at(self, Q: Sequence[float], q: Sequence[float], m: Sequence[float]) -> SoftmaxRow:
        """Return the law of the row on a fresh sample for these overlaps of the sectors."""
        return cached_row(
            tuple(
                Column(column.count, *(float(np.dot(column.variances, power)) for power in (Q, q, m)))
                for column in self.columns
            )
        )
