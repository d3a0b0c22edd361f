"""Averages over one sample, the cache of proximal points, and sums over quadrature nodes in slices."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from onehead.aim.kernels.arguments import Slices
from onehead.aim.losses import Loss
from onehead.numerics.parallel import thread_map, threads
from onehead.numerics.replicate_error import error_from_replicates

Array = NDArray[np.float64]


class ProxAverages(Protocol):
    """Averages over the proximal operator that every output channel gives; conjugate fields follow by
    `OutputChannel.hats_of`.
    """

    @property
    def loss(self) -> float:
        """E loss at the proximal point."""

    @property
    def switch_mass(self) -> float:
        """Gaussian mass where the global minimum is not the one reached from the label."""

    @property
    def numbers(self) -> Array:
        """All averages as an array, or an empty one where `moved` is not defined."""

    def envelope(self, sigma: float) -> float:
        """Moreau envelope E [loss + distance²/(2 Sigma)]."""

    def moved(self, slopes: Array, step: Array) -> Self:
        """Return averages at a state whose coordinates are larger by ``step``, to first order; ``slopes`` are those of
        `numbers`.
        """


class Averages(NamedTuple):
    """Gaussian averages over one sample of a map of one sector; z* are the noisy label coordinates, z the learner's
    (2.2).

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
        """Moreau envelope E [loss + distance²/(2 Sigma)]."""
        return self.loss + 0.5 * self.distance / sigma

    @property
    def numbers(self) -> Array:
        """All averages as an array."""
        return np.array(self)

    def moved(self, slopes: Array, step: Array) -> "Averages":
        """Return averages at a state whose coordinates are larger by ``step``, to first order."""
        return Averages(*(self.numbers + slopes @ step).tolist())

    def with_relative_error(self, share: float) -> "Averages":
        """Return averages perturbed by a relative error: squared distance scaled up, responses scaled down."""
        less = 1.0 / (1.0 + share)
        return self._replace(
            distance=self.distance * (1.0 + share),
            along_label=self.along_label * less,
            trace=self.trace * less,
            cross=self.cross * less,
        )


def parts_error(values: Array) -> float:
    """Standard error of the mean of a number over the independent parts of a quadrature rule."""
    return float(error_from_replicates(values - np.mean(values)))


def sum_in_slices(kernel: Any, size: int, length: int, points: int, arguments: tuple[Any, ...]) -> Array:
    """Run a kernel over fixed slices of ``points`` nodes, several slices per thread; return one row of ``size`` sums
    per slice.

    The slices do not depend on the number of threads, so that sums are the same to the last bit.
    """
    count = -(-points // length)
    out = np.empty((count, size))
    bounds = np.linspace(0, count, min(threads(), count) + 1).astype(int)
    runs = [Slices(length, int(first), int(last)) for first, last in pairwise(bounds)]
    thread_map(lambda run: kernel(*arguments, run, out), runs)
    return out


@dataclass
class ProxCache:
    """Proximal points of the last evaluation, and what was averaged over them.

    Attributes
    ----------
    track_minimum : bool
        Whether the next evaluation starts from the cached points, so that every point stays in its minimum and the
        averages are smooth where minima compete. Otherwise it starts from the labels, and the points are only stored.
    state : tuple of float, optional
        State of the points, where it is not that of the averages.
    reuse_points : bool
        Whether the next evaluation starts from the cached points because its state is close to that of the last one.
    points : tuple of arrays, optional
        One array per block of logits.
    starts_at_zero : bool
        Whether the first evaluation starts from zero logits.
    averages : ProxAverages, optional
        Averages over these points.
    parts : list of ProxAverages, optional
        Averages by independent parts of the rule, where they were computed.
    has_second_moments : bool
        Whether `averages` includes E tr K².
    """

    track_minimum: bool
    points: tuple[Array, ...] | None = None
    averages: Any = None
    parts: Any = None
    has_second_moments: bool = False
    state: tuple[float, ...] | None = None
    reuse_points: bool = False
    starts_at_zero: bool = False


class Request(NamedTuple):
    """What averages over the proximal operator are asked for; see `OutputChannel.averages`."""

    level: int
    check_rule: bool = False
    detail: int = 0
    search: bool = False
    cache: ProxCache | None = None


class FreshSamples(NamedTuple):
    """What average over fresh samples is asked for; see `OutputChannel.fresh_loss`."""

    measure: Loss
    power: float | None
    coarse: bool = False
    check_rule: bool = False
