"""What output channels of Gaussian logits share, whatever the number of sectors: fresh losses, the test for a single
minimum, parts.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from onehead.aim.kernels.arguments import Scaling
from onehead.aim.kernels.dense import loss_sums
from onehead.aim.logits.blocks import PARTS, Block
from onehead.aim.logits.quadrature import FINEST_LATTICE, LogitRule, line_parts, row_rule, wide_row_rule
from onehead.aim.logits.row import Row
from onehead.aim.logits.softmax_row import SoftmaxRow
from onehead.aim.losses import Loss
from onehead.aim.theory.output.averages import FreshSamples, ProxCache, Request, parts_error, sum_in_slices
from onehead.aim.theory.output.base import OutputChannel

Array = NDArray[np.float64]

MAXIMUM_NUMBERS = 2**23  # in an array of the finest rule
MINIMUM_SEPARATION = 1e-3  # distance of logits above which two proximal points count as distinct
NEGLIGIBLE_SHARE = 1e-6  # share of samples with another minimum that is below one sampled point in any rule


@dataclass(frozen=True, kw_only=True)
class GaussianOutput(OutputChannel):
    """Abstract output channel of Gaussian logits."""

    @abstractmethod
    def _isotropic_values(self, q: float, m: float) -> tuple[float, ...]:
        """Return the values of a map whose sectors all have the same q and m."""

    @abstractmethod
    def _rule(self, block: Block, level: int, check_rule: bool) -> LogitRule:
        """Return the quadrature nodes of a block."""

    @abstractmethod
    def _uses_controls(self, block: Block) -> bool:
        """Whether averages over a block are corrected by control variates."""

    @abstractmethod
    def _sums_labels(self, block: Block) -> bool:
        """Whether hard labels of a block are summed over, each with a proximal point of its own."""

    @abstractmethod
    def _learner_logits(self, block: Block, state: tuple[float, ...], level: int) -> Array:
        """Return the logits of the learner on a fresh sample at the nodes of a block."""

    @abstractmethod
    def _sums(self, state: tuple[float, ...], asked: Request) -> list[Array]:
        """Return for every block the averages in pieces, one row per slice of the nodes."""

    @abstractmethod
    def _fresh_row(self, row: Row, *values: float, power: float | None = None) -> SoftmaxRow:
        """Return the law of a row of logits of a fresh sample."""

    @abstractmethod
    def _loss_sums(
        self, row: Row, measure: Loss, Q: float, values: tuple[float, ...], coarse: bool, check_rule: bool
    ) -> Array:
        """Return the average loss of one kind of row by quadrature, one number per slice of the nodes."""

    def _row_loss_sums(
        self, row: Row, measure: Loss, Q: float, q: float, m: float, coarse: bool, check_rule: bool
    ) -> Array:
        """Return the average loss of a row whose logits all have overlaps q and m, one number per slice of the
        nodes.
        """
        scaling = Scaling(np.sqrt(Q), m / Q, np.sqrt(max(q - m * m / Q, 0.0)))
        rule = row_rule(row, coarse=coarse, check_rule=check_rule)
        if row.is_line:
            root = float(np.sqrt(row.covariance[0, 0]))
            label_deviation = root * scaling.label_root * max(1.0, abs(scaling.slope))
            parts = line_parts(label_deviation, root * scaling.free_root)
            if parts != (1, 1):
                rule = wide_row_rule(row, *parts, check_rule)
        if row.is_line and measure.pair_losses is not None:
            label = scaling.label_root * rule.label[:, 0]
            losses = measure.pair_losses(scaling.slope * label + scaling.free_root * rule.free[:, 0], label)
            return np.array([row.multiplicity * float(rule.weights @ losses)])
        arguments = (measure.compiled, *rule, scaling)
        return row.multiplicity * sum_in_slices(loss_sums, 1, row.slice, len(rule.weights), arguments)[:, 0]

    @property
    def extra_levels(self) -> tuple[int, ...]:
        """Levels with twice as many sampled points each, as many as memory holds, or finer lattices."""
        (*_, last) = self.geometry.levels
        if not self.geometry.sampled:
            return tuple(range(last + 1, FINEST_LATTICE + 1))
        numbers = sum(
            self._rule(block, last, False).label.size for block in self.geometry.blocks if not block.on_lattice
        )
        more = int(np.log2(MAXIMUM_NUMBERS / numbers))
        return tuple(range(last + 1, last + 1 + max(more, 0)))

    @property
    def coarse_fresh_slopes(self) -> bool:
        """False: derivatives of the loss on fresh samples use the rule of the loss itself."""
        return False

    @property
    def uses_controls(self) -> bool:
        """Whether averages over any block are corrected by control variates."""
        return any(self._uses_controls(block) for block in self.geometry.blocks)

    def _sum_parts(self, blocks: list[Array]) -> Array:
        """Sum pieces of blocks, one row per independent part; lattices and formulas contribute in full to every
        part.
        """
        found = np.zeros((PARTS, blocks[0].shape[1]))
        for block, sums in zip(self.geometry.blocks, blocks, strict=True):
            found += self._block_parts(block, sums)
        return found

    @staticmethod
    def _block_parts(block: Block, sums: Array) -> Array:
        """Sum the pieces of one block by independent parts, each scaled to the whole."""
        if block.on_lattice or len(sums) == 1:
            return np.repeat(sums.sum(axis=0)[None], PARTS, axis=0)
        return np.asarray(PARTS * sums.reshape(PARTS, -1, sums.shape[1]).sum(axis=1))

    def _label_choices(self) -> list[int]:
        """Number of proximal points per node of every block: one per hard label where labels are summed over, and one
        per kind of label where rows share no logit.
        """
        if not self.loss.hard:
            return [1] * len(self.geometry.blocks)
        return [
            block.choices if self._sums_labels(block) else 1 if block.shares_logits else block.label_kinds
            for block in self.geometry.blocks
        ]

    def has_one_minimum(self, *state: float, level: int, points: tuple[Array, ...] | None = None) -> bool:
        """Whether every prox that starts at the learner's logits ends where it does from the label (2.7)."""
        if points is None:
            from_label = ProxCache(track_minimum=False)
            self._sums(state, Request(level, cache=from_label))
            points = from_label.points
        assert points is not None
        from_learner = ProxCache(
            track_minimum=True,
            points=tuple(self._learner_logits(block, state, level) for block in self.geometry.blocks),
        )
        self._sums(state, Request(level, cache=from_learner))
        assert from_learner.points is not None
        return all(
            float(self._rule(block, level, False).weights @ (np.max(np.abs(a - b), axis=1) > MINIMUM_SEPARATION))
            < NEGLIGIBLE_SHARE
            for block, a, b in zip(self.geometry.blocks, points, from_learner.points, strict=True)
        )

    def from_half_length(self) -> Self:
        """Return the channel that extrapolates long rows from rows of half the sampled length (L6)."""
        return replace(self, geometry=self.geometry.from_half_length)

    def _fresh_loss(self, values: tuple[float, ...], asked: FreshSamples) -> float:
        """Average a loss over fresh samples (2.4).

        Rows of two columns have a lattice, longer ones a formula (2.9) where the loss has one, else sampled points.
        """
        Q, measure = self._label_power(asked), asked.measure
        return sum(
            float(self._loss_sums(row, measure, Q, values, asked.coarse, asked.check_rule).sum())
            if (formula := self._formula(row, measure)) is None
            else row.multiplicity * formula(self._fresh_row(row, *values, power=Q))
            for row in self.geometry.rows
        )

    def _fresh_loss_error(self, values: tuple[float, ...], asked: FreshSamples) -> float:
        """Quadrature error of `fresh_loss`: the formula has a negligible one."""
        Q, measure = self._label_power(asked), asked.measure
        gap, found = 0.0, np.zeros(PARTS)
        for row in self.geometry.rows:
            if self._formula(row, measure) is not None:
                continue
            if row.is_line or self.geometry.sectors > 1:
                one, other = (self._loss_sums(row, measure, Q, values, False, check).sum() for check in (False, True))
                gap += float(one - other)
            else:
                found += self._loss_sums(row, measure, Q, values, False, False).reshape(PARTS, -1).sum(axis=1)
        return abs(gap) + parts_error(PARTS * found)

    def _label_power(self, asked: FreshSamples) -> float:
        """Return the variance of the label coordinates of fresh samples."""
        return self.label_power if asked.power is None else asked.power

    @staticmethod
    def _formula(row: Row, measure: Loss) -> Callable[[SoftmaxRow], float] | None:
        """Return the formula for the average loss of a row, if there is one; rows of two columns have a lattice as
        accurate.
        """
        return None if row.is_line else measure.fresh_formula

    def zero_one(self, *values: float) -> float:
        """Share of rows of a fresh sample whose largest logit is not that of the label sampled from the target's
        softmax (U7).
        """
        rows = self.geometry.rows
        missed = sum(row.multiplicity * self._fresh_row(row, *values).zero_one_error for row in rows)
        return missed / sum(row.multiplicity for row in rows)

    @property
    def noise_error(self) -> float:
        """Test error of an infinitely large map of pure noise: one token per row, at random (4.2)."""
        total = 0.0
        for row in self.geometry.rows:
            blind = self._fresh_row(row, *self._isotropic_values(1.0, 0.0))
            total += row.multiplicity * (1.0 + blind.yy - 2.0 * (1.0 - blind.zero_one_error))
        return total
