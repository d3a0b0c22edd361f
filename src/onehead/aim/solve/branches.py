"""Several solutions (4.7): with a loss that is not convex the equations may have more than one.

With squared loss and many columns the map emerges discontinuously: S = 0 is locally stable while a map with a lower
objective exists. The solution that a head reaches depends on its start. Here all solutions that are reached from small
weights and from the target are found; the one with the lowest objective is the minimum.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from onehead.aim.solve.fixed_sample_ratio import Iterate, Vector, solve_at_alpha
from onehead.aim.solve.solver import COARSE_TOLERANCE, plateau_guess
from onehead.aim.theory.limits.emergence import emergence_ratio
from onehead.aim.theory.limits.infinite_data import plateau_of
from onehead.aim.theory.order_parameters import Overlaps
from onehead.aim.theory.state_evolution import StateEvolution
from onehead.errors import OutsideDomain, SolveError

__all__ = [
    "SMALL_WEIGHTS",
    "TARGET",
    "Branch",
    "coarse_branches",
    "is_distinct",
    "may_have_several",
    "transition_ratio",
]

SMALL_WEIGHTS, TARGET = "small weights", "the target"  # starts from which training reaches a solution
MINIMUM_COLUMNS = 5  # of a row: with fewer the map emerges continuously
DISTINCT_LOG_DISTANCE = 0.1  # of q, above which two solutions are different
TRANSITION_STEP = 0.9  # factor of the sample ratio in the search for the transition
TRANSITION_TOLERANCE = 1e-3  # of log α; the objective on the coarsest rule is not more accurate
MAXIMUM_TRANSITION_STEPS = 40


class Branch(NamedTuple):
    """A solution on the coarsest rule, its objective over d², and the start from which training reaches it."""

    coordinates: Vector
    objective: float
    reached_from: str


def may_have_several(problem: StateEvolution) -> bool:
    """Whether the equations may have several solutions: a loss that is not convex, rows of many columns, weight
    decay.
    """
    columns = max(row.length for row in problem.output.geometry.rows)
    convex = problem.output.loss.convex
    return not convex and columns >= MINIMUM_COLUMNS and problem.directions.separate and problem.decay > 0.0


def is_distinct(one: Overlaps, other: Overlaps) -> bool:
    """Whether two solutions differ by more than the coarsest rule is off."""
    if min(one.q, other.q) == 0.0:
        return max(one.q, other.q) > 0.0
    return bool(abs(np.log(one.q / other.q)) > DISTINCT_LOG_DISTANCE)


def coarse_branches(problem: StateEvolution, alpha: float) -> list[Branch]:
    """Return the solutions on the coarsest rule that are reached from small weights and from the target, without the
    zero map.
    """
    found: list[tuple[Overlaps, Branch]] = []
    for start, reached_from in _starts(problem, alpha):
        with suppress(SolveError):
            iterate = solve_at_alpha(problem, alpha, start, 0, tolerance=COARSE_TOLERANCE)
            if all(is_distinct(iterate.overlaps, known) for known, _ in found):
                branch = Branch(iterate.coordinates, _objective(problem, iterate), reached_from)
                found.append((iterate.overlaps, branch))
    return [branch for _, branch in found]


def _starts(problem: StateEvolution, alpha: float) -> Iterator[tuple[Vector, str]]:
    """Yield the map of the first step from S = 0, where it is not zero, and the plateau."""
    with suppress(OutsideDomain):
        yield problem.overlaps_of(problem.at_origin(alpha, 0)[1]).coordinates, SMALL_WEIGHTS
    yield plateau_guess(problem, alpha, plateau_of(problem).c), TARGET


def _objective(problem: StateEvolution, iterate: Iterate) -> float:
    """Return the training objective over d² on the rule of an iterate (2.4)."""
    averages = iterate.cache.averages
    return float(iterate.alpha * averages.loss + problem.input.penalty(iterate.overlaps))


def transition_ratio(problem: StateEvolution) -> tuple[float, float | None]:
    """Return the sample ratio at which the minimum ceases to be S = 0, and the spinodal where S = 0 becomes unstable.

    The spinodal is None where the map emerges continuously, and both are the same.
    """
    spinodal = emergence_ratio(problem)
    if spinodal == 0.0 or not may_have_several(problem) or not _beats_zero(problem, spinodal * (1.0 - 1e-2)):
        return spinodal, None
    high = spinodal * (1.0 - 1e-2)
    low = high
    for _ in range(MAXIMUM_TRANSITION_STEPS):
        low *= TRANSITION_STEP
        if not _beats_zero(problem, low):
            break
        high = low
    while high / low > 1.0 + TRANSITION_TOLERANCE:
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if _beats_zero(problem, middle) else (middle, high)
    return high, spinodal


def _beats_zero(problem: StateEvolution, alpha: float) -> bool:
    """Whether a map that is not zero has a lower objective than S = 0, on the coarsest rule."""
    zero = alpha * problem.output.fresh_loss(*problem.zero.values, coarse=True)
    return any(branch.objective < zero for branch in coarse_branches(problem, alpha))
