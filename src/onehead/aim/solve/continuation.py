"""Continuation in Sigma: near interpolation Sigma becomes the parameter and the sample ratio an unknown (2.8).

At small weight decay proximal objectives have competing minima, and the iteration at fixed α stalls as points jump
between them. At fixed Sigma it does not stall; and once every point is kept in its minimum the equations are smooth and
can be solved exactly.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from onehead.aim.solve.fixed_sample_ratio import TOLERANCE, Iterate, Vector, solve_at_alpha, state_evolution_step
from onehead.aim.solve.strategy import isotropic_coordinates, project
from onehead.aim.theory.limits.emergence import largest_decay
from onehead.aim.theory.limits.infinite_data import plateau_of
from onehead.aim.theory.order_parameters import Hats, Overlaps
from onehead.aim.theory.output.averages import ProxCache
from onehead.aim.theory.state_evolution import StateEvolution
from onehead.errors import OutsideDomain, SolveError
from onehead.numerics.fixed_point import fixed_point

CONTINUATION_TOLERANCE = 1e-3  # of log α, log λ or log Sigma at which a continuation ends


# hats per unit of α and Sigma -> log distance of the α or λ found from the one wanted; the overlaps
Route = Callable[[Hats, float], tuple[float, Overlaps]]


class _AtSigma(NamedTuple):
    """A solution at fixed Sigma: its log distance from the α or λ wanted, and the coordinates of its overlaps."""

    log_sigma: float
    gap: float
    overlaps: Vector
    evaluations: int


def _positive(hats: Hats) -> Hats:
    """Return the hats if all are positive."""
    if not float(hats.sectors.min()) > 0.0:
        raise OutsideDomain("the output channel gave hats that are not positive; the iterate has left the domain.")
    return hats


def _decay_route(problem: StateEvolution, alpha: float) -> Route:
    """Return the route at fixed Sigma and α, with λ as the unknown."""
    rounding = 1e-9 * largest_decay(problem, alpha)  # so that the limit λ → 0⁺ can be passed too

    def step(unit: Hats, sigma: float) -> tuple[float, Overlaps]:
        hats = _positive(unit).times(alpha)
        decay = problem.input.decay_at_sigma(hats, sigma)
        gap = float(np.arcsinh(decay / rounding) - np.arcsinh(problem.decay / rounding))
        return gap, problem.with_decay(decay).overlaps_of(hats)

    return step


def _ratio_route(problem: StateEvolution, alpha: float) -> Route:
    """Return the route at fixed Sigma and λ, with α as the unknown."""

    def step(unit: Hats, sigma: float) -> tuple[float, Overlaps]:
        ratio = problem.input.ratio_at_sigma(_positive(unit), sigma)
        return float(np.log(ratio / alpha)), problem.overlaps_of(unit.times(ratio))

    return step


def _at_sigma(
    problem: StateEvolution,
    route: Route,
    log_sigma: float,
    start: Vector,
    level: int,
    cache: ProxCache,
    tolerance: float,
) -> _AtSigma:
    """Solve for (q, m) and α or λ at fixed Sigma, every prox kept in its minimum."""
    sigma, last = float(np.exp(log_sigma)), {"gap": np.nan}

    def step(y: Vector) -> Vector:
        state = problem.zero.at(np.append(y, log_sigma)).state
        last["gap"], overlaps = route(problem.output.hats(*state, level=level, cache=cache), sigma)
        return overlaps.value_coordinates

    found = fixed_point(
        step,
        start,
        tolerance=tolerance,
        max_evaluations=200,
        max_step=0.3,
        # a proximal point whose tracked minimum disappears jumps once; allow extra iterations for these transients
        patience=60,
        project=lambda y: project(problem, y),
    )
    return _AtSigma(log_sigma, last["gap"], found.value, found.evaluations)


def continue_in_sigma(problem: StateEvolution, alpha: float) -> Vector:
    """Return coordinates close to the solution: from a small Sigma, where the equations are easy, until α is passed."""
    c, power = max(plateau_of(problem).c, 0.05), problem.input.representable_power or problem.target_power
    easy = float(np.log(min(0.3, 0.1 / max(problem.decay, 1e-12))))
    start = isotropic_coordinates(problem, np.log([c * c * power, c * power * (1.0 - 1e-6), 1.0]))[:-1]
    return _continue(problem, _ratio_route(problem, alpha), easy, start)


def continue_in_decay(problem: StateEvolution, alpha: float) -> Vector:
    """Return coordinates close to the solution: from emergence, where Sigma is small, λ falls until the one wanted is
    passed.

    The sample ratio stays: with few samples and noisy labels `continue_in_sigma` passes the interpolation peak.
    """
    m0 = problem.at_origin(1.0, 0)[1].m
    easy = float(np.log(0.04 * problem.informative / m0))  # A is a fiftieth of its largest value
    early = problem.with_decay(0.9 * largest_decay(problem, alpha))
    start = early.overlaps_of(early.at_origin(alpha, 0)[1]).value_coordinates
    return _continue(problem, _decay_route(problem, alpha), easy, start)


def _continue(problem: StateEvolution, route: Route, easy: float, start: Vector) -> Vector:
    """Continue on the coarsest rule from an easy Sigma in steps until the gap changes its sign, then by a safeguarded
    secant method.
    """

    def at(log_sigma: float, start: Vector) -> _AtSigma:
        return _at_sigma(problem, route, log_sigma, start, 0, ProxCache(track_minimum=True), 1e-4)

    here = there = at(easy, start)
    step_size = 0.7 if here.gap > 0.0 else -0.7  # α and λ fall as Sigma grows
    for _ in range(100):
        if there.gap * step_size <= 0.0:
            break
        here = there
        try:
            there = at(here.log_sigma + step_size, here.overlaps)
        except SolveError:
            step_size *= 0.5
            if abs(step_size) < 1e-3:
                raise
    for _ in range(40):
        if abs(there.gap) < CONTINUATION_TOLERANCE or abs(there.log_sigma - here.log_sigma) < CONTINUATION_TOLERANCE:
            break
        share = np.clip(there.gap / (there.gap - here.gap), 0.1, 0.9)
        new = at(float(there.log_sigma + share * (here.log_sigma - there.log_sigma)), there.overlaps)
        here, there = (here if here.gap * new.gap < 0.0 else there), new
    return np.array([*there.overlaps, there.log_sigma])


def refine(
    problem: StateEvolution, alpha: float, coordinates: Vector, level: int, *, by_decay: bool = False
) -> Iterate:
    """Solve from close coordinates: a secant method in Sigma until α (or λ) is met, every prox kept in its minimum."""
    cache = ProxCache(track_minimum=True)
    route = (_decay_route if by_decay else _ratio_route)(problem, alpha)

    def at(log_sigma: float, start: Vector) -> _AtSigma:
        return _at_sigma(problem, route, log_sigma, start, level, cache, 1e-8)

    old = at(float(coordinates[-1]), coordinates[:-1])
    first_move = float(np.clip(0.5 * old.gap, -0.05, 0.05)) or 1e-3  # α and λ fall as Sigma grows, about as its inverse
    new = at(old.log_sigma + first_move, old.overlaps)
    used = old.evaluations + new.evaluations
    for _ in range(40):
        if abs(new.gap) < 0.1 * TOLERANCE or new.gap == old.gap:
            break
        slope = (new.gap - old.gap) / (new.log_sigma - old.log_sigma)
        # a point that changed its minimum between the two can give any slope: use it only where it is plausible
        move = float(np.clip(-new.gap / min(slope, -0.05), -0.1, 0.1))
        old, new = new, at(new.log_sigma + move, new.overlaps)
        used += new.evaluations
    found = np.array([*new.overlaps, new.log_sigma])
    hats, overlaps = state_evolution_step(problem, alpha, found, level, cache=cache)
    residual = float(np.max(np.abs(overlaps.coordinates - found)))
    if not residual < TOLERANCE:
        iterate = solve_at_alpha(problem, alpha, found, level, cache=cache)
        return iterate._replace(evaluations=iterate.evaluations + used)
    return Iterate(overlaps, hats, residual, used, level, alpha, cache, ())
