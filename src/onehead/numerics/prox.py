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
from numba import float64, int64, types
from numpy.typing import NDArray

from onehead.errors import NotConverged
from onehead.numerics.jit import compile_pointer, njit

__all__ = [
    "PAIR",
    "ROW",
    "ProxPoints",
    "Scratch",
    "compile_pair",
    "compile_row",
    "factorise",
    "invert_factored",
    "newton_line",
    "newton_pair",
    "newton_prox",
    "pair_of_row",
    "prox",
    "saddle_free_pair",
    "scratch",
    "solve_factored",
]

_vector = types.Array(float64, 1, "C")
_matrix = types.Array(float64, 2, "C")
ROW_SIGNATURE = float64(_vector, _vector, _vector, _matrix)
ROW = types.FunctionType(ROW_SIGNATURE)  # a pointer: kernels are compiled once and cached, whatever the row
PAIR_SIGNATURE = types.UniTuple(float64, 3)(float64, float64, float64)
PAIR = types.FunctionType(PAIR_SIGNATURE)

MAX_NEWTON = 200
ARMIJO = 1e-4
LAST_STEP = 1e-5  # Newton is quadratic: a step of this relative size leaves an error of about its square
FLAT = 1e-10  # and a gradient below this
ROUNDING = 1e-13
SLACK = 1e-14  # rounding of the objective: without it the last steps are refused for ever
KICK = 0.1  # step off a saddle along its downward direction, where the gradient alone shows none
LONGEST = 5.0  # longest step where the curvature is not positive: the quadratic model says little there
SAFE_PIVOT = 1e-6  # a pivot this far below its diagonal entry is rounding, not curvature


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
    hessian: NDArray[np.float64]
    factor: NDArray[np.float64]
    step: NDArray[np.float64]
    trial: NDArray[np.float64]
    row_x: NDArray[np.float64]
    row_label: NDArray[np.float64]
    row_gradient: NDArray[np.float64]
    row_hessian: NDArray[np.float64]


@njit(cache=True, nogil=True, error_model="numpy")
def scratch(n, width):  # type: ignore[no-untyped-def]
    """Allocate the work space for ``n`` coordinates and rows of ``width`` entries."""
    return Scratch(
        np.empty(n),
        np.empty((n, n)),
        np.empty((n, n)),
        np.empty(n),
        np.empty(n),
        np.empty(width),
        np.empty(width),
        np.empty(width),
        np.empty((width, width)),
    )


# Below, arrays travel one by one: taking a field or a slice of an array counts references atomically,
# which in these small loops costs more than the arithmetic.


@njit(cache=True, nogil=True, error_model="numpy")
def _objective(  # type: ignore[no-untyped-def]
    row, select, metric, inverse_step, v, label, u, gradient, hessian, row_x, row_label, row_gradient, row_hessian
):  # fmt: skip
    """Objective at ``u``; fills its gradient and Hessian."""
    n = u.shape[0]
    width = select.shape[1]
    value = 0.0
    for i in range(n):
        slope = 0.0
        for j in range(n):
            slope += metric[i, j] * (u[j] - v[j])
            hessian[i, j] = inverse_step * metric[i, j]
        gradient[i] = inverse_step * slope
        value += 0.5 * inverse_step * slope * (u[i] - v[i])
    for a in range(select.shape[0]):
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
    return value


