"""Order parameters of a head and their conjugate fields, in reduced units (2.1).

Both are vectors over the *sectors* of the map (one, or the symmetric and the antisymmetric part, U5), followed by one
number for each explicit direction (`onehead.aim.theory.directions`).
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from onehead.aim.theory.directions import NO_DIRECTIONS, SMALLEST_OVERLAP, Directions

Array = NDArray[np.float64]

INFINITE = float("inf")


def _vector(value: float | tuple[float, ...]) -> tuple[float, ...]:
    """Return one number per sector as a tuple."""
    return tuple(map(float, value)) if isinstance(value, tuple) else (float(value),)


@dataclass(frozen=True)
class Hats:
    """Conjugate fields qhat, mhat, Sigmahat of every sector (2.2), and the effective eigenvalues of the explicit
    directions (P3).

    Attributes
    ----------
    q_sectors, m_sectors, sigma_sectors : tuple of float
        One number per sector; a single number may be given for one sector.
    effective : tuple of float
        Eigenvalues that the input channel sees in the explicit directions, in the units of
        `Directions.target_eigenvalues`.
    """

    q_sectors: float | tuple[float, ...]
    m_sectors: float | tuple[float, ...]
    sigma_sectors: float | tuple[float, ...]
    effective: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for name in ("q_sectors", "m_sectors", "sigma_sectors"):
            object.__setattr__(self, name, _vector(getattr(self, name)))

    @cached_property
    def sectors(self) -> Array:
        """Rows qhat, mhat, Sigmahat; one column per sector."""
        return np.array([self.q_sectors, self.m_sectors, self.sigma_sectors])

    @property
    def q(self) -> float:
        """Mean of qhat over the sectors."""
        return float(self.sectors[0].mean())

    @property
    def m(self) -> float:
        """Mean of mhat over the sectors."""
        return float(self.sectors[1].mean())

    @property
    def sigma(self) -> float:
        """Mean of Sigmahat over the sectors."""
        return float(self.sectors[2].mean())

    def times(self, alpha: float) -> "Hats":
        """Return the hats of α samples from those per unit of α; effective eigenvalues are ratios and stay."""
        return self.from_sectors(alpha * self.sectors, self.effective)

    @staticmethod
    def from_sectors(sectors: Array, effective: tuple[float, ...] = ()) -> "Hats":
        """Build hats from rows qhat, mhat, Sigmahat with one column per sector."""
        q, m, sigma = (tuple(row) for row in sectors.tolist())
        return Hats(q, m, sigma, effective)

    @property
    def coordinates(self) -> Array:
        """Logarithms of the hats of all sectors, then the effective eigenvalues."""
        return np.array([*np.log(np.maximum(self.sectors.ravel(), SMALLEST_OVERLAP)), *self.effective])

    def at(self, coordinates: Array) -> "Hats":
        """Return the hats with other `coordinates`."""
        size = self.sectors.size
        sectors = np.exp(coordinates[:size]).reshape(self.sectors.shape)
        return self.from_sectors(sectors, tuple(coordinates[size:].tolist()))


class SpectralMap(NamedTuple):
    """How the trained map follows from the blurred target: eigenvalues slope (x - eps) for x > cut, x ~ rho_s; zero
    below.
    """

    s: float
    eps: float
    cut: float
    slope: float


@dataclass(frozen=True)
class Overlaps:
    """Order parameters q, m, Sigma of every sector, elements in explicit directions, and the spectral map they come
    from.

    Attributes
    ----------
    q_sectors, m_sectors, sigma_sectors : tuple of float
        One number per sector, without the explicit directions; a single number may be given for one sector. With two
        sectors q_s = 2 |S_s|²/d and so on, whose means are q, m and Sigma (U5.1).
    tau : float
        Tr S/d.
    rank : float
        Fraction of eigenvalues that are not zero.
    map : SpectralMap
        How eigenvalues follow from the blurred target.
    learned : tuple of float
        Elements of the map in the explicit directions, in the units of `Directions.target_eigenvalues`.
    effective : tuple of float
        Eigenvalues that the input channel saw in the explicit directions.
    directions : Directions
        The explicit directions.
    """

    q_sectors: float | tuple[float, ...]
    m_sectors: float | tuple[float, ...]
    sigma_sectors: float | tuple[float, ...]
    tau: float
    rank: float
    map: SpectralMap
    learned: tuple[float, ...] = ()
    effective: tuple[float, ...] = ()
    directions: Directions = NO_DIRECTIONS

    def __post_init__(self) -> None:
        for name in ("q_sectors", "m_sectors", "sigma_sectors"):
            object.__setattr__(self, name, _vector(getattr(self, name)))

    @cached_property
    def sectors(self) -> Array:
        """Rows q, m, Sigma; one column per sector."""
        return np.array([self.q_sectors, self.m_sectors, self.sigma_sectors])

    @property
    def q(self) -> float:
        """Tr S²/d (P1), without directions that are separate from the bulk."""
        inside = 0.0 if self.directions.separate else np.dot(self.learned, self.learned)
        return float(self.sectors[0].mean() + inside)

    @property
    def m(self) -> float:
        """Tr S S*/d (P1), without directions that are separate from the bulk."""
        inside = 0.0 if self.directions.separate else np.dot(self.learned, self.directions.target_eigenvalues)
        return float(self.sectors[1].mean() + inside)

    @property
    def sigma(self) -> float:
        """Mean of Sigma over the sectors."""
        return float(self.sectors[2].mean())

    @property
    def sigmas(self) -> tuple[float, ...]:
        """Sigma of every sector."""
        return tuple(self.sectors[2].tolist())

    @property
    def values(self) -> tuple[float, ...]:
        """Arguments of an average over fresh samples: overlaps of the sectors, then elements in the explicit
        directions.
        """
        q, m = self.sectors[:2]
        return self.directions.output_values(q, m, np.array(self.learned))

    @property
    def state(self) -> tuple[float, ...]:
        """Arguments of an average over the proximal operator: `values`, then Sigma of every sector."""
        return *self.values, *self.sigmas

    @property
    def coordinates(self) -> Array:
        """Numbers that the solver iterates on: those of the overlaps, the learned elements, log Sigma (2.8, P7)."""
        return np.concatenate([self.value_coordinates, np.log(self.sectors[2])])

    @property
    def value_coordinates(self) -> Array:
        """`coordinates` without Sigma; defined for the zero map too."""
        return np.array([*self.directions.overlap_coordinates(*self.sectors[:2]), *self.learned])

    def at(self, coordinates: Array) -> Self:
        """Return the order parameters with other `coordinates`; tau, rank and spectral map are kept."""
        count, size = len(self.learned), self.sectors.shape[1]
        overlaps, learned, sigma = np.split(coordinates, [2 * size, 2 * size + count])
        q, m = self.directions.overlaps_at(overlaps)
        sectors = (tuple(row.tolist()) for row in (q, m, np.exp(sigma)))
        names = ("q_sectors", "m_sectors", "sigma_sectors")
        return replace(self, **dict(zip(names, sectors, strict=True)), learned=tuple(learned.tolist()))  # type: ignore[arg-type]

    @property
    def none(self) -> "Overlaps":
        """The zero map, with the same spectral map and directions."""
        zero = (0.0,) * self.sectors.shape[1]
        return replace(
            self,
            q_sectors=zero,
            m_sectors=zero,
            sigma_sectors=zero,
            tau=0.0,
            rank=0.0,
            learned=(0.0,) * len(self.learned),
        )

    def balance(self, hats: Hats) -> float:
        """Return mhat m - Sigmahat q + qhat Sigma/2, the part of the training loss beside the envelope, times the unit
        (2.4, U2.3).

        It is the mean over the sectors; in explicit directions m is the overlap with the target that the input channel
        saw (P5).
        """
        (q, m, sigma), (q_hat, m_hat, sigma_hat) = self.sectors, hats.sectors
        bulk = float(np.mean(m_hat * m - sigma_hat * q + 0.5 * q_hat * sigma))
        if not self.learned:
            return bulk
        learned = np.array(self.learned)
        return bulk + float(hats.m * (learned @ np.array(self.effective)) - hats.sigma * (learned @ learned))


class LabelStatistics(NamedTuple):
    """What the input channel must know of the labels.

    Attributes
    ----------
    power : float
        Q, variance of the noisy label coordinates.
    noise : float
        Δ, the noise in it.
    informative : float
        J, combinations of logits per sample that carry information (1.6).
    trace_gain : float
        Excess weight with which labels show the trace of a map (P11.6).
    """

    power: float
    noise: float
    informative: float
    trace_gain: float = 0.0


class Interpolating(NamedTuple):
    """A state whose training labels are fitted exactly, Sigma being infinite, and how well it solves its equations
    (4.1).
    """

    overlaps: Overlaps
    residual: float
