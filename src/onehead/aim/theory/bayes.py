"""The Bayes-optimal learner: the posterior of the target, for a learner that knows how the data were generated (A)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onehead.aim.theory.order_parameters import INFINITE
from onehead.aim.theory.state_evolution import StateEvolution
from onehead.numerics.brent import brent_minimum, brent_root
from onehead.spectra.law import Law, threshold_integrals

Array = NDArray[np.float64]

RECOVERED = 1e-12  # variance s, in units of the target's power, below which the target is known exactly
ACCURACY = 1e-13  # tolerance of log s
STEP = 1e-3  # difference of log s for a derivative
# tolerance of the threshold, relative to the distance of two nodes; M is flat there, so that its error is the square
FLAT = 1e-3


@dataclass(frozen=True)
class Posterior:
    """Posterior of the target given the labels, equivalent to observing S* + sqrt(s) GOE (A.2).

    abar = α J linear measurements with Gaussian noise (A.1) determine s by F(s) + Δ/(2 s) = 2 abar with
    F(s) = 1 - 4 s int rho_s h² dx, h being the Hilbert transform of rho_s; the mean squared error is s F(s). For untied
    heads the right side is abar, and rho_s the law of singular values (A.10). All numbers are in reduced units.
    """

    problem: StateEvolution

    @property
    def power(self) -> float:
        """Q0, second moment of the target."""
        return self.problem.target_power

    @property
    def known(self) -> float:
        """q of the estimate without samples: the trace alone, which is zero for an untied head (A.3)."""
        channel = self.problem.input
        return (channel.scale * channel.target.mean) ** 2 if channel.sides == 1 else 0.0

    @property
    def per_ratio(self) -> float:
        """2 abar per unit of α; abar for untied heads."""
        return self.problem.output.geometry.unit * self.problem.informative

    def information(self, s: float) -> float:
        """Return F(s), which does not increase with s (A.3)."""
        nodes = self.problem.input.law(s).nodes()
        return 1.0 - 4.0 * s * float(nodes.mass @ nodes.hilbert**2) / float(nodes.mass.sum())

    def information_error(self, s: float) -> float:
        """Return the error of F(s): its distance from 1 - s (4 π²/3) int rho_s³ dx, which equals it (A.2)."""
        law = self.problem.input.law(s)
        nodes = law.nodes()
        other = 1.0 - s * (4.0 * np.pi**2 / 3.0) * float(nodes.mass @ law.density(nodes.x) ** 2) / float(
            nodes.mass.sum()
        )
        return abs(other - self.information(s)) + abs(float(nodes.mass.sum()) - 1.0)

    def ratio(self, s: float) -> float:
        """Return the sample ratio α at which the blur is s."""
        return (self.information(s) + 0.5 * self.problem.noise / s) / self.per_ratio

    def left(self, s: float) -> float:
        """Return V, the mean squared error of the posterior mean."""
        return s * self.information(s) if s > 0.0 else 0.0

    def blur(self, alpha: float) -> float:
        """Return s at a sample ratio; zero where the target is recovered exactly (A.3)."""
        if self.problem.noise == 0.0 and alpha >= self.problem.bayes_optimal:
            return 0.0
        high = float(np.log((0.5 * self.problem.noise + self.power) / (self.per_ratio * alpha)))
        return self.root(lambda s: self.ratio(s) / alpha - 1.0, high)

    def blur_of(self, left: float) -> float:
        """Return s at which the mean squared error is ``left``, below that of the trace alone."""
        high = float(np.log(self.power))
        while self.left(float(np.exp(high))) < left:
            high += 1.0
            if high > np.log(1e12 * self.power):
                return INFINITE
        return self.root(lambda s: left - self.left(s), high)

    def root(self, rising_below: Callable[[float], float], high: float) -> float:
        """Return the root of a function of s that is positive for small s, bracketed from log s = ``high``
        downwards.
        """
        low = high - 1.0
        while rising_below(float(np.exp(low))) < 0.0:
            low -= 1.0
            if low < np.log(RECOVERED * self.power):
                return 0.0
        return float(np.exp(brent_root(lambda x: rising_below(float(np.exp(x))), low, high, xtol=ACCURACY)))

    def left_error(self, s: float) -> float:
        """Return the error of V at its sample ratio, from that of F: V = 2 abar s - Δ/2."""
        if s == 0.0:
            return 0.0
        below, above = (self.ratio(s * float(np.exp(sign * STEP))) for sign in (-1.0, 1.0))
        steepness = max((below - above) / (2.0 * STEP) * self.per_ratio, 0.5 * self.problem.noise / s)
        moved = self.information_error(s) / max(steepness, 1e-300)
        return float(min(self.per_ratio * self.ratio(s) * s * moved, self.power)) + 1e-13 * self.power


def denoised(law: Law, s: float, x: Array) -> Array:
    """Return f(x) = x - 2 s h(x), the optimal estimate of the target's eigenvalues from those of S* + sqrt(s) GOE
    (A.5).

    It is interpolated linearly between the nodes of the law; beyond them h is the sum over the nodes.
    """
    nodes = law.nodes()
    inside = np.interp(x, nodes.x, nodes.x - 2.0 * s * nodes.hilbert)
    (low, _), (_, high) = law.edges[0], law.edges[-1]
    beyond = (x < low) | (x > high)
    found: Array = inside
    found[beyond] = x[beyond] - 2.0 * s * (1.0 / np.subtract.outer(x[beyond], nodes.x)) @ nodes.mass
    return found


def bayes_overlap(problem: StateEvolution, alpha: float) -> float:
    """Return q of the posterior mean, in reduced units: the largest m²/q of any map estimated from the data (A.4)."""
    posterior = Posterior(problem)
    return posterior.power - posterior.left(posterior.blur(alpha))


def logit_nuclear(posterior: Posterior, alpha: float) -> tuple[float, float]:
    """Return (q, m) of least squares on the logits of the labels with the best penalty λ Tr S (A.8).

    s = (Δ/2 + M(s))/(2 abar), M(s) = min over thresholds eps of Q0 - J - 2 eps B + 2 s A, with the integrals of (2.3).
    """
    noise, per_ratio = 0.5 * posterior.problem.noise, posterior.per_ratio * alpha
    high = float(np.log((noise + posterior.power) / per_ratio)) + 1e-9  # M is at most Q0: a map that is zero
    s = posterior.root(lambda s: (noise + _thresholded(posterior, s)[0]) / (per_ratio * s) - 1.0, high)
    return _thresholded(posterior, s)[1:] if s > 0.0 else (posterior.power, posterior.power)


def _thresholded(posterior: Posterior, s: float) -> tuple[float, float, float]:
    """Return M(s), and q and m at the best threshold: over all nodes of the law, then refined between the neighbours of
    the best.
    """
    law, power = posterior.problem.input.law(s), posterior.power

    def at(eps: float) -> tuple[float, float, float]:
        part = threshold_integrals(law, eps)
        m = part.J + eps * part.B - s * part.A
        return power + part.J - 2.0 * m, part.J, m

    x, mass, hilbert = (row[::-1] for row in law.nodes(0.0))
    count, second = np.cumsum(mass), np.cumsum(mass * x * x)
    reaction, slope = np.cumsum(2.0 * mass * x * hilbert), np.cumsum(2.0 * mass * hilbert)
    rough = -(second - x * x * count) + 2.0 * s * (reaction - x * slope)  # -J - 2 eps B + 2 s A at eps = x
    i = int(np.argmin(rough))
    low, high = float(np.append(x, 0.0)[i + 1]), float(x[max(i - 1, 0)])
    close = FLAT * (high - low)
    eps, _ = brent_minimum(lambda eps: at(eps)[0], low, high, xatol=close)
    return min(at(eps), at(0.0), (power, 0.0, 0.0))
