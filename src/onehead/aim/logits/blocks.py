"""Blocks of rows of logits that share coordinates: covariances, metrics, and the rows of heads.

Logits of a row matter only up to a constant, so that the coordinates u are differences of logits, Gaussian with a
covariance C per unit of variance of the map's overlap (1.4, 1.6). Rows that share coordinates form a block.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from onehead.aim.logits.softmax_row import Column, SoftmaxRow, cached_row

__all__ = [
    "LONGEST_ROW",
    "LONG_ROW",
    "PARTS",
    "SLICE",
    "Block",
    "ColumnGroup",
    "DenseBlock",
    "Row",
    "TiedBlock",
    "UnmaskedSelfAttention",
]

Array = NDArray[np.float64]

SLICE = 2048  # nodes in a slice: fixed, so that sums do not depend on the number of threads
SHORT_SLICE = 64  # nodes in a slice of sampled points; no part of a rule is shorter, except in the coarsest
SHORTEST_SLICE = 8  # nodes in a slice of points with many coordinates
PARTS = 8  # independent scramblings in a rule of sampled points
LONG_ROW = 16  # columns beyond which longer rows need fewer points
LONGEST_ROW = 2048  # columns that are sampled; longer rows are extrapolated towards their limit (L2)


class Block:
    """Rows of logits that share coordinates.

    Attributes
    ----------
    select : array of int, shape (rows, tokens)
        Coordinate of row a at token b; -1 is the logit from which all are measured.
    sectors : tuple of arrays
        Covariance of the coordinates per unit of variance of each sector of the map.
    multiplicity : float
        Number of blocks of this law in a sample.
    on_lattice : bool
        Whether averages are taken on a lattice; otherwise over sampled points.
    """

    multiplicity: float
    on_lattice: bool

    if TYPE_CHECKING:  # fields of some blocks, computed by others

        @property
        def select(self) -> NDArray[np.int64]: ...  # noqa: D102

        @property
        def sectors(self) -> tuple[Array, ...]: ...  # noqa: D102

    @property
    def dim(self) -> int:
        """Number of coordinates of the block."""
        return len(self.sectors[0])

    @property
    def sector_count(self) -> int:
        """Number of sectors of the map."""
        return len(self.sectors)

    @property
    def is_pair(self) -> bool:
        """Whether the block is two tokens that attend to each other: two rows with one coordinate each (2.5)."""
        return self.select.shape == (2, 2) and self.dim == 2

    @property
    def is_line(self) -> bool:
        """Whether the block is one row of two columns, with one coordinate (U2.1)."""
        return self.dim == 1

    @property
    def choices(self) -> int:
        """Number of combinations of hard labels, one token per row."""
        rows, width = self.select.shape
        return int(width**rows)

    @property
    def slice(self) -> int:
        """Number of nodes in a slice."""
        return SLICE if self.dim == 1 or self.on_lattice else SHORT_SLICE

    @property
    def folded(self) -> int:
        """Number of reflection symmetries of a lattice: two for two tokens, one for a row, whose two columns can be
        exchanged.
        """
        return 2 if self.is_pair else 1

    @cached_property
    def covariance(self) -> Array:
        """C, covariance of the coordinates at unit variance in every sector."""
        return sum(self.sectors[1:], start=self.sectors[0])

    @cached_property
    def metric(self) -> Array:
        """Inverse of the covariance C."""
        return np.ascontiguousarray(np.linalg.inv(self.covariance))

    @cached_property
    def root(self) -> Array:
        """V sqrt(D) with C = V D V', which maps independent normals to coordinates (2.5)."""
        values, vectors = self._axes(self.covariance)
        return np.ascontiguousarray(vectors * np.sqrt(values))

    @cached_property
    def axes(self) -> Array:
        """Eigenvectors of the covariance, which do not depend on the variances of the sectors where their covariances
        commute.
        """
        return self._axes(sum((0.5**i * C for i, C in enumerate(self.sectors)), start=0.0 * self.sectors[0]))[1]

    def _axes(self, matrix: Array) -> tuple[Array, Array]:
        """Return eigenvalues and eigenvectors in descending order; for a row on a lattice the odd one first, along
        which it is folded.
        """
        values, vectors = np.linalg.eigh(matrix)
        if (
            not self.is_pair
        ):  # the two eigenvalues of a pair differ, and its rule does not depend on the signs of the eigenvectors
            vectors = _steady(values, vectors)
            if self.on_lattice:
                return values, vectors
        return values[::-1], vectors[:, ::-1]

    @cached_property
    def conditional_means(self) -> Array:
        """For each row a the matrix G of the start v + G (u* - v): row a at its label, the others at their conditional
        means.
        """
        fits = []
        for row in self.select:
            pick = np.zeros((len(row), self.dim))
            for b, i in enumerate(row):
                if i >= 0:
                    pick[b, i] = 1.0
            differences = pick[1:] - pick[0]
            gain = self.covariance @ differences.T
            fits.append(gain @ np.linalg.solve(differences @ gain, differences))
        return np.ascontiguousarray(fits)


def _steady(values: Array, vectors: Array) -> Array:
    """Return a basis of every eigenspace that does not depend on the machine.

    For equal eigenvalues the basis and the signs that a linear algebra library returns are decided by rounding and
    differ between processors, and with them the sampled points. Columns of the projector onto the eigenspace do not.
    """
    steady = np.empty_like(vectors)
    for value in values:
        same = np.flatnonzero(np.abs(values - value) < 1e-9 * values[-1])
        projector = vectors[:, same] @ vectors[:, same].T
        basis: list[Array] = []
        for column in projector.T:
            rest = column - sum((b * (b @ column) for b in basis), start=np.zeros(len(column)))
            if len(basis) < len(same) and np.linalg.norm(rest) > 1e-3:
                basis.append(rest / np.linalg.norm(rest))
        steady[:, same] = np.stack(basis, axis=1)
    return steady


