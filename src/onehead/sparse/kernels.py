"""Compiled loops: sums over a sample with a few columns, and the proximal operator of the logistic loss.

The matrices are tall and thin, where a threaded BLAS gains nothing and, on a busy machine, waits for its
threads. The proximal operator takes one point at a time, with early exit.
"""

import math

import numpy as np
from numba import float64, types

from onehead.numerics.compiled import njit

__all__ = ["gram", "logistic_prox", "moment", "project"]

MAX_STEPS = 100
LAST_STEP = 1e-5  # Halley is cubic: a step of this relative size leaves an error of about its cube

_vector = types.Array(float64, 1, "C")
_matrix = types.Array(float64, 2, "C")


@njit(_vector(_matrix, _vector), cache=True, nogil=True, error_model="numpy")
def project(design, x):  # type: ignore[no-untyped-def]
    """sum_j D_nj x_j for every sample n."""
    out = np.zeros(design.shape[0])
    for n in range(design.shape[0]):
        for j in range(design.shape[1]):
            out[n] += design[n, j] * x[j]
    return out


@njit(_vector(_matrix, _vector, _vector), cache=True, nogil=True, error_model="numpy")
def moment(design, weight, values):  # type: ignore[no-untyped-def]
    """sum_n weight_n values_n D_nj for every column j."""
    out = np.zeros(design.shape[1])
    for n in range(design.shape[0]):
        scale = weight[n] * values[n]
        for j in range(design.shape[1]):
            out[j] += scale * design[n, j]
    return out


@njit(_matrix(_matrix, _vector, _matrix), cache=True, nogil=True, error_model="numpy")
def gram(left, weight, right):  # type: ignore[no-untyped-def]
    """sum_n weight_n left_ni right_nj."""
    out = np.zeros((left.shape[1], right.shape[1]))
    for n in range(left.shape[0]):
        for i in range(left.shape[1]):
            scale = weight[n] * left[n, i]
            for j in range(right.shape[1]):
                out[i, j] += scale * right[n, j]
    return out


@njit(float64(float64), cache=True, nogil=True, error_model="numpy", inline="always")
def _below(p):  # type: ignore[no-untyped-def]
    """Logistic function of -p, without overflow."""
    if p >= 0.0:
        e = math.exp(-p)
        return e / (1.0 + e)
    return 1.0 / (1.0 + math.exp(p))


@njit(float64(float64, float64), cache=True, nogil=True, error_model="numpy")
def _start(t, c):  # type: ignore[no-untyped-def]
    """A first guess: half of all points start within a per cent, the worst far off."""
    if c < 4.0:
        return t + c * _below(t)
    if t >= 0.0:
        z = math.log(c) - t
        return t + c * _below(t) if z < 1.0 else t + z - math.log(z)
    if t + c < 0.0:
        return t + 0.9 * c
    return math.log(1.0 + c / (1.0 - t))


@njit(types.void(_vector, _vector, _vector), cache=True, nogil=True, error_model="numpy")
def logistic_prox(t, c, out):  # type: ignore[no-untyped-def]
    """Root of p = t + c sig(-p) for every point; it lies in [t, t + c] and Halley steps are kept there."""
    for i in range(t.shape[0]):
        low, high = t[i], t[i] + c[i]
        p = min(max(_start(t[i], c[i]), low), high)
        for _ in range(MAX_STEPS):
            s = _below(p)
            f = p - t[i] - c[i] * s
            if f > 0.0:
                high = p
            else:
                low = p
            bend = c[i] * s * (1.0 - s)
            slope = 1.0 + bend
            step = f / slope
            step /= max(1.0 - 0.5 * step * bend * (2.0 * s - 1.0) / slope, 0.5)
            new = p - step
            if not low <= new <= high:
                new = 0.5 * (low + high)
            step = abs(new - p)
            p = new
            if step < LAST_STEP * (1.0 + abs(p)):
                break
        out[i] = p
