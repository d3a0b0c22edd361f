"""Explicit directions of the map: order parameters that stand beside q, m and Sigma of the sectors.

A few directions of the map may need an order parameter of their own: leading eigenvectors of the target, whose logits
are not Gaussian (P1), the identity, where tokens are not Gaussian (P11), or a field that all queries share, where
tokens have a mean. `Directions` says how many there are, how the numbers that the solver iterates on follow from the
order parameters, and how the input channel treats them. `NO_DIRECTIONS` is the head without any.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from onehead.results import Result

if TYPE_CHECKING:
    from onehead.aim.theory.input.channel import InputChannel
    from onehead.aim.theory.order_parameters import Hats, Overlaps
    from onehead.aim.theory.output.base import OutputChannel
    from onehead.aim.theory.state_evolution import Units

Array = NDArray[np.float64]

MAXIMUM_COSINE = 1.0 - 1e-9  # between map and target; closer ones lose their digits
SMALLEST_OVERLAP = 1e-300  # stands for zero in a logarithm
SMALLEST_BULK = 1e-6  # share of q that a bulk has at least where a state is guessed


@dataclass(frozen=True, kw_only=True)
class Direction(Result):
    """A leading direction of the target (P3, P4), or the identity for tokens of another kurtosis (P11).

    Attributes
    ----------
    target : float
        Eigenvalue of S* in this direction (trace over d for the identity).
    effective : float
        Eigenvalue λ_eff that the training data effectively have in this direction.
    learned : float
        Element of S in this direction.
    """

    target: float
    effective: float
    learned: float


@dataclass(frozen=True, kw_only=True)
class Directions(ABC):
    """Explicit directions of a head and their treatment by the input channel.

    Abstract: directions inside the bulk of the map are `BulkDirections`, fields outside of it `SharedFields`.

    Attributes
    ----------
    sampled : bool
        Whether averages over the logits of the directions need sampled points.
    separate : bool
        Whether the directions lie outside the bulk of the map: its q and m do not count them, its input channel ignores
        them.
    target_eigenvalues : tuple of float
        Eigenvalue of the target in each direction divided by ``length``, in reduced units.
    bulk_power : float
        Q0 without the directions: second moment of the target in all others, in reduced units and without noise.
    length : float
        Unit in which ``target_eigenvalues`` and the learned elements are measured.
    excess : float
        Kurtosis of the entries of a token minus 3.
    own_sector : bool
        Whether logits of a separate field do not simply add to those of the bulk, so that more than totals matter.
    """

    sampled: ClassVar[bool] = False
    separate: ClassVar[bool]
    gain_per_excess: ClassVar[float] = 0.0  # `trace_gain` per unit of excess kurtosis

    target_eigenvalues: tuple[float, ...] = ()
    bulk_power: float = 0.0
    length: float = 1.0
    excess: float = 0.0
    own_sector: bool = False

    @property
    def trace_gain(self) -> float:
        """Excess weight with which labels show the trace of a map, relative to its other directions (P11.6)."""
        return self.excess * self.gain_per_excess

    @property
    def count(self) -> int:
        """Number of explicit directions."""
        return len(self.target_eigenvalues)

    @property
    def separate_power(self) -> float:
        """Variance that separate directions add to the label coordinates."""
        return float(np.dot(self.target_eigenvalues, self.target_eigenvalues)) if self.separate else 0.0

    @abstractmethod
    def overlap_coordinates(self, q: Array, m: Array) -> Array:
        """Convert the overlaps of all sectors to the numbers that the solver iterates on."""

    @abstractmethod
    def overlaps_at(self, coordinates: Array) -> tuple[Array, Array]:
        """Return (q, m) of all sectors from the numbers that the solver iterates on."""

    @abstractmethod
    def output_values(self, q: Array, m: Array, learned: Array) -> tuple[float, ...]:
        """Return the arguments of averages over fresh samples, from the overlaps of the sectors and the elements in the
        directions.
        """

    @abstractmethod
    def isotropic_overlaps(self, q: float, m: float) -> tuple[float, float, tuple[float, ...]]:
        """Split q and m of a map that has learned all directions equally well into those of the bulk and the learned
        elements.
        """

    @abstractmethod
    def origin_hats(self, output: "OutputChannel", level: int) -> "Hats":
        """Return the hats per unit of α where the bulk of the map is zero (4.6)."""

    @abstractmethod
    def learned_without_bulk(self, hats: "Hats") -> tuple[float, ...]:
        """Return the elements of the map in the directions where its bulk is zero."""

    @abstractmethod
    def channel_at(self, channel: "InputChannel", effective: tuple[float, ...]) -> "InputChannel":
        """Return the input channel whose target has the ``effective`` eigenvalues in the directions."""

    @abstractmethod
    def split(self, channel: "InputChannel", hats: "Hats", overlaps: "Overlaps") -> "Overlaps":
        """Separate the directions from the ``overlaps`` of a whole map that ``channel`` gave for ``hats``."""

    @abstractmethod
    def overlaps_near(self, channel: "InputChannel", hats: "Hats", near: "Overlaps") -> "Overlaps | None":
        """Return rank and spectral map at ``hats`` close to those of ``near`` to first order; None where it is no
        shortcut.
        """

    @abstractmethod
    def interpolating(self, channel: "InputChannel", overlaps: "Overlaps") -> "Overlaps":
        """Separate the directions from the overlaps of a limit in which labels are fitted exactly (4.1, 4.4)."""

    @abstractmethod
    def best_overlaps(self, channel: "InputChannel") -> tuple[float, float, tuple[float, ...]]:
        """Return q and m without the directions, and the elements in them, of the best map that can represent the
        target (8.1).
        """

    @abstractmethod
    def reported(self, overlaps: "Overlaps", units: "Units") -> dict[str, Any]:
        """Return the fields of a `Prediction` that describe the directions, in the learner's units."""

    @abstractmethod
    def learned_of(self, point: Any, units: "Units") -> tuple[float, ...] | None:
        """Return the learned elements from the fields of a `Prediction`, the inverse of `reported`; None where it
        reports other directions.
        """

    @abstractmethod
    def explained(self, point: Any) -> list[str]:
        """Describe the fields of `reported` in sentences."""


