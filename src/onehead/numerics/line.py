"""Functions of one number: a root, and a minimum, between two ends, by Brent's two methods.

scipy.optimize has both; loading it takes longer than most predictions do.
"""

from collections.abc import Callable
from math import copysign, isnan, sqrt

from onehead.errors import NonFinite, NotConverged, OutsideDomain

__all__ = ["lowest_between", "root_between"]

ROUNDING = 4.0 * 2.0**-52
GOLDEN = 0.5 * (3.0 - sqrt(5.0))
FLAT = sqrt(2.2e-16)  # a minimum is flat: nearer than this, relative, its values cannot be told apart
STEPS = 500

Line = Callable[[float], float]


def root_between(f: Line, low: float, high: float, *, xtol: float = 2e-12, rtol: float = ROUNDING) -> float:
    """A root of ``f``, which has different signs at the two ends, to xtol + rtol |root|.

    Each step goes where the parabola through the last three points, lying on its side, meets zero, or the line through two;
    where that is slow, to the middle.

    Examples
    --------
    >>> round(root_between(lambda x: x * x - 2.0, 0.0, 2.0), 9)
    1.414213562
    """
    last, here = float(low), float(high)
    f_last, f_here = float(f(last)), float(f(here))
    if f_last == 0.0 or f_here == 0.0:
        return last if f_last == 0.0 else here
    across, f_across, step, before = last, f_last, 0.0, 0.0  # the root lies between `here` and `across`
    for turn in range(STEPS):
        if isnan(f_here):
            raise NonFinite(f"what is to be zero is not a number at {here:.6g}.")
        if (f_last < 0.0) != (f_here < 0.0):
            across, f_across, step = last, f_last, here - last
            before = step
        elif turn == 0:
            raise OutsideDomain(f"what is to be zero has the same sign at {low:.6g} and at {high:.6g}.")
        if abs(f_across) < abs(f_here):  # the better one of the two is where we are
            last, here, across = here, across, here
            f_last, f_here, f_across = f_here, f_across, f_here
        close, half = 0.5 * (xtol + rtol * abs(here)), 0.5 * (across - here)
        if f_here == 0.0 or abs(half) < close:
            return here
        move = half
        if abs(before) > close and abs(f_here) < abs(f_last):
            tried = _aimed(last, here, across, f_last, f_here, f_across)
            if 2.0 * abs(tried) < min(abs(before), 3.0 * abs(half) - close):
                move = tried
        before, step = (step if move is not half else half), move
        last, f_last = here, f_here
        here += step if abs(step) > close else copysign(close, half)
        f_here = float(f(here))
    raise NotConverged(f"no root was found between {low:.6g} and {high:.6g} in {STEPS} steps.", residual=abs(f_here))


def _aimed(last: float, here: float, across: float, f_last: float, f_here: float, f_across: float) -> float:
    """The step to where the line through two points, or the inverse parabola through three, is zero."""
    if last == across:
        return -f_here * (here - last) / (f_here - f_last)
    rise, fall = (f_last - f_here) / (last - here), (f_across - f_here) / (across - here)
    below = fall * rise * (f_across - f_last)
    return -f_here * (f_across * fall - f_last * rise) / below if below != 0.0 else float("inf")


def lowest_between(f: Line, low: float, high: float, *, xatol: float) -> tuple[float, float]:
    """Where ``f`` has a minimum between two ends, and its value there; the ends themselves are not looked at.

    Golden sections, and steps to the bottom of the parabola through the best three points where that is quicker.

    Examples
    --------
    >>> [round(number, 6) for number in lowest_between(lambda x: (x - 1.0) ** 2, 0.0, 3.0, xatol=1e-9)]
    [1.0, 0.0]
    """
    low, high = float(low), float(high)
    best = second = third = low + GOLDEN * (high - low)
    f_best = f_second = f_third = float(f(best))
    step = before = 0.0
    for _ in range(STEPS):
        middle, close = 0.5 * (low + high), FLAT * abs(best) + xatol / 3.0
        if abs(best - middle) <= 2.0 * close - 0.5 * (high - low):
            break
        golden = True
        if abs(before) > close:  # the parabola through the three
            r, q = (best - second) * (f_best - f_third), (best - third) * (f_best - f_second)
            p, q = (best - third) * q - (best - second) * r, 2.0 * (q - r)
            p, q, r, before = (-p if q > 0.0 else p), abs(q), before, step
            if abs(p) < abs(0.5 * q * r) and q * (low - best) < p < q * (high - best):
                step, golden = p / q, False
                if (best + step) - low < 2.0 * close or high - (best + step) < 2.0 * close:
                    step = close if middle >= best else -close
        if golden:
            before = low - best if best >= middle else high - best
            step = GOLDEN * before
        tried = best + copysign(max(abs(step), close), step)
        f_tried = float(f(tried))
        if f_tried <= f_best:
            low, high = (best, high) if tried >= best else (low, best)
            third, f_third, second, f_second, best, f_best = second, f_second, best, f_best, tried, f_tried
            continue
        low, high = (tried, high) if tried < best else (low, tried)
        if f_tried <= f_second or second == best:
            third, f_third, second, f_second = second, f_second, tried, f_tried
        elif f_tried <= f_third or third in (best, second):
            third, f_third = tried, f_tried
    return best, f_best
