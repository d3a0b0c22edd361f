"""The output channel of untied self-attention that sees its own logit: the map has two sectors (U5.2).

A token's logit with itself depends on the symmetric part of the map alone, so that the symmetric and the antisymmetric
part are learned to different degrees. All covariances of logits are v_s C_s + v_a C_a, for v any of q, m, Sigma and the
power of the labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, TypeGuard, final

import numpy as np
from numpy.typing import NDArray

from onehead.aim.kernels.arguments import BlockArrays, Modes, Nodes, Scaling
from onehead.aim.kernels.control_variates import GROUPED_AVERAGES, GROUPED_STEIN_AVERAGES, moments
from onehead.aim.kernels.dense import loss_sums, origin_sums
from onehead.aim.kernels.hard_labels import MAX_ENUMERATED_LABELS
from onehead.aim.kernels.losses import SQUARED
from onehead.aim.kernels.matrix_sums import matrix_sums, row_matrix_sums, two_token_matrix_sums
from onehead.aim.kernels.two_sector_rows import two_sector_row_sums
from onehead.aim.kernels.two_sector_shared_logits import two_sector_shared_logit_sums
from onehead.aim.logits.blocks import PARTS, Block, Row, UnmaskedSelfAttention
from onehead.aim.logits.control_variates import (
    NORMAL_QUARTIC_MEANS,
    apply_controls,
    control_means,
    control_means_of_rows,
    has_enough_points,
)
from onehead.aim.logits.quadrature import LogitRule, logit_rule, normal_rule, sector_rule
from onehead.aim.logits.softmax_row import Column, SoftmaxRow
from onehead.aim.losses import Loss
from onehead.aim.theory.order_parameters import Hats
from onehead.aim.theory.output.averages import ProxCache, parts_error, sum_in_slices
from onehead.aim.theory.output.base import NEARLY_ALIGNED
from onehead.aim.theory.output.gaussian import GaussianOutput

__all__ = ["LOGITS_AS_GIVEN", "TwoSectorAverages", "TwoSectorOutput", "triangular_root"]

Array = NDArray[np.float64]


LOGITS_AS_GIVEN = Scaling(1.0, 0.0, 1.0, 1.0)  # nodes are logits, and the metric contains Sigma


class TwoSectorAverages(NamedTuple):
    """Averages over the prox of one sample: ``distance`` in units of Sigma, and hats per unit of α in both forms."""

    distance: float
    loss: float
    switch_mass: float
    derivative: Hats
    stein: Hats

    @property
    def trace_square(self) -> float:
        """E tr K², which is not needed: no replicon formula is derived for two sectors."""
        return np.nan

    def envelope(self, sigma: float) -> float:
        """Moreau envelope E [loss + distance²/(2 Sigma)]."""
        return self.loss + 0.5 * self.distance


def _covariance(block: Block, values: Sequence[float]) -> Array:
    """Return C(v) = v_s C_s + v_a C_a."""
    return values[0] * block.sectors[0] + values[1] * block.sectors[1]


def _learner(label: Array, free: Array, Q: float, q: Array, m: Array) -> Array:
    """Return logits of the learner from independent normals for the label and for what is independent of it."""
    return np.asarray(m / np.sqrt(Q) * label + np.sqrt(np.maximum(q - m * m / Q, 0.0)) * free)


def triangular_root(block: Block, covariance: Array) -> Array:
    """Return a root of a covariance, triangular along the axes of the block, so that a lattice keeps its
    reflections.
    """
    axes = block.axes
    along_axes = axes.T @ covariance @ axes
    tiny = 1e-15 * float(np.trace(along_axes)) + 1e-300
    return np.asarray(axes @ np.linalg.cholesky(along_axes + tiny * np.eye(len(along_axes))))


@final
@dataclass(frozen=True, kw_only=True)
class TwoSectorOutput(GaussianOutput):
    """The output channel of two sectors; a state is (q_s, q_a, m_s, m_a, Sigma_s, Sigma_a) (U5.2)."""

    def _isotropic_values(self, q: float, m: float) -> tuple[float, ...]:
        """Return (q, q, m, m)."""
        return q, q, m, m

    def nearly_aligned(self, *values: float) -> bool:
        """Whether learner and label are so close in a sector that the Stein forms lose digits."""
        q_s, q_a, m_s, m_a = values
        return min(1.0 - m * m / (self.label_power * q) for q, m in ((q_s, m_s), (q_a, m_a))) < NEARLY_ALIGNED

    def averages(
        self,
        *state: float,
        level: int,
        check_rule: bool = False,
        detail: int = 0,
        search: bool = False,
        cache: ProxCache | None = None,
    ) -> TwoSectorAverages:
        """Average over the proximal operator (U5.2); see `OutputChannel.averages`."""
        pieces = self._sums(state, level, check_rule, detail, search, cache)
        found = self._contract(state, [sums.sum(axis=0) for sums in pieces])
        if cache is not None:
            cache.averages, cache.has_second_moments = found, detail > 0  # no other second moment is needed
            cache.parts = self._part_averages(state, pieces) if detail and level and self.geometry.sampled else None
        return found

    def parts(self, *state: float, level: int, cache: ProxCache | None = None) -> Sequence[TwoSectorAverages]:
        """Return the averages by each independent part of a rule of sampled points."""
        return self._part_averages(state, self._sums(state, level, False, 1, False, cache))

    def _part_averages(self, state: tuple[float, ...], pieces: list[Array]) -> list[TwoSectorAverages]:
        blocks = [self._block_parts(block, sums) for block, sums in zip(self.geometry.blocks, pieces, strict=True)]
        return [self._contract(state, [rows[part] for rows in blocks]) for part in range(PARTS)]

    def _sums(
        self, state: tuple[float, ...], level: int, check_rule: bool, detail: int, search: bool, cache: ProxCache | None
    ) -> list[Array]:
        """Return for every block the averages in pieces, one row per slice of the nodes."""
        blocks, sigmas = self.geometry.blocks, state[4:]
        convex = self.convex_at(*sigmas)
        nodes = [self._nodes(block, state, level, check_rule) for block in blocks]
        warm, kept = self._warm_start(cache, tuple(label for label, _, _ in nodes), self._label_choices())
        modes = self._modes(detail, search, warm, convex)
        found, worst = [], 0.0
        for block, rule, points in zip(blocks, nodes, kept, strict=True):
            if self._grouped(block):
                sums = self._group_sums(block, rule, points, state, modes)
                worst = max(worst, float(sums[:, -1].max()))
                found.append(block.multiplicity * sums[:, :-1])
                continue
            kernel, before = self._kernel(block, sigmas)
            arguments = (*before, Nodes(*rule, points), LOGITS_AS_GIVEN, modes)
            sums = sum_in_slices(kernel, 4 + 5 * block.dim**2, block.slice, len(rule[2]), arguments)
            worst = max(worst, float(sums[:, 3].max()))
            found.append(block.multiplicity * sums)
        self._check_gradient(worst, *sigmas)
        return found

    def _kernel(self, block: Block, sigmas: Sequence[float]) -> tuple[Any, tuple[Any, ...]]:
        """Return the kernel that sums over a block, and its first arguments."""
        if isinstance(block, Row) and self.loss.compiled_kind is not None and self.convex_at(*sigmas):
            return row_matrix_sums, (self.loss.compiled_kind, 1.0 / block.variances_at(sigmas))
        metric = np.ascontiguousarray(np.linalg.inv(_covariance(block, sigmas)))
        arrays = BlockArrays(block.select, metric, block.conditional_means)
        if block.is_pair:
            return two_token_matrix_sums, (self.loss.compiled_pair, arrays)
        return matrix_sums, (self.loss.compiled, self.loss.compiled_response, arrays)

    def _nodes(
        self, block: Block, state: tuple[float, ...], level: int, check_rule: bool
    ) -> tuple[Array, Array, Array]:
        """Return u*, v and weights: v given u* is Gaussian around C(m) C(Q)^-1 u*."""
        if self._grouped(block):
            return self._group_rule(block, level, check_rule)
        rule, n = normal_rule(block, level, check_rule), block.dim
        q, m, Q = (_covariance(block, pair) for pair in (state[:2], state[2:4], (self.label_power, self.label_power)))
        label = rule.nodes[:, :n] @ triangular_root(block, Q).T
        slope = np.linalg.solve(Q, m).T
        free = label @ slope.T + rule.nodes[:, n:] @ triangular_root(block, q - slope @ m).T
        return np.ascontiguousarray(label), np.ascontiguousarray(free), rule.weights

    def _grouped(self, block: Block) -> TypeGuard[Row | UnmaskedSelfAttention]:
        """Whether a block is summed over groups of logits: sampled rows whose Newton step is a Woodbury formula (L6,
        L7).
        """
        if not isinstance(block, (Row, UnmaskedSelfAttention)) or block.on_lattice or self.loss.compiled_kind is None:
            return False
        return isinstance(block, Row) or not self.loss.hard or block.choices > MAX_ENUMERATED_LABELS

    def _uses_controls(self, block: Block) -> bool:
        """Whether averages over a block are corrected by control variates."""
        return self._grouped(block)

    def _sums_labels(self, block: Block) -> bool:
        """Whether hard labels of a block are summed over: all but those of rows that share logits."""
        return isinstance(block, Row) or not self._grouped(block)

    def _label_draws(self, block: Block) -> int:
        """Number of hard labels that are sampled with every node of a block whose rows share logits (L7.2); those of
        other rows are summed over.
        """
        return len(block.select) if self.loss.hard and not isinstance(block, Row) else 0

    def _group_rule(self, block: Row | UnmaskedSelfAttention, level: int, check_rule: bool) -> LogitRule:
        """Return the quadrature nodes of a block that is summed over groups of logits."""
        summed = self.loss.hard and self._sums_labels(block)
        return sector_rule(block, level, check_rule, self._label_draws(block), summed)

    def _rule(self, block: Block, level: int, check_rule: bool) -> LogitRule:
        """Return the quadrature nodes of a block."""
        return (
            self._group_rule(block, level, check_rule) if self._grouped(block) else logit_rule(block, level, check_rule)
        )

    def _learner_logits(self, block: Block, state: tuple[float, ...], level: int) -> Array:
        """Return the logits of the learner on a fresh sample at the nodes of a block."""
        label, free, _ = self._nodes(block, state, level, False)
        if not self._grouped(block):
            return free.copy()
        Q, (q, m, _) = self.label_power, self._powers(block, state)
        if isinstance(block, Row):
            return np.asarray(
                _learner(label, free, Q, q[[*[0] * (block.length - 1), 1]], m[[*[0] * (block.length - 1), 1]])
            )
        tokens = block.tokens
        sector = np.concatenate([np.zeros(tokens, dtype=int), np.tile([0, 1], tokens * (tokens - 1) // 2)])
        parts, found = _learner(label, free, Q, q[sector], m[sector]), np.empty((len(label), tokens, tokens))
        found[:, range(tokens), range(tokens)] = parts[:, :tokens]
        above, even, odd = np.triu_indices(tokens, 1), parts[:, tokens::2], parts[:, tokens + 1 :: 2]
        found[:, above[0], above[1]] = np.sqrt(0.5) * (even + odd)
        found[:, above[1], above[0]] = np.sqrt(0.5) * (even - odd)
        return found.reshape(len(label), -1)

    def _powers(self, block: Row | UnmaskedSelfAttention, state: tuple[float, ...]) -> Array:
        """Return q, m and Sigma of both groups of logits: the sectors, or the other logits of a row and its own one."""
        pairs = np.reshape(state, (3, 2))
        if isinstance(block, UnmaskedSelfAttention):
            return np.ascontiguousarray(pairs)
        return np.ascontiguousarray(pairs @ np.array([column.variances for column in block.columns]).T)

    def _group_sums(
        self,
        block: Row | UnmaskedSelfAttention,
        rule: tuple[Array, Array, Array],
        points: Array,
        state: tuple[float, ...],
        modes: Modes,
    ) -> Array:
        """Sum over groups of logits, corrected by control variates."""
        stein = modes.detail > 0 and (self.single_minimum or self.convex_at(*state[4:]))
        modes = modes._replace(use_stein_controls=int(stein), all_controls=int(has_enough_points(len(rule[2]))))
        arguments = (self._powers(block, state), self.label_power, Nodes(*rule, points), modes)
        kernel: Any = two_sector_row_sums
        before: tuple[Any, ...] = (self.loss.compiled_kind,)
        if isinstance(block, Row):
            row, rows = block, 1
        else:
            kernel, before = two_sector_shared_logit_sums, (self.loss.compiled_kind, block.tokens)
            (row,), rows = self.geometry.rows, block.tokens
        sums = sum_in_slices(kernel, moments(GROUPED_AVERAGES), block.slice, len(rule[2]), (*before, *arguments))
        means = control_means_of_rows(
            control_means(self._fresh_row(row, *state[:4])), rows, rows * row.length * NORMAL_QUARTIC_MEANS
        )
        return apply_controls(sums, means, GROUPED_STEIN_AVERAGES)

    def _of_groups(
        self, block: Row | UnmaskedSelfAttention, state: tuple[float, ...], found: Array
    ) -> tuple[Array, Array]:
        """Return loss, distance and switch mass, and the share of each sector in the sums over groups, in both
        forms.
        """
        Q, (q, m, _) = self.label_power, self._powers(block, state)
        square, by_label, by_own, pull, response = found[3:].reshape(5, 2)
        area = Q * q - m * m
        stein, stein_pull = (q * by_label - m * by_own) / area, (m * by_label - Q * by_own) / area
        shares = 2.0 * (
            np.eye(2)
            if isinstance(block, UnmaskedSelfAttention)
            else np.array([one.variances for one in block.columns]).T
        )
        return found[[0, 1, 2]], np.array([square, response, pull, stein, stein_pull]) @ shares.T

    def _contract(self, state: tuple[float, ...], sums: list[Array]) -> TwoSectorAverages:
        """Contract the sums with the covariance of each sector: 2 tr(C_c M) (U5.2)."""
        totals, hats = np.zeros(3), np.zeros((5, 2))
        for block, found in zip(self.geometry.blocks, sums, strict=True):
            if self._grouped(block):
                some, taken = self._of_groups(block, state, found)
                totals, hats = totals + some, hats + taken
                continue
            n = block.dim
            square, by_label, by_own, pull, response = found[4:].reshape(5, n, n)
            q, m, Q = (
                _covariance(block, pair) for pair in (state[:2], state[2:4], (self.label_power, self.label_power))
            )
            # Stein: (E de/du*, E de/dv) = (E e u*', E e v') Cov^-1, by the Schur complement of the label
            slope = np.linalg.solve(Q, m).T
            by_free = np.linalg.solve((q - slope @ m).T, (by_own - by_label @ slope.T).T).T
            stein = np.linalg.solve(Q.T, (by_label - by_free @ m.T).T).T
            totals += found[:3]
            for c, C in enumerate(block.sectors):
                hats[:, c] += [2.0 * float(np.sum(C * M.T)) for M in (square, response, pull, stein, -by_free)]
        loss, distance, switch = totals.tolist()
        q_hat, m_hat, sigma_hat, m_stein, sigma_stein = hats
        return TwoSectorAverages(
            distance,
            loss,
            switch,
            Hats.from_sectors(np.array([q_hat, m_hat, sigma_hat])),
            Hats.from_sectors(np.array([q_hat, m_stein, sigma_stein])),
        )

    def switch_mass(self, *state: float, level: int) -> float:
        """Share of samples with a lower minimum than the one near the label."""
        if self.convex_at(*state[4:]):
            return 0.0
        level = level if self.geometry.sampled else 0
        return self.averages(*state, level=level, search=True).switch_mass

    def hats_of(self, averages: TwoSectorAverages, *state: float, derivative: bool) -> Hats:
        """Return the hats per unit of α, in the Stein or in the derivative form."""
        return averages.derivative if derivative else averages.stein

    def continuation_error(self, *values: float) -> float:
        """Return zero: rows of two sectors are sampled at every length."""
        return 0.0

    def _loss_sums(
        self, row: Row, measure: Loss, Q: float, values: tuple[float, ...], coarse: bool, check_rule: bool
    ) -> Array:
        """Return the average loss of one kind of row by quadrature, one number per slice of the nodes."""
        if row.is_line:  # one coordinate: only its variances matter
            unit, q, m = (float(row.variances_at(at).sum()) for at in ((1.0, 1.0), values[:2], values[2:]))
            return self._row_loss_sums(row, measure, Q, q / unit, m / unit, coarse, check_rule)
        noisy = replace(self, label_power=Q)
        level = 3 if row.on_lattice else 1 if coarse else 3
        nodes = noisy._nodes(row, (*values, 0.0, 0.0), level, check_rule)
        arguments = (measure.compiled, *nodes, Scaling(1.0, 0.0, 1.0))
        return row.multiplicity * sum_in_slices(loss_sums, 1, row.slice, len(nodes[2]), arguments)[:, 0]

    def _fresh_row(self, row: Row, *values: float, power: float | None = None) -> SoftmaxRow:
        """Return the law of a row of logits of a fresh sample."""
        Q = self.label_power if power is None else power
        return row.at((Q, Q), values[:2], values[2:])

    @lru_cache(maxsize=64)  # noqa: B019  (channels are frozen and small, and few at a time)
    def at_origin(self, level: int) -> Hats:
        """Return the hats per unit of α at S = 0, with the Sigmahat of a loss without curvature (4.6)."""
        q_s, m_s, q_a, m_a = np.sum([sums.sum(axis=0) for sums in self._origin_sums(level)], axis=0).tolist()
        return Hats((q_s, q_a), (m_s, m_a), (m_s, m_a))

    def at_origin_error(self, level: int) -> tuple[float, float]:
        """Quadrature errors of the means of qhat and mhat at S = 0."""
        pieces = self._origin_sums(level)
        if self.geometry.sampled:
            parts = self._sum_parts(pieces)
            return parts_error(parts[:, ::2].mean(axis=1)), parts_error(parts[:, 1::2].mean(axis=1))
        gap = np.sum([one.sum(axis=0) for one in pieces], axis=0) - np.sum(
            [other.sum(axis=0) for other in self._origin_sums(level, check_rule=True)], axis=0
        )
        return abs(float(gap[::2].mean())), abs(float(gap[1::2].mean()))

    def _origin_groups(self, block: Row | UnmaskedSelfAttention) -> Array:
        """(qhat, mhat) of each sector at S = 0 by formula: label logits are independent, and a token's own one sees one
        sector (L2.6).
        """
        n = block.length if isinstance(block, Row) else block.tokens
        count = block.multiplicity if isinstance(block, Row) else block.tokens
        yy = SoftmaxRow((Column(n, *3 * (self.label_power,)),)).yy
        factor = 2.0 / n if self.loss.compiled_kind == SQUARED else 1.0
        pull = np.array([factor**2 * (yy - 1.0 / n), factor * (1.0 - yy)])
        return count * np.hstack([(n + 1) / n * pull, (n - 1) / n * pull])[None]

    def _origin_sums(self, level: int, *, check_rule: bool = False) -> list[Array]:
        """Return for every block (qhat, mhat) of each sector at S = 0 in pieces, one row per slice of the nodes."""
        found = []
        for block in self.geometry.blocks:
            if self._grouped(block):
                sums = self._origin_groups(block)
                if self.loss.hard:
                    sums[:, ::2] += sums[:, 1::2]
                found.append(sums)
                continue
            rule = normal_rule(block, level, check_rule)
            label = np.ascontiguousarray(
                rule.nodes[:, : block.dim] @ triangular_root(block, self.label_power * block.covariance).T
            )
            sectors = []
            for C in block.sectors:
                functions = (self.loss.compiled, self.loss.compiled_response)
                arguments = (*functions, block.select, np.ascontiguousarray(C), label, rule.weights)
                sums = sum_in_slices(origin_sums, 2, block.slice, len(rule.weights), arguments)
                if self.loss.hard:  # the variance of a sampled label adds its response to its logits (U4)
                    sums[:, 0] += sums[:, 1]
                sectors.append(2.0 * block.multiplicity * sums)
            found.append(np.hstack(sectors))
        return found
