"""The input channel: from what the data say of the map (the hats) to the map that weight decay leaves of it (2.3, 3, 6, U2).

How the map is parametrised decides everything here: which eigenvalues are learned, what the penalty is, when the map is zero,
what is left of it as λ → 0⁺. One object per parametrisation owns all of it, in reduced units.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onehead.aim.equations import ridgeless
from onehead.aim.equations.unknowns import INFINITE, Hats, Interpolating, Labels, Overlaps, SpectralMap
from onehead.aim.targets import Target
from onehead.errors import OutsideDomain
from onehead.numerics.line import root_between
from onehead.spectra.law import Law, Scaled, ThresholdIntegrals, replicon_integral, threshold_integrals

__all__ = ["InputChannel", "Linear", "Thresholded", "counted"]

Array = NDArray[np.float64]

EMERGED = 3e-5  # by how much the edge must pass the threshold: q grows as the 7/2 power of it, and is below 1e-12 here


@dataclass(frozen=True, kw_only=True)
class InputChannel(ABC):
    """Base of the parametrisations of a map.

    ``scale`` is β₀, which multiplies the target's eigenvalues; ``unit`` that of the geometry of logits. The penalty is homogeneous
    of ``degree`` in S, which also says how λ scales with β (1.5). ``lift`` is what the data seem to add to all eigenvalues of the target
    where tokens have another kurtosis (P11.3).
    """

    degree: ClassVar[int]
    relaxes: ClassVar[bool]  # whether a solution can be reached by letting λ fall from where the map vanishes
    lowest: ClassVar[float]  # eigenvalue that a map can have
    by_sigma: ClassVar[bool] = True  # whether the equations can be solved at a given Sigma
    heuristic: ClassVar[str | None] = None  # what is not exact about it, in words
    sides: ClassVar[int] = 1  # 2 for untied heads, whose laws are those of singular values with both signs

    target: Target
    scale: float
    decay: float
    width: float
    unit: float
    lift: float = 0.0

    @cached_property
    def target_power(self) -> float:
        """Q0 in reduced units."""
        return self.scale**2 * self.target.second_moment

    @property
    @abstractmethod
    def lost(self) -> tuple[Array, Array]:
        """Places and masses of the eigenvalues of the target that no map of this parametrisation holds; none if one equals it."""

    @property
    @abstractmethod
    def obstacle(self) -> str | None:
        """Why no map of this parametrisation equals the target, in words; None if one does."""

    @cached_property
    def reachable_power(self) -> float:
        """Tr P²/d of the best that a map can hold of the target, P: the target without what is lost (8.1)."""
        x, mass = self.lost
        return max(self.target_power - float(mass @ x**2), 0.0) if x.size else self.target_power

    def narrow(self, rank: float) -> bool:
        """Whether it is the width of the learner that limits a map of this rank: the theory is then a heuristic (3)."""
        return False

    @property
    def wide(self) -> "InputChannel":
        """The same without a limit of width."""
        return self

    def law(self, s: float) -> Law:
        """rho_s of the reduced target; asked for again at the same s, it is the same object."""
        known = self.__dict__.get("_law")
        if known is not None and known[0] == s:
            return known[1]  # type: ignore[no-any-return]
        law = self._law_at(s)
        self.__dict__["_law"] = (s, law)
        return law

    def _law_at(self, s: float) -> Law:
        if not 1e-20 < s / self.target_power < 1e13:
            raise OutsideDomain(f"the blur s = {s:.1e} of the target spectrum is out of any sensible range.")
        if self.scale == 1.0:
            return self._target_law(s)
        return Scaled(self._target_law(s / self.scale**2), self.scale)

    def _target_law(self, s: float) -> Law:
        return self.target.law(s)

    @property
    def apart(self) -> float:
        """Share of the map's degrees of freedom that a known spectrum leaves open (4.5)."""
        return self.target.apart

    def overlaps(self, hats: Any) -> Any:
        """Overlaps from the hats, in all sectors of the map."""
        if not (hats.m > 0.0 and hats.sigma > 0.0 and hats.q > 0.0):
            raise OutsideDomain(
                f"the output channel gave hats that are not positive ({hats.q:.2e}, {hats.m:.2e}, {hats.sigma:.2e}); "
                "the iterate has left the domain of the equations."
            )
        return self._overlaps(hats, hats.q / hats.m**2)

    @abstractmethod
    def _overlaps(self, hats: Hats, s: float) -> Overlaps: ...

    @abstractmethod
    def map_at(self, hats: Hats) -> SpectralMap:
        """The spectral map that hats lead to, were there no limit of width."""

    @abstractmethod
    def rank_slopes(self, where: SpectralMap, rank: float, places: Array) -> Array:
        """Derivatives of the rank in s, in eps, and in atoms of the target at ``places`` of a d-th of its mass each, times d (2.3)."""

    @abstractmethod
    def learned(self, where: SpectralMap, places: Array) -> Array:
        """What the map has along eigenvectors of the target whose eigenvalues are ``places``: diagonal elements of S (P4)."""

    @abstractmethod
    def penalty(self, overlaps: Any) -> float:
        """Weight decay's part of the training loss over d²."""

    @abstractmethod
    def replicon(self, overlaps: Any, hats: Any) -> float | None:
        """Spectral factor of the replicon eigenvalue (2.8); None where the width of the learner is what limits it."""

    @abstractmethod
    def pass_on(self, R: Array, sigma_hat: float) -> tuple[Array, float]:
        """The map and Sigma of one instance, from its field R, symmetric as the map is: input half of message passing (9)."""

    @property
    @abstractmethod
    def emerges(self) -> bool:
        """Whether weight decay can keep the map at zero (4.6)."""

    @abstractmethod
    def vanishes(self, s: float, m_hat: float) -> bool:
        """Whether the map is zero when the data say no more than this of it (4.6)."""

    @abstractmethod
    def largest_decay(self, s: float, m_hat: float) -> float:
        """λ at which the map vanishes (4.6), or shrinks to nothing."""

    @property
    @abstractmethod
    def largest_sigma(self) -> float:
        """What weight decay leaves of Sigma at most."""

    @abstractmethod
    def ratio_at_sigma(self, unit: Hats, sigma: float) -> float:
        """The α at which Sigma is ``sigma``, the largest root, with hats of α (unit.q, unit.m, unit.sigma) (2.8)."""

    @abstractmethod
    def decay_at_sigma(self, hats: Hats, sigma: float) -> float:
        """The λ at which Sigma is ``sigma`` (2.8)."""

    @abstractmethod
    def interpolating(self, labels: Labels, alpha: float, accuracy: float = 1e-13) -> Interpolating:
        """The limit λ → 0⁺ below interpolation (4.1)."""

    @abstractmethod
    def interpolation(self, labels: Labels) -> tuple[float, Interpolating | None]:
        """Sample ratio up to which λ → 0⁺ fits every label, and the state there, if it has one (4.2)."""

    @abstractmethod
    def recovery(self, labels: Labels) -> float:
        """Sample ratio from which on λ → 0⁺ finds the target exactly (4.4); infinite with noise."""

    @property
    def recovered(self) -> Overlaps:
        """The overlaps of the target itself."""
        Q0, tau = self.target_power, self.scale * self.target.mean
        return Overlaps(Q0, Q0, 0.0, tau, self.target.rank, SpectralMap(0.0, 0.0, self.lowest, 1.0))


