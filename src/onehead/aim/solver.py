"""Solves the equations of section 2 at one sample ratio: cheap quadrature first, finer only where it matters.

Unknowns are y = (log q, log m, log Sigma); the residual is max |log F(y) - y|, undamped. Where the iteration at fixed α
stalls (near interpolation at small weight decay, where proximal points hop between minima), Sigma becomes the parameter
and α an unknown (2.8).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.aim.reduced import Hats, Overlaps, Reduced
from onehead.aim.ridgeless import interpolating, interpolation
from onehead.errors import NotConverged, OutsideDomain, SolveError
from onehead.numerics.fixed_point import fixed_point

__all__ = ["Plateau", "Solution", "emergence_ratio", "is_zero", "plateau_state", "solve"]

Vector = NDArray[np.float64]

TOLERANCE = 3e-7
COARSE_TOLERANCE = 1e-4  # on the coarsest rule; its own quadrature error is larger
FINE_ENOUGH = 2e-4  # relative quadrature error of q and m at which no finer rule is tried: below 1e-4 in the test error
LEVELS = (0, 1, 2, 3)


@dataclass(frozen=True, kw_only=True)
class Solution:
    """A solution in reduced units, with the quadrature rule it was found on and the error seen on its twin."""

    alpha: float
    overlaps: Overlaps
    hats: Hats
    residual: float
    evaluations: int
    level: int
    error: Vector

    @property
    def state(self) -> Vector:
        """(log q, log m, log Sigma)."""
        return np.log([self.overlaps.q, self.overlaps.m, self.overlaps.sigma])


class Plateau(NamedTuple):
    """The limit of infinitely many samples: S = c S* with test loss (8.1)."""

    c: float
    loss: float


@lru_cache(maxsize=256)
def plateau_state(problem: Reduced) -> Plateau:
    """c = argmin of the fresh loss at (q, m) = (c² Q0, c Q0): shrunk below one by the noise (8.1)."""
    from scipy.optimize import minimize_scalar  # noqa: PLC0415

    Q0, level = problem.target_power, 1 if problem.tokens == 2 else 2

    def loss(c: float) -> float:
        return problem.output.fresh_loss(c * c * Q0, c * Q0, level=level)

    if problem.noise == 0.0:
        return Plateau(1.0, loss(1.0))
    found = minimize_scalar(loss, bounds=(0.0, 1.5), method="bounded", options={"xatol": 1e-9})
    return Plateau(float(found.x), float(found.fun))


def is_zero(problem: Reduced, alpha: float) -> bool:
    """Whether S = 0 is the minimiser: the upper edge of rho_s0 does not reach the threshold 2λ/mhat0 (4.6)."""
    if problem.direct or problem.decay == 0.0:
        return False
    q0, m0 = problem.output.at_origin(0 if problem.tokens > 2 else 1)
    s = q0 / (alpha * m0**2)
    return problem.law(s).edges[-1][1] <= 2.0 * problem.decay / (alpha * m0)


def emergence_ratio(problem: Reduced) -> float:
    """Smallest sample ratio at which the trained map is not zero (4.6); zero for direct training and for λ → 0⁺."""
    from scipy.optimize import brentq  # noqa: PLC0415

    if problem.direct or problem.decay == 0.0:
        return 0.0
    q0, m0 = problem.output.at_origin(2)

    def gap(log_alpha: float) -> float:
        alpha = float(np.exp(log_alpha))
        return float(np.log(problem.law(q0 / (alpha * m0**2)).edges[-1][1] * alpha * m0 / (2.0 * problem.decay)))

    low, high = -20.0, 0.0
    while gap(low) > 0.0:
        low -= 10.0
    while gap(high) < 0.0:
        high += 5.0
    return float(np.exp(brentq(gap, low, high, xtol=1e-12)))


def solve(problem: Reduced, alpha: float, start: Vector | None = None) -> Solution:
    """Solve at one sample ratio, from a neighbouring state if one is given."""
    levels = LEVELS if problem.tokens == 2 else LEVELS[:3]
    used = 0
    state: Vector | None = None
    for guess in _guesses(problem, alpha, start):
        try:
            found = _at_alpha(problem, alpha, guess, levels[0], COARSE_TOLERANCE)
        except SolveError:
            continue
        state, used = found.state, used + found.evaluations
        break
    solution: Solution | None = None
    for level in levels[1:]:
        attempt = _at_level(problem, alpha, state, level)
        used += attempt.evaluations
        error = _twin_error(problem, attempt)
        solution = Solution(
            alpha=alpha,
            overlaps=attempt.overlaps,
            hats=attempt.hats,
            residual=attempt.residual,
            evaluations=used,
            level=level,
            error=error,
        )
        state = solution.state
        if np.max(np.abs(error[:2])) < FINE_ENOUGH:
            break
    assert solution is not None
    return solution


class _Attempt(NamedTuple):
    overlaps: Overlaps
    hats: Hats
    residual: float
    evaluations: int
    level: int
    alpha: float

    @property
    def state(self) -> Vector:
        return np.log([self.overlaps.q, self.overlaps.m, self.overlaps.sigma])


def _at_level(problem: Reduced, alpha: float, state: Vector | None, level: int) -> _Attempt:
    """Solve on one rule: at fixed α from the state, else with Sigma as the parameter."""
    if state is not None:
        try:
            return _at_alpha(problem, alpha, state, level, TOLERANCE)
        except SolveError:
            pass
    return _by_sigma(problem, alpha, state, level)


def _step(problem: Reduced, alpha: float, y: Vector, level: int, *, twin: bool = False) -> tuple[Hats, Overlaps]:
    """One turn of the equations: overlaps -> hats -> overlaps."""
    q, m, sigma = (float(v) for v in np.exp(y))
    unit = problem.output_channel(q, m, sigma, level=level, twin=twin)
    hats = Hats(alpha * unit.q, alpha * unit.m, alpha * unit.sigma)
    return hats, problem.input_channel(hats)


def _inside(problem: Reduced, y: Vector) -> Vector:
    """Keep m² <= q Q0, which extrapolation can violate."""
    bound = 0.5 * (y[0] + np.log(problem.target_power)) + np.log1p(-1e-9)
    return np.array([y[0], min(y[1], bound), *y[2:]])


def _log(overlaps: Overlaps) -> Vector:
    return np.log([overlaps.q, max(overlaps.m, 1e-300), overlaps.sigma])


def _at_alpha(problem: Reduced, alpha: float, start: Vector, level: int, tolerance: float) -> _Attempt:
    """Anderson iteration at fixed α."""
    last: dict[str, tuple[Hats, Overlaps]] = {}

    def turn(y: Vector) -> Vector:
        last["step"] = _step(problem, alpha, y, level)
        return _log(last["step"][1])

    found = fixed_point(
        turn, start, tolerance=tolerance, max_evaluations=120, patience=16, project=lambda y: _inside(problem, y)
    )
    hats, overlaps = last["step"]
    return _Attempt(overlaps, hats, found.residual, found.evaluations, level, alpha)


def _guesses(problem: Reduced, alpha: float, start: Vector | None) -> Iterator[Vector]:
    """Where to start: a neighbour, the interpolating limit below interpolation, the plateau above it (2.8, 4.1)."""
    if start is not None:
        yield start
    factors = not problem.direct and problem.decay > 0.0
    if factors and alpha < interpolation(problem)[0]:
        near = interpolating(problem, alpha, accuracy=0.02)
        sigma = alpha * problem.informative * near.eps / problem.decay
        yield np.log([near.q, near.m, max(sigma, 1e-3)])
    c, Q0 = max(plateau_state(problem).c, 0.05), problem.target_power
    sigma = 0.6 / alpha
    if problem.direct and problem.decay > 0.0:
        sigma = min(sigma, 0.25 / problem.decay)
    yield np.log([c * c * Q0, c * Q0 * (1.0 - 1e-6), sigma])
    if factors:
        # close to emergence: the map of the first step from S = 0, with its own small Sigma
        q0, m0 = problem.output.at_origin(0)
        yield _log(problem.input_channel(Hats(alpha * q0, alpha * m0, alpha * m0)))


def _twin_error(problem: Reduced, attempt: _Attempt) -> Vector:
    """Change of (log q, log m, log Sigma) if the twin rule were used: (1 - F')^-1 (F_twin(y) - y)."""
    y = attempt.state
    gap = _log(_step(problem, attempt.alpha, y, attempt.level, twin=True)[1]) - y
    slope = np.empty((3, 3))
    centre = _log(_step(problem, attempt.alpha, y, 0)[1])
    for k in range(3):
        moved = y.copy()
        moved[k] -= 1e-3 if k != 2 else -1e-3
        slope[:, k] = (_log(_step(problem, attempt.alpha, _inside(problem, moved), 0)[1]) - centre) / (moved[k] - y[k])
    return np.asarray(np.linalg.solve(np.eye(3) - slope, gap))


def _ratio_at_sigma(problem: Reduced, unit: Hats, sigma: float) -> float:
    """The α with α sb Sigma = A(qb/(α mb²), 2λ/(α mb)), the largest root; hats are α (qb, mb, sb) (2.8)."""
    from scipy.optimize import brentq  # noqa: PLC0415

    if problem.direct:
        ratio = (1.0 / sigma - 4.0 * problem.decay) / unit.sigma
        if ratio <= 0.0:
            raise OutsideDomain("direct training cannot have so large a Sigma at this weight decay.")
        return ratio

    def gap(log_alpha: float) -> float:
        alpha = float(np.exp(log_alpha))
        part = problem.integrals(unit.q / (alpha * unit.m**2), 2.0 * problem.decay / (alpha * unit.m))
        return alpha * unit.sigma * sigma - part.A

    high = -np.log(unit.sigma * sigma) + 1e-9  # A never exceeds one
    low = high - 0.25
    while gap(low) > 0.0:
        low -= 0.5
        if low < high - 40.0:
            raise OutsideDomain("no sample ratio belongs to this Sigma.")
    return float(np.exp(brentq(gap, low, high, xtol=1e-13)))


def _at_sigma(problem: Reduced, sigma: float, start: Vector, level: int) -> tuple[float, Vector, Hats, Overlaps, int]:
    """Solve for (q, m) and α at fixed Sigma; returns α, (log q, log m), the hats, the overlaps and the evaluations."""
    last: dict[str, tuple[float, Hats, Overlaps]] = {}

    def turn(y: Vector) -> Vector:
        q, m = (float(v) for v in np.exp(y))
        unit = problem.output_channel(q, m, sigma, level=level)
        alpha = _ratio_at_sigma(problem, unit, sigma)
        hats = Hats(alpha * unit.q, alpha * unit.m, alpha * unit.sigma)
        last["step"] = alpha, hats, problem.input_channel(hats)
        return _log(last["step"][2])[:2]

    found = fixed_point(
        turn, start, tolerance=0.3 * TOLERANCE, max_evaluations=80, patience=20, project=lambda y: _inside(problem, y)
    )
    alpha, hats, overlaps = last["step"]
    return alpha, found.value, hats, overlaps, found.evaluations


def _by_sigma(problem: Reduced, alpha: float, state: Vector | None, level: int) -> _Attempt:
    """Continuation in Sigma from a small one, where the equations are easy, until α is bracketed; then Illinois."""
    c = max(plateau_state(problem).c, 0.05)
    Q0 = problem.target_power
    goal = np.log(alpha)
    used = 0
    if state is not None:
        x, y = float(state[2]), state[:2]
    else:
        x, y = np.log(0.3 if not problem.direct else min(0.3, 0.1 / max(problem.decay, 1e-12))), np.log([c * c * Q0, c * Q0])
    try:
        found, y, hats, overlaps, n = _at_sigma(problem, float(np.exp(x)), y, level)
    except SolveError:
        if state is None:
            raise
        return _by_sigma(problem, alpha, None, level)
    used += n
    gap = np.log(found) - goal
    stride = 0.7 if gap > 0.0 else -0.7
    below = above = (x, gap, y)
    for _ in range(80):  # walk until the sample ratio is passed
        if abs(gap) < TOLERANCE or gap * stride < 0.0:
            break
        trial = x + stride
        try:
            found, near, hats, overlaps, n = _at_sigma(problem, float(np.exp(trial)), y, level)
        except SolveError:
            stride *= 0.5
            if abs(stride) < 1e-3:
                raise
            continue
        used += n
        below = (x, gap, y)
        x, y, gap = trial, near, np.log(found) - goal
        above = (x, gap, y)
    weight_below, weight_above = below[1], above[1]
    for _ in range(60):
        if abs(gap) < 0.3 * TOLERANCE:
            break
        x = (below[0] * weight_above - above[0] * weight_below) / (weight_above - weight_below)
        found, y, hats, overlaps, n = _at_sigma(problem, float(np.exp(x)), y, level)
        used += n
        gap = np.log(found) - goal
        if gap * above[1] > 0.0:
            above, weight_above, weight_below = (x, gap, y), gap, 0.5 * weight_below
        else:
            below, weight_below, weight_above = (x, gap, y), gap, 0.5 * weight_above
        if abs(below[0] - above[0]) < 1e-12:
            break
    state = np.array([*y, x])
    residual = float(max(abs(gap), np.max(np.abs(_log(_step(problem, alpha, state, level)[1]) - state))))
    if not residual < 10.0 * TOLERANCE:
        raise NotConverged(
            f"no solution to better than {residual:.1e} at alpha = {alpha:.6g}, on either route; this close to "
            "interpolation proximal points hop between minima: try a larger weight_decay or another alpha.",
            residual=residual,
        )
    return _Attempt(overlaps, hats, residual, used, level, alpha)
