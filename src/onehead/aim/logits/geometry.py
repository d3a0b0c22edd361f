"""Geometry of the logits of a sample: the blocks of rows of every kind of head, with their multiplicities.

Averages over a sample are sums over its blocks (`onehead.aim.logits.blocks`), weighted with their multiplicities.
Everything that depends on the number of tokens and on the mask is here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from onehead.aim.logits.blocks import LONG_ROW, Block
from onehead.aim.logits.row import ColumnGroup, Row
from onehead.aim.logits.shared_logits import TiedBlock, UnmaskedSelfAttention
from onehead.aim.mask import Mask, is_nested, row_kinds

Array = NDArray[np.float64]

KNOTS = 0.4  # spacing in log n of the representative rows of a masked head, for averages over the prox
FRESH_KNOTS = 0.2  # the same for fresh samples


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
    nested : bool
        Whether the columns of every row are among those of every longer row.
    """

    tokens: int
    blocks: Sequence[Block]
    rows: tuple[Row, ...]
    unit: float
    logit_load: float
    nested: bool = True

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
        return any(block.sampled is not block for block in self.blocks)

    @cached_property
    def from_half_length(self) -> "Geometry":
        """Geometry that extrapolates from rows of half the length; the difference bounds the O(1/n²) term of the
        extrapolation (L6).
        """
        return replace(self, blocks=tuple(block.at_half_length for block in self.blocks))

    @property
    def levels(self) -> tuple[int, ...]:
        """Quadrature levels after the coarsest, each finer: three for a lattice, one for sampled points."""
        return (3,) if self.sampled else (1, 2, 3)


def geometry_of(attention: str, mask: str, tokens: int) -> Geometry:
    """Return the geometry of a head.

    Without a token's logit with itself the logits of a row are independent: self-attention with a strict mask is
    cross-attention with one token less (U5.5). With a mask of one's own, rows of tied heads and of self-attention share
    no logit because no two tokens attend to each other; only the number of columns of a row matters, and whether the
    own token is among them.

    Parameters
    ----------
    attention : {"tied", "self", "cross"}
    mask : {"none", "causal", "strict"} or Mask
    tokens : int
    """
    if attention == "tied" and mask == "none":
        return tied_geometry(tokens)
    if attention == "self" and any(own for own, _, _ in _row_counts(tokens, mask)):
        return two_sector_geometry(tokens, mask)
    return independent_rows_geometry(tokens, mask, symmetric=attention == "tied")


@lru_cache(maxsize=32)
def independent_rows_geometry(tokens: int, mask: str, *, symmetric: bool) -> Geometry:
    """Return the geometry of rows that share no logit: each is a block with u_b = h_b - h_n and C = diag(v_b) + v_n 1
    1' (U2.1, U6). Rows of one law are a block with a multiplicity.

    All logits have the same variance, except that of a token with itself under a tied map, which has twice as much.
    """
    counts = _row_counts(tokens, mask)
    load = 2.0 if symmetric and any(own for own, _, _ in counts) else 1.0
    if not symmetric:  # the own token is a column like any other
        counts = _merged(counts)

    def row(length: int, own: bool) -> Row:
        return masked_row(length, symmetric and own, (2.0,), (1.0,))

    seen, fresh = _represented(counts, row)
    return Geometry(
        tokens=tokens,
        blocks=seen,
        rows=fresh,
        unit=2.0 if symmetric else 1.0,
        logit_load=load,
        nested=not isinstance(mask, Mask) or is_nested(mask),
    )


def masked_row(length: int, own: bool, own_variances: tuple[float, ...], variances: tuple[float, ...]) -> Row:
    """Return a row of this many columns; if it has one, the token's own is the last. Columns have these variances per
    unit of variance of each sector of the map.
    """
    if own:
        return Row(columns=(ColumnGroup(variances, length - 1), ColumnGroup(own_variances, 1)))
    return Row(columns=(ColumnGroup(variances, length),))


Counts = tuple[tuple[bool, NDArray[np.int64], Array], ...]  # whether rows have their own column, lengths, numbers


@lru_cache(maxsize=32)
def _row_counts(tokens: int, mask: str) -> Counts:
    """Return the numbers of rows of a mask by whether a row has the token's own column, and by its length."""
    if isinstance(mask, Mask):
        kinds = row_kinds(mask)
        some = [[kind for kind in kinds if kind.own == own] for own in (True, False)]
        return tuple(
            (of[0].own, np.array([kind.length for kind in of]), np.array([float(kind.number) for kind in of]))
            for of in some
            if of
        )
    if mask == "none":
        return ((True, np.array([tokens]), np.array([float(tokens)])),)
    lengths = np.arange(2, (tokens - 1 if mask == "strict" else tokens) + 1)
    return ((mask == "causal", lengths, np.ones(len(lengths))),)


def _merged(counts: Counts) -> Counts:
    """Return the numbers of rows by their length alone."""
    lengths = np.unique(np.concatenate([lengths for _, lengths, _ in counts]))
    numbers = sum(
        (np.where(np.isin(lengths, own), np.bincount(own, number, lengths[-1] + 1)[lengths], 0.0))
        for _, own, number in counts
    )
    return ((False, lengths, np.asarray(numbers)),)


