"""Input channels of maps that are trained as a product of factors (`Thresholded`) or directly (`Linear`), and those of
tied heads (2.3, 3, 6).

Weight decay on factors acts on eigenvalues of a tied map W'W, and on singular values of an untied map W_Q' W_K; what
differs follows from ``sides``.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from onehead.aim.theory.input.channel import InputChannel
from onehead.aim.theory.limits import ridgeless
from onehead.aim.theory.order_parameters import INFINITE, Hats, Interpolating, LabelStatistics, Overlaps, SpectralMap
from onehead.errors import OutsideDomain
from onehead.numerics.brent import brent_root
from onehead.spectra.law import ThresholdIntegrals, replicon_integral, threshold_integrals

Array = NDArray[np.float64]

# relative distance of edge and threshold below which the map counts as zero: q grows as its 7/2 power, and is below
# 1e-12
EMERGED = 3e-5


@dataclass(frozen=True, kw_only=True)
class Thresholded(InputChannel):
    """Abstract channel of factors: weight decay is λ d Tr S, or λ d |S|_* untied, which cuts eigenvalues or singular
    values below a threshold to zero (2.3, 3, U2.2).

    ``level_spread`` is the variance of the levels of a covariance of the tokens, which acts on the target as noise does
    (D8.4).
    """

    degree = 1
    lowest = 0.0
    limited_by_width = True

    level_spread: float = 0.0

    @cached_property
    def unrepresentable_spectrum(self) -> tuple[Array, Array]:
        """Negative eigenvalues of the target, and those beyond the width."""
        x, mass = self.target.unrepresentable_spectrum(self.width)
        return self.scale * x, mass

    @property
    def misfit_reason(self) -> str | None:
        """Negative eigenvalues, or more eigenvalues than the width; None if the target has neither."""
        if not self.unrepresentable_spectrum[0].size:
            return None
        if self.target.edges[0] < 0.0:
            return "the target has negative eigenvalues, and a map W'W has none"
        return "the learner is narrower than the target"

    def threshold(self, m_hat: float) -> float:
        """Return eps = 2λ/mhat minus the spectral shift."""
        return self.unit * self.decay / m_hat - self.spectral_shift

    def integrals(self, s: float, eps: float) -> ThresholdIntegrals:
        """Return J, B, A and the rank at noise variance s and threshold eps, limited by the width of the learner."""
        return threshold_integrals(self.law(s), eps, self.width)

    def map_at(self, hats: Hats) -> SpectralMap:
        """Return the spectral map with c = mhat/Sigmahat, s = qhat/mhat², eps = 2λ/mhat."""
        eps = self.threshold(hats.m)
        return SpectralMap(hats.q / hats.m**2, eps, eps, hats.m / hats.sigma)

    def rank_slopes(self, where: SpectralMap, rank: float, places: Array) -> Array:
        """Return the flow of mass through the threshold: rho Re g, - rho and rho p_k, as d rho/ds = d(rho Re g)/dx and
        likewise for an atom.
        """
        if self.rank_limited(rank):
            return np.zeros(2 + len(places))
        if self.sides == 1:
            rho, hilbert, shares = self.law(where.s).overlaps_at(where.eps, places)
            return np.asarray(rho * np.array([hilbert, -1.0, *shares]))
        # twice the mass above the threshold; an atom and its mirror image move in opposite directions (P14)
        rho, hilbert, shares = self.law(where.s).overlaps_at(where.eps, np.concatenate([places, -places]))
        own, mirrored = np.split(shares, 2)
        return np.asarray(rho * np.array([2.0 * hilbert, -2.0, *(own - mirrored)]))

    def learned(self, where: SpectralMap, places: Array) -> Array:
        """Return c ∫ rho p_k (x - eps)_+, where p_k is d times the share of the atom in the mass at x (8.2, P4).

        Untied, p_k - p_-k takes its place (P14).
        """
        if where.s == 0.0:  # the target itself
            return where.slope * places
        law = self.law(where.s)
        nodes = law.nodes(where.cut)
        weights = nodes.mass * (nodes.x - where.eps)
        found = law.eigenvector_overlaps(where.cut, places) @ weights
        if self.sides == 2:
            found = found - law.eigenvector_overlaps(where.cut, -places) @ weights
        return np.asarray(where.slope * found)

    def penalty(self, overlaps: Any) -> float:
        """Return λ Tr S/d."""
        return float(self.decay * overlaps.tau)

    def denoise(self, R: Array, sigma_hat: float) -> tuple[Array, float]:
        """Return S = O (r - 2λ)_+ O'/Sigmahat, untied U (r - λ)_+ V'/Sigmahat (U9), and Sigma from the difference
        quotients of the threshold.
        """
        if self.sides == 1:
            r, left = np.linalg.eigh(R)
            right = left.T
        else:
            left, r, right = np.linalg.svd(R)
        f = np.clip(r - self.unit * self.decay, 0.0, None)
        kept = f > 0.0
        # untied, quotients of r f over squares
        place, value = (r, f) if self.sides == 1 else (r**2, r * f)
        gap = place[:, None] - place[None, :]
        np.fill_diagonal(gap, 1.0)
        quotient = (value[:, None] - value[None, :]) / gap
        S = (left[:, kept] * f[kept]) @ right[kept] / sigma_hat
        own = 2.0 / self.sides * kept.sum()
        return S, float((quotient.sum() + own) / (len(R) ** 2 * sigma_hat))

    @property
    def emerges(self) -> bool:
        """Whether there is weight decay."""
        return self.decay > 0.0

    def vanishes(self, s: float, m_hat: float) -> bool:
        """Whether the upper edge of rho_s lies below the threshold."""
        top = self._upper_edge(s)
        return self.emerges and top <= (1.0 + EMERGED) * self.unit * self.decay / m_hat

    def largest_decay(self, s: float, m_hat: float) -> float:
        """Return mhat/2 times the upper edge of the shifted spectrum."""
        return float(m_hat * self._upper_edge(s) / self.unit)

    def _upper_edge(self, s: float) -> float:
        """Upper edge of the spectrum that the first step from S = 0 sees."""
        return self.law(s + self.level_spread * self.target_power).edges[-1][1] + self.spectral_shift

    @property
    def largest_sigma(self) -> float:
        """Infinite: weight decay on the factors does not bound Sigma."""
        return INFINITE

    def ratio_at_sigma(self, unit: Hats, sigma: float) -> float:
        """Solve α sb Sigma = A(qb/(α mb²), 2λ/(α mb)) for ``unit`` = (qb, mb, sb)."""

        def gap(log_alpha: float) -> float:
            alpha = float(np.exp(log_alpha))
            part = self.integrals(unit.q / (alpha * unit.m**2), self.threshold(alpha * unit.m))
            return alpha * unit.sigma * sigma - part.A

        high = -np.log(unit.sigma * sigma) + 1e-6  # A does not exceed one, except by its quadrature error
        low = high - 0.25
        while gap(high) < 0.0:  # the A of a narrow learner can exceed one, by a logarithm (3)
            high += 0.25
            if high > low + 10.0:
                raise OutsideDomain("no sample ratio belongs to this Sigma.")
        while gap(low) > 0.0:
            low -= 0.5
            if low < high - 40.0:
                raise OutsideDomain("no sample ratio belongs to this Sigma.")
        return float(np.exp(brent_root(gap, low, high, xtol=1e-13)))

    def decay_at_sigma(self, hats: Hats, sigma: float) -> float:
        """Solve Sigmahat Sigma = A(s, 2λ/mhat); A falls to zero at the upper edge of the spectrum (2.3).

        Beyond the Sigma of λ → 0⁺ the result is negative: no learner has it, but a search may pass the limit.
        """
        law = self.law(hats.q / hats.m**2)

        def gap(eps: float) -> float:
            return threshold_integrals(law, eps, self.width).A - hats.sigma * sigma

        top = law.edges[-1][1]
        low = 0.0 if gap(0.0) > 0.0 else -top
        if gap(low) <= 0.0:
            raise OutsideDomain("no weight decay belongs to this Sigma.")
        return hats.m * brent_root(gap, low, top, xtol=1e-13 * top) / self.unit

    def interpolating(self, labels: LabelStatistics, alpha: float, accuracy: float = 1e-13) -> Interpolating:
        """Solve two equations in (s, eps)."""
        return ridgeless.interpolating(self, labels, alpha, accuracy)

    def interpolation(self, labels: LabelStatistics) -> tuple[float, Interpolating | None]:
        """Return the sample ratio and the state at eps = 0; untied at full width A = 1 there, and α J = 1 (U4)."""
        if self.sides == 2 and self.width >= 1.0:
            return _counted(self, labels)
        return ridgeless.interpolation(self, labels)

    def recovery(self, labels: LabelStatistics) -> float:
        """Return the sample ratio from integrals over the semicircle; infinite where no map equals the target."""
        if labels.noise > 0.0 or self.misfit_reason is not None:
            return INFINITE
        return ridgeless.recovery(self, labels)


@dataclass(frozen=True, kw_only=True)
class IsotropicThresholded(Thresholded):
    """Abstract channel of factors of a map whose entries all have the same hats: one spectral problem (2.3)."""

    relaxes = True

    def _overlaps(self, hats: Hats) -> Overlaps:
        """Return q = c² J, m = c (J + eps B - s A), Sigma = A/Sigmahat with c = mhat/Sigmahat, s = qhat/mhat², eps =
        2λ/mhat.
        """
        s, eps, slope = hats.q / hats.m**2, self.threshold(hats.m), hats.m / hats.sigma
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

    def replicon(self, overlaps: Any, hats: Any) -> float | None:
        """Return A2/Sigmahat²."""
        if self.rank_limited(overlaps.rank):
            return None
        return replicon_integral(self.law(overlaps.map.s), overlaps.map.eps) / float(hats.sigma) ** 2


@final
@dataclass(frozen=True, kw_only=True)
class Eigenvalues(IsotropicThresholded):
    """S = W'W, a tied head: weight decay on the factor is λ d Tr S (2.3, 3)."""

    sides = 1


