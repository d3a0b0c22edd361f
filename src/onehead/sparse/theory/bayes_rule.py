"""The error of the Bayes rule, which knows the signal and answers with the more likely label (B.3, S2.2).

With one signal token the likelihood ratio is S = sum_l e^(theta x_l) over a constant, and the law of this sum of
independent terms follows by inverting its Laplace transform. With several, min(p, 1 - p) is averaged over samples.
"""

from functools import lru_cache
from math import ceil, exp, log, pi

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from onehead.sparse.losses import Array
from onehead.sparse.task import Task
from onehead.sparse.theory.features import MAX_LENGTH
from onehead.sparse.theory.oracle import hardmax_error, linear_error
from onehead.sparse.theory.token_samples import TokenSample, token_sample

Complex = NDArray[np.complex128]

CLOSED_FORM_ERROR = 1e-8  # error of a closed form, and of the inversion
INVERSION_DECAY = 23.0  # the inversion errs by e^(-INVERSION_DECAY)
FREQUENCY_COUNTS = (80, 6000)  # minimum and maximum number of frequencies of the inversion
FREQUENCY_RANGE = 8.0  # standard deviations in frequency over which the transform is summed
AVERAGED_TERMS = 24  # last partial sums of the alternating series that are averaged
STEP, NARROW_STEP = 0.2, 0.08  # steps of the quadrature in log s + theta g for theta >= 1, and in g for theta < 1
LEFT_RANGE, RIGHT_RANGE = 9.5, 14.0  # standard deviations of g that are covered
MAX_STRENGTH = 40.0  # beyond it the error vanishes to rounding
LOG2_POINTS = 15  # log2 of the number of sampled sequences per class


@lru_cache(maxsize=1024)
def bayes_error(task: Task) -> tuple[float, float]:
    """Return the lowest error of any rule that knows the signal, and its numerical error.

    Both are NaN for several signal tokens in sequences too long to sample.

    >>> [float(f"{value:.2g}") for value in bayes_error(Task(length=10, strength=5.0))]
    [0.018, 1e-08]
    """
    L, R, rate = task.length, task.signal_tokens, task.positive_rate
    if task.strength == 0.0 or L == R:
        return linear_error(task.linear_snr, rate), CLOSED_FORM_ERROR
    bound = min(hardmax_error(task), linear_error(task.linear_snr, rate))
    if task.strength > MAX_STRENGTH:
        return bound, CLOSED_FORM_ERROR
    if R == 1:
        spread = float(np.sqrt(np.expm1(min(task.strength**2, 700.0)) / L))  # sd of the likelihood ratio
        if spread * FREQUENCY_COUNTS[1] < FREQUENCY_RANGE:  # a likelihood ratio close to one is Gaussian
            return linear_error(spread, rate), CLOSED_FORM_ERROR + spread**2
        found, error = _error_by_inversion(task, spread)
        return min(max(found, 0.0), bound), CLOSED_FORM_ERROR + error
    if L > MAX_LENGTH:
        return float("nan"), float("nan")
    found, error = bayes_error_by_sampling(task, token_sample(L, R, LOG2_POINTS))
    return min(found, bound), error


