"""What the head is to learn: the spectrum of the target map S*."""

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from onehead.problem import Problem
from onehead.spectra.law import Law

__all__ = ["MarchenkoPastur", "Target"]

Array = NDArray[np.float64]


class Target(Problem):
    """A target spectrum. Everything the theory asks of it is here."""

    @property
    @abstractmethod
    def second_moment(self) -> float:
        """Q0 = Tr S*^2 / d."""

    @property
    @abstractmethod
    def rank(self) -> float:
        """Share of eigenvalues that are not zero."""

    @abstractmethod
    def law(self, s: float) -> Law:
        """rho_s: the target spectrum freely convolved with a semicircle of variance s > 0."""

    @abstractmethod
    def density(self, x: Array) -> Array:
        """Density of the non-zero eigenvalues of S* at x; it integrates to `rank`."""

    @property
    @abstractmethod
    def edges(self) -> tuple[float, float]:
        """Smallest and largest non-zero eigenvalue."""


class MarchenkoPastur(Target):
    """S* = W'W / sqrt(m0 d) with W an m0 x d Gaussian matrix and m0 = kappa0 d (1.1).

    Parameters
    ----------
    kappa0 : float
        Width of the target over d (κ₀). Below one the target has a share 1 - κ₀ of zero eigenvalues.

    Examples
    --------
    >>> target = MarchenkoPastur(kappa0=0.5)
    >>> target.second_moment, target.rank
    (1.5, 0.5)
    """

    kappa0: float = Field(0.5, ge=1e-3, le=1e3)

    @property
    def second_moment(self) -> float:
        """Q0 = 1 + κ₀."""
        return 1.0 + self.kappa0

    @property
    def rank(self) -> float:
        """min(κ₀, 1)."""
        return min(self.kappa0, 1.0)

    @property
    def edges(self) -> tuple[float, float]:
        """(1 ∓ sqrt κ₀)^2 / sqrt κ₀."""
        k = np.sqrt(self.kappa0)
        return float((1.0 - k) ** 2 / k), float((1.0 + k) ** 2 / k)

    def law(self, s: float) -> Law:
        """Marchenko-Pastur plus a semicircle, from its cubic equation."""
        from onehead.spectra.marchenko_pastur import MarchenkoPasturSemicircle  # noqa: PLC0415  (loads numba)

        return MarchenkoPasturSemicircle(self.kappa0, s)

    def density(self, x: Array) -> Array:
        """sqrt κ₀ sqrt((x+ - x)(x - x-)) / (2 pi x)."""
        low, high = self.edges
        x = np.asarray(x, dtype=float)
        inside = np.clip((high - x) * (x - low), 0.0, None)
        return np.sqrt(self.kappa0 * inside) / (2.0 * np.pi * np.where(x > 0.0, x, 1.0))
