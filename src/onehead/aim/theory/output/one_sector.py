"""The output channel of Gaussian logits of a map with one sector (2.2, U2.1, L6, L7)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np
from numpy.typing import NDArray

from onehead.aim.kernels.arguments import Detail, LogitState, Modes, Nodes, Scaling
from onehead.aim.kernels.control_variates import MOMENT_COUNT
from onehead.aim.kernels.dense import origin_sums
from onehead.aim.kernels.hard_labels import MAX_ENUMERATED_LABELS
from onehead.aim.kernels.independent_rows import independent_row_sums
from onehead.aim.kernels.losses import SQUARED
from onehead.aim.kernels.shared_logits import shared_logit_sums
from onehead.aim.logits.blocks import Block
from onehead.aim.logits.control_variates import (
    apply_controls,
    control_means,
    control_means_of_rows,
    has_enough_points,
    quartic_control_means,
)
from onehead.aim.logits.long_rows import LengthExtrapolation
from onehead.aim.logits.quadrature import LogitRule, column_rule, logit_rule, tied_rule
from onehead.aim.logits.row import Row
from onehead.aim.logits.softmax_row import SoftmaxRow
from onehead.aim.losses import Loss
from onehead.aim.theory.order_parameters import Hats
from onehead.aim.theory.output.averages import Averages, ProxCache, Request, parts_error, sum_in_slices
from onehead.aim.theory.output.base import NEARLY_ALIGNED
from onehead.aim.theory.output.gaussian import GaussianOutput

Array = NDArray[np.float64]

MAXIMUM_TOKENS_FOR_DOUBLE_SEARCH = (
    4  # up to which a proximal step is cheap enough to look for jumps on twice the points
)


def scalar_hats(
    averages: Averages, Q: float, q: float, m: float, sigma: float, *, unit: float, derivative: bool
) -> Hats:
    """Return the hats per unit of α of one sector (2.2), in the Stein or in the derivative form."""
    q_hat = unit * averages.distance / sigma**2
    if derivative:
        return Hats(q_hat, unit * averages.cross / sigma, unit * averages.trace / sigma)
    area = sigma * (Q * q - m * m)
    return Hats(
        q_hat,
        unit * (q * averages.along_label - m * averages.along_own) / area,
        -unit * (Q * averages.along_own - m * averages.along_label) / area,
    )


@final
@dataclass(frozen=True, kw_only=True)
class OneSectorOutput(GaussianOutput):
    """The output channel of Gaussian logits of a map with one sector; a state is (q, m, Sigma)."""

    def _isotropic_values(self, q: float, m: float) -> tuple[float, ...]:
        """Return (q, m)."""
        return q, m

    def label_values(self) -> tuple[float, ...]:
        """Return the values of a map whose logits equal the noisy labels."""
        return self.label_power, self.label_power

    def _average(self, state: tuple[float, ...], asked: Request) -> Averages:
        """Average over the proximal operator (2.2)."""
        (level, _, detail, _, cache), blocks = asked, self._sums(state, asked)
        found = Averages(*sum((sums.sum(axis=0) for sums in blocks), start=np.zeros(8)).tolist())
        if cache is not None:
            cache.averages = found
            # sums over independent rows give tr K² whenever they give derivatives
            cache.has_second_moments = detail == Detail.FULL or (
                detail == Detail.DERIVATIVE and all(map(self._independent_columns, self.geometry.blocks))
            )
            cache.parts = self._part_averages(blocks) if detail and level and self.geometry.sampled else None
        return found

    def parts(self, *state: float, level: int, cache: ProxCache | None = None) -> Sequence[Averages]:
        """Return the averages, with their derivative forms, by each independent part of a rule of sampled points."""
        return self._part_averages(self._sums(state, Request(level, detail=1, cache=cache)))

    def _part_averages(self, blocks: list[Array]) -> list[Averages]:
        return [Averages(*row) for row in self._sum_parts(blocks).tolist()]

    def _sums(self, state: tuple[float, ...], asked: Request) -> list[Array]:
        """Return for every block the averages in pieces, one row per slice of the nodes."""
        (q, m, sigma), (level, check_rule, detail, search, cache) = state, asked
        blocks, convex = self.geometry.blocks, self.convex_at(sigma)
        rules = [self._rule(block, level, check_rule) for block in blocks]
        labels = tuple(rule.label for rule in rules)
        warm, kept = self._warm_start(cache, labels, self._label_choices(), convex=convex)
        modes = self._modes(detail, search, warm, convex)
        found, worst = [], 0.0
        for block, rule, points in zip(blocks, rules, kept, strict=True):
            sums = self._prox_sums(block, rule, points, (q, m, sigma), modes)
            found.append(block.multiplicity * sums[:, :8])
            worst = max(worst, float(sums[:, 8].max()))
        self._check_gradient(worst, sigma)
        return found

    def _independent_columns(self, block: Block) -> bool:
        """Whether a block is a row of sampled logits whose Newton step is a Sherman-Morrison formula (U2.1)."""
        return not (block.shares_logits or block.on_lattice or self.loss.compiled_kind is None)

    def _shares_logits(self, block: Block) -> bool:
        """Whether a block is a tied head with more than two tokens whose Newton step is a Woodbury formula (L7)."""
        few = self.loss.hard and block.choices <= MAX_ENUMERATED_LABELS
        return block.shares_logits and not block.on_lattice and self.loss.compiled_kind is not None and not few

    def _uses_controls(self, block: Block) -> bool:
        """Whether averages over a block are corrected by control variates."""
        return self._independent_columns(block) or self._shares_logits(block)

    def _sums_labels(self, block: Block) -> bool:
        """Whether hard labels of a block are summed over; with control variates they are tilted towards or sampled."""
        return not self._uses_controls(block)

    def _label_draws(self, block: Block) -> int:
        """Number of hard labels that are sampled with every node of a block whose rows share logits (L7.2)."""
        return block.row_count if self.loss.hard else 0

    def _rule(self, block: Block, level: int, check_rule: bool) -> LogitRule:
        """Return the quadrature nodes of a block: in its coordinates, or for all its logits."""
        if self._independent_columns(block):
            return column_rule(block.sampled, level, check_rule)
        if self._shares_logits(block):
            return tied_rule(block, level, check_rule, self._label_draws(block))
        return logit_rule(block, level, check_rule)

    def _row_sums(
        self,
        row: Block,
        rule: LogitRule,
        points: Array,
        state: tuple[float, float, float],
        modes: Modes,
    ) -> Array:
        """Sum over the nodes of a row of independent logits, corrected by control variates (U2.1, L6)."""
        (q, m, sigma), Q, kind = state, self.label_power, self.loss.compiled_kind
        assert kind is not None
        short = row.sampled
        extrapolation = LengthExtrapolation(kind, self.loss.hard, short.length, row.length)
        at, modes = LogitState(Q, q, m, extrapolation.sigma(sigma)), self._with_controls(modes, rule, sigma)
        arguments = (kind, short.variances, Nodes(*rule, points), at, modes)
        sums = sum_in_slices(independent_row_sums, MOMENT_COUNT, row.slice, len(rule.weights), arguments)
        found = apply_controls(sums, control_means(self._fresh_row(short.row, q, m)))
        return found if short is row else extrapolation.sums(found, Q, q, m, sigma)

    def _with_controls(self, modes: Modes, rule: LogitRule, sigma: float) -> Modes:
        """Return modes with control variates: Stein combinations have mean zero only where no prox jumps, and need
        derivatives.
        """
        stein = modes.detail > 0 and (self.single_minimum or self.convex_at(sigma))
        return modes._replace(use_stein_controls=int(stein), all_controls=int(has_enough_points(len(rule.weights))))

    def _pair_sums(
        self,
        block: Block,
        rule: LogitRule,
        points: Array,
        state: tuple[float, float, float],
        modes: Modes,
    ) -> Array:
        """Sum over the nodes of all rows of a tied head, corrected by control variates that are sums over its rows
        (L7).
        """
        (q, m, sigma), Q, tokens = state, self.label_power, block.row_count
        at, modes = LogitState(Q, q, m, sigma), self._with_controls(modes, rule, sigma)
        arguments = (self.loss.compiled_kind, tokens, Nodes(*rule, points), at, modes)
        sums = sum_in_slices(shared_logit_sums, MOMENT_COUNT, block.slice, len(rule.weights), arguments)
        one = control_means(self._fresh_row(block.row, q, m))
        return apply_controls(sums, control_means_of_rows(one, tokens, quartic_control_means(block.variances)))

    def _prox_sums(
        self,
        block: Block,
        rule: LogitRule,
        points: Array,
        state: tuple[float, float, float],
        modes: Modes,
    ) -> Array:
        """Sum over the nodes of one block, by the kernel of its kind."""
        if self._independent_columns(block):
            return self._row_sums(block, rule, points, state, modes)
        if self._shares_logits(block):
            return self._pair_sums(block, rule, points, state, modes)
        (q, m, sigma), Q = state, self.label_power
        scaling = Scaling(np.sqrt(Q), m / Q, np.sqrt(max(q - m * m / Q, 0.0)), sigma)
        return self._dense_sums(block, rule, points, scaling, modes)

    def continuation_error(self, *values: float) -> float:
        """Relative error of continuing sampled rows to longer ones, from sums whose values are known at every length
        (L3).

        The continuation is a straight line in 1/n from the sampled row to the limits e^q, e^m and e^Q of n times sum
        p², p y and y².
        """
        q, m = values
        with np.errstate(over="ignore"):  # e^q beyond all numbers is an error beyond all bounds
            worst, limits = 0.0, np.exp([q, m, self.label_power])
        for row in self.geometry.blocks:
            if not self._independent_columns(row) or row.sampled is row:
                continue
            near = row.sampled.length / row.length
            short, long = (
                at.length * np.array([fresh.pp, fresh.py, fresh.yy])
                for at in (row.sampled, row)
                for fresh in [self._fresh_row(at.row, q, m)]
            )
            worst = max(worst, float(np.max(np.abs(((1.0 - near) * limits + near * short) / long - 1.0))))
        return worst

    def _learner_logits(self, block: Block, state: tuple[float, ...], level: int) -> Array:
        """Return the logits of the learner on a fresh sample at the nodes of a block."""
        q, m, _ = state
        Q, rule = self.label_power, self._rule(block, level, False)
        root: Array | float = 1.0
        if self._independent_columns(block):
            root = np.sqrt(block.sampled.variances)
        elif self._shares_logits(block):
            root = np.sqrt(block.variances)
        return np.asarray(root * (m / np.sqrt(Q) * rule.label + np.sqrt(max(q - m * m / Q, 0.0)) * rule.free))

    def switch_mass(self, *state: float, level: int) -> float:
        """Share of samples with a lower minimum than the one near the label (2.7).

        The check rule of the coarsest lattice resolves it. Sampled points are counted on the rule of ``level``, and for
        few tokens on its check rule too.
        """
        if self.convex_at(state[-1]):
            return 0.0
        if not self.geometry.sampled:
            return self.averages(*state, level=0, search=True, check_rule=True).switch_mass
        rules = (False, True) if self.geometry.tokens <= MAXIMUM_TOKENS_FOR_DOUBLE_SEARCH else (False,)
        counted = [
            self.averages(*state, level=level, search=True, check_rule=check_rule).switch_mass for check_rule in rules
        ]
        return max(sum(counted) / len(counted), 0.0)  # control variates may correct a small count to below zero

    def nearly_aligned(self, *values: float) -> bool:
        """Whether learner and label are so close that the Stein forms, which divide by Q q - m², lose digits."""
        q, m = values
        return 1.0 - m * m / (self.label_power * q) < NEARLY_ALIGNED

    def hats_of(self, averages: Averages, *state: float, derivative: bool) -> Hats:
        """Return the hats per unit of α (2.2), in the Stein or in the derivative form."""
        q, m, sigma = state
        return scalar_hats(averages, self.label_power, q, m, sigma, unit=self.geometry.unit, derivative=derivative)

    def _fresh_row(self, row: Row, *values: float, power: float | None = None) -> SoftmaxRow:
        """Return the law of a row of logits of a fresh sample."""
        q, m = values
        return row.at([self.label_power if power is None else power], [q], [m])

    def _loss_sums(
        self, row: Row, measure: Loss, Q: float, values: tuple[float, ...], coarse: bool, check_rule: bool
    ) -> Array:
        """Return the average loss of one kind of row by quadrature, one number per slice of the nodes."""
        q, m = values
        return self._row_loss_sums(row, measure, Q, q, m, coarse, check_rule)

    @lru_cache(maxsize=64)  # noqa: B019  (channels are frozen and small, and few at a time)
    def at_origin(self, level: int) -> Hats:
        """Return the hats per unit of α at S = 0: qhat = 2 E|grad|^2, mhat = Sigmahat = -2 E tr d(grad)/dz* (4.6)."""
        q_hat, m_hat = sum((sums.sum(axis=0) for sums in self._origin_sums(level)), start=np.zeros(2)).tolist()
        return Hats(q_hat, m_hat, m_hat)

    def at_origin_error(self, level: int) -> tuple[float, float]:
        """Quadrature errors of qhat and mhat at S = 0."""
        if not self.geometry.sampled:
            gaps = [
                one.sum(axis=0) - other.sum(axis=0)
                for one, other in zip(self._origin_sums(level), self._origin_sums(level, check_rule=True), strict=True)
            ]
            q_hat, m_hat = np.abs(np.sum(gaps, axis=0)).tolist()
            return q_hat, m_hat
        parts = self._sum_parts(self._origin_sums(level))
        return parts_error(parts[:, 0]), parts_error(parts[:, 1])

    def _origin_row(self, row: Row) -> Array:
        """(qhat, mhat) of one row at S = 0 by formula: the gradient at zero logits is 1/n - y, times 2/n if squared
        (L2.6).
        """
        variances, n = np.array([column.variances[0] for column in row.columns]), row.length
        first, second = self._fresh_row(row, self.label_power, self.label_power).moments
        counts = np.array([column.count for column in row.columns]) * variances
        factor = 2.0 / n if self.loss.compiled_kind == SQUARED else 1.0
        pull = factor**2 * counts @ (second - 2.0 * first / n + 1.0 / n**2)
        return np.array([[pull, factor * counts @ (first - second)]])

    def _origin_pairs(self, block: Block) -> Array:
        """(qhat, mhat) of a tied head at S = 0 by formula: its rows, and the correlation of two rows by their shared
        logit (L2.6).
        """
        row, n = block.row, block.row_count
        labels = self._fresh_row(row, self.label_power, self.label_power)
        first, both = (
            labels.moments[0][1],
            labels.squared_conditional_mean[1],
        )  # of a column that is not a row's own token
        factor = 2.0 / n if self.loss.compiled_kind == SQUARED else 1.0
        correlation = factor**2 * (both - 2.0 * first / n + 1.0 / n**2)
        return np.asarray(n * self._origin_row(row) + np.array([[n * (n - 1) * correlation, 0.0]]))

    def _origin_sums(self, level: int, *, check_rule: bool = False) -> list[Array]:
        """Return for every block (qhat, mhat) at S = 0 in pieces, one row per slice of the nodes."""
        found = []
        for block in self.geometry.blocks:
            if not block.shares_logits and self.loss.compiled_kind is not None:
                sums = self._origin_row(block.row)
            elif self._shares_logits(block):
                sums = self._origin_pairs(block)
            else:
                rule = logit_rule(block, level, check_rule)
                functions = (self.loss.compiled, self.loss.compiled_response)
                label = np.sqrt(self.label_power) * rule.label
                arguments = (*functions, block.select, block.covariance, label, rule.weights)
                sums = sum_in_slices(origin_sums, 2, block.slice, len(rule.weights), arguments)
            if self.loss.hard:  # the variance of a sampled label adds its response to its logits (U4)
                sums[:, 0] += sums[:, 1]
            found.append(self.geometry.unit * block.multiplicity * sums)
        return found
