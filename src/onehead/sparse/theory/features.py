"""The law of the features that the readout is trained on: informative directions and a noise level (S4.1, S4.3, S4.6).

The feature of a sample is  sum_j D_j e_j + tau z  with z standard normal outside the query direction.
``design`` holds the informative part D with one column per trained coefficient: the query direction
(attention only), the signal direction or directions, and the bias.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.errors import InvalidArgument
from onehead.numerics.replicate_error import error_from_replicates
from onehead.numerics.sobol import BITS, scrambled_net
from onehead.sparse.losses import Array
from onehead.sparse.task import Task

MAX_LENGTH = 20_000  # tokens: the Sobol sequence has no more dimensions
REPLICATES = 16  # independently randomised point sets of a sample, whose spread gives the error
MIN_LOG2_POINTS = 6  # minimum of log2 of the points per class: four in each replicate
MAX_LOG2_NORMALS = 24  # upper limit of log2 of the normal numbers of a sample
MAX_CACHED_NORMALS = 2**15  # replicates with more normal numbers are not cached
TILT = 1.5  # events of probability p of the largest tokens are sampled with probability of about p^(1/TILT)

RELATIVE_ROUNDING = 1e-8  # relative error of a number that is solved for to rounding
ABSOLUTE_ROUNDING = 1e-12  # absolute error of such a number

_GAUSS_GRID = np.linspace(-9.0, 9.0, 2001)  # trapezoidal rule for the Gaussian of a linear model's logit, error < 1e-12
_INTERLEAVED_GRIDS = 4  # sub-grids of it, whose differences show the error for a loss with a kink


@dataclass(frozen=True, kw_only=True)
class Features:
    """A weighted sample of the law of (y, D, tau), and of the Gaussian g of the logit c + tau r g.

    label (N,) is y; design (N, p) is D; noise (N,) is tau; gauss (N,) is g; weight (N,) sums to one.
    ``is_query`` and ``is_signal`` (p,) mark the column of the query direction and those of the signal; the last
    column is the bias. The sample may consist of replicates of ``replicate_sizes`` points each, in sequence:
    independently randomised point sets if ``sampled``, else interleaved grids. Without quadrature there are none.
    """

    label: Array
    design: Array
    noise: Array
    gauss: Array
    weight: Array
    is_query: NDArray[np.bool_]
    is_signal: NDArray[np.bool_]
    replicate_sizes: tuple[int, ...] = ()
    sampled: bool = False

    def replicates(self) -> "list[Features]":
        """Return the replicates of this sample, each with weights that sum to one."""
        ends = np.cumsum(self.replicate_sizes).tolist()
        return [self._rows(slice(end - size, end)) for size, end in zip(self.replicate_sizes, ends, strict=True)]

    def _rows(self, rows: slice) -> "Features":
        return replace(
            self,
            label=self.label[rows],
            design=self.design[rows],
            noise=self.noise[rows],
            gauss=self.gauss[rows],
            weight=self.weight[rows] / self.weight[rows].sum(),
            replicate_sizes=(),
        )

    @property
    def missed_probability(self) -> float:
        """Probability of an event that the sampled points may well have missed; zero for a deterministic grid."""
        return (0.5 * self.label.size) ** -TILT if self.sampled else 0.0

    def average(self, values: Array) -> float:
        """Return E[values] over the sample."""
        return float(np.einsum("n,n->", self.weight, values))

    def logit(self, x: Array) -> Array:
        """Return c = D.x of every sample."""
        from onehead.sparse.kernels import project  # numba is loaded when first needed

        return np.asarray(project(self.design, np.ascontiguousarray(x, dtype=float)))

    def moments(self, values: Array) -> Array:
        """Return E[values D_j] of every column j."""
        from onehead.sparse.kernels import moment

        return np.asarray(moment(self.design, self.weight, values))

    def gram(self, left: Array, values: Array, right: Array) -> Array:
        """Return E[values left_i right_j] of every pair of columns."""
        from onehead.sparse.kernels import gram

        return np.asarray(gram(left, self.weight * values, right))


def stated_error(union: Array, replicates: Array, *, sampled: bool) -> Array:
    """Return the errors of k numbers of a sample, (k,), from the values of its replicates, (replicates, k) (S4.3).

    For independent replicates this is `error_from_replicates` of their deviations from the value of their union, so
    that a bias common to all counts too. For interleaved grids it is the largest deviation over their number: the
    error made by a kink falls with the square of the spacing, and that of the union is smaller still. The error is
    infinite where a replicate has no value.
    """
    rounding = RELATIVE_ROUNDING * np.abs(union) + ABSOLUTE_ROUNDING
    if len(replicates) == 0:
        return rounding
    with np.errstate(invalid="ignore", over="ignore"):
        deviation = np.where(replicates == union, 0.0, np.abs(replicates - union))
        deviation = np.where(np.isnan(deviation), np.inf, deviation)
        if not sampled:
            return np.asarray(rounding + np.max(deviation, axis=0) / len(replicates))
        return np.asarray(rounding + error_from_replicates(deviation))


def affordable(log2_points: int, length: int) -> int:
    """Return log2 of the wanted number of points per class, reduced for sequences that are too long for it."""
    return max(MIN_LOG2_POINTS, min(log2_points, MAX_LOG2_NORMALS - int(np.ceil(np.log2(length + 1)))))


class SortedTokens(NamedTuple):
    """Noise of the tokens of both classes in descending order, Gaussian of the logit, and weights of the samples.

    Positive sequences have their signal tokens in ``signal`` and the others in ``noise``; negative ones are ``minus``.
    """

    signal: Array
    noise: Array
    minus: Array
    gauss: Array
    weight_plus: Array
    weight_minus: Array


_net = lru_cache(maxsize=4)(scrambled_net)


def _uniform(dim: int, log2_points: int, seed: int, replicate: int) -> Array:
    """Return Sobol points in the open unit cube, with an independent random digital shift for every ``replicate``."""
    shift = np.random.default_rng([seed, replicate]).integers(0, 2**BITS, dim, dtype=np.uint32)
    return np.asarray(((_net(dim, log2_points, seed) ^ shift) + 0.5) / 2.0**BITS)


def _descending_normals(logs: Array) -> Array:
    """Return n normals in descending order from the logarithms of n uniforms.

    The largest has Phi = u^(1/n); each following one is the largest of the remaining, below its predecessor.
    """
    from scipy.special import ndtri_exp

    return np.asarray(ndtri_exp(np.cumsum(logs / np.arange(logs.shape[1], 0.0, -1.0), axis=1)))


def sample_sorted_tokens(length: int, signal_tokens: int, log2_points: int, seed: int, replicate: int) -> SortedTokens:
    """Return one replicate, with importance sampling of the largest tokens, which use the first coordinates (S4.3)."""
    from scipy.special import ndtri

    cube = _uniform(length + 1, log2_points, seed, replicate)
    logs = np.log(cube[:, 1:])
    minus = logs.copy()
    minus[:, 0], weight_minus = _importance_sampled(cube[:, 1])
    logs[:, 0], weight_plus = minus[:, 0], weight_minus
    if length > signal_tokens:
        logs[:, signal_tokens], weight = _importance_sampled(cube[:, 1 + signal_tokens])
        weight_plus = weight_plus * weight
    return SortedTokens(
        signal=_descending_normals(logs[:, :signal_tokens]),
        noise=_descending_normals(logs[:, signal_tokens:]),
        minus=_descending_normals(minus),
        gauss=ndtri(cube[:, 0]),
        weight_plus=weight_plus / weight_plus.sum(),
        weight_minus=weight_minus / weight_minus.sum(),
    )


def _importance_sampled(v: Array) -> tuple[Array, Array]:
    """Return log u and du/dv ~ (v (1 - v))^(TILT - 1), so that u is close to 0 and 1 more often than the uniform v."""
    from scipy.special import betainc

    low, high = betainc(TILT, TILT, v), betainc(TILT, TILT, 1.0 - v)
    return np.where(v < 0.5, np.log(low), np.log1p(-high)), (v * (1.0 - v)) ** (TILT - 1.0)


_cached_tokens = lru_cache(maxsize=128)(sample_sorted_tokens)


def attention_features(
    task: Task, *, cos_query: float, sharpness: float, log2_points: int, seed: int, length: int | None = None
) -> Features:
    """Sample (y, G, K, tau) and g of the attention model: x_l = g_l + theta s v_l, att = softmax(kappa x) (S4.1).

    G = sum_l att_l x_l along the query, K = theta sqrt(1 - s^2) sum_{l in S} att_l along the part of the signal
    orthogonal to the query, tau = |att|. There are 2^log2_points samples per class, in REPLICATES replicates.
    ``length`` replaces the length of the task (length generalisation).
    """
    length = task.length if length is None else length
    if length > MAX_LENGTH:
        raise InvalidArgument("length", length, f"an integer <= {MAX_LENGTH} for attention")
    R, size = task.signal_tokens, max(log2_points, MIN_LOG2_POINTS) - int(np.log2(REPLICATES))
    sample = _cached_tokens if (length << size) <= MAX_CACHED_NORMALS else sample_sorted_tokens
    orthogonal = task.strength * np.sqrt(max(1.0 - cos_query**2, 0.0))
    columns: list[tuple[Array, ...]] = []
    for replicate in range(REPLICATES):
        tokens = sample(length, R, size, seed, replicate)
        plus = np.concatenate([tokens.signal + task.strength * cos_query, tokens.noise], axis=1)
        G, share, tau = _attend(plus, sharpness, R)
        weight = task.positive_rate / REPLICATES * tokens.weight_plus
        columns.append((G, orthogonal * share, tau, tokens.gauss, weight))
        G, share, tau = _attend(tokens.minus, sharpness, R)
        weight = (1.0 - task.positive_rate) / REPLICATES * tokens.weight_minus
        columns.append((G, np.zeros_like(share), tau, tokens.gauss, weight))
    on_query, on_signal, noise, gauss, weight = (np.concatenate(column) for column in zip(*columns, strict=True))
    return Features(
        label=np.tile(np.repeat([1.0, -1.0], 2**size), REPLICATES),
        design=np.column_stack([on_query, on_signal, np.ones_like(noise)]),
        noise=noise,
        gauss=gauss,
        weight=weight,
        is_query=np.array([True, False, False]),
        is_signal=np.array([False, True, False]),
        replicate_sizes=(2 * 2**size,) * REPLICATES,
        sampled=True,
    )


def softmax(logits: Array) -> Array:
    """Return the softmax of every row of logits."""
    att = np.exp(logits - logits.max(axis=1, keepdims=True))
    att /= att.sum(axis=1, keepdims=True)
    return np.asarray(att)


def _attend(x: Array, sharpness: float, signal_tokens: int) -> tuple[Array, Array, Array]:
    """Return G = sum att x, the share of attention on the signal tokens, and tau = |att|."""
    att = softmax(sharpness * x)
    tau = np.sqrt(np.einsum("nl,nl->n", att, att))
    return np.einsum("nl,nl->n", att, x), att[:, :signal_tokens].sum(axis=1), tau


def pooled_features(task: Task, *, length: int | None = None) -> Features:
    """Return the features of the pooled model: K = theta R / L on positives and tau = 1 / sqrt(L) (S4.6)."""
    length = task.length if length is None else length
    return _linear_features(
        task, np.array([[task.strength * task.signal_tokens / length]]), noise=1.0 / np.sqrt(length)
    )


def vectorised_features(task: Task) -> Features:
    """Return the features of the vectorised model: K = delta on positives and tau = 1 (S4.6).

    With weighted positions there is one signal direction per position.
    """
    if task.positions is None:
        return _linear_features(task, np.array([[task.linear_snr]]), noise=1.0)
    masks, odds = task.patterns()
    return _linear_features(task, task.strength * masks, odds, noise=1.0)


def linear_features(task: Task, model: str) -> Features:
    """Return the features of the pooled or of the vectorised model."""
    return pooled_features(task) if model == "pooled" else vectorised_features(task)


def _linear_features(task: Task, signal: Array, odds: Array | float = 1.0, *, noise: float) -> Features:
    """Return one point per signal pattern of the positive class and one of the negative class, g not being sampled."""
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


def with_gauss(features: Features, grid: Array = _GAUSS_GRID) -> Features:
    """Return the features of a linear model crossed with a grid of g; interleaved sub-grids are the replicates."""
    grids = [grid[first::_INTERLEAVED_GRIDS] for first in range(_INTERLEAVED_GRIDS)]
    points = len(features.label)
    weight = np.concatenate([np.outer(features.weight, np.exp(-0.5 * g**2)).ravel() for g in grids])
    nodes = [g.size for g in grids]
    return replace(
        features,
        label=np.concatenate([np.repeat(features.label, size) for size in nodes]),
        design=np.concatenate([np.repeat(features.design, size, axis=0) for size in nodes]),
        noise=np.concatenate([np.repeat(features.noise, size) for size in nodes]),
        gauss=np.concatenate([np.tile(g, points) for g in grids]),
        weight=weight / weight.sum(),
        replicate_sizes=tuple(points * size for size in nodes),
    )
