"""Compiled loops: weighted sums over a sample, the logistic proximal operator, and statistics of subsets of positions.

The sums run over matrices with many rows and a few columns, where a threaded BLAS gains nothing and, on a busy machine,
waits for its threads. The proximal operator solves one point at a time and stops as soon as that point has converged.
"""

import math

import numpy as np
from numba import float64, types

from onehead.numerics.jit import njit

MAX_ITERATIONS = 100
# Distance of the expected subset size from R at which the search for the scale of the odds stops. Any scale gives the
# exact result; one close to the wanted size keeps the probabilities of order one.
EXPECTED_COUNT_TOLERANCE = 0.3
MAX_LOG_WEIGHT = 690.0  # largest logarithm of a weight that a double can hold
FINAL_RELATIVE_STEP = 1e-5  # Halley's method is cubic: a step of this relative size leaves an error of about its cube

_vector = types.Array(float64, 1, "C")
_matrix = types.Array(float64, 2, "C")


@njit(_vector(_matrix, _vector))
def project(design, x):
    """Return sum_j D_nj x_j for every sample n."""
    out = np.zeros(design.shape[0])
    for n in range(design.shape[0]):
        for j in range(design.shape[1]):
            out[n] += design[n, j] * x[j]
    return out


@njit(_vector(_matrix, _vector, _vector))
def moment(design, weight, values):
    """Return sum_n weight_n values_n D_nj for every column j."""
    out = np.zeros(design.shape[1])
    for n in range(design.shape[0]):
        scale = weight[n] * values[n]
        for j in range(design.shape[1]):
            out[j] += scale * design[n, j]
    return out


@njit(_matrix(_matrix, _vector, _matrix))
def gram(left, weight, right):
    """Return the matrix sum_n weight_n left_ni right_nj."""
    out = np.zeros((left.shape[1], right.shape[1]))
    for n in range(left.shape[0]):
        for i in range(left.shape[1]):
            scale = weight[n] * left[n, i]
            for j in range(right.shape[1]):
                out[i, j] += scale * right[n, j]
    return out


@njit(inline="always")
def _logistic_of_minus(p):
    """Return the logistic function of -p without overflow."""
    if p >= 0.0:
        e = math.exp(-p)
        return e / (1.0 + e)
    return 1.0 / (1.0 + math.exp(p))


@njit
def _first_guess(t, c):
    """Return a first guess of the proximal point, within one per cent for half of all arguments."""
    if c < 4.0:
        return t + c * _logistic_of_minus(t)
    if t >= 0.0:
        z = math.log(c) - t
        return t + c * _logistic_of_minus(t) if z < 1.0 else t + z - math.log(z)
    if t + c < 0.0:
        return t + 0.9 * c
    return math.log(1.0 + c / (1.0 - t))


@njit(types.void(_vector, _vector, _vector))
def logistic_prox(t, c, out):
    """Write the root of p = t + c sig(-p) of every point to ``out``; Halley steps are kept inside [t, t + c]."""
    for i in range(t.shape[0]):
        low, high = t[i], t[i] + c[i]
        p = min(max(_first_guess(t[i], c[i]), low), high)
        for _ in range(MAX_ITERATIONS):
            s = _logistic_of_minus(p)
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
            if step < FINAL_RELATIVE_STEP * (1.0 + abs(p)):
                break
        out[i] = p


# Subsets S of R positions with probability proportional to prod_{l in S} e^(root x_l) follow a conditional Bernoulli
# law: L independent Bernoulli variables with odds e^(root x_l)/C, conditioned on R successes, for any C. With C chosen
# such that about R successes are expected, the probability of the condition does not underflow.


@njit
def _inclusion_probabilities(x, root, R, largest, p):
    """Write Bernoulli probabilities with odds e^(root x_l)/C to ``p``; return log C and sum_l log(1 + odds).

    C is chosen such that the probabilities sum to about R, by safeguarded Newton steps in log C. Weights are taken
    relative to the R-th largest one, so that none overflows. ``largest`` is work space for R numbers.
    """
    L = x.shape[0]
    largest[:] = -np.inf
    for value in x:
        k = R - 1
        if value > largest[k]:
            while k > 0 and value > largest[k - 1]:
                largest[k] = largest[k - 1]
                k -= 1
            largest[k] = value
    excess, total = 0.0, 0.0
    for i in range(L):
        t = root * (x[i] - largest[R - 1])
        excess += max(t - MAX_LOG_WEIGHT, 0.0)
        p[i] = math.exp(min(max(t, -MAX_LOG_WEIGHT), MAX_LOG_WEIGHT))
        total += p[i]
    low, high = -MAX_LOG_WEIGHT, math.log(total / R)
    c = min(high, 0.0)
    for _ in range(MAX_ITERATIONS):
        scale, surplus, slope = math.exp(c), -float(R), 0.0
        for i in range(L):
            q = p[i] / (p[i] + scale)
            surplus += q
            slope += q * (1.0 - q)
        if abs(surplus) < EXPECTED_COUNT_TOLERANCE:
            break
        if surplus > 0.0:
            low = c
        else:
            high = c
        new = c + surplus / max(slope, 1e-300)
        c = new if low < new < high else 0.5 * (low + high)
    scale, logs = math.exp(c), excess
    for i in range(L):
        logs += math.log1p(p[i] / scale)
        p[i] = p[i] / (p[i] + scale)
    return c + root * largest[R - 1], logs


