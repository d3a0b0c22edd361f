"""State evolution: the equations of a head, q, m, Sigma -> hats (2.2) -> q, m, Sigma (2.3), in reduced units (1.5).

Both temperatures are one here: target eigenvalues times β₀, Δ times β₀², λ over β to the degree of its penalty; the solution is
then β S. The two channels (`input`, `output`) hold the equations themselves; `head` makes them of a task and a learner.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.aim.equations.averages import ProxMemory
from onehead.aim.equations.input import InputChannel
from onehead.aim.equations.output import OutputChannel
from onehead.aim.equations.separability import separability
from onehead.aim.equations.unknowns import INFINITE, AnyHats, AnyOverlaps, Hats, Labels, Overlaps, SpectralMap

__all__ = ["StateEvolution", "Units"]


class Units(NamedTuple):
    """From the units of the learner's own map S to reduced ones and back (1.5)."""

    beta: float
    beta0: float
    degree: int

    @property
    def factors(self) -> NDArray[np.float64]:
        """What q, m and Sigma are multiplied by on the way to reduced units."""
        return np.array([self.beta**2, self.beta * self.beta0, 1.0])

    def reduced(self, q: float, m: float) -> tuple[float, float]:
        """q = Tr S²/d and m = Tr S S*/d in reduced units."""
        return q * self.beta**2, m * self.beta * self.beta0

    def own(self, q: float, m: float) -> tuple[float, float]:
        """The way back."""
        return q / self.beta**2, m / (self.beta * self.beta0)

    def reduced_decay(self, decay: float) -> float:
        """λ in reduced units."""
        return float(decay / self.beta**self.degree)

    def own_decay(self, decay: float) -> float:
        """λ in the learner's own units."""
        return float(decay * self.beta**self.degree)


