"""The unknowns of the equations and what they come from, in reduced units (2.1)."""

from typing import NamedTuple

__all__ = ["INFINITE", "Hats", "Interpolating", "Labels", "Overlaps", "SpectralMap"]

INFINITE = float("inf")


class Hats(NamedTuple):
    """The conjugate unknowns qhat, mhat, Sigmahat."""

    q: float
    m: float
    sigma: float

    def times(self, alpha: float) -> "Hats":
        """Hats of α, from those per unit of α."""
        return Hats(alpha * self.q, alpha * self.m, alpha * self.sigma)


class SpectralMap(NamedTuple):
    """How the trained map follows from the blurred target: eigenvalues slope (x - eps) for x > cut, x ~ rho_s; zero below."""

    s: float
    eps: float
    cut: float
    slope: float


class Overlaps(NamedTuple):
    """q = Tr S²/d, m = Tr S S*/d, Sigma, with tau = Tr S/d, the rank fraction and the map they come from."""

    q: float
    m: float
    sigma: float
    tau: float
    rank: float
    map: SpectralMap


class Labels(NamedTuple):
    """What the input channel must know of the labels: their power Q, the noise Δ in it, and J combinations per sample."""

    power: float
    noise: float
    informative: float


class Interpolating(NamedTuple):
    """A state whose training labels are fitted exactly, Sigma being infinite, and how well it solves its equations (4.1)."""

    overlaps: Overlaps
    residual: float
