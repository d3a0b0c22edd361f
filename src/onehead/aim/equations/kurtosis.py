"""Tokens of another kurtosis: the trace of the map is told apart from the rest of it (P11).

With S = τ I + S', τ = Tr S/d, the logit of a token with itself is (x'S x - Tr S)/sqrt d = h(S') + τ (|x|² - d)/sqrt d. The first part has
variance 2 Tr S'²/d whatever the law of the entries of x, the second τ² (kurtosis - 1). So all coordinates of two tokens are Gaussian
still, with another variance along the even and the odd axis of C (2.5), c = 4 and 2:

    Var u* = c Q + (kurtosis - 3) τ*²,   Var v = c q + (kurtosis - 3) τ²,   Cov(u*, v) = c m + (kurtosis - 3) τ τ*.

The identity is a direction like the leading ones (P1), of strength τ; the unknowns are theirs.
"""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.aim.equations.averages import Averages, ProxMemory, sliced
from onehead.aim.equations.input import InputChannel
from onehead.aim.equations.kernels import STEP_LABEL, answer_of, origin_sums, sigmoid
from onehead.aim.equations.nodes import LogitRule, normal_rule
from onehead.aim.equations.output import OutputChannel
from onehead.aim.equations.told_apart import ToldApart, ToldAverages
from onehead.aim.equations.unknowns import CLOSEST, Directions, Hats, LeadingHats, LeadingOverlaps, Overlaps
from onehead.aim.task import GAUSSIAN, Task
from onehead.errors import InvalidArgument
from onehead.numerics.compiled import njit
from onehead.numerics.line import root_between
from onehead.spectra.law import ThresholdIntegrals, threshold_integrals

__all__ = ["KurtosisOutput", "check_known", "held", "trace_of", "traced"]

Array = NDArray[np.float64]

ROW = 3.0  # variance of the logit difference of a row of two tokens, per unit of variance (1.4)
NEXT_TO_NONE = 1e-9  # blur of the target, relative, that stands for none
SPREAD = 1e-9  # of the eigenvalues of a target, relative, below which it is a multiple of the identity


def check_known(task: Task) -> None:
    """Refuse labels that show nothing but the trace of the target."""
    if task.noise == 0.0 and trace_of(task).rest <= SPREAD * task.beta0**2 * task.target.second_moment:
        raise InvalidArgument(
            "kurtosis", task.kurtosis, "3 for a target whose eigenvalues are all equal, with labels without noise"
        )


class Trace(Directions):
    """The identity as a direction of a target, whose rest is solved for by the cosine itself: a lattice sees it to all digits."""

    def state_of(self, y: NDArray[np.float64]) -> tuple[float, ...]:
        """(q_b, m_b, τ, Sigma) from log q_b, the cosine, τ and log Sigma."""
        q, sigma = float(np.exp(y[0])), float(np.exp(y[-1]))
        return q, float(np.clip(y[1], -CLOSEST, CLOSEST) * np.sqrt(q * self.rest)), float(y[2]), sigma

    def angle(self, q: float, m: float) -> float:
        """The cosine."""
        size = float(np.sqrt(max(q, 0.0) * self.rest))
        return m / size if size > 0.0 else 0.0


def trace_of(task: Task) -> Trace:
    """τ* of a task, and what it leaves of Q0, in reduced units."""
    told = task.beta0 * task.target.mean
    return Trace((told,), task.beta0**2 * task.target.second_moment - told**2)


def traced(whole: Overlaps, effective: tuple[float, ...], known: Directions) -> LeadingOverlaps:
    """The overlaps of a map with its trace told apart: q_b = q - τ², m_b = m - τ τ* (P11.3)."""
    tau, (told,) = whole.tau, known.told
    return LeadingOverlaps(
        max(whole.q - tau**2, 0.0),
        whole.m - tau * told,
        (tau,),
        whole.sigma,
        tau,
        whole.rank,
        whole.map,
        effective,
        known,
    )


def held(channel: InputChannel, output: "KurtosisOutput") -> tuple[float, ...]:
    """The overlaps of P, the best that a map can hold of the target: (S* + lift)_+, lift = (kurtosis - 3)/3 (τ* - Tr P/d) (P11.4)."""
    known, share = output.directions, output.excess / ROW
    if channel.obstacle is None:
        return known.rest, known.rest, *known.told
    (told,), law = known.told, channel.law(NEXT_TO_NONE * channel.target_power)

    def at(lift: float) -> ThresholdIntegrals:
        return threshold_integrals(law, -lift, channel.width)

    (low, *_), (*_, high) = law.edges[0], law.edges[-1]
    most = 2.0 * (abs(low) + abs(high)) * (1.0 + abs(share))
    lift = root_between(lambda x: x - share * (told - at(x).B), -most, most, xtol=1e-13 * most)
    q, tau = at(lift).J, at(lift).B
    return q - tau**2, q - tau * (told + lift), tau


class _Axes(NamedTuple):
    """Variances of label and learner and their covariance along the even and the odd axis of two tokens."""

    label: Array
    own: Array
    shared: Array