@dataclass(frozen=True, kw_only=True)
class Thresholded(InputChannel):
    """S = W'W: weight decay on the factor is λ d Tr S, which cuts eigenvalues below a threshold to zero (2.3, 3)."""

    degree = 1
    relaxes = True
    lowest = 0.0

    @cached_property
    def lost(self) -> tuple[Array, Array]:
        """Negative eigenvalues, and those beyond the width."""
        x, mass = self.target.lost(self.width)
        return self.scale * x, mass

    @property
    def obstacle(self) -> str | None:
        """S = W'W has no negative eigenvalues, and at most as many others as the width says."""
        if not self.lost[0].size:
            return None
        if self.target.edges[0] < 0.0:
            return "the target has negative eigenvalues, and a map W'W has none"
        return "the learner is narrower than the target"

    def narrow(self, rank: float) -> bool:
        """Whether the rank is all that the width allows; a width of one or more leaves it free."""
        return self.width < 1.0 and rank >= self.width * (1.0 - 1e-12)

    @property
    def wide(self) -> InputChannel:
        """The same at full width."""
        return replace(self, width=max(self.width, 1.0))

    def threshold(self, m_hat: float) -> float:
        """eps = 2λ/mhat, less what eigenvalues are lifted by."""
        return self.unit * self.decay / m_hat - self.lift

    def integrals(self, s: float, eps: float) -> ThresholdIntegrals:
        """J, B, A and the rank at noise variance s and threshold eps, under the width of the learner."""
        return threshold_integrals(self.law(s), eps, self.width)

    def _overlaps(self, hats: Hats, s: float) -> Overlaps:
        """With c = mhat/Sigmahat, s = qhat/mhat², eps = 2λ/mhat: q = c² J, m = c (J + eps B - s A), Sigma = A/Sigmahat."""
        eps, slope = self.threshold(hats.m), hats.m / hats.sigma
        part = self.integrals(s, eps)
        if not part.A > 0.0:
            raise OutsideDomain("every eigenvalue fell below the threshold: the map is zero here.")
        return Overlaps(
            slope**2 * part.J,
            slope * (part.J + eps * part.B - s * part.A),
            part.A / hats.sigma,
            slope * part.B,
            part.rank,
            SpectralMap(s, eps, part.cut, slope),
        )

    def map_at(self, hats: Hats) -> SpectralMap:
        """c = mhat/Sigmahat, s = qhat/mhat², eps = 2λ/mhat."""
        eps = self.threshold(hats.m)
        return SpectralMap(hats.q / hats.m**2, eps, eps, hats.m / hats.sigma)

    def rank_slopes(self, where: SpectralMap, rank: float, places: Array) -> Array:
        """What passes the threshold: rho Re g, - rho and rho p_k there, since rho moves in s as d(rho Re g)/dx, in an atom as d(rho p_k)/dx."""
        if self.narrow(rank):
            return np.zeros(2 + len(places))
        rho, hilbert, shares = self.law(where.s).at(where.eps, places)
        return np.asarray(rho * np.array([hilbert, -1.0, *shares]))

    def learned(self, where: SpectralMap, places: Array) -> Array:
        """c ∫ rho p_k (x - eps)_+, p_k the share of the atom in what lies at x, times their number (8.2, P4)."""
        if where.s == 0.0:  # the target itself
            return where.slope * places
        law = self.law(where.s)
        nodes = law.nodes(where.cut)
        return np.asarray(where.slope * (law.shares(where.cut, places) @ (nodes.mass * (nodes.x - where.eps))))

    def penalty(self, overlaps: Any) -> float:
        """λ Tr S/d."""
        return float(self.decay * overlaps.tau)

    def replicon(self, overlaps: Any, hats: Any) -> float | None:
        """A2/Sigmahat²."""
        if self.narrow(overlaps.rank):
            return None
        return replicon_integral(self.law(overlaps.map.s), overlaps.map.eps) / float(hats.sigma) ** 2

    def pass_on(self, R: Array, sigma_hat: float) -> tuple[Array, float]:
        """S = O (r - 2λ)_+ O'/Sigmahat, Sigma from the difference quotients of the threshold."""
        r, basis = np.linalg.eigh(R)
        f = np.clip(r - self.unit * self.decay, 0.0, None)
        kept = f > 0.0
        gap = r[:, None] - r[None, :]
        np.fill_diagonal(gap, 1.0)
        quotient = (f[:, None] - f[None, :]) / gap
        S = (basis[:, kept] * f[kept]) @ basis[:, kept].T / sigma_hat
        return S, float((quotient.sum() + 2.0 * kept.sum()) / (len(R) ** 2 * sigma_hat))

    @property
    def emerges(self) -> bool:
        """As long as there is weight decay."""
        return self.decay > 0.0

    def vanishes(self, s: float, m_hat: float) -> bool:
        """The upper edge of rho_s does not reach the threshold."""
        top = self.law(s).edges[-1][1] + self.lift
        return self.emerges and top <= (1.0 + EMERGED) * self.unit * self.decay / m_hat

    def largest_decay(self, s: float, m_hat: float) -> float:
        """mhat edge/2, of eigenvalues as they are lifted."""
        return float(m_hat * (self.law(s).edges[-1][1] + self.lift) / self.unit)

    @property
    def largest_sigma(self) -> float:
        """Any."""
        return INFINITE

    def ratio_at_sigma(self, unit: Hats, sigma: float) -> float:
        """α sb Sigma = A(qb/(α mb²), 2λ/(α mb)) for unit = (qb, mb, sb)."""

        def gap(log_alpha: float) -> float:
            alpha = float(np.exp(log_alpha))
            part = self.integrals(unit.q / (alpha * unit.m**2), self.threshold(alpha * unit.m))
            return alpha * unit.sigma * sigma - part.A

        high = -np.log(unit.sigma * sigma) + 1e-6  # A never exceeds one, but for its quadrature error
        low = high - 0.25
        while gap(high) < 0.0:  # the A of a narrow learner can exceed one, by a logarithm (3)
            high += 0.25
            if high > low + 10.0:
                raise OutsideDomain("no sample ratio belongs to this Sigma.")
        while gap(low) > 0.0:
            low -= 0.5
            if low < high - 40.0:
                raise OutsideDomain("no sample ratio belongs to this Sigma.")
        return float(np.exp(root_between(gap, low, high, xtol=1e-13)))

    def decay_at_sigma(self, hats: Hats, sigma: float) -> float:
        """Sigmahat Sigma = A(s, 2λ/mhat); A falls to zero at the upper edge of the spectrum (2.3).

        Beyond the Sigma of λ → 0⁺ it is negative: no learner has it, but a search may pass the limit.
        """
        law = self.law(hats.q / hats.m**2)

        def gap(eps: float) -> float:
            return threshold_integrals(law, eps, self.width).A - hats.sigma * sigma

        top = law.edges[-1][1]
        low = 0.0 if gap(0.0) > 0.0 else -top
        if gap(low) <= 0.0:
            raise OutsideDomain("no weight decay belongs to this Sigma.")
        return hats.m * root_between(gap, low, top, xtol=1e-13 * top) / self.unit

    def interpolating(self, labels: Labels, alpha: float, accuracy: float = 1e-13) -> Interpolating:
        """Two equations in (s, eps)."""
        return ridgeless.interpolating(self, labels, alpha, accuracy)

    def interpolation(self, labels: Labels) -> tuple[float, Interpolating | None]:
        """eps = 0."""
        return ridgeless.interpolation(self, labels)

    def recovery(self, labels: Labels) -> float:
        """From the semicircle alone; never where no map equals the target."""
        if labels.noise > 0.0 or self.obstacle is not None:
            return INFINITE
        return ridgeless.recovery(self, labels)


