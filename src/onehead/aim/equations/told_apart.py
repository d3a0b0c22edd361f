"""What output channels share that tell some directions of the map apart from the rest of it: leading ones (P2), the identity (P11).

A state is (q_b, m_b, strengths, Sigma): overlaps of the rest, and what the map has along every direction that is told apart.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from onehead.aim.equations.averages import Averages, ProxMemory
from onehead.aim.equations.output import SMALL_ANGLE, OutputChannel
from onehead.aim.equations.unknowns import Directions, LeadingHats

__all__ = ["ToldApart", "ToldAverages"]


class ToldAverages(NamedTuple):
    """`Averages` whose label and own parts are those of the rest, and what the pull has ``along`` what is told apart (P3, P11.2)."""

    plain: Averages
    along: tuple[float, ...]

    @property
    def loss(self) -> float:
        """E loss at the prox."""
        return self.plain.loss

    @property
    def trace_square(self) -> float:
        """E tr K²."""
        return self.plain.trace_square

    @property
    def switch_mass(self) -> float:
        """Mass where the global minimum is not the one reached from the label."""
        return self.plain.switch_mass

    def envelope(self, sigma: float) -> float:
        """What the prox attains, step and loss."""
        return self.plain.envelope(sigma)


@dataclass(frozen=True, kw_only=True)
class ToldApart(OutputChannel):
    """An output channel with directions of the target told apart."""

    attention: ClassVar[str] = "tied"  # whose rows these are
    controlled = False

    directions: Directions

    @property
    def finer(self) -> tuple[int, ...]:
        """None: the usual rule is as fine as it gets."""
        return ()

    @property
    def rest(self) -> float:
        """Q_b, variance of the noisy label coordinates without the directions."""
        return self._rest(None)

    def _rest(self, power: float | None) -> float:
        """The same for labels of another power: those without noise."""
        told = self.directions.told
        return max((self.label_power if power is None else power) - float(np.dot(told, told)), 0.0)

    def even(self, q: float, m: float) -> tuple[float, ...]:
        """A map that has learned the directions as well as all else."""
        told, power = np.array(self.directions.told), self.directions.rest
        share = m / (power + float(told @ told))
        strengths = share * told
        return max(q - float(strengths @ strengths), 1e-6 * q), share * power, *strengths.tolist()

    @property
    def label(self) -> tuple[float, ...]:
        """Logits of the labels."""
        return self.rest, self.rest, *self.directions.told

    def narrow_angle(self, *pair: float) -> bool:
        """Whether the rest of learner and label are too close for the Stein forms."""
        q, m, *_ = pair
        return self.rest * q <= 0.0 or 1.0 - m * m / (self.rest * q) < SMALL_ANGLE

    def hats(self, *state: float, level: int, twin: bool = False, memory: ProxMemory | None = None) -> LeadingHats:  # type: ignore[override]
        """Hats per unit of α, and what the input channel sees of the directions."""
        derivative = self.use_derivatives(*state[:-1])
        averages: Any = self.averages(*state, level=level, twin=twin, detail=int(derivative), memory=memory)
        found: Any = self.hats_of(averages, *state, derivative=derivative)
        return found  # type: ignore[no-any-return]
