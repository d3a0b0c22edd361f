"""What stage four sees of a sample: a few informative directions and a noise level (S4.1, S4.3, S4.6).

The feature of a sample is  sum_j D_j e_j + tau z  with z standard normal outside the query direction.
``design`` holds the informative part D with one column per trained coefficient: the query direction
(attention only), the signal direction or directions, and the bias.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from onehead.errors import InvalidArgument
from onehead.numerics.gaussian import sobol
from onehead.sparse.losses import Array
from onehead.sparse.task import Task

__all__ = [
    "Features",
    "affordable",
    "attention_features",
    "linear_features",
    "pooled_features",
    "softmax",
    "vectorised_features",
    "with_gauss",
]

LONGEST = 20_000  # tokens: the Sobol sequence has no more dimensions
MEMORY = 22  # log2 of the numbers held per copy of a point set, half of them antithetic

_GRID = np.linspace(-9.0, 9.0, 2001)  # the Gaussian of a linear model's logit: trapezoid rule, error below 1e-12


@dataclass(frozen=True, kw_only=True)
class Features:
    """A weighted sample of the law of (y, D, tau), and of the Gaussian g of the logit c + tau r g.

    label (N,) is y; design (N, p) is D; noise (N,) is tau; gauss (N,) is g; weight (N,) sums to one.
    ``is_query`` and ``is_signal`` (p,) say which columns are the query direction and which lie in the noise
    space; the rest is the bias.
    """

    label: Array
    design: Array
    noise: Array
    gauss: Array
    weight: Array
    is_query: NDArray[np.bool_]
    is_signal: NDArray[np.bool_]

    def average(self, values: Array) -> float:
        """E[values] over the sample."""
        return float(np.einsum("n,n->", self.weight, values))

    def logit(self, x: Array) -> Array:
        """c = D.x for every sample."""
        from onehead.sparse.kernels import project  # noqa: PLC0415  (numba is loaded when first needed)

        return np.asarray(project(self.design, np.ascontiguousarray(x, dtype=float)))

    def moments(self, values: Array) -> Array:
        """E[values D_j] for every column."""
        from onehead.sparse.kernels import moment  # noqa: PLC0415

        return np.asarray(moment(self.design, self.weight, values))

    def gram(self, left: Array, values: Array, right: Array) -> Array:
        """E[values left_i right_j] for every pair of columns."""
        from onehead.sparse.kernels import gram  # noqa: PLC0415

        return np.asarray(gram(left, self.weight * values, right))


def affordable(log2_points: int, length: int) -> int:
    """The wanted number of points (its log2), or fewer where the sequence is so long that they would fill the memory."""
    return max(6, min(log2_points, MEMORY - int(np.ceil(np.log2(length + 1)))))


def attention_features(
    task: Task, *, cos_query: float, sharpness: float, log2_points: int, seed: int, length: int | None = None
) -> Features:
    """Sample (y, G, K, tau) and g: x_l = g_l + theta s v_l, att = softmax(kappa x).

    G = sum_l att_l x_l along the query, K = theta sqrt(1 - s^2) sum_{l in S} att_l along the rest of the
    signal, tau = |att|. Both classes share the same Sobol points. ``length`` replaces the task's own (length
    generalisation).
    """
    length = task.length if length is None else length
    if length > LONGEST:
        raise InvalidArgument("length", length, f"an integer <= {LONGEST} for attention")
    R = task.signal_tokens
    points = sobol(length + 1, log2_points=log2_points, seed=seed).nodes
    gauss, tokens = points[:, 0], points[:, 1:]
    rest = task.strength * np.sqrt(max(1.0 - cos_query**2, 0.0))
    G_minus, _, tau_minus = _attend(tokens, sharpness, R)
    shifted = tokens.copy()
    shifted[:, :R] += task.strength * cos_query
    G_plus, signal_share, tau_plus = _attend(shifted, sharpness, R)
    n = len(gauss)
    on_query, on_signal = np.append(G_plus, G_minus), np.append(rest * signal_share, np.zeros(n))
    return Features(
        label=np.repeat([1.0, -1.0], n),
        design=np.column_stack([on_query, on_signal, np.ones(2 * n)]),
        noise=np.append(tau_plus, tau_minus),
        gauss=np.append(gauss, gauss),
        weight=np.repeat([task.positive_rate / n, (1.0 - task.positive_rate) / n], n),
        is_query=np.array([True, False, False]),
        is_signal=np.array([False, True, False]),
    )


def softmax(logits: Array) -> Array:
    """Attention of every row of logits."""
    att = np.exp(logits - logits.max(axis=1, keepdims=True))
    att /= att.sum(axis=1, keepdims=True)
    return np.asarray(att)


def _attend(x: Array, sharpness: float, signal_tokens: int) -> tuple[Array, Array, Array]:
    """G = sum att x, the share of attention on the signal tokens, and tau = |att|."""
    att = softmax(sharpness * x)
    tau = np.sqrt(np.einsum("nl,nl->n", att, att))
    return np.einsum("nl,nl->n", att, x), att[:, :signal_tokens].sum(axis=1), tau


def pooled_features(task: Task, *, length: int | None = None) -> Features:
    """K = theta R / L on positives and tau = 1 / sqrt(L)."""
    length = task.length if length is None else length
    return _linear(task, np.array([[task.strength * task.signal_tokens / length]]), noise=1.0 / np.sqrt(length))


def vectorised_features(task: Task) -> Features:
    """K = delta on positives and tau = 1; one signal direction per place when places are not alike."""
    if task.positions is None:
        return _linear(task, np.array([[task.linear_snr]]), noise=1.0)
    masks, odds = task.patterns()
    return _linear(task, task.strength * masks, odds, noise=1.0)


def linear_features(task: Task, model: str) -> Features:
    """What the readout of the pooled or of the vectorised model sees."""
    return pooled_features(task) if model == "pooled" else vectorised_features(task)


def _linear(task: Task, signal: Array, odds: Array | float = 1.0, *, noise: float) -> Features:
    """One point per pattern of the positive class and one for the negative class; g is not sampled yet."""
    patterns, columns = signal.shape
    design = np.ones((patterns + 1, columns + 1))
    design[:patterns, :columns] = signal
    design[patterns, :columns] = 0.0
    return Features(
        label=np.append(np.ones(patterns), -1.0),
        design=design,
        noise=np.full(patterns + 1, noise),
        gauss=np.zeros(patterns + 1),
        weight=np.append(task.positive_rate * odds, 1.0 - task.positive_rate),
        is_query=np.zeros(columns + 1, dtype=bool),
        is_signal=np.append(np.ones(columns, dtype=bool), False),
    )


def with_gauss(features: Features, grid: Array = _GRID) -> Features:
    """Every point of a linear model's features crossed with a grid of the Gaussian g."""
    points, nodes = len(features.label), len(grid)
    weight = np.exp(-0.5 * grid**2)
    return replace(
        features,
        label=np.repeat(features.label, nodes),
        design=np.repeat(features.design, nodes, axis=0),
        noise=np.repeat(features.noise, nodes),
        gauss=np.tile(grid, points),
        weight=np.outer(features.weight, weight / weight.sum()).ravel(),
    )
