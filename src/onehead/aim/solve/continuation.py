"""The route through Sigma: near interpolation Sigma becomes the parameter and the sample ratio an unknown (2.8).

At small weight decay proximal points compete between minima, and the iteration at fixed α stalls as they hop. At fixed
Sigma it does not; and once every point is kept in its minimum the equations are smooth and can be solved exactly.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from onehead.aim.equations.emergence import largest_decay, plateau_state
from onehead.aim.equations.output import ProxMemory
from onehead.aim.equations.state_evolution import Hats, Overlaps, Reduced
from onehead.aim.solve.iterate import TOLERANCE, Attempt, Vector, at_alpha, inside, log_state, turn_once
from onehead.errors import OutsideDomain, SolveError
from onehead.numerics.fixed_point import fixed_point
from onehead.spectra.law import threshold_integrals

__all__ = ["polish", "relax", "walk"]

CLOSE = 1e-3  # of log α or of log Sigma at which the walk is over


def _ratio_at_sigma(problem: Reduced, unit: Hats, sigma: float) -> float:
    """The α with α sb Sigma = A(qb/(α mb²), 2λ/(α mb)), the largest root; hats are α (qb, mb, sb) (2.8)."""
    from scipy.optimize import brentq  # noqa: PLC0415

    if not (unit.sigma > 0.0 and unit.m > 0.0):
        raise OutsideDomain("the output channel gave hats that are not positive; the iterate has left the domain.")
    if problem.direct:
        ratio = (1.0 / sigma - 4.0 * problem.decay) / unit.sigma
        if ratio <= 0.0:
            raise OutsideDomain("direct training cannot have so large a Sigma at this weight decay.")
        return ratio

    def gap(log_alpha: float) -> float:
        alpha = float(np.exp(log_alpha))
        part = problem.integrals(unit.q / (alpha * unit.m**2), 2.0 * problem.decay / (alpha * unit.m))
        return alpha * unit.sigma * sigma - part.A

    high = -np.log(unit.sigma * sigma) + 1e-6  # A never exceeds one, but for its quadrature error
    low = high - 0.25
    while gap(high) < 0.0:  # the A of a narrow learner can exceed one, by a logarithm (3)
        high += 0.25
        if high > low + 10.0:
            raise OutsideDomain("no sample ratio belongs to this Sigma.")
    while gap(low) > 0.0:
        low -= 0.5
        if low < high - 40.0:
            raise OutsideDomain("no sample ratio belongs to this Sigma.")
    return float(np.exp(brentq(gap, low, high, xtol=1e-13)))


# hats per unit of α and Sigma -> how far the α or λ found is above the one wanted, on a logarithmic scale; the overlaps
Route = Callable[[Hats, float], tuple[float, Overlaps]]


class _AtSigma(NamedTuple):
    log_sigma: float
    gap: float
    state: Vector  # (log q, log m)
    evaluations: int


def _decay_at_sigma(problem: Reduced, hats: Hats, sigma: float) -> float:
    """The λ with Sigmahat Sigma = A(s, 2λ/mhat); A falls to zero at the upper edge of the spectrum (2.3).

    Beyond the Sigma of λ → 0⁺ it is negative: no learner has it, but the search may pass the limit.
    """
    from scipy.optimize import brentq  # noqa: PLC0415

    if not (hats.sigma > 0.0 and hats.m > 0.0 and hats.q > 0.0):
        raise OutsideDomain("the output channel gave hats that are not positive; the iterate has left the domain.")
    law = problem.law(hats.q / hats.m**2)

    def gap(eps: float) -> float:
        return threshold_integrals(law, eps, problem.width).A - hats.sigma * sigma

    top = law.edges[-1][1]
    low = 0.0 if gap(0.0) > 0.0 else -top
    if gap(low) <= 0.0:
        raise OutsideDomain("no weight decay belongs to this Sigma.")
    return 0.5 * hats.m * float(brentq(gap, low, top, xtol=1e-13 * top))


def _decay_route(problem: Reduced, alpha: float) -> Route:
    """Solve at fixed Sigma with λ as the unknown, α staying as it is."""
    rounding = 1e-9 * largest_decay(problem, alpha)  # so that the limit λ → 0⁺ can be passed too

    def turn(unit: Hats, sigma: float) -> tuple[float, Overlaps]:
        hats = Hats(alpha * unit.q, alpha * unit.m, alpha * unit.sigma)
        decay = _decay_at_sigma(problem, hats, sigma)
        gap = float(np.arcsinh(decay / rounding) - np.arcsinh(problem.decay / rounding))
        return gap, replace(problem, decay=decay).input_channel(hats)

    return turn


def _ratio_route(problem: Reduced, alpha: float) -> Route:
    """Solve at fixed Sigma with α as the unknown, λ staying as it is."""

    def turn(unit: Hats, sigma: float) -> tuple[float, Overlaps]:
        ratio = _ratio_at_sigma(problem, unit, sigma)
        hats = Hats(ratio * unit.q, ratio * unit.m, ratio * unit.sigma)
        return float(np.log(ratio / alpha)), problem.input_channel(hats)

    return turn


def _at_sigma(
    problem: Reduced, route: Route, log_sigma: float, start: Vector, level: int, memory: ProxMemory, tolerance: float
) -> _AtSigma:
    """Solve for (q, m) and α or λ at fixed Sigma, every prox kept in its minimum."""
    sigma, last = float(np.exp(log_sigma)), {"gap": np.nan}

    def turn(y: Vector) -> Vector:
        q, m = (float(v) for v in np.exp(y))
        unit = problem.output_channel(q, m, sigma, level=level, memory=memory)
        last["gap"], overlaps = route(unit, sigma)
        return log_state(overlaps)[:2]

    found = fixed_point(
        turn,
        start,
        tolerance=tolerance,
        max_evaluations=200,
        max_step=0.3,
        # a point that loses its minimum moves on once and for all: give such moves time to die out
        patience=60,
        project=lambda y: inside(problem, y),
    )
    return _AtSigma(log_sigma, last["gap"], found.value, found.evaluations)


def walk(problem: Reduced, alpha: float, level: int) -> Vector:
    """A state close to the solution: walk from a small Sigma, where the equations are easy, until α is passed."""
    c, Q0 = max(plateau_state(problem).c, 0.05), problem.target_power
    easy = float(np.log(min(0.3, 0.1 / max(problem.decay, 1e-12))))
    start = np.log([c * c * Q0, c * Q0 * (1.0 - 1e-6)])
    return _walk(problem, _ratio_route(problem, alpha), easy, start, level)


def relax(problem: Reduced, alpha: float, level: int) -> Vector:
    """A state close to the solution: from emergence, where Sigma is small, λ falls until the one wanted is passed.

    The sample ratio stays: with few samples and noisy labels the way of `walk` leads through the interpolation peak.
    """
    q0, m0 = problem.output.at_origin(level)
    easy = float(np.log(0.04 * problem.informative / m0))  # A is a fiftieth of the most it can be
    early = replace(problem, decay=0.9 * largest_decay(problem, alpha))
    start = log_state(early.input_channel(Hats(alpha * q0, alpha * m0, alpha * m0)))[:2]
    return _walk(problem, _decay_route(problem, alpha), easy, start, level)


def _walk(problem: Reduced, route: Route, easy: float, start: Vector, level: int) -> Vector:
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


def polish(problem: Reduced, alpha: float, state: Vector, level: int, *, by_decay: bool = False) -> Attempt:
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
    residual = float(np.max(np.abs(log_state(overlaps) - found)))
    if not residual < TOLERANCE:
        attempt = at_alpha(problem, alpha, found, level, memory=memory)
        return attempt._replace(evaluations=attempt.evaluations + used)
    return Attempt(overlaps, hats, residual, used, level, alpha, memory, ())
