"""The training objective of a head and its analytic gradient: two matrix products per pass over the samples.

With logits h_ab(S) = (x_a' S x_b - δ_ab Tr S) / sqrt d and slopes G_ab = d loss / d h_ab,

    d loss / d S = sum_samples sum_ab G_ab (x_a x_b' - δ_ab I) / sqrt d = [X' (G X) - I sum G_aa] / sqrt d,

so a pass is X S, a T x T problem per sample, and X' (G X). A narrow tied head uses X W' and (G X W')' X instead. Cross-attention
has X' (G Y), with keys Y and nothing to centre (U1). A column that is not seen has the probability zero and no slope.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from onehead.aim.losses import Loss
from onehead.aim.training.data import UNSEEN, Chunk, Samples, rows_of, unseen
from onehead.errors import InvalidArgument
from onehead.numerics.compiled import njit

__all__ = [
    "Cut",
    "Direct",
    "Factorised",
    "Free",
    "Objective",
    "Output",
    "OutputLoss",
    "Parametrisation",
    "Untied",
    "data_slope",
    "gram_matrix",
    "map_logits",
    "mix",
    "pair_products",
    "parametrisation",
]

Array = NDArray[np.float64]
Output = Literal["label", "sequence"]

TINY = 1e-300


@njit(cache=True, nogil=True, fastmath=True)
def pair_products(left, right, out):  # type: ignore[no-untyped-def]
    """out[i, a, b] = left[a, i] . right[b, i] for arrays (T, count, k)."""
    tokens, count, size = left.shape
    for a in range(tokens):
        for b in range(tokens):
            for i in range(count):
                total = left[0, 0, 0] * 0
                for k in range(size):
                    total += left[a, i, k] * right[b, i, k]
                out[i, a, b] = total


@njit(cache=True, nogil=True, fastmath=True)
def mix(weights, right, out):  # type: ignore[no-untyped-def]
    """out[a, i] = sum_b weights[i, a, b] right[b, i] for arrays (T, count, k)."""
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


@njit(cache=True, nogil=True)
def _loss_rows(row, logits, label, slope):  # type: ignore[no-untyped-def]
    """Sum of a user's loss over rows (count, T); fills its slopes."""
    count, width = logits.shape
    gradient, hessian, total = np.empty(width), np.empty((width, width)), 0.0
    for i in range(count):
        total += row(logits[i], label[i], gradient, hessian)
        slope[i] = gradient
    return total


@dataclass(frozen=True, kw_only=True)
class OutputLoss:
    """What one sample costs, as a function of the logits of all heads.

    The heads' attention matrices P_k = softmax_rows(β h_k) are averaged, P = mean_k P_k. ``squared``:
    |P - y|², for sequence outputs |(P - y) X|² / d = sum_a r_a' (X X'/d) r_a with r = P - y (1.7).
    ``cross-entropy``: - sum y log P. A `Loss` of the user is applied row by row and knows one head and
    label outputs only. Row a sees the first ``columns[a]`` columns, all if nothing is said; rows that see fewer than two cost
    nothing.
    """

    loss: str | Loss
    beta: float = 1.0
    output: Output = "label"
    columns: tuple[int, ...] = ()

    def __call__(self, logits: Array, y: Array, gram: Array | None) -> tuple[float, Array]:
        """Sum over samples and its slope in the logits, both of shape (heads, count, T, T)."""
        heads, hidden = len(logits), unseen(self.columns)
        if isinstance(self.loss, Loss) and self.loss.name not in ("squared", "cross-entropy"):
            return self._of_rows(self.loss, logits, y)
        # log P_k first: it stays exact where a probability is too small for a number
        log_p = self.beta * logits
        if hidden is not None:
            log_p[..., hidden] = UNSEEN
        log_p -= log_p.max(axis=-1, keepdims=True)
        log_p -= np.log(np.exp(log_p).sum(axis=-1, keepdims=True))
        p = np.exp(log_p)
        if hidden is not None:
            p[..., hidden] = 0.0
        if str(self.loss) == "squared":
            r = p.mean(axis=0) - y
            pull = 2.0 * (r if gram is None else r @ gram)
            value = 0.5 * float(np.sum(pull * r, dtype=np.float64))
            force = p * pull
        else:
            log_mean = log_p[0] if heads == 1 else np.logaddexp.reduce(log_p, axis=0) - np.log(heads)
            value = -float(np.sum(y * log_mean, dtype=np.float64))
            force = -y * np.exp(log_p - log_mean)
        slope = force - p * force.sum(axis=-1, keepdims=True)
        slope *= self.beta / heads
        return value, slope

    def gram(self, chunk: Chunk) -> Array | None:
        """Of the tokens that attention mixes, where their mixture is the output."""
        if self.output == "label":
            return None
        return gram_matrix(chunk.tokens if chunk.keys is None else chunk.keys)

    def _of_rows(self, own: Loss, logits: Array, y: Array) -> tuple[float, Array]:
        seen = np.array(self.columns or (logits.shape[-1],) * logits.shape[-1])
        value, slopes = 0.0, np.zeros_like(logits)
        for n in np.unique(seen[seen > 1]):  # rows that see as many columns
            at = (slice(None), np.flatnonzero(seen == n), slice(n))
            rows = np.ascontiguousarray(self.beta * logits[0][at].reshape(-1, n), dtype=np.float64)
            label = np.ascontiguousarray(y[at].reshape(-1, n), dtype=np.float64)
            slope = np.empty_like(rows)
            value += float(_loss_rows(own.compiled, rows, label, slope))
            slopes[0][at] = (self.beta * slope).reshape(len(y), -1, n)
        return value, slopes