@njit(cache=True, nogil=True, error_model="numpy")
def factorise(hessian, factor):  # type: ignore[no-untyped-def]
    """Cholesky factor of the Hessian; False when it is not safely positive definite."""
    n = hessian.shape[0]
    for j in range(n):
        pivot = hessian[j, j]
        least = SAFE_PIVOT * abs(pivot)
        for k in range(j):
            pivot -= factor[j, k] * factor[j, k]
        if not pivot > least:
            return False
        factor[j, j] = np.sqrt(pivot)
        for i in range(j + 1, n):
            total = hessian[i, j]
            for k in range(j):
                total -= factor[i, k] * factor[j, k]
            factor[i, j] = total / factor[j, j]
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _saddle_free(hessian, gradient, move):  # type: ignore[no-untyped-def]
    """Newton's step with every curvature replaced by its size, so that it goes downhill in all directions."""
    n = gradient.shape[0]
    values, vectors = np.linalg.eigh(hessian)
    floor = 1e-8 * max(abs(values[0]), abs(values[n - 1]))
    move[:] = 0.0
    for k in range(n):
        slope = 0.0
        for i in range(n):
            slope += gradient[i] * vectors[i, k]
        length = -slope / max(abs(values[k]), floor)
        if k == 0 and values[0] < 0.0 and abs(length) < KICK:
            length = KICK if slope <= 0.0 else -KICK
        for i in range(n):
            move[i] += length * vectors[i, k]
    size = 0.0
    for i in range(n):
        size = max(size, abs(move[i]))
    if size > LONGEST:
        for i in range(n):
            move[i] *= LONGEST / size


@njit(cache=True, nogil=True, error_model="numpy")
def solve_factored(factor, x):  # type: ignore[no-untyped-def]
    """Solve L L' x = b in place, ``x`` holding b."""
    n = x.shape[0]
    for i in range(n):
        for k in range(i):
            x[i] -= factor[i, k] * x[k]
        x[i] /= factor[i, i]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            x[i] -= factor[k, i] * x[k]
        x[i] /= factor[i, i]


@njit(cache=True, nogil=True, error_model="numpy")
def invert_factored(factor, inverse):  # type: ignore[no-untyped-def]
    """(L L')^-1 from its Cholesky factor: L^-1 first, kept in the lower half, then its own square."""
    n = factor.shape[0]
    for j in range(n):
        inverse[j, j] = 1.0 / factor[j, j]
        for i in range(j + 1, n):
            total = 0.0
            for k in range(j, i):
                total -= factor[i, k] * inverse[k, j]
            inverse[i, j] = total / factor[i, i]
    for i in range(n):
        for j in range(i + 1):
            total = 0.0
            for k in range(i, n):
                total += inverse[k, i] * inverse[k, j]
            inverse[j, i] = total  # the upper half, while the lower one is still in use
    for i in range(n):
        for j in range(i):
            inverse[i, j] = inverse[j, i]


@njit(cache=True, nogil=True, error_model="numpy")
def _pair_objective(pair, p00, p01, p11, v0, v1, y0, c0, y1, c1, u0, u1):  # type: ignore[no-untyped-def]
    """Value, gradient and Hessian diagonal for two coordinates, each with a loss of its own."""
    x0, x1 = u0 - v0, u1 - v1
    g0, g1 = p00 * x0 + p01 * x1, p01 * x0 + p11 * x1
    loss0, slope0, curve0 = pair(u0, y0, c0)
    loss1, slope1, curve1 = pair(u1, y1, c1)
    value = 0.5 * (g0 * x0 + g1 * x1) + loss0 + loss1
    return value, g0 + slope0, g1 + slope1, p00 + curve0, p11 + curve1


@njit(cache=True, nogil=True, error_model="numpy")
def newton_pair(pair, p00, p01, p11, v0, v1, y0, c0, y1, c1, u0, u1):  # type: ignore[no-untyped-def]
    """`newton_prox` for two coordinates (p: metric over step), all in registers: most of the library's time goes here.

    ``pair(x, y, c)`` gives the loss of a coordinate, its slope and its curvature; y and c = 1 - y are its label.
    Returns the value, the minimiser, the gradient and the diagonal of the Hessian.
    """
    value, g0, g1, h0, h1 = _pair_objective(pair, p00, p01, p11, v0, v1, y0, c0, y1, c1, u0, u1)
    for _ in range(MAX_NEWTON):
        determinant = h0 * h1 - p01 * p01
        regular = h0 > 0.0 and determinant > SAFE_PIVOT * h0 * abs(h1)
        if regular:
            m0, m1 = (p01 * g1 - h1 * g0) / determinant, (p01 * g0 - h0 * g1) / determinant
        else:
            m0, m1 = saddle_free_pair(h0, p01, h1, g0, g1)
        slope = g0 * m0 + g1 * m1
        allowed = value + SLACK * (1.0 + abs(value))
        length = 1.0
        while True:
            new, n0, n1, k0, k1 = _pair_objective(
                pair, p00, p01, p11, v0, v1, y0, c0, y1, c1, u0 + length * m0, u1 + length * m1
            )
            if new <= allowed + ARMIJO * length * slope or length < 1e-12:
                break
            length *= 0.5
        if length < 1e-12:  # only rounding is left to gain
            break
        u0, u1, value, g0, g1, h0, h1 = u0 + length * m0, u1 + length * m1, new, n0, n1, k0, k1
        size = max(abs(m0), abs(m1)) / (1.0 + max(abs(u0), abs(u1)))
        if regular and length == 1.0 and size < LAST_STEP and (max(abs(g0), abs(g1)) < FLAT or size < ROUNDING):
            break
    return value, u0, u1, g0, g1, h0, h1


