"""The output channel of a field whose size differs between queries: a strong direction of their covariance (D6).

Along a strong direction a query has the size sqrt(M d) ξ, where ξ is Gaussian with mean a and variance 1 - a², one
number per row. Its row of logits has the field ξ s.w_b. Given ξ the row is Gaussian, so that all averages over a row
are those of a head with a mean, at

    Q + ξ² G,   m + c ξ² G,   q + c² ξ² G,

averaged over ξ; and c = E ξ² mhat(ξ) / E ξ² Sigmahat(ξ). For ξ = 1 it is the mean (D2.1).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple, Self, final

import numpy as np
from numpy.typing import NDArray

from onehead.aim.theory.order_parameters import Hats
from onehead.aim.theory.output.averages import Averages, FreshSamples, ProxCache, Request
from onehead.aim.theory.output.base import OutputChannel
from onehead.aim.theory.output.one_sector import OneSectorOutput

Array = NDArray[np.float64]

SPACING = 0.25  # of the nodes in t, where ξ = b sinh t; half of it moved test errors by less than 1e-6, relative
NORMAL_SPACING = 0.8  # largest distance of nodes in standard deviations of ξ: the error of a normal's mass is 1e-13
NORMAL_RANGE = 5.5  # standard deviations of ξ that nodes reach; beyond lies a share of 4e-8


class FluctuatingAverages(NamedTuple):
    """`Averages` of the rows of each size ξ, and the probability of each."""

    of_sizes: tuple[Averages, ...]
    weights: Array

    def _mean(self, number: Callable[[Averages], float]) -> float:
        return float(self.weights @ [number(one) for one in self.of_sizes])

    @property
    def loss(self) -> float:
        """E loss at the proximal point."""
        return self._mean(lambda one: one.loss)

    @property
    def trace_square(self) -> float:
        """E tr K²."""
        return self._mean(lambda one: one.trace_square)

    @property
    def switch_mass(self) -> float:
        """Gaussian mass where the global minimum is not the one reached from the label."""
        return self._mean(lambda one: one.switch_mass)

    @property
    def numbers(self) -> Array:
        """Averages of the rows of all sizes."""
        return np.array(self.of_sizes).ravel()

    def moved(self, slopes: Array, step: Array) -> "FluctuatingAverages":
        """Return averages at a state whose coordinates are larger by ``step``, to first order."""
        rows = np.array(self.of_sizes) + (slopes @ step).reshape(len(self.of_sizes), -1)
        return self._replace(of_sizes=tuple(Averages(*row) for row in rows.tolist()))

    def envelope(self, sigma: float) -> float:
        """Moreau envelope E [loss + distance²/(2 Sigma)]."""
        return self._mean(lambda one: one.envelope(sigma))

    def with_relative_error(self, share: float) -> "FluctuatingAverages":
        """Return averages perturbed by a relative error."""
        return self._replace(of_sizes=tuple(one.with_relative_error(share) for one in self.of_sizes))


@final
@dataclass(frozen=True, kw_only=True)
class FluctuatingOutput(OutputChannel):
    """The output channel of one sector and a fluctuating field; a state is (q, m, c sqrt G, Sigma).

    Attributes
    ----------
    fluctuation : float
        1 - a², share of the variance along the strong direction that is not its mean.
    """

    fluctuation: float

    @cached_property
    def _sizes(self) -> tuple[Array, Array]:
        """Values of ξ², and their probabilities: a trapezoidal rule in t, ξ = b sinh t.

        Averages over a row bend where the field is as large as the other logits, at ξ = b; Gauss-Hermite nodes, which
        do not know this scale, converge slowly.
        """
        mean, width = np.sqrt(1.0 - self.fluctuation), np.sqrt(self.fluctuation)
        power = self.directions.separate_power
        scale = np.sqrt((self.label_power - power) / power)
        spacing = min(SPACING, NORMAL_SPACING * width / np.hypot(mean, scale))
        low, high = np.arcsinh((mean + NORMAL_RANGE * width * np.array([-1.0, 1.0])) / scale) / spacing
        t = spacing * np.arange(np.floor(low), np.ceil(high) + 1.0)
        weights = np.cosh(t) * np.exp(-0.5 * ((scale * np.sinh(t) - mean) / width) ** 2)
        if mean == 0.0:  # sizes of opposite sign are the same
            weights = np.where(t > 0.0, 2.0 * weights, weights)
            t, weights = t[t > -0.5 * spacing], weights[t > -0.5 * spacing]
        return (scale * np.sinh(t)) ** 2, weights / weights.sum()

    @cached_property
    def _channels(self) -> tuple[OneSectorOutput, ...]:
        """Channel of the rows of each size, whose logits are Gaussian."""
        return tuple(
            OneSectorOutput(
                loss=self.loss,
                geometry=self.geometry,
                label_power=self._power(None, size),
                branch=self.branch,
                prox_jumps=self.prox_jumps,
                single_minimum=self.single_minimum,
            )
            for size in self._sizes[0].tolist()
        )

    def _power(self, power: float | None, size: float) -> float:
        """Return the variance of the label coordinates of rows with ξ² = ``size``."""
        return (self.label_power if power is None else power) + (size - 1.0) * self.directions.separate_power

    def _state(self, state: Sequence[float], size: float) -> tuple[float, ...]:
        """Return the totals (q, m) of rows with ξ² = ``size``, and what follows the field."""
        (q, m, field, *sigma), (target,) = state, self.directions.target_eigenvalues
        return q + size * field**2, m + size * field * target, *sigma

    def _each(self, state: Sequence[float]) -> list[tuple[OneSectorOutput, tuple[float, ...]]]:
        """Return the channel and the state of each size."""
        return [
            (one, self._state(state, size)) for one, size in zip(self._channels, self._sizes[0].tolist(), strict=True)
        ]

    def _mean(self, values: Sequence[float]) -> float:
        return float(self._sizes[1] @ np.asarray(values))

    @property
    def extra_levels(self) -> tuple[int, ...]:
        """Levels of the rows of one size."""
        return self._channels[0].extra_levels

    @property
    def coarse_fresh_slopes(self) -> bool:
        """False: derivatives of the loss on fresh samples use the rule of the loss itself."""
        return False

    @property
    def uses_controls(self) -> bool:
        """Whether averages are corrected by control variates."""
        return self._channels[0].uses_controls

    def label_values(self) -> tuple[float, ...]:
        """Return the values of a map whose logits equal the noisy labels."""
        asked = self.label_power - self.directions.separate_power
        return asked, asked, *self.directions.target_eigenvalues

    def _average(self, state: tuple[float, ...], asked: Request) -> FluctuatingAverages:
        """Average over the proximal operator, for each size."""
        cache = asked.cache
        count, found, caches = len(self.geometry.blocks), [], []
        for k, (channel, at) in enumerate(self._each(state)):
            own = None
            if cache is not None:
                points = None if cache.points is None else cache.points[k * count : (k + 1) * count]
                own = ProxCache(track_minimum=cache.track_minimum, points=points)
                caches.append(own)
            # large fields make learner and label nearly equal, where only derivatives keep their digits
            own_detail = max(asked.detail, int(channel.nearly_aligned(*at[:-1])))
            found.append(channel._average(at, asked._replace(detail=own_detail, cache=own)))
        averages = FluctuatingAverages(tuple(found), self._sizes[1])
        if cache is not None:
            cache.points = tuple(points for own in caches for points in own.points or ())
            cache.averages = averages
            cache.has_second_moments = all(own.has_second_moments for own in caches)
            known = all(own.parts is not None for own in caches)
            cache.parts = self._joined([own.parts for own in caches]) if known else None
        return averages

    def _joined(self, parts: Sequence[Sequence[Averages]]) -> list[FluctuatingAverages]:
        """Return the averages of all sizes by each independent part."""
        return [FluctuatingAverages(tuple(one), self._sizes[1]) for one in zip(*parts, strict=True)]

    def parts(self, *state: float, level: int, cache: ProxCache | None = None) -> Sequence[FluctuatingAverages]:
        """Return the averages by each independent part of a rule of sampled points."""
        return self._joined([channel.parts(*at, level=level) for channel, at in self._each(state)])

    def hats_of(self, averages: FluctuatingAverages, *state: float, derivative: bool) -> Hats:
        """Return the hats per unit of α, and c sqrt G as the effective field (D6)."""
        sizes, weights = self._sizes
        hats = np.array(
            [
                channel.hats_of(one, *at, derivative=derivative or channel.nearly_aligned(*at[:-1])).sectors[:, 0]
                for one, (channel, at) in zip(averages.of_sizes, self._each(state), strict=True)
            ]
        )
        q, m, sigma = (weights @ hats).tolist()
        _, of_label, of_own = (weights * sizes) @ hats
        return Hats(q, m, sigma, (float(of_label / of_own) * self.directions.target_eigenvalues[0],))

    def nearly_aligned(self, *values: float) -> bool:
        """Whether learner and label are so close at every size that the Stein forms lose digits."""
        return all(channel.nearly_aligned(*at) for channel, at in self._each(values))

    def switch_mass(self, *state: float, level: int) -> float:
        """Share of samples with a lower minimum than the one near the label (2.7)."""
        return self._mean([channel.switch_mass(*at, level=level) for channel, at in self._each(state)])

    def has_one_minimum(self, *state: float, level: int, points: tuple[Array, ...] | None = None) -> bool:
        """Whether every prox that starts at the learner's logits ends where it does from the label (2.7)."""
        count = len(self.geometry.blocks)
        return all(
            channel.has_one_minimum(
                *at, level=level, points=None if points is None else points[k * count : (k + 1) * count]
            )
            for k, (channel, at) in enumerate(self._each(state))
        )

    def continuation_error(self, *values: float) -> float:
        """Relative error of continuing sampled rows to longer ones (L3)."""
        return self._mean([channel.continuation_error(*at) for channel, at in self._each(values)])

    def from_half_length(self) -> Self:
        """Return the channel that extrapolates long rows from rows of half the sampled length (L6)."""
        return replace(self, geometry=self.geometry.from_half_length)

    def _fresh_loss(self, values: tuple[float, ...], asked: FreshSamples) -> float:
        """Average a loss over fresh samples (2.4)."""
        return self._mean(
            [
                channel._fresh_loss(at, asked._replace(power=self._power(asked.power, size)))
                for (channel, at), size in zip(self._each(values), self._sizes[0].tolist(), strict=True)
            ]
        )

    def _fresh_loss_error(self, values: tuple[float, ...], asked: FreshSamples) -> float:
        """Quadrature error of `fresh_loss`."""
        return self._mean(
            [
                channel._fresh_loss_error(at, asked._replace(power=self._power(asked.power, size)))
                for (channel, at), size in zip(self._each(values), self._sizes[0].tolist(), strict=True)
            ]
        )

    def zero_one(self, *values: float) -> float:
        """Share of rows of a fresh sample whose largest logit is not that of the label (U7)."""
        return self._mean([channel.zero_one(*at) for channel, at in self._each(values)])

    @property
    def noise_error(self) -> float:
        """Test error of an infinitely large map of pure noise (4.2)."""
        return self._mean([channel.noise_error for channel in self._channels])

    @lru_cache(maxsize=64)  # noqa: B019  (channels are frozen and small, and few at a time)
    def at_origin(self, level: int) -> Hats:
        """Return the hats per unit of α at S = 0 and without a field (4.6)."""
        hats = np.array([channel.at_origin(level).sectors[:, 0] for channel in self._channels])
        return Hats(*(self._sizes[1] @ hats).tolist())

    def at_origin_error(self, level: int) -> tuple[float, float]:
        """Quadrature errors of qhat and mhat at S = 0."""
        q_hat, m_hat = (self._sizes[1] @ np.array([one.at_origin_error(level) for one in self._channels])).tolist()
        return q_hat, m_hat
