"""Explicit directions of the map: order parameters that stand beside q, m and Sigma of the sectors.

A few directions of the map may need an order parameter of their own: leading eigenvectors of the target, whose logits
are not Gaussian (P1), the identity, where tokens are not Gaussian (P11), or a field that all queries share, where
tokens have a mean. `Directions` says how many there are, how the numbers that the solver iterates on follow from the
order parameters, and how the input channel treats them. `NO_DIRECTIONS` is the head without any.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from onehead.aim.theory.input.channel import InputChannel
    from onehead.aim.theory.order_parameters import Hats, Overlaps
    from onehead.aim.theory.output.base import OutputChannel

__all__ = [
    "MAXIMUM_COSINE",
    "NO_DIRECTIONS",
    "SMALLEST_OVERLAP",
    "Directions",
    "NoDirections",
    "log_overlaps",
    "overlaps_from_logs",
    "split_isotropic",
]

Array = NDArray[np.float64]

MAXIMUM_COSINE = 1.0 - 1e-9  # between map and target; closer ones lose their digits
SMALLEST_OVERLAP = 1e-300  # stands for zero in a logarithm
SMALLEST_BULK = 1e-6  # share of q that a bulk has at least where a state is guessed


@dataclass(frozen=True, kw_only=True)
class Directions(ABC):
    """Explicit directions of a head and their treatment by the input channel.

    Attributes
    ----------
    target_eigenvalues : tuple of float
        Eigenvalue of the target in each direction divided by ``length``, in reduced units.
    bulk_power : float
        Q0 without the directions: second moment of the target in all others, in reduced units and without noise.
    length : float
        Unit in which ``target_eigenvalues`` and the learned elements are measured.
    """

    target_eigenvalues: tuple[float, ...] = ()
    bulk_power: float = 0.0
    length: float = 1.0

    @property
    def count(self) -> int:
        """Number of explicit directions."""
        return len(self.target_eigenvalues)

    @property
    def sampled(self) -> bool:
        """Whether averages over the logits of the directions need sampled points."""
        return False

    @property
    def separate(self) -> bool:
        """Whether the directions lie outside the bulk of the map: its q and m do not count them, its input channel
        ignores them.
        """
        return False

    @property
    def separate_power(self) -> float:
        """Variance that separate directions add to the label coordinates."""
        return float(np.dot(self.target_eigenvalues, self.target_eigenvalues)) if self.separate else 0.0

    @property
    def trace_gain(self) -> float:
        """Excess weight with which labels show the trace of a map, relative to its other directions (P11.6)."""
        return 0.0

    @abstractmethod
    def overlap_coordinates(self, q: Array, m: Array) -> Array:
        """Convert the overlaps of all sectors to the numbers that the solver iterates on."""

    @abstractmethod
    def overlaps_at(self, coordinates: Array) -> tuple[Array, Array]:
        """Return (q, m) of all sectors from the numbers that the solver iterates on."""

    def output_values(self, q: Array, m: Array, learned: Array) -> tuple[float, ...]:
        """Return the arguments of averages over fresh samples: overlaps of the sectors, then elements in the
        directions.
        """
        return *q.tolist(), *m.tolist(), *learned.tolist()

    @abstractmethod
    def isotropic_overlaps(self, q: float, m: float) -> tuple[float, float, tuple[float, ...]]:
        """Split q and m of a map that has learned all directions equally well into those of the bulk and the learned
        elements.
        """

    def origin_hats(self, output: "OutputChannel", level: int) -> "Hats":
        """Return the hats per unit of α where the bulk of the map is zero (4.6)."""
        return output.at_origin(level)

    def learned_without_bulk(self, hats: "Hats") -> tuple[float, ...]:
        """Return the elements of the map in the directions where its bulk is zero."""
        return self.count * (0.0,)

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


def log_overlaps(q: Array, m: Array) -> Array:
    """Return log q, then log m, of every sector; a negative m counts as zero."""
    return np.asarray(np.log(np.maximum(np.concatenate([q, m]), SMALLEST_OVERLAP)))


def overlaps_from_logs(coordinates: Array) -> tuple[Array, Array]:
    """Return (q, m) of every sector from their logarithms."""
    q, m = np.split(np.exp(coordinates), 2)
    return q, m


def split_isotropic(directions: Directions, q: float, m: float) -> tuple[float, float, tuple[float, ...]]:
    """Split q and m of a map that has learned directions inside its bulk as well as all others."""
    target = np.array(directions.target_eigenvalues)
    share = m / (directions.bulk_power + float(target @ target))
    learned = share * target
    bulk = max(q - float(learned @ learned), SMALLEST_BULK * q)
    return bulk, share * directions.bulk_power, tuple(learned.tolist())


@final
@dataclass(frozen=True, kw_only=True)
class NoDirections(Directions):
    """No explicit direction: the solver iterates on logarithms of q, m and Sigma of every sector."""

    @property
    def separate(self) -> bool:
        """True: there is nothing but the bulk."""
        return True

    def overlap_coordinates(self, q: Array, m: Array) -> Array:
        """Return log q, then log m, of every sector; a negative m counts as zero."""
        return log_overlaps(q, m)

    def overlaps_at(self, coordinates: Array) -> tuple[Array, Array]:
        """Return (q, m) from their logarithms."""
        return overlaps_from_logs(coordinates)

    def isotropic_overlaps(self, q: float, m: float) -> tuple[float, float, tuple[float, ...]]:
        """Return q and m themselves."""
        return q, m, ()

    def channel_at(self, channel: "InputChannel", effective: tuple[float, ...]) -> "InputChannel":
        """Return the channel itself."""
        return channel

    def split(self, channel: "InputChannel", hats: "Hats", overlaps: "Overlaps") -> "Overlaps":
        """Return the overlaps unchanged."""
        return overlaps

    def overlaps_near(self, channel: "InputChannel", hats: "Hats", near: "Overlaps") -> "Overlaps | None":
        """Return None: the input channel is cheap enough to be evaluated again."""
        return None

    def interpolating(self, channel: "InputChannel", overlaps: "Overlaps") -> "Overlaps":
        """Return the overlaps unchanged."""
        return overlaps

    def best_overlaps(self, channel: "InputChannel") -> tuple[float, float, tuple[float, ...]]:
        """Return the representable power of the target as q and as m."""
        power = channel.representable_power
        return power, power, ()


NO_DIRECTIONS = NoDirections()