@njit(cache=True, nogil=True, error_model="numpy")
def newton_line(pair, p, v, y, c, u):  # type: ignore[no-untyped-def]
    """`newton_prox` for one coordinate: value, minimiser, gradient and curvature; p is the metric over step."""
    loss, slope, curve = pair(u, y, c)
    value, g, h = 0.5 * p * (u - v) ** 2 + loss, p * (u - v) + slope, p + curve
    for _ in range(MAX_NEWTON):
        regular = h > SAFE_PIVOT * p
        move = -g / (h if regular else max(abs(h), 1e-8 * p))
        if not regular:
            if abs(move) < KICK:
                move = KICK if g <= 0.0 else -KICK
            move = min(max(move, -LONGEST), LONGEST)
        allowed, length = value + SLACK * (1.0 + abs(value)), 1.0
        while True:
            trial = u + length * move
            loss, slope, curve = pair(trial, y, c)
            new = 0.5 * p * (trial - v) ** 2 + loss
            if new <= allowed + ARMIJO * length * g * move or length < 1e-12:
                break
            length *= 0.5
        if length < 1e-12:  # only rounding is left to gain
            break
        u, value, g, h = trial, new, p * (trial - v) + slope, p + curve
        size = abs(move) / (1.0 + abs(u))
        if regular and length == 1.0 and size < LAST_STEP and (abs(g) < FLAT or size < ROUNDING):
            break
    return value, u, g, h


@njit(cache=True, nogil=True, error_model="numpy")
def saddle_free_pair(h0, off, h1, g0, g1):  # type: ignore[no-untyped-def]
    """`_saddle_free` for two coordinates."""
    middle, half = 0.5 * (h0 + h1), 0.5 * (h0 - h1)
    radius = np.hypot(half, off)
    low, high = middle - radius, middle + radius
    # eigenvector of the lower eigenvalue, from the row that does not cancel
    x, y = (off, -(half + radius)) if half >= 0.0 else (half - radius, off)
    norm = np.hypot(x, y)
    x, y = (x / norm, y / norm) if norm > 0.0 else (1.0, 0.0)
    floor = 1e-8 * max(abs(low), abs(high))
    along, across = g0 * x + g1 * y, g1 * x - g0 * y
    a, b = -along / max(abs(low), floor), -across / max(abs(high), floor)
    if low < 0.0 and abs(a) < KICK:
        a = KICK if along <= 0.0 else -KICK
    m0, m1 = a * x - b * y, a * y + b * x
    size = max(abs(m0), abs(m1))
    if size > LONGEST:
        m0, m1 = m0 * LONGEST / size, m1 * LONGEST / size
    return m0, m1


