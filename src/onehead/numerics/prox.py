"""Proximal operators by a safeguarded Newton method, compiled, one point at a time with early exit.

The problem solved at each point is

    minimise over u in R^n    (u - v)' P (u - v) / (2 step) + sum_a row(u[select_a], label_a)

with P the inverse of a covariance (``metric``) and ``row`` a smooth function of a few coordinates. ``select`` holds
coordinate numbers, -1 standing for a coordinate that is always zero. ``row(x, label, gradient, hessian)`` returns
its value and fills the two arrays; compile it with `compile_row`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import float64, types
from numpy.typing import NDArray

from onehead.numerics.cholesky import factorise, saddle_free, saddle_free_pair, solve_factored
from onehead.numerics.jit import compile_pointer, njit
from onehead.numerics.newton import KICK, LONGEST, SAFE_PIVOT, newton_on_vectors, safeguarded_newton

_vector = types.Array(float64, 1, "C")
_matrix = types.Array(float64, 2, "C")
ROW_SIGNATURE = float64(_vector, _vector, _vector, _matrix)
ROW = types.FunctionType(ROW_SIGNATURE)  # a pointer: kernels are compiled once and cached, whatever the row
PAIR_SIGNATURE = types.UniTuple(float64, 3)(float64, float64, float64)
PAIR = types.FunctionType(PAIR_SIGNATURE)


def compile_row(function: Callable[..., float]) -> Any:
    """Compile ``row(x, label, gradient, hessian) -> value`` for the kernels."""
    return compile_pointer(ROW_SIGNATURE, function)


def compile_pair(function: Callable[..., tuple[float, float, float]]) -> Any:
    """Compile ``pair(x, y, 1 - y) -> (value, slope, curvature)`` for the kernels of two coordinates."""
    return compile_pointer(PAIR_SIGNATURE, function)


def pair_of_row(row: Any) -> Any:
    """The pair function of a compiled row function of two entries, the second logit being zero."""

    def pair(x: float, y: float, c: float) -> tuple[float, float, float]:
        logits, label, gradient, hessian = np.zeros(2), np.empty(2), np.empty(2), np.empty((2, 2))
        logits[0], label[0], label[1] = x, y, c
        value = row(logits, label, gradient, hessian)
        return value, gradient[0], hessian[0, 0]

    return compile_pointer(PAIR_SIGNATURE, pair, cache=False)


class Scratch(NamedTuple):
    """Work space of one thread, so that the inner loop allocates nothing."""

    gradient: NDArray[np.float64]
    step: NDArray[np.float64]
    trial: NDArray[np.float64]
    hessian: NDArray[np.float64]
    factor: NDArray[np.float64]
    row_x: NDArray[np.float64]
    row_label: NDArray[np.float64]
    row_gradient: NDArray[np.float64]
    row_hessian: NDArray[np.float64]


@njit
def scratch(n, width):
    """Allocate the work space for ``n`` coordinates and rows of ``width`` entries."""
    return Scratch(
        np.empty(n),
        np.empty(n),
        np.empty(n),
        np.empty((n, n)),
        np.empty((n, n)),
        np.empty(width),
        np.empty(width),
        np.empty(width),
        np.empty((width, width)),
    )


@njit
def _objective(problem, u, work):
    """Objective at ``u``, in a tuple; fills its gradient and Hessian."""
    select, metric, inverse_step, v, label, row = problem
    gradient, _, _, hessian, _, row_x, row_label, row_gradient, row_hessian = work
    n, rows, width = u.shape[0], select.shape[0], select.shape[1]
    value = 0.0
    for i in range(n):
        slope = 0.0
        for j in range(n):
            slope += metric[i, j] * (u[j] - v[j])
            hessian[i, j] = inverse_step * metric[i, j]
        gradient[i] = inverse_step * slope
        value += 0.5 * inverse_step * slope * (u[i] - v[i])
    for a in range(rows):
        for b in range(width):
            i = select[a, b]
            row_x[b] = u[i] if i >= 0 else 0.0
            row_label[b] = label[a, b]
        value += row(row_x, row_label, row_gradient, row_hessian)
        for b in range(width):
            i = select[a, b]
            if i >= 0:
                gradient[i] += row_gradient[b]
                for c in range(width):
                    j = select[a, c]
                    if j >= 0:
                        hessian[i, j] += row_hessian[b, c]
    return (value,)


@njit
def _newton_step(problem, u, state, work):
    """Newton's step by the Cholesky factor of the Hessian, or a step that leaves a saddle."""
    gradient, move, _, hessian, factor, _, _, _, _ = work
    n = u.shape[0]
    regular = factorise(hessian, factor)
    if regular:
        for i in range(n):
            move[i] = -gradient[i]
        solve_factored(factor, move)
    else:
        saddle_free(hessian, gradient, move)
    slope, size, scale = 0.0, 0.0, 1.0
    for i in range(n):
        slope += gradient[i] * move[i]
        size = max(size, abs(move[i]))
        scale = max(scale, 1.0 + abs(u[i]))
    return move, slope, size / scale, regular


