"""State evolution of a head whose map has two sectors, symmetric and antisymmetric: self-attention (U5)."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from onehead.aim.equations.geometry import geometry_of
from onehead.aim.equations.input import InputChannel
from onehead.aim.equations.output import OutputChannel
from onehead.aim.equations.state_evolution import StateEvolution
from onehead.aim.equations.unknowns import Overlaps, SectorHats, SectorOverlaps, SpectralMap
from onehead.aim.equations.untied import CHANNELS

__all__ = ["SectorEvolution"]


@dataclass(frozen=True)
class SectorEvolution(StateEvolution):
    """The equations of a head with two sectors."""

    def at_origin(self, alpha: float, level: int) -> tuple[float, SectorHats]:  # type: ignore[override]
        """The blur of the first step from S = 0, in which the sectors are not told apart, and its hats (4.6)."""
        hats = self.output.at_origin(level).times(alpha)  # type: ignore[attr-defined]
        return (hats.q + 0.25 * (hats.m_s - hats.m_a) ** 2 * self.target_power) / hats.m**2, hats

    @property
    def isotropic(self) -> StateEvolution:
        """The same head if all its logits were independent: that of cross-attention (U5.5)."""
        masked = "none" if self.output.geometry.blocks[0].select.shape[0] > 1 else "causal"
        output = OutputChannel(
            loss=self.output.loss,
            geometry=geometry_of("cross", masked, self.output.geometry.tokens),
            label_power=self.label_power,
            branch=self.output.branch,
        )
        own = {f.name: getattr(self.input, f.name) for f in fields(InputChannel)}
        kind = CHANNELS[False, "factorised" if self.input.degree == 1 else "direct"]
        return StateEvolution(kind(**own), output, self.noise, self.units)

    @property
    def zero(self) -> SectorOverlaps:  # type: ignore[override]
        """The overlaps of no map."""
        return SectorOverlaps(*8 * (0.0,), SpectralMap(0.0, 0.0, 0.0, 0.0))

    def inside(self, logs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Keep m² <= q Q0 in every sector."""
        bound = 0.5 * (logs[:2] + np.log(self.target_power)) + np.log1p(-1e-9)
        return np.concatenate([logs[:2], np.minimum(logs[2:4], bound), logs[4:]])

    def even(self, logs: NDArray[np.float64]) -> NDArray[np.float64]:
        """The state in which both sectors are like this one."""
        return np.repeat(logs, 2)

    def limit(self, overlaps: Overlaps) -> SectorOverlaps:
        """Alike in both sectors."""
        return self.zero.at(*np.repeat(overlaps.state, 2).tolist())

    @property
    def nudges(self) -> NDArray[np.float64]:
        """The same in both sectors."""
        return np.repeat(super().nudges, 2)