def _error_by_inversion(task: Task, spread: float) -> tuple[float, float]:
    """Return pi P(S < c | +) + (1 - pi) P(S > c | -) and the change made by the last quarter of the terms.

    c = L e^(theta^2/2) (1 - pi)/pi. Up to e^(-a), P(S < c) = e^(a/2)/(2c) sum_k (-1)^k f((a + 2 pi i k)/2c) over all
    integers k with f(s) = E e^(-s S)/s: an alternating series of real parts whose last partial sums are averaged. The
    number of terms is doubled until they change nothing.
    """
    rate = task.positive_rate
    fewest = FREQUENCY_RANGE / (min(spread, 1.0) * pi) * (1.0 - rate) / rate
    count = ceil(np.clip(fewest, *FREQUENCY_COUNTS))
    while True:
        series = _laplace_transforms(task, count)
        full, truncated = (
            [exp(0.5 * INVERSION_DECAY) * _alternating_sum(terms[:end]) for terms in series]
            for end in (count, 3 * count // 4)
        )
        error = max(abs(one - other) for one, other in zip(full, truncated, strict=True))
        if error < CLOSED_FORM_ERROR or count >= FREQUENCY_COUNTS[1]:
            return rate * full[0] + (1.0 - rate) * (1.0 - full[1]), error
        count = min(2 * count, FREQUENCY_COUNTS[1])


def _laplace_transforms(task: Task, count: int) -> tuple[Array, Array]:
    """Return Re f(s)/c of positive and of negative sequences at the first ``count`` frequencies."""
    L, theta, rate = task.length, task.strength, task.positive_rate
    z: Complex = np.asarray(0.5 * INVERSION_DECAY + 1j * pi * np.arange(count), dtype=np.complex128)
    logs: Complex = np.asarray(np.log(z) - (log(L) + 0.5 * theta**2 + log((1.0 - rate) / rate)), dtype=np.complex128)
    with np.errstate(divide="ignore", invalid="ignore"):  # where the transform underflows
        tokens, signal = (_log_transform(at, theta) for at in (logs, logs + theta**2))
        plus, minus = (np.real(np.exp((L - 1.0) * tokens + last) / z) for last in (signal, tokens))
    return np.nan_to_num(plus), np.nan_to_num(minus)


def _log_transform(logs: Complex, theta: float) -> Complex:
    """Return log E exp(-e^(log s + theta g)) for complex s of positive real part, up to a multiple of 2 pi i.

    The line of integration in g is moved in the complex plane, to where the integrand hardly oscillates. For theta < 1
    it passes through the saddle point g* = -w/theta, w = W(theta^2 s) with Lambert's W, where
    E exp(-s e^(theta g)) = e^(-(w^2 + 2 w)/(2 theta^2)) E exp(-(w/theta^2)(e^(theta g) - 1 - theta g)).
    For theta >= 1 the variable x = log s + theta g is moved to the real line, on which exp(-e^x) does not oscillate.
    The grids reach farther to the right, since large g contribute through e^(theta g).
    """
    if theta < 1.0:
        from scipy.special import lambertw

        scaled: Complex = np.asarray(theta**2 * np.exp(logs), dtype=np.complex128)
        w = np.asarray(lambertw(scaled, 0), dtype=np.complex128)
        g = np.arange(-LEFT_RANGE, RIGHT_RANGE, NARROW_STEP)
        weight = np.exp(-0.5 * g * g)
        convex = (np.expm1(theta * g) - theta * g) / theta**2
        missed = -np.expm1(-w[:, None] * convex) @ (weight / weight.sum())
        return np.asarray(_log_one_minus(missed) - w * (0.5 * w + 1.0) / theta**2)
    x = np.arange(logs.real.min() - LEFT_RANGE * theta, logs.real.max() + RIGHT_RANGE * theta, STEP)
    kernel = np.exp(-0.5 * ((x - logs[:, None]) / theta) ** 2)
    missed = kernel @ -np.expm1(-np.exp(np.minimum(x, 700.0))) * (STEP / (theta * np.sqrt(2.0 * pi)))
    return _log_one_minus(missed)


def _log_one_minus(missed: Complex) -> Complex:
    """Return log(1 - missed) of complex arguments, accurate for small ``missed`` (numpy's log1p is not) and near 1."""
    a, b = -missed.real, -missed.imag
    square = np.where(np.abs(missed) < 0.5, np.log1p(2.0 * a + a * a + b * b), np.log((1.0 + a) ** 2 + b * b))
    return np.asarray(0.5 * square + 1j * np.arctan2(b, 1.0 + a))


def _alternating_sum(series: Array) -> float:
    """Return series_0/2 + sum_k (-1)^k series_k by Euler's repeated averaging of the last partial sums."""
    terms = series * np.where(np.arange(series.size) % 2, -1.0, 1.0)
    terms[0] *= 0.5
    sums = np.cumsum(terms)[-AVERAGED_TERMS:]
    while sums.size > 1:
        sums = 0.5 * (sums[1:] + sums[:-1])
    return float(sums[0])


def log_likelihood_ratio(x: Array, root: float, signal_tokens: int, centre: float) -> Array:
    """Return log E_S exp(root sum_{l in S} x_l) - centre of every row, over uniform subsets S of R positions."""
    L, R = x.shape[1], signal_tokens
    sets = float(gammaln(L + 1.0) - gammaln(R + 1.0) - gammaln(L - R + 1.0))
    if R == L:
        return np.asarray(root * x.sum(axis=1) - centre)
    if R == 1:
        top = x.max(axis=1)
        return np.asarray(root * top + np.log(np.exp(root * (x - top[:, None])).sum(axis=1)) - sets - centre)
    from onehead.sparse.kernels import subset_statistics  # numba is loaded when first needed

    return np.asarray(subset_statistics(np.ascontiguousarray(x), root, R)[1] - sets - centre)


def bayes_error_by_sampling(task: Task, sample: TokenSample) -> tuple[float, float]:
    """Return E min(p, 1 - p), p the posterior probability of the positive label, over both classes, and its error."""
    R, rate, theta = task.signal_tokens, task.positive_rate, task.strength
    values = []
    for x in (np.concatenate([sample.signal + theta, sample.noise], axis=1), sample.minus):
        logit = log_likelihood_ratio(x, theta, R, 0.5 * theta**2 * R) + log(rate / (1.0 - rate))
        values.append(np.exp(-np.logaddexp(0.0, np.abs(logit))))
    weights = rate * sample.weight_plus, (1.0 - rate) * sample.weight_minus
    found, error = sample.average(values[0] * weights[0] + values[1] * weights[1], np.ones_like(values[0]))
    return found, error + CLOSED_FORM_ERROR