@njit
def _count_probabilities(p, first, last, out):
    """Write the probabilities of k = 0, 1, ... successes among the variables ``first`` to ``last`` - 1 to ``out``."""
    out[:] = 0.0
    out[0] = 1.0
    for i in range(first, last):
        for k in range(min(i - first + 1, out.shape[0] - 1), 0, -1):
            out[k] += p[i] * (out[k - 1] - out[k])
        out[0] *= 1.0 - p[i]


@njit(types.UniTuple(_vector, 2)(_matrix, float64, types.int64))
def subset_statistics(x, root, R):
    """Return, for every row, the mean number of the first R positions in a random subset, and log e_R (B.2).

    Subsets of R positions have weights e^(root x_l); e_R is the elementary symmetric polynomial of these weights.
    """
    L = x.shape[1]
    found, logs = np.empty(x.shape[0]), np.empty(x.shape[0])
    p, largest, signal, noise = np.empty(L), np.empty(R), np.empty(R + 1), np.empty(R + 1)
    for n in range(x.shape[0]):
        c, scale = _inclusion_probabilities(x[n], root, R, largest, p)
        _count_probabilities(p, 0, R, signal)
        _count_probabilities(p, R, L, noise)
        total, mean = 0.0, 0.0
        for k in range(R + 1):
            total += signal[k] * noise[R - k]
            mean += k * signal[k] * noise[R - k]
        found[n] = mean / total
        logs[n] = math.log(total) + scale + c * R
    return found, logs


@njit
def _prefix_counts(logits, R, p, prefix):
    """Write the Bernoulli probabilities of a row to ``p`` and P(k successes among the first i) to prefix[i, k]."""
    _inclusion_probabilities(logits, 1.0, R, np.empty(R), p)
    prefix[:, :] = 0.0
    prefix[0, 0] = 1.0
    for i in range(logits.shape[0]):
        prefix[i + 1, 0] = prefix[i, 0] * (1.0 - p[i])
        for k in range(1, min(i + 1, R) + 1):
            prefix[i + 1, k] = prefix[i, k] * (1.0 - p[i]) + prefix[i, k - 1] * p[i]


@njit(types.void(_matrix, types.int64, _matrix))
def marginals(logits, R, out):
    """Write the probability that each position belongs to a subset of R < L positions with weights e^logit (B.5)."""
    L = logits.shape[1]
    p, prefix, left = np.empty(L), np.empty((L + 1, R + 1)), np.empty(R + 1)
    for n in range(logits.shape[0]):
        _prefix_counts(logits[n], R, p, prefix)
        left[:] = 0.0  # probability of k successes among the first i, given R in total
        left[R] = 1.0
        for i in range(L, 0, -1):
            out[n, i - 1] = 0.0
            for k in range(1, R + 1):
                if left[k] > 0.0 and prefix[i, k] > 0.0:
                    moved = left[k] * prefix[i - 1, k - 1] * p[i - 1] / prefix[i, k]
                    out[n, i - 1] += moved
                    left[k] -= moved
                    left[k - 1] += moved


@njit(types.void(_matrix, types.int64, _matrix, _matrix))
def sample_subsets(logits, R, uniforms, out):
    """Sample a subset of R < L positions with weights e^logit for every row, as ones in ``out`` (B.5)."""
    L = logits.shape[1]
    p, prefix = np.empty(L), np.empty((L + 1, R + 1))
    for n in range(logits.shape[0]):
        _prefix_counts(logits[n], R, p, prefix)
        k = R
        for i in range(L, 0, -1):
            taken = k > 0 and uniforms[n, i - 1] * prefix[i, k] < prefix[i - 1, k - 1] * p[i - 1]
            out[n, i - 1] = 1.0 if taken else 0.0
            if taken:
                k -= 1
