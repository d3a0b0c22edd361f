"""State evolution: the equations of a head, q, m, Sigma -> hats (2.2) -> q, m, Sigma (2.3), in reduced units (1.5).

Both temperatures are one here: target eigenvalues times β₀, Δ times β₀², λ over β to the degree of its penalty; the solution is
then β S. The two channels (`input`, `output`) hold the equations themselves; this is where a task and a learner become them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.aim.equations.geometry import geometry_of
from onehead.aim.equations.input import CHANNELS, InputChannel
from onehead.aim.equations.output import OutputChannel, ProxMemory
from onehead.aim.equations.unknowns import Hats, Labels, Overlaps
from onehead.aim.losses import loss_on
from onehead.aim.task import Learner, Task

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

    @classmethod
    def of(cls, task: Task, learner: Learner) -> "StateEvolution":
        """The equations of a task and a learner."""
        geometry, kind = geometry_of(task.attention, task.mask, task.tokens), CHANNELS[learner.param]
        units, noise = Units(learner.beta, task.beta0, kind.degree), task.beta0**2 * task.noise
        channel = kind(
            target=task.target,
            scale=task.beta0,
            decay=units.reduced_decay(learner.decay),
            width=learner.width,
            unit=geometry.unit,
        )
        output = OutputChannel(
            loss=loss_on(task.labels, learner.loss),
            geometry=geometry,
            label_power=task.beta0**2 * task.target.second_moment + 0.5 * noise,
            branch=learner.branch,
        )
        return cls(channel, output, noise, units)

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
        return hats, self.input.overlaps(hats)

    def inside(self, logs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Keep m² <= q Q0, which extrapolation can violate, of (log q, log m) and what follows them."""
        bound = 0.5 * (logs[0] + np.log(self.target_power)) + np.log1p(-1e-9)
        return np.array([logs[0], min(logs[1], bound), *logs[2:]])

    def at_origin(self, alpha: float, level: int) -> tuple[float, Hats]:
        """The blur s of the first step from S = 0, and its hats, Sigma being that of a loss without curvature (4.6)."""
        q0, m0 = self.output.at_origin(level)
        return q0 / (alpha * m0**2), Hats(alpha * q0, alpha * m0, alpha * m0)

    @property
    def interpolation(self) -> float:
        """Sample ratio up to which λ → 0⁺ fits every label (4.2)."""
        return self.input.interpolation(self.labels)[0]

    @property
    def recovery(self) -> float:
        """Sample ratio from which on λ → 0⁺ finds the target exactly (4.4); infinite if never."""
        return self.input.recovery(self.labels)

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
        return 1.0 / self.output.geometry.unit / self.informative

    @property
    def bayes_optimal(self) -> float:
        """Recovery by the Bayes-optimal learner: as many combinations as eigenvectors have to be told apart (4.5)."""
        return self.input.target.apart / self.output.geometry.unit / self.informative
