"""The unasked field: logits that all queries share, where the tokens of the queries have a mean (D1, D2).

The mean of the queries gives each key b a field g_b = s.w_b that does not depend on the query, with s = S'mu/sqrt d. It
has d entries against n ~ d² samples, so that it is learned without noise, s = c s*, and weight decay does not see it.
Its logits are Gaussian with the covariance of all others: the output channel is that of the totals Q + G, m + c G, q +
c² G, with G = |s*|², and c = mhat/Sigmahat.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import final

import numpy as np
from numpy.typing import NDArray

from onehead.aim.task import Task
from onehead.aim.theory.directions import Directions, log_overlaps, overlaps_from_logs
from onehead.aim.theory.input.channel import InputChannel
from onehead.aim.theory.order_parameters import Hats, Overlaps
from onehead.aim.theory.output.base import OutputChannel
from onehead.errors import InvalidArgument
from onehead.numerics.fixed_point import fixed_point

__all__ = ["UnaskedField", "unasked_field"]

Array = NDArray[np.float64]

ORIGIN_OVERLAP, ORIGIN_SIGMA = 1e-12, 1e-7  # q and Sigma that stand for those of a zero bulk
FIRST_SCALE = 0.7  # c from which the search starts


def unasked_field(task: Task) -> "UnaskedField":
    """Return the unasked field of a task, in reduced units: G = Q0 f/(1 - f) for an unasked share f.

    Raises
    ------
    InvalidArgument
        For heads whose rows are not rows of independent logits.
    """
    if task.tied or task.own_logit:
        raise InvalidArgument("unasked", task.unasked, "0 unless attention is cross, or self with mask strict")
    field = task.beta0 * float(np.sqrt(task.unasked_variance))
    return UnaskedField(target_eigenvalues=(field,), bulk_power=task.beta0**2 * task.target.second_moment)


@final
@dataclass(frozen=True, kw_only=True)
class UnaskedField(Directions):
    """The field that all queries share; its element is c sqrt(G), its target eigenvalue sqrt(G)."""

    @property
    def separate(self) -> bool:
        """True: the field is a row of the map along the mean, which its spectrum and its q do not see."""
        return True

    def overlap_coordinates(self, q: Array, m: Array) -> Array:
        """Return log q and log m."""
        return log_overlaps(q, m)

    def overlaps_at(self, coordinates: Array) -> tuple[Array, Array]:
        """Return (q, m) from their logarithms."""
        return overlaps_from_logs(coordinates)

    def output_values(self, q: Array, m: Array, learned: Array) -> tuple[float, ...]:
        """Return the totals q + c² G and m + c G (D2.1)."""
        (field,), (target,) = learned.tolist(), self.target_eigenvalues
        return float(q[0]) + field**2, float(m[0]) + field * target

    def isotropic_overlaps(self, q: float, m: float) -> tuple[float, float, tuple[float, ...]]:
        """Return q, m and the field of a map that is m/Q0 times the target."""
        return q, m, (m / self.bulk_power * self.target_eigenvalues[0],)

    @lru_cache(maxsize=64)  # noqa: B019  (directions and channels are frozen and small, and few at a time)
    def origin_hats(self, output: OutputChannel, level: int) -> Hats:
        """Return the hats per unit of α where the bulk of the map is zero and the field is learned: c =
        mhat/Sigmahat.
        """

        def hats(scale: float) -> Hats:
            (target,) = self.target_eigenvalues
            state = (ORIGIN_OVERLAP + (scale * target) ** 2, scale * target**2, ORIGIN_SIGMA)
            averages = output.averages(*state, level=level, detail=1)
            return output.hats_of(averages, *state, derivative=True)

        def step(scale: Array) -> Array:
            found = hats(float(scale[0]))
            return np.array([found.m / found.sigma])

        return hats(float(fixed_point(step, np.array([FIRST_SCALE]), tolerance=1e-10).value[0]))

    def learned_without_bulk(self, hats: Hats) -> tuple[float, ...]:
        """Return c sqrt(G) with c = mhat/Sigmahat."""
        return (self.target_eigenvalues[0] * hats.m / hats.sigma,)

    def channel_at(self, channel: InputChannel, effective: tuple[float, ...]) -> InputChannel:
        """Return the channel itself."""
        return channel

    def split(self, channel: InputChannel, hats: Hats, overlaps: Overlaps) -> Overlaps:
        """Add the field to the overlaps of the bulk."""
        return self._with_field(overlaps, hats.m / hats.sigma)

    def _with_field(self, overlaps: Overlaps, scale: float) -> Overlaps:
        target = self.target_eigenvalues
        return replace(overlaps, learned=(scale * target[0],), effective=target, directions=self)

    def overlaps_near(self, channel: InputChannel, hats: Hats, near: Overlaps) -> Overlaps | None:
        """Return None: the input channel is cheap enough to be evaluated again."""
        return None

    def interpolating(self, channel: InputChannel, overlaps: Overlaps) -> Overlaps:
        """Add the field of the target: where labels are fitted exactly it is learned exactly."""
        return self._with_field(overlaps, 1.0)

    def best_overlaps(self, channel: InputChannel) -> tuple[float, float, tuple[float, ...]]:
        """Return the representable power of the target as q and as m, and the field of the target."""
        power = channel.representable_power
        return power, power, self.target_eigenvalues