@dataclass(frozen=True, kw_only=True)
class KurtosisOutput(ToldApart):
    """The output channel of two tokens whose entries have another kurtosis: states are (q_b, m_b, τ, Sigma) (P11)."""

    kurtosis: float

    @property
    def excess(self) -> float:
        """By how much the variance of a token's squared length over d exceeds that of a Gaussian one."""
        return self.kurtosis - GAUSSIAN

    @property
    def shown(self) -> float:
        """How much more of the trace labels show than of other directions: (kurtosis - 3) times the mean of 1/c over the axes (P11.6)."""
        return self.excess * float(np.mean(1.0 / self._spreads))

    @cached_property
    def others(self) -> OutputChannel:
        """The channel of all that is not the trace."""
        return OutputChannel(loss=self.loss, geometry=self.geometry, label_power=self.rest, branch=self.branch)

    def shrunk(self, c: float, reach: tuple[float, ...]) -> tuple[float, ...]:
        """c P, given by the overlaps of P (P11.4)."""
        q, m, tau = reach
        return c * c * q, c * m, c * tau

    def _along(self, pair: tuple[float, ...]) -> _Axes:
        """Variances along the axes, even and odd, which C and the own logits share (P11.1)."""
        (q, m, tau), (told,) = pair, self.directions.told
        c, seen = self._spreads, self._spreads + self.excess
        return _Axes(c * self.rest + seen * told**2, c * q + seen * tau**2, c * m + seen * tau * told)

    @cached_property
    def _spreads(self) -> Array:
        """Eigenvalues of C, even first."""
        (block,) = self.geometry.blocks
        return np.asarray(np.sum(block.root**2, axis=0))

    def _at(self, pair: tuple[float, ...], level: int, twin: bool) -> LogitRule:
        """Nodes put where they belong: logits of label and learner."""
        (block,), along = self.geometry.blocks, self._along(pair)
        rule, axes = normal_rule(block, level, twin), block.root / np.sqrt(self._spreads)
        label = rule.nodes[:, : block.dim] * np.sqrt(along.label)
        slope = along.shared / along.label
        free = np.sqrt(np.maximum(along.own - slope * along.shared, 0.0)) * rule.nodes[:, block.dim :]
        u, v = (np.ascontiguousarray(part @ axes.T) for part in (label, slope * label + free))
        return LogitRule(u, v, rule.weights)

    def averages(  # type: ignore[override]
        self,
        *state: float,
        level: int,
        twin: bool = False,
        detail: int = 0,
        search: bool = False,
        memory: ProxMemory | None = None,
    ) -> ToldAverages:
        """Averages over the prox at a state (P11.1); along the trace by Stein and, in ``detail``, by derivatives."""
        *pair, sigma = state
        (block,), rule = self.geometry.blocks, self._at(tuple(pair), level, twin)
        mode, convex = 2 if self.branch == "global" else int(search), self.convex_at(sigma)
        memory = memory if memory is not None else ProxMemory(follow=False)
        recall, (points,) = self._recalled(memory, (rule.label,), convex=convex)
        mode = 0 if recall == 2 or convex else mode
        sums = self._kernel_sums(block, rule, points, (1.0, 0.0, 1.0, sigma), (mode, detail, recall))
        self._check_gradient(float(sums[:, 8].max()), pair[0], pair[1], sigma)
        pull = rule.weights[:, None] * ((points - rule.free) @ block.metric)
        answered = self._answered(rule, points, tuple(pair), sigma) if detail else np.nan
        plain, beyond = self._along_trace(Averages(*sums[:, :8].sum(axis=0).tolist()), tuple(pair), rule, pull)
        found = ToldAverages(plain, (beyond, answered))
        memory.averages, memory.parts = found, None
        return found

    def _along_trace(
        self, plain: Averages, pair: tuple[float, ...], rule: LogitRule, pull: Array
    ) -> tuple[Averages, float]:
        """Along each axis E pull u* = a Var u* - b Cov and E pull v = a Cov - b Var v say a and b, the mean answers of the pull (P11.2)."""
        (block,), along, (q, m, tau), (told,) = self.geometry.blocks, self._along(pair), pair, self.directions.told
        axes = block.root / np.sqrt(self._spreads)
        by_label, by_own = (np.sum((pull @ axes) * (side @ axes), axis=0) for side in (rule.label, rule.free))
        area = along.label * along.own - along.shared**2
        a = (along.own * by_label - along.shared * by_own) / area
        b = (along.shared * by_label - along.label * by_own) / area
        c, Q = self._spreads, self.rest
        rest = plain._replace(
            along_label=float(c @ (Q * a - m * b)),
            along_own=float(c @ (m * a - q * b)),
        )
        return rest, self.excess * float(np.sum(told * a - tau * b))

    def _answered(self, rule: LogitRule, points: Array, pair: tuple[float, ...], sigma: float) -> float:
        """The same by derivatives, which keep their digits where learner and label hardly differ (P11.2)."""
        (block,), (*_, tau), (told,) = self.geometry.blocks, pair, self.directions.told
        before, nodes = (self.loss.compiled_pair, block.metric), (rule.label, points, rule.weights)
        a, b = sliced(answer_sums, 2, block.slice, before, nodes, (sigma,)).sum(axis=0).tolist()
        return float(self.excess * (told * a - tau * b))

    def switch_mass(self, *state: float, level: int) -> float:
        """Share of samples with a lower minimum than the one near the label; the coarsest lattice will do."""
        return 0.0 if self.convex_at(state[-1]) else self.averages(*state, level=0, search=True).switch_mass

    def hats_of(self, averages: ToldAverages, *state: float, derivative: bool) -> LeadingHats:  # type: ignore[override]
        """Those of the rest, and τ_eff = τ* + 2 E pull.(what own logits have beyond Gaussian ones)/(Sigma mhat) (P11.2)."""
        q, m, _, sigma = state
        beyond = averages.along[int(derivative)]
        rest: Hats = self.others.hats_of(averages.plain, q, m, sigma, derivative=derivative)
        lift = self.geometry.unit * beyond / (sigma * rest.m)
        return LeadingHats(*rest, (self.directions.told[0] + lift,))

    def _row(self, pair: tuple[float, ...], power: float | None) -> tuple[float, float, float]:
        """q, m and Q of a head on Gaussian tokens whose rows have the same logits: a row of two tokens has one coordinate (P11.4)."""
        (q, m, tau), (told,) = pair, self.directions.told
        share = self.excess / ROW
        Q = self.label_power if power is None else power
        return q + (1.0 + share) * tau**2, m + (1.0 + share) * tau * told, Q + share * told**2

    def fresh_loss(
        self,
        *pair: float,
        coarse: bool = False,
        twin: bool = False,
        power: float | None = None,
        loss: str | None = None,
    ) -> float:
        """E loss on fresh samples (P11.4)."""
        q, m, Q = self._row(pair, power)
        return super().fresh_loss(q, m, coarse=coarse, twin=twin, power=Q, loss=loss)

    def fresh_loss_error(self, *pair: float, power: float | None = None, loss: str | None = None) -> float:
        """Error of an average over fresh samples."""
        q, m, Q = self._row(pair, power)
        return super().fresh_loss_error(q, m, power=Q, loss=loss)

    @property
    def noise_error(self) -> float:
        """Test error of an infinitely large map of pure noise, which no kurtosis makes larger."""
        *_, Q = self._row((0.0, 0.0, 0.0), None)
        return replace(self.others, label_power=Q).noise_error

    @lru_cache(maxsize=64)  # noqa: B019  (frozen and small: the same few channels are asked again and again)
    def at_origin(self, level: int) -> LeadingHats:  # type: ignore[override]
        """Hats per unit of α at S = 0; every row answers to its own label alone, so that the trace is seen kurtosis/3 times (P11.5)."""
        q_hat, m_hat = super().at_origin(level)
        return LeadingHats(q_hat, m_hat, m_hat, (self.directions.told[0] * (1.0 + self.excess / ROW),))

    def _origin_sums(self, level: int, *, twin: bool = False) -> list[Array]:
        """(qhat, mhat) in pieces, on nodes of these labels."""
        (block,), rule = self.geometry.blocks, self._at((0.0, 0.0, 0.0), level, twin)
        before: tuple[Any, ...] = (self.loss.compiled, self.loss.compiled_response, block.select, block.covariance)
        return [self.geometry.unit * sliced(origin_sums, 2, block.slice, before, (rule.label, rule.weights), (1.0,))]


