"""Solution on one quadrature rule, and the correction of a solution on the coarsest one."""

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from onehead.aim.solve.continuation import refine
from onehead.aim.solve.error_estimate import Linearisation, linearise
from onehead.aim.solve.fixed_sample_ratio import (
    Iterate,
    NegativeOverlap,
    Secants,
    Vector,
    solve_at_alpha,
    state_evolution_step,
)
from onehead.aim.solve.linear_averages import solve_with_linear_averages
from onehead.aim.solve.strategy import can_continue_in_decay, can_fix_sigma
from onehead.aim.theory.limits.emergence import largest_decay
from onehead.aim.theory.output.averages import ProxCache
from onehead.aim.theory.state_evolution import StateEvolution
from onehead.errors import NotConverged, SolveError

MAXIMUM_RULE_SHIFT = 2.5  # of a coordinate between rules; a larger one means another solution, not a quadrature error
CLOSE = 1e-2  # change of the coordinates within which derivatives and proximal points stay good
WIDE_LOGITS = 10.0  # standard deviation of label logits beyond which labels are nearly one-hot
SMALL_DECAY = 0.1  # share of the weight decay at which the map vanishes


def distance(one: Vector, other: Vector) -> float:
    """Return the largest difference of two vectors."""
    return float(np.max(np.abs(one - other)))


class Correction(NamedTuple):
    """Shift of a solution on the coarsest lattice towards that on the next one, to first order.

    ``coarse_error`` is the part of the shift of the overlaps that is due to the rules, ``switch_mass`` the share of
    samples with a lower minimum than the one near the label.
    """

    linearisation: Linearisation
    shift: Vector
    coarse_error: float
    switch_mass: float

    @property
    def size(self) -> float:
        """Largest change of a coordinate."""
        return float(np.max(np.abs(self.shift)))


def correct_coarse_solution(
    problem: StateEvolution, alpha: float, coordinates: Vector, level: int
) -> Correction | None:
    """Return the correction of a solution on the coarsest lattice by one evaluation on a finer one; None where that
    fails.
    """
    try:
        linearisation = linearise(problem, alpha, coordinates)
        gap = state_evolution_step(problem, alpha, coordinates, level)[1].coordinates - coordinates
    except SolveError:
        return None
    shift, by_rule = linearisation.response @ gap, linearisation.response @ (gap - linearisation.gap)
    overlaps = problem.zero.at(coordinates)
    error = float(np.max(np.abs(by_rule[: len(overlaps.value_coordinates)])))
    return Correction(linearisation, shift, error, problem.output.switch_mass(*overlaps.state, level=0))


def solve_at_level(
    problem: StateEvolution,
    alpha: float,
    coordinates: Vector,
    level: int,
    secants: Secants,
    *,
    is_close: bool = False,
    linearisation: Linearisation | None = None,
) -> Iterate:
    """Solve on one rule: at fixed α, else at fixed Sigma with every prox kept in its minimum and α or λ as the
    unknown.

    Where the coordinates are close to the solution, proximal points start from those of the last evaluation; where the
    ``linearisation`` has the slopes of averages over sampled points, these are extrapolated.
    """
    output = problem.output
    if output.geometry.sampled and linearisation is not None and linearisation.averages is not None:
        smooth = output.single_minimum or output.convex_at(*problem.zero.at(coordinates).sigmas)
        if smooth:
            with suppress(SolveError):
                return solve_with_linear_averages(problem, alpha, coordinates, level, linearisation)
    if is_close:
        with suppress(SolveError):
            cache = ProxCache(track_minimum=False, reuse_points=True)
            near = solve_at_alpha(problem, alpha, coordinates, level, secants=secants, cache=cache)
            if distance(near.coordinates, coordinates) < CLOSE:
                return near
    routes: list[Callable[[], Iterate]] = [lambda: solve_at_alpha(problem, alpha, coordinates, level, secants=secants)]
    if can_fix_sigma(problem):
        routes.append(lambda: refine(problem, alpha, coordinates, level))
    else:
        tracking = ProxCache(track_minimum=True)
        routes.append(lambda: solve_at_alpha(problem, alpha, coordinates, level, cache=tracking))
    if can_continue_in_decay(problem):
        routes.append(lambda: refine(problem, alpha, coordinates, level, by_decay=True))
    failure: SolveError = NotConverged("the equations have several solutions far apart.")
    for route in routes:
        try:
            found = route()
        except NegativeOverlap:
            raise
        except SolveError as error:
            failure = error
            continue
        if distance(found.coordinates, coordinates) < MAXIMUM_RULE_SHIFT:
            return found
    raise no_solution_error(problem, alpha, failure) from failure


def no_solution_error(problem: StateEvolution, alpha: float, failure: SolveError) -> NotConverged:
    """Return the error that a user gets when every route has failed, with the cause that applies."""
    deviation = float(np.sqrt(problem.label_power))
    causes, advice = [], "move alpha or weight_decay"
    if deviation > WIDE_LOGITS:
        causes.append(
            f"label logits of standard deviation {deviation:.3g} make labels nearly one-hot, which the quadrature "
            "rules do not resolve"
        )
        mostly_unasked = problem.directions.separate_power > 0.5 * problem.label_power
        advice = f"lower {'unasked, ' if mostly_unasked else ''}beta0 or the power of the target"
    if problem.noise > 0.0 and problem.decay < SMALL_DECAY * largest_decay(problem, alpha):
        causes.append(
            "with noisy labels and so little weight decay the output layer has many competing minima, and the theory "
            "breaks down"
        )
        advice = "raise weight_decay or move alpha"
    why = f": {'; '.join(causes)}" if causes else ""
    return NotConverged(
        f"no solution found at alpha = {alpha:.6g} ({str(failure).rstrip('.')}){why}; {advice}.",
        residual=failure.residual,
    )
