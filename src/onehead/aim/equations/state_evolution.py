"""State evolution: the equations of a head, q, m, Sigma -> hats (2.2) -> q, m, Sigma (2.3), in reduced units (1.5).

Both temperatures are one here: target eigenvalues times β₀, Δ times β₀², λ over β to the degree of its penalty; the solution is
then β S. The two channels (`input`, `output`) hold the equations themselves; this is where a task and a learner become them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.aim.equations.averages import ProxMemory
from onehead.aim.equations.geometry import geometry_of, on_samples
from onehead.aim.equations.input import InputChannel
from onehead.aim.equations.kurtosis import KurtosisOutput, check_known, held, trace_of, traced
from onehead.aim.equations.leading import directions_of, leading_count, led, seen_by
from onehead.aim.equations.leading_output import LeadingOutput
from onehead.aim.equations.leading_rows import LeadingRows
from onehead.aim.equations.output import OutputChannel
from onehead.aim.equations.sectors import Consistent, SectorLinear, SectorOutput
from onehead.aim.equations.separability import separability
from onehead.aim.equations.unknowns import (
    INFINITE,
    AnyHats,
    AnyOverlaps,
    Hats,
    Labels,
    LeadingHats,
    LeadingOverlaps,
    Overlaps,
    SectorHats,
    SectorOverlaps,
    SpectralMap,
)
from onehead.aim.equations.untied import CHANNELS
from onehead.aim.losses import loss_on
from onehead.aim.targets import Discrete
from onehead.aim.task import Learner, Task
from onehead.errors import InvalidArgument

__all__ = ["KurtosisEvolution", "LeadingEvolution", "SectorEvolution", "StateEvolution", "Units"]

MOST_OWN = 16  # tokens with a loss whose Hessian is not known to be simple
SECTORS: dict[str, type[InputChannel]] = {"factorised": Consistent, "direct": SectorLinear}


class Units(NamedTuple):
    """From the units of the learner's own map S to reduced ones and back (1.5)."""

    beta: float
    beta0: float
    degree: int

    @property
    def factors(self) -> NDArray[np.float64]:
        """What q, m and Sigma are multiplied by on the way to reduced units."""
        return np.array([self.beta**2, self.beta * self.beta0, 1.0])

    def reduced(self, q: float, m: float) -> tuple[float, float]:
        """q = Tr S²/d and m = Tr S S*/d in reduced units."""
        return q * self.beta**2, m * self.beta * self.beta0

    def own(self, q: float, m: float) -> tuple[float, float]:
        """The way back."""
        return q / self.beta**2, m / (self.beta * self.beta0)

    def reduced_decay(self, decay: float) -> float:
        """λ in reduced units."""
        return float(decay / self.beta**self.degree)

    def own_decay(self, decay: float) -> float:
        """λ in the learner's own units."""
        return float(decay * self.beta**self.degree)


