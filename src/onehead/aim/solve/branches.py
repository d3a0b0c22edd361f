"""Several solutions (4.7): with a loss that is not convex the equations may have more than one.

With squared loss and many columns the map emerges discontinuously: S = 0 is locally stable while a map with a lower
objective exists. The solution that a head reaches depends on its start. Here all solutions that are reached from small
weights and from the target are found; the one with the lowest objective is the minimum.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import NamedTuple

import numpy as np

from onehead.aim.logits.row import LONGEST_ROW
from onehead.aim.solve.fixed_sample_ratio import Iterate, Vector, solve_at_alpha
from onehead.aim.solve.solver import COARSE_TOLERANCE, plateau_guess
from onehead.aim.theory.limits.emergence import emergence_ratio, largest_decay
from onehead.aim.theory.limits.infinite_data import plateau_of
from onehead.aim.theory.order_parameters import Overlaps
from onehead.aim.theory.output.averages import ProxCache
from onehead.aim.theory.state_evolution import StateEvolution
from onehead.errors import OutsideDomain, SolveError

SMALL_WEIGHTS, TARGET = "small weights", "the target"  # starts from which training reaches a solution
MINIMUM_COLUMNS = 5  # of a row: with fewer the map emerges continuously
DISTINCT_LOG_DISTANCE = 0.1  # of q, above which two solutions are different
MAXIMUM_LOG_STEP = 1.5  # of q between neighbours on one branch; a larger one means that the branch has ended
CONTINUATION_FACTOR = 2.0  # of weight decay or sample ratio, the largest step of a continuation
SMALLEST_CONTINUATION_FACTOR = 1.01  # below which the branch has ended
MAXIMUM_EVALUATIONS = 60  # of a solve from the target or from small weights
NEIGHBOUR_EVALUATIONS = 15  # that a solve from a neighbour on the same branch may take; most take about five
VANISHED = 1e-3  # q over that of the target, below which a branch from below ends in S = 0
DECAY_FACTORS_BELOW = (2.0, 4.0, 8.0)  # weight decay over that at which the continuation from below starts
MAXIMUM_CONTINUATION_ERROR = 0.1  # relative, of averages over rows that are too long to be sampled
BELOW_SPINODAL = 1e-2  # relative distance from the spinodal at which a map is looked for
TRANSITION_FACTOR = 1.1  # step of the sample ratio, or of weight decay, in the search for the transition
TRANSITION_TOLERANCE = 1e-3  # of log α; the objective on the coarsest rule is not more accurate
MAXIMUM_TRANSITION_STEPS = 60
SMALL_SCALE, SMALL_SIGMA = 1e-6, 1e-9  # of a map that stands for S = 0 on a quadrature rule


class Branch(NamedTuple):
    """A solution on the coarsest rule, objective and penalty over d², and the start from which training reaches it."""

    coordinates: Vector
    objective: float
    penalty: float
    reached_from: str


class Transition(NamedTuple):
    """Where the map emerges, as sample ratios at fixed weight decay.

    ``ratio`` is where the minimum of the objective ceases to be S = 0. Where the map emerges discontinuously it lies
    between two spinodals: below ``map_spinodal`` there is no other solution than S = 0, above ``zero_spinodal`` S = 0
    is unstable. Both are None where the map emerges continuously.
    """

    ratio: float
    zero_spinodal: float | None = None
    map_spinodal: float | None = None


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


def is_saddle(jacobian: Vector | None) -> bool:
    """Whether a solution with the Jacobian F' of state evolution separates two minima: det(1 - F') is negative."""
    return jacobian is not None and bool(np.linalg.det(np.eye(len(jacobian)) - jacobian) < 0.0)


def coarse_branches(problem: StateEvolution, alpha: float, tolerance: float = COARSE_TOLERANCE) -> list[Branch]:
    """Return the solutions on the coarsest rule that are reached from small weights, from the target and from smaller
    weight decay, without the zero map. ``tolerance`` is the residual of the first two.
    """
    found: list[tuple[Overlaps, Branch]] = []
    for start, reached_from in _starts(problem, alpha):
        if start is None:
            iterate = _continue_from_below(problem, alpha)
        else:
            iterate = _solve(problem, alpha, start, MAXIMUM_EVALUATIONS, tolerance)
        if iterate is None:
            continue
        if all(is_distinct(iterate.overlaps, known) for known, _ in found):
            penalty = problem.input.penalty(iterate.overlaps)
            branch = Branch(iterate.coordinates, objective(problem, iterate), penalty, reached_from)
            found.append((iterate.overlaps, branch))
        if reached_from == TARGET:  # the continuation from below would end here too
            break
    return [branch for _, branch in found]


def _starts(problem: StateEvolution, alpha: float) -> Iterator[tuple[Vector | None, str]]:
    """Yield the map of the first step from S = 0, where it is not zero, the plateau, and None for smaller weight
    decay.
    """
    with suppress(OutsideDomain):
        yield problem.overlaps_of(problem.at_origin(alpha, 0)[1]).coordinates, SMALL_WEIGHTS
    yield _plateau(problem, alpha), TARGET
    yield None, TARGET


def _plateau(problem: StateEvolution, alpha: float) -> Vector:
    """Return the start from the target: the map of infinitely many samples."""
    return plateau_guess(problem, alpha, plateau_of(problem).c)


def _solve(
    problem: StateEvolution,
    alpha: float,
    start: Vector,
    evaluations: int | None = None,
    tolerance: float = COARSE_TOLERANCE,
) -> Iterate | None:
    """Solve on the coarsest rule, with at most so many ``evaluations``; None where that does not converge."""
    used = count()
    timed_out = None if evaluations is None else lambda: next(used) >= evaluations
    with suppress(SolveError):
        return solve_at_alpha(problem, alpha, start, 0, tolerance=tolerance, timed_out=timed_out)
    return None


def _continue_from_below(problem: StateEvolution, alpha: float) -> Iterate | None:
    """Return the solution that is reached by continuation from smaller weight decay; None where the branch ends.

    The objective of a branch rises with weight decay, so that one above S = 0 cannot become the minimum again. One that
    vanishes is reached from small weights.
    """
    zero, plateau = alpha * zero_loss(problem), _plateau(problem, alpha)
    vanished = VANISHED * problem.zero.at(plateau).q
    for factor in DECAY_FACTORS_BELOW:
        here = problem.decay / factor
        found = _solve(problem.with_decay(here), alpha, plateau)
        if found is not None:
            break
    step = CONTINUATION_FACTOR
    while found is not None and here < problem.decay:
        there = min(here * step, problem.decay)
        moved = _neighbour(problem.with_decay(there), alpha, found)
        if moved is not None:
            found, here = moved, there
            ended = found.overlaps.q < vanished or objective(problem.with_decay(here), found) > zero
            if here < problem.decay and ended:
                return None
        elif step < SMALLEST_CONTINUATION_FACTOR:
            return None
        else:
            step **= 0.5
    return found


def _neighbour(problem: StateEvolution, alpha: float, near: Iterate) -> Iterate | None:
    """Return the solution on the branch of a neighbour; None where the branch has ended."""
    found = _solve(problem, alpha, near.coordinates, NEIGHBOUR_EVALUATIONS)
    if found is None or abs(np.log(found.overlaps.q / near.overlaps.q)) > MAXIMUM_LOG_STEP:
        return None
    return found


def unsearched(problem: StateEvolution) -> list[str]:
    """Return a warning where rows are too long to look for a map with a lower objective than S = 0: labels are so wide
    that the extrapolation from shorter rows fails near the target.
    """
    geometry = problem.output.geometry
    if not (geometry.extrapolates_length and may_have_several(problem)):
        return []
    if problem.output.continuation_error(*plateau_of(problem).overlaps) < MAXIMUM_CONTINUATION_ERROR:
        return []
    return [
        "whether a map has a lower objective than S = 0 is not known: labels are too wide for the extrapolation of "
        f"rows of {geometry.tokens} tokens; take at most {LONGEST_ROW} tokens or a smaller beta0"
    ]


def objective(problem: StateEvolution, iterate: Iterate) -> float:
    """Return the training objective over d² on the rule of an iterate (2.4)."""
    averages = iterate.cache.averages
    return float(iterate.alpha * averages.loss + problem.input.penalty(iterate.overlaps))


def zero_loss(problem: StateEvolution) -> float:
    """Return the loss of S = 0 on the coarsest rule, so that its error cancels in a difference of objectives.

    Its proximal points are near zero: Newton's method would come a long way from the labels of wide logits.
    """
    small = replace(problem.best_map(SMALL_SCALE), sigma_sectors=problem.sectors * (SMALL_SIGMA,))
    from_zero = ProxCache(track_minimum=True, starts_at_zero=True)
    return float(problem.output.averages(*small.state, level=0, cache=from_zero).loss)


def emergence_transition(problem: StateEvolution) -> Transition:
    """Return the sample ratio at which the minimum ceases to be S = 0, and the spinodals on both sides of it."""
    spinodal = emergence_ratio(problem)
    if spinodal == 0.0 or not may_have_several(problem):
        return Transition(spinodal)
    zero, high = zero_loss(problem), spinodal * (1.0 - BELOW_SPINODAL)
    found = _lowest_map(problem, high, zero)
    if found is None:
        return Transition(spinodal)
    low, last, step = high, found, TRANSITION_FACTOR
    worse: tuple[float, Iterate] | None = None  # the first map whose objective is above that of S = 0
    for _ in range(MAXIMUM_TRANSITION_STEPS):
        moved = _neighbour(problem, low / step, last)
        if moved is None:
            step **= 0.5
            if step < 1.0 + TRANSITION_TOLERANCE:
                break
            continue
        low, last = low / step, moved
        if worse is None and objective(problem, moved) < low * zero:
            high, found = low, moved
        elif worse is None:
            worse = low, moved
    if worse is None:  # the map is lower as long as it exists
        return Transition(high, spinodal, low)
    below = worse[0]
    while high / below > 1.0 + TRANSITION_TOLERANCE:
        middle = float(np.sqrt(below * high))
        moved = _neighbour(problem, middle, found)
        if moved is not None and objective(problem, moved) < middle * zero:
            high, found = middle, moved
        else:
            below = middle
    return Transition(high, spinodal, low)


def vanishing_decay(problem: StateEvolution, alpha: float) -> float:
    """Return a weight decay, in reduced units, from which on S = 0 is the minimum; the smallest one to 10 % where the
    map emerges discontinuously, else exactly.
    """
    decay = largest_decay(problem, alpha)
    if not (may_have_several(problem) and problem.input.emerges):
        return decay
    zero = zero_loss(problem)
    found = _lowest_map(problem.with_decay(decay * (1.0 + BELOW_SPINODAL)), alpha, zero)
    for _ in range(MAXIMUM_TRANSITION_STEPS):
        if found is None:
            break
        decay *= TRANSITION_FACTOR
        at = problem.with_decay(decay)
        found = _neighbour(at, alpha, found)
        if found is not None and objective(at, found) > alpha * zero:
            break
    return decay


def _lowest_map(problem: StateEvolution, alpha: float, zero: float) -> Iterate | None:
    """Return the solution with the lowest objective on the coarsest rule, if it is below that of S = 0."""
    branches = coarse_branches(problem, alpha)
    if not branches:
        return None
    best = min(branches, key=lambda branch: branch.objective)
    return _solve(problem, alpha, best.coordinates) if best.objective < alpha * zero else None
