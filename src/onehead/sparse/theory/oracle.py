"""Oracle errors: the lowest test error of each model with the best weights, for any sequence length (S2).

A model that knows the signal xi needs only x_l = <token l, xi> ~ N(theta v_l, 1). The Bayes rule is in `bayes_rule`.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from onehead.numerics.gaussian import cumulative
from onehead.sparse.losses import Array
from onehead.sparse.task import Task

__all__ = [
    "ACTIVATIONS",
    "MAX_SAMPLED_ELEMENTWISE_LENGTH",
    "MAX_SAMPLED_LENGTH",
    "best_linear_error",
    "elementwise_error",
    "elementwise_snr",
    "hardmax_error",
    "linear_error",
    "sampled_errors",
    "signal_dominates",
]

NORMALS_PER_CLASS = 2_000_000  # normal numbers per class, shared by all models that are sampled
MAX_SAMPLED_LENGTH = 20_000  # tokens; longer sequences have closed forms and limits only
# Above this length the characteristic function of element-wise attention decays fast enough to be inverted.
MAX_SAMPLED_ELEMENTWISE_LENGTH = 50
# Number of frequencies, their range and quadrature points per token of the inversion; then those of a coarser rule,
# whose difference is the error estimate.
INVERSION_RULES = ((800, 9.0, 4001), (500, 7.5, 1501))
SHARPNESS_GRID = np.geomspace(0.25, 2.0, 7)  # trial values of the softmax sharpness in units of sqrt(2 log L)


def _sigmoid_gate(x: Array) -> Array:
    from scipy.special import expit  # scipy is loaded when first needed

    return np.asarray(x * expit(x))


def _relu(x: Array) -> Array:
    return np.maximum(x, 0.0)


def _power(x: Array) -> Array:
    return np.maximum(x, 0.0) ** 2


# With more signal tokens than this, a linear rule gains nothing by using a part of the positions only.
MAX_CONCENTRATED_SIGNALS = 100

# psi(x) = x act(x) of element-wise attention; the step and the ReLU gate give the same function
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "sigmoid": _sigmoid_gate,
    "step": _relu,
    "relu": _relu,
    "power": _power,
}


def linear_error(snr: float, positive_rate: float) -> float:
    """Return the error of the best threshold between two unit Gaussians a distance delta = ``snr`` apart (S2.1).

    It is pi Phi(t* - delta) + (1-pi) Phi(-t*) at t* = delta/2 + log((1-pi)/pi)/delta.
    >>> round(linear_error(1.5811388, 0.5), 4)
    0.2146
    """
    pi = positive_rate
    if snr < 1e-12:
        return min(pi, 1.0 - pi)
    t = 0.5 * snr + np.log((1.0 - pi) / pi) / snr
    return float(pi * cumulative(t - snr) + (1.0 - pi) * cumulative(-t))


def best_linear_error(task: Task) -> float:
    """Return the error of the best linear rule with equal weights on mu <= L positions, minimised over mu (S2.1).

    A positive sample then shifts by theta k / sqrt(mu) with k ~ Hypergeometric(L, R, mu).
    """
    pi = task.positive_rate
    hits = np.arange(task.signal_tokens + 1)
    best = linear_error(task.linear_snr, pi)
    if task.signal_tokens > MAX_CONCENTRATED_SIGNALS:
        return best

    def lowest(positions: int) -> float:
        odds = _hypergeometric(task, positions)
        shifts = task.strength * hits / np.sqrt(positions)

        def error(t: Array) -> Array:
            return np.asarray(pi * cumulative(t[:, None] - shifts) @ odds + (1.0 - pi) * cumulative(-t))

        return _minimise_threshold(error, -6.0, 8.0 + task.strength)

    low, high = 1, task.length
    for _ in range(2):  # a coarse grid, then a finer one between the neighbours of its minimum
        tried = np.unique(np.round(np.geomspace(low, high, 200)).astype(np.int64)).tolist()
        errors = [lowest(positions) for positions in tried]
        k = int(np.argmin(errors))
        best = min(best, errors[k])
        low, high = tried[max(k - 1, 0)], tried[min(k + 1, len(tried) - 1)]
        if high - low <= 2:
            break
    return best


def _hypergeometric(task: Task, positions: int) -> Array:
    """Return the probabilities of k = 0..R signal tokens among ``positions`` of L, accurate up to L = 1e9."""
    from scipy.special import gammaln

    L, R = task.length, task.signal_tokens

    def log_falling(n: int) -> Array:
        """Return log n(n-1)...(n-k+1) for k = 0..R; minus infinity once a factor is zero."""
        with np.errstate(divide="ignore"):
            return np.append(0.0, np.cumsum(np.log(np.maximum(n - np.arange(R, dtype=float), 0.0))))

    k = np.arange(R + 1)
    choose = gammaln(R + 1.0) - gammaln(k + 1.0) - gammaln(R - k + 1.0)
    logs = choose + log_falling(positions) + log_falling(L - positions)[::-1] - log_falling(L)[R]
    return np.asarray(np.exp(logs))


def hardmax_error(task: Task) -> float:
    """Return the error of attention to the largest token only (S2.2).

    It is the minimum over t of pi Phi(t)^(L-R) Phi(t-theta)^R + (1-pi)(1 - Phi(t)^L).
    >>> round(hardmax_error(Task(length=100, strength=5.0)), 6)
    0.043056
    """
    from scipy.special import log_ndtr

    L, R, pi, theta = task.length, task.signal_tokens, task.positive_rate, task.strength

    def error(t: Array) -> Array:
        below = log_ndtr(t)
        missed = np.exp((L - R) * below + R * log_ndtr(t - theta))
        return np.asarray(pi * missed - (1.0 - pi) * np.expm1(L * below))

    top = float(np.sqrt(2.0 * np.log(L + 1.0)))
    return min(_minimise_threshold(error, -10.0, theta + top + 10.0), pi, 1.0 - pi)


def _minimise_threshold(error: Callable[[Array], Array], low: float, high: float) -> float:
    """Return the minimum of an error over a threshold: on a grid, then on finer grids around its best point."""
    for _ in range(6):
        grid = np.linspace(low, high, 401)
        values = error(grid)
        k = int(np.argmin(values))
        low, high = grid[max(k - 2, 0)], grid[min(k + 2, 400)]
    return float(values[k])


def _gate_moments(activation: str, points: int = 4001) -> tuple[Array, Array, Array, float, float]:
    """Return nodes and weights of a standard normal, psi at the nodes, its mean and its standard deviation."""
    g = np.linspace(-12.0, 12.0, points)
    weight = np.exp(-0.5 * g * g) / np.exp(-0.5 * g * g).sum()
    base = ACTIVATIONS[activation](g)
    mean = float(weight @ base)
    return g, weight, base, mean, float(np.sqrt(weight @ (base - mean) ** 2))


def elementwise_snr(task: Task, activation: str) -> float:
    """Return R (E psi(g + theta) - E psi(g)) / (sqrt(L) sd psi(g)), which decides the error of long sequences (S2.3).
    >>> round(elementwise_snr(Task(length=10**8, strength=1e4), "step"), 3)
    1.713
    """
    g, weight, _, mean, spread = _gate_moments(activation)
    gain = float(weight @ ACTIVATIONS[activation](g + task.strength)) - mean
    return task.signal_tokens * gain / (float(np.sqrt(task.length)) * spread)


def elementwise_error(task: Task, activation: str) -> tuple[float, float]:
    """Return the error of thresholding T = sum_l psi(x_l) of longer sequences, and its numerical error (S2.3).

    P(T <= t) = 1/2 - (1/pi) int_0^inf Im[e^(-i w t) f(w)] / w dw with f the characteristic function of T, a
    power of that of one token. The numerical error is the difference to a coarser rule.
    """
    fine, coarse = (_invert_characteristic_function(task, activation, *rule) for rule in INVERSION_RULES)
    return fine, abs(fine - coarse)


def _invert_characteristic_function(task: Task, activation: str, nodes: int, reach: float, points: int) -> float:
    """Return the error from ``nodes`` frequencies up to ``reach`` sd, with ``points`` quadrature points per token."""
    L, R, rate = task.length, task.signal_tokens, task.positive_rate
    g, weight, base, mean, spread = _gate_moments(activation, points)
    scale, step = spread * float(np.sqrt(L)), reach / nodes
    w = (np.arange(nodes) + 0.5) * step
    noise = np.exp(1j * np.outer(w / scale, base - mean)) @ weight
    signal = np.exp(1j * np.outer(w / scale, ACTIVATIONS[activation](g + task.strength) - mean)) @ weight
    noise_tokens = np.exp((L - R) * np.log(noise))
    minus, plus = noise_tokens * noise**R, noise_tokens * signal**R

    def error(t: Array) -> Array:
        phase = np.exp(-1j * np.outer(t, w))
        below = [0.5 - np.imag(phase @ (f / w)) * step / np.pi for f in (plus, minus)]
        return np.asarray(rate * below[0] + (1.0 - rate) * (1.0 - below[1]))

    lowest = _minimise_threshold(error, -8.0, 8.0 + elementwise_snr(task, activation))
    return float(np.clip(lowest, 0.0, min(rate, 1.0 - rate)))


class _ThresholdError(NamedTuple):
    """Lowest error over thresholds of a sampled statistic, and the mistakes of every sample at the best threshold."""

    error: float
    mistakes: Array


def _empirical_error(plus: Array, minus: Array, positive_rate: float) -> _ThresholdError:
    """Return the lowest error over thresholds of a statistic sampled in both classes, by a sorted merge."""
    values = np.concatenate([plus, minus])
    odds = (positive_rate / len(plus), (positive_rate - 1.0) / len(minus))
    order = np.argsort(values)
    # positives below the threshold and negatives above it are mistakes
    steps = np.append(0.0, np.cumsum(np.repeat(odds, (len(plus), len(minus)))[order]))
    best = int(np.argmin(steps))
    threshold = values[order[best - 1]] if best > 0 else -np.inf
    mistakes = positive_rate * (plus <= threshold) + (1.0 - positive_rate) * (minus > threshold)
    return _ThresholdError(float(steps[best] + 1.0 - positive_rate), np.asarray(mistakes))


def _error_of_mean(mistakes: Array) -> float:
    """Return the standard error of the mean, with one mistake in N samples added for events that were not sampled."""
    return float(np.hypot(np.std(mistakes) / np.sqrt(len(mistakes)), 1.0 / len(mistakes)))


def _softmax_statistic(x: Array, sharpness: float) -> Array:
    """Return T = sum_l x_l e^(kappa x_l) / sum_l e^(kappa x_l) of every row."""
    att = np.exp(sharpness * (x - x.max(axis=1, keepdims=True)))
    return np.asarray(np.einsum("nl,nl->n", att, x) / att.sum(axis=1))


class SampledErrors(NamedTuple):
    """Sampled errors of softmax attention (at its best sharpness) and of element-wise attention."""

    softmax: float
    sharpness: float | None
    elementwise: float
    softmax_err: float
    elementwise_err: float


def sampled_errors(task: Task, activation: str, rng: np.random.Generator, samples: int, hard: float) -> SampledErrors:
    """Return sampled errors; the hardmax, of exact error ``hard``, is the control variate of the softmax (S2.2)."""
    L, R, pi = task.length, task.signal_tokens, task.positive_rate
    sharpnesses = SHARPNESS_GRID * np.sqrt(2.0 * np.log(max(L, 2)))
    psi = ACTIVATIONS[activation]

    def statistics(x: Array) -> list[Array]:
        soft = [_softmax_statistic(x, float(k)) for k in sharpnesses]
        return [*soft, x.max(axis=1), psi(x).sum(axis=1)]

    block = max(1, NORMALS_PER_CLASS // L)
    rows: list[list[Array]] = []
    for first in range(0, samples, block):
        minus = rng.standard_normal((min(block, samples - first), L))
        plus = minus.copy()
        plus[:, :R] += task.strength
        pairs = zip(statistics(plus), statistics(minus), strict=True)
        rows.append([np.array(pair) for pair in pairs])
    sampled = [np.concatenate(columns, axis=1) for columns in zip(*rows, strict=True)]
    *soft, hardmax, elementwise = (_empirical_error(plus, minus, pi) for plus, minus in sampled)
    k = int(np.argmin([one.error for one in soft]))
    softmax, sharpness = (
        (hard, None)
        if hardmax.error <= soft[k].error
        else (soft[k].error + (hard - hardmax.error), float(sharpnesses[k]))
    )
    return SampledErrors(
        softmax=max(softmax, 0.0),
        sharpness=sharpness,
        elementwise=elementwise.error,
        softmax_err=_error_of_mean(soft[k].mistakes - hardmax.mistakes),
        elementwise_err=_error_of_mean(elementwise.mistakes),
    )


def signal_dominates(c: float, k: float) -> bool:
    """Return whether, for L -> infinity, the signal token takes all attention (S2.2).

    The scaling is theta = c sqrt(log L) and kappa = k sqrt(log L). The condition is
    k c > 1 + k^2/2 below k = sqrt 2, and c > sqrt 2 above it; so theta = sqrt(2 log L) is the threshold,
    against theta R ~ sqrt(L) for every linear model and for element-wise attention.

    >>> signal_dominates(1.5, 2**0.5), signal_dominates(1.4, 2**0.5)
    (True, False)
    """
    if k >= np.sqrt(2.0):
        return bool(c > np.sqrt(2.0))
    return bool(k * c > 1.0 + 0.5 * k * k)
