"""Finite-size data, exact in law without storing tokens (S1.5).

The signal is the first basis vector.
"""

from typing import NamedTuple, Self

import numpy as np

from onehead.sparse.equations.features import softmax
from onehead.sparse.losses import Array
from onehead.sparse.task import Protocol, Task, draw, place_signal

__all__ = [
    "Query",
    "Readable",
    "attend",
    "attention_sample",
    "first_steps",
    "pooled_sample",
    "streams",
    "token_first_steps",
    "vectorised_sample",
]


class Query(NamedTuple):
    """Cosine of the query with the signal, its sharpness beta |q|, and the vector itself where it was formed."""

    cos: float
    sharpness: float
    vector: Array | None = None

    @classmethod
    def of(cls, vector: Array, signal: Array, beta: float) -> Self:
        """The query that is this vector."""
        norm = float(np.linalg.norm(vector))
        return cls(float(vector @ signal) / norm if norm > 0.0 else 0.0, beta * norm, vector)


class Readable(NamedTuple):
    """Labels (n,) and features (n, p) of a linear readout."""

    label: Array
    features: Array


def streams(seed: int, trials: int) -> list[np.random.Generator]:
    """A random stream of its own for every trial."""
    return [np.random.default_rng(source) for source in np.random.SeedSequence(seed).spawn(trials)]


def _labels(task: Task, rng: np.random.Generator, samples: int) -> Array:
    return np.where(rng.random(samples) < task.positive_rate, 1.0, -1.0)


def _first_readout(protocol: Protocol, label: Array, means: Array) -> tuple[Array, Array]:
    """w1 after the first step on the means of the tokens, and h = d loss / d logit = y l'(y u) of every sample there."""
    n, c0 = len(label), protocol.loss.first_slope
    w = protocol.eta_w * c0 * (label @ means) / n
    b = protocol.eta_b * c0 * float(label.mean())
    return w, label * protocol.loss.derivative(label * (means @ w + b))


def first_steps(task: Task, protocol: Protocol, dim: int, rng: np.random.Generator) -> Query:
    """The two gradient steps in O(n0 (d + L)).

    Token means and centred tokens are independent, so given the means the centred tokens are fresh: only
    their components along xi and along the rest of w1 are drawn, and the other d - 2 coordinates of the query
    are Gaussian with variance sum_il h_i^2 C_il^2 each.
    """
    L, n = task.length, max(1, round(protocol.alpha0 * dim))
    label = _labels(task, rng, n)
    means = rng.standard_normal((n, dim)) / np.sqrt(L)
    means[label > 0.0, 0] += task.strength * task.signal_tokens / L
    w, h = _first_readout(protocol, label, means)
    along, across = w[0], float(np.linalg.norm(w[1:]))
    mask = np.zeros(L)
    mask[: task.signal_tokens] = 1.0
    A, B = (_centred(rng.standard_normal((n, L))) for _ in range(2))
    A += np.outer(label > 0.0, task.strength * (mask - mask.mean()))
    C = along * A + across * B
    on_signal = float(h @ np.einsum("nl,nl->n", C, A))
    on_rest = float(h @ np.einsum("nl,nl->n", C, B))
    spread2 = float(h**2 @ np.einsum("nl,nl->n", C, C))
    norm = float(np.sqrt(on_signal**2 + on_rest**2 + spread2 * rng.chisquare(dim - 2)))
    rate = -protocol.eta_q * protocol.beta / (n * L)
    cos = float(np.sign(rate if rate != 0.0 else -1.0)) * on_signal / norm if norm > 0.0 else 0.0
    return Query(cos, protocol.beta * abs(rate) * norm)


def _centred(rows: Array) -> Array:
    return np.asarray(rows - rows.mean(axis=1, keepdims=True))


def token_first_steps(task: Task, protocol: Protocol, dim: int, rng: np.random.Generator) -> Query:
    """The two gradient steps on stored tokens."""
    sample = draw(task, rng, samples=max(1, round(protocol.alpha0 * dim)), dim=dim)
    n, L = len(sample.label), task.length
    w, h = _first_readout(protocol, sample.label, sample.tokens.mean(axis=1))
    C = _centred(sample.tokens @ w)
    q = -protocol.eta_q * protocol.beta / (n * L) * np.einsum("n,nl,nld->d", h, C, sample.tokens, optimize=True)
    return Query.of(q, sample.signal, protocol.beta)


def attend(tokens: Array, query: Array, beta: float) -> Array:
    """f_q(X) = X' softmax(beta X q) for every sample: (n, L, d) -> (n, d)."""
    return np.asarray(np.einsum("nl,nld->nd", softmax(beta * (tokens @ query)), tokens, optimize=True))


def attention_sample(task: Task, query: Query, samples: int, dim: int, rng: np.random.Generator) -> Readable:
    """Features f_q(X): column 0 along the query, column 1 along the rest of the signal, noise tau elsewhere."""
    label = _labels(task, rng, samples)
    x = rng.standard_normal((samples, task.length))
    x[label > 0.0, : task.signal_tokens] += task.strength * query.cos
    att = np.exp(query.sharpness * (x - x.max(axis=1, keepdims=True)))
    att /= att.sum(axis=1, keepdims=True)
    features = rng.standard_normal((samples, dim))
    features *= np.sqrt(np.einsum("nl,nl->n", att, att))[:, None]
    features[:, 0] = np.einsum("nl,nl->n", att, x)
    share = att[:, : task.signal_tokens].sum(axis=1)
    features[:, 1] += np.where(label > 0.0, task.strength * np.sqrt(max(1.0 - query.cos**2, 0.0)) * share, 0.0)
    return Readable(label, features)


def pooled_sample(task: Task, samples: int, dim: int, rng: np.random.Generator) -> Readable:
    """Token means: N(0, I/L), shifted by theta R / L along the signal on positives."""
    label = _labels(task, rng, samples)
    features = rng.standard_normal((samples, dim)) / np.sqrt(task.length)
    features[label > 0.0, 0] += task.strength * task.signal_tokens / task.length
    return Readable(label, features)


def vectorised_sample(task: Task, samples: int, dim: int, rng: np.random.Generator) -> Readable:
    """L signal columns theta v_l + noise, then the noise in the other L (d - 1) dimensions.

    When there are more of these than samples, a lower triangular matrix with chi-distributed diagonal has the
    same law up to a rotation of the weights.
    """
    label = _labels(task, rng, samples)
    signal = rng.standard_normal((samples, task.length)) + task.strength * place_signal(task, rng, label)
    rest = task.length * (dim - 1)
    if rest < samples:
        noise = rng.standard_normal((samples, rest))
    else:
        noise = np.tril(rng.standard_normal((samples, samples)), -1)
        np.fill_diagonal(noise, np.sqrt(rng.chisquare(rest - np.arange(samples))))
    return Readable(label, np.concatenate([signal, noise], axis=1))
