"""Geometry of the logits of a sample: blocks of rows with their Gaussian coordinates.

Logits of a row matter only up to a constant, so the coordinates u are differences of logits, Gaussian with a covariance C per
unit of variance of the map's overlap (1.4, 1.6). Rows that share coordinates form a block; what a head sees of a sample is a sum
over its blocks, each as often as its multiplicity says. Everything that depends on how many tokens there are, and on who sees
whom, is here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from onehead.numerics.softmax import Column, SoftmaxRow

__all__ = [
    "PARTS",
    "Block",
    "Exchanged",
    "Geometry",
    "Joint",
    "Pairs",
    "Row",
    "geometry_of",
    "on_samples",
    "tied",
]

Array = NDArray[np.float64]

SLICE = 2048  # nodes that are summed at a time: fixed, so that sums do not depend on the number of threads
SHORT_SLICE = 64  # of sampled points, which cost more; no part of a rule is shorter, but for the coarsest
SHORTEST_SLICE = 8  # of points of many coordinates
PARTS = 8  # independent scramblings in a rule of sampled points
LONG_ROW = 16  # columns from which on a row needs fewer points the longer it is
LONGEST_ROW = 2048  # columns that are sampled; what is longer is continued to the limit of long rows (L2)
KNOTS, FRESH_KNOTS = (
    0.4,
    0.2,
)  # steps of log n between the rows of a masked head that stand for all: of the prox, on fresh samples


class Block:
    """Rows of logits that share coordinates.

    ``select`` (rows, tokens) says which coordinate row a sees at token b; -1 is the logit from which all are measured.
    ``sectors`` holds the covariance of the coordinates per unit of variance of each sector of the map; a tied map has one.
    ``multiplicity`` says how often blocks of this law stand in a sample. ``on_lattice``: averages over it are taken on a lattice,
    else over sampled points.
    """

    select: NDArray[np.int64]
    sectors: tuple[Array, ...]
    multiplicity: float
    on_lattice: bool

    @property
    def dim(self) -> int:
        """Coordinates of the block."""
        return len(self.sectors[0])

    @property
    def seen(self) -> int:
        """Sectors of the map that it sees."""
        return len(self.sectors)

    @property
    def is_pair(self) -> bool:
        """Whether it is two tokens that see each other: two rows with one coordinate each (2.5)."""
        return self.select.shape == (2, 2) and self.dim == 2

    @property
    def is_line(self) -> bool:
        """Whether it is one row of two columns: one coordinate (U2.1)."""
        return self.dim == 1

    @property
    def choices(self) -> int:
        """How many hard labels it can have: a token for every row."""
        rows, width = self.select.shape
        return int(width**rows)

    @property
    def slice(self) -> int:
        """Nodes that are summed at a time."""
        return SLICE if self.dim == 1 or self.on_lattice else SHORT_SLICE

    @property
    def folded(self) -> int:
        """Reflections that leave a lattice as it is: one per coordinate of two tokens, and two columns changing places in a row."""
        return 2 if self.is_pair else 1

    @cached_property
    def covariance(self) -> Array:
        """C, at unit variance in every sector."""
        return sum(self.sectors[1:], start=self.sectors[0])

    @cached_property
    def metric(self) -> Array:
        """C^-1."""
        return np.ascontiguousarray(np.linalg.inv(self.covariance))

    @cached_property
    def root(self) -> Array:
        """V sqrt(D) with C = V D V': maps independent normals to coordinates, even and odd parts apart (2.5)."""
        values, vectors = self._axes(self.covariance)
        return np.ascontiguousarray(vectors * np.sqrt(values))

    @cached_property
    def axes(self) -> Array:
        """Directions of coordinates, the same whatever the weights of the sectors where these commute."""
        return self._axes(sum((0.5**i * C for i, C in enumerate(self.sectors)), start=0.0 * self.sectors[0]))[1]

    def _axes(self, matrix: Array) -> tuple[Array, Array]:
        """Eigenvalues and eigenvectors, from large to small; of a row on a lattice the odd one first, which is folded."""
        values, vectors = np.linalg.eigh(matrix)
        if not self.is_pair:  # the two directions of a pair are apart, and its rule does not know their signs
            vectors = _steady(values, vectors)
            if self.on_lattice:
                return values, vectors
        return values[::-1], vectors[:, ::-1]

    @cached_property
    def row_fits(self) -> Array:
        """For each row a, the matrix G with v + G (u* - v): row a at its label, the others at their conditional mean."""
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
    """The same eigenspaces, each with a basis that does not depend on the machine.

    Where eigenvalues agree, the basis that the linear algebra library gives is rounding, and so are signs: both differ from
    processor to processor, and with them the sampled points and every average over them. Columns of the projector are steady.
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
class Alike:
    """Columns of a row whose logits have the same variance, per unit of variance of each sector of the map, and how many."""

    variances: tuple[float, ...]
    count: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Joint(Block):
    """Several rows whose coordinates are written down."""

    select: NDArray[np.int64]
    sectors: tuple[Array, ...]
    multiplicity: float = 1.0
    on_lattice: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Pairs(Joint):
    """All rows of a tied head: logits of pairs of tokens, each in two rows."""

    @property
    def variances(self) -> Array:
        """Of the logits ab, a <= b: twice as much of a token with itself."""
        tokens = len(self.select)
        return np.concatenate([[2.0, *[1.0] * (tokens - 1 - a)] for a in range(tokens)])


@dataclass(frozen=True, kw_only=True, eq=False)
class Exchanged(Block):
    """All rows of untied self-attention without a mask: a logit ab knows of ba, the one exchanged with it."""

    tokens: int
    multiplicity: float = 1.0
    on_lattice: bool = False

    @property
    def dim(self) -> int:
        """Coordinates, which many tokens should not write down."""
        return self.tokens * (self.tokens - 1)

    @property
    def seen(self) -> int:
        """Both sectors."""
        return 2

    @cached_property
    def select(self) -> NDArray[np.int64]:  # type: ignore[override]  # worked out, not written down
        """u_ab = h_ab - h_aa, row by row."""
        found = np.full((self.tokens, self.tokens), -1, dtype=np.int64)
        found[~np.eye(self.tokens, dtype=bool)] = np.arange(self.dim)
        return found

    @cached_property
    def sectors(self) -> tuple[Array, ...]:  # type: ignore[override]
        """See `_exchanged`."""
        return _exchanged(self.tokens)


@dataclass(frozen=True, kw_only=True, eq=False)
class Row(Block):
    """One row of independent logits; its coordinates are differences from the last one.

    ``halved`` rows that are continued are continued from half as many columns.
    """

    columns: tuple[Alike, ...]
    multiplicity: float = 1.0
    on_lattice: bool = False
    halved: bool = False

    @property
    def length(self) -> int:
        """Columns of the row."""
        return sum(column.count for column in self.columns)

    @property
    def dim(self) -> int:
        """Coordinates, which a long row should not write down."""
        return self.length - 1

    @property
    def seen(self) -> int:
        """Sectors of the map that it sees."""
        return len(self.columns[0].variances)

    @cached_property
    def select(self) -> NDArray[np.int64]:  # type: ignore[override]  # worked out, not written down
        """One row, which sees all coordinates."""
        return np.array([[*range(self.dim), -1]])

    @cached_property
    def sectors(self) -> tuple[Array, ...]:  # type: ignore[override]
        """diag(v_b) + v_n for each sector."""
        counts, found = [column.count for column in self.columns], []
        for sector in range(len(self.columns[0].variances)):
            variances = np.repeat([column.variances[sector] for column in self.columns], counts)
            found.append(np.diag(variances[:-1]) + variances[-1])
        return tuple(found)

    @property
    def is_pair(self) -> bool:
        """It is one row, not two."""
        return False

    @property
    def choices(self) -> int:
        """How many hard labels it can have."""
        return self.length

    @property
    def slice(self) -> int:
        """Nodes that are summed at a time: a long row has few."""
        return super().slice if self.length <= 4 * LONG_ROW else SHORTEST_SLICE

    @cached_property
    def sampled(self) -> "Row":
        """The row that is sampled in its place, if it is too long.

        The longer it is the nearer its limit, and the less the sampled one counts: a line in 1/n through a row of n columns is off by
        (1/n - 1/N)/N at N columns, which is kept below its value at twice the longest that is sampled.
        """
        if self.length <= LONGEST_ROW:
            return self
        (first, *rest) = self.columns
        long = max(self.length, 2 * LONGEST_ROW)
        short = max(int(long / (1.0 + (0.5 * long / LONGEST_ROW) ** 2)), LONGEST_ROW // 8) // (2 if self.halved else 1)
        cut = Alike(first.variances, first.count - (self.length - short))
        return replace(self, columns=(cut, *rest))

    @cached_property
    def variances(self) -> Array:
        """Of every logit, for a map of one sector."""
        return self.variances_at([1.0])

    def variances_at(self, powers: Sequence[float]) -> Array:
        """Of every logit, where the sectors of the map have these."""
        counts = [column.count for column in self.columns]
        return np.repeat([float(np.dot(column.variances, powers)) for column in self.columns], counts)

    def at(self, Q: Sequence[float], q: Sequence[float], m: Sequence[float]) -> SoftmaxRow:
        """The row of a fresh sample where the sectors of the map have these overlaps."""
        return SoftmaxRow(
            tuple(
                Column(column.count, *(float(np.dot(column.variances, power)) for power in (Q, q, m)))
                for column in self.columns
            )
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Geometry:
    """What a head sees of a sample of T tokens: ``blocks`` of rows, and ``rows`` one by one, for losses on fresh samples.

    ``unit`` is 2 for a symmetric map, whose entries each stand in two logits, and 1 for one that is not (2.2, U2.1). ``exposure``
    is the largest of a logit's variance times the number of rows that see it: what holds a proximal point must hold against (2.7).
    """

    tokens: int
    blocks: Sequence[Block]
    rows: tuple[Row, ...]
    unit: float
    exposure: float

    @property
    def informative(self) -> float:
        """J, the combinations of logits per sample that carry information (1.6)."""
        return float(sum(block.multiplicity * block.dim for block in self.blocks))

    @property
    def sectors(self) -> int:
        """Parts of the map that are seen to different degrees: two, symmetric and antisymmetric, or one (U5.1)."""
        return self.blocks[0].seen

    @property
    def sampled(self) -> bool:
        """Whether averages are taken over sampled points, which see derivatives better than Stein forms (2.6)."""
        return not all(block.on_lattice for block in self.blocks)

    @property
    def continued(self) -> bool:
        """Whether some rows are too long to be sampled (L2)."""
        return any(isinstance(block, Row) and block.sampled is not block for block in self.blocks)

    @cached_property
    def halved(self) -> "Geometry":
        """The same, continued from half as many columns: what is left out of a line in 1/n is seen at least once in the difference (L6)."""
        return replace(self, blocks=tuple(replace(b, halved=True) if isinstance(b, Row) else b for b in self.blocks))

    @property
    def levels(self) -> tuple[int, ...]:
        """Quadrature rules to try after the coarsest, each finer: a lattice has more, large blocks cost more."""
        if not self.sampled:
            return (1, 2, 3)
        return (
            (3,) if all(isinstance(block, (Row, Pairs, Exchanged)) or block.dim <= 9 for block in self.blocks) else (2,)
        )


def geometry_of(attention: str, mask: str, tokens: int) -> Geometry:
    """What a head sees: ``attention`` tied, self or cross, ``mask`` none, causal or strict.

    Without its own logit a row sees independent ones, whoever the keys are: self-attention with a strict mask is cross-attention
    of one token less (U5.5).
    """
    if attention == "tied" and mask == "none":
        return tied(tokens)
    if attention == "self" and mask != "strict":
        return own_logit(tokens, mask)
    return apart(tokens, mask, symmetric=attention == "tied")


@lru_cache(maxsize=32)
def apart(tokens: int, mask: str, *, symmetric: bool) -> Geometry:
    """Rows that share no logit: each is a block, u_b = h_b - h_n over its n columns but the last, C = diag(v_b) + v_n 1 1' (U2.1, U6).

    All logits have the same variance, but for a token with itself under a tied map, which has twice as much.
    """
    longest = tokens - 1 if mask == "strict" else tokens
    own = symmetric and mask == "causal"

    def rows(counts: dict[int, float]) -> tuple[Row, ...]:
        return tuple(
            Row(
                columns=(Alike((1.0,), n - 1), Alike((2.0,), 1)) if own else (Alike((1.0,), n),),
                multiplicity=count,
                on_lattice=n == 2 or longest <= 3,  # a few more columns need sampled points anyway
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
        exposure=2.0 if own else 1.0,
    )


def _knots(longest: int, step: float, growth: int) -> dict[int, float]:
    """Lengths of rows, from two columns on, with what each counts: all rows once, or a few for many (L6).

    What a row adds to a sum is nearly n to the power ``growth``, and smooth in log n but for that: a cubic spline through the few.
    """
    every = np.arange(2, longest + 1)
    count = 1 + int(np.ceil(np.log(longest / 2) / step))
    chosen = np.unique(np.round(np.geomspace(2, longest, count)).astype(int))
    if longest <= LONG_ROW or len(chosen) == len(every):
        return dict.fromkeys(every.tolist(), 1.0)
    from scipy.interpolate import CubicSpline  # noqa: PLC0415

    # as much as n - 1, so that combinations are counted exactly
    size = (every - 1.0) ** growth
    spline = CubicSpline(np.log(chosen), np.eye(len(chosen)))(np.log(every))
    weights = size @ spline / size[chosen - 2]
    return dict(zip(chosen.tolist(), weights.tolist(), strict=True))


@lru_cache(maxsize=32)
def own_logit(tokens: int, mask: str) -> Geometry:
    """Untied self-attention that sees its own logit, which knows the symmetric part of the map alone: two sectors (U5.1, U5.2).

    With the map's symmetric and antisymmetric part of variance q_s and q_a, logits have Var h_aa = q_s, Var h_ab = (q_s + q_a)/2 and
    Cov(h_ab, h_ba) = (q_s - q_a)/2. Coordinates are u_ab = h_ab - h_aa; without a mask all rows share them, with one none do.
    """

    def rows(counts: dict[int, float]) -> tuple[Row, ...]:
        return tuple(
            Row(
                columns=(Alike((0.5, 0.5), n - 1), Alike((1.0, 0.0), 1)),
                multiplicity=count,
                on_lattice=tokens == 2 or (mask == "causal" and (n == 2 or tokens == 3)),
            )
            for n, count in counts.items()
        )

    if mask == "none":
        alone = Exchanged(tokens=tokens, on_lattice=tokens == 2)
        return Geometry(tokens=tokens, blocks=(alone,), rows=rows({tokens: float(tokens)}), unit=1.0, exposure=1.0)
    seen, fresh = rows(_knots(tokens, KNOTS, 1)), rows(_knots(tokens, FRESH_KNOTS, -1))
    return Geometry(tokens=tokens, blocks=seen, rows=fresh, unit=1.0, exposure=1.0)


def _exchanged(tokens: int) -> tuple[Array, ...]:
    """Covariances of the T(T-1) coordinates u_ab = h_ab - h_aa of self-attention without a mask, per unit of variance of each sector."""
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
def tied(tokens: int) -> Geometry:
    """Tied query and key, no mask: one block, u = h_ab - h_12 over the J = T(T+1)/2 - 1 other pairs a <= b (1.6).

    C = diag(1 + δ_ab) + 1 1'. Rows of a fresh sample are alike in law.
    """
    pairs = [(a, b) for a in range(tokens) for b in range(a, tokens) if (a, b) != (0, 1)]
    number = {pair: i for i, pair in enumerate(pairs)}
    select = np.array(
        [[number.get((min(a, b), max(a, b)), -1) for b in range(tokens)] for a in range(tokens)],
        dtype=np.int64,
    )
    covariance = np.diag([2.0 if a == b else 1.0 for a, b in pairs]) + 1.0
    row = Row(columns=(Alike((2.0,), 1), Alike((1.0,), tokens - 1)), multiplicity=tokens)  # a token with itself first
    block = Pairs(select=select, sectors=(covariance,), on_lattice=tokens == 2)
    return Geometry(tokens=tokens, blocks=(block,), rows=(row,), unit=2.0, exposure=2.0)


@lru_cache(maxsize=32)
def on_samples(known: Geometry) -> Geometry:
    """The same on sampled points throughout, as averages over more than the logits need them (P7)."""
    return replace(known, blocks=tuple(replace(block, on_lattice=False) for block in known.blocks))  # type: ignore[type-var]
