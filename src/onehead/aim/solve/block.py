"""From a solution with leading directions to one that knows the noise of their blocks, and its errors (P10)."""

from typing import NamedTuple

import numpy as np

from onehead.aim.equations.leading_block import BlockEvolution, BlockOverlaps
from onehead.aim.equations.leading_evolution import LeadingEvolution
from onehead.aim.equations.unknowns import LeadingOverlaps
from onehead.aim.solve.iterate import SAMPLED, Vector, secants_of
from onehead.numerics.fixed_point import fixed_point

__all__ = ["BlockSolution", "with_blocks"]

POINTS, FEW, COARSE = (
    14,
    8,
    11,
)  # log2 of the points before mirroring, up to so many directions; and of those for slopes
NUDGE = 1e-3


class BlockSolution(NamedTuple):
    """The solution on all points, and what it is on each of their independent parts."""

    found: BlockOverlaps
    parts: tuple[BlockOverlaps, ...]
    residual: float
    evaluations: int


def with_blocks(problem: LeadingEvolution, alpha: float, overlaps: LeadingOverlaps) -> BlockSolution:
    """Solve the equations with blocks from the solution of those without.

    Each part of the points has its own solution, one Newton step away; how far they lie apart is the error.
    """
    equations = BlockEvolution(problem, alpha)
    start = equations.start(overlaps).logs
    slopes = _slopes(equations, start)
    size = POINTS - max(
        int(np.ceil(np.log2(problem.leading / FEW))), 0
    )  # as much memory for many directions as for few
    found = fixed_point(
        lambda y: equations.turn(y, size)[0].logs,
        start,
        tolerance=SAMPLED,
        memory=2 * start.size,
        secants=secants_of(slopes),
    )
    whole, *parts = equations.turn(found.value, size)
    response = np.linalg.inv(np.eye(start.size) - slopes)
    at = [found.value + response @ (part.logs - whole.logs) for part in parts]
    again = tuple(equations.turn(y, size)[1 + k] for k, y in enumerate(at))
    return BlockSolution(whole, again, found.residual, found.evaluations + start.size + 2 + len(parts))


def _slopes(equations: BlockEvolution, y: Vector) -> Vector:
    """F' by differences, on few points."""
    centre = equations.turn(y, COARSE)[0].logs
    return np.column_stack(
        [(equations.turn(y + step, COARSE)[0].logs - centre) / NUDGE for step in NUDGE * np.eye(y.size)]
    )
