"""Brent's methods for a root and for a minimum of a function of one variable.

They repeat those of scipy.optimize step by step; importing scipy.optimize takes longer than most predictions.
"""

from collections.abc import Callable
from math import copysign, isnan, sqrt

from onehead.errors import NonFinite, NotConverged, OutsideDomain

RELATIVE_TOLERANCE = 4.0 * 2.0**-52
GOLDEN_SECTION = 0.5 * (3.0 - sqrt(5.0))
SQRT_EPSILON = sqrt(
    2.2e-16
)  # relative distance from a minimum below which values of the function are equal to rounding
MAX_STEPS = 500

Function = Callable[[float], float]


def brent_root(f: Function, low: float, high: float, *, xtol: float = 2e-12, rtol: float = RELATIVE_TOLERANCE) -> float:
    """Find a root of a function that has opposite signs at the ends of an interval.

    Each step is one of inverse quadratic interpolation or of the secant method; where these are slow, a bisection.

    Parameters
    ----------
    f : callable
        Function of one float.
    low, high : float
        Ends of the interval.
    xtol, rtol : float
        The root is found to xtol + rtol |root|.

    Returns
    -------
    float

    Raises
    ------
    OutsideDomain
        If f has the same sign at both ends.
    NonFinite
        If f is not a number.
    NotConverged
        If the tolerance is not reached.

    Examples
    --------
    >>> round(brent_root(lambda x: x * x - 2.0, 0.0, 2.0), 9)
    1.414213562
    """
    previous, current = float(low), float(high)
    f_previous, f_current = float(f(previous)), float(f(current))
    if f_previous == 0.0 or f_current == 0.0:
        return previous if f_previous == 0.0 else current
    # the root lies between `current` and `opposite`
    opposite, f_opposite, step, step_before = previous, f_previous, 0.0, 0.0
    for iteration in range(MAX_STEPS):
        if isnan(f_current):
            raise NonFinite(f"f(x) is not a number at x = {current:.6g}.")
        if (f_previous < 0.0) != (f_current < 0.0):
            opposite, f_opposite, step = previous, f_previous, current - previous
            step_before = step
        elif iteration == 0:
            raise OutsideDomain(f"f(x) must have opposite signs at x = {low:.6g} and x = {high:.6g}.")
        if abs(f_opposite) < abs(f_current):  # continue from the end with the smaller value
            previous, current, opposite = current, opposite, current
            f_previous, f_current, f_opposite = f_current, f_opposite, f_current
        tolerance, half_width = 0.5 * (xtol + rtol * abs(current)), 0.5 * (opposite - current)
        if f_current == 0.0 or abs(half_width) < tolerance:
            return current
        chosen = half_width
        if abs(step_before) > tolerance and abs(f_current) < abs(f_previous):
            interpolated = _interpolated_step(previous, current, opposite, f_previous, f_current, f_opposite)
            if 2.0 * abs(interpolated) < min(abs(step_before), 3.0 * abs(half_width) - tolerance):
                chosen = interpolated
        step_before, step = (step if chosen is not half_width else half_width), chosen
        previous, f_previous = current, f_current
        current += step if abs(step) > tolerance else copysign(tolerance, half_width)
        f_current = float(f(current))
    raise NotConverged(
        f"no root was found between {low:.6g} and {high:.6g} in {MAX_STEPS} steps.", residual=abs(f_current)
    )


def _interpolated_step(
    previous: float, current: float, opposite: float, f_previous: float, f_current: float, f_opposite: float
) -> float:
    """Return the step to the root of the secant through two points, or of the inverse parabola through three."""
    if previous == opposite:
        return -f_current * (current - previous) / (f_current - f_previous)
    slope_previous = (f_previous - f_current) / (previous - current)
    slope_opposite = (f_opposite - f_current) / (opposite - current)
    denominator = slope_opposite * slope_previous * (f_opposite - f_previous)
    if denominator == 0.0:
        return float("inf")
    return -f_current * (f_opposite * slope_opposite - f_previous * slope_previous) / denominator


def brent_minimum(f: Function, low: float, high: float, *, xatol: float) -> tuple[float, float]:
    """Find a minimum of a function inside an interval, whose ends are not evaluated.

    Each step is a golden section, or goes to the minimum of the parabola through the best three points where that is
    faster.

    Parameters
    ----------
    f : callable
        Function of one float.
    low, high : float
        Ends of the interval.
    xatol : float
        Absolute tolerance of the position.

    Returns
    -------
    tuple of float
        Position and value of the minimum.

    Examples
    --------
    >>> [round(number, 6) for number in brent_minimum(lambda x: (x - 1.0) ** 2, 0.0, 3.0, xatol=1e-9)]
    [1.0, 0.0]
    """
    low, high = float(low), float(high)
    best = second = third = low + GOLDEN_SECTION * (high - low)
    f_best = f_second = f_third = float(f(best))
    step = step_before = 0.0
    for _ in range(MAX_STEPS):
        middle, tolerance = 0.5 * (low + high), SQRT_EPSILON * abs(best) + xatol / 3.0
        if abs(best - middle) <= 2.0 * tolerance - 0.5 * (high - low):
            break
        golden = True
        if abs(step_before) > tolerance:  # the parabola through the best three points
            r, q = (best - second) * (f_best - f_third), (best - third) * (f_best - f_second)
            p, q = (best - third) * q - (best - second) * r, 2.0 * (q - r)
            p, q, r, step_before = (-p if q > 0.0 else p), abs(q), step_before, step
            if abs(p) < abs(0.5 * q * r) and q * (low - best) < p < q * (high - best):
                step, golden = p / q, False
                if (best + step) - low < 2.0 * tolerance or high - (best + step) < 2.0 * tolerance:
                    step = tolerance if middle >= best else -tolerance
        if golden:
            step_before = low - best if best >= middle else high - best
            step = GOLDEN_SECTION * step_before
        trial = best + copysign(max(abs(step), tolerance), step)
        f_trial = float(f(trial))
        if f_trial <= f_best:
            low, high = (best, high) if trial >= best else (low, best)
            third, f_third, second, f_second, best, f_best = second, f_second, best, f_best, trial, f_trial
            continue
        low, high = (trial, high) if trial < best else (low, trial)
        if f_trial <= f_second or second == best:
            third, f_third, second, f_second = second, f_second, trial, f_trial
        elif f_trial <= f_third or third in (best, second):
            third, f_third = trial, f_trial
    return best, f_best