def gram_matrix(X: Array) -> Array:
    """X X' / d of every sample, shape (count, T, T)."""
    out = np.empty((X.shape[1], len(X), len(X)), X.dtype)
    pair_products(X, X, out)
    out /= X.shape[-1]
    return out


def map_logits(S: Array, X: Array, keys: Array | None = None) -> Array:
    """h_ab(S) = (x_a' S x_b - δ_ab Tr S) / sqrt d, shape (count, T, T), for any square S; with keys x_a' S y_b / sqrt d."""
    h = np.empty((X.shape[1], len(X), len(X)), X.dtype)
    pair_products(X @ S, X if keys is None else keys, h)
    return _centred(h, np.trace(S) if keys is None else None, X.shape[-1])


def _centred(h: Array, trace: Any, dim: int) -> Array:
    """Logits from products: own ones less the trace, where there are own ones, over sqrt d."""
    if trace is not None:
        diagonal = np.einsum("naa->na", h)
        diagonal -= trace
    h /= h.dtype.type(sqrt(dim))
    return h


def data_slope(G: Array, X: Array, keys: Array | None = None) -> Array:
    """d/dS of a sum over samples whose slopes in the logits are G: [X' (G X) - I sum G_aa] / sqrt d; with keys X' (G Y) / sqrt d."""
    T, _, d = X.shape
    mixed = np.empty_like(X)
    mix(np.ascontiguousarray(G.transpose(0, 2, 1)), X, mixed)
    slope = np.zeros((d, d), X.dtype)
    for a in range(T):
        slope += mixed[a].T @ (X if keys is None else keys)[a]
    if keys is None:
        slope[range(d), range(d)] -= np.einsum("naa->", G)
    return slope / slope.dtype.type(sqrt(d))


class Parametrisation(ABC):
    """How a vector of weights θ makes the maps S_k of the heads, and what weight decay costs.

    Eigenvalues below ``zero`` of the largest count as zero.
    """

    zero: ClassVar[float] = 1e-3  # weight decay on factors leaves them at about 1e-4
    heads: int
    dim: int
    size: int

    @abstractmethod
    def maps(self, theta: Array) -> Array:
        """The maps, shape (heads, d, d)."""

    @abstractmethod
    def pull_back(self, theta: Array, slopes: Array) -> Array:
        """Gradient in θ from slopes in the maps."""

    @abstractmethod
    def penalty(self, theta: Array) -> tuple[float, Array]:
        """Weight decay per unit of λ, and its gradient."""

    @abstractmethod
    def start(self, rng: np.random.Generator) -> Array:
        """A random start."""

    @classmethod
    @abstractmethod
    def of_map(cls, S: Array) -> tuple["Parametrisation", Array]:
        """Weights of full width that make a given map."""

    def spectrum(self, S: Array) -> Array:
        """Eigenvalues of a map."""
        return np.asarray(np.linalg.eigvalsh(S))

    def narrow(self, theta: Array) -> Array | None:
        """The factor W (m, d) when a pass over it is cheaper than one over its map."""
        return None


