"""The unknowns of the equations and what they come from, in reduced units (2.1)."""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "INFINITE",
    "AnyHats",
    "AnyOverlaps",
    "Hats",
    "Interpolating",
    "Labels",
    "Overlaps",
    "SectorHats",
    "SectorOverlaps",
    "SpectralMap",
]

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
    def sigmas(self) -> tuple[float, ...]:
        """Sigma of every sector."""
        return (self.sigma,)

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

    def balance(self, hats: Any) -> float:
        """mhat m - Sigmahat q + qhat Sigma/2: what the training loss has beside the envelope, times the unit (2.4, U2.3)."""
        return float(hats.m * self.m - hats.sigma * self.q + 0.5 * hats.q * self.sigma)


class SectorHats(NamedTuple):
    """The conjugate unknowns of the symmetric and the antisymmetric part of a map (U5.2)."""

    q_s: float
    q_a: float
    m_s: float
    m_a: float
    sigma_s: float
    sigma_a: float

    @property
    def q(self) -> float:
        """Mean of the sectors."""
        return 0.5 * (self.q_s + self.q_a)

    @property
    def m(self) -> float:
        """Mean of the sectors."""
        return 0.5 * (self.m_s + self.m_a)

    @property
    def sigma(self) -> float:
        """Mean of the sectors."""
        return 0.5 * (self.sigma_s + self.sigma_a)

    def times(self, alpha: float) -> "SectorHats":
        """Hats of α, from those per unit of α."""
        return SectorHats(*(alpha * hat for hat in self))


class SectorOverlaps(NamedTuple):
    """Overlaps of the symmetric and the antisymmetric part of a map: q_s = 2 |S_s|²/d and so on, whose means are q, m, Sigma (U5.1)."""

    q_s: float
    q_a: float
    m_s: float
    m_a: float
    sigma_s: float
    sigma_a: float
    tau: float
    rank: float
    map: SpectralMap

    @property
    def q(self) -> float:
        """|S|²/d, mean of the sectors."""
        return 0.5 * (self.q_s + self.q_a)

    @property
    def m(self) -> float:
        """Tr S'S*/d, mean of the sectors."""
        return 0.5 * (self.m_s + self.m_a)

    @property
    def sigma(self) -> float:
        """Mean of the sectors."""
        return 0.5 * (self.sigma_s + self.sigma_a)

    @property
    def pair(self) -> tuple[float, ...]:
        """What an average over fresh samples depends on."""
        return self[:4]

    @property
    def state(self) -> tuple[float, ...]:
        """What the equations are solved for."""
        return self[:6]

    @property
    def sigmas(self) -> tuple[float, ...]:
        """Sigma of every sector."""
        return self[4:6]

    @property
    def logs(self) -> NDArray[np.float64]:
        """The same in logarithms; a negative m counts as none."""
        return np.log(np.maximum(self[:6], [0.0, 0.0, 1e-300, 1e-300, 0.0, 0.0]))

    def at(self, *state: float) -> Self:
        """The same at another state."""
        return self._replace(**dict(zip(self._fields[:6], state, strict=True)))  # type: ignore[arg-type]

    @property
    def none(self) -> "SectorOverlaps":
        """No map at all."""
        return SectorOverlaps(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, self.map)

    def balance(self, hats: Any) -> float:
        """mhat m - Sigmahat q + qhat Sigma/2, the mean of the sectors."""
        (q, m, sigma), (q_hat, m_hat, sigma_hat) = np.reshape(self.state, (3, 2)), np.reshape(hats, (3, 2))
        return float(np.mean(m_hat * m - sigma_hat * q + 0.5 * q_hat * sigma))


AnyHats = Hats | SectorHats
AnyOverlaps = Overlaps | SectorOverlaps


class Labels(NamedTuple):
    """What the input channel must know of the labels: their power Q, the noise Δ in it, and J combinations per sample."""

    power: float
    noise: float
    informative: float


class Interpolating(NamedTuple):
    """A state whose training labels are fitted exactly, Sigma being infinite, and how well it solves its equations (4.1)."""

    overlaps: Overlaps
    residual: float
