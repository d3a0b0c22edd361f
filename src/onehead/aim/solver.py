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

from onehead.aim.channel import FRESH, ProxMemory
from onehead.aim.reduced import Hats, Overlaps, Reduced
from onehead.aim.ridgeless import interpolating, interpolation
from onehead.errors import OutsideDomain, SolveError
from onehead.numerics.fixed_point import fixed_point

__all__ = ["Plateau", "Solution", "emergence_ratio", "is_zero", "plateau_state", "solve"]

Vector = NDArray[np.float64]
Secants = tuple[tuple[Vector, Vector], ...]

TOLERANCE = 3e-7
CLOSE = 1e-4  # of log α at which the walk in Sigma hands over to the iteration at fixed α
COARSE_TOLERANCE = 1e-4  # on the coarsest rule; its own quadrature error is larger
FINE_ENOUGH = 2e-4  # relative quadrature error of q and m at which no finer rule is tried: below 1e-4 in the test error
LEVELS = {2: (0, 1, 2, 3), 3: (0, 3), 4: (0, 3), 5: (0, 2)}  # rules to go through; from T = 5 on as for 5
LAST_KEPT_LEVEL = 2  # where minima compete the theory itself is approximate: the finest rule is not worth its price


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
    memory: ProxMemory

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

    Q0 = problem.target_power

    def loss(c: float, level: int = FRESH) -> float:
        return problem.output.fresh_loss(c * c * Q0, c * Q0, level=level)

    c = 1.0
    if problem.noise > 0.0:
        level = 1 if problem.tokens == 2 else 2  # the loss is flat at its minimum: its own rule may be finer
        found = minimize_scalar(lambda c: loss(c, level), bounds=(0.0, 1.5), method="bounded", options={"xatol": 1e-8})
        c = float(found.x)
    return Plateau(c, loss(c))


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
    levels = LEVELS[problem.tokens] if problem.tokens in LEVELS else LEVELS[5]
    used = 0
    state: Vector | None = None
    secants: Secants = ()
    for guess in _guesses(problem, alpha, start):
        try:
            found = _at_alpha(problem, alpha, guess, levels[0], tolerance=COARSE_TOLERANCE)
        except SolveError:
            continue
        state, secants, used = found.state, found.secants, used + found.evaluations
        break
    solution: Solution | None = None
    for level in levels[1:]:
        attempt = _at_level(problem, alpha, state, level, secants)
        used += attempt.evaluations
        error = _error(problem, attempt)
        solution = Solution(
            alpha=alpha,
            overlaps=attempt.overlaps,
            hats=attempt.hats,
            residual=attempt.residual,
            evaluations=used,
            level=level,
            error=error,
            memory=attempt.memory,
        )
        state, secants = solution.state, attempt.secants
        if np.max(error[:2]) < FINE_ENOUGH or (attempt.memory.follow and level == LAST_KEPT_LEVEL):
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
    memory: ProxMemory
    secants: Secants

    @property
    def state(self) -> Vector:
        return np.log([self.overlaps.q, self.overlaps.m, self.overlaps.sigma])


def _at_level(problem: Reduced, alpha: float, state: Vector | None, level: int, secants: Secants) -> _Attempt:
    """Solve on one rule: at fixed α from the state, else by way of Sigma with every prox kept in its minimum."""
    if state is not None:
        try:
            return _at_alpha(problem, alpha, state, level, secants=secants)
        except SolveError:
            pass
    try:
        return _by_sigma(problem, alpha, state, level)
    except SolveError:
        return _by_sigma(problem, alpha, None, level)


def _step(
    problem: Reduced, alpha: float, y: Vector, level: int, *, twin: bool = False, memory: ProxMemory | None = None
) -> tuple[Hats, Overlaps]:
    """One turn of the equations: overlaps -> hats -> overlaps."""
    q, m, sigma = (float(v) for v in np.exp(y))
    unit = problem.output_channel(q, m, sigma, level=level, twin=twin, memory=memory)
    hats = Hats(alpha * unit.q, alpha * unit.m, alpha * unit.sigma)
    return hats, problem.input_channel(hats)


def _inside(problem: Reduced, y: Vector) -> Vector:
    """Keep m² <= q Q0, which extrapolation can violate."""
    bound = 0.5 * (y[0] + np.log(problem.target_power)) + np.log1p(-1e-9)
    return np.array([y[0], min(y[1], bound), *y[2:]])


def _log(overlaps: Overlaps) -> Vector:
    return np.log([overlaps.q, max(overlaps.m, 1e-300), overlaps.sigma])


def _at_alpha(
    problem: Reduced,
    alpha: float,
    start: Vector,
    level: int,
    *,
    tolerance: float = TOLERANCE,
    secants: Secants = (),
    memory: ProxMemory | None = None,
) -> _Attempt:
    """Anderson iteration at fixed α."""
    memory = memory if memory is not None else ProxMemory(follow=False)
    last: dict[str, tuple[Hats, Overlaps]] = {}

    def turn(y: Vector) -> Vector:
        last["step"] = _step(problem, alpha, y, level, memory=memory)
        return _log(last["step"][1])

    found = fixed_point(
        turn,
        start,
        tolerance=tolerance,
        max_evaluations=300,
        # a point that follows its minimum and loses it moves on once and for all: give such moves time to die out
        patience=80 if memory.follow else 16,
        project=lambda y: _inside(problem, y),
        secants=secants,
    )
    hats, overlaps = last["step"]
    return _Attempt(overlaps, hats, found.residual, found.evaluations, level, alpha, memory, found.secants)


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


