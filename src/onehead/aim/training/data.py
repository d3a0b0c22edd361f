"""Draws what a task describes: a target map, sequences of tokens and their noisy labels, chunk by chunk (1.1, U1)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import isclose, sqrt
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onehead.aim.targets import Discrete, MarchenkoPastur, Product, Target
from onehead.aim.task import Task
from onehead.errors import InvalidArgument

__all__ = [
    "UNSEEN",
    "Chunk",
    "Samples",
    "TokenLaw",
    "Tokens",
    "check_target",
    "draw_target",
    "labels",
    "law_of",
    "rows_of",
    "softmax_rows",
    "unseen",
]

Array = NDArray[np.float64]
TokenLaw = Literal["gaussian", "rademacher", "sparse", "sphere", "heavy-tailed"]

CHUNK = 2**19  # numbers in the tokens of one chunk: a few megabytes, so that its products stay in the cache
SPARSITY = 0.1  # share of non-zero entries of sparse tokens
UNSEEN = -1e30  # logit of a column that is not seen: its exponential is zero, and no difference of two is not a number
DEGREES = 5.0  # of freedom of the heavy-tailed tokens: four moments exist, the kurtosis is 9


def rows_of(width: float, dim: int) -> int:
    """m = κ d rounded, at least one: rows of a factor."""
    return max(1, round(width * dim))


def draw_target(target: Target, dim: int, rng: np.random.Generator, *, tied: bool = True) -> Array:
    """Draw the target map S* (1.1), a symmetric dim x dim matrix; untied, one without symmetry (U1).

    Marchenko-Pastur: W'W / sqrt(m0 d) with W an m0 x d standard normal matrix, m0 = κ₀ d rounded; a product: W_Q' W_K / sqrt(m0 d)
    with two of them. A target given by its ``eigenvalues`` gets a uniformly random eigenbasis. The eigenvalues of a symmetric target
    are the singular values of an untied head, between two independent bases.

    Examples
    --------
    >>> S = draw_target(MarchenkoPastur(kappa0=0.5), 40, np.random.default_rng(0))
    >>> S.shape, int(np.linalg.matrix_rank(S))
    ((40, 40), 20)
    """
    if isinstance(target, Product):
        width = rows_of(target.kappa0, dim)
        Q, K = rng.standard_normal((2, width, dim))
        return np.asarray(Q.T @ K / sqrt(width * dim))
    if isinstance(target, MarchenkoPastur):
        width = rows_of(target.kappa0, dim)
        W = rng.standard_normal((width, dim))
        S: Array = W.T @ W / sqrt(width * dim)
        return S if tied else _between_bases(np.asarray(np.linalg.eigvalsh(S)), rng)
    assert isinstance(target, Discrete)
    if len(target.values) != dim:
        raise InvalidArgument("dim", dim, f"{len(target.values)}, the number of eigenvalues of the target")
    if not tied:
        return _between_bases(target.values, rng)
    basis = _random_basis(dim, rng)
    return np.asarray((basis * target.values) @ basis.T)


def _random_basis(dim: int, rng: np.random.Generator) -> Array:
    """Uniform on the orthogonal group."""
    basis, upper = np.linalg.qr(rng.standard_normal((dim, dim)))
    basis *= np.sign(np.diag(upper))  # with positive diagonal the factor is uniform
    return basis


def _between_bases(values: Array, rng: np.random.Generator) -> Array:
    """A map with these singular values, its left and right vectors independent and uniformly random."""
    left, right = _random_basis(len(values), rng), _random_basis(len(values), rng)
    S: Array = (left * values) @ right.T
    return S


def check_target(matrix: ArrayLike, dim: int, *, tied: bool = True) -> Array:
    """Return a user's target map if it is a finite dim x dim array, symmetric for a tied head."""
    S: Array = np.asarray(matrix, dtype=np.float64)
    if S.shape != (dim, dim):
        raise InvalidArgument("target_map", S.shape, f"an array of shape ({dim}, {dim})")
    if not np.isfinite(S).all():
        raise InvalidArgument("target_map", "an entry that is not finite", "an array of finite numbers")
    if tied and not np.allclose(S, S.T, atol=1e-10 * max(1.0, float(np.abs(S).max()))):
        raise InvalidArgument("target_map", "an array that differs from its transpose", "symmetric")
    return S