@dataclass(frozen=True, kw_only=True)
class Linear(InputChannel):
    """Abstract channel of a map that is trained itself, with weight decay λ d |S|²: nothing is set to zero (6)."""

    degree = 2
    relaxes = False
    lowest = -INFINITE
    limited_by_width = False

    @property
    def unrepresentable_spectrum(self) -> tuple[Array, Array]:
        """Empty: the map can be any symmetric matrix."""
        return np.empty(0), np.empty(0)

    @property
    def misfit_reason(self) -> str | None:
        """Return None, since the map can equal every target."""
        return None

    def _denominator(self, sigma_hat: float) -> float:
        return sigma_hat + 2.0 * self.unit * self.decay

    @cached_property
    def _mean(self) -> float:
        """Tr S*/d, which is zero for independent left and right singular vectors."""
        return self.scale * self.target.mean if self.sides == 1 else 0.0

    def rank_slopes(self, where: SpectralMap, rank: float, places: Array) -> Array:
        """Return zeros: the rank is full."""
        return np.zeros(2 + len(places))

    def learned(self, where: SpectralMap, places: Array) -> Array:
        """Return c λ_k: every eigenvalue is multiplied by c."""
        return where.slope * places

    def denoise(self, R: Array, sigma_hat: float) -> tuple[Array, float]:
        """Return S = R/D and Sigma = 1/D."""
        D = self._denominator(sigma_hat)
        return R / D, 1.0 / D

    @property
    def emerges(self) -> bool:
        """False: the map is never zero."""
        return False

    def vanishes(self, s: float, m_hat: float) -> bool:
        """Return False: the map is never zero."""
        return False

    def largest_decay(self, s: float, m_hat: float) -> float:
        """Return a λ that shrinks the map a hundredfold."""
        return 100.0 * m_hat

    @property
    def largest_sigma(self) -> float:
        """1/(4λ), reached without data."""
        return 1.0 / self._denominator(0.0) if self.decay > 0.0 else INFINITE

    def ratio_at_sigma(self, unit: Hats, sigma: float) -> float:
        """Solve α sb + 4λ = 1/Sigma."""
        ratio = (1.0 / sigma - self._denominator(0.0)) / unit.sigma
        if ratio <= 0.0:
            raise OutsideDomain("direct training cannot have so large a Sigma at this weight decay.")
        return ratio

    def decay_at_sigma(self, hats: Hats, sigma: float) -> float:
        """Solve Sigmahat + 4λ = 1/Sigma."""
        return (1.0 / sigma - hats.sigma) / (2.0 * self.unit)

    def recovery(self, labels: LabelStatistics) -> float:
        """Return the interpolation threshold: without noise the linear equations have one solution beyond it."""
        return INFINITE if labels.noise > 0.0 else self.interpolation(labels)[0]


