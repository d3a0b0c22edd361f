"""Limiting laws as targets: Marchenko-Pastur for tied heads, a product of Gaussian matrices for untied ones."""

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from onehead.aim.targets.base import Array, Target
from onehead.aim.targets.sampling import factor_rows, map_with_singular_values
from onehead.errors import OutsideDomain
from onehead.fields import Slider, parameter
from onehead.spectra.law import Law

CUBIC_NEWTON_STEPS = 24  # enough from a bound that is at most a few times the root

KAPPA0: Any = parameter(
    0.5,
    "κ₀",
    "Rank of an mp or product target divided by d (above 1: full rank).",
    label="Target width",
    ge=1e-3,
    le=1e3,
    slider=Slider(0.02, 5.0, log=True),
)


class MarchenkoPastur(Target):
    """Target S* = W'W / sqrt(m0 d) with W an m0 x d Gaussian matrix and m0 = κ₀ d (1.1).

    For κ₀ < 1 a share 1 - κ₀ of the eigenvalues is zero.

    Examples
    --------
    >>> target = MarchenkoPastur(kappa0=0.5)
    >>> target.second_moment, target.rank
    (1.5, 0.5)
    """

    POSITIONAL = ("kappa0",)

    kind: Literal["mp"] = Field("mp", repr=False)
    kappa0: float = KAPPA0

    if TYPE_CHECKING:  # positional arguments

        def __init__(self, kappa0: float = 0.5) -> None: ...

    @property
    def second_moment(self) -> float:
        """Mean squared eigenvalue, Q0 = 1 + κ₀."""
        return 1.0 + self.kappa0

    @property
    def rank(self) -> float:
        """Share of non-zero eigenvalues, min(κ₀, 1)."""
        return min(self.kappa0, 1.0)

    def draw(self, dim: int, rng: np.random.Generator, *, tied: bool) -> Array:
        """Sample W'W / sqrt(m0 d), m0 = κ₀ d rounded; for an untied head a map with these singular values (1.1, U1)."""
        width = factor_rows(self.kappa0, dim)
        W = rng.standard_normal((width, dim))
        S: Array = W.T @ W / np.sqrt(width * dim)
        return S if tied else map_with_singular_values(np.asarray(np.linalg.eigvalsh(S)), rng)

    def at_dimension(self, dim: int) -> "MarchenkoPastur":
        """Target whose rank κ₀ d is an integer."""
        return self.changed(kappa0=factor_rows(self.kappa0, dim) / dim)

    @property
    def edges(self) -> tuple[float, float]:
        """Edges (1 ∓ sqrt κ₀)^2 / sqrt κ₀ of the density."""
        k = np.sqrt(self.kappa0)
        return float((1.0 - k) ** 2 / k), float((1.0 + k) ** 2 / k)

    def law(self, s: float) -> Law:
        """Marchenko-Pastur law plus a free semicircle, from its cubic equation."""
        from onehead.spectra.marchenko_pastur import MarchenkoPasturSemicircle  # loads numba

        return MarchenkoPasturSemicircle(self.kappa0, s)

    def singular_law(self, s: float) -> Law:
        """Symmetrised Marchenko-Pastur law plus a free semicircle, by subordination."""
        from onehead.spectra.symmetrised import SymmetrisedMarchenkoPastur  # loads numba

        return SymmetrisedMarchenkoPastur(self.kappa0, s)

    def density(self, x: Array) -> Array:
        """Density sqrt κ₀ sqrt((x+ - x)(x - x-)) / (2 pi x) of the non-zero eigenvalues."""
        low, high = self.edges
        x = np.asarray(x, dtype=float)
        inside = np.clip((high - x) * (x - low), 0.0, None)
        return np.sqrt(self.kappa0 * inside) / (2.0 * np.pi * np.where(x > 0.0, x, 1.0))


