"""Parametrisations of the maps of a head by a vector of weights: factors, or the map itself, tied or untied."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from math import sqrt
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from onehead.aim.targets.sampling import factor_rows

Array = NDArray[np.float64]

# shift of the preconditioner for weight decay and residuals, in units of the mean curvature of the data along a factor
PRECONDITIONER_SHIFT = 0.3
# random weights added to those of a map, relative to a random start: a row of a factor that is zero has no gradient
INFORMED_NOISE = 1e-2


def _factor_preconditioner(factors: Array) -> Callable[[Array], Array]:
    """Preconditioner (F F' + shift)^-1 for each factor F of a stack, F F' in units of its mean eigenvalue."""
    m = factors.shape[1]
    gram = factors @ factors.transpose(0, 2, 1)
    gram *= m / np.trace(gram, axis1=1, axis2=2)[:, None, None]
    inverse = np.linalg.inv(gram + PRECONDITIONER_SHIFT * np.eye(m))
    return lambda gradient: np.asarray(inverse @ gradient.reshape(factors.shape)).ravel()


class Parametrisation(ABC):
    """How a vector of weights θ gives the maps S_k of the heads, and the penalty of weight decay."""

    # eigenvalues below this share of the largest count as zero; minimisation over factors leaves them at about 1e-4
    zero_tolerance: ClassVar[float] = 1e-3
    symmetric: ClassVar[bool]  # whether the maps are
    heads: int
    dim: int
    size: int

    @abstractmethod
    def maps(self, theta: Array) -> Array:
        """Maps of the heads, shape (heads, d, d)."""

    @abstractmethod
    def pull_back(self, theta: Array, gradients: Array) -> Array:
        """Gradient in θ from the gradients in the maps."""

    @abstractmethod
    def penalty(self, theta: Array) -> tuple[float, Array]:
        """Penalty per unit of λ, and its gradient."""

    @abstractmethod
    def start(self, rng: np.random.Generator) -> Array:
        """Random initial weights."""

    @classmethod
    @abstractmethod
    def of_map(cls, S: Array) -> tuple["Parametrisation", Array]:
        """Parametrisation of full width, and weights that give the map S."""

    @abstractmethod
    def closest(self, S: Array) -> Array:
        """Weights with which every head has the map closest to S that this parametrisation can represent.

        Untied heads may each have a map of their own, S of shape (heads, d, d).
        """

    def informed_start(self, S: Array, rng: np.random.Generator) -> Array:
        """Weights close to a map; directions in which it is zero are free to grow."""
        return self.closest(S) + INFORMED_NOISE * self.start(rng)

    def spectrum(self, S: Array) -> Array:
        """Eigenvalues of a map, or singular values if it is not symmetric."""
        return np.asarray(np.linalg.eigvalsh(S) if self.symmetric else np.linalg.svd(S, compute_uv=False))

    @abstractmethod
    def narrow_factor(self, theta: Array) -> Array | None:
        """Factor W (m, d) if a pass through it is cheaper than one through its map; else None."""

    @abstractmethod
    def curvature(self, theta: Array) -> Callable[[Array], Array]:
        """Preconditioner: approximate inverse Hessian up to a scale."""


@final
class Factorised(Parametrisation):
    """Tied factors, S_k = W_k' W_k / sqrt(m d), with penalty sqrt(d/m) |W|² = d Tr S summed over heads (1.2)."""

    symmetric = True

    def __init__(self, dim: int, width: int, heads: int = 1) -> None:
        self.dim, self.width, self.heads = dim, width, heads
        self.size = heads * width * dim
        self.scale = 1.0 / sqrt(width * dim)

    def _factors(self, theta: Array) -> Array:
        """Factors W_k, shape (heads, m, d)."""
        return theta.reshape(self.heads, self.width, self.dim)

    def maps(self, theta: Array) -> Array:
        """Maps W'W / sqrt(m d)."""
        W = self._factors(theta)
        return self.scale * (W.transpose(0, 2, 1) @ W)

    def pull_back(self, theta: Array, gradients: Array) -> Array:
        """Gradient W (D + D') / sqrt(m d)."""
        return (self.scale * (self._factors(theta) @ (gradients + gradients.transpose(0, 2, 1)))).ravel()

    def penalty(self, theta: Array) -> tuple[float, Array]:
        """Penalty sqrt(d/m) |W|², and its gradient."""
        factor = sqrt(self.dim / self.width)
        return float(factor * (theta @ theta)), 2.0 * factor * theta

    def start(self, rng: np.random.Generator) -> Array:
        """Random initial weights with standard normal entries."""
        return rng.standard_normal(self.size)

    @classmethod
    def of_map(cls, S: Array) -> tuple["Parametrisation", Array]:
        """Square root of the map."""
        weights = cls(len(S), len(S))
        return weights, weights.closest(S)

    def closest(self, S: Array) -> Array:
        """Factors of the largest eigenvalues, as many as the width allows; negative ones are left out."""
        values, vectors = np.linalg.eigh(0.5 * (S + S.T))
        kept = min(self.width, self.dim)
        W = np.zeros((self.width, self.dim))
        W[:kept] = (np.sqrt(np.clip(values, 0.0, None) / self.scale) * vectors).T[self.dim - kept :]
        return np.tile(W.ravel(), self.heads)

    def curvature(self, theta: Array) -> Callable[[Array], Array]:
        """Preconditioner (W W')^-1, regularised: an isotropic Hessian in S becomes W W' in W."""
        return _factor_preconditioner(self._factors(theta))

    def narrow_factor(self, theta: Array) -> Array | None:
        """Factor W of a single head below full width; else None."""
        return theta.reshape(self.width, self.dim) if self.heads == 1 and self.width < self.dim else None


class UntiedFactors(Parametrisation):
    """Abstract untied factors, S_k = Q_k' K_k / sqrt(m d), with penalty sqrt(d/m) (|Q|² + |K|²)/2, at least d |S|_*."""

    symmetric = False

    def __init__(self, dim: int, width: int, heads: int = 1) -> None:
        self.dim, self.width, self.heads = dim, width, heads
        self.size = 2 * heads * width * dim
        self.scale = 1.0 / sqrt(width * dim)

    def _factors(self, theta: Array) -> tuple[Array, Array]:
        """Factors Q_k and K_k, each of shape (heads, m, d)."""
        both = theta.reshape(2, self.heads, self.width, self.dim)
        return both[0], both[1]

    def maps(self, theta: Array) -> Array:
        """Maps Q'K / sqrt(m d), which are not symmetric."""
        Q, K = self._factors(theta)
        return self.scale * (Q.transpose(0, 2, 1) @ K)

    def pull_back(self, theta: Array, gradients: Array) -> Array:
        """Gradients K D' and Q D, over sqrt(m d)."""
        Q, K = self._factors(theta)
        return self.scale * np.concatenate([(K @ gradients.transpose(0, 2, 1)).ravel(), (Q @ gradients).ravel()])

    def penalty(self, theta: Array) -> tuple[float, Array]:
        """Penalty sqrt(d/m) (|Q|² + |K|²) / 2, and its gradient."""
        factor = sqrt(self.dim / self.width)
        return float(0.5 * factor * (theta @ theta)), factor * theta

    def start(self, rng: np.random.Generator) -> Array:
        """Random initial weights with standard normal entries."""
        return rng.standard_normal(self.size)

    def curvature(self, theta: Array) -> Callable[[Array], Array]:
        """Preconditioners (K K')^-1 of Q and (Q Q')^-1 of K, regularised: their Hessians if that in S is isotropic."""
        return _factor_preconditioner(np.concatenate(self._factors(theta)[::-1]))

    @classmethod
    def of_map(cls, S: Array) -> tuple["Parametrisation", Array]:
        """Factors of equal size, so that the penalty is d |S|_*; of one map, or of one for each head."""
        dim = S.shape[-1]
        weights = cls(dim, dim, heads=1 if S.ndim == 2 else len(S))
        return weights, weights.closest(S)

    def closest(self, S: Array) -> Array:
        """Factors of the largest singular values, as many as the width allows; S may have a map for each head."""
        left, values, right = np.linalg.svd(S)
        kept = min(self.width, self.dim)
        root = np.sqrt(values[..., :kept] / self.scale)[..., None]
        both = np.zeros((2, self.heads, self.width, self.dim))
        both[0, :, :kept] = root * np.swapaxes(left, -1, -2)[..., :kept, :]
        both[1, :, :kept] = root * right[..., :kept, :]
        return both.ravel()

    def narrow_factor(self, theta: Array) -> Array | None:
        """Return None, since a pass through two factors is never cheaper than one through the map."""
        return None


@final
class Untied(UntiedFactors):
    """Untied factors as minimisation over them leaves them."""


@final
class ThresholdedUntied(UntiedFactors):
    """Untied factors of a map after soft thresholding, whose zero singular values are zero up to rounding."""

    zero_tolerance = 1e-9


class DirectEntries(Parametrisation):
    """Abstract maps S_k trained directly, with penalty d |S|² (1.2, U1), which sets nothing to zero."""

    zero_tolerance = 0.0

    def __init__(self, dim: int, heads: int = 1) -> None:
        self.dim, self.heads = dim, heads
        self.size = heads * dim * dim

    def penalty(self, theta: Array) -> tuple[float, Array]:
        """Penalty d |S|², and its gradient."""
        S = self.maps(theta).ravel()
        return float(self.dim * (S @ S)), 2.0 * self.dim * S

    def start(self, rng: np.random.Generator) -> Array:
        """Random Gaussian matrix, or its symmetric part, with |S|²/d of order one."""
        return self.maps(rng.standard_normal(self.size) / sqrt(self.dim)).ravel()

    @classmethod
    def of_map(cls, S: Array) -> tuple["Parametrisation", Array]:
        """Weights equal to the map."""
        weights = cls(len(S))
        return weights, weights.closest(S)

    def closest(self, S: Array) -> Array:
        """The map itself, or one for each head."""
        return np.broadcast_to(S, (self.heads, self.dim, self.dim)).ravel()

    def narrow_factor(self, theta: Array) -> Array | None:
        """Return None, since a directly trained map has no factor."""
        return None

    def curvature(self, theta: Array) -> Callable[[Array], Array]:
        """Identity."""
        return lambda gradient: gradient


@final
class Direct(DirectEntries):
    """Symmetric maps S_k trained directly."""

    symmetric = True

    def maps(self, theta: Array) -> Array:
        """Symmetric part of θ."""
        S = theta.reshape(self.heads, self.dim, self.dim)
        return 0.5 * (S + S.transpose(0, 2, 1))

    def pull_back(self, theta: Array, gradients: Array) -> Array:
        """Symmetric part of the gradients."""
        return (0.5 * (gradients + gradients.transpose(0, 2, 1))).ravel()


@final
class DirectUntied(DirectEntries):
    """Maps S_k without symmetry trained directly."""

    symmetric = False

    def maps(self, theta: Array) -> Array:
        """Maps equal to the weights."""
        return theta.reshape(self.heads, self.dim, self.dim)

    def pull_back(self, theta: Array, gradients: Array) -> Array:
        """Gradient in θ, equal to that in the maps."""
        return gradients.ravel()


def parametrisation(param: str, *, tied: bool, dim: int, width: float, heads: int) -> Parametrisation:
    """Parametrisation of a learner: factorised or direct, tied or untied, with factors of m = κ d rows (rounded)."""
    rows = factor_rows(width, dim)
    if param == "factorised":
        return Factorised(dim, rows, heads) if tied else Untied(dim, rows, heads)
    return Direct(dim, heads) if tied else DirectUntied(dim, heads)