@dataclass(frozen=True, kw_only=True)
class IsotropicLinear(Linear):
    """Abstract channel of a map that is trained itself, on isotropic tokens: every eigenvalue is multiplied by the same
    factor in the limit λ → 0⁺.
    """

    def map_at(self, hats: Hats) -> SpectralMap:
        """Return the spectral map with c = mhat/D and no threshold."""
        return SpectralMap(
            hats.q / hats.m**2, 0.0 - self.spectral_shift, self.lowest, hats.m / self._denominator(hats.sigma)
        )

    def penalty(self, overlaps: Any) -> float:
        """Return λ Tr S²/d."""
        return float(self.decay * overlaps.q)

    def interpolating(self, labels: LabelStatistics, alpha: float, accuracy: float = 1e-13) -> Interpolating:
        """Return the minimum-norm solution, in closed form."""
        share, Q0 = self.unit * alpha * labels.informative, self.target_power
        if share >= 1.0:
            raise OutsideDomain(
                "at its interpolation threshold direct training has an infinite test error; move alpha."
            )
        tau = share * (1.0 + labels.trace_gain) / (1.0 + share * labels.trace_gain) * self._mean
        lift = labels.trace_gain * (self._mean - tau)  # of the target as tokens that are not Gaussian show it (P11.6)
        Q, seen = labels.power + lift * (self._mean - tau), lift * (2.0 * self._mean + lift)
        m = share * (Q0 + lift * self._mean)
        q = share * (Q - share * Q0 + share * (seen - 2.0 * lift * self._mean)) / (1.0 - share)
        s = (q / share**2 - Q0 - seen) if share > 0.0 else INFINITE
        return Interpolating(Overlaps(q, m, INFINITE, tau, 1.0, SpectralMap(s, 0.0 - lift, self.lowest, share)), 0.0)

    def interpolation(self, labels: LabelStatistics) -> tuple[float, Interpolating | None]:
        """Return α J = 1/2, as many combinations as entries of the map; with noise the map there is infinitely
        large.
        """
        return _counted(self, labels)


