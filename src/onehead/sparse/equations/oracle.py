"""What each model could do with the best weights, also for long sequences (S2).

A model that knows the signal xi sees only x_l = <token l, xi> ~ N(theta v_l, 1).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from onehead.numerics.gaussian import cumulative
from onehead.sparse.losses import Array
from onehead.sparse.task import Task

__all__ = [
    "ACTIVATIONS",
    "LONGEST_GATED",
    "LONGEST_SAMPLED",
    "best_linear_error",
    "elementwise_error",
    "elementwise_snr",
    "hardmax_error",
    "linear_error",
    "sampled_errors",
    "signal_dominates",
]

MONTE_CARLO = 2_000_000  # normal numbers per class, shared by all models that need sampling
LONGEST_SAMPLED = 20_000  # beyond it tokens are not drawn one by one: closed forms and limits only
LONGEST_GATED = 50  # beyond it the characteristic function of element-wise attention decays fast enough to invert
# frequencies, how far they go, and points per token, of the inverted characteristic function; then of a coarser rule
INVERSION = ((800, 9.0, 4001), (500, 7.5, 1501))
SHARPNESS = np.geomspace(0.25, 2.0, 7)  # in units of sqrt(2 log L), tried for the softmax


def _sigmoid_gate(x: Array) -> Array:
    from scipy.special import expit  # noqa: PLC0415  (scipy is loaded when first needed)

    return np.asarray(x * expit(x))


def _relu(x: Array) -> Array:
    return np.maximum(x, 0.0)


def _power(x: Array) -> Array:
    return np.maximum(x, 0.0) ** 2


MANY_SIGNALS = 100  # concentrating on few places cannot help when so many carry the signal

# psi(x) = x act(x) of element-wise attention; a step gates a token to its positive part, as the ReLU gate does
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "sigmoid": _sigmoid_gate,
    "step": _relu,
    "relu": _relu,
    "power": _power,
}


def linear_error(snr: float, positive_rate: float) -> float:
    """Two Gaussians with gap delta: pi Phi(t* - delta) + (1-pi) Phi(-t*), t* = delta/2 + log((1-pi)/pi)/delta.

    >>> round(linear_error(1.5811388, 0.5), 4)
    0.2146
    """
    pi = positive_rate
    if snr < 1e-12:
        return min(pi, 1.0 - pi)
    t = 0.5 * snr + np.log((1.0 - pi) / pi) / snr
    return float(pi * cumulative(t - snr) + (1.0 - pi) * cumulative(-t))


def best_linear_error(task: Task) -> float:
    """Best linear rule with equal weights on mm <= L places, minimised over mm.

    A positive sample then shifts by theta k / sqrt(mm) with k ~ Hypergeometric(L, R, mm).
    """
    pi = task.positive_rate
    hits = np.arange(task.signal_tokens + 1)
    best = linear_error(task.linear_snr, pi)
    if task.signal_tokens > MANY_SIGNALS:
        return best

    def lowest(places: int) -> float:
        odds = _hypergeometric(task, places)
        shifts = task.strength * hits / np.sqrt(places)

        def error(t: Array) -> Array:
            return np.asarray(pi * cumulative(t[:, None] - shifts) @ odds + (1.0 - pi) * cumulative(-t))

        return _lowest(error, -6.0, 8.0 + task.strength)

    low, high = 1, task.length
    for _ in range(2):  # the second time between the neighbours of the best
        tried = np.unique(np.round(np.geomspace(low, high, 200)).astype(np.int64)).tolist()
        errors = [lowest(places) for places in tried]
        k = int(np.argmin(errors))
        best = min(best, errors[k])
        low, high = tried[max(k - 1, 0)], tried[min(k + 1, len(tried) - 1)]
        if high - low <= 2:
            break
    return best


def _hypergeometric(task: Task, places: int) -> Array:
    """Probabilities of k = 0..R signal tokens among ``places`` of L, as products that stay exact for L = 1e9."""
    from scipy.special import gammaln  # noqa: PLC0415

    L, R = task.length, task.signal_tokens

    def falling(n: int) -> Array:
        """log n(n-1)...(n-k+1) for k = 0..R; minus infinity once a factor is zero."""
        with np.errstate(divide="ignore"):
            return np.append(0.0, np.cumsum(np.log(np.maximum(n - np.arange(R, dtype=float), 0.0))))

    k = np.arange(R + 1)
    choose = gammaln(R + 1.0) - gammaln(k + 1.0) - gammaln(R - k + 1.0)
    return np.asarray(np.exp(choose + falling(places) + falling(L - places)[::-1] - falling(L)[R]))


def hardmax_error(task: Task) -> float:
    """Attention to the largest token only: min_t pi Phi(t)^(L-R) Phi(t-theta)^R + (1-pi)(1 - Phi(t)^L).

    >>> round(hardmax_error(Task(length=100, strength=5.0)), 6)
    0.043056
    """
    from scipy.special import log_ndtr  # noqa: PLC0415

    L, R, pi, theta = task.length, task.signal_tokens, task.positive_rate, task.strength

    def error(t: Array) -> Array:
        below = log_ndtr(t)
        missed = np.exp((L - R) * below + R * log_ndtr(t - theta))
        return np.asarray(pi * missed - (1.0 - pi) * np.expm1(L * below))

    top = float(np.sqrt(2.0 * np.log(L + 1.0)))
    return min(_lowest(error, -10.0, theta + top + 10.0), pi, 1.0 - pi)


def _lowest(error: Callable[[Array], Array], low: float, high: float) -> float:
    """Minimum over a threshold: a grid, then finer grids around its best point."""
    for _ in range(6):
        grid = np.linspace(low, high, 401)
        values = error(grid)
        k = int(np.argmin(values))
        low, high = grid[max(k - 2, 0)], grid[min(k + 2, 400)]
    return float(values[k])


def _gated_moments(activation: str, points: int = 4001) -> tuple[Array, Array, Array, float, float]:
    """Nodes and weights of a standard normal, psi there, its mean and its standard deviation."""
    g = np.linspace(-12.0, 12.0, points)
    weight = np.exp(-0.5 * g * g) / np.exp(-0.5 * g * g).sum()
    base = ACTIVATIONS[activation](g)
    mean = float(weight @ base)
    return g, weight, base, mean, float(np.sqrt(weight @ (base - mean) ** 2))


def elementwise_snr(task: Task, activation: str) -> float:
    """R (E psi(g + theta) - E psi(g)) / (sqrt(L) sd psi(g)): all that counts for long sequences.

    >>> round(elementwise_snr(Task(length=10**8, strength=1e4), "step"), 3)
    1.713
    """
    g, weight, _, mean, spread = _gated_moments(activation)
    gain = float(weight @ ACTIVATIONS[activation](g + task.strength)) - mean
    return task.signal_tokens * gain / (float(np.sqrt(task.length)) * spread)


def elementwise_error(task: Task, activation: str) -> tuple[float, float]:
    """Error of thresholding T = sum_l psi(x_l), a sum of independent terms, for sequences that are not short; and its own error.

    P(T <= t) = 1/2 - (1/pi) int_0^inf Im[e^(-i w t) f(w)] / w dw with f the characteristic function of T, a
    power of that of one token. The second number is the distance of a coarser rule.
    """
    fine, coarse = (_inverted(task, activation, *rule) for rule in INVERSION)
    return fine, abs(fine - coarse)


def _inverted(task: Task, activation: str, nodes: int, reach: float, points: int) -> float:
    """The integral on ``nodes`` frequencies up to ``reach``, in units in which f falls like a Gaussian; ``points`` for each f."""
    L, R, rate = task.length, task.signal_tokens, task.positive_rate
    g, weight, base, mean, spread = _gated_moments(activation, points)
    scale, step = spread * float(np.sqrt(L)), reach / nodes
    w = (np.arange(nodes) + 0.5) * step
    noise = np.exp(1j * np.outer(w / scale, base - mean)) @ weight
    signal = np.exp(1j * np.outer(w / scale, ACTIVATIONS[activation](g + task.strength) - mean)) @ weight
    rest = np.exp((L - R) * np.log(noise))
    minus, plus = rest * noise**R, rest * signal**R

    def error(t: Array) -> Array:
        turn = np.exp(-1j * np.outer(t, w))
        below = [0.5 - np.imag(turn @ (f / w)) * step / np.pi for f in (plus, minus)]
        return np.asarray(rate * below[0] + (1.0 - rate) * (1.0 - below[1]))

    lowest = _lowest(error, -8.0, 8.0 + elementwise_snr(task, activation))
    return float(np.clip(lowest, 0.0, min(rate, 1.0 - rate)))


class _Measured(NamedTuple):
    """The lowest error over thresholds of a sampled statistic, and what every sample adds to it at the best one."""

    error: float
    mistakes: Array


def _empirical_error(plus: Array, minus: Array, positive_rate: float) -> _Measured:
    """Lowest error over thresholds of a statistic sampled in both classes, by a sorted merge."""
    values = np.concatenate([plus, minus])
    odds = (positive_rate / len(plus), (positive_rate - 1.0) / len(minus))
    order = np.argsort(values)
    # below the threshold positives are missed, above it negatives are taken for positives
    steps = np.append(0.0, np.cumsum(np.repeat(odds, (len(plus), len(minus)))[order]))
    best = int(np.argmin(steps))
    threshold = values[order[best - 1]] if best > 0 else -np.inf
    mistakes = positive_rate * (plus <= threshold) + (1.0 - positive_rate) * (minus > threshold)
    return _Measured(float(steps[best] + 1.0 - positive_rate), np.asarray(mistakes))


def _standard_error(mistakes: Array) -> float:
    """Of the mean; what no sample shows may still happen to one of as many."""
    return float(np.hypot(np.std(mistakes) / np.sqrt(len(mistakes)), 1.0 / len(mistakes)))


def _softmax_statistic(x: Array, sharpness: float) -> Array:
    """T = sum_l x_l e^(kappa x_l) / sum_l e^(kappa x_l)."""
    att = np.exp(sharpness * (x - x.max(axis=1, keepdims=True)))
    return np.asarray(np.einsum("nl,nl->n", att, x) / att.sum(axis=1))


class Sampled(NamedTuple):
    """Errors of softmax (with its sharpness) and of element-wise attention, each with its standard error."""

    softmax: float
    sharpness: float | None
    gated: float
    softmax_err: float
    gated_err: float


def sampled_errors(task: Task, activation: str, rng: np.random.Generator, samples: int, hard: float) -> Sampled:
    """Errors by sampling; softmax is measured against the hardmax on the same noise, whose error is known exactly."""
    L, R, pi = task.length, task.signal_tokens, task.positive_rate
    sharpnesses = SHARPNESS * np.sqrt(2.0 * np.log(max(L, 2)))
    psi = ACTIVATIONS[activation]

    def statistics(x: Array) -> list[Array]:
        soft = [_softmax_statistic(x, float(k)) for k in sharpnesses]
        return [*soft, x.max(axis=1), psi(x).sum(axis=1)]

    block = max(1, MONTE_CARLO // L)
    rows: list[list[Array]] = []
    for first in range(0, samples, block):
        minus = rng.standard_normal((min(block, samples - first), L))
        plus = minus.copy()
        plus[:, :R] += task.strength
        pairs = zip(statistics(plus), statistics(minus), strict=True)
        rows.append([np.array(pair) for pair in pairs])
    sampled = [np.concatenate(parts, axis=1) for parts in zip(*rows, strict=True)]
    *soft, largest, gated = (_empirical_error(plus, minus, pi) for plus, minus in sampled)
    k = int(np.argmin([one.error for one in soft]))
    luck = hard - largest.error
    found, sharpness = (hard, None) if largest.error <= soft[k].error else (soft[k].error + luck, float(sharpnesses[k]))
    return Sampled(
        softmax=max(found, 0.0),
        sharpness=sharpness,
        gated=gated.error,
        softmax_err=_standard_error(soft[k].mistakes - largest.mistakes),
        gated_err=_standard_error(gated.mistakes),
    )


def signal_dominates(c: float, k: float) -> bool:
    """Whether, for L -> infinity, the signal token takes all attention at theta = c sqrt(log L), kappa = k sqrt(log L).

    k c > 1 + k^2/2 below k = sqrt 2, and c > sqrt 2 above it; so theta = sqrt(2 log L) is the threshold,
    against theta R ~ sqrt(L) for every linear model and for element-wise attention.

    >>> signal_dominates(1.5, 2**0.5), signal_dominates(1.4, 2**0.5)
    (True, False)
    """
    if k >= np.sqrt(2.0):
        return bool(c > np.sqrt(2.0))
    return bool(k * c > 1.0 + 0.5 * k * k)