def _error(problem: Reduced, attempt: _Attempt) -> Vector:
    """Change of (log q, log m, log Sigma) under the twin rule: (1 - F')^-1 (F_twin(y) - y), F' by differences.

    Where proximal points were kept in their minima, letting them choose again counts as an error too.
    """
    y, alpha = attempt.state, attempt.alpha
    gap = np.abs(_log(_step(problem, alpha, y, attempt.level, twin=True)[1]) - y)
    if attempt.memory.follow:
        gap = np.maximum(gap, np.abs(_log(_step(problem, alpha, y, attempt.level)[1]) - y))
    memory = ProxMemory(follow=True)
    centre = _log(_step(problem, alpha, y, 0, memory=memory)[1])
    slope = np.empty((3, 3))
    for k, change in enumerate((1e-3, -1e-3, 1e-3)):  # a smaller m and a larger q stay inside m² <= q Q0
        moved = y.copy()
        moved[k] += change
        slope[:, k] = (_log(_step(problem, alpha, moved, 0, memory=memory)[1]) - centre) / change
    return np.asarray(np.abs(np.linalg.inv(np.eye(3) - slope)) @ gap)


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


class _AtSigma(NamedTuple):
    log_sigma: float
    gap: float  # log of the sample ratio found over the one wanted
    state: Vector
    evaluations: int


def _at_sigma(
    problem: Reduced, log_sigma: float, goal: float, start: Vector, level: int, memory: ProxMemory, tolerance: float = 1e-6
) -> _AtSigma:
    """Solve for (q, m) and α at fixed Sigma, every prox kept in its minimum."""
    sigma, ratio = float(np.exp(log_sigma)), {"alpha": np.nan}

    def turn(y: Vector) -> Vector:
        q, m = (float(v) for v in np.exp(y))
        unit = problem.output_channel(q, m, sigma, level=level, memory=memory)
        alpha = ratio["alpha"] = _ratio_at_sigma(problem, unit, sigma)
        return _log(problem.input_channel(Hats(alpha * unit.q, alpha * unit.m, alpha * unit.sigma)))[:2]

    found = fixed_point(
        turn, start, tolerance=tolerance, max_evaluations=80, patience=20, project=lambda y: _inside(problem, y)
    )
    return _AtSigma(log_sigma, float(np.log(ratio["alpha"] / goal)), found.value, found.evaluations)


def _by_sigma(problem: Reduced, alpha: float, state: Vector | None, level: int) -> _Attempt:
    """Walk in Sigma until α is passed, narrow it down, then a secant with every prox kept in its minimum (2.8).

    Without a state the walk begins at a small Sigma, where the equations are easy.
    """
    if state is not None:
        x, y = float(state[2]), state[:2]
    else:
        c, Q0 = max(plateau_state(problem).c, 0.05), problem.target_power
        x, y = float(np.log(min(0.3, 0.1 / max(problem.decay, 1e-12)))), np.log([c * c * Q0, c * Q0 * (1.0 - 1e-6)])
    here = _at_sigma(problem, x, alpha, y, level, ProxMemory(follow=True))
    used = here.evaluations
    stride = 0.7 if here.gap > 0.0 else -0.7  # α falls as Sigma grows
    there = here
    for _ in range(100):
        if there.gap * stride <= 0.0:
            break
        here = there
        try:
            there = _at_sigma(problem, here.log_sigma + stride, alpha, here.state, level, ProxMemory(follow=True))
        except SolveError:
            stride *= 0.5
            if abs(stride) < 1e-3:
                raise
            continue
        used += there.evaluations
    for _ in range(40):
        if abs(there.gap) < CLOSE or abs(there.log_sigma - here.log_sigma) < CLOSE:
            break
        share = np.clip(there.gap / (there.gap - here.gap), 0.1, 0.9)
        middle = there.log_sigma + share * (here.log_sigma - there.log_sigma)
        new = _at_sigma(problem, float(middle), alpha, there.state, level, ProxMemory(follow=True))
        used += new.evaluations
        here, there = (here if here.gap * new.gap < 0.0 else there), new
    memory = ProxMemory(follow=True)
    step = 0.3 * max(abs(there.log_sigma - here.log_sigma), CLOSE)
    old = _at_sigma(problem, there.log_sigma - step, alpha, there.state, level, memory, 1e-9)
    new = _at_sigma(problem, there.log_sigma, alpha, there.state, level, memory, 1e-9)
    used += old.evaluations + new.evaluations
    for _ in range(25):
        if abs(new.gap) < 0.1 * TOLERANCE or new.gap == old.gap:
            break
        move = float(np.clip(-new.gap * (new.log_sigma - old.log_sigma) / (new.gap - old.gap), -0.3, 0.3))
        old, new = new, _at_sigma(problem, new.log_sigma + move, alpha, new.state, level, memory, 1e-9)
        used += new.evaluations
    found = np.array([*new.state, new.log_sigma])
    hats, overlaps = _step(problem, alpha, found, level, memory=memory)
    residual = float(np.max(np.abs(_log(overlaps) - found)))
    if not residual < TOLERANCE:
        attempt = _at_alpha(problem, alpha, found, level, memory=memory)
        return attempt._replace(evaluations=attempt.evaluations + used)
    return _Attempt(overlaps, hats, residual, used, level, alpha, memory, ())
