"""The route through Sigma: near interpolation Sigma becomes the parameter and the sample ratio an unknown (2.8).

At small weight decay proximal points compete between minima, and the iteration at fixed α stalls as they hop. At fixed
Sigma it does not; and once every point is kept in its minimum the equations are smooth and can be solved exactly.
"""

from typing import NamedTuple

import numpy as np

from onehead.aim.channel import ProxMemory
from onehead.aim.iterate import TOLERANCE, Attempt, Vector, at_alpha, inside, log_state, turn_once
from onehead.aim.limits import plateau_state
from onehead.aim.reduced import Hats, Reduced
from onehead.errors import OutsideDomain, SolveError
from onehead.numerics.fixed_point import fixed_point

__all__ = ["polish", "walk"]

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
    while gap(low) > 0.0:
        low -= 0.5
        if low < high - 40.0:
            raise OutsideDomain("no sample ratio belongs to this Sigma.")
    return float(np.exp(brentq(gap, low, high, xtol=1e-13)))


class _AtSigma(NamedTuple):
    log_sigma: float
    gap: float  # log of the sample ratio found over the one wanted
    state: Vector  # (log q, log m)
    evaluations: int


def _at_sigma(
    problem: Reduced,
    log_sigma: float,
    goal: float,
    start: Vector,
    level: int,
    memory: ProxMemory,
    tolerance: float,
) -> _AtSigma:
    """Solve for (q, m) and α at fixed Sigma, every prox kept in its minimum."""
    sigma, ratio = float(np.exp(log_sigma)), {"alpha": np.nan}

    def turn(y: Vector) -> Vector:
        q, m = (float(v) for v in np.exp(y))
        unit = problem.output_channel(q, m, sigma, level=level, memory=memory)
        alpha = ratio["alpha"] = _ratio_at_sigma(problem, unit, sigma)
        return log_state(problem.input_channel(Hats(alpha * unit.q, alpha * unit.m, alpha * unit.sigma)))[:2]

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
    return _AtSigma(log_sigma, float(np.log(ratio["alpha"] / goal)), found.value, found.evaluations)


def walk(problem: Reduced, alpha: float, level: int) -> Vector:
    """A state close to the solution: walk from a small Sigma, where the equations are easy, until α is passed."""

    def at(log_sigma: float, start: Vector) -> _AtSigma:
        return _at_sigma(problem, log_sigma, alpha, start, level, ProxMemory(follow=True), 1e-4)

    c, Q0 = max(plateau_state(problem).c, 0.05), problem.target_power
    easy = float(np.log(min(0.3, 0.1 / max(problem.decay, 1e-12))))
    here = there = at(easy, np.log([c * c * Q0, c * Q0 * (1.0 - 1e-6)]))
    stride = 0.7 if here.gap > 0.0 else -0.7  # α falls as Sigma grows
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


def polish(problem: Reduced, alpha: float, state: Vector, level: int) -> Attempt:
    """Solve from a close state: a secant in Sigma until α is met, every prox kept in its minimum throughout."""
    memory = ProxMemory(follow=True)
    old = _at_sigma(problem, float(state[2]), alpha, state[:2], level, memory, 1e-8)
    nudge = float(np.clip(0.5 * old.gap, -0.05, 0.05)) or 1e-3  # α falls as Sigma grows, about as its inverse
    new = _at_sigma(problem, old.log_sigma + nudge, alpha, old.state, level, memory, 1e-8)
    used = old.evaluations + new.evaluations
    for _ in range(40):
        if abs(new.gap) < 0.1 * TOLERANCE or new.gap == old.gap:
            break
        slope = (new.gap - old.gap) / (new.log_sigma - old.log_sigma)
        # a point that changed its minimum between the two can give any slope: trust it only if it is a possible one
        move = float(np.clip(-new.gap / min(slope, -0.05), -0.1, 0.1))
        old, new = new, _at_sigma(problem, new.log_sigma + move, alpha, new.state, level, memory, 1e-8)
        used += new.evaluations
    found = np.array([*new.state, new.log_sigma])
    hats, overlaps = turn_once(problem, alpha, found, level, memory=memory)
    residual = float(np.max(np.abs(log_state(overlaps) - found)))
    if not residual < TOLERANCE:
        attempt = at_alpha(problem, alpha, found, level, memory=memory)
        return attempt._replace(evaluations=attempt.evaluations + used)
    return Attempt(overlaps, hats, residual, used, level, alpha, memory, ())
