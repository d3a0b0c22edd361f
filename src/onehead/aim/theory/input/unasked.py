"""The unasked field: logits that all queries share, where the tokens of the queries have a mean (D1, D2).

The mean of the queries gives each key b a field g_b = s.w_b that does not depend on the query, with s = S'mu/sqrt d. It
has d entries against n ~ d² samples, so that it is learned without noise, s = c s*, and weight decay does not see it.
Its logits are Gaussian with the covariance of all others: the output channel is that of the totals Q + G, m + c G, q +
c² G, with G = |s*|², and c = mhat/Sigmahat.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from onehead.aim.task import Task
from onehead.aim.theory.directions import SharedFields
from onehead.aim.theory.input.channel import InputChannel
from onehead.aim.theory.order_parameters import Hats, Overlaps
from onehead.aim.theory.output.base import OutputChannel
from onehead.aim.theory.state_evolution import Units
from onehead.errors import InvalidArgument
from onehead.numerics.fixed_point import fixed_point

Array = NDArray[np.float64]

ORIGIN_OVERLAP, ORIGIN_SIGMA = 1e-12, 1e-7  # q and Sigma that stand for those of a zero bulk
MAX_TOKENS_COUPLED = 8  # of heads without a mask whose rows share logits, with a field: a proximal step costs T^6
MAX_TOKENS_ROWS = 16  # of causal heads that see their own logit, with a field
ORIGIN_TOLERANCE = 1e-8  # of c there; rounding over ORIGIN_SIGMA leaves about 1e-9
FIRST_SCALE = 0.7  # c from which the search starts


def unasked_field(task: Task) -> "UnaskedField":
    """Return the unasked field of a task, in reduced units: G = Q0 f/(1 - f) for an unasked share f.

    Raises
    ------
    InvalidArgument
        For heads that see their own logit and have too many tokens.
    """
    if shared_by_rows(task):
        most = MAX_TOKENS_COUPLED if task.mask == "none" else MAX_TOKENS_ROWS
        if task.longest_row > most:
            raise InvalidArgument(
                "tokens",
                task.tokens,
                f"at most {most} with an unasked share, for a head that sees its own logit; attention cross, or mask "
                "strict, takes more",
            )
    field = task.beta0 * float(np.sqrt(task.unasked_variance))
    power = task.beta0**2 * task.target.second_moment
    own = shared_by_rows(task) or task.fluctuation > 0.0
    return UnaskedField(target_eigenvalues=(field,), bulk_power=power, own_sector=own)


def shared_by_rows(task: Task) -> bool:
    """Whether the field has another covariance than the other logits: where a token attends to itself (D2.2)."""
    return task.own_logit


@final
@dataclass(frozen=True, kw_only=True)
class UnaskedField(SharedFields):
    """The field that all queries share; its element is c sqrt(G), its target eigenvalue sqrt(G). It is a row of the map
    along the mean, which its spectrum and its q do not see.

    With ``own_sector`` its logits do not simply add to those of the map, because their covariance is another one (D2.2)
    or their size differs between queries (D6): the output channel gives c sqrt(G) as the effective eigenvalue of the
    hats.
    """

    def output_values(self, q: Array, m: Array, learned: Array) -> tuple[float, ...]:
        """Return the totals q + c² G and m + c G (D2.1); with ``own_sector``, the overlaps and the field."""
        if self.own_sector:
            return *q.tolist(), *m.tolist(), *learned.tolist()
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
            (target,), sectors = self.target_eigenvalues, output.geometry.sectors
            q, m, sigma = np.full(sectors, ORIGIN_OVERLAP), np.zeros(sectors), sectors * (ORIGIN_SIGMA,)
            state = (*self.output_values(q, m, np.array([scale * target])), *sigma)
            averages = output.averages(*state, level=level, detail=1)
            return output.hats_of(averages, *state, derivative=True)

        def step(scale: Array) -> Array:
            return np.array([self._scale(hats(float(scale[0])))])

        return hats(float(fixed_point(step, np.array([FIRST_SCALE]), tolerance=ORIGIN_TOLERANCE).value[0]))

    def learned_without_bulk(self, hats: Hats) -> tuple[float, ...]:
        """Return c sqrt(G)."""
        return (self.target_eigenvalues[0] * self._scale(hats),)

    def _scale(self, hats: Hats) -> float:
        """Return c: mhat/Sigmahat, or what the output channel found."""
        return hats.effective[0] / self.target_eigenvalues[0] if self.own_sector else hats.m / hats.sigma

    def split(self, channel: InputChannel, hats: Hats, overlaps: Overlaps) -> Overlaps:
        """Add the field to the overlaps of the bulk."""
        scale = self._scale(hats)
        # the effective field is that at which the field adds nothing to the balance of the training loss
        return self._with_field(overlaps, scale, scale * hats.sigma / hats.m)

    def _with_field(self, overlaps: Overlaps, scale: float, effective: float = 1.0) -> Overlaps:
        (target,) = self.target_eigenvalues
        return replace(overlaps, learned=(scale * target,), effective=(effective * target,), directions=self)

    def interpolating(self, channel: InputChannel, overlaps: Overlaps) -> Overlaps:
        """Add the field of the target: where labels are fitted exactly it is learned exactly."""
        return self._with_field(overlaps, 1.0)

    def best_overlaps(self, channel: InputChannel) -> tuple[float, float, tuple[float, ...]]:
        """Return the representable power of the target as q and as m, and the field of the target."""
        power = channel.representable_power
        return power, power, self.target_eigenvalues

    def reported(self, overlaps: Overlaps, units: Units) -> dict[str, Any]:
        """Return c in the learner's units, and the share c² G/(q + c² G) of the field in the variance of logits."""
        ((learned,), (target,)) = overlaps.learned, self.target_eigenvalues
        scale, field = learned / target, learned**2
        return {
            "unasked_scale": scale * units.beta0 / units.beta,
            "unasked_share": field / (overlaps.q + field) if field > 0.0 else 0.0,
        }

    def learned_of(self, point: Any, units: Units) -> tuple[float, ...] | None:
        """Return c sqrt(G) from the scale of a point; None where the point has directions."""
        (target,) = self.target_eigenvalues
        return None if point.directions else (point.unasked_scale * units.beta / units.beta0 * target,)

    def explained(self, point: Any) -> list[str]:
        """Describe the logits that all queries share, or that differ between them in size alone."""
        sizes = ", each to its own degree" if point.task.fluctuation else ""
        return [
            f"{point.task.unasked:.0%} of the variance of the target's logits within a row is a preference for keys "
            f"that all queries share{sizes}; it is learned from n ~ d samples, before anything else. "
            f"In the head it is {point.unasked_share:.0%}, at {point.unasked_scale:.3g} times the size in the target; "
            "q, m and rank are those of the rest."
        ]
