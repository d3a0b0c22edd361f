"""Random data of a task: a target map, sequences of tokens and their noisy labels, chunk by chunk (1.1, U1)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import isclose, sqrt
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onehead.aim.task import Task
from onehead.aim.token_spectrum import eigenvalues
from onehead.errors import InvalidArgument

Array = NDArray[np.float64]
Matrix = NDArray[np.bool_]
TokenLaw = Literal["gaussian", "rademacher", "sparse", "sphere", "heavy-tailed"]

CHUNK_NUMBERS = 2**19  # numbers in the tokens of one chunk: a few megabytes, so that its products stay in the cache
SPARSITY = 0.1  # share of non-zero entries of sparse tokens
MASKED_LOGIT = -1e30  # logit of a masked column: finite, and its exponential is zero
STUDENT_DEGREES = 5.0  # degrees of freedom of heavy-tailed entries: four moments exist, the kurtosis is 9


def check_target_map(matrix: ArrayLike, dim: int, *, tied: bool = True) -> Array:
    """Return a target map given by the user if it is a finite dim x dim array, symmetric for a tied head."""
    S: Array = np.asarray(matrix, dtype=np.float64)
    if S.shape != (dim, dim):
        raise InvalidArgument("target_map", S.shape, f"an array of shape ({dim}, {dim})")
    if not np.isfinite(S).all():
        raise InvalidArgument("target_map", "an entry that is not finite", "an array of finite numbers")
    if tied and not np.allclose(S, S.T, atol=1e-10 * max(1.0, float(np.abs(S).max()))):
        raise InvalidArgument("target_map", "an array that differs from its transpose", "symmetric")
    return S


def unasked_direction(dim: int) -> Array:
    """Unit vector along the mean of the queries: the last axis, along which tokens vary least."""
    return np.asarray(np.eye(dim)[-1])


def mean_length(task: Task, target: Array) -> float:
    """Length |μ| of the mean of the queries, or its root mean square: sqrt(M d); zero without an unasked share (D1).

    The map of a tied head is symmetric, so that its row along the mean cannot be chosen: the mean is as long as the
    unasked variance G = |S* μ|²/d requires.
    """
    if not task.unasked:
        return 0.0
    dim = len(target)
    if not task.tied:
        return sqrt(task.token_mean * dim)
    return sqrt(dim * task.unasked_variance) / float(np.linalg.norm(target @ unasked_direction(dim)))


def token_scales(task: Task, dim: int) -> tuple[Array, Array]:
    """Standard deviations of the entries of queries and of keys: roots of the eigenvalues of their covariances (D7)."""
    return tuple(np.sqrt(eigenvalues(text, dim)) for text in (task.token_spectrum, task.keys_spectrum))  # type: ignore[return-value]


def whitened(task: Task, S: Array) -> Array:
    """Map C_q^1/2 S C_k^1/2 whose entries the data see; S itself for isotropic tokens (D7)."""
    if task.isotropic:
        return S
    queries, keys = token_scales(task, len(S))
    return np.asarray(queries[:, None] * S * keys)


def fitted_target(task: Task, target: Array) -> Array:
    """Target map as a task needs it: with the row of its unasked share, and of the power Q0 that the tokens see.

    The power of the whitened map varies by about sqrt 2 over the effective dimension between targets, so that it is set
    to that of the theory (D7).
    """
    if not task.isotropic:
        seen = float(np.sum(whitened(task, target) ** 2)) / len(target)
        target = target * sqrt(task.target.second_moment / seen)
    return with_unasked_row(task, target)


def with_unasked_row(task: Task, target: Array) -> Array:
    """Target map whose row along the mean of the queries has the length sqrt(G/M) of the unasked share (D1).

    The row has entries of one size and alternating signs, a direction without relation to the rest of the target. The
    map is returned unchanged for tied heads and without an unasked share.
    """
    if not task.unasked or task.tied:
        return target
    dim = len(target)
    direction, length = unasked_direction(dim), sqrt(task.unasked_variance / task.token_mean)
    row = length * np.where(np.arange(dim) % 2, -1.0, 1.0) / sqrt(dim)
    return np.asarray(target + np.outer(direction, row - target.T @ direction))


def _gaussian(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Standard normal entries."""
    return rng.standard_normal(shape)


