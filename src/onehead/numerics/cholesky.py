"""Cholesky factors of small dense matrices, and Newton steps where there is none, in compiled loops."""

import numpy as np

from onehead.numerics.jit import njit
from onehead.numerics.newton import KICK, LONGEST, SAFE_PIVOT


@njit
def factorise(hessian, factor):
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


@njit
def solve_factored(factor, x):
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


@njit
def invert_factored(factor, inverse):
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


@njit
def saddle_free(hessian, gradient, move):
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


@njit
def saddle_free_pair(h0, off, h1, g0, g1):
    """`saddle_free` for two coordinates."""
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