@njit(cache=True, nogil=True, error_model="numpy")
def newton_prox(row, select, metric, step, v, label, u, w):  # type: ignore[no-untyped-def]
    """Move ``u`` to the local minimum that safeguarded Newton reaches from it.

    Returns the objective there; the scratch then holds the gradient and the Hessian at the minimum.
    Where the Hessian is not positive definite every curvature is replaced by its size; steps are halved until
    the objective falls (Armijo).
    """
    gradient, hessian, factor, move, trial, row_x, row_label, row_gradient, row_hessian = w
    n = u.shape[0]
    inverse_step = 1.0 / step
    value = _objective(
        row, select, metric, inverse_step, v, label, u, gradient, hessian, row_x, row_label, row_gradient, row_hessian
    )  # fmt: skip
    for _ in range(MAX_NEWTON):
        regular = factorise(hessian, factor)
        if regular:
            for i in range(n):
                move[i] = -gradient[i]
            solve_factored(factor, move)
        else:
            _saddle_free(hessian, gradient, move)
        slope, size, scale = 0.0, 0.0, 1.0
        for i in range(n):
            slope += gradient[i] * move[i]
            size = max(size, abs(move[i]))
            scale = max(scale, 1.0 + abs(u[i]))
        length = 1.0
        while True:
            for i in range(n):
                trial[i] = u[i] + length * move[i]
            new = _objective(
                row, select, metric, inverse_step, v, label, trial, gradient, hessian,
                row_x, row_label, row_gradient, row_hessian,
            )  # fmt: skip
            if new <= value + ARMIJO * length * slope + SLACK * (1.0 + abs(value)):
                break
            length *= 0.5
            if length < 1e-12:  # only rounding is left to gain: put the derivatives at u back
                return _objective(
                    row, select, metric, inverse_step, v, label, u, gradient, hessian,
                    row_x, row_label, row_gradient, row_hessian,
                )  # fmt: skip
        for i in range(n):
            u[i] = trial[i]
        value = new
        if regular and length == 1.0 and size < LAST_STEP * scale:
            steepest = 0.0
            for i in range(n):
                steepest = max(steepest, abs(gradient[i]))
            if steepest < FLAT or size < ROUNDING * scale:
                break
    return value


@njit(
    types.void(
        ROW,
        types.Array(int64, 2, "C"),
        _matrix,
        float64,
        _matrix,
        types.Array(float64, 3, "C"),
        _matrix,
        _matrix,
    ),
    cache=True,
    nogil=True,
    error_model="numpy",
)
def _prox_batch(row, select, metric, step, v, label, u, out):  # type: ignore[no-untyped-def]
    """Run `newton_prox` on every point; ``out`` receives the value and the gradient norm."""
    w = scratch(u.shape[1], select.shape[1])
    for i in range(u.shape[0]):
        out[i, 0] = newton_prox(row, select, metric, step, v[i], label[i], u[i], w)
        out[i, 1] = np.max(np.abs(w.gradient))


class ProxPoints(NamedTuple):
    """Minimisers, objective values and gradient norms, one per point."""

    u: NDArray[np.float64]
    value: NDArray[np.float64]
    gradient_norm: NDArray[np.float64]


def prox(
    row: Any,
    select: NDArray[np.int64],
    metric: NDArray[np.float64],
    step: float,
    centre: NDArray[np.float64],
    label: NDArray[np.float64],
    start: NDArray[np.float64],
    *,
    tolerance: float = 1e-6,
) -> ProxPoints:
    """Proximal points of a batch, each the local minimum reached from its own start.

    Parameters
    ----------
    row : compiled row function
        See `compile_row`.
    select : int array of shape (rows, width)
    metric : array of shape (n, n)
    step : float
    centre, start : arrays of shape (points, n)
    label : array of shape (points, rows, width)
    tolerance : float
        Largest gradient entry allowed at a returned point.

    Raises
    ------
    NotConverged
        When a point keeps a larger gradient; the text names the first one.
    """
    u = np.array(start, dtype=float, order="C")
    out = np.empty((len(u), 2))
    _prox_batch(
        row,
        np.ascontiguousarray(select, dtype=np.int64),
        np.ascontiguousarray(metric, dtype=float),
        float(step),
        np.ascontiguousarray(centre, dtype=float),
        np.ascontiguousarray(label, dtype=float),
        u,
        out,
    )
    bad = np.flatnonzero(~(out[:, 1] <= tolerance))
    if bad.size:
        raise NotConverged(
            f"{bad.size} of {len(u)} proximal points keep a gradient above {tolerance:.0e}, "
            f"the first is point {bad[0]} with {out[bad[0], 1]:.1e}.",
            residual=float(np.max(out[:, 1])),
        )
    return ProxPoints(u, out[:, 0], out[:, 1])
