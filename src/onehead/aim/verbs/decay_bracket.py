"""Brackets of minima of the test error as a function of the weight decay, and their refinement."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from onehead.aim.verbs.implicit_derivatives import decay_slope
from onehead.aim.verbs.predict import Prediction
from onehead.errors import SolveError

LOG_DECAY_TOLERANCE = 1e-3  # of log λ at the minimum, where the test error is flat
REFINE_MAX_SOLVES = 30  # of the secant method inside a bracket


class Bracket(NamedTuple):
    """Bracket of a minimum of the test error in log λ: ends, their slopes, estimated minimum, prediction nearby."""

    low: float
    high: float
    slopes: tuple[float, float]
    minimum: float
    near: Prediction


def lowest_bracket(points: Sequence[Prediction]) -> Bracket | None:
    """Bracket with the lowest minimum, by cubics through errors and slopes of neighbours; None without a minimum."""
    ordered = sorted(points, key=lambda point: point.learner.decay)
    slopes = [decay_slope(point) for point in ordered]
    brackets: list[tuple[float, Bracket]] = []
    for i in range(len(ordered) - 1):
        (left, right), ends = ordered[i : i + 2], (slopes[i], slopes[i + 1])
        if not ends[0] < 0.0 <= ends[1]:
            continue
        low, high = (float(np.log(point.learner.decay)) for point in (left, right))
        share, lowest = _cubic_minimum(left.test_error, right.test_error, *((high - low) * end for end in ends))
        near = min(left, right, key=lambda point: point.test_error)
        brackets.append((lowest, Bracket(low, high, ends, low + share * (high - low), near)))
    return min(brackets, key=lambda one: one[0])[1] if brackets else None


def _cubic_minimum(left: float, right: float, slope_left: float, slope_right: float) -> tuple[float, float]:
    """Position on (0, 1) and value of the minimum of the cubic with these values and slopes at the ends.

    Examples
    --------
    >>> position, value = _cubic_minimum(1.0, 1.0, -4.0, 4.0)
    >>> round(position, 3), round(value, 3)
    (0.5, 0.0)
    """
    t = np.linspace(0.02, 0.98, 97)
    quadratic = 3.0 * (right - left) - 2.0 * slope_left - slope_right
    cubic = 2.0 * (left - right) + slope_left + slope_right
    values = left + t * (slope_left + t * (quadratic + t * cubic))
    lowest = int(np.argmin(values))
    return float(t[lowest]), float(values[lowest])


def refine_minimum(at: Callable[[float], Prediction], bracket: Bracket) -> Prediction:
    """Prediction with the smallest slope inside a bracket, by a secant method that does not leave it."""
    low, high, (slope_low, slope_high), x, best = bracket
    smallest = np.inf
    old = (low, slope_low) if -slope_low < slope_high or slope_high == 0.0 else (high, slope_high)
    for _ in range(REFINE_MAX_SOLVES):
        try:
            here = at(x)
        except SolveError:
            break
        slope = decay_slope(here)
        if abs(slope) < smallest:
            best, smallest = here, abs(slope)
        if slope < 0.0:
            low = x
        else:
            high = x
        if slope == 0.0 or high - low < LOG_DECAY_TOLERANCE:
            break
        ahead = x - slope * (x - old[0]) / (slope - old[1]) if slope != old[1] else x
        if not low < ahead < high:
            ahead = 0.5 * (low + high)
        if abs(ahead - x) < LOG_DECAY_TOLERANCE:
            break
        old, x = (x, slope), ahead
    return best
