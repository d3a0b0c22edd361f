"""What a quasi-Newton search remembers: its last steps, and how the gradient changed along them."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onehead.numerics.compiled import njit

__all__ = ["Memory"]

Array = NDArray[np.float64]

GROWN = 1e-12  # cosine of step and change below which nothing is learned


@njit(cache=True, nogil=True, fastmath=True)
def _before(steps, changes, count, shares, out):  # type: ignore[no-untyped-def]
    """The first of the two loops of Nocedal: from the last of ``count`` steps to the first one kept; the scale that the last shows."""
    rows, size = steps.shape
    for k in range(count - 1, max(count - rows, 0) - 1, -1):
        s, y = steps[k % rows], changes[k % rows]
        grown, share = 0.0, 0.0
        for i in range(size):
            grown += s[i] * y[i]
            share += s[i] * out[i]
        shares[k % rows] = share / grown
        for i in range(size):
            out[i] -= share / grown * y[i]


@njit(cache=True, nogil=True, fastmath=True)
def _after(steps, changes, count, shares, out):  # type: ignore[no-untyped-def]
    """The second loop, in the order of the steps."""
    rows, size = steps.shape
    for k in range(max(count - rows, 0), count):
        s, y = steps[k % rows], changes[k % rows]
        grown, share = 0.0, 0.0
        for i in range(size):
            grown += s[i] * y[i]
            share += y[i] * out[i]
        move = shares[k % rows] - share / grown
        for i in range(size):
            out[i] += move * s[i]


class Memory:
    """The last steps of a search, and how the gradient changed along them.

    Examples
    --------
    >>> memory = Memory(2, pairs=5)
    >>> memory.add(np.array([1.0, 0.0]), np.array([4.0, 0.0]))
    True
    >>> memory.turned(np.array([4.0, 0.0])).tolist()
    [1.0, 0.0]
    """

    def __init__(self, size: int, pairs: int, kind: Any = np.float64) -> None:
        self.steps, self.changes, self.count = np.empty((pairs, size), kind), np.empty((pairs, size), kind), 0

    def add(self, step: Array, change: Array) -> bool:
        """Learn from a step, if the gradient has grown along it."""
        if not step @ change > GROWN * np.sqrt((step @ step) * (change @ change)):
            return False
        k = self.count % len(self.steps)
        self.steps[k], self.changes[k], self.count = step, change, self.count + 1
        return True

    def turned(self, gradient: Array, rough: Callable[[Array], Array] | None = None) -> Array:
        """The inverse Hessian, as the steps show it, times the gradient; ``rough`` is what is known of it without them, up to a scale."""
        out, shares = np.array(gradient, dtype=np.float64), np.empty(len(self.steps))
        _before(self.steps, self.changes, self.count, shares, out)
        if rough is not None:
            out = rough(out)
        if self.count > 0:
            k = (self.count - 1) % len(self.steps)
            last = self.changes[k].astype(np.float64)
            out *= float(self.steps[k] @ last) / float(last @ (last if rough is None else rough(last)))
        _after(self.steps, self.changes, self.count, shares, out)
        return out
