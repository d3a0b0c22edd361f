"""Quadrature nodes over the logits of a block: a lattice for one or two coordinates, sampled points for more.

Sampled points come in independent parts, which show the error of an average themselves.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.aim.equations.geometry import LONG_ROW, PARTS, Block, Exchanged, Pairs, Row
from onehead.numerics.gaussian import GaussianRule, lattice, normals, sobol

__all__ = [
    "LogitRule",
    "column_rule",
    "forget_rules",
    "logit_rule",
    "normal_rule",
    "pair_rule",
    "row_rule",
    "sector_rule",
]

Array = NDArray[np.float64]

# spacing and radius of each level of a lattice, for label and learner together
LATTICES = {
    1: ((0.4, 6.0), (0.25, 6.5), (0.15, 7.0), (0.1, 7.5)),
    2: ((0.8, 5.5), (0.6, 6.0), (0.5, 6.2), (0.42, 6.3)),
}
SHORTEST_RULE = 8  # log2 of the points of its finest rule, at least


class LogitRule(NamedTuple):
    """Quadrature nodes already mapped to coordinates: label part, independent part, weights."""

    label: Array
    free: Array
    weights: Array


@lru_cache(maxsize=8)
def logit_rule(block: Block, level: int, twin: bool) -> LogitRule:
    """Nodes for the pair (label logits, learner logits) of one block.

    One or two coordinates: a lattice, folded by its reflection symmetries (2.5, U2.1); ``twin`` is finer, wider and half a
    spacing off. Else: ``PARTS`` independent scramblings of Sobol points (2.6), which show their error themselves; ``twin`` has others.
    ``level`` 0 is the coarsest.
    """
    return _mapped(block, normal_rule(block, level, twin))


def normal_rule(block: Block, level: int, twin: bool) -> GaussianRule:
    """The same nodes before they are mapped to coordinates: independent normals, label first."""
    if block.on_lattice:
        known = LATTICES[block.dim]
        return _lattice(2 * block.dim, *known[min(level, len(known) - 1)], twin, block.folded)
    # log2 of the points before mirroring: fewer where one proximal step costs more
    finest = next((size for dim, size in ((5, 13), (14, 12), (27, 11)) if block.dim <= dim), 10)
    size = finest - 4 if level == 0 else finest - 3 + level  # the coarsest only has to find the way
    return sobol(2 * block.dim, log2_points=size, seed=1 if twin else 0, parts=PARTS)


@lru_cache(maxsize=64)  # a masked head has one for every row
def column_rule(row: Row, level: int, twin: bool) -> LogitRule:
    """Nodes for all logits of a row, in units of their deviations, without the constant that nothing depends on (U2.1).

    Control variates make up for fewer points than `logit_rule` has, and long rows average by themselves.
    """
    finest = _finest(row)
    size = finest - 3 if level == 0 else finest - 3 + level
    return _all_logits(row.variances, size, twin)


@lru_cache(maxsize=64)
def sector_rule(block: Row | Exchanged, level: int, twin: bool, drawn: int = 0) -> LogitRule:
    """Independent normals, the constant included, for all logits of a block of two sectors; each is followed by its mirror image.

    So many more, one for each row whose label is ``drawn``, stand behind those of the learner (L7.2).
    """
    if isinstance(block, Row):
        logits, finest = block.length, _finest(block)
    else:
        logits, finest = block.tokens**2, _finest_of_tokens(block.tokens)
    size = finest - 3 if level == 0 else finest - 3 + level
    label, free, draws = _halves(logits, size, twin, drawn)
    return _with_draws(label, free, draws)


def _finest(row: Row) -> int:
    """log2 of the points of the usual rule of a row: fewer for long ones, which average by themselves."""
    n = row.length
    finest = 13 if row.multiplicity > 1 else 12 if n <= 5 else 11  # rows of different lengths share the work
    return max(finest - max(0, n.bit_length() - LONG_ROW.bit_length()), SHORTEST_RULE)


def _finest_of_tokens(tokens: int) -> int:
    """The same of all rows of a head without a mask."""
    return max(13 - tokens.bit_length() + 2, SHORTEST_RULE)


def _halves(logits: int, size: int, twin: bool, drawn: int) -> list[Array]:
    """Normals for label, learner and draws, one of each pair of mirror images."""
    # so many coordinates at once no rule fills better than chance
    points = sobol if logits <= 4 * LONG_ROW else normals
    rule = points(2 * logits + drawn, log2_points=size, seed=1 if twin else 0, parts=PARTS)
    half = rule.nodes.reshape(PARTS, 2, -1, 2 * logits + drawn)[:, 0].reshape(-1, 2 * logits + drawn)
    return np.split(half, [logits, 2 * logits], axis=1)


def _mirrored(half: Array) -> Array:
    """Each followed by its mirror image."""
    return np.stack([half, -half], axis=1).reshape(-1, half.shape[1])


def _with_draws(label: Array, free: Array, draws: Array) -> LogitRule:
    """The rule of both mirror images."""
    label, free = _mirrored(label), _mirrored(np.hstack([free, draws]))
    return LogitRule(label, free, np.full(len(label), 1.0 / len(label)))


@lru_cache(maxsize=8)
def pair_rule(block: Pairs, level: int, twin: bool, drawn: int = 0) -> LogitRule:
    """The same for all logits of a tied head (L7), and rows whose label is ``drawn`` (L7.2)."""
    finest = _finest_of_tokens(len(block.select))
    return _all_logits(block.variances, finest - 3 if level == 0 else finest - 3 + level, twin, drawn)


def forget_rules() -> None:
    """Give back the memory of all sampled points, which fine rules have many of."""
    for known in (logit_rule, column_rule, pair_rule, sector_rule, sobol, normals):
        known.cache_clear()


def _all_logits(variances: Array, size: int, twin: bool, drawn: int = 0) -> LogitRule:
    """Nodes for logits of these variances, in units of their deviations, across the constant; each is followed by its mirror image."""
    n = len(variances)
    constant = 1.0 / np.sqrt(variances)
    label, free, draws = _halves(n - 1, size, twin, drawn)
    return _with_draws(_across(constant, label), _across(constant, free), draws)


def _across(direction: Array, nodes: Array) -> Array:
    """Nodes as coordinates in the plane across a direction: the reflection that turns the first axis into it takes them there."""
    unit = direction / np.linalg.norm(direction)
    normal = unit - np.eye(len(unit))[0]
    inside = np.hstack([np.zeros((len(nodes), 1)), nodes])
    return np.ascontiguousarray(inside - np.outer(inside @ normal, normal) * (2.0 / (normal @ normal)))


@lru_cache(maxsize=8)
def row_rule(row: Block, *, coarse: bool = False, twin: bool = False) -> LogitRule:
    """Nodes for one row of logits, label and learner; one coordinate: a lattice in the plane, folded by its reflection symmetry."""
    if row.dim == 1:
        return _mapped(row, _lattice(2, 0.125, 7.5, twin, 1))
    size = 11 if coarse else 15 if row.dim <= 7 else 14
    return _mapped(row, sobol(2 * row.dim, log2_points=size, seed=1 if twin else 0, parts=PARTS))


def _lattice(dim: int, spacing: float, radius: float, twin: bool, folded: int) -> GaussianRule:
    """A lattice, or the twin that shows its error.

    Moved by half a spacing alone the twin would not see errors that have the same sign on both, such as those of a steep function
    along a diagonal, nor what lies beyond the radius.
    """
    if twin:
        return lattice(dim, spacing=0.88 * spacing, radius=radius + 0.5, offset=0.0, folded=folded)
    return lattice(dim, spacing=spacing, radius=radius, offset=0.5, folded=folded)


def _mapped(block: Block, rule: GaussianRule) -> LogitRule:
    n = block.dim
    label, free = rule.nodes[:, :n] @ block.root.T, rule.nodes[:, n:] @ block.root.T
    return LogitRule(np.ascontiguousarray(label), np.ascontiguousarray(free), rule.weights)
