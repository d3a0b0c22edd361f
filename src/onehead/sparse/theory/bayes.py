"""The scalar channel of the Bayes-optimal learner: what the tokens of a positive sequence reveal (B.2).

For an estimated direction of overlap q, token l is observed as x_l = sqrt(gamma) v_l + g_l with gamma = theta^2 q.
M(gamma) is the expected number of signal positions that the posterior finds, Psi(gamma) the mean log likelihood ratio,
and Psi' = M/2.
"""

from functools import lru_cache
from math import ceil, lgamma, log, log2
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from onehead.sparse.losses import Array
from onehead.sparse.theory.token_samples import TokenSample, token_sample

# Trapezoidal step in t. The integrands are analytic within pi/2 of the real line, so that the rule errs by e^(-39).
STEP = 0.25
NARROW_STEP = 0.2  # step in g where the Gaussian is narrow
GAUSSIAN_RANGE = 9.5  # standard deviations of g that are covered
LEFT_TAIL, RIGHT_TAIL = 36.0, 6.0  # beyond them 1 - exp(-e^t) is below 1e-16, exp(-e^t) below 1e-175
QUADRATURE_ERROR = 1e-12  # relative error of the quadrature
LOG2_POINTS = 14  # log2 of the number of sampled sequences with several signal positions
MAX_LOG2_TOKENS = 20  # upper limit of log2 of the number of sampled tokens


class TokenEvidence(NamedTuple):
    """M (``found_positions``) and Psi (``information``) at one gamma, with their errors."""

    found_positions: float
    information: float
    found_positions_err: float
    information_err: float


def token_evidence(length: int, signal_tokens: int, gamma: float, log2_points: int = LOG2_POINTS) -> TokenEvidence:
    """Return M and Psi: in closed form at both ends, by quadrature for one signal token, by sampling for several."""
    if signal_tokens == length or gamma <= 0.0 or all_positions_found(length, signal_tokens, gamma):
        return evidence_closed_form(length, signal_tokens, gamma)
    if signal_tokens == 1:
        return evidence_by_quadrature(length, gamma)
    return evidence_by_sampling(
        token_sample(length, signal_tokens, min(log2_points, MAX_LOG2_TOKENS - ceil(log2(length)))), gamma
    )


def all_positions_found(length: int, signal_tokens: int, gamma: float) -> bool:
    """Return whether gamma is so large that the posterior finds every signal position to rounding.

    A noise token exceeds a signal token with probability of order e^(-gamma/4); the bound is a union over all pairs.
    """
    return gamma > 4.0 * (40.0 + log(length) + log(signal_tokens))


def evidence_closed_form(length: int, signal_tokens: int, gamma: float) -> TokenEvidence:
    """Return M and Psi where every signal position is known (R = L, or large gamma) or none is (gamma = 0)."""
    R = float(signal_tokens)
    if gamma <= 0.0:
        return TokenEvidence(R * R / length, 0.0, 0.0, 0.0)
    sets = lgamma(length + 1.0) - lgamma(R + 1.0) - lgamma(length - R + 1.0)
    return TokenEvidence(R, 0.5 * gamma * R - sets, 0.0, 0.0)


@lru_cache(maxsize=4096)
def evidence_by_quadrature(length: int, gamma: float) -> TokenEvidence:
    """Return M and Psi of one signal token by quadrature, with psi(t) = E exp(-e^(t + root g)), root = sqrt(gamma).

    M = int -psi'(t + gamma) psi(t)^(L-1) dt,   Psi = int [e^(-e^t) - psi(t + gamma) psi(t)^(L-1)] dt - log L - gamma/2.

    >>> [round(value, 9) for value in evidence_by_quadrature(10, 4.0)[:2]]
    [0.553120271, 0.659868879]
    """
    root = float(np.sqrt(gamma))
    step = STEP if root < 1.0 else gamma / ceil(gamma / STEP)
    low, high = -gamma - GAUSSIAN_RANGE * root - LEFT_TAIL - log(length), GAUSSIAN_RANGE * root + RIGHT_TAIL
    t: Array = np.asarray(low + step * np.arange(ceil((high - low) / step) + 1), dtype=np.float64)
    if root < 1.0:
        (noise, _), (signal, slope) = _psi_by_sum(t, root), _psi_by_sum(t + gamma, root)
    else:  # the step divides gamma, so that t + gamma lies on the same grid
        shift = round(gamma / step)
        table, slopes = _psi_by_convolution(low, step, t.size + shift, root)
        noise, signal, slope = table[: t.size], table[shift:], slopes[shift:]
    with np.errstate(divide="ignore"):  # log 0 where psi vanishes
        others = (length - 1.0) * np.log1p(-noise) if length > 1 else np.zeros_like(noise)
        together = others + np.log1p(-signal)
    found_positions = float(step * np.sum(slope * np.exp(others)))
    information = float(step * np.sum(np.expm1(-np.exp(t)) - np.expm1(together))) - log(length) - 0.5 * gamma
    return TokenEvidence(
        found_positions, information, QUADRATURE_ERROR * found_positions, QUADRATURE_ERROR * (1.0 + gamma + log(length))
    )


def _psi_by_sum(t: Array, root: float) -> tuple[Array, Array]:
    """Return 1 - psi and -psi' at every t as sums over a grid of g."""
    g = np.arange(-GAUSSIAN_RANGE, GAUSSIAN_RANGE + NARROW_STEP, NARROW_STEP)
    weight = np.exp(-0.5 * g * g)
    x = np.exp(t[:, None] + root * g)
    total = weight.sum()
    return -np.expm1(-x) @ weight / total, (x * np.exp(-x)) @ weight / total


def _psi_by_convolution(low: float, step: float, count: int, root: float) -> tuple[Array, Array]:
    """Return 1 - psi and -psi' on the grid low + step k by convolution, for a Gaussian wide compared to the step.
    All terms are positive, so that relative errors stay small in the tails.
    """
    reach = ceil(GAUSSIAN_RANGE * root / step)
    kernel = np.exp(-0.5 * (step * np.arange(-reach, reach + 1) / root) ** 2)
    kernel /= kernel.sum()
    x = np.exp(np.minimum(low + step * np.arange(-reach, count + reach), 700.0))
    with np.errstate(over="ignore"):
        both = (-np.expm1(-x), x * np.exp(-x))
    noise, slope = (np.convolve(values, kernel, mode="valid") for values in both)
    return np.minimum(noise, 1.0), slope


def evidence_by_sampling(sample: TokenSample, gamma: float) -> TokenEvidence:
    """Return M and Psi of several signal tokens as averages over sampled positive sequences, with replicate errors.

    M = E sum_k k e_k(signal) e_(R-k)(noise) / e_R,   Psi = E log e_R - log C(L, R) - gamma R/2,
    where e_k are the elementary symmetric polynomials of e^(root x_l).
    """
    from onehead.sparse.kernels import subset_statistics  # numba is loaded when first needed

    root, R = float(np.sqrt(gamma)), sample.signal_tokens
    found_positions, logs = subset_statistics(np.concatenate([sample.signal + root, sample.noise], axis=1), root, R)
    sets = float(gammaln(sample.length + 1.0) - gammaln(R + 1.0) - gammaln(sample.length - R + 1.0))
    M, M_err = sample.average(found_positions, sample.weight_plus)
    mean, mean_err = sample.average(logs, sample.weight_plus)
    M = min(max(M, R * R / sample.length), float(R))  # bounds of M that a sampled average may violate
    return TokenEvidence(M, mean - sets - 0.5 * gamma * R, M_err + QUADRATURE_ERROR, mean_err + QUADRATURE_ERROR)
