"""Proximal points of rows that share logits, by Newton's method on a Hessian that is blocks plus a few directions (L7).

A = D + U K U' has the inverse D^-1 - D^-1 U (K^-1 + U' D^-1 U)^-1 U' D^-1: what is factored has a row or two for each
row of logits. What D is, one number for each logit or one block for each pair, belongs to the head; the way down is the
same.
"""

from typing import Any

from onehead.aim.kernels.independent_rows import TIGHTEST
from onehead.aim.kernels.losses import CROSS_ENTROPY
from onehead.numerics.jit import njit
from onehead.numerics.newton import LONGEST, largest_entry, newton_on_matrices

MOST_STARTS = 8  # rows that are put at their label, one at a time, where lower minima are looked for


@njit
def decompose(kind, s, t, R):
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


@njit
def solve_factored(R, x):
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


@njit
def inverse_of(R, M):
    """M = (L D L')^-1."""
    size = R.shape[0]
    for i in range(size):
        M[i, :] = 0.0
        M[i, i] = 1.0
        solve_factored(R, M[i])


def newton_by_woodbury(objective: Any, factor: Any, step: Any) -> Any:
    """Make a compiled function ``minimise(problem, h, work) -> (h, (value,))`` for logits that are matrices.

    The work space is a tuple of the gradient, the step, the trial point, what the rows have of a point, and the factors
    of the Hessian.

    Parameters
    ----------
    objective : compiled function (problem, h, work) -> (value,)
        Value of a point; fills the gradient and what the rows have of it.
    factor : compiled function (problem, hold, work) -> bool
        Fills the factors of the Hessian, the hold being multiplied by a number; whether it is positive definite.
    step : compiled function (work) -> float
        Fills the step, and returns the slope along it.
    """

    @njit(cache=False)
    def newton_step(problem, h, state, work):
        """Newton's step; where the Hessian is not positive definite that of a tighter hold."""
        regular, hold = factor(problem, 1.0, work), 1.0
        definite = regular
        while not definite and hold < TIGHTEST:
            hold *= 2.0
            definite = factor(problem, hold, work)
        slope, move = step(work), work[1]
        size, scale = largest_entry(move), 1.0 + largest_entry(h)
        if not regular and size >= LONGEST:
            move *= LONGEST / size
            slope *= LONGEST / size
        return move, slope, size / scale, regular

    newton = newton_on_matrices(objective, newton_step)

    @njit(cache=False)
    def minimise(problem, h, work):
        """Move ``h`` to the minimum that Newton's method reaches from it, where the Hessian is factored."""
        h, state = newton(problem, h, work)
        excess = 0.0
        while not factor(problem, 1.0 + excess, work):  # a minimum that is about to vanish: hold it just enough
            excess = max(10.0 * excess, 1e-9)
        return h, state

    return minimise
