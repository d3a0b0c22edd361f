"""A task and a learner in reduced units: both temperatures one, and the two channels as functions of each other.

Reduction (1.5): target eigenvalues times β₀, Δ times β₀², λ over β (weight decay on factors) or β² (direct); the
solution is then β S.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from onehead.aim.equations.output import Averages, OutputChannel, ProxMemory
from onehead.aim.losses import channel_named
from onehead.aim.targets import Target
from onehead.aim.task import Learner, Task
from onehead.errors import OutsideDomain
from onehead.spectra.law import Law, Scaled, ThresholdIntegrals, threshold_integrals

__all__ = ["Hats", "Overlaps", "Reduced", "SpectralMap", "reduce"]

SMALL_ANGLE = 0.02  # Stein forms divide by Q q - m^2; below this share of Q q they lose digits, derivatives do not


class Hats(NamedTuple):
    """The conjugate unknowns qhat, mhat, Sigmahat."""

    q: float
    m: float
    sigma: float


class SpectralMap(NamedTuple):
    """How the trained map follows from the blurred target: eigenvalues slope (x - eps)_+ with x ~ rho_s, x > cut.

    For direct training eps is minus infinity in effect: eigenvalues slope x; ``thresholded`` says which.
    """

    s: float
    eps: float
    cut: float
    slope: float
    thresholded: bool


class Overlaps(NamedTuple):
    """q = Tr S²/d, m = Tr S S*/d, Sigma, with tau = Tr S/d, the rank fraction and the map they come from."""

    q: float
    m: float
    sigma: float
    tau: float
    rank: float
    map: SpectralMap


@dataclass(frozen=True)
class Reduced:
    """The equations of one problem in reduced units."""

    target: Target
    scale: float
    noise: float
    tokens: int
    decay: float
    width: float
    direct: bool
    output: OutputChannel

    @cached_property
    def target_power(self) -> float:
        """Q0 in reduced units."""
        return self.scale**2 * self.target.second_moment

    @property
    def label_power(self) -> float:
        """Q = Q0 + Δ/2: variance of the noisy label coordinates (1.4)."""
        return self.output.label_power

    @property
    def informative(self) -> float:
        """J_T = T(T+1)/2 - 1, combinations of logits per sample that carry information (1.6)."""
        return self.tokens * (self.tokens + 1) / 2.0 - 1.0

    def law(self, s: float) -> Law:
        """rho_s of the reduced target."""
        if not 1e-20 < s / self.target_power < 1e13:
            raise OutsideDomain(f"the blur s = {s:.1e} of the target spectrum is out of any sensible range.")
        if self.scale == 1.0:
            return self.target.law(s)
        return Scaled(self.target.law(s / self.scale**2), self.scale)

    def integrals(self, s: float, eps: float) -> ThresholdIntegrals:
        """J, B, A and the rank at noise variance s and threshold eps, under the width of the learner."""
        return threshold_integrals(self.law(s), eps, self.width)

    def input_channel(self, hats: Hats) -> Overlaps:
        """Overlaps from the hats (2.3, 3, 6).

        Factorised: with c = mhat/Sigmahat, s = qhat/mhat², eps = 2λ/mhat,
        q = c² J, m = c (J + eps B - s A), Sigma = A/Sigmahat. Direct: with D = Sigmahat + 4λ,
        q = (mhat² Q0 + qhat)/D², m = mhat Q0/D, Sigma = 1/D.
        """
        if not (hats.m > 0.0 and hats.sigma > 0.0 and hats.q > 0.0):
            raise OutsideDomain(
                f"the output channel gave hats that are not positive ({hats.q:.2e}, {hats.m:.2e}, {hats.sigma:.2e}); "
                "the iterate has left the domain of the equations."
            )
        s = hats.q / hats.m**2
        if self.direct:
            D = hats.sigma + 4.0 * self.decay
            slope = hats.m / D
            tau = slope * float(self._mean)
            q = (hats.m**2 * self.target_power + hats.q) / D**2
            where = SpectralMap(s, 0.0, -np.inf, slope, False)
            return Overlaps(q, slope * self.target_power, 1.0 / D, tau, 1.0, where)
        eps = 2.0 * self.decay / hats.m
        slope = hats.m / hats.sigma
        part = self.integrals(s, eps)
        if not part.A > 0.0:
            raise OutsideDomain("every eigenvalue fell below the threshold: the map is zero here.")
        return Overlaps(
            slope**2 * part.J,
            slope * (part.J + eps * part.B - s * part.A),
            part.A / hats.sigma,
            slope * part.B,
            part.rank,
            SpectralMap(s, eps, part.cut, slope, True),
        )

    @cached_property
    def _mean(self) -> float:
        nodes = self.law(1.0).nodes()  # a semicircle has mean zero: any s will do
        return float(nodes.mass @ nodes.x)

    def unit_hats(self, averages: Averages, q: float, m: float, sigma: float, *, derivative: bool) -> Hats:
        """Hats per unit of alpha (2.2), in the Stein or in the derivative form."""
        Q = self.label_power
        q_hat = 2.0 * averages.distance / sigma**2
        if derivative:
            return Hats(q_hat, 2.0 * averages.cross / sigma, 2.0 * averages.trace / sigma)
        area = sigma * (Q * q - m * m)
        return Hats(
            q_hat,
            2.0 * (q * averages.along_label - m * averages.along_own) / area,
            -2.0 * (Q * averages.along_own - m * averages.along_label) / area,
        )

    def use_derivatives(self, q: float, m: float) -> bool:
        """Whether the derivative forms are the better ones (2.6).

        Stein forms lose digits when recovery is nearly perfect, and have the larger sampling error when T > 2; on the
        lattice of T = 2 they are the exact ones, jumps of the prox included.
        """
        return self.tokens > 2 or 1.0 - m * m / (self.label_power * q) < SMALL_ANGLE

    def output_channel(
        self,
        q: float,
        m: float,
        sigma: float,
        *,
        level: int,
        twin: bool = False,
        memory: ProxMemory | None = None,
    ) -> Hats:
        """Hats per unit of alpha at the given overlaps."""
        derivative = self.use_derivatives(q, m)
        detail = 1 if derivative else 0
        averages = self.output.averages(q, m, sigma, level=level, twin=twin, detail=detail, memory=memory)
        return self.unit_hats(averages, q, m, sigma, derivative=derivative)


def reduce(task: Task, learner: Learner) -> Reduced:
    """Bring a task and a learner to reduced units."""
    direct = learner.param == "direct"
    noise = task.beta0**2 * task.noise
    power = task.beta0**2 * task.target.second_moment + 0.5 * noise
    return Reduced(
        target=task.target,
        scale=task.beta0,
        noise=noise,
        tokens=task.tokens,
        decay=learner.decay / (learner.beta**2 if direct else learner.beta),
        width=learner.width,
        direct=direct,
        output=OutputChannel(
            channel=channel_named(learner.loss), tokens=task.tokens, label_power=power, branch=learner.branch
        ),
    )