@dataclass(frozen=True)
class StateEvolution:
    """The equations of one head."""

    input: InputChannel
    output: OutputChannel
    noise: float
    units: Units

    @classmethod
    def of(cls, task: Task, learner: Learner) -> "StateEvolution":
        """The equations of a task and a learner."""
        geometry, loss = geometry_of(task.attention, task.mask, task.tokens), loss_on(task.labels, learner.loss)
        if loss.lean is None and task.tokens > MOST_OWN:
            raise InvalidArgument("tokens", task.tokens, f"at most {MOST_OWN} with a loss of your own")
        two = geometry.sectors == 2
        kind = SECTORS[learner.param] if two else CHANNELS[task.tied, learner.param]
        units, noise = Units(learner.beta, task.beta0, kind.degree), task.beta0**2 * task.noise
        channel = kind(
            target=task.target,
            scale=task.beta0,
            decay=units.reduced_decay(learner.decay),
            width=learner.width,
            unit=geometry.unit,
        )
        power = task.beta0**2 * task.target.second_moment + 0.5 * noise
        count = leading_count(task, learner)
        if task.sees_kurtosis:
            check_known(task)
            told_apart = KurtosisOutput(
                loss=loss,
                geometry=geometry,
                label_power=power,
                branch=learner.branch,
                kurtosis=task.kurtosis,
                directions=trace_of(task),
            )
            return KurtosisEvolution(channel, told_apart, noise, units)
        if count:
            known = directions_of(task, count)
            exact = (LeadingOutput if task.tied else LeadingRows)(
                loss=loss,
                geometry=on_samples(geometry),
                label_power=power,
                branch=learner.branch,
                directions=known,
            )
            return LeadingEvolution(channel, exact, noise, units)
        output = (SectorOutput if two else OutputChannel)(
            loss=loss, geometry=geometry, label_power=power, branch=learner.branch
        )
        return (SectorEvolution if two else cls)(channel, output, noise, units)

    def with_decay(self, decay: float) -> "StateEvolution":
        """The same head at another weight decay, in reduced units."""
        return replace(self, input=replace(self.input, decay=decay))

    @property
    def decay(self) -> float:
        """λ in reduced units; zero is the limit."""
        return self.input.decay

    @property
    def target_power(self) -> float:
        """Q0 in reduced units."""
        return self.input.target_power

    @property
    def label_power(self) -> float:
        """Q = Q0 + Δ/2: variance of the noisy label coordinates (1.4)."""
        return self.output.label_power

    @property
    def informative(self) -> float:
        """J, combinations of logits per sample that carry information (1.6)."""
        return self.output.geometry.informative

    @property
    def labels(self) -> Labels:
        """What the input channel must know of the labels."""
        return Labels(self.label_power, self.noise, self.informative)

    def turn(
        self, state: Sequence[float], alpha: float, *, level: int, twin: bool = False, memory: ProxMemory | None = None
    ) -> tuple[Hats, Overlaps]:
        """One turn of the equations: overlaps -> hats -> overlaps."""
        hats = self.output.hats(*state, level=level, twin=twin, memory=memory).times(alpha)
        return hats, self.overlaps_of(hats)

    def overlaps_of(self, hats: Any) -> Any:
        """The input half of a turn: hats -> overlaps."""
        return self.input.overlaps(hats)

    def beside(self, hats: Any, near: Any) -> Any:
        """Overlaps whose unknowns are told elsewhere: rank, trace and spectral map at hats close to those of ``near``."""
        return self.overlaps_of(hats)

    def hats_of(self, q: float, m: float, sigma: float, effective: Sequence[float]) -> Any:
        """Hats from numbers; ``effective`` eigenvalues, in units of the target, are those of leading directions."""
        return Hats(q, m, sigma)

    def channel_at(self, hats: AnyHats | AnyOverlaps) -> InputChannel:
        """The input channel as it is where the output channel gave these hats, or the map has these overlaps."""
        return self.input

    def limit(self, overlaps: Overlaps) -> Any:
        """The overlaps of a limit in which labels are fitted exactly (4.1, 4.4)."""
        return overlaps

    def state_of(self, y: NDArray[np.float64]) -> Sequence[float]:
        """The state of the numbers that are solved for: of logarithms."""
        return np.exp(y).tolist()  # type: ignore[no-any-return]

    @property
    def nudges(self) -> NDArray[np.float64]:
        """Small changes of the numbers that are solved for; smaller m and larger q stay inside m² <= q Q0."""
        return np.array([1e-3, -1e-3, 1e-3])

    @property
    def relaxes(self) -> bool:
        """Whether a solution can be reached by letting λ fall from where the map vanishes."""
        return self.input.relaxes

    @property
    def by_sigma(self) -> bool:
        """Whether the equations can be solved at a given Sigma."""
        return self.input.by_sigma

    @property
    def reach(self) -> tuple[float, ...]:
        """What a map can hold of the target, as an average over fresh samples knows it: its power (8.1)."""
        return (self.input.reachable_power,)

    @property
    def leading(self) -> int:
        """Leading directions that are averaged exactly (P8)."""
        return 0

    @property
    def told(self) -> int:
        """Directions of the map that are told apart from the rest."""
        return 0

    @property
    def origin_level(self) -> int:
        """Rule on which it is found out whether the map is zero: a coarse one where points are sampled."""
        return 0 if self.output.geometry.sampled else 1

    def inside(self, logs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Keep m² <= q Q0, which extrapolation can violate, of (log q, log m) and what follows them."""
        bound = 0.5 * (logs[0] + np.log(self.target_power)) + np.log1p(-1e-9)
        return np.array([logs[0], min(logs[1], bound), *logs[2:]])

    @property
    def zero(self) -> Overlaps:
        """The overlaps of no map."""
        return Overlaps(0.0, 0.0, 0.0, 0.0, 0.0, SpectralMap(0.0, 0.0, 0.0, 0.0))

    def zero_at(self, hats: Any) -> Any:
        """The same where the output channel gave these hats."""
        return self.zero

    @property
    def isotropic(self) -> "StateEvolution | None":
        """The same head if all its logits were independent; None if it has one sector anyway."""
        return None

    def even(self, logs: NDArray[np.float64]) -> NDArray[np.float64]:
        """The state whose sectors are all like this one; there is one."""
        return logs

    def at_origin(self, alpha: float, level: int) -> tuple[float, Hats]:
        """The blur s of the first step from S = 0, and its hats, Sigma being that of a loss without curvature (4.6)."""
        q0, m0 = self.output.at_origin(level)
        return q0 / (alpha * m0**2), Hats(alpha * q0, alpha * m0, alpha * m0)

    @property
    def ridgeless(self) -> bool:
        """Whether the limit λ → 0⁺ is known where the labels are fitted: of soft labels, and of a map of one sector (4, U12)."""
        return not self.output.loss.hard and self.output.geometry.sectors == 1

    @property
    def interpolation(self) -> float:
        """Sample ratio up to which λ → 0⁺ fits every label (4.2, U7.1); infinite where it is not known."""
        if self.output.loss.hard:
            return self.separability[0] if self.separability is not None else INFINITE
        return self.input.interpolation(self.labels)[0]

    @property
    def separability(self) -> tuple[float, float] | None:
        """Sample ratio up to which hard labels are separable, and its error, where that is known: untied maps of full width (U7.1)."""
        geometry, full = self.output.geometry, not self.input.narrow(1.0)
        if not (self.output.loss.hard and geometry.unit == 1.0 and geometry.sectors == 1 and full):
            return None
        return separability(geometry, self.target_power, self.noise)

    @property
    def recovery(self) -> float:
        """Sample ratio from which on λ → 0⁺ finds the target exactly (4.4); infinite if never, or not known."""
        return self.input.recovery(self.labels) if self.ridgeless else INFINITE

    @property
    def narrow_interpolation(self) -> bool:
        """Whether interpolation ends where it does because of the width of the learner: a heuristic (3)."""
        return not np.isclose(self.interpolation, self.input.wide.interpolation(self.labels)[0], rtol=1e-9)

    @property
    def narrow_recovery(self) -> bool:
        """The same of recovery (4.4)."""
        return not np.isclose(self.recovery, self.input.wide.recovery(self.labels), rtol=1e-9)

    @property
    def direct_interpolation(self) -> float:
        """Interpolation and recovery of direct training: as many combinations as entries, whatever the target (4.5, 6)."""
        if self.output.loss.hard:
            return self.interpolation
        return 1.0 / self.output.geometry.unit / self.informative

    @property
    def bayes_optimal(self) -> float:
        """Recovery by the Bayes-optimal learner: as many combinations as eigenvectors have to be told apart (4.5)."""
        return self.input.apart / self.output.geometry.unit / self.informative if self.ridgeless else INFINITE


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
