"""State evolution of a head some directions of whose map are told apart: leading ones (P1), and the identity (P11)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onehead.aim.equations.geometry import geometry_of
from onehead.aim.equations.input import InputChannel
from onehead.aim.equations.kurtosis import KurtosisOutput, held, traced
from onehead.aim.equations.leading import led, seen_by
from onehead.aim.equations.leading_output import LeadingOutput
from onehead.aim.equations.output import OutputChannel
from onehead.aim.equations.state_evolution import StateEvolution
from onehead.aim.equations.unknowns import Hats, Labels, LeadingHats, LeadingOverlaps, Overlaps, SpectralMap
from onehead.aim.targets import Discrete

__all__ = ["KurtosisEvolution", "LeadingEvolution"]


@dataclass(frozen=True)
class LeadingEvolution(StateEvolution):
    """The equations of a head whose target has leading directions, averaged exactly (P1)."""

    output: LeadingOutput

    @property
    def leading(self) -> int:
        """K."""
        return self.told

    @property
    def told(self) -> int:
        """The same."""
        return len(self.output.directions.told)

    @property
    def origin_level(self) -> int:
        """The rule of thresholds: what has emerged must be found again on a fine one."""
        return 2

    def hats_of(self, q: float, m: float, sigma: float, effective: Sequence[float]) -> LeadingHats:
        """Hats and effective eigenvalues."""
        return LeadingHats(q, m, sigma, tuple(self.units.beta0 * value / self.root for value in effective))

    def channel_at(self, hats: Any) -> InputChannel:
        """The one with effective eigenvalues in the place of the leading ones (P4)."""
        return seen_by(self.input, hats.effective)

    def overlaps_of(self, hats: LeadingHats) -> LeadingOverlaps:
        """Overlaps of the map, told apart in leading directions and the rest (P4)."""
        channel = self.channel_at(hats)
        return led(channel, channel.overlaps(Hats(*hats[:3])), hats.effective, self.output.directions)

    def beside(self, hats: LeadingHats, near: LeadingOverlaps) -> LeadingOverlaps:
        """Rank and spectral map alone, without integrals over the law: the rank to first order."""
        where, old = self.input.map_at(Hats(*hats[:3])), near.map
        moved = [where.s - old.s, where.eps - old.eps, *np.subtract(hats.effective, near.effective) / self.root]
        rank = near.rank + float(np.dot(self._rank_slopes(old, near.rank, near.effective), moved))
        return near._replace(rank=min(max(rank, 0.0), 1.0), map=where, effective=hats.effective)

    @lru_cache(maxsize=4)  # noqa: B019  (one solution is looked at from many sides)
    def _rank_slopes(self, where: SpectralMap, rank: float, effective: tuple[float, ...]) -> NDArray[np.float64]:
        """Derivatives of the rank in s, in eps and, times d, in effective eigenvalues."""
        return seen_by(self.input, effective).rank_slopes(where, rank, self.root * np.array(effective))

    def limit(self, overlaps: Overlaps) -> LeadingOverlaps:
        """Labels that are fitted exactly are linear equations, in which effective eigenvalues are the target's own (P9)."""
        return led(self.input, overlaps, self.output.directions.told, self.output.directions)

    def state_of(self, y: NDArray[np.float64]) -> Sequence[float]:
        """Of log q_b, an angle, strengths and log Sigma (P7)."""
        return self.output.directions.state_of(y)

    def inside(self, logs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Nothing to keep: any angle will do."""
        return logs

    @property
    def nudges(self) -> NDArray[np.float64]:
        """A larger q_b, a wider angle, all strengths, a larger Sigma."""
        return np.array([1e-3, -1e-3, *self.told * (1e-3,), 1e-3])

    @property
    def relaxes(self) -> bool:
        """Never: the way there is by Gaussian logits."""
        return False

    @property
    def by_sigma(self) -> bool:
        """Nor at a given Sigma."""
        return False

    @property
    def isotropic(self) -> StateEvolution:
        """The same head with Gaussian logits."""
        gaussian = OutputChannel(
            loss=self.output.loss,
            geometry=geometry_of(self.output.attention, "none", self.output.geometry.tokens),
            label_power=self.label_power,
            branch=self.output.branch,
        )
        return StateEvolution(self.input, gaussian, self.noise, self.units)

    @property
    def zero(self) -> LeadingOverlaps:  # type: ignore[override]
        """The overlaps of no map."""
        nothing, known = self.told * (0.0,), self.output.directions
        return LeadingOverlaps(0.0, 0.0, nothing, 0.0, 0.0, 0.0, SpectralMap(0.0, 0.0, 0.0, 0.0), known.told, known)

    def zero_at(self, hats: LeadingHats) -> LeadingOverlaps:
        """With the eigenvalues that are seen where nothing is learned (P6)."""
        return self.zero._replace(effective=hats.effective)

    def even(self, logs: NDArray[np.float64]) -> NDArray[np.float64]:
        """The state in which leading directions are learned as well as all others."""
        q, m, sigma = np.exp(logs).tolist()
        return self.zero.at(*self.output.even(q, m), sigma).logs

    def at_origin(self, alpha: float, level: int) -> tuple[float, LeadingHats]:  # type: ignore[override]
        """The blur s of the first step from S = 0, and its hats (P6)."""
        hats = self.output.at_origin(level).times(alpha)
        return hats.q / hats.m**2, hats

    @property
    def reach(self) -> tuple[float, ...]:
        """The power of what a map can hold of the rest, and its eigenvalues in the leading directions; none that is out of reach."""
        lost = self.input.lost[0] / self.root
        told = np.array(self.output.directions.told)
        held = np.where([bool(np.any(np.isclose(one, lost, rtol=1e-9, atol=0.0))) for one in told], 0.0, told)
        return max(self.input.reachable_power - float(held @ held), 0.0), *held.tolist()

    @property
    def root(self) -> float:
        """sqrt d."""
        target = self.input.target
        assert isinstance(target, Discrete)
        return float(np.sqrt(len(target.values)))


@dataclass(frozen=True)
class KurtosisEvolution(LeadingEvolution):
    """The equations of a head on tokens of another kurtosis: the identity is the direction that is told apart (P11)."""

    output: KurtosisOutput  # type: ignore[assignment]

    @property
    def leading(self) -> int:
        """None: averages over logits need no sampling."""
        return 0

    @property
    def origin_level(self) -> int:
        """That of any lattice."""
        return 1

    @property
    def root(self) -> float:
        """The trace is known by Tr S/d."""
        return 1.0

    def channel_at(self, hats: Any) -> InputChannel:
        """The one whose target is lifted as the data seem to say (P11.3)."""
        return replace(self.input, lift=hats.effective[0] - self.output.directions.told[0])

    def overlaps_of(self, hats: LeadingHats) -> LeadingOverlaps:
        """Overlaps of the map, its trace told apart (P11.3)."""
        return traced(self.channel_at(hats).overlaps(Hats(*hats[:3])), hats.effective, self.output.directions)

    def beside(self, hats: LeadingHats, near: LeadingOverlaps) -> LeadingOverlaps:
        """As anywhere."""
        return self.overlaps_of(hats)

    @property
    def reach(self) -> tuple[float, ...]:
        """The best that a map can hold of the target, as rows see it, told apart (P11.4)."""
        return held(self.input, self.output)

    @property
    def labels(self) -> Labels:
        """What the input channel must know of the labels, and how much of the trace they show."""
        return Labels(self.label_power, self.noise, self.informative, self.output.shown)

    def limit(self, overlaps: Overlaps) -> LeadingOverlaps:
        """The trace that is seen where labels are fitted exactly (P11.6)."""
        (told,) = self.output.directions.told
        effective = told + self.output.shown * (told - overlaps.tau)
        return traced(overlaps, (effective,), self.output.directions)