def _rademacher(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Random signs."""
    return np.where(rng.random(shape) < 0.5, -1.0, 1.0)


def _sparse(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Gaussian entries, of which nine in ten are zero, scaled to unit variance."""
    return rng.standard_normal(shape) * (rng.random(shape) < SPARSITY) / sqrt(SPARSITY)


def _sphere(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Tokens uniform on the sphere of radius sqrt d."""
    x = rng.standard_normal(shape)
    x *= sqrt(shape[-1]) / np.linalg.norm(x, axis=-1, keepdims=True)
    return x


def _heavy_tailed(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Student t entries, scaled to unit variance."""
    return rng.standard_t(STUDENT_DEGREES, shape) * sqrt(1.0 - 2.0 / STUDENT_DEGREES)


_SAMPLERS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Array]] = {
    "gaussian": _gaussian,
    "rademacher": _rademacher,
    "sparse": _sparse,
    "sphere": _sphere,
    "heavy-tailed": _heavy_tailed,
}

# 1 + Var |x|²/d of each law: the kurtosis of the entries where these are independent; on the sphere the length is fixed
_KURTOSES = {
    "gaussian": 3.0,
    "rademacher": 1.0,
    "sparse": 3.0 / SPARSITY,
    "sphere": 1.0,
    "heavy-tailed": 3.0 + 6.0 / (STUDENT_DEGREES - 4.0),
}


def token_law_with(kurtosis: float) -> str:
    """Name of the first law of tokens with this kurtosis; refused if there is none."""
    laws = [name for name, own in _KURTOSES.items() if isclose(own, kurtosis)]
    if not laws:
        allowed = ", ".join(f"{own:g}" for own in sorted({*_KURTOSES.values()}))
        raise InvalidArgument("kurtosis", kurtosis, f"one of {allowed} to train with: no law of tokens has another")
    return laws[0]


class Tokens:
    """Law of the tokens; every entry has mean zero and variance one.

    ``law`` is "gaussian" (as in the theory), "rademacher" (signs), "sparse" (one entry in ten is not zero), "sphere"
    (uniform on the sphere of radius sqrt d), "heavy-tailed" (independent Student t, 5 degrees of freedom), or an array
    whose rows are tokens. The columns of an array are centred and all entries divided by one number, which preserves
    the shape of its covariance; its rows are sampled with replacement. ``correlation`` c mixes a common token into all
    tokens of a sequence, x_a = sqrt(c) x_0 + sqrt(1 - c) x_a'.
    """

    def __init__(self, law: TokenLaw | ArrayLike = "gaussian", correlation: float = 0.0) -> None:
        if not 0.0 <= correlation < 1.0:
            raise InvalidArgument("correlation", correlation, "a number >= 0 and < 1")
        self.correlation = float(correlation)
        self.rows: Array | None = None
        if isinstance(law, str):
            if law not in _SAMPLERS:
                raise InvalidArgument("token_law", law, f"{', '.join(get_args(TokenLaw))}, or an array of tokens")
            self.name = law
        else:
            self.name, self.rows = "rows", _standardised(law)

    @property
    def kurtosis(self) -> float | None:
        """Kurtosis κ₄ of the law, which the theory depends on (P11); None for an array of tokens."""
        if self.rows is not None:
            return None
        common = self.correlation
        return 3.0 + (_KURTOSES[self.name] - 3.0) * (common**2 + (1.0 - common) ** 2)

    def check_dim(self, dim: int) -> None:
        """Refuse a dimension other than that of the array of tokens."""
        if self.rows is not None and self.rows.shape[1] != dim:
            raise InvalidArgument("dim", dim, f"{self.rows.shape[1]}, the number of columns of the token array")

    def draw(self, rng: np.random.Generator, tokens: int, count: int, dim: int) -> Array:
        """Sample ``count`` sequences, as an array of shape (tokens, count, dim)."""
        shape = (tokens, count, dim)
        x = self._independent(rng, shape)
        if self.correlation == 0.0:
            return x
        common = self._independent(rng, (1, count, dim))
        return sqrt(self.correlation) * common + sqrt(1.0 - self.correlation) * x

    def _independent(self, rng: np.random.Generator, shape: tuple[int, int, int]) -> Array:
        """Sample independent tokens."""
        if self.rows is None:
            return _SAMPLERS[self.name](rng, shape)
        sampled: Array = self.rows[rng.integers(0, len(self.rows), shape[:2])]
        return sampled