@dataclass(frozen=True, kw_only=True)
class BulkDirections(Directions):
    """Abstract class of directions inside the bulk of the map: its q and m count them."""

    separate = False

    def output_values(self, q: Array, m: Array, learned: Array) -> tuple[float, ...]:
        """Return the overlaps of the bulk, then the elements in the directions."""
        return *q.tolist(), *m.tolist(), *learned.tolist()

    def isotropic_overlaps(self, q: float, m: float) -> tuple[float, float, tuple[float, ...]]:
        """Split q and m of a map that has learned the directions as well as all others."""
        target = np.array(self.target_eigenvalues)
        share = m / (self.bulk_power + float(target @ target))
        learned = share * target
        bulk = max(q - float(learned @ learned), SMALLEST_BULK * q)
        return bulk, share * self.bulk_power, tuple(learned.tolist())

    def origin_hats(self, output: "OutputChannel", level: int) -> "Hats":
        """Return the hats per unit of α at S = 0."""
        return output.at_origin(level)

    def learned_without_bulk(self, hats: "Hats") -> tuple[float, ...]:
        """Return zeros."""
        return self.count * (0.0,)

    def reported(self, overlaps: "Overlaps", units: "Units") -> dict[str, Any]:
        """Return a `Direction` for each."""
        elements = zip(self.target_eigenvalues, overlaps.effective, overlaps.learned, strict=True)
        return {
            "directions": tuple(
                Direction(
                    target=self.length * target / units.beta0,
                    effective=self.length * effective / units.beta0,
                    learned=self.length * learned / units.beta,
                )
                for target, effective, learned in elements
            )
        }

    def learned_of(self, point: Any, units: "Units") -> tuple[float, ...] | None:
        """Return the elements of S in the directions of a point."""
        if len(point.directions) != self.count:
            return None
        return tuple(units.beta * one.learned / self.length for one in point.directions)

    def explained(self, point: Any) -> list[str]:
        """Return nothing: the table of directions speaks for itself."""
        return []


@dataclass(frozen=True, kw_only=True)
class SharedFields(Directions):
    """Abstract class of fields outside the bulk of the map, which all queries share; the solver iterates on logarithms
    of q, m and Sigma of every sector, and on the fields.
    """

    separate = True

    def overlap_coordinates(self, q: Array, m: Array) -> Array:
        """Return log q, then log m, of every sector; a negative m counts as zero."""
        return np.asarray(np.log(np.maximum(np.concatenate([q, m]), SMALLEST_OVERLAP)))

    def overlaps_at(self, coordinates: Array) -> tuple[Array, Array]:
        """Return (q, m) of every sector from their logarithms."""
        q, m = np.split(np.exp(coordinates), 2)
        return q, m

    def channel_at(self, channel: "InputChannel", effective: tuple[float, ...]) -> "InputChannel":
        """Return the channel itself."""
        return channel

    def overlaps_near(self, channel: "InputChannel", hats: "Hats", near: "Overlaps") -> "Overlaps | None":
        """Return None: the input channel is cheap enough to be evaluated again."""
        return None


@final
@dataclass(frozen=True, kw_only=True)
class NoDirections(SharedFields):
    """No explicit direction."""

    def output_values(self, q: Array, m: Array, learned: Array) -> tuple[float, ...]:
        """Return the overlaps of the sectors."""
        return *q.tolist(), *m.tolist()

    def isotropic_overlaps(self, q: float, m: float) -> tuple[float, float, tuple[float, ...]]:
        """Return q and m themselves."""
        return q, m, ()

    def origin_hats(self, output: "OutputChannel", level: int) -> "Hats":
        """Return the hats per unit of α at S = 0."""
        return output.at_origin(level)

    def learned_without_bulk(self, hats: "Hats") -> tuple[float, ...]:
        """Return nothing."""
        return ()

    def split(self, channel: "InputChannel", hats: "Hats", overlaps: "Overlaps") -> "Overlaps":
        """Return the overlaps unchanged."""
        return overlaps

    def interpolating(self, channel: "InputChannel", overlaps: "Overlaps") -> "Overlaps":
        """Return the overlaps unchanged."""
        return overlaps

    def best_overlaps(self, channel: "InputChannel") -> tuple[float, float, tuple[float, ...]]:
        """Return the representable power of the target as q and as m."""
        power = channel.representable_power
        return power, power, ()

    def reported(self, overlaps: "Overlaps", units: "Units") -> dict[str, Any]:
        """Return nothing."""
        return {}

    def learned_of(self, point: Any, units: "Units") -> tuple[float, ...] | None:
        """Return nothing, or None where the point has directions."""
        return None if point.directions else ()

    def explained(self, point: Any) -> list[str]:
        """Return nothing."""
        return []


NO_DIRECTIONS = NoDirections()
