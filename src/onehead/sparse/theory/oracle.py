"""Oracle errors: the lowest test error of each model with the best weights, for any sequence length (S2).

A model that knows the signal xi needs only x_l = <token l, xi> ~ N(theta v_l, 1). The Bayes rule is in `bayes_rule`.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from onehead.numerics.gaussian import cumulative
from onehead.sparse.losses import Array
from onehead.sparse.task import Task

NORMALS_PER_CLASS = 2_000_000  # normal numbers per class, shared by all models that are sampled
MAX_SAMPLED_LENGTH = 20_000  # tokens; longer sequences have closed forms and limits only
# Above this length the characteristic function of element-wise attention decays fast enough to be inverted.
MAX_SAMPLED_ELEMENTWISE_LENGTH = 50
# Number of frequencies, their range and quadrature points per token of the inversion; then those of a coarser rule,
# whose difference is the error estimate.
INVERSION_RULES = ((800, 9.0, 4001), (500, 7.5, 1501))
# trial values of the softmax sharpness in units of sqrt(2 log L); 0 and infinity, of known error, are always tried
SHARPNESS_GRID = np.geomspace(1.0 / 32.0, 2.0, 10)


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

        return _minimise_threshold(error, -6.0, 8.0 + task.strength).error

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
    return min(_hardmax_rule(task).error, task.positive_rate, 1.0 - task.positive_rate)


class _Rule(NamedTuple):
    """A threshold of a statistic and the error of this rule."""

    threshold: float
    error: float


def _hardmax_rule(task: Task) -> _Rule:
    """Return the best threshold of the largest token, and its error."""
    from scipy.special import log_ndtr

    L, R, pi, theta = task.length, task.signal_tokens, task.positive_rate, task.strength

    def error(t: Array) -> Array:
        below = log_ndtr(t)
        missed = np.exp((L - R) * below + R * log_ndtr(t - theta))
        return np.asarray(pi * missed - (1.0 - pi) * np.expm1(L * below))

    top = float(np.sqrt(2.0 * np.log(L + 1.0)))
    return _minimise_threshold(error, -10.0, theta + top + 10.0)


def _minimise_threshold(error: Callable[[Array], Array], low: float, high: float) -> _Rule:
    """Return the minimum of an error over a threshold: on a grid, then on finer grids around its best point."""
    for _ in range(6):
        grid = np.linspace(low, high, 401)
        values = error(grid)
        k = int(np.argmin(values))
        low, high = grid[max(k - 2, 0)], grid[min(k + 2, 400)]
    return _Rule(float(grid[k]), float(values[k]))


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

    lowest = _minimise_threshold(error, -8.0, 8.0 + elementwise_snr(task, activation)).error
    return float(np.clip(lowest, 0.0, min(rate, 1.0 - rate)))


class SampledErrors(NamedTuple):
    """Errors of softmax attention at its best sharpness (infinite for the hardmax) and of element-wise attention."""

    softmax: float
    sharpness: float
    elementwise: float
    softmax_err: float
    elementwise_err: float


def sampled_errors(task: Task, activation: str, rng: np.random.Generator, samples: int) -> SampledErrors:
    """Return sampled errors of softmax and element-wise attention (S2.2, S2.3).

    Sharpness, thresholds and coefficients of the control variates are chosen on one sample of ``samples``/2 sequences
    per class; the errors are measured on another one of ``samples``. Control variates are the hardmax and the mean of
    the tokens, softmax attention of infinite and of zero sharpness, whose errors are known. Where one of them is no
    worse than the best sharpness of the grid, its error is returned.
    """
    unit = float(np.sqrt(2.0 * np.log(max(task.length, 2))))
    exact = {np.inf: _hardmax_rule(task), 0.0: _linear_rule(task)}
    grid = [*(SHARPNESS_GRID * unit).tolist(), None]  # None stands for element-wise attention
    chosen = _sample(task, activation, rng, max(samples // 2, 1), [*exact, *grid])
    found = {key: _choose_rule(task, chosen, key, exact) for key in grid}
    best = min((key for key in grid if key is not None), key=lambda key: found[key].error)
    measured = _sample(task, activation, rng, samples, [*exact, best, None])
    softmax, elementwise = (_measure(task, measured, key, found[key], exact) for key in (best, None))
    limit = min(exact, key=lambda key: exact[key].error)
    is_limit = exact[limit].error <= softmax.value
    return SampledErrors(
        softmax=exact[limit].error if is_limit else softmax.value,
        sharpness=limit if is_limit else best,
        elementwise=elementwise.value,
        softmax_err=softmax.error,
        elementwise_err=elementwise.error,
    )


Sampled = dict[float | None, tuple[Array, Array]]  # statistics of positive and negative sequences, by sharpness


def _sample(
    task: Task, activation: str, rng: np.random.Generator, samples: int, sharpnesses: Sequence[float | None]
) -> Sampled:
    """Sample the statistic of every sharpness with common noise in both classes; None is element-wise attention."""
    block = max(1, NORMALS_PER_CLASS // task.length)
    rows: list[list[Array]] = []
    for first in range(0, samples, block):
        minus = rng.standard_normal((min(block, samples - first), task.length))
        plus = minus.copy()
        plus[:, : task.signal_tokens] += task.strength
        rows.append([np.array([_statistic(x, key, activation) for x in (plus, minus)]) for key in sharpnesses])
    both = (np.concatenate(blocks, axis=1) for blocks in zip(*rows, strict=True))
    return {key: (plus, minus) for key, (plus, minus) in zip(sharpnesses, both, strict=True)}


def _statistic(x: Array, sharpness: float | None, activation: str) -> Array:
    """Return T = sum_l x_l e^(kappa x_l) / sum_l e^(kappa x_l) of every row, or sum_l psi(x_l) for None.

    Zero sharpness gives sqrt(L) times the mean, as in `linear_error`.
    """
    if sharpness is None:
        return np.asarray(ACTIVATIONS[activation](x).sum(axis=1))
    if sharpness == 0.0:
        return np.asarray(x.sum(axis=1) / np.sqrt(x.shape[1]))
    top = x.max(axis=1, keepdims=True)
    if np.isinf(sharpness):
        return np.asarray(top[:, 0])
    att = np.exp(sharpness * (x - top))
    return np.asarray(np.einsum("nl,nl->n", att, x) / att.sum(axis=1))


class _ChosenRule(NamedTuple):
    """Threshold of a sampled statistic, coefficients of its control variates, and its error on the same sample."""

    threshold: float
    coefficients: Array
    error: float


class _Measured(NamedTuple):
    """A measured error rate and its standard error."""

    value: float
    error: float


def _mistakes(task: Task, sampled: Sampled, key: float | None, threshold: float) -> Array:
    """Return pi times the missed positives plus 1 - pi times the false alarms of every pair of sequences."""
    plus, minus = sampled[key]
    return np.asarray(task.positive_rate * (plus <= threshold) + (1.0 - task.positive_rate) * (minus > threshold))


def _controls(task: Task, sampled: Sampled, exact: dict[float, _Rule]) -> Array:
    """Return the mistakes of the rules of known error minus their means, one column each."""
    return np.column_stack([_mistakes(task, sampled, key, rule.threshold) - rule.error for key, rule in exact.items()])


def _choose_rule(task: Task, sampled: Sampled, key: float | None, exact: dict[float, _Rule]) -> _ChosenRule:
    """Return the best threshold of a sampled statistic, with control variates from a regression on the same sample."""
    threshold = _best_threshold(*sampled[key], task.positive_rate)
    mistakes, controls = _mistakes(task, sampled, key, threshold), _controls(task, sampled, exact)
    coefficients = np.linalg.lstsq(controls - controls.mean(axis=0), mistakes - mistakes.mean(), rcond=1e-10)[0]
    return _ChosenRule(threshold, coefficients, float(np.mean(mistakes - controls @ coefficients)))


def _measure(
    task: Task, sampled: Sampled, key: float | None, rule: _ChosenRule, exact: dict[float, _Rule]
) -> _Measured:
    """Return the error of a given rule on a sample, at most that of guessing.

    The stated error consists of the standard error, of one mistake in N samples for events that were not sampled, and
    of the gain by the best threshold of this sample, which bounds what the given threshold may cost.
    """
    mistakes = _mistakes(task, sampled, key, rule.threshold)
    gain = float(mistakes.mean()) - float(np.min(_errors_of_thresholds(*sampled[key], task.positive_rate)[1]))
    controlled = mistakes - _controls(task, sampled, exact) @ rule.coefficients
    spread = float(np.std(controlled) / np.sqrt(controlled.size))
    value = float(np.clip(controlled.mean(), 0.0, min(task.positive_rate, 1.0 - task.positive_rate)))
    return _Measured(value, float(np.sqrt(spread**2 + gain**2 + mistakes.size**-2.0)))


def _errors_of_thresholds(plus: Array, minus: Array, positive_rate: float) -> tuple[Array, Array]:
    """Return the sampled values in ascending order, and the error of the threshold at each of them."""
    values = np.concatenate([plus, minus])
    odds = (positive_rate / len(plus), (positive_rate - 1.0) / len(minus))
    order = np.argsort(values)
    # positives below the threshold and negatives above it are mistakes
    return values[order], np.cumsum(np.repeat(odds, (len(plus), len(minus)))[order]) + 1.0 - positive_rate


def _best_threshold(plus: Array, minus: Array, positive_rate: float) -> float:
    """Return the threshold of lowest error: the mean of those within a standard error of the smallest sampled one.

    The mean is closer to the best threshold than the smallest sampled error, which scatters with the cube root of the
    number of samples.
    """
    values, errors = _errors_of_thresholds(plus, minus, positive_rate)
    best = int(np.argmin(errors))
    if errors[best] >= 1.0 - positive_rate:  # every answer is positive
        return -np.inf
    near = errors <= errors[best] + np.sqrt(max(errors[best], 1.0 / len(minus)) / len(minus))
    # thresholds of a connected interval around the smallest error
    first = best - int(np.argmin(np.append(near[best::-1], False))) + 1
    last = best + int(np.argmin(np.append(near[best:], False)))
    return float(np.mean(values[first:last]))


def _linear_rule(task: Task) -> _Rule:
    """Return the best threshold of the mean of the tokens, in units of its standard deviation, and its error (S2.1)."""
    pi, snr = task.positive_rate, task.linear_snr
    if snr < 1e-12:
        return _Rule(np.inf if pi <= 0.5 else -np.inf, min(pi, 1.0 - pi))
    return _Rule(0.5 * snr + float(np.log((1.0 - pi) / pi)) / snr, linear_error(snr, pi))
