"""The training objective of a head and its analytic gradient: two matrix products per pass over the samples.

A pass is D S, with the differences D of tokens that are attended to, a T x T problem per sample, and (G X)' D (`logits.py`). A narrow
tied head uses X W' and (G X W')' X instead. A column that is not seen has the probability zero and no slope.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from onehead.aim.losses import Loss
from onehead.aim.training.data import Chunk, Samples, rows_of
from onehead.aim.training.logits import Rows, centred, gram_matrix, mix, pair_products
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
    "parametrisation",
]

Array = NDArray[np.float64]
Output = Literal["label", "sequence"]

TINY = 1e-300
ELSE = 0.3  # weight decay and residuals beside data, in units of the mean curvature of data along a factor


@njit(cache=True, nogil=True)
def _loss_rows(row, logits, label, slope):  # type: ignore[no-untyped-def]
    """Sum of a user's loss over rows (count, T); fills its slopes."""
    count, width = logits.shape
    gradient, hessian, total = np.empty(width), np.empty((width, width)), 0.0
    for i in range(count):
        total += row(logits[i], label[i], gradient, hessian)
        slope[i] = gradient
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _costs(logits, y, gram, beta, seen, squared, slopes):  # type: ignore[no-untyped-def]
    """Sum of the squared loss or of cross-entropy over samples; fills the slopes. In double precision, whatever the logits are."""
    heads, count, tokens, _ = logits.shape
    log_p, p, force = np.empty((heads, tokens)), np.empty((heads, tokens)), np.empty(tokens)
    mean, r = np.empty(tokens), np.empty(tokens)
    total, factor = 0.0, beta / heads
    for i in range(count):
        for a in range(tokens):
            n = seen[a] if seen[a] > 1 else 0  # a row without a choice costs nothing
            for k in range(heads):
                for b in range(n, tokens):
                    slopes[k, i, a, b] = 0.0
            if n == 0:
                continue
            for k in range(heads):
                row = logits[k, i, a]
                top = row[0]
                for b in range(1, n):
                    top = max(top, row[b])
                whole = 0.0
                for b in range(n):
                    log_p[k, b] = beta * (np.float64(row[b]) - top)
                    p[k, b] = 1.0 if row[b] == top else np.exp(log_p[k, b])
                    whole += p[k, b]
                log_whole = 0.0 if squared else np.log(whole)
                for b in range(n):
                    p[k, b] /= whole
                    log_p[k, b] -= log_whole
            if squared:
                for b in range(n):
                    r[b] = -y[i, a, b]
                    for k in range(heads):
                        r[b] += p[k, b] / heads
                for b in range(n):
                    pull = r[b]
                    if len(gram) > 0:
                        pull = 0.0
                        for c in range(n):
                            pull += r[c] * gram[i, c, b]
                    mean[b] = 2.0 * pull
                    total += pull * r[b]
            else:  # log P: it stays exact where a probability is too small for a number
                for b in range(n):
                    top = log_p[0, b]
                    for k in range(1, heads):
                        top = max(top, log_p[k, b])
                    whole = 0.0
                    for k in range(heads):
                        whole += np.exp(log_p[k, b] - top)
                    mean[b] = log_p[0, b] if heads == 1 else top + np.log(whole / heads)
                    total -= y[i, a, b] * mean[b]
            for k in range(heads):
                whole = 0.0
                for b in range(n):
                    if squared:
                        force[b] = p[k, b] * mean[b]
                    else:
                        force[b] = -y[i, a, b] * (1.0 if heads == 1 else np.exp(log_p[k, b] - mean[b]))
                    whole += force[b]
                for b in range(n):
                    slopes[k, i, a, b] = factor * (force[b] - p[k, b] * whole)
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
        if isinstance(self.loss, Loss) and self.loss.name not in ("squared", "cross-entropy"):
            return self._of_rows(self.loss, logits, y)
        slopes = np.empty_like(logits)
        mixed = np.empty((0, 0, 0), logits.dtype) if gram is None else gram
        squared, seen = str(self.loss) == "squared", np.array(self.seen(logits.shape[-1]))
        return float(_costs(logits, y, mixed, self.beta, seen, squared, slopes)), slopes

    def seen(self, tokens: int) -> tuple[int, ...]:
        """How many columns each row sees."""
        return self.columns or (tokens,) * tokens

    def gram(self, chunk: Chunk) -> Array | None:
        """Of the tokens that attention mixes, where their mixture is the output."""
        if self.output == "label":
            return None
        return gram_matrix(chunk.tokens if chunk.keys is None else chunk.keys)

    def _of_rows(self, own: Loss, logits: Array, y: Array) -> tuple[float, Array]:
        seen = np.array(self.seen(logits.shape[-1]))
        value, slopes = 0.0, np.zeros_like(logits)
        for n in np.unique(seen[seen > 1]):  # rows that see as many columns
            at = (slice(None), np.flatnonzero(seen == n), slice(n))
            rows = np.ascontiguousarray(self.beta * logits[0][at].reshape(-1, n), dtype=np.float64)
            label = np.ascontiguousarray(y[at].reshape(-1, n), dtype=np.float64)
            slope = np.empty_like(rows)
            value += float(_loss_rows(own.compiled, rows, label, slope))
            slopes[0][at] = (self.beta * slope).reshape(len(y), -1, n)
        return value, slopes