@dataclass(frozen=True)
class StateEvolution:
    """The equations of one head."""

    input: InputChannel
    output: OutputChannel
    noise: float
    units: Units

    def with_decay(self, decay: float) -> "StateEvolution":
        """The same head at another weight decay, in reduced units."""
        return replace(self, input=replace(self.input, decay=decay))

    @property
    def decay(self) -> float:
        """λ in reduced units; zero is the limit."""
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
    def informative(self) -> float:
        """J, combinations of logits per sample that carry information (1.6)."""
        return self.output.geometry.informative

    @property
    def labels(self) -> Labels:
        """What the input channel must know of the labels."""
        return Labels(self.label_power, self.noise, self.informative)

    def turn(
        self, state: Sequence[float], alpha: float, *, level: int, twin: bool = False, memory: ProxMemory | None = None
    ) -> tuple[Hats, Overlaps]:
        """One turn of the equations: overlaps -> hats -> overlaps."""
        hats = self.output.hats(*state, level=level, twin=twin, memory=memory).times(alpha)
        return hats, self.overlaps_of(hats)

    def overlaps_of(self, hats: Any) -> Any:
        """The input half of a turn: hats -> overlaps."""
        return self.input.overlaps(hats)

    def beside(self, hats: Any, near: Any) -> Any:
        """Overlaps whose unknowns are told elsewhere: rank, trace and spectral map at hats close to those of ``near``."""
        return self.overlaps_of(hats)

    def hats_of(self, q: float, m: float, sigma: float, effective: Sequence[float]) -> Any:
        """Hats from numbers; ``effective`` eigenvalues, in units of the target, are those of leading directions."""
        return Hats(q, m, sigma)

    def channel_at(self, hats: AnyHats | AnyOverlaps) -> InputChannel:
        """The input channel as it is where the output channel gave these hats, or the map has these overlaps."""
        return self.input

    def limit(self, overlaps: Overlaps) -> Any:
        """The overlaps of a limit in which labels are fitted exactly (4.1, 4.4)."""
        return overlaps

    def state_of(self, y: NDArray[np.float64]) -> Sequence[float]:
        """The state of the numbers that are solved for: of logarithms."""
        return np.exp(y).tolist()  # type: ignore[no-any-return]

    @property
    def nudges(self) -> NDArray[np.float64]:
        """Small changes of the numbers that are solved for; smaller m and larger q stay inside m² <= q Q0."""
        return np.array([1e-3, -1e-3, 1e-3])

    @property
    def relaxes(self) -> bool:
        """Whether a solution can be reached by letting λ fall from where the map vanishes."""
        return self.input.relaxes

    @property
    def by_sigma(self) -> bool:
        """Whether the equations can be solved at a given Sigma."""
        return self.input.by_sigma

    @property
    def reach(self) -> tuple[float, ...]:
        """What a map can hold of the target, as an average over fresh samples knows it: its power (8.1)."""
        return (self.input.reachable_power,)

    @property
    def leading(self) -> int:
        """Leading directions that are averaged exactly (P8)."""
        return 0

    @property
    def told(self) -> int:
        """Directions of the map that are told apart from the rest."""
        return 0

    @property
    def origin_level(self) -> int:
        """Rule on which it is found out whether the map is zero: a coarse one where points are sampled."""
        return 0 if self.output.geometry.sampled else 1

    def inside(self, logs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Keep m² <= q Q0, which extrapolation can violate, of (log q, log m) and what follows them."""
        bound = 0.5 * (logs[0] + np.log(self.target_power)) + np.log1p(-1e-9)
        return np.array([logs[0], min(logs[1], bound), *logs[2:]])

    @property
    def zero(self) -> Overlaps:
        """The overlaps of no map."""
        return Overlaps(0.0, 0.0, 0.0, 0.0, 0.0, SpectralMap(0.0, 0.0, 0.0, 0.0))

    def zero_at(self, hats: Any) -> Any:
        """The same where the output channel gave these hats."""
        return self.zero

    @property
    def isotropic(self) -> "StateEvolution | None":
        """The same head if all its logits were independent; None if it has one sector anyway."""
        return None

    def even(self, logs: NDArray[np.float64]) -> NDArray[np.float64]:
        """The state whose sectors are all like this one; there is one."""
        return logs

    def at_origin(self, alpha: float, level: int) -> tuple[float, Hats]:
        """The blur s of the first step from S = 0, and its hats, Sigma being that of a loss without curvature (4.6)."""
        q0, m0 = self.output.at_origin(level)
        return q0 / (alpha * m0**2), Hats(alpha * q0, alpha * m0, alpha * m0)

    @property
    def ridgeless(self) -> bool:
        """Whether the limit λ → 0⁺ is known where the labels are fitted: of soft labels, and of a map of one sector (4, U12)."""
        return not self.output.loss.hard and self.output.geometry.sectors == 1

    @property
    def interpolation(self) -> float:
        """Sample ratio up to which λ → 0⁺ fits every label (4.2, U7.1); infinite where it is not known."""
        if self.output.loss.hard:
            return self.separability[0] if self.separability is not None else INFINITE
        return self.input.interpolation(self.labels)[0]

    @property
    def separability(self) -> tuple[float, float] | None:
        """Sample ratio up to which hard labels are separable, and its error, where that is known (U7.1)."""
        geometry, full = self.output.geometry, not self.input.narrow(1.0)
        if not (self.output.loss.hard and geometry.unit == 1.0 and geometry.sectors == 1 and full):
            return None
        return separability(geometry, self.target_power, self.noise)

    @property
    def recovery(self) -> float:
        """Sample ratio from which on λ → 0⁺ finds the target exactly (4.4); infinite if never, or not known."""
        return self.input.recovery(self.labels) if self.ridgeless else INFINITE

    @property
    def narrow_interpolation(self) -> bool:
        """Whether interpolation ends where it does because of the width of the learner: a heuristic (3)."""
        return not np.isclose(self.interpolation, self.input.wide.interpolation(self.labels)[0], rtol=1e-9)

    @property
    def narrow_recovery(self) -> bool:
        """The same of recovery (4.4)."""
        return not np.isclose(self.recovery, self.input.wide.recovery(self.labels), rtol=1e-9)

    @property
    def direct_interpolation(self) -> float:
        """Interpolation and recovery of direct training: as many combinations as entries, whatever the target (4.5, 6)."""
        if self.output.loss.hard:
            return self.interpolation
        return 1.0 / self.output.geometry.unit / self.informative

    @property
    def bayes_optimal(self) -> float:
        """Recovery by the Bayes-optimal learner: as many combinations as eigenvectors have to be told apart (4.5)."""
        return self.input.apart / self.output.geometry.unit / self.informative if self.ridgeless else INFINITE