class Product(Target):
    """Target S* = W_Q' W_K / sqrt(m0 d) of an untied head, with independent Gaussian m0 x d factors, m0 = κ₀ d (U1).

    Q0 = 1 for every κ₀ and the rank is min(κ₀, 1). Quantities described as eigenvalues are singular values here.

    Examples
    --------
    >>> target = Product(kappa0=0.5)
    >>> target.second_moment, target.rank
    (1.0, 0.5)
    """

    symmetric = False

    POSITIONAL = ("kappa0",)

    kind: Literal["product"] = Field("product", repr=False)
    kappa0: float = KAPPA0

    if TYPE_CHECKING:  # positional arguments

        def __init__(self, kappa0: float = 0.5) -> None: ...

    @property
    def second_moment(self) -> float:
        """Mean squared singular value, Q0 = 1."""
        return 1.0

    @property
    def rank(self) -> float:
        """Share of non-zero singular values, min(κ₀, 1)."""
        return min(self.kappa0, 1.0)

    def draw(self, dim: int, rng: np.random.Generator, *, tied: bool) -> Array:
        """Sample W_Q' W_K / sqrt(m0 d), m0 = κ₀ d rounded (U1)."""
        width = factor_rows(self.kappa0, dim)
        Q, K = rng.standard_normal((2, width, dim))
        return np.asarray(Q.T @ K / np.sqrt(width * dim))

    def at_dimension(self, dim: int) -> "Product":
        """Target whose rank κ₀ d is an integer."""
        return self.changed(kappa0=factor_rows(self.kappa0, dim) / dim)

    def within_subspace(self, share: float) -> "Product":
        """Product of the same number of rows, a larger share of the subspace."""
        return self.changed(kappa0=self.kappa0 / share)

    @property
    def edges(self) -> tuple[float, float]:
        """Edges 2 / (sqrt(κ₀ v) (1 + v)) at the roots v > 0 of (1 - v)² = κ₀ v (1 + v); lower edge 0 for κ₀ >= 1."""
        k = self.kappa0
        root = 2.0 + k + np.sqrt(k * k + 8.0 * k)
        top, bottom = 2.0 / root, 0.5 * root / (1.0 - k) if k < 1.0 else np.inf
        low, high = (2.0 / (np.sqrt(k * v) * (1.0 + v)) for v in (bottom, top))
        return float(low), float(high)

    def law(self, s: float) -> Law:
        """Raise `OutsideDomain`: a map that is not symmetric has singular values only."""
        raise OutsideDomain("a product target is not symmetric: use attention self or cross.")

    def singular_law(self, s: float) -> Law:
        """Symmetrised law of the product plus a free semicircle, in closed form from its quartic equation (U3)."""
        from onehead.spectra.product import ProductSemicircle  # loads numba

        return ProductSemicircle(self.kappa0, s)

    def density(self, x: Array) -> Array:
        """Density of the singular values: the closed form of `ProductSemicircle` at s = 0.

        w = 1/v solves w³ + (1 - κ₀) w² = κ₀ x² (1 + w), and the density is sqrt(κ₀ [κ₀ v (1 + v) - (1 - v)²]) / π.
        """
        x, k = np.asarray(x, dtype=float), self.kappa0
        square = k * x**2
        # Newton steps start above the root, where the cubic is convex, and decrease to it
        w = max(k - 1.0, 0.0) + np.sqrt(2.0 * square) + np.cbrt(2.0 * square)
        for _ in range(CUBIC_NEWTON_STEPS):
            slope = (3.0 * w + 2.0 * (1.0 - k)) * w - square
            w = w - ((w + 1.0 - k) * w * w - square * (1.0 + w)) / np.where(slope > 0.0, slope, 1.0)
        v = 1.0 / np.where(w > 0.0, w, np.inf)
        inside = np.clip(k * (k * v * (1.0 + v) - (1.0 - v) ** 2), 0.0, None)
        return np.where(x >= 0.0, np.sqrt(inside) / np.pi, 0.0)
