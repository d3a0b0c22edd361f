"""Averages over one sample, what proximal points are remembered, and how sums over nodes are shared out."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.numerics.parallel import thread_map, threads
from onehead.numerics.parts import error_of_parts

__all__ = ["Averages", "ProxMemory", "of_parts", "sliced"]

Array = NDArray[np.float64]


class Averages(NamedTuple):
    """Gaussian averages over one sample, z* the noisy label coordinates, z the learner's (2.2).

    ``distance`` E|prox - z|^2, ``along_label`` E (prox - z).z*, ``along_own`` E (prox - z).z,
    ``trace`` E tr(1 - dprox/dz), ``trace_square`` E tr K^2, ``cross`` E tr dprox/dz*, ``loss`` E loss at the prox,
    ``switch_mass`` the Gaussian mass where the global minimum is not the one reached from the label.
    """

    distance: float
    along_label: float
    along_own: float
    trace: float
    trace_square: float
    cross: float
    loss: float
    switch_mass: float

    def envelope(self, sigma: float) -> float:
        """What the prox attains, step and loss."""
        return self.loss + 0.5 * self.distance / sigma

    def stretched(self, share: float) -> "Averages":
        """The same with forces larger by this share, and answers smaller."""
        less = 1.0 / (1.0 + share)
        return self._replace(
            distance=self.distance * (1.0 + share),
            along_label=self.along_label * less,
            trace=self.trace * less,
            cross=self.cross * less,
        )


def of_parts(values: Array) -> float:
    """Error of the mean of a number over the independent parts of a rule."""
    return float(error_of_parts(values - np.mean(values)))


def sliced(
    kernel: Any, size: int, length: int, before: tuple[Any, ...], nodes: tuple[Array, ...], after: tuple[Any, ...]
) -> Array:
    """Run a kernel over fixed slices of the nodes, a run of slices per thread; one row of sums per slice."""
    count = -(-len(nodes[0]) // length)
    out = np.empty((count, size))
    bounds = np.linspace(0, count, min(threads(), count) + 1).astype(int)
    thread_map(lambda i: kernel(*before, *nodes, *after, length, bounds[i], bounds[i + 1], out), range(len(bounds) - 1))
    return out


@dataclass
class ProxMemory:
    """Remembers the proximal points of the last evaluation.

    With ``follow`` the next evaluation starts from them, so that every point stays in its minimum and the averages are
    smooth where minima compete; without, it starts from the labels as usual and only the last points are kept.
    """

    follow: bool
    points: tuple[Array, ...] | None = None  # an array per block
    averages: Any = None  # over these points
    parts: Any = None  # the same by independent parts, where they come with them
    whole: bool = False  # whether they are all that there is to know
