"""Samplers of finite-size data that are exact in law without storing tokens (S1.5).

The signal is the first basis vector.
"""

from typing import NamedTuple, Self

import numpy as np

from onehead.sparse.losses import Array
from onehead.sparse.task import Protocol, Sample, Task, draw, place_signal
from onehead.sparse.theory.features import softmax


class SampledQuery(NamedTuple):
    """Cosine of the query with the signal, its sharpness beta |q|, and the vector itself where it was formed."""

    cos: float
    sharpness: float
    vector: Array | None = None

    @classmethod
    def of(cls, vector: Array, signal: Array, beta: float) -> Self:
        """Return the query of a given vector."""
        norm = float(np.linalg.norm(vector))
        return cls(float(vector @ signal) / norm if norm > 0.0 else 0.0, beta * norm, vector)


class LabelledFeatures(NamedTuple):
    """Labels (n,) and features (n, p) that a linear readout is trained on."""

    label: Array
    features: Array


def streams(seed: int, trials: int) -> list[np.random.Generator]:
    """Return one independent random generator per trial."""
    return [np.random.default_rng(source) for source in np.random.SeedSequence(seed).spawn(trials)]


def _labels(task: Task, rng: np.random.Generator, samples: int) -> Array:
    """Return random labels, +1 with probability pi, else -1."""
    return np.where(rng.random(samples) < task.positive_rate, 1.0, -1.0)


def _first_readout(protocol: Protocol, label: Array, means: Array) -> tuple[Array, Array]:
    """Return w1 after the first step on the token means, and h = d loss / d logit = y l'(y u) of every sample."""
    n, c0 = len(label), protocol.loss.first_slope
    w = protocol.eta_w * c0 * (label @ means) / n
    b = protocol.eta_b * c0 * float(label.mean())
    return w, label * protocol.loss.derivative(label * (means @ w + b))


def first_steps(task: Task, protocol: Protocol, dim: int, rng: np.random.Generator) -> SampledQuery:
    """Return the query after the two gradient steps, sampled exactly in law with O(n0 (d + L)) operations.

    Token means and centred tokens are independent, so that given the means the centred tokens are fresh. Only their
    components along xi and along the part of w1 orthogonal to it are sampled; the other d - 2 coordinates of the query
    are Gaussian with variance sum_il h_i^2 C_il^2 each.
    """
    L, n = task.length, max(1, round(protocol.alpha0 * dim))
    label = _labels(task, rng, n)
    means = rng.standard_normal((n, dim)) / np.sqrt(L)
    means[label > 0.0, 0] += task.strength * task.signal_tokens / L
    w, h = _first_readout(protocol, label, means)
    along, orthogonal = w[0], float(np.linalg.norm(w[1:]))
    mask = np.zeros(L)
    mask[: task.signal_tokens] = 1.0
    A, B = (_centred(rng.standard_normal((n, L))) for _ in range(2))
    A += np.outer(label > 0.0, task.strength * (mask - mask.mean()))
    C = along * A + orthogonal * B
    on_signal = float(h @ np.einsum("nl,nl->n", C, A))
    on_orthogonal = float(h @ np.einsum("nl,nl->n", C, B))
    spread2 = float(h**2 @ np.einsum("nl,nl->n", C, C))
    norm = float(np.sqrt(on_signal**2 + on_orthogonal**2 + spread2 * rng.chisquare(dim - 2)))
    rate = -protocol.eta_q * protocol.beta / (n * L)
    cos = float(np.sign(rate if rate != 0.0 else -1.0)) * on_signal / norm if norm > 0.0 else 0.0
    return SampledQuery(cos, protocol.beta * abs(rate) * norm)


def _centred(rows: Array) -> Array:
    """Return the rows minus their means."""
    return np.asarray(rows - rows.mean(axis=1, keepdims=True))


def query_sample(task: Task, protocol: Protocol, dim: int, rng: np.random.Generator) -> Sample:
    """Draw the sequences of the two gradient steps."""
    return draw(task, rng, samples=max(1, round(protocol.alpha0 * dim)), dim=dim)


def token_first_steps(task: Task, protocol: Protocol, dim: int, rng: np.random.Generator) -> SampledQuery:
    """Return the query after the two gradient steps on stored tokens."""
    return query_from_tokens(protocol, query_sample(task, protocol, dim, rng))


def query_from_tokens(protocol: Protocol, sample: Sample) -> SampledQuery:
    """Return the query after the two gradient steps on a given sample."""
    n, L = sample.tokens.shape[:2]
    w, h = _first_readout(protocol, sample.label, sample.tokens.mean(axis=1))
    C = _centred(sample.tokens @ w)
    q = -protocol.eta_q * protocol.beta / (n * L) * np.einsum("n,nl,nld->d", h, C, sample.tokens, optimize=True)
    return SampledQuery.of(q, sample.signal, protocol.beta)


def attend(tokens: Array, query: Array, beta: float) -> Array:
    """Return f_q(X) = X' softmax(beta X q) of every sample: (n, L, d) -> (n, d)."""
    return np.asarray(np.einsum("nl,nld->nd", softmax(beta * (tokens @ query)), tokens, optimize=True))


def attention_sample(
    task: Task, query: SampledQuery, samples: int, dim: int, rng: np.random.Generator
) -> LabelledFeatures:
    """Sample features f_q(X): column 0 along the query, column 1 along the signal orthogonal to it, noise elsewhere."""
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
    return LabelledFeatures(label, features)


def pooled_sample(task: Task, samples: int, dim: int, rng: np.random.Generator) -> LabelledFeatures:
    """Sample token means: N(0, I/L), shifted by theta R / L along the signal on positives."""
    label = _labels(task, rng, samples)
    features = rng.standard_normal((samples, dim)) / np.sqrt(task.length)
    features[label > 0.0, 0] += task.strength * task.signal_tokens / task.length
    return LabelledFeatures(label, features)


def vectorised_sample(task: Task, samples: int, dim: int, rng: np.random.Generator) -> LabelledFeatures:
    """Sample L signal columns theta v_l + noise, then the noise in the other L (d - 1) dimensions.

    If these outnumber the samples, a lower triangular matrix with chi-distributed diagonal replaces them: it has the
    same law up to a rotation of the weights.
    """
    label = _labels(task, rng, samples)
    signal = rng.standard_normal((samples, task.length)) + task.strength * place_signal(task, rng, label)
    columns = task.length * (dim - 1)
    if columns < samples:
        noise = rng.standard_normal((samples, columns))
    else:
        noise = np.tril(rng.standard_normal((samples, samples)), -1)
        np.fill_diagonal(noise, np.sqrt(rng.chisquare(columns - np.arange(samples))))
    return LabelledFeatures(label, np.concatenate([signal, noise], axis=1))
