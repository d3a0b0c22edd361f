"""The route through Sigma: near interpolation Sigma becomes the parameter and the sample ratio an unknown (2.8).

At small weight decay proximal points compete between minima, and the iteration at fixed α stalls as they hop. At fixed
Sigma it does not; and once every point is kept in its minimum the equations are smooth and can be solved exactly.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from onehead.aim.equations.averages import ProxMemory
from onehead.aim.equations.emergence import largest_decay
from onehead.aim.equations.plateau import plateau_of
from onehead.aim.equations.state_evolution import StateEvolution
from onehead.aim.equations.unknowns import Hats, Overlaps
from onehead.aim.solve.iterate import TOLERANCE, Attempt, Vector, at_alpha, turn_once
from onehead.errors import OutsideDomain, SolveError
from onehead.numerics.fixed_point import fixed_point

__all__ = ["polish", "relax", "walk"]

CLOSE = 1e-3  # of log α or of log Sigma at which the walk is over


# hats per unit of α and Sigma -> how far the α or λ found is above the one wanted, on a logarithmic scale; the overlaps
Route = Callable[[Hats, float], tuple[float, Overlaps]]


class _AtSigma(NamedTuple):
    log_sigma: float
    gap: float
    state: Vector  # (log q, log m)
    evaluations: int


def _positive(hats: Hats) -> Hats:
    if not min(hats) > 0.0:
        raise OutsideDomain("the output channel gave hats that are not positive; the iterate has left the domain.")
    return hats


def _decay_route(problem: StateEvolution, alpha: float) -> Route:
    """Solve at fixed Sigma with λ as the unknown, α staying as it is."""
    rounding = 1e-9 * largest_decay(problem, alpha)  # so that the limit λ → 0⁺ can be passed too

    def turn(unit: Hats, sigma: float) -> tuple[float, Overlaps]:
        hats = _positive(unit).times(alpha)
        decay = problem.input.decay_at_sigma(hats, sigma)
        gap = float(np.arcsinh(decay / rounding) - np.arcsinh(problem.decay / rounding))
        return gap, problem.with_decay(decay).input.overlaps(hats)

    return turn


def _ratio_route(problem: StateEvolution, alpha: float) -> Route:
    """Solve at fixed Sigma with α as the unknown, λ staying as it is."""

    def turn(unit: Hats, sigma: float) -> tuple[float, Overlaps]:
        ratio = problem.input.ratio_at_sigma(_positive(unit), sigma)
        return float(np.log(ratio / alpha)), problem.input.overlaps(unit.times(ratio))

    return turn


def _at_sigma(
    problem: StateEvolution,
    route: Route,
    log_sigma: float,
    start: Vector,
    level: int,
    memory: ProxMemory,
    tolerance: float,
) -> _AtSigma:
    """Solve for (q, m) and α or λ at fixed Sigma, every prox kept in its minimum."""
    sigma, last = float(np.exp(log_sigma)), {"gap": np.nan}

    def turn(y: Vector) -> Vector:
        q, m = (float(v) for v in np.exp(y))
        unit = problem.output.hats(q, m, sigma, level=level, memory=memory)
        last["gap"], overlaps = route(unit, sigma)
        return overlaps.logs[:2]

    found = fixed_point(
        turn,
        start,
        tolerance=tolerance,
        max_evaluations=200,
        max_step=0.3,
        # a point that loses its minimum moves on once and for all: give such moves time to die out
        patience=60,
        project=problem.inside,
    )
    return _AtSigma(log_sigma, last["gap"], found.value, found.evaluations)


def walk(problem: StateEvolution, alpha: float, level: int) -> Vector:
    """A state close to the solution: walk from a small Sigma, where the equations are easy, until α is passed."""
    c, power = max(plateau_of(problem).c, 0.05), problem.input.reachable_power or problem.target_power
    easy = float(np.log(min(0.3, 0.1 / max(problem.decay, 1e-12))))
    start = np.log([c * c * power, c * power * (1.0 - 1e-6)])
    return _walk(problem, _ratio_route(problem, alpha), easy, start, level)


def relax(problem: StateEvolution, alpha: float, level: int) -> Vector:
    """A state close to the solution: from emergence, where Sigma is small, λ falls until the one wanted is passed.

    The sample ratio stays: with few samples and noisy labels the way of `walk` leads through the interpolation peak.
    """
    m0 = problem.output.at_origin(level)[1]
    easy = float(np.log(0.04 * problem.informative / m0))  # A is a fiftieth of the most it can be
    early = problem.with_decay(0.9 * largest_decay(problem, alpha))
    start = early.input.overlaps(early.at_origin(alpha, level)[1]).logs[:2]
    return _walk(problem, _decay_route(problem, alpha), easy, start, level)


def _walk(problem: StateEvolution, route: Route, easy: float, start: Vector, level: int) -> Vector:
    """From an easy Sigma, in strides, until the gap changes its sign; then a guarded secant."""

    def at(log_sigma: float, start: Vector) -> _AtSigma:
        return _at_sigma(problem, route, log_sigma, start, level, ProxMemory(follow=True), 1e-4)

    here = there = at(easy, start)
    stride = 0.7 if here.gap > 0.0 else -0.7  # α and λ fall as Sigma grows
    for _ in range(100):
        if there.gap * stride <= 0.0:
            break
        here = there
        try:
            there = at(here.log_sigma + stride, here.state)
        except SolveError:
            stride *= 0.5
            if abs(stride) < 1e-3:
                raise
    for _ in range(40):
        if abs(there.gap) < CLOSE or abs(there.log_sigma - here.log_sigma) < CLOSE:
            break
        share = np.clip(there.gap / (there.gap - here.gap), 0.1, 0.9)
        new = at(float(there.log_sigma + share * (here.log_sigma - there.log_sigma)), there.state)
        here, there = (here if here.gap * new.gap < 0.0 else there), new
    return np.array([*there.state, there.log_sigma])


def polish(problem: StateEvolution, alpha: float, state: Vector, level: int, *, by_decay: bool = False) -> Attempt:
    """Solve from a close state: a secant in Sigma until α (or λ) is met, every prox kept in its minimum throughout."""
    memory = ProxMemory(follow=True)
    route = (_decay_route if by_decay else _ratio_route)(problem, alpha)

    def at(log_sigma: float, start: Vector) -> _AtSigma:
        return _at_sigma(problem, route, log_sigma, start, level, memory, 1e-8)

    old = at(float(state[2]), state[:2])
    nudge = float(np.clip(0.5 * old.gap, -0.05, 0.05)) or 1e-3  # α and λ fall as Sigma grows, about as its inverse
    new = at(old.log_sigma + nudge, old.state)
    used = old.evaluations + new.evaluations
    for _ in range(40):
        if abs(new.gap) < 0.1 * TOLERANCE or new.gap == old.gap:
            break
        slope = (new.gap - old.gap) / (new.log_sigma - old.log_sigma)
        # a point that changed its minimum between the two can give any slope: trust it only if it is a possible one
        move = float(np.clip(-new.gap / min(slope, -0.05), -0.1, 0.1))
        old, new = new, at(new.log_sigma + move, new.state)
        used += new.evaluations
    found = np.array([*new.state, new.log_sigma])
    hats, overlaps = turn_once(problem, alpha, found, level, memory=memory)
    residual = float(np.max(np.abs(overlaps.logs - found)))
    if not residual < TOLERANCE:
        attempt = at_alpha(problem, alpha, found, level, memory=memory)
        return attempt._replace(evaluations=attempt.evaluations + used)
    return Attempt(overlaps, hats, residual, used, level, alpha, memory, ())
