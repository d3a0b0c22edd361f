"""State evolution: the equations of a head, overlaps -> hats (2.2) -> overlaps (2.3), in reduced units (1.5).

In reduced units both temperatures are one: target eigenvalues are multiplied by β₀, Δ by β₀², λ is divided by β to the
degree of its penalty, and the solution is β S. The channels (`onehead.aim.theory.input`, `onehead.aim.theory.output`)
hold the equations; `onehead.aim.theory.build` makes them for a task and a learner. How to solve them is the business of
`onehead.aim.solve`.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from onehead.aim.theory.directions import Directions
from onehead.aim.theory.input.channel import InputChannel
from onehead.aim.theory.limits.separability import separability
from onehead.aim.theory.order_parameters import INFINITE, Hats, LabelStatistics, Overlaps, SpectralMap
from onehead.aim.theory.output.averages import ProxCache
from onehead.aim.theory.output.base import OutputChannel

Array = NDArray[np.float64]


class Units(NamedTuple):
    """Conversion between the units of the learner's own map S and reduced units (1.5)."""

    beta: float
    beta0: float
    degree: int

    @property
    def factors(self) -> Array:
        """Factors that convert q, m and Sigma to reduced units."""
        return np.array([self.beta**2, self.beta * self.beta0, 1.0])

    def reduced(self, q: float, m: float) -> tuple[float, float]:
        """Convert q = Tr S²/d and m = Tr S S*/d to reduced units."""
        return q * self.beta**2, m * self.beta * self.beta0

    def own(self, q: float, m: float) -> tuple[float, float]:
        """Convert q and m from reduced units to the learner's own."""
        return q / self.beta**2, m / (self.beta * self.beta0)

    def reduced_decay(self, decay: float) -> float:
        """Convert λ to reduced units."""
        return float(decay / self.beta**self.degree)

    def own_decay(self, decay: float) -> float:
        """Convert λ from reduced units to the learner's own."""
        return float(decay * self.beta**self.degree)


