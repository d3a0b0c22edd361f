"""The unknowns of the equations and what they come from, in reduced units (2.1)."""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

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

    @property
    def pair(self) -> tuple[float, ...]:
        """What an average over fresh samples depends on: (q, m)."""
        return self.q, self.m

    @property
    def state(self) -> tuple[float, ...]:
        """What the equations are solved for: (q, m, Sigma)."""
        return self.q, self.m, self.sigma

    @property
    def logs(self) -> NDArray[np.float64]:
        """The same in logarithms; a negative m counts as none."""
        return np.log([self.q, max(self.m, 1e-300), self.sigma])

    def at(self, *state: float) -> Self:
        """The same at another state."""
        q, m, sigma = state
        return self._replace(q=q, m=m, sigma=sigma)

    @property
    def none(self) -> "Overlaps":
        """No map at all."""
        return Overlaps(0.0, 0.0, 0.0, 0.0, 0.0, self.map)

    def balance(self, hats: Hats) -> float:
        """mhat m - Sigmahat q + qhat Sigma/2: what the training loss has beside the envelope, times the unit (2.4, U2.3)."""
        return hats.m * self.m - hats.sigma * self.q + 0.5 * hats.q * self.sigma


class Labels(NamedTuple):
    """What the input channel must know of the labels: their power Q, the noise Δ in it, and J combinations per sample."""

    power: float
    noise: float
    informative: float


class Interpolating(NamedTuple):
    """A state whose training labels are fitted exactly, Sigma being infinite, and how well it solves its equations (4.1)."""

    overlaps: Overlaps
    residual: float
