"""Search for the lowest minimum of a proximal objective: Newton's method from several starts (2.7)."""

from typing import Any

from onehead.aim.kernels.arguments import Branch
from onehead.numerics.jit import njit
from onehead.numerics.newton import is_lower


def multi_start(minimise: Any, place_start: Any) -> Any:
    """Make a compiled search for minima that are lower than a known one.

    Parameters
    ----------
    minimise : compiled function (problem, point, work) -> (point, state)
        See `onehead.numerics.newton.safeguarded_newton`; points are arrays.
    place_start : compiled function (problem, starts, number, point)
        Overwrites ``point`` by the start of this number.
    """

    @njit(cache=False)  # compiled into the functions that call it, and cached with them
    def search(problem, starts, count, point, value, branch, work, spare):
        """Return whether a minimum is lower than the one at ``point``, and the state there.

        If ``branch`` is global, ``point`` is replaced by the lowest minimum. ``spare`` is work space for two points.
        """
        other, lowest_point = spare
        lowest, found = value, False
        for number in range(count):
            place_start(problem, starts, number, other)
            _, state = minimise(problem, other, work)
            if is_lower(state[0], lowest):
                lowest, found = state[0], True
                lowest_point[:] = other
        if found and branch == Branch.GLOBAL:
            point[:] = lowest_point
        _, state = minimise(problem, point, work)  # a minimum already: this refills the work space
        return found, state

    return search
