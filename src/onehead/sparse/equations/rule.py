"""The error of the best rule: who knows the signal answers with the more likely label (B.3, S2).

One signal place: the likelihood ratio is a sum S = sum_l e^(theta x_l) over a constant, and the law of a sum of independent
terms is the inverse of a Laplace transform. Several places: the mean of min(p, 1 - p) over sampled sequences of both classes.
"""

from functools import lru_cache
from math import ceil, exp, log, pi

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from onehead.sparse.equations.draws import LONGEST, Draws, draws
from onehead.sparse.equations.oracle import hardmax_error, linear_error
from onehead.sparse.losses import Array
from onehead.sparse.task import Task

__all__ = ["CLOSED", "bayes_error", "log_ratio", "mixture_error"]

Complex = NDArray[np.complex128]

CLOSED = 1e-8  # error of a closed form, and of the inversion
DECAY = 23.0  # the inversion errs by e^(-DECAY)
FREQUENCIES = (80, 6000)  # fewest and most
FAR = 8.0  # standard deviations in frequency to which the transform is followed
TAIL = 24  # terms of the alternating series that are averaged at its end
STEP, NARROW = 0.2, 0.08  # of the quadrature in log s + theta g, and in g where theta is small
LEFT, RIGHT = 9.5, 14.0  # standard deviations of g
STRONGEST = 40.0  # beyond it nobody errs
LOG2_POINTS = 15  # of a class of sampled sequences


@lru_cache(maxsize=1024)
def bayes_error(task: Task) -> tuple[float, float]:
    """The lowest error of any rule that knows the signal, and the error of this number; not a number where it cannot be sampled.

    >>> [float(f"{value:.2g}") for value in bayes_error(Task(length=10, strength=5.0))]
    [0.018, 1e-08]
    """
    L, R, rate = task.length, task.signal_tokens, task.positive_rate
    if task.strength == 0.0 or L == R:
        return linear_error(task.linear_snr, rate), CLOSED
    bound = min(hardmax_error(task), linear_error(task.linear_snr, rate))
    if task.strength > STRONGEST:
        return bound, CLOSED
    if R == 1:
        spread = float(np.sqrt(np.expm1(min(task.strength**2, 700.0)) / L))  # of the likelihood ratio
        if spread * FREQUENCIES[1] < FAR:  # a ratio next to one is Gaussian
            return linear_error(spread, rate), CLOSED + spread**2
        found, error = _inverted(task, spread)
        return min(max(found, 0.0), bound), CLOSED + error
    if L > LONGEST:
        return float("nan"), float("nan")
    found, error = mixture_error(task, draws(L, R, LOG2_POINTS))
    return min(found, bound), error