@final
@dataclass(frozen=True)
class StateEvolution:
    """The equations of one head.

    Attributes
    ----------
    input : InputChannel
        Hats to overlaps: parametrisation and weight decay.
    output : OutputChannel
        Overlaps to hats: averages over one sample.
    noise : float
        Δ in reduced units.
    units : Units
        Conversion to the learner's own units.
    """

    input: InputChannel
    output: OutputChannel
    noise: float
    units: Units

    def with_decay(self, decay: float) -> "StateEvolution":
        """Return the equations at another weight decay, in reduced units."""
        return replace(self, input=replace(self.input, decay=decay))

    @property
    def directions(self) -> Directions:
        """Explicit directions of the map."""
        return self.output.directions

    @property
    def sectors(self) -> int:
        """Number of sectors of the map: one, or its symmetric and its antisymmetric part (U5.1)."""
        return self.output.geometry.sectors

    @property
    def decay(self) -> float:
        """λ in reduced units; zero stands for the limit λ → 0⁺."""
        return self.input.decay

    @property
    def target_power(self) -> float:
        """Q0 in reduced units."""
        return self.input.target_power

    @property
    def label_power(self) -> float:
        """Q = Q0 + Δ/2: variance of the noisy label coordinates (1.4)."""
        return self.output.label_power

    @property
    def clean_power(self) -> float:
        """Variance of the label coordinates without noise: Q0, and what directions outside the bulk add."""
        return self.target_power + self.directions.separate_power

    @property
    def informative(self) -> float:
        """J, combinations of logits per sample that carry information (1.6)."""
        return self.output.geometry.informative

    @property
    def labels(self) -> LabelStatistics:
        """Statistics of the labels that the input channel needs."""
        power = self.label_power - self.directions.separate_power
        return LabelStatistics(power, self.noise, self.informative, self.directions.trace_gain)

    def step(
        self, overlaps: Overlaps, alpha: float, *, level: int, cache: ProxCache | None = None
    ) -> tuple[Hats, Overlaps]:
        """Apply the equations once: overlaps -> hats -> overlaps."""
        hats = self.output.hats(*overlaps.state, level=level, cache=cache).times(alpha)
        return hats, self.overlaps_of(hats)

    def overlaps_of(self, hats: Hats) -> Overlaps:
        """Return the overlaps of the map that the input channel finds for these hats."""
        channel = self.channel_at(hats)
        return self.directions.split(channel, hats, channel.overlaps(hats))

    def overlaps_near(self, hats: Hats, near: Overlaps) -> Overlaps:
        """Return rank, trace and spectral map for hats close to those of ``near``; q, m and Sigma are set by the
        caller.
        """
        found = self.directions.overlaps_near(self.input, hats, near)
        return found if found is not None else self.overlaps_of(hats)

    def hats(self, q: float, m: float, sigma: float, effective: tuple[float, ...] = ()) -> Hats:
        """Build hats of one sector from reported numbers; ``effective`` eigenvalues are in units of the target."""
        scale = self.units.beta0 / self.directions.length
        return Hats(q, m, sigma, tuple(scale * value for value in effective))

    def channel_at(self, hats: Hats | Overlaps) -> InputChannel:
        """Return the input channel with the effective eigenvalues of these hats, or of these overlaps."""
        return self.directions.channel_at(self.input, hats.effective)

    def interpolating(self, overlaps: Overlaps) -> Overlaps:
        """Return the overlaps of a limit in which labels are fitted exactly, from those of the input channel (4.1,
        4.4).
        """
        found = self.directions.interpolating(self.input, overlaps)
        if self.sectors == 1:
            return found
        q, m, sigma = (self.sectors * (value,) for value in (overlaps.q, overlaps.m, overlaps.sigma))
        return replace(self.zero, q_sectors=q, m_sectors=m, sigma_sectors=sigma, learned=found.learned)

    @property
    def zero(self) -> Overlaps:
        """The order parameters of the zero map."""
        none, known = self.sectors * (0.0,), self.directions
        where, learned = SpectralMap(0.0, 0.0, 0.0, 0.0), known.count * (0.0,)
        return Overlaps(none, none, none, 0.0, 0.0, where, learned, known.target_eigenvalues, known)

    def zero_at(self, hats: Hats) -> Overlaps:
        """Return the order parameters of a map whose bulk is zero, where the output channel gave these hats."""
        return replace(self.zero, effective=hats.effective, learned=self.directions.learned_without_bulk(hats))

    def best_map(self, c: float = 1.0) -> Overlaps:
        """Return the order parameters of c P, P being the best map that can represent the target (8.1)."""
        q, m, learned = self.directions.best_overlaps(self.input)
        return replace(
            self.zero,
            q_sectors=self.sectors * (c * c * q,),
            m_sectors=self.sectors * (c * m,),
            learned=tuple(c * element for element in learned),
        )

    def at_origin(self, alpha: float, level: int) -> tuple[float, Hats]:
        """Return the blur s of the first step from S = 0, and its hats; Sigmahat is that of a loss without curvature
        (4.6, P6).

        Near S = 0 the sectors share one spectral problem, in which the difference of their mhat acts as noise.
        """
        hats = self.directions.origin_hats(self.output, level).times(alpha)
        spread = float(np.var(hats.sectors[1])) * self.target_power
        return (hats.q + spread) / hats.m**2, hats

    @property
    def ridgeless(self) -> bool:
        """Whether the limit λ → 0⁺ is known where labels are fitted: for soft labels and maps of one sector (4,
        U12).
        """
        return not self.output.loss.hard and self.sectors == 1

    @property
    def interpolation(self) -> float:
        """Sample ratio up to which λ → 0⁺ fits every label (4.2, U7.1); infinite where it is not known."""
        if self.output.loss.hard:
            return self.separability[0] if self.separability is not None else INFINITE
        return self.input.interpolation(self.labels)[0]

    @property
    def separability(self) -> tuple[float, float] | None:
        """Sample ratio up to which hard labels are separable, and its error; None where it is not known (U7.1)."""
        geometry, full = self.output.geometry, not self.input.rank_limited(1.0)
        known = full and self.sectors == 1 and self.directions.separate and not self.directions.own_sector
        if not (self.output.loss.hard and geometry.unit == 1.0 and known):
            return None
        return separability(geometry, self.clean_power, self.noise)

    @property
    def recovery(self) -> float:
        """Sample ratio from which on λ → 0⁺ finds the target exactly (4.4); infinite if it never does, or is not
        known.
        """
        return self.input.recovery(self.labels) if self.ridgeless else INFINITE

    @property
    def narrow_interpolation(self) -> bool:
        """Whether the width of the learner limits interpolation, whose threshold is then a heuristic (3)."""
        return not np.isclose(self.interpolation, self.input.at_full_width.interpolation(self.labels)[0], rtol=1e-9)

    @property
    def narrow_recovery(self) -> bool:
        """Whether the width of the learner limits recovery, whose threshold is then a heuristic (4.4)."""
        return not np.isclose(self.recovery, self.input.at_full_width.recovery(self.labels), rtol=1e-9)

    @property
    def direct_interpolation(self) -> float:
        """Sample ratio of interpolation and recovery by direct training: as many combinations as entries of the map
        (4.5, 6).
        """
        if self.output.loss.hard:
            return self.interpolation
        return 1.0 / self.output.geometry.unit / self.informative

    @property
    def bayes_optimal(self) -> float:
        """Sample ratio of recovery by the Bayes-optimal learner: as many combinations as free eigenvector entries
        (4.5).
        """
        return (
            self.input.free_eigenvector_share / self.output.geometry.unit / self.informative
            if self.ridgeless
            else INFINITE
        )
