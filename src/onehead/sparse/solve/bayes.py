"""Roots of the Bayes-optimal state equation, their potentials, and the phase transitions between them (B.1, B.3, B.4).

In ell = log(q/(1-q)) the state equation reads A(ell) = log alpha with A(ell) = ell - log(pi theta^2 M(theta^2 q)), the
logarithm of the sample ratio at which q is a root. One table of A serves every alpha. Where A decreases between two
turning points, there are three roots.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import exp, log, log1p
from typing import NamedTuple

import numpy as np

from onehead.errors import InvalidArgument
from onehead.numerics.brent import brent_minimum, brent_root
from onehead.sparse.task import Task
from onehead.sparse.theory.bayes import LOG2_POINTS, TokenEvidence, token_evidence
from onehead.sparse.theory.features import MAX_LENGTH

TABLE_KNOTS = 48  # knots of the table of A
COARSE_LOG2_POINTS = 11  # log2 of the points for the search of turning points where M is sampled
WEAK_SIGNAL = 0.02  # theta^2 q below which M equals its value R^2/L at zero signal
MIN_MISSING_OVERLAP = 1e-6  # 1 - q below which M is constant
BRACKET_MARGIN = 1e-9  # margin around the bounds between which all roots lie
EXACT_TOLERANCE, SAMPLED_TOLERANCE = 1e-12, 1e-7  # relative tolerance of a root where M is exact, where it is sampled
THRESHOLD_TOLERANCE = 1e-9  # relative error of a threshold without sampling
MIN_GAIN = 1e-300  # guards a division by a vanishing difference of information
UNIT_ROUNDING = 1e-15  # smallest 1 - q that a double resolves
MAX_NEWTON_STEPS = 20  # steps towards the sample ratio at which two roots have the same potential


class Root(NamedTuple):
    """Overlap q that solves the state equation, its error, and the potential at it."""

    value: float
    error: float
    potential: float


class Roots(NamedTuple):
    """All roots in ascending order, the one with the largest potential, and the lowest, where message passing ends."""

    all: tuple[Root, ...]
    best: Root
    lowest: Root


class Thresholds(NamedTuple):
    """Sample ratios, with errors, at which the upper root appears, becomes the best one, and is the only one left."""

    spinodal: tuple[float, float]
    information: tuple[float, float]
    algorithmic: tuple[float, float]


class TurningPoint(NamedTuple):
    """An extremum of A: its position ell and the value A(ell) = log alpha."""

    ell: float
    log_alpha: float


@lru_cache(maxsize=256)
def state_equation(task: Task) -> "StateEquation":
    """Return the state equation of a task, cached together with its table."""
    if task.signal_tokens not in (1, task.length) and task.length > MAX_LENGTH:
        allowed = f"an integer <= {MAX_LENGTH} with signal_tokens > 1"
        raise InvalidArgument("length", task.length, allowed)
    return StateEquation(task)


@dataclass(frozen=True)
class StateEquation:
    """The state equation q/(1-q) = alpha pi theta^2 M(theta^2 q) of one task with a signal (B.1)."""

    task: Task

    @property
    def _rate(self) -> float:
        return self.task.positive_rate * self.task.strength**2

    @property
    def _sampled(self) -> bool:
        return 1 < self.task.signal_tokens < self.task.length

    def evidence(self, q: float, log2_points: int = LOG2_POINTS) -> TokenEvidence:
        """Return M and Psi at overlap q."""
        return token_evidence(self.task.length, self.task.signal_tokens, self.task.strength**2 * q, log2_points)

    def log_alpha(self, ell: float, log2_points: int = LOG2_POINTS) -> float:
        """Return A(ell), the logarithm of the sample ratio at which ell solves the state equation (B.3)."""
        return ell - log(self._rate * self.evidence(_overlap(ell), log2_points).found_positions)

    def potential(self, alpha: float, q: float) -> float:
        """Return the potential f(q) = (q + log(1-q))/2 + alpha pi Psi(theta^2 q) (B.1)."""
        entropy = 0.5 * (q + log1p(-min(q, 1.0 - UNIT_ROUNDING)))
        return entropy + alpha * self.task.positive_rate * self.evidence(q).information

    @cached_property
    def turning_points(self) -> "tuple[TurningPoint, TurningPoint] | None":
        """Maximum of A and the minimum that follows it; None if A never decreases."""
        if self.task.signal_tokens == self.task.length or self.task.strength**2 <= 2.0 * WEAK_SIGNAL:
            return None
        low, high = _logit(WEAK_SIGNAL / self.task.strength**2), _logit(1.0 - MIN_MISSING_OVERLAP)
        level = COARSE_LOG2_POINTS if self._sampled else LOG2_POINTS
        knots = np.linspace(low, high, TABLE_KNOTS)
        values = np.array([self.log_alpha(float(ell), level) for ell in knots])
        steepest = int(np.argmin(np.diff(values)))
        if values[steepest + 1] >= values[steepest]:  # a short decrease may lie between two knots: refine there
            near = np.linspace(knots[max(steepest - 1, 0)], knots[min(steepest + 2, TABLE_KNOTS - 1)], TABLE_KNOTS // 2)
            knots = np.unique(np.concatenate([knots, near]))
            values = np.array([self.log_alpha(float(ell), level) for ell in knots])
        falls = np.flatnonzero(np.diff(values) < 0.0)
        if falls.size == 0:
            return None
        top, bottom = int(falls[0]), int(falls[-1]) + 1
        peak, dip = self._turning_point(knots, top, -1.0), self._turning_point(knots, bottom, 1.0)
        return (peak, dip) if peak.log_alpha > dip.log_alpha else None  # otherwise the decrease was sampling noise

    def _turning_point(
        self, knots: "np.ndarray[tuple[int], np.dtype[np.float64]]", near: int, sign: float
    ) -> TurningPoint:
        """Return the minimum of sign * A next to a knot."""
        bounds = float(knots[max(near - 1, 0)]), float(knots[min(near + 1, knots.size - 1)])
        ell, value = brent_minimum(
            lambda ell: sign * self.log_alpha(ell), *bounds, xatol=1e-4 if self._sampled else 1e-7
        )
        return TurningPoint(ell, sign * value)

    def roots(self, alpha: float) -> Roots:
        """Return all roots at a sample ratio: one on each monotone piece of A that crosses log alpha."""
        found = tuple(
            Root(_overlap(ell), self._error(ell), self.potential(alpha, _overlap(ell)))
            for ell in self._root_logits(alpha)
        )
        return Roots(found, max(found, key=lambda root: root.potential), found[0])

    def _root_logits(self, alpha: float) -> list[float]:
        """Return the roots at a sample ratio as ell = log(q/(1-q))."""
        rate, R, target = alpha * self._rate, self.task.signal_tokens, log(alpha)
        ends = log(rate * R * R / self.task.length) - BRACKET_MARGIN, log(rate * R) + BRACKET_MARGIN
        knots = [ends[0], *(point.ell for point in self.turning_points or () if ends[0] < point.ell < ends[1]), ends[1]]
        gaps = [self.log_alpha(ell) - target for ell in knots]
        close = SAMPLED_TOLERANCE if self._sampled else EXACT_TOLERANCE
        return [
            brent_root(lambda ell: self.log_alpha(ell) - target, low, high, xtol=close, rtol=4.0 * EXACT_TOLERANCE)
            for low, high, below, above in zip(knots[:-1], knots[1:], gaps[:-1], gaps[1:], strict=True)
            if (below < 0.0) != (above < 0.0)
        ]

    def _error(self, ell: float) -> float:
        """Return the error of a root that follows from the error of M: dq = q (1-q) dlog M / A'."""
        q, step = _overlap(ell), 1e-3
        evidence = self.evidence(q)
        slope = (self.log_alpha(ell + step) - self.log_alpha(ell - step)) / (2.0 * step)
        moved = q * (1.0 - q) * evidence.found_positions_err / (evidence.found_positions * max(abs(slope), 1e-6))
        return min(moved, 1.0) + EXACT_TOLERANCE * q

    def alpha_for(self, q: float) -> float:
        """Return the sample ratio from which the best root is at least q; inside a jump, the ratio of the jump."""
        alpha = exp(self.log_alpha(_logit(q)))
        if self.thresholds is not None:
            jump = self.thresholds.information[0]
            logits = self._root_logits(jump)
            if _overlap(logits[0]) < q < _overlap(logits[-1]):
                return jump
        return alpha

    @cached_property
    def thresholds(self) -> Thresholds | None:
        """Sample ratios at which the set of roots or the best root changes; None if there is always one root (B.4)."""
        if self.turning_points is None:
            return None
        top, bottom = self.turning_points
        alphas = [(exp(point.log_alpha), self._relative_error(point) * exp(point.log_alpha)) for point in (bottom, top)]
        return Thresholds(alphas[0], self._equal_potential_ratio(alphas[0][0], alphas[1][0]), alphas[1])

    def _relative_error(self, point: TurningPoint) -> float:
        """Return the relative error of the sample ratio at a turning point."""
        evidence = self.evidence(_overlap(point.ell))
        return evidence.found_positions_err / evidence.found_positions + THRESHOLD_TOLERANCE

    def _equal_potential_ratio(self, low: float, high: float) -> tuple[float, float]:
        """Return the ratio at which both stable roots have the same potential, by Newton steps: df/dalpha = pi Psi."""
        rate, alpha = self.task.positive_rate, float(np.sqrt(low * high))
        for _ in range(MAX_NEWTON_STEPS):
            logits = self._root_logits(alpha)
            ends = [self.evidence(_overlap(ell)) for ell in (logits[0], logits[-1])]
            gain = rate * (ends[1].information - ends[0].information)
            gap = self.potential(alpha, _overlap(logits[-1])) - self.potential(alpha, _overlap(logits[0]))
            low, high = (low, alpha) if gap > 0.0 else (alpha, high)
            old, alpha = alpha, alpha - gap / max(gain, MIN_GAIN)
            alpha = alpha if low < alpha < high else float(np.sqrt(low * high))
            if abs(alpha - old) <= (SAMPLED_TOLERANCE if self._sampled else EXACT_TOLERANCE) * alpha:
                break
        noise = float(np.hypot(ends[0].information_err, ends[1].information_err))
        return alpha, alpha * (rate * noise / max(gain, MIN_GAIN) + THRESHOLD_TOLERANCE)


def _overlap(ell: float) -> float:
    """Return the overlap q of ell = log(q/(1-q))."""
    return 1.0 / (1.0 + exp(-ell)) if ell > -700.0 else exp(ell)


def _logit(q: float) -> float:
    return log(q) - log1p(-q)
