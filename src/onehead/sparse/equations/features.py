"""What stage four sees of a sample: a few informative directions and a noise level (S4.1, S4.3, S4.6).

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
from onehead.numerics.parts import error_of_parts
from onehead.numerics.sobol import BITS, net
from onehead.sparse.losses import Array
from onehead.sparse.task import Task

__all__ = [
    "FEWEST",
    "PARTS",
    "Drawn",
    "Features",
    "affordable",
    "attention_features",
    "draw_tokens",
    "linear_features",
    "pooled_features",
    "softmax",
    "stated_error",
    "vectorised_features",
    "with_gauss",
]

LONGEST = 20_000  # tokens: the Sobol sequence has no more dimensions
PARTS = 16  # independent point sets of a sample, whose spread is its error
FEWEST = 6  # log2 of the points of a class: four in each part
MOST = 24  # log2 of the normal numbers drawn for a sample
KEPT = 2**15  # numbers of a drawn part that are kept for the next question
TILT = 1.5  # events of probability p of the largest tokens are drawn with about p^(1/TILT)

ROUNDING, SMALLEST = 1e-8, 1e-12  # errors, relative and absolute, of a number that is solved for to rounding

_GRID = np.linspace(-9.0, 9.0, 2001)  # the Gaussian of a linear model's logit: trapezoid rule, error below 1e-12
_COMBS = 4  # interleaved grids of it, whose differences show the error of a loss with a kink


@dataclass(frozen=True, kw_only=True)
class Features:
    """A weighted sample of the law of (y, D, tau), and of the Gaussian g of the logit c + tau r g.

    label (N,) is y; design (N, p) is D; noise (N,) is tau; gauss (N,) is g; weight (N,) sums to one.
    ``is_query`` and ``is_signal`` (p,) say which columns are the query direction and which lie in the noise
    space; the rest is the bias. A sample may consist of several, one after the other, of ``parts`` points each: ``sampled``
    says whether they are independent draws, or interleaved grids; none where no average is left to quadrature.
    """

    label: Array
    design: Array
    noise: Array
    gauss: Array
    weight: Array
    is_query: NDArray[np.bool_]
    is_signal: NDArray[np.bool_]
    parts: tuple[int, ...] = ()
    sampled: bool = False

    def split(self) -> "list[Features]":
        """The samples that this one consists of."""
        ends = np.cumsum(self.parts).tolist()
        return [self._cut(slice(end - size, end)) for size, end in zip(self.parts, ends, strict=True)]

    def _cut(self, rows: slice) -> "Features":
        return replace(
            self,
            label=self.label[rows],
            design=self.design[rows],
            noise=self.noise[rows],
            gauss=self.gauss[rows],
            weight=self.weight[rows] / self.weight[rows].sum(),
            parts=(),
        )

    @property
    def unseen(self) -> float:
        """The probability of an event that the points may well have missed; none where they are no draws."""
        return (0.5 * self.label.size) ** -TILT if self.sampled else 0.0

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


def stated_error(whole: Array, parts: Array, *, sampled: bool) -> Array:
    """The error of the numbers of a sample, (k,), from those of its parts, (parts, k); infinite where a part has none.

    Of independent draws: what `error_of_parts` says; their spread is taken about the number of the whole,
    so that what all of them miss counts too. Of interleaved grids: the farthest, over their number; where a kink makes the error, that
    of the whole grid is smaller, since it falls with the square of the spacing.
    """
    rounding = ROUNDING * np.abs(whole) + SMALLEST
    if len(parts) == 0:
        return rounding
    with np.errstate(invalid="ignore", over="ignore"):
        off = np.where(parts == whole, 0.0, np.abs(parts - whole))
        off = np.where(np.isnan(off), np.inf, off)
        if not sampled:
            return np.asarray(rounding + np.max(off, axis=0) / len(parts))
        return np.asarray(rounding + error_of_parts(off))


def affordable(log2_points: int, length: int) -> int:
    """The wanted number of points of a class (its log2), or fewer where the sequence is so long that they would take too long."""
    return max(FEWEST, min(log2_points, MOST - int(np.ceil(np.log2(length + 1)))))


class Drawn(NamedTuple):
    """Tokens of both classes in falling order, those with the signal apart; the Gaussian of the logit; weights of the samples."""

    signal: Array
    noise: Array
    minus: Array
    gauss: Array
    weight_plus: Array
    weight_minus: Array


_net = lru_cache(maxsize=4)(net)


def _uniform(dim: int, log2_points: int, seed: int, part: int) -> Array:
    """The net under a digital shift of its own for every part: points in the open cube."""
    shift = np.random.default_rng([seed, part]).integers(0, 2**BITS, dim, dtype=np.uint32)
    return np.asarray(((_net(dim, log2_points, seed) ^ shift) + 0.5) / 2.0**BITS)


def _falling(logs: Array) -> Array:
    """n normals in falling order from the logarithms of n uniforms: the largest has Phi = u^(1/n), the next follows below it."""
    from scipy.special import ndtri_exp  # noqa: PLC0415

    return np.asarray(ndtri_exp(np.cumsum(logs / np.arange(logs.shape[1], 0.0, -1.0), axis=1)))


def draw_tokens(length: int, signal_tokens: int, log2_points: int, seed: int, part: int) -> Drawn:
    """One part: the largest tokens come from the first coordinates, and rare ones are drawn more often (S4.3)."""
    from scipy.special import ndtri  # noqa: PLC0415

    cube = _uniform(length + 1, log2_points, seed, part)
    logs = np.log(cube[:, 1:])
    minus = logs.copy()
    minus[:, 0], weight_minus = _tilted(cube[:, 1])
    logs[:, 0], weight_plus = minus[:, 0], weight_minus
    if length > signal_tokens:
        logs[:, signal_tokens], weight = _tilted(cube[:, 1 + signal_tokens])
        weight_plus = weight_plus * weight
    return Drawn(
        signal=_falling(logs[:, :signal_tokens]),
        noise=_falling(logs[:, signal_tokens:]),
        minus=_falling(minus),
        gauss=ndtri(cube[:, 0]),
        weight_plus=weight_plus / weight_plus.sum(),
        weight_minus=weight_minus / weight_minus.sum(),
    )


def _tilted(v: Array) -> tuple[Array, Array]:
    """log u with du/dv ~ (v (1 - v))^(TILT - 1), and du/dv: u is near 0 and near 1 more often than a uniform number."""
    from scipy.special import betainc  # noqa: PLC0415

    low, high = betainc(TILT, TILT, v), betainc(TILT, TILT, 1.0 - v)
    return np.where(v < 0.5, np.log(low), np.log1p(-high)), (v * (1.0 - v)) ** (TILT - 1.0)


_kept = lru_cache(maxsize=128)(draw_tokens)


def attention_features(
    task: Task, *, cos_query: float, sharpness: float, log2_points: int, seed: int, length: int | None = None
) -> Features:
    """Sample (y, G, K, tau) and g: x_l = g_l + theta s v_l, att = softmax(kappa x).

    G = sum_l att_l x_l along the query, K = theta sqrt(1 - s^2) sum_{l in S} att_l along the rest of the
    signal, tau = |att|. 2^log2_points per class, in PARTS independent parts. ``length`` replaces the task's own
    (length generalisation).
    """
    length = task.length if length is None else length
    if length > LONGEST:
        raise InvalidArgument("length", length, f"an integer <= {LONGEST} for attention")
    R, size = task.signal_tokens, max(log2_points, FEWEST) - int(np.log2(PARTS))
    drawn = _kept if (length << size) <= KEPT else draw_tokens
    rest = task.strength * np.sqrt(max(1.0 - cos_query**2, 0.0))
    columns: list[tuple[Array, ...]] = []
    for part in range(PARTS):
        at = drawn(length, R, size, seed, part)
        plus = np.concatenate([at.signal + task.strength * cos_query, at.noise], axis=1)
        G, share, tau = _attend(plus, sharpness, R)
        columns.append((G, rest * share, tau, at.gauss, task.positive_rate / PARTS * at.weight_plus))
        G, share, tau = _attend(at.minus, sharpness, R)
        columns.append((G, np.zeros_like(share), tau, at.gauss, (1.0 - task.positive_rate) / PARTS * at.weight_minus))
    on_query, on_signal, noise, gauss, weight = (np.concatenate(column) for column in zip(*columns, strict=True))
    return Features(
        label=np.tile(np.repeat([1.0, -1.0], 2**size), PARTS),
        design=np.column_stack([on_query, on_signal, np.ones_like(noise)]),
        noise=noise,
        gauss=gauss,
        weight=weight,
        is_query=np.array([True, False, False]),
        is_signal=np.array([False, True, False]),
        parts=(2 * 2**size,) * PARTS,
        sampled=True,
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
    """Every point of a linear model's features crossed with a grid of the Gaussian g, which is a comb of coarser grids."""
    combs = [grid[first::_COMBS] for first in range(_COMBS)]
    points = len(features.label)
    weight = np.concatenate([np.outer(features.weight, np.exp(-0.5 * comb**2)).ravel() for comb in combs])
    nodes = [comb.size for comb in combs]
    return replace(
        features,
        label=np.concatenate([np.repeat(features.label, size) for size in nodes]),
        design=np.concatenate([np.repeat(features.design, size, axis=0) for size in nodes]),
        noise=np.concatenate([np.repeat(features.noise, size) for size in nodes]),
        gauss=np.concatenate([np.tile(comb, points) for comb in combs]),
        weight=weight / weight.sum(),
        parts=tuple(points * size for size in nodes),
    )