def _represented(counts: Counts, row: Callable[[int, bool], Row]) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """Return rows for averages over the prox and for fresh samples: all rows, or a few that stand for many (L6)."""
    longest = max(int(lengths[-1]) for _, lengths, _ in counts)

    def rows(step: float, growth: int) -> tuple[Row, ...]:
        return tuple(
            replace(
                row(n, own),
                multiplicity=count,
                on_lattice=n == 2 or longest <= 3,  # with more than three columns some rows need sampled points anyway
            )
            for own, lengths, numbers in counts
            for n, count in _knots(lengths, numbers, step, growth).items()
        )

    return rows(KNOTS, 1), rows(FRESH_KNOTS, -1)


def _knots(lengths: NDArray[np.int64], numbers: Array, step: float, growth: int) -> dict[int, float]:
    """Return representative row lengths with their weights: all rows, or a few that stand for many (L6).

    The contribution of a row of n columns is n to the power ``growth`` times a smooth function of log n, which is
    interpolated by a cubic spline.
    """
    shortest, longest = int(lengths[0]), int(lengths[-1])
    count = 1 + int(np.ceil(np.log(longest / shortest) / step))
    chosen = np.unique(np.round(np.geomspace(shortest, longest, count)).astype(int))
    if longest <= LONG_ROW or len(chosen) >= len(lengths):
        return dict(zip(lengths.tolist(), numbers.tolist(), strict=True))
    from scipy.interpolate import CubicSpline

    # growth as n - 1, so that the number of combinations is exact
    spline = CubicSpline(np.log(chosen), np.eye(len(chosen)))(np.log(lengths))
    weights = numbers * (lengths - 1.0) ** growth @ spline / (chosen - 1.0) ** growth
    return dict(zip(chosen.tolist(), weights.tolist(), strict=True))


@lru_cache(maxsize=32)
def two_sector_geometry(tokens: int, mask: str) -> Geometry:
    """Return the geometry of untied self-attention with own logits, which depend on the symmetric part of the map alone
    (U5.1, U5.2).

    With variances q_s and q_a of the symmetric and the antisymmetric part, Var h_aa = q_s, Var h_ab = (q_s + q_a)/2 and
    Cov(h_ab, h_ba) = (q_s - q_a)/2. Coordinates are u_ab = h_ab - h_aa; rows share them only without a mask. With a
    mask of one's own the last column of a row may be another than the own one.
    """

    def row(length: int, own: bool) -> Row:
        return masked_row(length, True, (1.0, 0.0) if own else (0.5, 0.5), (0.5, 0.5))

    blocks: tuple[Block, ...]
    blocks, fresh = _represented(_row_counts(tokens, mask), row)
    if mask == "none":
        blocks = (UnmaskedSelfAttention(tokens=tokens, on_lattice=tokens == 2),)
        fresh = tuple(replace(one, on_lattice=tokens == 2) for one in fresh)
    return Geometry(tokens=tokens, blocks=blocks, rows=fresh, unit=1.0, logit_load=1.0)


@lru_cache(maxsize=32)
def one_sector_rows(known: Geometry) -> Geometry:
    """Return the geometry of cross-attention that has as many rows of each length as this one, whose rows share no
    logit.
    """

    def alike(rows: Sequence[Block]) -> tuple[Row, ...]:
        return tuple(
            Row(columns=(ColumnGroup((1.0,), row.length),), multiplicity=row.multiplicity, on_lattice=row.on_lattice)
            for row in rows
        )

    return replace(known, blocks=alike(known.blocks), rows=alike(known.rows), logit_load=1.0)


@lru_cache(maxsize=32)
def tied_geometry(tokens: int) -> Geometry:
    """Return the geometry of tied query and key without a mask: one block (1.6). Rows of a fresh sample have the same
    law.
    """
    block = TiedBlock(tokens=tokens, on_lattice=tokens == 2)
    rows = (replace(block.row, multiplicity=tokens),)
    return Geometry(tokens=tokens, blocks=(block,), rows=rows, unit=2.0, logit_load=2.0)


@lru_cache(maxsize=32)
def with_sampled_points(known: Geometry) -> Geometry:
    """Return the geometry with sampled points in every block, as averages over leading directions need them (P7)."""
    return replace(known, blocks=tuple(replace(block, on_lattice=False) for block in known.blocks))  # type: ignore[type-var]


@lru_cache(maxsize=32)
def with_sampled_rows(known: Geometry) -> Geometry:
    """Return the geometry with sampled points in all rows of more than two columns that share no logit.

    Control variates make them more accurate than a lattice where logits are wide, as those of tokens with a mean are.
    """
    blocks = tuple(
        block if block.shares_logits or block.is_line else replace(block, on_lattice=False)  # type: ignore[type-var]
        for block in known.blocks
    )
    return replace(known, blocks=blocks)