def _gaussian(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.standard_normal(shape)


def _rademacher(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.where(rng.random(shape) < 0.5, -1.0, 1.0)


def _sparse(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.standard_normal(shape) * (rng.random(shape) < SPARSITY) / sqrt(SPARSITY)


def _sphere(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    x = rng.standard_normal(shape)
    x *= sqrt(shape[-1]) / np.linalg.norm(x, axis=-1, keepdims=True)
    return x


def _heavy_tailed(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.standard_t(DEGREES, shape) * sqrt(1.0 - 2.0 / DEGREES)


_LAWS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Array]] = {
    "gaussian": _gaussian,
    "rademacher": _rademacher,
    "sparse": _sparse,
    "sphere": _sphere,
    "heavy-tailed": _heavy_tailed,
}


# 1 + Var |x|²/d, which is the kurtosis of independent entries; on the sphere the length is fixed
_KURTOSIS = {
    "gaussian": 3.0,
    "rademacher": 1.0,
    "sparse": 3.0 / SPARSITY,
    "sphere": 1.0,
    "heavy-tailed": 3.0 + 6.0 / (DEGREES - 4.0),
}


def law_of(kurtosis: float) -> str:
    """The first law of tokens that has a kurtosis."""
    known = [name for name, own in _KURTOSIS.items() if isclose(own, kurtosis)]
    if not known:
        allowed = ", ".join(f"{own:g}" for own in sorted({*_KURTOSIS.values()}))
        raise InvalidArgument("kurtosis", kurtosis, f"one of {allowed} to train with: no law of tokens has another")
    return known[0]


class Tokens:
    """A law of tokens, every entry of mean zero and variance one.

    ``law`` is "gaussian" (as in the theory), "rademacher" (signs), "sparse" (one entry in ten), "sphere"
    (uniform on the sphere of radius sqrt d), "heavy-tailed" (independent Student t, 5 degrees of freedom), or
    an array whose rows are tokens: its columns are centred and all entries divided by one number, so that the
    shape of its covariance is kept; rows are drawn with replacement. ``correlation`` c mixes a common token
    into all of a sequence, x_a = sqrt(c) x_0 + sqrt(1 - c) x_a'.
    """

    def __init__(self, law: TokenLaw | ArrayLike = "gaussian", correlation: float = 0.0) -> None:
        if not 0.0 <= correlation < 1.0:
            raise InvalidArgument("correlation", correlation, "a number >= 0 and < 1")
        self.correlation = float(correlation)
        self.rows: Array | None = None
        if isinstance(law, str):
            if law not in _LAWS:
                raise InvalidArgument("token_law", law, f"{', '.join(get_args(TokenLaw))}, or an array of tokens")
            self.name = law
        else:
            self.name, self.rows = "rows", _standardised(law)

    @property
    def kurtosis(self) -> float | None:
        """What the theory must know of the law (P11); of a user's own tokens it is not known."""
        if self.rows is not None:
            return None
        common = self.correlation
        return 3.0 + (_KURTOSIS[self.name] - 3.0) * (common**2 + (1.0 - common) ** 2)

    def check_dim(self, dim: int) -> None:
        """Refuse a dimension that is not the user's own."""
        if self.rows is not None and self.rows.shape[1] != dim:
            raise InvalidArgument("dim", dim, f"{self.rows.shape[1]}, the number of columns of the token array")

    def draw(self, rng: np.random.Generator, tokens: int, count: int, dim: int) -> Array:
        """Sequences as an array (tokens, count, dim)."""
        shape = (tokens, count, dim)
        x = self._independent(rng, shape)
        if self.correlation == 0.0:
            return x
        common = self._independent(rng, (1, count, dim))
        return sqrt(self.correlation) * common + sqrt(1.0 - self.correlation) * x

    def _independent(self, rng: np.random.Generator, shape: tuple[int, int, int]) -> Array:
        if self.rows is None:
            return _LAWS[self.name](rng, shape)
        picked: Array = self.rows[rng.integers(0, len(self.rows), shape[:2])]
        return picked


def _standardised(array: ArrayLike) -> Array:
    """A user's tokens, centred and with unit mean square."""
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


@lru_cache(maxsize=64)
def unseen(columns: tuple[int, ...]) -> NDArray[np.bool_] | None:
    """Where a row a does not see column b, if it sees the first ``columns[a]``; nothing where all see all."""
    hidden = np.arange(len(columns)) >= np.array(columns)[:, None]
    hidden.setflags(write=False)
    return hidden if hidden.any() else None


def softmax_rows(logits: Array, columns: tuple[int, ...] = ()) -> Array:
    """Softmax over the last axis, of the columns that a row sees (all if nothing is said); zero where it does not."""
    hidden = unseen(columns)
    if hidden is not None:
        logits = np.where(hidden, UNSEEN, logits)
    p: Array = np.exp(logits - logits.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    if hidden is not None:  # a row that sees nothing attends to nothing
        p[..., hidden] = 0.0
    return p


def labels(
    S: Array,
    X: Array,
    beta0: float,
    noise: Array | None,
    *,
    keys: Array | None = None,
    columns: tuple[int, ...] = (),
) -> Array:
    """y = softmax_rows(β₀ (h(S) + N)) (1.1), shape (count, T, T), for tokens X of shape (T, count, d).

    With ``keys`` of their own h_ab = x_a' S y_b / sqrt d (U1).
    """
    h: Array = np.einsum("and,bnd->nab", X @ S, X if keys is None else keys, optimize=True)
    if keys is None:
        h[:, range(len(X)), range(len(X))] -= np.trace(S)
    h /= sqrt(X.shape[-1])
    return softmax_rows(beta0 * (h if noise is None else h + noise), columns)


def _noise(rng: np.random.Generator, count: int, task: Task) -> Array:
    """Symmetric noise of variance Δ on the diagonal and Δ/2 off it (1.1); untied, Δ/2 on every logit by itself (U1)."""
    N = rng.standard_normal((count, task.tokens, task.tokens)) * sqrt(task.noise)
    return 0.5 * (N + N.transpose(0, 2, 1)) if task.tied else N / sqrt(2.0)


def _chosen(rng: np.random.Generator, y: Array, columns: tuple[int, ...]) -> Array:
    """One token per row, drawn with the probabilities y, as a row that is one there and zero elsewhere (U7)."""
    above = rng.random((*y.shape[:-1], 1)) >= np.cumsum(y, axis=-1)
    last = np.array(columns) - 1  # sums may end a rounding below one; a row without columns chooses none
    token = np.minimum(above.sum(axis=-1), last)
    chosen: Array = (token[..., None] == np.arange(y.shape[-1])).astype(np.float64)
    return chosen


class Chunk(NamedTuple):
    """A few sequences: tokens (T, count, d), labels (count, T, T), labels without noise, and keys if they are other tokens."""

    tokens: Array
    labels: Array
    clean: Array
    keys: Array | None


@dataclass(frozen=True, kw_only=True)
class Samples:
    """``count`` labelled sequences of a task, in chunks that each have their own seed.

    Tokens that would fill more than ``memory`` bytes are drawn again, chunk by chunk, whenever they are asked
    for: chunks and their seeds are the same either way, so every result is too, bit for bit. Labels are kept.
    """

    task: Task
    target: Array
    count: int
    law: Tokens
    seed: np.random.SeedSequence
    dtype: type[np.floating[Any]] = np.float64
    memory: float = 4e9
    _kept: dict[int, Chunk] = field(default_factory=dict, repr=False)

    @property
    def dim(self) -> int:
        """d."""
        return len(self.target)

    @property
    def _numbers(self) -> int:
        """Numbers in the tokens of one sequence, keys of their own among them."""
        return self.task.tokens * self.dim * (2 if self.task.attention == "cross" else 1)

    @property
    def rows(self) -> int:
        """Sequences in a chunk."""
        return max(16, CHUNK // self._numbers)

    @property
    def streamed(self) -> bool:
        """Whether tokens are drawn again at every pass."""
        return self._bytes > self.memory

    @property
    def roomy(self) -> bool:
        """Whether there is room for as much again."""
        return 2.0 * self._bytes <= self.memory

    @property
    def _bytes(self) -> float:
        """Memory of all tokens."""
        return float(self.count * self._numbers * np.dtype(self.dtype).itemsize)

    def __iter__(self) -> Iterator[Chunk]:
        for i, chunk in self._chunks().items():
            if chunk.tokens.size == 0:
                X, keys = self._tokens(self._generator(i), len(chunk.labels))
                yield _typed(chunk._replace(tokens=X, keys=keys), self.dtype)
            else:
                yield chunk

    def _chunks(self) -> dict[int, Chunk]:
        """The chunks, drawn when first asked for; chunk i always has the child seed i, whichever thread asks."""
        if not self._kept:
            for i, start in enumerate(range(0, self.count, self.rows)):
                self._kept[i] = self._draw(i, min(self.rows, self.count - start))
        return self._kept

    def rounded(self) -> "Samples":
        """The same samples in single precision."""
        kept = {i: _typed(chunk, np.float32) for i, chunk in self._chunks().items()}
        return replace(self, dtype=np.float32, _kept=kept)

    def _generator(self, i: int) -> np.random.Generator:
        entropy = self.seed
        return np.random.default_rng(np.random.SeedSequence(entropy.entropy, spawn_key=(*entropy.spawn_key, i)))

    def _tokens(self, rng: np.random.Generator, count: int) -> tuple[Array, Array | None]:
        """Tokens, and the keys of cross-attention."""
        X = self.law.draw(rng, self.task.tokens, count, self.dim)
        return X, self.law.draw(rng, self.task.tokens, count, self.dim) if self.task.attention == "cross" else None

    def _draw(self, i: int, count: int) -> Chunk:
        """Chunk i; when streaming, its tokens are dropped as soon as the labels are known."""
        rng, task = self._generator(i), self.task
        X, keys = self._tokens(rng, count)
        noise = _noise(rng, count, task)
        clean = labels(self.target, X, task.beta0, None, keys=keys, columns=task.columns)
        y = clean
        if task.noise > 0.0:
            y = labels(self.target, X, task.beta0, noise, keys=keys, columns=task.columns)
        if task.labels == "hard":
            y = _chosen(rng, y, task.columns)
        if self.streamed:
            return Chunk(np.empty(0, self.dtype), y, clean, None)
        return _typed(Chunk(X, y, clean, keys), self.dtype)


def _typed(chunk: Chunk, dtype: type[np.floating[Any]]) -> Chunk:
    """The chunk with tokens of this type."""
    keys = None if chunk.keys is None else np.ascontiguousarray(chunk.keys, dtype=dtype)
    return chunk._replace(tokens=np.ascontiguousarray(chunk.tokens, dtype=dtype), keys=keys)