@dataclass(frozen=True, kw_only=True)
class OneSectorLinear(IsotropicLinear):
    """Abstract channel of a map that is trained itself and has one sector (6).

    With D = Sigmahat + 4λ, untied Sigmahat + 2λ: q = (mhat² Q0 + qhat)/D², m = mhat Q0/D, Sigma = 1/D. With a spectral
    shift Q0 is Tr (S* + shift)²/d in q and Tr S*(S* + shift)/d in m.
    """

    def _overlaps(self, hats: Hats) -> Overlaps:
        D = self._denominator(hats.sigma)
        slope, lift = hats.m / D, self.spectral_shift
        q = (hats.m**2 * (self.target_power + lift * (2.0 * self._mean + lift)) + hats.q) / D**2
        m, tau = slope * (self.target_power + lift * self._mean), slope * (self._mean + lift)
        return Overlaps(q, m, 1.0 / D, tau, 1.0, SpectralMap(hats.q / hats.m**2, 0.0 - lift, self.lowest, slope))

    def replicon(self, overlaps: Any, hats: Any) -> float | None:
        """Return 1/D²."""
        return 1.0 / self._denominator(hats.sigma) ** 2


@final
@dataclass(frozen=True, kw_only=True)
class TiedLinear(OneSectorLinear):
    """Any symmetric map (6)."""

    sides = 1


def _counted(channel: InputChannel, labels: LabelStatistics) -> tuple[float, Interpolating | None]:
    """Return interpolation at as many combinations as entries of the map; with noise the map there is infinitely
    large.
    """
    state = None if labels.noise > 0.0 else Interpolating(channel.recovered, 0.0)
    return 1.0 / channel.unit / labels.informative, state