def _divided(factors: Array) -> Callable[[Array], Array]:
    """Division of a stack of (m, d) by F F' of each factor F in units of its mean eigenvalue, plus what else bends, `ELSE`."""
    m = factors.shape[1]
    gram = factors @ factors.transpose(0, 2, 1)
    gram *= m / np.trace(gram, axis1=1, axis2=2)[:, None, None]
    inverse = np.linalg.inv(gram + ELSE * np.eye(m))
    return lambda gradient: np.asarray(inverse @ gradient.reshape(factors.shape)).ravel()


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

    def curvature(self, theta: Array) -> Callable[[Array], Array]:
        """The inverse Hessian up to a scale, as far as the weights alone tell: nothing where the map is linear in them."""
        return lambda gradient: gradient


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

    def curvature(self, theta: Array) -> Callable[[Array], Array]:
        """A move V of W moves S by W'V + V'W, so that data which bend equally along all S bend as W W' along V."""
        return _divided(self._factors(theta))

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

    def curvature(self, theta: Array) -> Callable[[Array], Array]:
        """Data that bend equally along all S bend as K K' along Q, and as Q Q' along K."""
        return _divided(np.concatenate(self._factors(theta)[::-1]))

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
        for rows in self._rows():
            value, G = self._loss(np.stack([rows.logits(S) for S in typed]), rows.chunk)
            total += value
            for k in range(len(maps)):
                slopes[k] += rows.slope(G[k])
        return total, slopes

    def _rows(self) -> Iterable[Rows]:
        """The samples as rows, kept from pass to pass where there is room for their differences."""
        return self._kept if self.samples.roomy else self._made()

    @cached_property
    def _kept(self) -> list[Rows]:
        return list(self._made())

    def _made(self) -> Iterator[Rows]:
        seen = self.loss.seen(self.samples.task.tokens)
        return (Rows(chunk, seen) for chunk in self.samples)

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
            value, G = self._loss(centred(h, scale * np.vdot(factor, factor), d)[None], chunk)
            total += value
            mixed = np.empty_like(w)
            mix(np.ascontiguousarray(G[0] + G[0].transpose(0, 2, 1)), w, mixed)
            for a in range(len(X)):
                gradient += mixed[a].T @ X[a]
            trace_slope += float(np.einsum("naa->", G[0]))
        gradient -= 2.0 * trace_slope * W
        return total, (gradient * (scale / sqrt(d))).ravel()

    def _loss(self, logits: Array, chunk: Chunk) -> tuple[float, Array]:
        return self.loss(logits, chunk.labels, self.loss.gram(chunk))