@dataclass(frozen=True)
class ColumnGroup:
    """Columns of a row whose logits have the same ``variances``, per unit of variance of each sector of the map, and
    their ``count``.
    """

    variances: tuple[float, ...]
    count: int


@dataclass(frozen=True, kw_only=True, eq=False)
class DenseBlock(Block):
    """Several rows whose covariances are stored."""

    select: NDArray[np.int64]
    sectors: tuple[Array, ...]
    multiplicity: float = 1.0
    on_lattice: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class TiedBlock(DenseBlock):
    """All rows of a tied head: the logit of two tokens occurs in two rows."""

    @property
    def variances(self) -> Array:
        """Variances of the logits ab, a <= b: two for a token with itself, one for others."""
        tokens = len(self.select)
        return np.concatenate([[2.0, *[1.0] * (tokens - 1 - a)] for a in range(tokens)])


def _exchanged(tokens: int) -> tuple[Array, ...]:
    """Return the covariances of the T(T-1) coordinates u_ab = h_ab - h_aa of unmasked self-attention, per unit of each
    sector.
    """
    pairs = [(a, b) for a in range(tokens) for b in range(tokens) if a != b]

    def logits(one: tuple[int, int], other: tuple[int, int], sign: float) -> float:
        """Covariance of two logits per unit of variance of a sector."""
        return 0.5 * (float(one == other) + sign * float(one == other[::-1]))

    def coordinates(one: tuple[int, int], other: tuple[int, int], sign: float) -> float:
        own, others = (one[0], one[0]), (other[0], other[0])
        return (
            logits(one, other, sign) - logits(one, others, sign) - logits(own, other, sign) + logits(own, others, sign)
        )

    return tuple(np.array([[coordinates(p, r, sign) for r in pairs] for p in pairs]) for sign in (1.0, -1.0))


@dataclass(frozen=True, kw_only=True, eq=False)
class UnmaskedSelfAttention(Block):
    """All rows of untied self-attention without a mask: the logits ab and ba are correlated."""

    tokens: int
    multiplicity: float = 1.0
    on_lattice: bool = False

    @property
    def dim(self) -> int:
        """Number of coordinates, without computing their covariance."""
        return self.tokens * (self.tokens - 1)

    @property
    def sector_count(self) -> int:
        """Number of sectors: symmetric and antisymmetric."""
        return 2

    @cached_property
    def select(self) -> NDArray[np.int64]:
        """Indices of the coordinates u_ab = h_ab - h_aa, row by row."""
        found = np.full((self.tokens, self.tokens), -1, dtype=np.int64)
        found[~np.eye(self.tokens, dtype=bool)] = np.arange(self.dim)
        return found

    @cached_property
    def sectors(self) -> tuple[Array, ...]:
        """Covariances of the coordinates per unit of variance of each sector."""
        return _exchanged(self.tokens)


@dataclass(frozen=True, kw_only=True, eq=False)
class Row(Block):
    """One row of independent logits; its coordinates are differences from the last one.

    ``from_half_length``: a row that is too long to be sampled is extrapolated from half as many columns as usual.
    """

    columns: tuple[ColumnGroup, ...]
    multiplicity: float = 1.0
    on_lattice: bool = False
    from_half_length: bool = False

    @property
    def length(self) -> int:
        """Number of columns of the row."""
        return sum(column.count for column in self.columns)

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
        for sector in range(len(self.columns[0].variances)):
            variances = np.repeat([column.variances[sector] for column in self.columns], counts)
            found.append(np.diag(variances[:-1]) + variances[-1])
        return tuple(found)

    @property
    def is_pair(self) -> bool:
        """False: it is one row, not two."""
        return False

    @property
    def choices(self) -> int:
        """Number of hard labels."""
        return self.length

    @property
    def slice(self) -> int:
        """Number of nodes in a slice; fewer for long rows."""
        return super().slice if self.length <= 4 * LONG_ROW else SHORTEST_SLICE

    @cached_property
    def sampled(self) -> "Row":
        """The row that is sampled in its place, if it is too long.

        A linear extrapolation in 1/n from a row of n columns has an error of order (1/n - 1/N)/N at N columns. The
        longer the row, the shorter the sampled one may be; the error is kept below its value at twice the longest
        sampled row.
        """
        if self.length <= LONGEST_ROW:
            return self
        (first, *rest) = self.columns
        long = max(self.length, 2 * LONGEST_ROW)
        short = max(int(long / (1.0 + (0.5 * long / LONGEST_ROW) ** 2)), LONGEST_ROW // 8) // (
            2 if self.from_half_length else 1
        )
        cut = ColumnGroup(first.variances, first.count - (self.length - short))
        return replace(self, columns=(cut, *rest))

    @cached_property
    def variances(self) -> Array:
        """Variance of every logit per unit of variance of a map of one sector."""
        return self.variances_at([1.0])

    def variances_at(self, powers: Sequence[float]) -> Array:
        """Return the variance of every logit where the sectors of the map have these variances."""
        counts = [column.count for column in self.columns]
        return np.repeat([float(np.dot(column.variances, powers)) for column in self.columns], counts)

    def at(self, Q: Sequence[float], q: Sequence[float], m: Sequence[float]) -> SoftmaxRow:
        """Return the law of the row on a fresh sample for these overlaps of the sectors."""
        return cached_row(
            tuple(
                Column(column.count, *(float(np.dot(column.variances, power)) for power in (Q, q, m)))
                for column in self.columns
            )
        )
