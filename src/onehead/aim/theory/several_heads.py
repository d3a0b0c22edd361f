"""State evolution of several heads that add to one output, in reduced units: modes of the heads (M2, M3), values (M7).

`onehead.aim.theory.build` makes it for a task and a learner, `onehead.aim.solve.several_heads` solves it.
"""

from dataclasses import dataclass, replace
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray

from onehead.aim.theory.input.several_heads import ModeHats, ModeOverlaps, SeveralHeadsInput
from onehead.aim.theory.output.several_heads import HeadModes, ModeAverages, ModeState, SeveralHeadsOutput

Array = NDArray[np.float64]

SMALLEST_SCALE = 1e-12  # of values, whose logarithm is an unknown
ORIGIN = 1e-8  # Sigma at the zero map, and standard deviation of its logits


@dataclass(frozen=True)
class Values:
    """How the values of the heads are found (M7).

    Attributes
    ----------
    learnt : bool
        Whether they are learnt; else they are those of the target.
    decay : float
        Weight decay on learnt values.
    penalty : {"squares", "lengths"}
        Penalty over d² per head and λ_v: half the squared scale, for weight decay on a value matrix; or the scale, for
        weight decay on the two factors of a value matrix.
    """

    learnt: bool = False
    decay: float = 0.0
    penalty: Literal["squares", "lengths"] = "squares"


@final
@dataclass(frozen=True)
class SeveralHeads:
    """The equations of several exchangeable heads.

    Attributes
    ----------
    output : SeveralHeadsOutput
        Order parameters to conjugate fields.
    input : SeveralHeadsInput
        Conjugate fields to order parameters.
    values : Values
        How values are found.
    prox_jumps : bool
        Whether the proximal operator was seen to jump between minima.
    """

    output: SeveralHeadsOutput
    input: SeveralHeadsInput
    values: Values
    prox_jumps: bool = False

    @property
    def stiff(self) -> bool:
        """Whether the proximal operator may jump, so that minima are chosen and the Stein forms are needed (M2)."""
        return self.prox_jumps or self.modes.stiff

    @property
    def modes(self) -> HeadModes:
        """Modes of the heads."""
        return self.output.modes

    def with_sharing(self, sharing: float) -> "SeveralHeads":
        """Return the equations at another overlap of the values."""
        modes = HeadModes(self.modes.heads, sharing)
        return replace(
            self, output=replace(self.output, modes=modes), input=SeveralHeadsInput(modes, self.input.single)
        )

    def hats(self, averages: ModeAverages, alpha: float) -> ModeHats:
        """Return the conjugate fields in the form that is accurate here (M2)."""
        if averages.m_derivative is None or averages.sigma_derivative is None or self.stiff:
            parts = averages.q_hat, averages.m_stein, averages.sigma_stein
        else:
            parts = averages.q_hat, averages.m_derivative, averages.sigma_derivative
        rows = [alpha * part for part in parts]
        if self.modes.heads == 1:  # there are no differences: their fields are those of the mean
            rows = [np.full(2, row[0]) for row in rows]
        return ModeHats(*rows)

    def scales(self, averages: ModeAverages, alpha: float) -> Array:
        """Return the least-squares values at these averages; ones where values are fixed (M7)."""
        if not self.values.learnt:
            return np.ones(2)
        shift = self.values.decay / (2.0 * alpha * self.output.tokens)
        agreement, attention = averages.agreement, averages.attention
        if self.modes.heads == 1:  # there are no differences
            agreement, attention = np.full(2, agreement[0]), np.full(2, attention[0])
        squares = self.values.penalty == "squares"
        found = agreement / (attention + shift) if squares else (agreement - shift) / attention
        return np.maximum(found, SMALLEST_SCALE)

    def penalty(self, overlaps: ModeOverlaps, scales: Array) -> float:
        """Return the penalty of all heads over d²: maps, and learnt values."""
        own = self.input.penalty(overlaps)
        if not self.values.learnt:
            return own
        weights = self.modes.counts * self.modes.gains
        cost = 0.5 * scales**2 if self.values.penalty == "squares" else scales
        return own + self.values.decay * float(weights @ cost)

    def vanishing_decay(self, alpha: float) -> float:
        """Return a weight decay beyond which fixed values leave all maps at zero, in reduced units (4.6)."""
        hats, shares = self.at_origin(alpha, 0), self.modes.shares
        m = float(shares @ hats.m)
        spread = float(shares @ hats.q) + float(shares @ (hats.m - m) ** 2) * self.input.single.target_power
        return self.input.single.largest_decay(spread / m**2, m)

    def at_origin(self, alpha: float, level: int) -> ModeHats:
        """Return the conjugate fields at S = 0."""
        tiny = np.full(2, ORIGIN)
        state = ModeState(tiny**2 * 1.01, tiny**2, tiny, np.ones(2))
        averages = self.output.averages(state, level, derivatives=True)
        assert averages.m_derivative is not None
        return ModeHats(alpha * averages.q_hat, alpha * averages.m_derivative, np.ones(2))
