"""Geometry of the logits of a sample: the blocks of rows of every kind of head, with their multiplicities.

Averages over a sample are sums over its blocks (`onehead.aim.logits.blocks`), weighted with their multiplicities.
Everything that depends on the number of tokens and on the mask is here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from onehead.aim.logits.blocks import LONG_ROW, Block, ColumnGroup, Row, TiedBlock, UnmaskedSelfAttention

__all__ = [
    "Geometry",
    "geometry_of",
    "independent_rows_geometry",
    "tied_geometry",
    "two_sector_geometry",
    "with_sampled_points",
]

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
        return any(block.sampled is not block for block in self.blocks)

    @cached_property
    def from_half_length(self) -> "Geometry":
        """Geometry that extrapolates from rows of half the length; the difference bounds the O(1/n²) term of the
        extrapolation (L6).
        """
        return replace(self, blocks=tuple(block.halved for block in self.blocks))

    @property
    def levels(self) -> tuple[int, ...]:
        """Quadrature levels after the coarsest, each finer: three for a lattice, one for sampled points."""
        return (3,) if self.sampled else (1, 2, 3)


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