class Factorised(Parametrisation):
    """S_k = W_k' W_k / sqrt(m d), penalty sqrt(d/m) |W|² = d Tr S summed over heads (1.2)."""

    def __init__(self, dim: int, width: int, heads: int = 1) -> None:
        self.dim, self.width, self.heads = dim, width, heads
        self.size = heads * width * dim
        self.scale = 1.0 / sqrt(width * dim)

    def _factors(self, theta: Array) -> Array:
        return theta.reshape(self.heads, self.width, self.dim)

    def maps(self, theta: Array) -> Array:
        """W'W / sqrt(m d)."""
        W = self._factors(theta)
        return self.scale * (W.transpose(0, 2, 1) @ W)

    def pull_back(self, theta: Array, slopes: Array) -> Array:
        """W (D + D') / sqrt(m d)."""
        return (self.scale * (self._factors(theta) @ (slopes + slopes.transpose(0, 2, 1)))).ravel()

    def penalty(self, theta: Array) -> tuple[float, Array]:
        """sqrt(d/m) |W|²."""
        factor = sqrt(self.dim / self.width)
        return float(factor * (theta @ theta)), 2.0 * factor * theta

    def start(self, rng: np.random.Generator) -> Array:
        """Standard normal entries."""
        return rng.standard_normal(self.size)

    @classmethod
    def of_map(cls, S: Array) -> tuple["Parametrisation", Array]:
        """The square root of the map."""
        values, vectors = np.linalg.eigh(S)
        return cls(len(S), len(S)), (np.sqrt(np.clip(values, 0.0, None) * len(S)) * vectors).T.ravel()

    def narrow(self, theta: Array) -> Array | None:
        """The factor itself, below full width and for one head."""
        return theta.reshape(self.width, self.dim) if self.heads == 1 and self.width < self.dim else None


class Untied(Parametrisation):
    """S_k = Q_k' K_k / sqrt(m d), penalty sqrt(d/m) (|Q|² + |K|²)/2; its least value given S is d |S|_*."""

    def __init__(self, dim: int, width: int, heads: int = 1) -> None:
        self.dim, self.width, self.heads = dim, width, heads
        self.size = 2 * heads * width * dim
        self.scale = 1.0 / sqrt(width * dim)

    def _factors(self, theta: Array) -> tuple[Array, Array]:
        both = theta.reshape(2, self.heads, self.width, self.dim)
        return both[0], both[1]

    def maps(self, theta: Array) -> Array:
        """Q'K / sqrt(m d), not symmetric."""
        Q, K = self._factors(theta)
        return self.scale * (Q.transpose(0, 2, 1) @ K)

    def pull_back(self, theta: Array, slopes: Array) -> Array:
        """K D' and Q D, over sqrt(m d)."""
        Q, K = self._factors(theta)
        return self.scale * np.concatenate([(K @ slopes.transpose(0, 2, 1)).ravel(), (Q @ slopes).ravel()])

    def penalty(self, theta: Array) -> tuple[float, Array]:
        """sqrt(d/m) (|Q|² + |K|²) / 2."""
        factor = sqrt(self.dim / self.width)
        return float(0.5 * factor * (theta @ theta)), factor * theta

    def start(self, rng: np.random.Generator) -> Array:
        """Standard normal entries."""
        return rng.standard_normal(self.size)

    @classmethod
    def of_map(cls, S: Array) -> tuple["Parametrisation", Array]:
        """Factors of equal size, so that the penalty is d |S|_*."""
        left, values, right = np.linalg.svd(S)
        root = np.sqrt(values * len(S))[:, None]
        return cls(len(S), len(S)), np.concatenate([(root * left.T).ravel(), (root * right).ravel()])

    def spectrum(self, S: Array) -> Array:
        """Singular values: a map that is not symmetric has no other spectrum."""
        return np.asarray(np.linalg.svd(S, compute_uv=False))


class Cut(Untied):
    """Untied weights of a map whose singular values were cut: those that are zero are zero but for rounding."""

    zero = 1e-9


class Direct(Parametrisation):
    """S_k any symmetric matrix, penalty d |S|² (1.2), which sets no eigenvalue to zero."""

    zero = 0.0

    def __init__(self, dim: int, heads: int = 1) -> None:
        self.dim, self.heads = dim, heads
        self.size = heads * dim * dim

    def maps(self, theta: Array) -> Array:
        """The symmetric part of θ."""
        S = theta.reshape(self.heads, self.dim, self.dim)
        return 0.5 * (S + S.transpose(0, 2, 1))

    def pull_back(self, theta: Array, slopes: Array) -> Array:
        """The symmetric part of the slopes."""
        return (0.5 * (slopes + slopes.transpose(0, 2, 1))).ravel()

    def penalty(self, theta: Array) -> tuple[float, Array]:
        """d |S|²."""
        S = self.maps(theta).ravel()
        return float(self.dim * (S @ S)), 2.0 * self.dim * S

    def start(self, rng: np.random.Generator) -> Array:
        """A symmetric Gaussian matrix with Tr S²/d of order one."""
        return self.maps(rng.standard_normal(self.size) / sqrt(self.dim)).ravel()

    @classmethod
    def of_map(cls, S: Array) -> tuple["Parametrisation", Array]:
        """The map itself."""
        return cls(len(S)), S.ravel()


