"""Training objective of a head and its analytic gradient, with two matrix products per pass over the samples.

A pass computes D S, with the differences D of attended tokens, then a T x T problem per sample, then (G X)' D
(`logits`). A narrow tied head uses X W' and (G X W')' X instead. Parametrisations are in `parametrisation`, minimisers
in `onehead.numerics.minimise`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Any, Literal, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from onehead.aim.losses import Loss
from onehead.aim.training.data import Chunk, Samples
from onehead.aim.training.logits import Rows, centre_logits, gram_matrix, mix, pair_products
from onehead.aim.training.parametrisation import Parametrisation
from onehead.errors import InvalidArgument
from onehead.numerics.jit import njit

Array = NDArray[np.float64]
Matrix = NDArray[np.bool_]
Output = Literal["label", "sequence"]

MIN_PROBABILITY = 1e-300  # below which the logarithm of a label is not taken


@njit(error_model="python")
def _sum_row_losses(row, logits, label, gradients):  # type: ignore[no-untyped-def]
    """Sum of a row loss over rows (count, T); fills its gradients."""
    count, width = logits.shape
    gradient, hessian, total = np.empty(width), np.empty((width, width)), 0.0
    for i in range(count):
        total += row(logits[i], label[i], gradient, hessian)
        gradients[i] = gradient
    return total


@njit
def _sum_attention_losses(logits, y, gram, beta, order, lengths, squared, gradients):  # type: ignore[no-untyped-def]
    """Sum of squared losses or cross-entropies over samples, in double precision; fills the gradients.

    Row a attends to the first ``lengths[a]`` columns in the ``order`` of the row.
    """
    heads, count, tokens, _ = logits.shape
    log_p, p, force = np.empty((heads, tokens)), np.empty((heads, tokens)), np.empty(tokens)
    mean, r = np.empty(tokens), np.empty(tokens)
    total, factor = 0.0, beta / heads
    for i in range(count):
        for a in range(tokens):
            n = lengths[a] if lengths[a] > 1 else 0  # the softmax of a single column is constant
            seen = order[a]
            for k in range(heads):
                for b in range(n, tokens):
                    gradients[k, i, a, seen[b]] = 0.0
            if n == 0:
                continue
            for k in range(heads):
                row = logits[k, i, a]
                largest = row[seen[0]]
                for b in range(1, n):
                    largest = max(largest, row[seen[b]])
                normaliser = 0.0
                for b in range(n):
                    log_p[k, b] = beta * (np.float64(row[seen[b]]) - largest)
                    p[k, b] = 1.0 if row[seen[b]] == largest else np.exp(log_p[k, b])
                    normaliser += p[k, b]
                log_normaliser = 0.0 if squared else np.log(normaliser)
                for b in range(n):
                    p[k, b] /= normaliser
                    log_p[k, b] -= log_normaliser
            if squared:
                for b in range(n):
                    r[b] = -y[i, a, seen[b]]
                    for k in range(heads):
                        r[b] += p[k, b] / heads
                for b in range(n):
                    pull = r[b]
                    if len(gram) > 0:
                        pull = 0.0
                        for c in range(n):
                            pull += r[c] * gram[i, seen[c], seen[b]]
                    mean[b] = 2.0 * pull
                    total += pull * r[b]
            else:  # log P, because a probability may underflow
                for b in range(n):
                    largest = log_p[0, b]
                    for k in range(1, heads):
                        largest = max(largest, log_p[k, b])
                    summed = 0.0
                    for k in range(heads):
                        summed += np.exp(log_p[k, b] - largest)
                    mean[b] = log_p[0, b] if heads == 1 else largest + np.log(summed / heads)
                    total -= y[i, a, seen[b]] * mean[b]
            for k in range(heads):
                force_sum = 0.0
                for b in range(n):
                    if squared:
                        force[b] = p[k, b] * mean[b]
                    else:
                        force[b] = -y[i, a, seen[b]] * (1.0 if heads == 1 else np.exp(log_p[k, b] - mean[b]))
                    force_sum += force[b]
                for b in range(n):
                    gradients[k, i, a, seen[b]] = factor * (force[b] - p[k, b] * force_sum)
    return total


class TrainingLoss(Protocol):
    """Loss of samples as a function of the maps of all heads."""

    @property
    def loss(self) -> Any:
        """Loss, or its name."""

    @property
    def output(self) -> Any:
        """What it compares."""

    def visible_to(self, tokens: int) -> Matrix:
        """Matrix of the columns that each row attends to."""

    def total(self, rows: Callable[[], Iterable[Rows]], maps: Array) -> tuple[float, Array]:
        """Sum over all samples, and its gradient in the maps (heads, d, d)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class OutputLoss:
    """Loss of samples as a function of the logits of all heads.

    The heads' attention matrices P_k = softmax_rows(β h_k) are averaged, P = mean_k P_k. ``squared``: |P - y|², for
    sequence outputs |(P - y) X|² / d = sum_a r_a' (X X'/d) r_a with r = P - y (1.7). ``cross-entropy``: - sum y log P.
    A `Loss` of the user is applied row by row, for one head and label outputs only. Rows attend to the columns that are
    ``visible``, to all by default; rows of fewer than two columns do not count.
    """

    loss: str | Loss
    beta: float = 1.0
    output: Output = "label"
    visible: Matrix | None = None

    def __call__(self, logits: Array, y: Array, gram: Array | None) -> tuple[float, Array]:
        """Sum over samples, and its gradient in the logits, which have shape (heads, count, T, T)."""
        if isinstance(self.loss, Loss) and self.loss.name not in ("squared", "cross-entropy"):
            return self._sum_rows(self.loss, logits, y)
        gradients = np.empty_like(logits)
        mixed = np.empty((0, 0, 0), logits.dtype) if gram is None else gram
        squared, (order, lengths) = str(self.loss) == "squared", self._columns(logits.shape[-1])
        return float(_sum_attention_losses(logits, y, mixed, self.beta, order, lengths, squared, gradients)), gradients

    def total(self, rows: Callable[[], Iterable[Rows]], maps: Array) -> tuple[float, Array]:
        """Sum over all samples, and its gradient in the maps (heads, d, d)."""
        total, gradients = 0.0, np.zeros(maps.shape)
        for one in rows():
            logits = np.stack([one.logits(S) for S in maps])
            value, G = self(logits, one.chunk.labels, self.gram(one.chunk))
            total += value
            for k in range(len(maps)):
                gradients[k] += one.gradient(G[k])
        return total, gradients

    def visible_to(self, tokens: int) -> Matrix:
        """Matrix of the columns that each row attends to."""
        return np.ones((tokens, tokens), dtype=bool) if self.visible is None else self.visible

    def _columns(self, tokens: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Columns of every row, those that it attends to first, and how many these are."""
        visible = self.visible_to(tokens)
        return np.argsort(~visible, axis=1, kind="stable"), visible.sum(axis=1)

    def gram(self, chunk: Chunk) -> Array | None:
        """Gram matrices of the attended tokens, for sequence outputs; None for label outputs."""
        if self.output == "label":
            return None
        return gram_matrix(chunk.tokens if chunk.keys is None else chunk.keys)

    def _sum_rows(self, loss: Loss, logits: Array, y: Array) -> tuple[float, Array]:
        """Sum of a loss of the user, row by row, and its gradient in the logits."""
        order, lengths = self._columns(logits.shape[-1])
        value, gradients = 0.0, np.zeros_like(logits)
        for n in np.unique(lengths[lengths > 1]):
            which = np.flatnonzero(lengths == n)
            at = (slice(None), which[:, None], order[which, :n])
            rows = np.ascontiguousarray(self.beta * logits[0][at].reshape(-1, n), dtype=np.float64)
            label = np.ascontiguousarray(y[at].reshape(-1, n), dtype=np.float64)
            gradient = np.empty_like(rows)
            value += float(_sum_row_losses(loss.compiled, rows, label, gradient))
            gradients[0][at] = (self.beta * gradient).reshape(len(y), -1, n)
        return value, gradients


@dataclass(frozen=True, kw_only=True)
class Objective:
    """Objective [sum_samples loss + λ penalty] / d² and its gradient, as functions of the weights θ."""

    samples: Samples
    weights: Parametrisation
    loss: TrainingLoss
    decay: float

    def __post_init__(self) -> None:
        if self.loss.output == "sequence" and str(self.loss.loss) != "squared":
            raise InvalidArgument("loss", str(self.loss.loss), "squared when the output is a sequence")
        if self.weights.heads > 1 and str(self.loss.loss) not in ("squared", "cross-entropy"):
            raise InvalidArgument("loss", str(self.loss.loss), "squared or cross-entropy with several heads")

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Objective over d² and its gradient in θ, in double precision."""
        d = self.samples.dim
        W = self.weights.narrow_factor(theta)
        if W is not None:
            value, gradient = self._narrow_pass(W)
        else:
            value, gradients = self.data(self.weights.maps(theta))
            gradient = self.weights.pull_back(theta, gradients)
        penalty, penalty_gradient = self.weights.penalty(theta)
        return (value + self.decay * penalty) / d**2, (gradient + self.decay * penalty_gradient) / d**2

    @cached_property
    def floor(self) -> float:
        """Lower bound of the data term over d²: the entropy of the labels for cross-entropy, else zero."""
        if str(self.loss.loss) != "cross-entropy":
            return 0.0
        d = self.samples.dim
        return float(sum(np.sum(-y * np.log(np.maximum(y, MIN_PROBABILITY))) for _, y, *_ in self.samples)) / d**2

    def data(self, maps: Array) -> tuple[float, Array]:
        """Sum of the losses, and its gradient in the maps (heads, d, d)."""
        return self.loss.total(self.rows, maps.astype(self.samples.dtype))

    def rows(self) -> Iterable[Rows]:
        """Chunks as rows of logits; stored between passes where the differences of tokens fit into memory."""
        return self._stored_rows if self.samples.fits_twice else self._new_rows()

    @cached_property
    def _stored_rows(self) -> list[Rows]:
        """Chunks as rows of logits, in memory."""
        return list(self._new_rows())

    def _new_rows(self) -> Iterator[Rows]:
        """Chunks as rows of logits, made one by one."""
        visible = self.loss.visible_to(self.samples.task.tokens)
        return (Rows(chunk, visible) for chunk in self.samples)

    def _narrow_pass(self, W: Array) -> tuple[float, Array]:
        """Data term and its gradient in W, through w = X W': h_ab = (w_a.w_b / sqrt(m d) - δ_ab Tr S) / sqrt d."""
        width, d = W.shape
        factor = W.astype(self.samples.dtype)
        scale = factor.dtype.type(1.0 / sqrt(width * d))
        total, gradient, trace_gradient = 0.0, np.zeros(W.shape), 0.0
        for chunk in self.samples:
            X = chunk.tokens
            w = X @ factor.T
            h = np.empty((X.shape[1], len(X), len(X)), X.dtype)
            pair_products(w, w, h)
            h *= scale
            value, G = self._loss(centre_logits(h, scale * np.vdot(factor, factor), d)[None], chunk)
            total += value
            mixed = np.empty_like(w)
            mix(np.ascontiguousarray(G[0] + G[0].transpose(0, 2, 1)), w, mixed)
            for a in range(len(X)):
                gradient += mixed[a].T @ X[a]
            trace_gradient += float(np.einsum("naa->", G[0]))
        gradient -= 2.0 * trace_gradient * W
        return total, (gradient * (scale / sqrt(d))).ravel()

    def _loss(self, logits: Array, chunk: Chunk) -> tuple[float, Array]:
        """Loss of a chunk, and its gradient in the logits."""
        loss = cast(OutputLoss, self.loss)
        return loss(logits, chunk.labels, loss.gram(chunk))
