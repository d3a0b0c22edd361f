"""The unknowns of the equations and what they come from, in reduced units (2.1)."""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "CLOSEST",
    "INFINITE",
    "AnyHats",
    "AnyOverlaps",
    "Directions",
    "Hats",
    "Interpolating",
    "Labels",
    "LeadingHats",
    "LeadingOverlaps",
    "Overlaps",
    "SectorHats",
    "SectorOverlaps",
    "SpectralMap",
]

INFINITE = float("inf")
CLOSEST = 1.0 - 1e-9  # of a cosine
STEP = 1e-4  # relative, for derivatives by differences


class Hats(NamedTuple):
    """The conjugate unknowns qhat, mhat, Sigmahat."""

    q: float
    m: float
    sigma: float

    def times(self, alpha: float) -> "Hats":
        """Hats of α, from those per unit of α."""
        return Hats(alpha * self.q, alpha * self.m, alpha * self.sigma)

    @property
    def logs(self) -> NDArray[np.float64]:
        """The same in logarithms."""
        return np.log(self)

    def at(self, logs: NDArray[np.float64]) -> "Hats":
        """Those of other logarithms."""
        return Hats(*np.exp(logs).tolist())


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

    @property
    def pair_logs(self) -> NDArray[np.float64]:
        """(log q, log m), also of no map."""
        return np.log(np.maximum(self.pair, 1e-300))

    @property
    def steps(self) -> tuple[float, ...]:
        """Relative steps of the overlaps that stay inside: a larger q, a smaller m."""
        return STEP, -STEP

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

    @property
    def logs(self) -> NDArray[np.float64]:
        """The same in logarithms."""
        return np.log(self)

    def at(self, logs: NDArray[np.float64]) -> "SectorHats":
        """Those of other logarithms."""
        return SectorHats(*np.exp(logs).tolist())


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

    @property
    def pair_logs(self) -> NDArray[np.float64]:
        """Those of the overlaps alone, also of no map."""
        return np.log(np.maximum(self.pair, 1e-300))

    @property
    def steps(self) -> tuple[float, ...]:
        """Relative steps of the overlaps that stay inside, in both sectors."""
        return STEP, STEP, -STEP, -STEP

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


class Directions(NamedTuple):
    """Leading directions of a target (P1): its eigenvalues there over sqrt d, ``told``, and what the others leave of Q0, ``rest``."""

    told: tuple[float, ...]
    rest: float

    def state_of(self, y: NDArray[np.float64]) -> tuple[float, ...]:
        """(q_b, m_b, strengths, Sigma) from the numbers that are solved for: log q_b, the angle, strengths, log Sigma (P7)."""
        q, sigma = float(np.exp(y[0])), float(np.exp(y[-1]))
        return q, float(np.tanh(y[1]) * np.sqrt(q * self.rest)), *y[2:-1].tolist(), sigma

    def angle(self, q: float, m: float) -> float:
        """artanh of the cosine between the rest of the map and the rest of the target; none where one of them has no rest."""
        size = float(np.sqrt(max(q, 0.0) * self.rest))
        return float(np.arctanh(np.clip(m / size, -CLOSEST, CLOSEST))) if size > 0.0 else 0.0


class LeadingHats(NamedTuple):
    """The conjugate unknowns, and the eigenvalues that the input channel sees in the leading directions, over sqrt d (P3)."""

    q: float
    m: float
    sigma: float
    effective: tuple[float, ...]

    def times(self, alpha: float) -> "LeadingHats":
        """Hats of α, from those per unit of α; effective eigenvalues are ratios."""
        return LeadingHats(alpha * self.q, alpha * self.m, alpha * self.sigma, self.effective)

    @property
    def logs(self) -> NDArray[np.float64]:
        """Logarithms of the hats, and the effective eigenvalues as they are."""
        return np.array([*np.log(np.maximum(self[:3], 1e-300)), *self.effective])

    def at(self, logs: NDArray[np.float64]) -> "LeadingHats":
        """Those of other numbers."""
        q, m, sigma = np.exp(logs[:3]).tolist()
        return LeadingHats(q, m, sigma, tuple(logs[3:].tolist()))


class LeadingOverlaps(NamedTuple):
    """Overlaps where leading directions are told apart (P1).

    ``q_b`` and ``m_b`` are what the rest of the map contributes to q and m, ``strengths`` its elements in the leading directions over
    sqrt d; ``effective`` are the eigenvalues that the input channel saw there.
    """

    q_b: float
    m_b: float
    strengths: tuple[float, ...]
    sigma: float
    tau: float
    rank: float
    map: SpectralMap
    effective: tuple[float, ...]
    directions: Directions

    @property
    def q(self) -> float:
        """Tr S²/d (P1)."""
        return float(self.q_b + np.dot(self.strengths, self.strengths))

    @property
    def m(self) -> float:
        """Tr S S*/d (P1)."""
        return float(self.m_b + np.dot(self.strengths, self.directions.told))

    @property
    def pair(self) -> tuple[float, ...]:
        """What an average over fresh samples depends on."""
        return self.q_b, self.m_b, *self.strengths

    @property
    def state(self) -> tuple[float, ...]:
        """What the equations are solved for."""
        return *self.pair, self.sigma

    @property
    def sigmas(self) -> tuple[float, ...]:
        """Sigma."""
        return (self.sigma,)

    @property
    def logs(self) -> NDArray[np.float64]:
        """The numbers that are solved for (P7)."""
        return np.array([*self.pair_logs, np.log(self.sigma)])

    @property
    def pair_logs(self) -> NDArray[np.float64]:
        """Those of the overlaps alone, also of no map."""
        size, angle = np.log(max(self.q_b, 1e-300)), self.directions.angle(self.q_b, self.m_b)
        return np.array([size, angle, *self.strengths])

    @property
    def steps(self) -> tuple[float, ...]:
        """Relative steps of the overlaps that stay inside."""
        return STEP, -STEP, *len(self.strengths) * (STEP,)

    def at(self, *state: float) -> Self:
        """The same at another state."""
        q, m, *strengths, sigma = state
        return self._replace(q_b=q, m_b=m, strengths=tuple(strengths), sigma=sigma)

    @property
    def none(self) -> "LeadingOverlaps":
        """No map at all."""
        nothing = (0.0,) * len(self.strengths)
        return LeadingOverlaps(0.0, 0.0, nothing, 0.0, 0.0, 0.0, self.map, self.effective, self.directions)

    def balance(self, hats: Any) -> float:
        """mhat m - Sigmahat q + qhat Sigma/2, m being that with the target which the input channel saw (P5)."""
        seen = self.m_b + np.dot(self.strengths, self.effective)
        return float(hats.m * seen - hats.sigma * self.q + 0.5 * hats.q * self.sigma)


AnyHats = Hats | SectorHats | LeadingHats
AnyOverlaps = Overlaps | SectorOverlaps | LeadingOverlaps


class Labels(NamedTuple):
    """What the input channel must know of the labels: their power Q, the noise Δ in it, and J combinations per sample.

    ``shown`` is how much more of the trace of a map they show than of its other directions, which tokens of another kurtosis do (P11.6).
    """

    power: float
    noise: float
    informative: float
    shown: float = 0.0


class Interpolating(NamedTuple):
    """A state whose training labels are fitted exactly, Sigma being infinite, and how well it solves its equations (4.1)."""

    overlaps: Overlaps
    residual: float