class Free(Direct):
    """S_k any matrix, penalty d |S|² (U1), which sets no singular value to zero."""

    def maps(self, theta: Array) -> Array:
        """θ itself."""
        return theta.reshape(self.heads, self.dim, self.dim)

    def pull_back(self, theta: Array, slopes: Array) -> Array:
        """The slopes themselves."""
        return slopes.ravel()

    def spectrum(self, S: Array) -> Array:
        """Singular values."""
        return np.asarray(np.linalg.svd(S, compute_uv=False))


def parametrisation(param: str, *, tied: bool, dim: int, width: float, heads: int) -> Parametrisation:
    """The weights that a learner trains: ``param``, tied or not, of width m = κ d rounded."""
    rows = rows_of(width, dim)
    if param == "factorised":
        return Factorised(dim, rows, heads) if tied else Untied(dim, rows, heads)
    return Direct(dim, heads) if tied else Free(dim, heads)


@dataclass(frozen=True, kw_only=True)
class Objective:
    """[sum_samples loss + λ penalty] / d² and its gradient, as functions of the weights θ."""

    samples: Samples
    weights: Parametrisation
    loss: OutputLoss
    decay: float

    def __post_init__(self) -> None:
        if self.loss.output == "sequence" and str(self.loss.loss) != "squared":
            raise InvalidArgument("loss", str(self.loss.loss), "squared when the output is a sequence")
        if self.weights.heads > 1 and str(self.loss.loss) not in ("squared", "cross-entropy"):
            raise InvalidArgument("loss", str(self.loss.loss), "squared or cross-entropy with several heads")

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Objective over d² and its gradient in θ, in double precision."""
        d = self.samples.dim
        W = self.weights.narrow(theta)
        if W is not None:
            value, gradient = self._narrow_pass(W)
        else:
            value, slopes = self.data(self.weights.maps(theta))
            gradient = self.weights.pull_back(theta, slopes)
        cost, pull = self.weights.penalty(theta)
        return (value + self.decay * cost) / d**2, (gradient + self.decay * pull) / d**2

    @cached_property
    def floor(self) -> float:
        """The least that data can cost, over d²: the entropy of the labels for cross-entropy, else zero."""
        if str(self.loss.loss) != "cross-entropy":
            return 0.0
        d = self.samples.dim
        return float(sum(np.sum(-y * np.log(np.maximum(y, TINY))) for _, y, *_ in self.samples)) / d**2

    def data(self, maps: Array) -> tuple[float, Array]:
        """Sum of the losses and its slope in the maps (heads, d, d)."""
        total, slopes = 0.0, np.zeros(maps.shape)
        typed = maps.astype(self.samples.dtype)
        for chunk in self.samples:
            logits = np.stack([map_logits(S, chunk.tokens, chunk.keys) for S in typed])
            value, G = self._loss(logits, chunk)
            total += value
            for k in range(len(maps)):
                slopes[k] += data_slope(G[k], chunk.tokens, chunk.keys)
        return total, slopes

    def _narrow_pass(self, W: Array) -> tuple[float, Array]:
        """The same through w = X W': h_ab = (w_a.w_b / sqrt(m d) - δ_ab Tr S) / sqrt d."""
        width, d = W.shape
        factor = W.astype(self.samples.dtype)
        scale = factor.dtype.type(1.0 / sqrt(width * d))
        total, gradient, trace_slope = 0.0, np.zeros(W.shape), 0.0
        for chunk in self.samples:
            X = chunk.tokens
            w = X @ factor.T
            h = np.empty((X.shape[1], len(X), len(X)), X.dtype)
            pair_products(w, w, h)
            h *= scale
            value, G = self._loss(_centred(h, scale * np.vdot(factor, factor), d)[None], chunk)
            total += value
            mixed = np.empty_like(w)
            mix(np.ascontiguousarray(G[0] + G[0].transpose(0, 2, 1)), w, mixed)
            for a in range(len(X)):
                gradient += mixed[a].T @ X[a]
            trace_slope += float(np.einsum("naa->", G[0]))
        gradient -= 2.0 * trace_slope * W
        return total, (gradient * (scale / sqrt(d))).ravel()

    def _loss(self, logits: Array, chunk: Chunk) -> tuple[float, Array]:
        gram = self.loss.gram(chunk)
        value, G = self.loss(logits, chunk.labels.astype(logits.dtype, copy=False), gram)
        return value, np.ascontiguousarray(G)
