"""Blocks of rows of logits that share coordinates: covariances and metrics.

Logits of a row matter only up to a constant, so that the coordinates u are differences of logits, Gaussian with a
covariance C per unit of variance of the map's overlap (1.4, 1.6). Rows that share coordinates form a block.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from onehead.aim.logits.row import Row

Array = NDArray[np.float64]

SLICE = 2048  # nodes in a slice: fixed, so that sums do not depend on the number of threads
SHORT_SLICE = 64  # nodes in a slice of sampled points; no part of a rule is shorter, except in the coarsest
SHORTEST_SLICE = 8  # nodes in a slice of points with many coordinates
PARTS = 8  # independent scramblings in a rule of sampled points
SHORTEST_RULE = 8  # smallest log2 of the points of the finest rule
LONG_ROW = 16  # columns beyond which longer rows need fewer points


class Block(ABC):
    """Rows of logits that share coordinates; a class for each way in which logits of different rows depend on each
    other.

    Attributes
    ----------
    multiplicity : float
        Number of blocks of this law in a sample.
    on_lattice : bool
        Whether averages are taken on a lattice; otherwise over sampled points.
    shares_logits : bool
        Whether logits of different rows are equal or correlated, so that one proximal step has the coordinates of all
        rows.
    """

    shares_logits: ClassVar[bool]
    multiplicity: float
    on_lattice: bool

    @property
    @abstractmethod
    def length(self) -> int:
        """Number of columns of every row."""

    @property
    @abstractmethod
    def row_count(self) -> int:
        """Number of rows."""

    @property
    @abstractmethod
    def dim(self) -> int:
        """Number of coordinates of the block, without computing their covariance."""

    @property
    @abstractmethod
    def sector_count(self) -> int:
        """Number of sectors of the map that the rows see."""

    @property
    @abstractmethod
    def select(self) -> NDArray[np.int64]:
        """Coordinate of row a at token b, shape (rows, tokens); -1 is the logit from which all are measured."""

    @property
    @abstractmethod
    def sectors(self) -> tuple[Array, ...]:
        """Covariance of the coordinates per unit of variance of each sector of the map."""

    @property
    @abstractmethod
    def field_covariance(self) -> Array:
        """Covariance C_g of the coordinates for a field of unit variance per token, which all rows share (D2.2)."""

    @property
    @abstractmethod
    def variances(self) -> Array:
        """Variances of independent normals that make up all logits, at unit variance in every sector."""

    @property
    @abstractmethod
    def normal_groups(self) -> NDArray[np.int64]:
        """Column of `group_weights` for each of these normals."""

    @property
    @abstractmethod
    def group_weights(self) -> Array:
        """Variance of the normals of each group per unit of variance of each sector: one row per sector."""

    @abstractmethod
    def logits_of(self, normals: Array) -> Array:
        """Return all logits, row by row, of independent normals that have the variances of their groups."""

    @property
    @abstractmethod
    def log2_points(self) -> int:
        """log2 of the number of points of the default rule, where control variates correct averages."""

    @property
    @abstractmethod
    def row(self) -> "Row":
        """One row of the block by itself."""

    @property
    @abstractmethod
    def label_kinds(self) -> int:
        """Number of laws that the columns of a row have."""

    @property
    @abstractmethod
    def sampled(self) -> "Block":
        """The block that is sampled in its place: a shorter one for a row that is too long, else the block itself."""

    @property
    @abstractmethod
    def at_half_length(self) -> "Block":
        """The block whose too long rows are extrapolated from half as many columns as usual."""

    @property
    def is_pair(self) -> bool:
        """Whether the block is two tokens that attend to each other: two rows with one coordinate each (2.5)."""
        return self.row_count == self.length == self.dim == 2

    @property
    def is_line(self) -> bool:
        """Whether the block is one row of two columns, with one coordinate (U2.1)."""
        return self.dim == 1

    @property
    def choices(self) -> int:
        """Number of combinations of hard labels, one token per row."""
        return int(self.length**self.row_count)

    @property
    def slice(self) -> int:
        """Number of nodes in a slice; fewer for long rows."""
        if self.on_lattice or self.is_line:
            return SLICE
        return SHORTEST_SLICE if self.row_count == 1 and self.length > 4 * LONG_ROW else SHORT_SLICE

    @property
    def folded(self) -> int:
        """Number of reflection symmetries of a lattice: two for two tokens, one for a row, whose two columns can be
        exchanged.
        """
        return 2 if self.is_pair else 1

    def covariance_at(self, powers: Sequence[float]) -> Array:
        """Return C(v) = sum over sectors of v_s C_s, the covariance where the sectors of the map have these
        variances.
        """
        total = powers[0] * self.sectors[0]
        for power, C in zip(powers[1:], self.sectors[1:], strict=True):
            total = total + power * C
        return total

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
