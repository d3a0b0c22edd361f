"""The trace of the map as an explicit direction, where tokens are not Gaussian (P11).

With S = τ I + S', τ = Tr S/d, the logit of a token with itself is (x'S x - Tr S)/sqrt d = h(S') + τ (|x|² - d)/sqrt d.
The second part has variance τ² (kurtosis - 1), which Gaussian tokens share with all other entries and others do not.
The output channel is in `onehead.aim.theory.output.kurtosis`.
"""

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from onehead.aim.task import GAUSSIAN_KURTOSIS, Task
from onehead.aim.theory.directions import MAXIMUM_COSINE, SMALLEST_OVERLAP, BulkDirections
from onehead.aim.theory.input.channel import InputChannel
from onehead.aim.theory.order_parameters import Hats, Overlaps
from onehead.errors import InvalidArgument
from onehead.numerics.brent import brent_root
from onehead.spectra.law import ThresholdIntegrals, threshold_integrals

Array = NDArray[np.float64]

ROW_VARIANCE = 3.0  # of the logit difference of a row of two tokens, per unit of variance of the map (1.4)
AXIS_VARIANCES = np.array([4.0, 2.0])  # of the coordinates of two tokens along their even and odd axis (2.5)
NEGLIGIBLE_BLUR = 1e-9  # blur of the target, relative to its power, that stands for none
EQUAL_EIGENVALUES = 1e-9  # relative spread below which a target is a multiple of the identity


def trace_direction(task: Task) -> "TraceDirection":
    """Return the trace of a task's target as an explicit direction, in reduced units.

    Raises
    ------
    InvalidArgument
        If labels without noise show nothing but the trace of the target.
    """
    tau, power = task.beta0 * task.target.mean, task.beta0**2 * task.target.second_moment
    if task.noise == 0.0 and power - tau**2 <= EQUAL_EIGENVALUES * power:
        raise InvalidArgument(
            "kurtosis", task.kurtosis, "3 for a target whose eigenvalues are all equal, with labels without noise"
        )
    excess = task.kurtosis - GAUSSIAN_KURTOSIS
    return TraceDirection(target_eigenvalues=(tau,), bulk_power=power - tau**2, excess=excess)


@final
@dataclass(frozen=True, kw_only=True)
class TraceDirection(BulkDirections):
    """The identity as a direction of the map; its element is Tr S/d, so that ``length`` is one.

    The solver iterates on log q and on the cosine between bulk of map and target, which a
    lattice resolves to all digits.
    """

    gain_per_excess = float(np.mean(1.0 / AXIS_VARIANCES))  # mean of 1/c over the axes of two tokens

    def overlap_coordinates(self, q: Array, m: Array) -> Array:
        """Return log q and the cosine."""
        size = float(np.sqrt(max(q[0], 0.0) * self.bulk_power))
        return np.array([np.log(max(q[0], SMALLEST_OVERLAP)), m[0] / size if size > 0.0 else 0.0])

    def overlaps_at(self, coordinates: Array) -> tuple[Array, Array]:
        """Return (q, m) from log q and the cosine."""
        q = np.exp(coordinates[:1])
        return q, np.clip(coordinates[1:], -MAXIMUM_COSINE, MAXIMUM_COSINE) * np.sqrt(q * self.bulk_power)

    def channel_at(self, channel: InputChannel, effective: tuple[float, ...]) -> InputChannel:
        """Return the input channel whose target is shifted by what the data seem to add to its trace (P11.3)."""
        return replace(channel, spectral_shift=effective[0] - self.target_eigenvalues[0])

    def split(self, channel: InputChannel, hats: Hats, overlaps: Overlaps) -> Overlaps:
        """Separate the trace: q_b = q - τ², m_b = m - τ τ* (P11.3)."""
        return self._split(hats.effective, overlaps)

    def _split(self, effective: tuple[float, ...], overlaps: Overlaps) -> Overlaps:
        tau, (target,) = overlaps.tau, self.target_eigenvalues
        return replace(
            overlaps,
            q_sectors=max(overlaps.q - tau**2, 0.0),
            m_sectors=overlaps.m - tau * target,
            learned=(tau,),
            effective=effective,
            directions=self,
        )

    def overlaps_near(self, channel: InputChannel, hats: Hats, near: Overlaps) -> Overlaps | None:
        """Return None: the input channel is cheap enough to be evaluated again."""
        return None

    def interpolating(self, channel: InputChannel, overlaps: Overlaps) -> Overlaps:
        """Separate the trace that the data show where labels are fitted exactly (P11.6)."""
        (target,) = self.target_eigenvalues
        return self._split((target + self.trace_gain * (target - overlaps.tau),), overlaps)

    def best_overlaps(self, channel: InputChannel) -> tuple[float, float, tuple[float, ...]]:
        """Return the overlaps of (S* + shift)_+ with shift = (kurtosis - 3)/3 (τ* - Tr P/d), the best representable map
        P (P11.4).
        """
        if channel.misfit_reason is None:
            return self.bulk_power, self.bulk_power, self.target_eigenvalues
        share, (target,) = self.excess / ROW_VARIANCE, self.target_eigenvalues
        law = channel.law(NEGLIGIBLE_BLUR * channel.target_power)

        def at(shift: float) -> ThresholdIntegrals:
            return threshold_integrals(law, -shift, channel.width)

        (low, *_), (*_, high) = law.edges[0], law.edges[-1]
        bound = 2.0 * (abs(low) + abs(high)) * (1.0 + abs(share))
        shift = brent_root(lambda x: x - share * (target - at(x).B), -bound, bound, xtol=1e-13 * bound)
        q, tau = at(shift).J, at(shift).B
        return q - tau**2, q - tau * (target + shift), (tau,)
