"""The output channel of two tied tokens whose entries are not Gaussian: the trace of the map is an explicit direction
(P11).

With S = τ I + S', τ = Tr S/d, the part τ (|x|² - d)/sqrt d of a token's logit with itself has variance τ² (kurtosis -
1). All coordinates of two tokens stay Gaussian, with another variance along the even and the odd axis of C (2.5), c = 4
and 2:

    Var u* = c Q + (kurtosis - 3) τ*²,   Var v = c q + (kurtosis - 3) τ²,   Cov(u*, v) = c m + (kurtosis - 3) τ τ*.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from onehead.aim.kernels.arguments import Scaling
from onehead.aim.kernels.dense import origin_sums
from onehead.aim.kernels.two_tokens import label_response, sigmoid
from onehead.aim.logits.quadrature import LogitRule, normal_rule
from onehead.aim.theory.input.trace import ROW_VARIANCE
from onehead.aim.theory.order_parameters import Hats
from onehead.aim.theory.output.averages import Averages, FreshSamples, ProxCache, Request, sum_in_slices
from onehead.aim.theory.output.explicit_directions import DirectionAverages, ExplicitDirectionsOutput
from onehead.aim.theory.output.one_sector import OneSectorOutput, scalar_hats
from onehead.numerics.jit import njit

Array = NDArray[np.float64]


class _Axes(NamedTuple):
    """Variances of label and learner and their covariance along the even and the odd axis of two tokens."""

    label: Array
    own: Array
    shared: Array


@final
@dataclass(frozen=True, kw_only=True)
class KurtosisOutput(ExplicitDirectionsOutput):
    """The output channel of two tokens that are not Gaussian; a state is (q_b, m_b, τ, Sigma) (P11).

    ``excess`` is kurtosis - 3: by how much the variance of a token's squared length over d exceeds that of a Gaussian
    one.
    """

    excess: float

    @property
    def coarse_fresh_slopes(self) -> bool:
        """False: derivatives of the loss on fresh samples use the rule of the loss itself."""
        return False

    def _gaussian(self, power: float) -> OneSectorOutput:
        """Return the channel of Gaussian tokens whose labels have this variance."""
        return OneSectorOutput(loss=self.loss, geometry=self.geometry, label_power=power, branch=self.branch)

    def _along_axes(self, values: tuple[float, ...]) -> _Axes:
        """Return the variances along the even and the odd axis, which C and the own logits share (P11.1)."""
        (q, m, tau), (target,) = values, self.directions.target_eigenvalues
        c, Q = self._axis_variances, self.bulk_label_power
        own = c + self.excess
        return _Axes(c * Q + own * target**2, c * q + own * tau**2, c * m + own * tau * target)

    @cached_property
    def _axis_variances(self) -> Array:
        """Eigenvalues of C, even axis first."""
        (block,) = self.geometry.blocks
        return np.asarray(np.sum(block.root**2, axis=0))

    def _rule(self, values: tuple[float, ...], level: int, check_rule: bool) -> LogitRule:
        """Return nodes that are logits of label and learner."""
        (block,), along = self.geometry.blocks, self._along_axes(values)
        rule, axes = normal_rule(block, level, check_rule), block.root / np.sqrt(self._axis_variances)
        label = rule.nodes[:, : block.dim] * np.sqrt(along.label)
        slope = along.shared / along.label
        free = np.sqrt(np.maximum(along.own - slope * along.shared, 0.0)) * rule.nodes[:, block.dim :]
        u, v = (np.ascontiguousarray(part @ axes.T) for part in (label, slope * label + free))
        return LogitRule(u, v, rule.weights)

    def _average(self, state: tuple[float, ...], asked: Request) -> DirectionAverages:
        """Average over the proximal operator (P11.1); along the trace in the Stein and, with ``detail``, in the
        derivative form.
        """
        (*values, sigma), (level, check_rule, detail, search, cache) = state, asked
        (block,), rule = self.geometry.blocks, self._rule(tuple(values), level, check_rule)
        convex, cache = self.convex_at(sigma), cache or ProxCache(track_minimum=False)
        warm, (points,) = self._warm_start(cache, (rule.label,), (1,), convex=convex)
        modes = self._modes(detail, search, warm, convex)
        sums = self._dense_sums(block, rule, points, Scaling(1.0, 0.0, 1.0, sigma), modes)
        self._check_gradient(float(sums[:, 8].max()), sigma)
        pull = rule.weights[:, None] * ((points - rule.free) @ block.metric)
        by_derivative = self._trace_by_derivatives(rule, points, tuple(values), sigma) if detail else np.nan
        bulk, by_stein = self._split_trace(Averages(*sums[:, :8].sum(axis=0).tolist()), tuple(values), rule, pull)
        found = DirectionAverages(bulk, (by_stein, by_derivative))
        cache.averages, cache.parts = found, None
        return found

    def parts(self, *state: float, level: int, cache: ProxCache | None = None) -> Sequence[DirectionAverages]:
        """Return nothing: a lattice has no independent parts."""
        return ()

    def _split_trace(
        self, averages: Averages, values: tuple[float, ...], rule: LogitRule, pull: Array
    ) -> tuple[Averages, float]:
        """Separate the average pull along the trace from that in the bulk (P11.2).

        Along each axis E pull u* = a Var u* - b Cov and E pull v = a Cov - b Var v give a and b, the mean responses of
        the pull.
        """
        (block,), along, (q, m, tau) = self.geometry.blocks, self._along_axes(values), values
        (target,) = self.directions.target_eigenvalues
        axes = block.root / np.sqrt(self._axis_variances)
        by_label, by_own = (np.sum((pull @ axes) * (side @ axes), axis=0) for side in (rule.label, rule.free))
        area = along.label * along.own - along.shared**2
        a = (along.own * by_label - along.shared * by_own) / area
        b = (along.shared * by_label - along.label * by_own) / area
        c, Q = self._axis_variances, self.bulk_label_power
        bulk = averages._replace(
            along_label=float(c @ (Q * a - m * b)),
            along_own=float(c @ (m * a - q * b)),
        )
        return bulk, self.excess * float(np.sum(target * a - tau * b))

    def _trace_by_derivatives(self, rule: LogitRule, points: Array, values: tuple[float, ...], sigma: float) -> float:
        """Return the average pull along the trace by derivatives, which keep their digits where learner and label are
        close (P11.2).
        """
        (block,), (*_, tau), (target,) = self.geometry.blocks, values, self.directions.target_eigenvalues
        arguments = (self.loss.compiled_pair, block.metric, rule.label, points, rule.weights, sigma)
        a, b = sum_in_slices(response_sums, 2, block.slice, len(rule.weights), arguments).sum(axis=0).tolist()
        return float(self.excess * (target * a - tau * b))

    def switch_mass(self, *state: float, level: int) -> float:
        """Share of samples with a lower minimum than the one near the label; the check rule of the coarsest lattice
        resolves it.
        """
        if self.convex_at(state[-1]):
            return 0.0
        return self.averages(*state, level=0, search=True, check_rule=True).switch_mass

    def hats_of(self, averages: DirectionAverages, *state: float, derivative: bool) -> Hats:
        """Return the hats of the bulk, and τ_eff = τ* + 2 E pull.(excess of the own logits)/(Sigma mhat) (P11.2)."""
        q, m, _, sigma = state
        unit, Q = self.geometry.unit, self.bulk_label_power
        bulk = scalar_hats(averages.bulk, Q, q, m, sigma, unit=unit, derivative=derivative)
        shift = unit * averages.along[int(derivative)] / (sigma * bulk.m)
        return replace(bulk, effective=(self.directions.target_eigenvalues[0] + shift,))

    def _gaussian_row(self, values: tuple[float, ...], power: float | None) -> tuple[float, float, float]:
        """Return q, m and Q of Gaussian tokens whose rows have the same logits: a row of two tokens has one coordinate
        (P11.4).
        """
        (q, m, tau), (target,) = values, self.directions.target_eigenvalues
        share = self.excess / ROW_VARIANCE
        Q = self.label_power if power is None else power
        return q + (1.0 + share) * tau**2, m + (1.0 + share) * tau * target, Q + share * target**2

    def _fresh_loss(self, values: tuple[float, ...], asked: FreshSamples) -> float:
        """Average a loss over fresh samples (P11.4)."""
        q, m, Q = self._gaussian_row(values, asked.power)
        return self._gaussian(Q)._fresh_loss((q, m), asked._replace(power=None))

    def _fresh_loss_error(self, values: tuple[float, ...], asked: FreshSamples) -> float:
        """Quadrature error of `fresh_loss`."""
        q, m, Q = self._gaussian_row(values, asked.power)
        return self._gaussian(Q)._fresh_loss_error((q, m), asked._replace(power=None))

    @property
    def noise_error(self) -> float:
        """Test error of an infinitely large map of pure noise, which does not depend on the kurtosis of the learner's
        logits.
        """
        *_, Q = self._gaussian_row((0.0, 0.0, 0.0), None)
        return self._gaussian(Q).noise_error

    @lru_cache(maxsize=64)  # noqa: B019  (channels are frozen and small, and few at a time)
    def at_origin(self, level: int) -> Hats:
        """Return the hats per unit of α at S = 0; every row responds to its own label alone, which shows kurtosis/3 of
        the trace (P11.5).
        """
        q_hat, m_hat = self._origin_sums(level).tolist()
        effective = self.directions.target_eigenvalues[0] * (1.0 + self.excess / ROW_VARIANCE)
        return Hats(q_hat, m_hat, m_hat, (effective,))

    def at_origin_error(self, level: int) -> tuple[float, float]:
        """Quadrature errors of qhat and mhat at S = 0."""
        q_hat, m_hat = np.abs(self._origin_sums(level) - self._origin_sums(level, check_rule=True)).tolist()
        return q_hat, m_hat

    def _origin_sums(self, level: int, *, check_rule: bool = False) -> Array:
        """Return (qhat, mhat) at S = 0."""
        (block,), rule = self.geometry.blocks, self._rule((0.0, 0.0, 0.0), level, check_rule)
        functions = (self.loss.compiled, self.loss.compiled_response)
        arguments = (*functions, block.select, block.covariance, rule.label, rule.weights)
        sums = sum_in_slices(origin_sums, 2, block.slice, len(rule.weights), arguments)
        return np.asarray(self.geometry.unit * sums.sum(axis=0))


@njit
def response_sums(pair, metric, label, points, weights, step, slices, out):  # type: ignore[no-untyped-def]
    """Sum E tr of the response of the pull to the label, C^-1 dprox/du*, and to the learner, C^-1 (1 - dprox/dv), over
    slices of nodes.
    """
    length, first, last = slices
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
            # nearly singular Hessian: the floor keeps its determinant positive
            scale = weights[node] * step / max(h0 * h1 - p01 * p01, 1e-9 * p00 * p11)
            g0, g1 = scale * (p00 * h1 - p01 * p01), scale * (p11 * h0 - p01 * p01)
            sums[0] += g0 * label_response(pair, u0, t0) + g1 * label_response(pair, u1, t1)
            sums[1] += g0 * l0 + g1 * l1
