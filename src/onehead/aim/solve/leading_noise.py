"""Solves the equations of leading directions with noise of their own, from the solution without it (P10)."""

from typing import NamedTuple

import numpy as np

from onehead.aim.solve.fixed_sample_ratio import SAMPLED_TOLERANCE, Vector, secants_of
from onehead.aim.theory.order_parameters import Overlaps
from onehead.aim.theory.output.leading_noise import DirectionNoiseEvolution, DirectionNoiseOverlaps
from onehead.aim.theory.state_evolution import StateEvolution
from onehead.numerics.fixed_point import fixed_point

LOG2_POINTS, LOG2_COARSE_POINTS = 14, 11  # before mirroring: of the solution, and for derivatives
DIRECTIONS_AT_FULL_SIZE = 8  # more directions have fewer points, so that memory does not grow
DIFFERENCE_STEP = 1e-3


class DirectionNoiseSolution(NamedTuple):
    """The solution on all points, and on each of their independent parts."""

    found: DirectionNoiseOverlaps
    parts: tuple[DirectionNoiseOverlaps, ...]
    residual: float
    evaluations: int


def solve_direction_noise(problem: StateEvolution, alpha: float, overlaps: Overlaps) -> DirectionNoiseSolution:
    """Solve the equations with noise of the directions, from the solution of those without.

    Each part of the points has its own solution, one Newton step away; their spread is the error.
    """
    equations = DirectionNoiseEvolution(problem, alpha)
    start = equations.start(overlaps).coordinates
    jacobian = _jacobian(equations, start)
    size = LOG2_POINTS - max(int(np.ceil(np.log2(problem.directions.count / DIRECTIONS_AT_FULL_SIZE))), 0)
    found = fixed_point(
        lambda y: equations.step(y, size)[0].coordinates,
        start,
        tolerance=SAMPLED_TOLERANCE,
        memory=2 * start.size,
        secants=secants_of(jacobian),
    )
    overall, *parts = equations.step(found.value, size)
    response = np.linalg.inv(np.eye(start.size) - jacobian)
    at = [found.value + response @ (part.coordinates - overall.coordinates) for part in parts]
    again = tuple(equations.step(y, size)[1 + k] for k, y in enumerate(at))
    evaluations = found.evaluations + start.size + 2 + len(parts)
    return DirectionNoiseSolution(overall, again, found.residual, evaluations)


def _jacobian(equations: DirectionNoiseEvolution, y: Vector) -> Vector:
    """Return F' by differences, on few points."""
    centre = equations.step(y, LOG2_COARSE_POINTS)[0].coordinates
    moved = [equations.step(y + step, LOG2_COARSE_POINTS)[0].coordinates for step in DIFFERENCE_STEP * np.eye(y.size)]
    return np.column_stack([(there - centre) / DIFFERENCE_STEP for there in moved])
