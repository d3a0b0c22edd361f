"""Compiled sums over a sample with a few columns.

The matrices are tall and thin, where a threaded BLAS gains nothing and, on a busy machine, waits for its
threads.
"""

import numpy as np
from numba import float64, njit, types

__all__ = ["gram", "moment", "project"]

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
