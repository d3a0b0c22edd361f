"""History of a limited-memory BFGS minimisation: the last steps and the changes of the gradient along them."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onehead.numerics.jit import njit

Array = NDArray[np.float64]

MINIMUM_COSINE = 1e-12  # of step and gradient change; pairs below it would make the inverse Hessian indefinite


@njit(fastmath=True, error_model="python")
def _first_loop(steps, changes, count, coefficients, out):  # type: ignore[no-untyped-def]
    """First loop of the two-loop recursion of Nocedal, from the last of ``count`` steps to the oldest stored one."""
    rows, size = steps.shape
    for k in range(count - 1, max(count - rows, 0) - 1, -1):
        s, y = steps[k % rows], changes[k % rows]
        curvature, product = 0.0, 0.0
        for i in range(size):
            curvature += s[i] * y[i]
            product += s[i] * out[i]
        coefficients[k % rows] = product / curvature
        for i in range(size):
            out[i] -= product / curvature * y[i]


@njit(fastmath=True, error_model="python")
def _second_loop(steps, changes, count, coefficients, out):  # type: ignore[no-untyped-def]
    """Second loop of the two-loop recursion, from the oldest stored step to the last."""
    rows, size = steps.shape
    for k in range(max(count - rows, 0), count):
        s, y = steps[k % rows], changes[k % rows]
        curvature, product = 0.0, 0.0
        for i in range(size):
            curvature += s[i] * y[i]
            product += y[i] * out[i]
        move = coefficients[k % rows] - product / curvature
        for i in range(size):
            out[i] += move * s[i]


class LbfgsHistory:
    """Last steps of a minimisation and the changes of the gradient along them.

    Parameters
    ----------
    size : int
        Number of variables.
    pairs : int
        Number of steps to store.
    dtype : type
        Precision of the stored steps.

    Examples
    --------
    >>> history = LbfgsHistory(2, pairs=5)
    >>> history.add(np.array([1.0, 0.0]), np.array([4.0, 0.0]))
    True
    >>> history.apply_inverse_hessian(np.array([4.0, 0.0])).tolist()
    [1.0, 0.0]
    """

    def __init__(self, size: int, pairs: int, dtype: Any = np.float64) -> None:
        self.steps, self.changes, self.count = np.empty((pairs, size), dtype), np.empty((pairs, size), dtype), 0

    def add(self, step: Array, change: Array) -> bool:
        """Store a step and the change of the gradient, if the gradient grew along it; return whether it did."""
        if not step @ change > MINIMUM_COSINE * np.sqrt((step @ step) * (change @ change)):
            return False
        k = self.count % len(self.steps)
        self.steps[k], self.changes[k], self.count = step, change, self.count + 1
        return True

    def apply_inverse_hessian(self, gradient: Array, preconditioner: Callable[[Array], Array] | None = None) -> Array:
        """Apply the two-loop recursion; ``preconditioner`` is the initial inverse Hessian up to a scale."""
        out, coefficients = np.array(gradient, dtype=np.float64), np.empty(len(self.steps))
        _first_loop(self.steps, self.changes, self.count, coefficients, out)
        if preconditioner is not None:
            out = preconditioner(out)
        if self.count > 0:
            k = (self.count - 1) % len(self.steps)
            last = self.changes[k].astype(np.float64)
            out *= float(self.steps[k] @ last) / float(
                last @ (last if preconditioner is None else preconditioner(last))
            )
        _second_loop(self.steps, self.changes, self.count, coefficients, out)
        return out