@dataclass(frozen=True, kw_only=True)
class Linear(InputChannel):
    """S itself is trained, with weight decay λ d |S|²: every eigenvalue is shrunk alike, none is cut (6).

    With D = Sigmahat + 4λ: q = (mhat² Q0 + qhat)/D², m = mhat Q0/D, Sigma = 1/D; Q0 being that of S* + lift, and Tr S*(S* + lift)/d.
    """

    degree = 2
    relaxes = False
    lowest = -INFINITE

    @property
    def lost(self) -> tuple[Array, Array]:
        """Nothing: any symmetric matrix will do."""
        return np.empty(0), np.empty(0)

    @property
    def obstacle(self) -> str | None:
        """None."""
        return None

    def _denominator(self, sigma_hat: float) -> float:
        return sigma_hat + 2.0 * self.unit * self.decay

    def _overlaps(self, hats: Hats, s: float) -> Overlaps:
        D = self._denominator(hats.sigma)
        slope, lift = hats.m / D, self.lift
        q = (hats.m**2 * (self.target_power + lift * (2.0 * self._mean + lift)) + hats.q) / D**2
        m, tau = slope * (self.target_power + lift * self._mean), slope * (self._mean + lift)
        return Overlaps(q, m, 1.0 / D, tau, 1.0, SpectralMap(s, 0.0 - lift, self.lowest, slope))

    @cached_property
    def _mean(self) -> float:
        return self.scale * self.target.mean

    def map_at(self, hats: Hats) -> SpectralMap:
        """c = mhat/D, no threshold."""
        return SpectralMap(hats.q / hats.m**2, 0.0 - self.lift, self.lowest, hats.m / self._denominator(hats.sigma))

    def rank_slopes(self, where: SpectralMap, rank: float, places: Array) -> Array:
        """None: the rank is full."""
        return np.zeros(2 + len(places))

    def learned(self, where: SpectralMap, places: Array) -> Array:
        """c λ_k: every eigenvalue is shrunk alike."""
        return where.slope * places

    def penalty(self, overlaps: Any) -> float:
        """λ Tr S²/d."""
        return float(self.decay * overlaps.q)

    def replicon(self, overlaps: Any, hats: Any) -> float | None:
        """1/D²."""
        return 1.0 / self._denominator(hats.sigma) ** 2

    def pass_on(self, R: Array, sigma_hat: float) -> tuple[Array, float]:
        """S = R/D, Sigma = 1/D."""
        D = self._denominator(sigma_hat)
        return R / D, 1.0 / D

    @property
    def emerges(self) -> bool:
        """Never zero."""
        return False

    def vanishes(self, s: float, m_hat: float) -> bool:
        """Never."""
        return False

    def largest_decay(self, s: float, m_hat: float) -> float:
        """One that shrinks it a hundredfold."""
        return 100.0 * m_hat

    @property
    def largest_sigma(self) -> float:
        """1/(4λ)."""
        return 1.0 / self._denominator(0.0) if self.decay > 0.0 else INFINITE

    def ratio_at_sigma(self, unit: Hats, sigma: float) -> float:
        """α sb + 4λ = 1/Sigma."""
        ratio = (1.0 / sigma - self._denominator(0.0)) / unit.sigma
        if ratio <= 0.0:
            raise OutsideDomain("direct training cannot have so large a Sigma at this weight decay.")
        return ratio

    def decay_at_sigma(self, hats: Hats, sigma: float) -> float:
        """Sigmahat + 4λ = 1/Sigma."""
        return (1.0 / sigma - hats.sigma) / (2.0 * self.unit)

    def interpolating(self, labels: Labels, alpha: float, accuracy: float = 1e-13) -> Interpolating:
        """The minimum-norm solution, in closed form."""
        share, Q0 = self.unit * alpha * labels.informative, self.target_power
        if share >= 1.0:
            raise OutsideDomain(
                "at its interpolation threshold direct training has an infinite test error; move alpha."
            )
        tau = share * (1.0 + labels.shown) / (1.0 + share * labels.shown) * self._mean
        lift = labels.shown * (self._mean - tau)  # of the target, where tokens show its trace differently (P11.6)
        Q, seen = labels.power + lift * (self._mean - tau), lift * (2.0 * self._mean + lift)
        m = share * (Q0 + lift * self._mean)
        q = share * (Q - share * Q0 + share * (seen - 2.0 * lift * self._mean)) / (1.0 - share)
        s = (q / share**2 - Q0 - seen) if share > 0.0 else INFINITE
        return Interpolating(Overlaps(q, m, INFINITE, tau, 1.0, SpectralMap(s, 0.0 - lift, self.lowest, share)), 0.0)

    def interpolation(self, labels: Labels) -> tuple[float, Interpolating | None]:
        """As many combinations as entries of the map: α J = 1/2; with noise the map there is infinitely large."""
        return counted(self, labels)

    def recovery(self, labels: Labels) -> float:
        """The same: without noise the linear equations have one solution from there on."""
        return INFINITE if labels.noise > 0.0 else self.interpolation(labels)[0]


def counted(channel: InputChannel, labels: Labels) -> tuple[float, Interpolating | None]:
    """Interpolation at as many combinations as entries of the map; with noise the map there is infinitely large."""
    state = None if labels.noise > 0.0 else Interpolating(channel.recovered, 0.0)
    return 1.0 / channel.unit / labels.informative, state