@njit(cache=True, nogil=True, error_model="numpy")
def answer_sums(pair, metric, label, points, weights, step, length, first, last, out):  # type: ignore[no-untyped-def]
    """E tr of how the pull answers to the label, C^-1 dprox/du*, and to the learner, C^-1 (1 - dprox/dv), over slices of nodes."""
    p00, p01, p11 = metric[0, 0] / step, metric[0, 1] / step, metric[1, 1] / step
    for part in range(first, last):
        sums = out[part]
        sums[:] = 0.0
        for node in range(part * length, min((part + 1) * length, weights.shape[0])):
            t0, t1, u0, u1 = label[node, 0], label[node, 1], points[node, 0], points[node, 1]
            y0, c0 = sigmoid(t0)
            y1, c1 = sigmoid(t1)
            l0, l1 = pair(u0, y0, c0)[2], pair(u1, y1, c1)[2]
            h0, h1 = p00 + l0, p11 + l1
            # the floor lifts a minimum on the verge of losing itself
            scale = weights[node] * step / max(h0 * h1 - p01 * p01, 1e-9 * p00 * p11)
            g0, g1 = scale * (p00 * h1 - p01 * p01), scale * (p11 * h0 - p01 * p01)
            sums[0] -= (g0 * answer_of(pair, u0, t0) + g1 * answer_of(pair, u1, t1)) / (2.0 * STEP_LABEL)
            sums[1] += g0 * l0 + g1 * l1
