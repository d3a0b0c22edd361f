"""Quadrature rules over the logits of a block: a lattice for one or two coordinates, sampled points for more.

Sampled points come in independent parts, whose spread is the error of an average. Rules are cached; `clear_rules` frees
them.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.aim.logits.blocks import LONG_ROW, PARTS, SHORTEST_RULE, Block
from onehead.numerics.gaussian import GaussianRule, lattice, monte_carlo, sobol

Array = NDArray[np.float64]

# spacing and radius of each level of a lattice, for label and learner together; in four dimensions a checkerboard
LATTICES = {
    1: ((0.4, 6.0), (0.25, 6.5), (0.15, 7.0), (0.1, 7.5), (0.07, 7.5), (0.05, 7.5), (0.035, 7.5), (0.025, 7.5)),
    2: ((0.8, 5.5), (0.6, 6.0), (0.5, 6.2), (0.42, 6.3), (0.35, 6.4), (0.3, 6.4), (0.25, 6.5), (0.21, 6.5)),
}
FINEST_LATTICE = 7  # level with the finest lattice; those beyond 3 are for an accuracy that a user asks for
ROW_SPACING, ROW_RADIUS = 0.125, 7.5  # of the lattice of one row of two columns
LOGIT_SPACING = 0.66  # largest spacing of that lattice in units of logits
LARGEST_LATTICE = 4_000_000  # nodes of that lattice: enough for standard deviations of 120


class LogitRule(NamedTuple):
    """Quadrature nodes in coordinates of a block: label part, independent part of the learner, weights."""

    label: Array
    free: Array
    weights: Array


@lru_cache(maxsize=8)
def logit_rule(block: Block, level: int, check_rule: bool) -> LogitRule:
    """Return nodes for label and learner logits of one block.

    One or two coordinates have a lattice, folded by its reflection symmetries (2.5, U2.1); more have `PARTS`
    independent scramblings of Sobol points (2.6).

    Parameters
    ----------
    block : Block
    level : int
        0 is the coarsest.
    check_rule : bool
        Return the other rule of the level, whose difference shows the error: a finer, wider and shifted lattice, or
        other scramblings.
    """
    return _mapped(block, normal_rule(block, level, check_rule))


def normal_rule(block: Block, level: int, check_rule: bool) -> GaussianRule:
    """Return the nodes of `logit_rule` as independent normals, before they are mapped to coordinates; label first."""
    if block.on_lattice:
        known = LATTICES[block.dim]
        return _lattice(2 * block.dim, *known[min(level, len(known) - 1)], check_rule, block.folded)
    # log2 of the points before mirroring: fewer where one proximal step costs more
    finest = next((size for dim, size in ((5, 13), (14, 12), (27, 11)) if block.dim <= dim), 10)
    size = finest - 4 if level == 0 else finest - 3 + level  # the coarsest rule only serves to start
    return sobol(2 * block.dim, log2_points=size, seed=1 if check_rule else 0, parts=PARTS)


@lru_cache(maxsize=64)  # a masked head has one per row
def column_rule(row: Block, level: int, check_rule: bool) -> LogitRule:
    """Return nodes for all logits of a row in units of their standard deviations, orthogonal to the common constant
    (U2.1).

    Control variates allow fewer points than `logit_rule` has, and long rows are self-averaging.
    """
    finest = row.log2_points
    size = finest - 3 if level == 0 else finest - 3 + level
    return _all_logits(row.variances, size, check_rule)


@lru_cache(maxsize=64)
def sector_rule(block: Block, level: int, check_rule: bool, drawn: int = 0, summed: bool = False) -> LogitRule:
    """Return independent normals for all logits of a block of two sectors, each point followed by its mirror image.

    ``drawn`` more normals, one per sampled hard label, are appended to those of the learner (L7.2). Where hard labels
    of a row are ``summed`` over, every point has as many proximal points as columns, and half the points are enough.
    """
    finest = max(block.log2_points - int(summed), SHORTEST_RULE)
    size = finest - 3 if level == 0 else finest - 3 + level
    label, free, draws = _halves(len(block.normal_groups), size, check_rule, drawn)
    return _with_draws(label, free, draws)


def _halves(logits: int, size: int, check_rule: bool, drawn: int) -> list[Array]:
    """Return normals for label, learner and sampled labels, one of each pair of mirror images."""
    # in many dimensions no rule is more uniform than random points
    points = sobol if logits <= 4 * LONG_ROW else monte_carlo
    rule = points(2 * logits + drawn, log2_points=size, seed=1 if check_rule else 0, parts=PARTS)
    half = rule.nodes.reshape(PARTS, 2, -1, 2 * logits + drawn)[:, 0].reshape(-1, 2 * logits + drawn)
    return np.split(half, [logits, 2 * logits], axis=1)


def _mirrored(half: Array) -> Array:
    """Return the points, each followed by its mirror image."""
    return np.stack([half, -half], axis=1).reshape(-1, half.shape[1])


def _with_draws(label: Array, free: Array, draws: Array) -> LogitRule:
    """Return the rule of points and mirror images."""
    label, free = _mirrored(label), _mirrored(np.hstack([free, draws]))
    return LogitRule(label, free, np.full(len(label), 1.0 / len(label)))


@lru_cache(maxsize=8)
def tied_rule(block: Block, level: int, check_rule: bool, drawn: int = 0) -> LogitRule:
    """Return nodes for all logits of a tied head (L7), and for ``drawn`` sampled hard labels (L7.2)."""
    finest = block.log2_points
    return _all_logits(block.variances, finest - 3 if level == 0 else finest - 3 + level, check_rule, drawn)


def clear_rules() -> None:
    """Free the memory of all cached rules."""
    for known in (logit_rule, column_rule, tied_rule, sector_rule, wide_row_rule, sobol, monte_carlo):
        known.cache_clear()


def _all_logits(variances: Array, size: int, check_rule: bool, drawn: int = 0) -> LogitRule:
    """Return nodes for logits of these variances in units of their standard deviations, orthogonal to the common
    constant.
    """
    n = len(variances)
    constant = 1.0 / np.sqrt(variances)
    label, free, draws = _halves(n - 1, size, check_rule, drawn)
    return _with_draws(_across(constant, label), _across(constant, free), draws)


def _across(direction: Array, nodes: Array) -> Array:
    """Map nodes to the hyperplane orthogonal to ``direction`` by a Householder reflection."""
    unit = direction / np.linalg.norm(direction)
    normal = unit - np.eye(len(unit))[0]
    inside = np.hstack([np.zeros((len(nodes), 1)), nodes])
    return np.ascontiguousarray(inside - np.outer(inside @ normal, normal) * (2.0 / (normal @ normal)))


@lru_cache(maxsize=8)
def row_rule(row: Block, *, coarse: bool = False, check_rule: bool = False) -> LogitRule:
    """Return nodes for label and learner logits of one row; one coordinate has a lattice folded by its reflection
    symmetry.
    """
    if row.dim == 1:
        return _mapped(row, _lattice(2, ROW_SPACING, ROW_RADIUS, check_rule, 1))
    size = 11 if coarse else 15 if row.dim <= 7 else 14
    return _mapped(row, sobol(2 * row.dim, log2_points=size, seed=1 if check_rule else 0, parts=PARTS))


@lru_cache(maxsize=4)
def wide_row_rule(row: Block, label_parts: int, free_parts: int, check_rule: bool) -> LogitRule:
    """Return the lattice of a row of two columns with the spacing of each axis divided by a number of parts.

    A softmax of two logits is analytic in a strip of half-width π around the real axis, so that the rule is exact to
    1e-13 where the spacing is at most `LOGIT_SPACING` logits.
    """
    spacing, radius = (0.88 * ROW_SPACING, ROW_RADIUS + 0.5) if check_rule else (ROW_SPACING, ROW_RADIUS)
    offset = 0.0 if check_rule else 0.5
    lines = []
    for parts in (label_parts, free_parts):
        step = spacing / parts
        count = int(np.ceil(radius / step))
        lines.append(step * (np.arange(-count, count + 1) + offset))
    lines[0] = lines[0][lines[0] > -1e-12]  # both signs of label and learner together have the same loss
    nodes = np.stack([axis.ravel() for axis in np.meshgrid(*lines, indexing="ij")], axis=1)
    square = np.einsum("ij,ij->i", nodes, nodes)
    nodes, square = nodes[square < radius**2], square[square < radius**2]
    weights = np.where(nodes[:, 0] > 1e-12, 2.0, 1.0) * np.exp(-0.5 * square)
    return _mapped(row, GaussianRule(nodes=nodes, weights=weights / weights.sum()))


def line_parts(label_deviation: float, free_deviation: float) -> tuple[int, int]:
    """Return the numbers of parts of `wide_row_rule` for logits of these standard deviations; one and one is
    `row_rule`.

    Both are reduced together where the rule would have more than `LARGEST_LATTICE` nodes.
    """
    parts = [max(1.0, np.ceil(ROW_SPACING * one / LOGIT_SPACING)) for one in (label_deviation, free_deviation)]
    nodes = 0.5 * np.pi * (ROW_RADIUS / ROW_SPACING) ** 2 * parts[0] * parts[1]
    share = min(1.0, np.sqrt(LARGEST_LATTICE / nodes))
    label, free = (max(1, int(share * one)) for one in parts)
    return label, free


def _lattice(dim: int, spacing: float, radius: float, check_rule: bool, folded: int) -> GaussianRule:
    """Return a lattice, or the check rule whose difference shows its error.

    A shift by half a spacing alone would miss errors of the same sign on both, such as those of a steep function along
    a diagonal, and the mass beyond the radius; the check rule is therefore finer and wider too.
    """
    checkerboard = dim == 4
    if check_rule:
        spacing, radius, offset = 0.88 * spacing, radius + 0.5, 0.0
    else:
        offset = 0.5
    return lattice(dim, spacing=spacing, radius=radius, offset=offset, folded=folded, checkerboard=checkerboard)


def _mapped(block: Block, rule: GaussianRule) -> LogitRule:
    n = block.dim
    label, free = rule.nodes[:, :n] @ block.root.T, rule.nodes[:, n:] @ block.root.T
    return LogitRule(np.ascontiguousarray(label), np.ascontiguousarray(free), rule.weights)
