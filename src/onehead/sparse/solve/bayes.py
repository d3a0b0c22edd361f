"""What the best possible learner finds: all roots of its state equation, the best one, and where they come and go (B.1, B.3, B.4).

In l = log(q/(1-q)) the state equation reads A(l) = log alpha with A(l) = l - log(pi theta^2 M(theta^2 q)), the logarithm of the sample
ratio at which q is a root. A table of A serves every alpha; where A falls there are three roots, between its turning points.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import exp, log, log1p
from typing import NamedTuple

import numpy as np

from onehead.errors import InvalidArgument
from onehead.numerics.line import lowest_between, root_between
from onehead.sparse.equations.bayes import LOG2_POINTS, Seen, seen
from onehead.sparse.equations.draws import LONGEST
from onehead.sparse.task import Task

__all__ = ["Overlap", "Roots", "StateEquation", "Thresholds", "Turn", "state_equation"]

KNOTS = 48  # of the table
COARSE = 11  # log2 of the points with which turning points are looked for where M is sampled
WEAK = 0.02  # theta^2 q below which nothing is found but by chance: M is R^2/L
NEAR_ONE = 1e-6  # 1 - q above which M no longer moves
OUTSIDE = 1e-9  # of the bounds between which all roots lie
EXACT, SAMPLED = 1e-12, 1e-7  # relative, of a root; where M is sampled
SETTLED = 1e-9  # relative error of a threshold without sampling
TINY, ROUNDED = 1e-300, 1e-15  # a gain that is none; 1 - q that a double does not hold
NEWTON = 20  # steps towards the ratio where two roots are equally good


class Overlap(NamedTuple):
    """A root, its error, and the potential there."""

    value: float
    error: float
    potential: float


class Roots(NamedTuple):
    """Every root in rising order, the one with the largest potential, and the smallest one, which message passing reaches."""

    all: tuple[Overlap, ...]
    best: Overlap
    reached: Overlap


class Thresholds(NamedTuple):
    """Sample ratios with errors: three roots begin, the upper one becomes the best, only the upper one is left."""

    spinodal: tuple[float, float]
    information: tuple[float, float]
    algorithmic: tuple[float, float]


class Turn(NamedTuple):
    """A point of the table: l and A(l)."""

    at: float
    log_alpha: float


@lru_cache(maxsize=256)
def state_equation(task: Task) -> "StateEquation":
    """The equation of a task; its table is kept."""
    if task.signal_tokens not in (1, task.length) and task.length > LONGEST:
        allowed = f"an integer <= {LONGEST} with signal_tokens > 1"
        raise InvalidArgument("length", task.length, allowed)
    return StateEquation(task)


@dataclass(frozen=True)
class StateEquation:
    """q/(1-q) = alpha pi theta^2 M(theta^2 q) of one task with a signal."""

    task: Task

    @property
    def _rate(self) -> float:
        return self.task.positive_rate * self.task.strength**2

    @property
    def _sampled(self) -> bool:
        return 1 < self.task.signal_tokens < self.task.length

    def seen(self, q: float, log2_points: int = LOG2_POINTS) -> Seen:
        """M and Psi at an overlap."""
        return seen(self.task.length, self.task.signal_tokens, self.task.strength**2 * q, log2_points)

    def log_alpha(self, at: float, log2_points: int = LOG2_POINTS) -> float:
        """A(l)."""
        return at - log(self._rate * self.seen(_share(at), log2_points).found)

    def potential(self, alpha: float, q: float) -> float:
        """f(q) = (q + log(1-q))/2 + alpha pi Psi(theta^2 q)."""
        return 0.5 * (q + log1p(-min(q, 1.0 - ROUNDED))) + alpha * self.task.positive_rate * self.seen(q).information

    @cached_property
    def turning(self) -> "tuple[Turn, Turn] | None":
        """Where A has its maximum and its minimum behind it; None where it never falls."""
        if self.task.signal_tokens == self.task.length or self.task.strength**2 <= 2.0 * WEAK:
            return None
        low, high = _logit(WEAK / self.task.strength**2), _logit(1.0 - NEAR_ONE)
        level = COARSE if self._sampled else LOG2_POINTS
        knots = np.linspace(low, high, KNOTS)
        values = np.array([self.log_alpha(float(at), level) for at in knots])
        steepest = int(np.argmin(np.diff(values)))
        if values[steepest + 1] >= values[steepest]:  # a fall may hide between two knots
            near = np.linspace(knots[max(steepest - 1, 0)], knots[min(steepest + 2, KNOTS - 1)], KNOTS // 2)
            knots = np.unique(np.concatenate([knots, near]))
            values = np.array([self.log_alpha(float(at), level) for at in knots])
        falls = np.flatnonzero(np.diff(values) < 0.0)
        if falls.size == 0:
            return None
        top, bottom = int(falls[0]), int(falls[-1]) + 1
        peak, dip = self._extreme(knots, top, -1.0), self._extreme(knots, bottom, 1.0)
        return (peak, dip) if peak.log_alpha > dip.log_alpha else None  # a fall that was noise of few points

    def _extreme(self, knots: "np.ndarray[tuple[int], np.dtype[np.float64]]", near: int, sign: float) -> Turn:
        """The minimum of sign A next to a knot."""
        bounds = float(knots[max(near - 1, 0)]), float(knots[min(near + 1, knots.size - 1)])
        at, value = lowest_between(lambda at: sign * self.log_alpha(at), *bounds, xatol=1e-4 if self._sampled else 1e-7)
        return Turn(at, sign * value)

    def roots(self, alpha: float) -> Roots:
        """Every root at a sample ratio: one on each piece on which A does not turn and passes log alpha."""
        found = tuple(
            Overlap(_share(at), self._error(at), self.potential(alpha, _share(at))) for at in self._places(alpha)
        )
        return Roots(found, max(found, key=lambda root: root.potential), found[0])

    def _places(self, alpha: float) -> list[float]:
        """The roots as l."""
        rate, R, target = alpha * self._rate, self.task.signal_tokens, log(alpha)
        ends = log(rate * R * R / self.task.length) - OUTSIDE, log(rate * R) + OUTSIDE
        knots = [ends[0], *(turn.at for turn in self.turning or () if ends[0] < turn.at < ends[1]), ends[1]]
        gaps = [self.log_alpha(at) - target for at in knots]
        close = SAMPLED if self._sampled else EXACT
        return [
            root_between(lambda at: self.log_alpha(at) - target, low, high, xtol=close, rtol=4.0 * EXACT)
            for low, high, below, above in zip(knots[:-1], knots[1:], gaps[:-1], gaps[1:], strict=True)
            if (below < 0.0) != (above < 0.0)
        ]

    def _error(self, at: float) -> float:
        """What an error of M moves the root by: dq = q (1-q) dlog M / A'."""
        q, step = _share(at), 1e-3
        here = self.seen(q)
        slope = (self.log_alpha(at + step) - self.log_alpha(at - step)) / (2.0 * step)
        moved = q * (1.0 - q) * here.found_err / (here.found * max(abs(slope), 1e-6))
        return min(moved, 1.0) + EXACT * q

    def alpha_for(self, q: float) -> float:
        """The sample ratio from which the best root is q or more; an overlap that is jumped over costs that of the jump."""
        alpha = exp(self.log_alpha(_logit(q)))
        if self.thresholds is not None:
            jump = self.thresholds.information[0]
            places = self._places(jump)
            if _share(places[0]) < q < _share(places[-1]):
                return jump
        return alpha

    @cached_property
    def thresholds(self) -> Thresholds | None:
        """Where behaviour changes, or None where there is one root at every sample ratio."""
        if self.turning is None:
            return None
        top, bottom = self.turning
        alphas = [(exp(turn.log_alpha), self._relative(turn) * exp(turn.log_alpha)) for turn in (bottom, top)]
        return Thresholds(alphas[0], self._equal(alphas[0][0], alphas[1][0]), alphas[1])

    def _relative(self, turn: Turn) -> float:
        here = self.seen(_share(turn.at))
        return here.found_err / here.found + SETTLED

    def _equal(self, low: float, high: float) -> tuple[float, float]:
        """The ratio where both stable roots have the same potential; f changes by pi Psi with alpha (Newton)."""
        rate, alpha = self.task.positive_rate, float(np.sqrt(low * high))
        for _ in range(NEWTON):
            places = self._places(alpha)
            ends = [self.seen(_share(at)) for at in (places[0], places[-1])]
            gain = rate * (ends[1].information - ends[0].information)
            gap = self.potential(alpha, _share(places[-1])) - self.potential(alpha, _share(places[0]))
            low, high = (low, alpha) if gap > 0.0 else (alpha, high)
            old, alpha = alpha, alpha - gap / max(gain, TINY)
            alpha = alpha if low < alpha < high else float(np.sqrt(low * high))
            if abs(alpha - old) <= (SAMPLED if self._sampled else EXACT) * alpha:
                break
        noise = float(np.hypot(ends[0].information_err, ends[1].information_err))
        return alpha, alpha * (rate * noise / max(gain, TINY) + SETTLED)


def _share(at: float) -> float:
    """q of log(q/(1-q))."""
    return 1.0 / (1.0 + exp(-at)) if at > -700.0 else exp(at)


def _logit(q: float) -> float:
    return log(q) - log1p(-q)
