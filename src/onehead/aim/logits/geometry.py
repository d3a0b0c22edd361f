"""Geometry of the logits of a sample: blocks of rows with their Gaussian coordinates.

Logits of a row matter only up to a constant, so that the coordinates u are differences of logits, Gaussian with a
covariance C per unit of variance of the map's overlap (1.4, 1.6). Rows that share coordinates form a block; averages
over a sample are sums over its blocks, weighted with their multiplicities. Everything that depends on the number of
tokens and on the mask is here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from onehead.aim.logits.softmax_row import Column, SoftmaxRow

__all__ = [
    "PARTS",
    "Block",
    "DenseBlock",
    "Geometry",
    "Row",
    "TiedBlock",
    "UnmaskedSelfAttention",
    "geometry_of",
    "tied_geometry",
    "with_sampled_points",
]

Array = NDArray[np.float64]

SLICE = 2048  # nodes in a slice: fixed, so that sums do not depend on the number of threads
SHORT_SLICE = 64  # nodes in a slice of sampled points; no part of a rule is shorter, except in the coarsest
SHORTEST_SLICE = 8  # nodes in a slice of points with many coordinates
PARTS = 8  # independent scramblings in a rule of sampled points
LONG_ROW = 16  # columns beyond which longer rows need fewer points
LONGEST_ROW = 2048  # columns that are sampled; longer rows are extrapolated towards their limit (L2)
KNOTS, FRESH_KNOTS = (
    0.4,
    0.2,
)  # spacing in log n of the representative rows of a masked head: for the prox average, for fresh samples


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
        return SoftmaxRow(
            tuple(
                Column(column.count, *(float(np.dot(column.variances, power)) for power in (Q, q, m)))
                for column in self.columns
            )
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Geometry:
    """Logits of a sample of T tokens.

    Attributes
    ----------
    tokens : int
        T.
    blocks : sequence of Block
        Rows that share coordinates, for averages over the proximal operator.
    rows : tuple of Row
        Rows one by one, for losses on fresh samples.
    unit : float
        2 for a symmetric map, each of whose entries occurs in two logits, and 1 for others (2.2, U2.1).
    logit_load : float
        Largest variance of a logit times the number of rows that contain it, which bounds the Sigma of a convex prox
        (2.7).
    """

    tokens: int
    blocks: Sequence[Block]
    rows: tuple[Row, ...]
    unit: float
    logit_load: float

    @property
    def informative(self) -> float:
        """J, the combinations of logits per sample that carry information (1.6)."""
        return float(sum(block.multiplicity * block.dim for block in self.blocks))

    @property
    def sectors(self) -> int:
        """Number of sectors of the map: two, symmetric and antisymmetric, or one (U5.1)."""
        return self.blocks[0].sector_count

    @property
    def sampled(self) -> bool:
        """Whether averages are taken over sampled points, on which derivative forms have smaller errors than Stein
        forms (2.6).
        """
        return not all(block.on_lattice for block in self.blocks)

    @property
    def extrapolates_length(self) -> bool:
        """Whether some rows are too long to be sampled and are extrapolated (L2)."""
        return any(isinstance(block, Row) and block.sampled is not block for block in self.blocks)

    @cached_property
    def from_half_length(self) -> "Geometry":
        """Geometry that extrapolates from rows of half the length; the difference bounds the O(1/n²) term of the
        extrapolation (L6).
        """
        return replace(
            self, blocks=tuple(replace(b, from_half_length=True) if isinstance(b, Row) else b for b in self.blocks)
        )

    @property
    def levels(self) -> tuple[int, ...]:
        """Quadrature levels after the coarsest, each finer: three for a lattice, one for sampled points."""
        if not self.sampled:
            return (1, 2, 3)
        return (
            (3,)
            if all(
                isinstance(block, (Row, TiedBlock, UnmaskedSelfAttention)) or block.dim <= 9 for block in self.blocks
            )
            else (2,)
        )


def geometry_of(attention: str, mask: str, tokens: int) -> Geometry:
    """Return the geometry of a head.

    Without a token's logit with itself the logits of a row are independent: self-attention with a strict mask is
    cross-attention with one token less (U5.5).

    Parameters
    ----------
    attention : {"tied", "self", "cross"}
    mask : {"none", "causal", "strict"}
    tokens : int
    """
    if attention == "tied" and mask == "none":
        return tied_geometry(tokens)
    if attention == "self" and mask != "strict":
        return two_sector_geometry(tokens, mask)
    return independent_rows_geometry(tokens, mask, symmetric=attention == "tied")


@lru_cache(maxsize=32)
def independent_rows_geometry(tokens: int, mask: str, *, symmetric: bool) -> Geometry:
    """Return the geometry of rows that share no logit: each is a block with u_b = h_b - h_n and C = diag(v_b) + v_n 1
    1' (U2.1, U6).

    All logits have the same variance, except that of a token with itself under a tied map, which has twice as much.
    """
    longest = tokens - 1 if mask == "strict" else tokens
    own = symmetric and mask == "causal"

    def rows(counts: dict[int, float]) -> tuple[Row, ...]:
        return tuple(
            Row(
                columns=(ColumnGroup((1.0,), n - 1), ColumnGroup((2.0,), 1)) if own else (ColumnGroup((1.0,), n),),
                multiplicity=count,
                on_lattice=n == 2 or longest <= 3,  # with more than three columns some rows need sampled points anyway
            )
            for n, count in counts.items()
        )

    if mask == "none":
        seen = fresh = rows({tokens: float(tokens)})
    else:
        seen, fresh = rows(_knots(longest, KNOTS, 1)), rows(_knots(longest, FRESH_KNOTS, -1))
    return Geometry(
        tokens=tokens,
        blocks=seen,
        rows=fresh,
        unit=2.0 if symmetric else 1.0,
        logit_load=2.0 if own else 1.0,
    )


def _knots(longest: int, step: float, growth: int) -> dict[int, float]:
    """Return representative row lengths with their weights: all rows, or a few that stand for many (L6).

    The contribution of a row of n columns is n to the power ``growth`` times a smooth function of log n, which is
    interpolated by a cubic spline.
    """
    every = np.arange(2, longest + 1)
    count = 1 + int(np.ceil(np.log(longest / 2) / step))
    chosen = np.unique(np.round(np.geomspace(2, longest, count)).astype(int))
    if longest <= LONG_ROW or len(chosen) == len(every):
        return dict.fromkeys(every.tolist(), 1.0)
    from scipy.interpolate import CubicSpline

    # growth as n - 1, so that the number of combinations is exact
    size = (every - 1.0) ** growth
    spline = CubicSpline(np.log(chosen), np.eye(len(chosen)))(np.log(every))
    weights = size @ spline / size[chosen - 2]
    return dict(zip(chosen.tolist(), weights.tolist(), strict=True))


@lru_cache(maxsize=32)
def two_sector_geometry(tokens: int, mask: str) -> Geometry:
    """Return the geometry of untied self-attention with own logits, which depend on the symmetric part of the map alone
    (U5.1, U5.2).

    With variances q_s and q_a of the symmetric and the antisymmetric part, Var h_aa = q_s, Var h_ab = (q_s + q_a)/2 and
    Cov(h_ab, h_ba) = (q_s - q_a)/2. Coordinates are u_ab = h_ab - h_aa; rows share them only without a mask.
    """

    def rows(counts: dict[int, float]) -> tuple[Row, ...]:
        return tuple(
            Row(
                columns=(ColumnGroup((0.5, 0.5), n - 1), ColumnGroup((1.0, 0.0), 1)),
                multiplicity=count,
                on_lattice=tokens == 2 or (mask == "causal" and (n == 2 or tokens == 3)),
            )
            for n, count in counts.items()
        )

    if mask == "none":
        alone = UnmaskedSelfAttention(tokens=tokens, on_lattice=tokens == 2)
        return Geometry(tokens=tokens, blocks=(alone,), rows=rows({tokens: float(tokens)}), unit=1.0, logit_load=1.0)
    seen, fresh = rows(_knots(tokens, KNOTS, 1)), rows(_knots(tokens, FRESH_KNOTS, -1))
    return Geometry(tokens=tokens, blocks=seen, rows=fresh, unit=1.0, logit_load=1.0)


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


@lru_cache(maxsize=32)
def tied_geometry(tokens: int) -> Geometry:
    """Return the geometry of tied query and key without a mask: one block, u = h_ab - h_12 over the other pairs a <= b
    (1.6).

    There are J = T(T+1)/2 - 1 coordinates, with C = diag(1 + δ_ab) + 1 1'. Rows of a fresh sample have the same law.
    """
    pairs = [(a, b) for a in range(tokens) for b in range(a, tokens) if (a, b) != (0, 1)]
    number = {pair: i for i, pair in enumerate(pairs)}
    select = np.array(
        [[number.get((min(a, b), max(a, b)), -1) for b in range(tokens)] for a in range(tokens)],
        dtype=np.int64,
    )
    covariance = np.diag([2.0 if a == b else 1.0 for a, b in pairs]) + 1.0
    row = Row(
        columns=(ColumnGroup((2.0,), 1), ColumnGroup((1.0,), tokens - 1)), multiplicity=tokens
    )  # the token itself first
    block = TiedBlock(select=select, sectors=(covariance,), on_lattice=tokens == 2)
    return Geometry(tokens=tokens, blocks=(block,), rows=(row,), unit=2.0, logit_load=2.0)


@lru_cache(maxsize=32)
def with_sampled_points(known: Geometry) -> Geometry:
    """Return the geometry with sampled points in every block, as averages over leading directions need them (P7)."""
    return replace(known, blocks=tuple(replace(block, on_lattice=False) for block in known.blocks))  # type: ignore[type-var]