def _standardised(array: ArrayLike) -> Array:
    """Array of tokens, centred and with unit mean square."""
    try:
        rows: Array = np.array(array, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidArgument("token_law", type(array).__name__, "an array of numbers, one token per row") from None
    if rows.ndim != 2:
        raise InvalidArgument("token_law", f"an array of shape {rows.shape}", "two-dimensional, one token per row")
    if len(rows) < 2:
        raise InvalidArgument("token_law", f"an array of {len(rows)} row(s)", "at least two tokens")
    if not np.isfinite(rows).all():
        raise InvalidArgument("token_law", "an entry that is not finite", "an array of finite numbers")
    rows -= rows.mean(axis=0)
    scale = sqrt(np.mean(rows**2))
    if scale == 0.0:
        raise InvalidArgument("token_law", "an array whose rows are all equal", "tokens that differ")
    return rows / scale


def softmax_rows(logits: Array, visible: Matrix | None = None) -> Array:
    """Softmax over the last axis, over the columns that are ``visible`` in each row (all by default); zero
    elsewhere.
    """
    if visible is not None:
        logits = np.where(visible, logits, MASKED_LOGIT)
    p: Array = np.exp(logits - logits.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    if visible is not None:  # also in rows without any column
        p[..., ~visible] = 0.0
    return p


def labels(
    S: Array,
    X: Array,
    beta0: float,
    noise: Array | None,
    *,
    keys: Array | None = None,
    visible: Matrix | None = None,
) -> Array:
    """Labels y = softmax_rows(β₀ (h(S) + N)) (1.1), shape (count, T, T), for tokens X of shape (T, count, d).

    With separate ``keys`` the logits are h_ab = x_a' S y_b / sqrt d (U1).
    """
    h: Array = np.einsum("and,bnd->nab", X @ S, X if keys is None else keys, optimize=True)
    if keys is None:
        h[:, range(len(X)), range(len(X))] -= np.trace(S)
    h /= sqrt(X.shape[-1])
    return softmax_rows(beta0 * (h if noise is None else h + noise), visible)


def _label_noise(rng: np.random.Generator, count: int, task: Task) -> Array:
    """Symmetric noise of variance Δ on the diagonal and Δ/2 off it (1.1); untied, independent of variance Δ/2 (U1)."""
    N = rng.standard_normal((count, task.tokens, task.tokens)) * sqrt(task.noise)
    return 0.5 * (N + N.transpose(0, 2, 1)) if task.tied else N / sqrt(2.0)


def _hard_labels(rng: np.random.Generator, y: Array, visible: Matrix) -> Array:
    """One-hot rows: one token per row, sampled with the probabilities y (U7)."""
    above = rng.random((*y.shape[:-1], 1)) >= np.cumsum(y, axis=-1)
    # cumulative sums may end below one by rounding; a row without columns has no label
    last = np.where(visible, np.arange(len(visible)), -1).max(axis=-1)
    token = np.minimum(above.sum(axis=-1), last)
    one_hot: Array = (token[..., None] == np.arange(y.shape[-1])).astype(np.float64)
    return one_hot


class Chunk(NamedTuple):
    """Part of the samples: tokens (T, count, d), labels (count, T, T), clean labels, and keys of cross-attention.

    Labels of several heads have shape (heads, count, T, T).
    """

    tokens: Array
    labels: Array
    clean: Array
    keys: Array | None


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Labelled sequences of a task, in chunks that each have a seed of their own.

    Tokens that would fill more than ``memory`` bytes are not stored but sampled again in every pass; labels are stored.
    Chunks and their seeds are the same either way, and so are all results, bit for bit.
    """

    task: Task
    target: Array
    count: int
    law: Tokens
    seed: np.random.SeedSequence
    dtype: type[np.floating[Any]] = np.float64
    memory: float = 4e9
    _stored: dict[int, Chunk] = field(default_factory=dict, repr=False)

    @property
    def dim(self) -> int:
        """Dimension d of a token."""
        return int(self.target.shape[-1])

    @property
    def _numbers(self) -> int:
        """Count of numbers in the tokens of one sequence, separate keys included."""
        return self.task.tokens * self.dim * (2 if self.task.attention == "cross" else 1)

    @property
    def chunk_size(self) -> int:
        """Number of sequences in a chunk."""
        return max(16, CHUNK_NUMBERS // self._numbers)

    @property
    def resampled(self) -> bool:
        """Whether tokens are sampled again in every pass."""
        return self._bytes > self.memory

    @property
    def fits_twice(self) -> bool:
        """Whether twice the tokens fit into memory."""
        return 2.0 * self._bytes <= self.memory

    @property
    def _bytes(self) -> float:
        """Memory of all tokens, in bytes."""
        return float(self.count * self._numbers * np.dtype(self.dtype).itemsize)

    def __iter__(self) -> Iterator[Chunk]:
        for i, chunk in self._chunks().items():
            if chunk.tokens.size == 0:
                X, keys = self._tokens(self._generator(i), chunk.labels.shape[-3])
                yield _with_dtype(chunk._replace(tokens=X, keys=keys), self.dtype)
            else:
                yield chunk

    def _chunks(self) -> dict[int, Chunk]:
        """All chunks, sampled on first use; chunk i has the child seed i in every thread."""
        if not self._stored:
            for i, start in enumerate(range(0, self.count, self.chunk_size)):
                self._stored[i] = self._draw(i, min(self.chunk_size, self.count - start))
        return self._stored

    def in_single_precision(self) -> "Samples":
        """Copy with tokens in single precision."""
        stored = {i: _with_dtype(chunk, np.float32) for i, chunk in self._chunks().items()}
        return replace(self, dtype=np.float32, _stored=stored)

    def _generator(self, i: int) -> np.random.Generator:
        """Random generator of chunk i."""
        seed = self.seed
        return np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, i)))

    def _tokens(self, rng: np.random.Generator, count: int) -> tuple[Array, Array | None]:
        """Sample tokens, and the keys of cross-attention."""
        X = self.law.draw(rng, self.task.tokens, count, self.dim)
        if not self.task.isotropic:
            X *= token_scales(self.task, self.dim)[0]
        if self.task.unasked:
            length: float | Array = mean_length(self.task, self.target)
            if share := self.task.fluctuation:  # a Gaussian size for each query, of second moment one (D6)
                length = length * (sqrt(1.0 - share) + sqrt(share) * rng.standard_normal((*X.shape[:2], 1)))
            X += length * unasked_direction(self.dim)
        if self.task.attention != "cross":
            return X, None
        keys = self.law.draw(rng, self.task.tokens, count, self.dim)
        if not self.task.isotropic:
            keys *= token_scales(self.task, self.dim)[1]
        return X, keys

    def _draw(self, i: int, count: int) -> Chunk:
        """Sample chunk i; tokens that are sampled again in every pass are not stored."""
        rng = self._generator(i)
        X, keys = self._tokens(rng, count)
        parts = [self._labels(rng, S, X, keys) for S in self.target.reshape(-1, self.dim, self.dim)]
        y, clean = (np.stack(part) if self.target.ndim == 3 else part[0] for part in zip(*parts, strict=True))
        if self.resampled:
            return Chunk(np.empty(0, self.dtype), y, clean, None)
        return _with_dtype(Chunk(X, y, clean, keys), self.dtype)

    def _labels(self, rng: np.random.Generator, S: Array, X: Array, keys: Array | None) -> tuple[Array, Array]:
        """Sample the labels of one head of the target, and compute those without noise."""
        task = self.task
        noise = _label_noise(rng, X.shape[1], task)
        visible = None if task.mask == "none" else task.visible
        y = clean = labels(S, X, task.beta0, None, keys=keys, visible=visible)
        if task.noise > 0.0:
            y = labels(S, X, task.beta0, noise, keys=keys, visible=visible)
        if task.labels == "hard":
            y = _hard_labels(rng, y, task.visible)
        return y, clean


def _with_dtype(chunk: Chunk, dtype: type[np.floating[Any]]) -> Chunk:
    """Copy of a chunk with tokens of this dtype."""
    keys = None if chunk.keys is None else np.ascontiguousarray(chunk.keys, dtype=dtype)
    return chunk._replace(tokens=np.ascontiguousarray(chunk.tokens, dtype=dtype), keys=keys)
