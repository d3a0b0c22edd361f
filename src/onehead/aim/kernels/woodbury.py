"""Proximal points of rows that share logits, by Newton's method on a Hessian that is blocks plus a few directions (L7).

A = D + U K U' has the inverse D^-1 - D^-1 U (K^-1 + U' D^-1 U)^-1 U' D^-1: what is factored has a row or two for each
row of logits. What D is, one number for each logit or one block for each pair, belongs to the head; the way down is the
same.
"""

from typing import Any

import numpy as np

from onehead.aim.kernels.losses import CROSS_ENTROPY
from onehead.numerics.jit import njit
from onehead.numerics.prox import ARMIJO, FLAT, LAST_STEP, LONGEST, MAX_NEWTON, ROUNDING, SLACK

__all__ = ["MOST_STARTS", "decompose", "descent", "inverse_of", "solve_factored"]

TIGHTEST = 1e12  # factor of the hold of a point on the way to its minimum
MOST_STARTS = 8  # rows that are put at their label, one at a time, where lower minima are looked for


@njit(cache=True, nogil=True, error_model="numpy")
def decompose(kind, s, t, R):  # type: ignore[no-untyped-def]
    """Add K^-1 to U' D^-1 U, and put L and pivots in its place; return whether it has as many negative pivots as a
    minimum.
    """
    T, size = s.shape[0], R.shape[0]
    for a in range(T):
        if kind == CROSS_ENTROPY:
            R[a, a] -= 1.0
        else:
            R[a, T + a] -= 0.5
            R[T + a, a] -= 0.5
            R[T + a, T + a] -= 0.5 * (s[a] + t[a])
    negative = 0
    for j in range(size):  # L D L' without exchanges: the two halves are definite where all is well
        pivot = R[j, j]
        if abs(pivot) < 1e-13:
            return False
        if pivot < 0.0:
            negative += 1
        for i in range(j + 1, size):
            factor = R[i, j] / pivot
            if factor != 0.0:
                for k in range(j + 1, i + 1):
                    R[i, k] -= factor * R[k, j]
        for i in range(j + 1, size):
            R[i, j] /= pivot
    return negative == T


@njit(cache=True, nogil=True, error_model="numpy")
def solve_factored(R, x):  # type: ignore[no-untyped-def]
    """Replace x by the solution of L D L' y = x."""
    size = R.shape[0]
    for i in range(size):
        for j in range(i):
            x[i] -= R[i, j] * x[j]
    for i in range(size):
        x[i] /= R[i, i]
    for i in range(size - 1, -1, -1):
        for j in range(i + 1, size):
            x[i] -= R[j, i] * x[j]


@njit(cache=True, nogil=True, error_model="numpy")
def inverse_of(R, M):  # type: ignore[no-untyped-def]
    """M = (L D L')^-1."""
    size = R.shape[0]
    for i in range(size):
        M[i, :] = 0.0
        M[i, i] = 1.0
        solve_factored(R, M[i])


def descent(objective: Any, factor: Any, step: Any) -> Any:
    """Newton's method for what these say of a head.

    ``objective`` gives the height of a point, and fills the gradient and what its ``rows`` have of it; ``factor`` fills
    ``inner``, the hold being so many times as tight, and says whether the Hessian is positive definite; ``step`` fills
    the move, and gives the slope along it.
    """

    @njit(nogil=True, error_model="numpy")  # compiled into whoever calls it, and kept there
    def descend(kind, held, v, y, h, rows, inner, gradient, move, trial):  # type: ignore[no-untyped-def]
        """Move ``h`` to the minimum that Newton reaches; return its height and the largest gradient, ``inner`` being
        factored there.
        """
        value = objective(kind, held, v, y, h, rows, inner, gradient)
        for _ in range(MAX_NEWTON):
            regular, more = factor(kind, 1.0, held, rows, inner), 1.0
            whole = regular
            while not regular and more < TIGHTEST:  # hold it tighter, until the step leads downhill
                more *= 2.0
                regular = factor(kind, more, held, rows, inner)
            slope = step(rows, inner, gradient, move)
            size, scale = np.max(np.abs(move)), 1.0 + np.max(np.abs(h))
            if not whole and size >= LONGEST:
                move *= LONGEST / size
                slope *= LONGEST / size
            allowed, length, stuck = value + SLACK * (1.0 + abs(value)), 1.0, False
            while True:
                for a in range(h.shape[0]):
                    for b in range(h.shape[1]):
                        trial[a, b] = h[a, b] + length * move[a, b]
                new = objective(kind, held, v, y, trial, rows, inner, gradient)
                if new <= allowed + ARMIJO * length * slope:
                    break
                length *= 0.5
                if length < 1e-12:  # only rounding is left to gain
                    stuck = True
                    break
            value = new
            h[:] = trial
            steepest = np.max(np.abs(gradient))
            if stuck or (
                whole and length == 1.0 and size < LAST_STEP * scale and (steepest < FLAT or size < ROUNDING * scale)
            ):
                break
        lift = 0.0
        while not factor(
            kind, 1.0 + lift, held, rows, inner
        ):  # a minimum on the verge of losing itself: lift it just enough
            lift = max(10.0 * lift, 1e-9)
        return value, np.max(np.abs(gradient))

    return descend
