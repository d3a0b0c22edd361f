"""What a positive sequence says of its places: M and Psi of the best possible learner (B.2).

Behind a direction that is known to an overlap q a token is x_l = sqrt(gamma) v_l + g_l, gamma = theta^2 q. M is the number of
signal places that the posterior finds, Psi the mean logarithm of the likelihood ratio; Psi' = M/2.
"""

from functools import lru_cache
from math import ceil, lgamma, log, log2
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from onehead.sparse.equations.draws import Draws, draws
from onehead.sparse.losses import Array

__all__ = ["Seen", "closed", "quadrature", "sampled", "saturated", "seen"]

STEP = 0.25  # of t: the integrands are analytic within pi/2 of the line, so the rule errs by e^(-39)
FINE = 0.2  # of g where the Gaussian is narrow
REACH = 9.5  # standard deviations of g
LEFT, RIGHT = 36.0, 6.0  # beyond them 1 - exp(-e^t) is 1e-16, exp(-e^t) is 1e-175
ROUNDING = 1e-12  # relative error of the quadrature
LOG2_POINTS = 14  # of a sample of sequences with several signal places
NUMBERS = 20  # log2 of the tokens in it, at most


class Seen(NamedTuple):
    """M and Psi at one gamma, with their errors."""

    found: float
    information: float
    found_err: float
    information_err: float


def seen(length: int, signal_tokens: int, gamma: float, log2_points: int = LOG2_POINTS) -> Seen:
    """M and Psi: in closed form where nothing is to be found, by quadrature for one signal place, by sampling for several."""
    if signal_tokens == length or gamma <= 0.0 or saturated(length, signal_tokens, gamma):
        return closed(length, signal_tokens, gamma)
    if signal_tokens == 1:
        return quadrature(length, gamma)
    return sampled(draws(length, signal_tokens, min(log2_points, NUMBERS - ceil(log2(length)))), gamma)


def saturated(length: int, signal_tokens: int, gamma: float) -> bool:
    """Whether no place is missed: a noise token beats a signal token with probability e^(-gamma/4), and all are asked."""
    return gamma > 4.0 * (40.0 + log(length) + log(signal_tokens))


def closed(length: int, signal_tokens: int, gamma: float) -> Seen:
    """All places known (R = L, or gamma large), or none but by chance (gamma = 0)."""
    R = float(signal_tokens)
    if gamma <= 0.0:
        return Seen(R * R / length, 0.0, 0.0, 0.0)
    sets = lgamma(length + 1.0) - lgamma(R + 1.0) - lgamma(length - R + 1.0)
    return Seen(R, 0.5 * gamma * R - sets, 0.0, 0.0)


@lru_cache(maxsize=4096)
def quadrature(length: int, gamma: float) -> Seen:
    """One signal place, any length, with psi(t) = E exp(-e^(t + root g)), root = sqrt(gamma).

    M = int -psi'(t + gamma) psi(t)^(L-1) dt,   Psi = int [e^(-e^t) - psi(t + gamma) psi(t)^(L-1)] dt - log L - gamma/2.

    >>> [round(value, 9) for value in quadrature(10, 4.0)[:2]]
    [0.553120271, 0.659868879]
    """
    root = float(np.sqrt(gamma))
    step = STEP if root < 1.0 else gamma / ceil(gamma / STEP)
    low, high = -gamma - REACH * root - LEFT - log(length), REACH * root + RIGHT
    t: Array = np.asarray(low + step * np.arange(ceil((high - low) / step) + 1), dtype=np.float64)
    if root < 1.0:
        (noise, _), (signal, slope) = _averaged(t, root), _averaged(t + gamma, root)
    else:  # t + gamma lies on the same grid
        shift = round(gamma / step)
        table, slopes = _convolved(low, step, t.size + shift, root)
        noise, signal, slope = table[: t.size], table[shift:], slopes[shift:]
    with np.errstate(divide="ignore"):  # where psi is zero
        others = (length - 1.0) * np.log1p(-noise) if length > 1 else np.zeros_like(noise)
        together = others + np.log1p(-signal)
    found = float(step * np.sum(slope * np.exp(others)))
    information = float(step * np.sum(np.expm1(-np.exp(t)) - np.expm1(together))) - log(length) - 0.5 * gamma
    return Seen(found, information, ROUNDING * found, ROUNDING * (1.0 + gamma + log(length)))


def _averaged(t: Array, root: float) -> tuple[Array, Array]:
    """1 - psi and -psi' as sums over g."""
    g = np.arange(-REACH, REACH + FINE, FINE)
    weight = np.exp(-0.5 * g * g)
    x = np.exp(t[:, None] + root * g)
    total = weight.sum()
    return -np.expm1(-x) @ weight / total, (x * np.exp(-x)) @ weight / total


def _convolved(low: float, step: float, count: int, root: float) -> tuple[Array, Array]:
    """The same on the grid low + step k as convolutions, where the Gaussian is wide against the step; relative errors stay small."""
    reach = ceil(REACH * root / step)
    kernel = np.exp(-0.5 * (step * np.arange(-reach, reach + 1) / root) ** 2)
    kernel /= kernel.sum()
    x = np.exp(np.minimum(low + step * np.arange(-reach, count + reach), 700.0))
    with np.errstate(over="ignore"):
        both = (-np.expm1(-x), x * np.exp(-x))
    noise, slope = (np.convolve(values, kernel, mode="valid") for values in both)
    return np.minimum(noise, 1.0), slope


def sampled(sample: Draws, gamma: float) -> Seen:
    """Several signal places: averages over sampled positive sequences; the errors are those of their independent parts.

    M = E sum_k k e_k(signal) e_(R-k)(rest) / e_R,   Psi = E log e_R - log C(L, R) - gamma R/2 with e_k elementary symmetric
    polynomials of e^(root x_l).
    """
    from onehead.sparse.kernels import subsets  # noqa: PLC0415  (numba is loaded when first needed)

    root, R = float(np.sqrt(gamma)), sample.signal_tokens
    found, logs = subsets(np.concatenate([sample.signal + root, sample.noise], axis=1), root, R)
    sets = float(gammaln(sample.length + 1.0) - gammaln(R + 1.0) - gammaln(sample.length - R + 1.0))
    M, M_err = sample.average(found, sample.weight_plus)
    mean, mean_err = sample.average(logs, sample.weight_plus)
    M = min(max(M, R * R / sample.length), float(R))  # what holds of M, and need not of a sample
    return Seen(M, mean - sets - 0.5 * gamma * R, M_err + ROUNDING, mean_err + ROUNDING)
