"""Compiled loops: sums over a sample with a few columns, the proximal operator of the logistic loss, and sets of signal places.

The matrices are tall and thin, where a threaded BLAS gains nothing and, on a busy machine, waits for its
threads. The proximal operator takes one point at a time, with early exit.
"""

import math

import numpy as np
from numba import float64, types

from onehead.numerics.compiled import njit

__all__ = ["gram", "logistic_prox", "marginals", "moment", "place", "project", "subsets"]

MAX_STEPS = 100
CLOSE = 0.3  # heads: any number of expected ones is right, and near the wanted one keeps probabilities of order one
FARTHEST = 690.0  # largest logarithm of a weight: next to what a double holds
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


# A set of R places with weights e^(root x_l) is L independent coins, heads with odds e^(root x_l)/C, given that R of them show heads,
# whatever C. With C such that R heads are expected, that has a probability which no double underflows.


@njit(
    types.UniTuple(float64, 2)(_vector, float64, types.int64, _vector, _vector),
    cache=True,
    nogil=True,
    error_model="numpy",
)
def _coins(x, root, R, top, p):  # type: ignore[no-untyped-def]
    """Probabilities p of heads with odds e^(root x_l)/C, about R expected; gives log C and sum_l log(1 + odds).

    Weights are taken relative to the R-th largest: what lies far above it is surely heads, what lies far below surely not. Safe
    Newton steps in log C on a falling function, from where odds and probabilities are alike. ``top`` is room for R numbers.
    """
    L = x.shape[0]
    top[:] = -np.inf
    for value in x:
        k = R - 1
        if value > top[k]:
            while k > 0 and value > top[k - 1]:
                top[k] = top[k - 1]
                k -= 1
            top[k] = value
    beyond, total = 0.0, 0.0
    for i in range(L):
        t = root * (x[i] - top[R - 1])
        beyond += max(t - FARTHEST, 0.0)
        p[i] = math.exp(min(max(t, -FARTHEST), FARTHEST))
        total += p[i]
    low, high = -FARTHEST, math.log(total / R)
    c = min(high, 0.0)
    for _ in range(MAX_STEPS):
        scale, heads, slope = math.exp(c), -float(R), 0.0
        for i in range(L):
            q = p[i] / (p[i] + scale)
            heads += q
            slope += q * (1.0 - q)
        if abs(heads) < CLOSE:
            break
        if heads > 0.0:
            low = c
        else:
            high = c
        new = c + heads / max(slope, 1e-300)
        c = new if low < new < high else 0.5 * (low + high)
    scale, logs = math.exp(c), beyond
    for i in range(L):
        logs += math.log1p(p[i] / scale)
        p[i] = p[i] / (p[i] + scale)
    return c + root * top[R - 1], logs


@njit(types.void(_vector, types.int64, types.int64, _vector), cache=True, nogil=True, error_model="numpy")
def _heads(p, first, last, out):  # type: ignore[no-untyped-def]
    """Probabilities of k = 0, 1, ... heads among the coins from first to last."""
    out[:] = 0.0
    out[0] = 1.0
    for i in range(first, last):
        for k in range(min(i - first + 1, out.shape[0] - 1), 0, -1):
            out[k] += p[i] * (out[k - 1] - out[k])
        out[0] *= 1.0 - p[i]


@njit(types.UniTuple(_vector, 2)(_matrix, float64, types.int64), cache=True, nogil=True, error_model="numpy")
def subsets(x, root, R):  # type: ignore[no-untyped-def]
    """For every row: how many of its first R places a set of R places with weights e^(root x_l) has on average, and log e_R."""
    L = x.shape[1]
    found, logs = np.empty(x.shape[0]), np.empty(x.shape[0])
    p, top, signal, rest = np.empty(L), np.empty(R), np.empty(R + 1), np.empty(R + 1)
    for n in range(x.shape[0]):
        c, scale = _coins(x[n], root, R, top, p)
        _heads(p, 0, R, signal)
        _heads(p, R, L, rest)
        total, mean = 0.0, 0.0
        for k in range(R + 1):
            total += signal[k] * rest[R - k]
            mean += k * signal[k] * rest[R - k]
        found[n] = mean / total
        logs[n] = math.log(total) + scale + c * R
    return found, logs


@njit(types.void(_vector, types.int64, _vector, _matrix), cache=True, nogil=True, error_model="numpy")
def _chances(logits, R, p, chance):  # type: ignore[no-untyped-def]
    """The coins of a row, and chance[i, k]: k heads among the first i."""
    _coins(logits, 1.0, R, np.empty(R), p)
    chance[:, :] = 0.0
    chance[0, 0] = 1.0
    for i in range(logits.shape[0]):
        chance[i + 1, 0] = chance[i, 0] * (1.0 - p[i])
        for k in range(1, min(i + 1, R) + 1):
            chance[i + 1, k] = chance[i, k] * (1.0 - p[i]) + chance[i, k - 1] * p[i]


@njit(types.void(_matrix, types.int64, _matrix), cache=True, nogil=True, error_model="numpy")
def marginals(logits, R, out):  # type: ignore[no-untyped-def]
    """Probability of every place to be in a set of R places with weights e^logit, row by row, R < L (B.5)."""
    L = logits.shape[1]
    p, chance, left = np.empty(L), np.empty((L + 1, R + 1)), np.empty(R + 1)
    for n in range(logits.shape[0]):
        _chances(logits[n], R, p, chance)
        left[:] = 0.0  # probability of k heads among the first i, given R in all
        left[R] = 1.0
        for i in range(L, 0, -1):
            out[n, i - 1] = 0.0
            for k in range(1, R + 1):
                if left[k] > 0.0 and chance[i, k] > 0.0:
                    moved = left[k] * chance[i - 1, k - 1] * p[i - 1] / chance[i, k]
                    out[n, i - 1] += moved
                    left[k] -= moved
                    left[k - 1] += moved


@njit(types.void(_matrix, types.int64, _matrix, _matrix), cache=True, nogil=True, error_model="numpy")
def place(logits, R, luck, out):  # type: ignore[no-untyped-def]
    """A set of R < L places drawn with weights e^logit for every row, as ones in ``out``; ``luck`` are uniform numbers (B.5)."""
    L = logits.shape[1]
    p, chance = np.empty(L), np.empty((L + 1, R + 1))
    for n in range(logits.shape[0]):
        _chances(logits[n], R, p, chance)
        k = R
        for i in range(L, 0, -1):
            taken = k > 0 and luck[n, i - 1] * chance[i, k] < chance[i - 1, k - 1] * p[i - 1]
            out[n, i - 1] = 1.0 if taken else 0.0
            if taken:
                k -= 1
