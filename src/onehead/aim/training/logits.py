"""Logits of a map on tokens, and the gradient of a sum over samples with respect to the map.

With logits h_ab(S) = (x_a' S x_b - δ_ab Tr S) / sqrt d and gradients G_ab = d loss / d h_ab,

    d loss / d S = sum_samples sum_ab G_ab (x_a x_b' - δ_ab I) / sqrt d = [X' (G X) - I sum G_aa] / sqrt d.

Cross-attention has X' (G Y), with keys Y and no trace term (U1). A loss of the softmax does not change when a constant
is added to a row, so its rows may be given by h_ab - h_a0, their gradients sum to zero, and with differences D_b = x_b
- x_0

    h_ab - h_a0 = (x_a' S D_b - (δ_ab - δ_a0) Tr S) / sqrt d,     sum_b G_ab x_b = sum_{b > 0} G_ab D_b:

one product per sample fewer in either direction, which is half of them for two tokens.
"""

from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onehead.aim.training.data import Chunk
from onehead.numerics.jit import njit

Array = NDArray[np.float64]


@njit(fastmath=True, error_model="python")
def pair_products(left, right, out):  # type: ignore[no-untyped-def]
    """Fill out[i, a, b] = left[a, i] . right[b, i] for arrays (T, count, k)."""
    tokens, count, size = left.shape
    for a in range(tokens):
        for b in range(tokens):
            for i in range(count):
                total = left[0, 0, 0] * 0
                for k in range(size):
                    total += left[a, i, k] * right[b, i, k]
                out[i, a, b] = total


@njit(fastmath=True, error_model="python")
def mix(weights, right, out):  # type: ignore[no-untyped-def]
    """Fill out[a, i] = sum_b weights[i, a, b] right[b, i] for arrays (T, count, k)."""
    tokens, count, size = right.shape
    for a in range(tokens):
        for i in range(count):
            w = weights[i, a, 0]
            for k in range(size):
                out[a, i, k] = w * right[0, i, k]
            for b in range(1, tokens):
                w = weights[i, a, b]
                for k in range(size):
                    out[a, i, k] += w * right[b, i, k]


@njit(fastmath=True, error_model="python")
def _row_products(left, right, visible, trace, scale, out):  # type: ignore[no-untyped-def]
    """Fill out[i, a, b] = (left[a, i] . right[b - 1, i] - (δ_ab - δ_a0) trace) scale for visible b > 0."""
    tokens, count, size = left.shape
    for i in range(count):
        for a in range(tokens):
            for b in range(1, len(right) + 1):
                if not visible[a, b]:
                    continue
                total = trace * (a == 0) - trace * (a == b)
                for k in range(size):
                    total += left[a, i, k] * right[b - 1, i, k]
                out[i, a, b] = total * scale


@njit(fastmath=True, error_model="python")
def _row_mix(gradients, left, visible, out):  # type: ignore[no-untyped-def]
    """Fill out[b - 1, i] = sum_a gradients[i, a, b] left[a, i] over the rows in which b is visible."""
    columns, count, size = out.shape
    for i in range(count):
        for b in range(1, columns + 1):
            for k in range(size):
                out[b - 1, i, k] = 0
            for a in range(len(visible)):
                if visible[a, b]:
                    w = gradients[i, a, b]
                    for k in range(size):
                        out[b - 1, i, k] += w * left[a, i, k]


@dataclass(frozen=True)
class Rows:
    """Rows of logits of a chunk, relative to the logit of the first token of each row, whether the row attends to it or
    not; entry (a, b) of ``visible`` says whether row a attends to token b.
    """

    chunk: Chunk
    visible: NDArray[np.bool_]

    @cached_property
    def differences(self) -> Array:
        """Differences x_b - x_0 of the attended tokens, shape (columns - 1, count, d)."""
        attended = self.chunk.tokens if self.chunk.keys is None else self.chunk.keys
        return attended[1 : np.flatnonzero(self.visible.any(axis=0))[-1] + 1] - attended[:1]

    def logits(self, S: Array) -> Array:
        """Logits h_ab - h_a0, shape (count, T, T), zero for masked columns."""
        X, differences = self.chunk.tokens, self.differences
        kind, (T, count, d) = X.dtype.type, X.shape
        trace = kind(np.trace(S)) if self.chunk.keys is None else kind(0.0)
        h = np.zeros((count, T, T), X.dtype)
        _row_products(X, differences @ S.T, self.visible, trace, kind(1.0 / sqrt(d)), h)
        return h

    def gradient(self, G: Array) -> Array:
        """Gradient in S of a sum over samples, from its gradient G in the logits, whose rows sum to zero."""
        X, differences = self.chunk.tokens, self.differences
        d = X.shape[-1]
        mixed = np.empty_like(differences)
        _row_mix(G, X, self.visible, mixed)
        gradient = np.asarray(mixed.reshape(-1, d).T @ differences.reshape(-1, d))
        if self.chunk.keys is None:
            gradient[range(d), range(d)] -= np.einsum("naa->", G)
        return gradient / gradient.dtype.type(sqrt(d))


def gram_matrix(X: Array) -> Array:
    """Gram matrices X X' / d of the samples, shape (count, T, T)."""
    out = np.empty((X.shape[1], len(X), len(X)), X.dtype)
    pair_products(X, X, out)
    out /= X.shape[-1]
    return out


def map_logits(S: Array, X: Array, keys: Array | None = None) -> Array:
    """Logits (x_a' S x_b - δ_ab Tr S) / sqrt d, shape (count, T, T), for any square S; with keys, x_a' S y_b / sqrt
    d.
    """
    h = np.empty((X.shape[1], len(X), len(X)), X.dtype)
    pair_products(X @ S, X if keys is None else keys, h)
    return centre_logits(h, np.trace(S) if keys is None else None, X.shape[-1])


def centre_logits(h: Array, trace: Any, dim: int) -> Array:
    """Logits from products in place: subtract the trace from the diagonal, unless it is None, and divide by sqrt d."""
    if trace is not None:
        diagonal = np.einsum("naa->na", h)
        diagonal -= trace
    h /= h.dtype.type(sqrt(dim))
    return h


def map_gradient(G: Array, X: Array, keys: Array | None = None) -> Array:
    """Gradient [X' (G X) - I sum G_aa] / sqrt d in S, from the gradient G in the logits; with keys, X' (G Y) / sqrt
    d.
    """
    T, _, d = X.shape
    mixed = np.empty_like(X)
    mix(np.ascontiguousarray(G.transpose(0, 2, 1)), X, mixed)
    gradient = np.zeros((d, d), X.dtype)
    for a in range(T):
        gradient += mixed[a].T @ (X if keys is None else keys)[a]
    if keys is None:
        gradient[range(d), range(d)] -= np.einsum("naa->", G)
    return gradient / gradient.dtype.type(sqrt(d))
