"""What output channels with explicit directions share: leading eigenvectors of the target (P2), or the identity (P11).

A state is (q_b, m_b, learned elements, Sigma): the overlaps of the bulk, without the directions, and the elements of
the map in them.
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from onehead.aim.theory.output.averages import Averages
from onehead.aim.theory.output.base import NEARLY_ALIGNED, OutputChannel
from onehead.errors import OutsideDomain

Array = NDArray[np.float64]


class DirectionAverages(NamedTuple):
    """`Averages` of the bulk, and the average pull ``along`` the explicit directions (P3, P11.2)."""

    bulk: Averages
    along: tuple[float, ...]

    @property
    def loss(self) -> float:
        """E loss at the proximal point."""
        return self.bulk.loss

    @property
    def trace_square(self) -> float:
        """E tr K²."""
        return self.bulk.trace_square

    @property
    def switch_mass(self) -> float:
        """Gaussian mass where the global minimum is not the one reached from the label."""
        return self.bulk.switch_mass

    @property
    def numbers(self) -> Array:
        """None: solutions are not extrapolated along slopes of these averages."""
        return np.empty(0)

    def moved(self, slopes: Array, step: Array) -> "DirectionAverages":
        """Return the averages themselves, of which there are no slopes."""
        return self

    def envelope(self, sigma: float) -> float:
        """Moreau envelope E [loss + distance²/(2 Sigma)]."""
        return self.bulk.envelope(sigma)


@dataclass(frozen=True, kw_only=True)
class ExplicitDirectionsOutput(OutputChannel):
    """Abstract output channel with explicit directions."""

    @property
    def extra_levels(self) -> tuple[int, ...]:
        """No levels beyond the default ones."""
        return ()

    @property
    def uses_controls(self) -> bool:
        """False: no control variate here depends on whether proximal points have one minimum."""
        return False

    @property
    def bulk_label_power(self) -> float:
        """Q_b, variance of the noisy label coordinates without the directions."""
        return self.bulk_power_of(None)

    def bulk_power_of(self, power: float | None) -> float:
        """Return Q_b for labels of variance ``power``, such as Q0 of clean ones; of the noisy labels if it is None."""
        target = self.directions.target_eigenvalues
        return max((self.label_power if power is None else power) - float(np.dot(target, target)), 0.0)

    def label_values(self) -> tuple[float, ...]:
        """Return the values of a map whose logits equal the noisy labels."""
        return self.bulk_label_power, self.bulk_label_power, *self.directions.target_eigenvalues

    def nearly_aligned(self, *values: float) -> bool:
        """Whether learner and label are so close in the bulk that the Stein forms lose digits."""
        (q, m, *_), Q = values, self.bulk_label_power
        return Q * q <= 0.0 or 1.0 - m * m / (Q * q) < NEARLY_ALIGNED

    def zero_one(self, *values: float) -> float:
        """Refuse: hard labels are not derived with explicit directions."""
        raise OutsideDomain("hard labels are not derived with explicit directions.")

    def has_one_minimum(self, *state: float, level: int, points: tuple[Array, ...] | None = None) -> bool:
        """Return False: whether proximal points have one minimum is not examined here."""
        return False

    def continuation_error(self, *values: float) -> float:
        """Return zero: rows with explicit directions are sampled at every length."""
        return 0.0

    def from_half_length(self) -> Self:
        """Return the channel itself: no row is extrapolated."""
        return self