# The problem is (select, metric, 1 / step, centre, label, row); the work space is a `Scratch`. numba warns of tuples
# that begin with a function.
minimise_prox = newton_on_vectors(_objective, _newton_step)


@njit
def newton_prox(row, select, metric, step, v, label, u, w):
    """Move ``u`` to the local minimum that safeguarded Newton reaches from it.

    Returns the objective there; the scratch then holds the gradient and the Hessian at the minimum.
    """
    _, state = minimise_prox((select, metric, 1.0 / step, v, label, row), u, w)
    return state[0]


@njit
def _pair_objective(problem, u, work):
    """Value, gradient and Hessian diagonal for two coordinates, each with a loss of its own."""
    (p00, p01, p11), (v0, v1), (y0, c0, y1, c1), pair = problem
    x0, x1 = u[0] - v0, u[1] - v1
    g0, g1 = p00 * x0 + p01 * x1, p01 * x0 + p11 * x1
    loss0, slope0, curve0 = pair(u[0], y0, c0)
    loss1, slope1, curve1 = pair(u[1], y1, c1)
    value = 0.5 * (g0 * x0 + g1 * x1) + loss0 + loss1
    return value, g0 + slope0, g1 + slope1, p00 + curve0, p11 + curve1


@njit
def _pair_step(problem, u, state, work):
    """Newton's step of two coordinates, or a step that leaves a saddle."""
    p01 = problem[0][1]
    _, g0, g1, h0, h1 = state
    determinant = h0 * h1 - p01 * p01
    regular = h0 > 0.0 and determinant > SAFE_PIVOT * h0 * abs(h1)
    if regular:
        m0, m1 = (p01 * g1 - h1 * g0) / determinant, (p01 * g0 - h0 * g1) / determinant
    else:
        m0, m1 = saddle_free_pair(h0, p01, h1, g0, g1)
    size = max(abs(m0), abs(m1)) / (1.0 + max(abs(u[0]), abs(u[1])))
    return (m0, m1), g0 * m0 + g1 * m1, size, regular


@njit
def _displace_pair(u, move, length, work):
    """u + length * move."""
    return u[0] + length * move[0], u[1] + length * move[1]


@njit
def _accept(u, trial):
    """Return the trial point: numbers are not overwritten."""
    return trial


@njit
def _steepest_of_pair(state, work):
    """Largest gradient entry of two coordinates."""
    return max(abs(state[1]), abs(state[2]))


# Minimum of two coordinates, all in registers. The problem is the metric over the step (p00, p01, p11), the
# centre (v0, v1), the labels (y0, 1 - y0, y1, 1 - y1) and the pair function; the state is the value, the
# gradient and the diagonal of the Hessian.
newton_pair = safeguarded_newton(_pair_objective, _pair_step, _displace_pair, _accept, _steepest_of_pair)


@njit
def _line_objective(problem, u, work):
    """Value, slope and curvature for one coordinate."""
    p, v, (y, c), pair = problem
    loss, slope, curve = pair(u, y, c)
    return 0.5 * p * (u - v) ** 2 + loss, p * (u - v) + slope, p + curve


@njit
def _line_step(problem, u, state, work):
    """Newton's step of one coordinate, or a step that leaves a maximum."""
    p = problem[0]
    _, g, h = state
    regular = h > SAFE_PIVOT * p
    move = -g / (h if regular else max(abs(h), 1e-8 * p))
    if not regular:
        if abs(move) < KICK:
            move = KICK if g <= 0.0 else -KICK
        move = min(max(move, -LONGEST), LONGEST)
    return move, g * move, abs(move) / (1.0 + abs(u)), regular


@njit
def _displace_line(u, move, length, work):
    """u + length * move."""
    return u + length * move


@njit
def _steepest_of_line(state, work):
    """Size of the slope of one coordinate."""
    return abs(state[1])


# Minimum of one coordinate. The problem is the metric over the step, the centre, the label (y, 1 - y) and the pair
# function; the state is the value, the slope and the curvature.
newton_line = safeguarded_newton(_line_objective, _line_step, _displace_line, _accept, _steepest_of_line)
