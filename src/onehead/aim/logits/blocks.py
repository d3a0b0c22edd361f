"""Blocks of rows of logits that share coordinates: covariances, metrics, and the rows of heads.

Logits of a row matter only up to a constant, so that the coordinates u are differences of logits, Gaussian with a
covariance C per unit of variance of the map's overlap (1.4, 1.6). Rows that share coordinates form a block.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from onehead.aim.logits.softmax_row import Column, SoftmaxRow, cached_row

__all__ = [
    "LONGEST_ROW",
    "LONG_ROW",
    "PARTS",
    "SHORTEST_RULE",
    "SLICE",
    "Block",
    "ColumnGroup",
    "Row",
    "TiedBlock",
    "UnmaskedSelfAttention",
]

Array = NDArray[np.float64]

SLICE = 2048  # nodes in a slice: fixed, so that sums do not depend on the number of threads
SHORT_SLICE = 64  # nodes in a slice of sampled points; no part of a rule is shorter, except in the coarsest
SHORTEST_SLICE = 8  # nodes in a slice of points with many coordinates
PARTS = 8  # independent scramblings in a rule of sampled points
SHORTEST_RULE = 8  # smallest log2 of the points of the finest rule
LONG_ROW = 16  # columns beyond which longer rows need fewer points
LONGEST_ROW = 4096  # columns that are sampled; longer rows are extrapolated towards their limit (L2)


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
    def halved(self) -> "Block":
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


@dataclass(frozen=True)
class ColumnGroup:
    """Columns of a row whose logits have the same ``variances``, per unit of variance of each sector of the map, and
    their ``count``.
    """

    variances: tuple[float, ...]
    count: int


@dataclass(frozen=True, kw_only=True, eq=False)
class SharedLogits(Block):
    """Abstract block of all rows of a head without a mask, whose logits are equal or correlated."""

    shares_logits = True

    tokens: int
    multiplicity: float = 1.0
    on_lattice: bool = False

    @property
    def length(self) -> int:
        """Number of tokens."""
        return self.tokens

    @property
    def row_count(self) -> int:
        """Number of tokens."""
        return self.tokens

    @property
    def log2_points(self) -> int:
        """log2 of the number of points: fewer for many tokens, whose rows average themselves."""
        return max(13 - self.tokens.bit_length() + 2, SHORTEST_RULE)

    @property
    def label_kinds(self) -> int:
        """Two: a row sees its own token."""
        return 2

    @property
    def sampled(self) -> Self:
        """The block itself: rows that share logits are sampled at every length."""
        return self

    @property
    def halved(self) -> Self:
        """The block itself."""
        return self


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class TiedBlock(SharedLogits):
    """All rows of a tied head: the logit of two tokens occurs in two rows, and coordinates are u = h_ab - h_12 over the
    other pairs a <= b (1.6).
    """

    @property
    def dim(self) -> int:
        """T(T+1)/2 - 1."""
        return self.tokens * (self.tokens + 1) // 2 - 1

    @property
    def sector_count(self) -> int:
        """One: the map is symmetric."""
        return 1

    @cached_property
    def _pairs(self) -> list[tuple[int, int]]:
        """Pairs a <= b of the coordinates."""
        return [(a, b) for a in range(self.tokens) for b in range(a, self.tokens) if (a, b) != (0, 1)]

    @cached_property
    def select(self) -> NDArray[np.int64]:
        """Indices of the coordinates, row by row."""
        number = {pair: i for i, pair in enumerate(self._pairs)}
        tokens = range(self.tokens)
        return np.array([[number.get((min(a, b), max(a, b)), -1) for b in tokens] for a in tokens], dtype=np.int64)

    @cached_property
    def sectors(self) -> tuple[Array, ...]:
        """C = diag(1 + δ_ab) + 1 1'."""
        return (np.diag([2.0 if a == b else 1.0 for a, b in self._pairs]) + 1.0,)

    @cached_property
    def field_covariance(self) -> Array:
        """Covariance for fields: the logit of two tokens has both fields, relative to those of the first pair."""
        fields = np.zeros((self.dim, self.tokens))
        for i, (a, b) in enumerate(self._pairs):
            fields[i, a] += 1.0
            fields[i, b] += 1.0
        fields[:, :2] -= 1.0
        return np.asarray(fields @ fields.T)

    @property
    def variances(self) -> Array:
        """Variances of the logits ab, a <= b: two for a token with itself, one for others."""
        return np.concatenate([[2.0, *[1.0] * (self.tokens - 1 - a)] for a in range(self.tokens)])

    @property
    def normal_groups(self) -> NDArray[np.int64]:
        """Zero for all: there is one group, up to the factors of `variances`."""
        return np.zeros(self.dim + 1, dtype=np.int64)

    @property
    def group_weights(self) -> Array:
        """One."""
        return np.eye(1)

    def logits_of(self, normals: Array) -> Array:
        """Return the logits ab, a <= b: each once."""
        return normals

    @cached_property
    def row(self) -> "Row":
        """One row, the token itself first."""
        return Row(columns=(ColumnGroup((2.0,), 1), ColumnGroup((1.0,), self.tokens - 1)))


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


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class UnmaskedSelfAttention(SharedLogits):
    """All rows of untied self-attention without a mask: the logits ab and ba are correlated."""

    @property
    def dim(self) -> int:
        """T(T-1)."""
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

    @cached_property
    def field_covariance(self) -> Array:
        """Covariance of g_b - g_a."""
        fields = np.zeros((self.dim, self.tokens))
        for a, row in enumerate(self.select):
            for b, i in enumerate(row):
                if i >= 0:
                    fields[i, b], fields[i, a] = 1.0, -1.0
        return np.asarray(fields @ fields.T)

    @property
    def variances(self) -> Array:
        """One for each logit."""
        return np.ones(self.tokens**2)

    @property
    def normal_groups(self) -> NDArray[np.int64]:
        """Sectors of the normals: own logits are symmetric, then for every pair a < b comes its symmetric and its
        antisymmetric part.
        """
        pairs = self.tokens * (self.tokens - 1) // 2
        return np.concatenate([np.zeros(self.tokens, dtype=np.int64), np.tile([0, 1], pairs)])

    @property
    def group_weights(self) -> Array:
        """Identity: the groups are the sectors."""
        return np.eye(2)

    def logits_of(self, normals: Array) -> Array:
        """Return the logits of own tokens, and h_ab, h_ba = (symmetric part ± antisymmetric part)/sqrt 2."""
        tokens, found = self.tokens, np.empty((len(normals), self.tokens, self.tokens))
        found[:, range(tokens), range(tokens)] = normals[:, :tokens]
        above, even, odd = np.triu_indices(tokens, 1), normals[:, tokens::2], normals[:, tokens + 1 :: 2]
        found[:, above[0], above[1]] = np.sqrt(0.5) * (even + odd)
        found[:, above[1], above[0]] = np.sqrt(0.5) * (even - odd)
        return found.reshape(len(normals), -1)

    @cached_property
    def row(self) -> "Row":
        """One row, the token itself last."""
        return Row(columns=(ColumnGroup((0.5, 0.5), self.tokens - 1), ColumnGroup((1.0, 0.0), 1)))


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
    def halved(self) -> "Row":
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