def _inverted(task: Task, spread: float) -> tuple[float, float]:
    """pi P(S < c | +) + (1 - pi) P(S > c | -), c = L e^(theta^2/2) (1 - pi)/pi, and what the last quarter of its terms changed.

    P(S < c) = e^(a/2)/(2c) sum_k (-1)^k f((a + 2 pi i k)/2c) over all whole k, f(s) = E e^(-s S)/s, up to e^(-a): real parts of an
    alternating series, whose end is averaged. Terms are added until they change nothing.
    """
    rate, fewest = task.positive_rate, FAR / (min(spread, 1.0) * pi) * (1.0 - task.positive_rate) / task.positive_rate
    count = ceil(np.clip(fewest, *FREQUENCIES))
    while True:
        series = _transforms(task, count)
        whole, short = (
            [exp(0.5 * DECAY) * _alternating(one[:terms]) for one in series] for terms in (count, 3 * count // 4)
        )
        error = max(abs(one - other) for one, other in zip(whole, short, strict=True))
        if error < CLOSED or count >= FREQUENCIES[1]:
            return rate * whole[0] + (1.0 - rate) * (1.0 - whole[1]), error
        count = min(2 * count, FREQUENCIES[1])


def _transforms(task: Task, count: int) -> tuple[Array, Array]:
    """Re f c of positive and of negative sequences at the first frequencies."""
    L, theta, rate = task.length, task.strength, task.positive_rate
    z: Complex = np.asarray(0.5 * DECAY + 1j * pi * np.arange(count), dtype=np.complex128)
    logs: Complex = np.asarray(np.log(z) - (log(L) + 0.5 * theta**2 + log((1.0 - rate) / rate)), dtype=np.complex128)
    with np.errstate(divide="ignore", invalid="ignore"):  # where nothing is left
        tokens, signal = (_log_rest(_misses(at, theta)) for at in (logs, logs + theta**2))
        plus, minus = (np.real(np.exp((L - 1.0) * tokens + last) / z) for last in (signal, tokens))
    return np.nan_to_num(plus), np.nan_to_num(minus)


def _log_rest(missed: Complex) -> Complex:
    """log(1 - missed), to rounding both where little is missed, as numpy's own is not, and where little is left."""
    a, b = -missed.real, -missed.imag
    square = np.where(np.abs(missed) < 0.5, np.log1p(2.0 * a + a * a + b * b), np.log((1.0 + a) ** 2 + b * b))
    return np.asarray(0.5 * square + 1j * np.arctan2(b, 1.0 + a))


def _alternating(series: Array) -> float:
    """series_0/2 + sum_k (-1)^k series_k; the last partial sums are averaged again and again (Euler)."""
    terms = series * np.where(np.arange(series.size) % 2, -1.0, 1.0)
    terms[0] *= 0.5
    sums = np.cumsum(terms)[-TAIL:]
    while sums.size > 1:
        sums = 0.5 * (sums[1:] + sums[:-1])
    return float(sums[0])


def _misses(logs: Complex, theta: float) -> Complex:
    """1 - E exp(-e^(log s + theta g)), for complex s of positive real part.

    Where theta is not small x = log s + theta g is moved to the real line, where exp(-e^x) does not turn round. Large g count more
    than their probability says: e^(theta g) does.
    """
    if theta < 1.0:
        g = np.arange(-LEFT, RIGHT, NARROW)
        weight = np.exp(-0.5 * g * g)
        return np.asarray(-np.expm1(-np.exp(logs[:, None] + theta * g)) @ (weight / weight.sum()))
    x = np.arange(logs.real.min() - LEFT * theta, logs.real.max() + RIGHT * theta, STEP)
    kernel = np.exp(-0.5 * ((x - logs[:, None]) / theta) ** 2)
    return np.asarray(kernel @ -np.expm1(-np.exp(np.minimum(x, 700.0))) * (STEP / (theta * np.sqrt(2.0 * pi))))


def log_ratio(x: Array, root: float, signal_tokens: int, centre: float) -> Array:
    """log E_v exp(root sum_S x_l) - centre, row by row, over sets S of R places that are all alike."""
    L, R = x.shape[1], signal_tokens
    sets = float(gammaln(L + 1.0) - gammaln(R + 1.0) - gammaln(L - R + 1.0))
    if R == L:
        return np.asarray(root * x.sum(axis=1) - centre)
    if R == 1:
        top = x.max(axis=1)
        return np.asarray(root * top + np.log(np.exp(root * (x - top[:, None])).sum(axis=1)) - sets - centre)
    from onehead.sparse.kernels import subsets  # noqa: PLC0415  (numba is loaded when first needed)

    return np.asarray(subsets(np.ascontiguousarray(x), root, R)[1] - sets - centre)


def mixture_error(task: Task, sample: Draws) -> tuple[float, float]:
    """E min(p, 1 - p), p the probability of the positive label, over both classes, and its error."""
    R, rate, theta = task.signal_tokens, task.positive_rate, task.strength
    values = []
    for x in (np.concatenate([sample.signal + theta, sample.noise], axis=1), sample.minus):
        logit = log_ratio(x, theta, R, 0.5 * theta**2 * R) + log(rate / (1.0 - rate))
        values.append(np.exp(-np.logaddexp(0.0, np.abs(logit))))
    weights = rate * sample.weight_plus, (1.0 - rate) * sample.weight_minus
    found, error = sample.average(values[0] * weights[0] + values[1] * weights[1], np.ones_like(values[0]))
    return found, error + CLOSED
