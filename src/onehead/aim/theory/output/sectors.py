"""The output channel of heads whose covariances of logits are not all multiples of one matrix (U5.2, D2.2).

A head that sees its own logit has two reasons for it. Its map has two sectors where it is not symmetric: a token's
logit with itself depends on the symmetric part alone, so that the symmetric and the antisymmetric part are learned to
different degrees. And where tokens have a mean, the field of key b enters the logits of a row as g_b - g_a relative to
the token's own logit, with a covariance C_g that is not that of the map. Covariances of logits are

    C(Q) + G C_g,   C(m) + c G C_g,   C(q) + c² G C_g,   C(Sigma),     C(v) = sum over sectors of v_s C_s,

where G is the variance of the field of the target, zero without a mean, and c the ratio of tr(C_g E de/du*) and
tr(C_g E[-de/dv]).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, final

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
from onehead.aim.kernels.two_tokens_simd import two_token_squared_matrix_sums
from onehead.aim.logits.blocks import PARTS, Block
from onehead.aim.logits.control_variates import (
    NORMAL_QUARTIC_MEANS,
    apply_controls,
    control_means,
    control_means_of_rows,
    has_enough_points,
)
from onehead.aim.logits.quadrature import LogitRule, logit_rule, normal_rule, sector_rule
from onehead.aim.logits.row import Row
from onehead.aim.logits.softmax_row import Column, SoftmaxRow
from onehead.aim.losses import Loss
from onehead.aim.theory.order_parameters import Hats
from onehead.aim.theory.output.averages import ProxCache, Request, parts_error, sum_in_slices
from onehead.aim.theory.output.base import NEARLY_ALIGNED
from onehead.aim.theory.output.gaussian import GaussianOutput

Array = NDArray[np.float64]


LOGITS_AS_GIVEN = Scaling(1.0, 0.0, 1.0, 1.0)  # nodes are logits, and the metric contains Sigma


class SectorAverages(NamedTuple):
    """Averages over the prox of one sample: ``distance`` in units of Sigma, and hats per unit of α in both forms."""

    distance: float
    loss: float
    switch_mass: float
    derivative: Hats
    stein: Hats

    @property
    def trace_square(self) -> float:
        """E tr K², which is not needed: no replicon formula is derived for these heads."""
        return np.nan

    @property
    def numbers(self) -> Array:
        """All averages as an array: the first three, and the hats in both forms."""
        hats = [number for form in (self.derivative, self.stein) for number in (*form.sectors.ravel(), *form.effective)]
        return np.array([self.distance, self.loss, self.switch_mass, *hats])

    def moved(self, slopes: Array, step: Array) -> "SectorAverages":
        """Return averages at a state whose coordinates are larger by ``step``, to first order."""
        found = self.numbers + slopes @ step
        shape, size = self.derivative.sectors.shape, self.derivative.sectors.size
        derivative, stein = (
            Hats.from_sectors(form[:size].reshape(shape), tuple(form[size:].tolist()))
            for form in np.split(found[3:], 2)
        )
        distance, loss, switch_mass = found[:3].tolist()
        return SectorAverages(distance, loss, switch_mass, derivative, stein)

    def envelope(self, sigma: float) -> float:
        """Moreau envelope E [loss + distance²/(2 Sigma)]."""
        return self.loss + 0.5 * self.distance


def _learner(label: Array, free: Array, Q: Array, q: Array, m: Array) -> Array:
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


def _conditional(covariances: tuple[Array, Array, Array]) -> tuple[Array, Array]:
    """Return the slope C(m) C(Q)^-1 of the learner's logits given the label, and their remaining covariance."""
    q, m, Q = covariances
    slope = np.linalg.solve(Q, m).T
    return np.asarray(slope), np.asarray(q - slope @ m)


@final
@dataclass(frozen=True, kw_only=True)
class SectorOutput(GaussianOutput):
    """The output channel with a covariance per sector; a state is (q and m of every sector, Sigma of every sector),
    with c sqrt G before Sigma where queries share a field.
    """

    @property
    def _sectors(self) -> int:
        return self.geometry.sectors

    @property
    def _field(self) -> float:
        """sqrt G, standard deviation of the field of the target; zero without one."""
        return float(np.sqrt(self.directions.separate_power))

    def _split(self, values: Sequence[float]) -> tuple[Sequence[float], Sequence[float], float]:
        """Return q and m of every sector, and c sqrt G."""
        n = self._sectors
        return values[:n], values[n : 2 * n], values[2 * n] if self.directions.count else 0.0

    def _asked_power(self, power: float | None = None) -> float:
        """Return the variance of the label coordinates without the field, for labels of variance ``power``."""
        return (self.label_power if power is None else power) - self.directions.separate_power

    def _isotropic_values(self, q: float, m: float) -> tuple[float, ...]:
        """Return q and m of every sector, and no field."""
        return *self._sectors * (q,), *self._sectors * (m,), *self.directions.count * (0.0,)

    def label_values(self) -> tuple[float, ...]:
        """Return the values of a map whose logits equal the noisy labels."""
        return *2 * self._sectors * (self._asked_power(),), *self.directions.count * (self._field,)

    def nearly_aligned(self, *values: float) -> bool:
        """Whether learner and label are so close in a sector that the Stein forms lose digits."""
        (q, m, _), Q = self._split(values), self._asked_power()
        return min(1.0 - one * one / (Q * size) for size, one in zip(q, m, strict=True)) < NEARLY_ALIGNED

    def _covariances(
        self, block: Block, values: Sequence[float], power: float | None = None
    ) -> tuple[Array, Array, Array]:
        """Return the covariances of the learner, of learner and label, and of the label."""
        (q, m, learned), field = self._split(values), self._field
        found = q, m, self._sectors * (self._asked_power(power),)
        of_map = [block.covariance_at(variances) for variances in found]
        if self.directions.count:
            shares = learned**2, learned * field, field**2
            of_map = [C + share * block.field_covariance for C, share in zip(of_map, shares, strict=True)]
        own, shared, label = of_map
        return own, shared, label

    def _average(self, state: tuple[float, ...], asked: Request) -> SectorAverages:
        """Average over the proximal operator (U5.2, D2.2)."""
        (level, _, detail, _, cache), pieces = asked, self._sums(state, asked)
        found = self._contract(state, [sums.sum(axis=0) for sums in pieces])
        if cache is not None:
            cache.averages, cache.has_second_moments = found, detail > 0  # no other second moment is needed
            cache.parts = self._part_averages(state, pieces) if detail and level and self.geometry.sampled else None
        return found

    def parts(self, *state: float, level: int, cache: ProxCache | None = None) -> Sequence[SectorAverages]:
        """Return the averages by each independent part of a rule of sampled points."""
        return self._part_averages(state, self._sums(state, Request(level, detail=1, cache=cache)))

    def _part_averages(self, state: tuple[float, ...], pieces: list[Array]) -> list[SectorAverages]:
        blocks = [self._block_parts(block, sums) for block, sums in zip(self.geometry.blocks, pieces, strict=True)]
        return [self._contract(state, [rows[part] for rows in blocks]) for part in range(PARTS)]

    def _sums(self, state: tuple[float, ...], asked: Request) -> list[Array]:
        """Return for every block the averages in pieces, one row per slice of the nodes."""
        level, check_rule, detail, search, cache = asked
        blocks, sigmas = self.geometry.blocks, state[-self._sectors :]
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
        if not block.shares_logits and self.loss.compiled_kind is not None and self.convex_at(*sigmas):
            variances = sigmas @ block.group_weights
            return row_matrix_sums, (self.loss.compiled_kind, 1.0 / variances[block.normal_groups])
        metric = np.ascontiguousarray(np.linalg.inv(block.covariance_at(sigmas)))
        arrays = BlockArrays(block.select, metric, block.conditional_means)
        if block.is_pair and self.loss.compiled_kind == SQUARED:
            return two_token_squared_matrix_sums, (arrays,)
        if block.is_pair:
            return two_token_matrix_sums, (self.loss.compiled_pair, arrays)
        return matrix_sums, (self.loss.compiled, self.loss.compiled_response, arrays)

    def _nodes(
        self, block: Block, values: Sequence[float], level: int, check_rule: bool, power: float | None = None
    ) -> tuple[Array, Array, Array]:
        """Return u*, v and weights: v given u* is Gaussian around C(m) C(Q)^-1 u*. Blocks summed over groups of logits
        have independent normals instead.
        """
        if self._grouped(block):
            return self._group_rule(block, level, check_rule)
        rule, n = normal_rule(block, level, check_rule), block.dim
        covariances = self._covariances(block, values, power)
        slope, rest = _conditional(covariances)
        label = rule.nodes[:, :n] @ triangular_root(block, covariances[2]).T
        free = label @ slope.T + rule.nodes[:, n:] @ triangular_root(block, rest).T
        return np.ascontiguousarray(label), np.ascontiguousarray(free), rule.weights

    def _grouped(self, block: Block) -> bool:
        """Whether a block is summed over groups of logits: sampled rows whose Newton step is a Woodbury formula (L6,
        L7).

        With a field these sums need independent logits: rows by themselves.
        """
        if block.on_lattice or self.loss.compiled_kind is None:
            return False
        if self.directions.count:
            return not block.shares_logits
        return not (block.shares_logits and self.loss.hard and block.choices <= MAX_ENUMERATED_LABELS)

    def _uses_controls(self, block: Block) -> bool:
        """Whether averages over a block are corrected by control variates."""
        return self._grouped(block)

    def _sums_labels(self, block: Block) -> bool:
        """Whether hard labels of a block are summed over: all but those of rows that share logits."""
        return not (block.shares_logits and self._grouped(block))

    def _label_draws(self, block: Block) -> int:
        """Number of hard labels that are sampled with every node of a block whose rows share logits (L7.2); those of
        other rows are summed over.
        """
        return block.row_count if self.loss.hard and block.shares_logits else 0

    def _group_rule(self, block: Block, level: int, check_rule: bool) -> LogitRule:
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
        q, m, _, Q = self._powers(block, state)[:, block.normal_groups]
        return block.logits_of(_learner(label, free, Q, q, m))

    def _powers(self, block: Block, state: tuple[float, ...]) -> Array:
        """Return q, m, Sigma and Q of both groups of logits: the sectors, or the other logits of a row and its own one.

        Every column of a row has a field of its own, which adds to all of them but Sigma (D2.2).
        """
        (q, m, learned), field, sectors = self._split(state), self._field, self._sectors
        powers = np.array([q, m, state[-sectors:], sectors * (self._asked_power(),)]) @ block.group_weights
        return np.ascontiguousarray(powers + np.array([[learned**2], [learned * field], [0.0], [field**2]]))

    def _group_sums(
        self,
        block: Block,
        rule: tuple[Array, Array, Array],
        points: Array,
        state: tuple[float, ...],
        modes: Modes,
    ) -> Array:
        """Sum over groups of logits, corrected by control variates."""
        stein = modes.detail > 0 and (self.single_minimum or self.convex_at(*state[-self._sectors :]))
        modes = modes._replace(use_stein_controls=int(stein), all_controls=int(has_enough_points(len(rule[2]))))
        arguments = (self._powers(block, state), Nodes(*rule, points), modes)
        kernel: Any = two_sector_row_sums
        before: tuple[Any, ...] = (self.loss.compiled_kind,)
        if block.shares_logits:
            kernel, before = two_sector_shared_logit_sums, (self.loss.compiled_kind, block.length)
        row, rows = block.row, block.row_count
        sums = sum_in_slices(kernel, moments(GROUPED_AVERAGES), block.slice, len(rule[2]), (*before, *arguments))
        means = control_means_of_rows(
            control_means(self._fresh_row(row, *state[: -self._sectors])),
            rows,
            rows * row.length * NORMAL_QUARTIC_MEANS,
        )
        return apply_controls(sums, means, GROUPED_STEIN_AVERAGES)

    def _of_groups(self, block: Block, state: tuple[float, ...], found: Array) -> tuple[Array, Array, Array]:
        """Return loss, distance and switch mass, the share of each sector in the sums over groups, in both forms, and
        that of the field, of which every column of a row has one.
        """
        q, m, _, Q = self._powers(block, state)
        square, by_label, by_own, pull, response = found[3:].reshape(5, 2)
        area = Q * q - m * m
        stein, stein_pull = (q * by_label - m * by_own) / area, (m * by_label - Q * by_own) / area
        sums = np.array([square, response, pull, stein, stein_pull])
        return found[[0, 1, 2]], sums @ (2.0 * block.group_weights.T), sums[1:].sum(axis=1)

    def _contract(self, state: tuple[float, ...], sums: list[Array]) -> SectorAverages:
        """Contract the sums with the covariance of each sector, 2 tr(C_c M) (U5.2), and of the field (D2.2)."""
        totals, hats, fields = np.zeros(3), np.zeros((5, self._sectors)), np.zeros(4)
        for block, found in zip(self.geometry.blocks, sums, strict=True):
            if self._grouped(block):
                some, taken, of_field = self._of_groups(block, state, found)
                totals, hats, fields = totals + some, hats + taken, fields + of_field
                continue
            n = block.dim
            square, by_label, by_own, pull, response = found[4:].reshape(5, n, n)
            covariances = self._covariances(block, state)
            # Stein: (E de/du*, E de/dv) = (E e u*', E e v') Cov^-1, by the Schur complement of the label
            slope, rest = _conditional(covariances)
            by_free = np.linalg.solve(rest.T, (by_own - by_label @ slope.T).T).T
            stein = np.linalg.solve(covariances[2].T, (by_label - by_free @ covariances[1].T).T).T
            totals += found[:3]
            for c, C in enumerate(block.sectors):
                hats[:, c] += [2.0 * float(np.sum(C * M.T)) for M in (square, response, pull, stein, -by_free)]
            if self.directions.count:
                fields += [float(np.sum(block.field_covariance * M.T)) for M in (response, pull, stein, -by_free)]
        loss, distance, switch = totals.tolist()
        q_hat, m_hat, sigma_hat, m_stein, sigma_stein = hats
        with np.errstate(divide="ignore", invalid="ignore"):  # derivative forms are zero where they were not asked for
            scales = (fields[::2] / fields[1::2]).tolist()
        derivative, by_stein = (self.directions.count * (self._field * scale,) for scale in scales)
        return SectorAverages(
            distance,
            loss,
            switch,
            Hats.from_sectors(np.array([q_hat, m_hat, sigma_hat]), derivative),
            Hats.from_sectors(np.array([q_hat, m_stein, sigma_stein]), by_stein),
        )

    def switch_mass(self, *state: float, level: int) -> float:
        """Share of samples with a lower minimum than the one near the label."""
        if self.convex_at(*state[-self._sectors :]):
            return 0.0
        on_lattice = not self.geometry.sampled  # the check rule of the coarsest lattice resolves it
        level = 0 if on_lattice else level
        return self.averages(*state, level=level, search=True, check_rule=on_lattice).switch_mass

    def hats_of(self, averages: SectorAverages, *state: float, derivative: bool) -> Hats:
        """Return the hats per unit of α, in the Stein or in the derivative form."""
        return averages.derivative if derivative else averages.stein

    def continuation_error(self, *values: float) -> float:
        """Return zero: rows are sampled at every length."""
        return 0.0

    def _loss_sums(
        self, row: Row, measure: Loss, Q: float, values: tuple[float, ...], coarse: bool, check_rule: bool
    ) -> Array:
        """Return the average loss of one kind of row by quadrature, one number per slice of the nodes."""
        if row.is_line:  # one coordinate: only its variances matter
            q, m, label = (float(C[0, 0]) for C in self._covariances(row, values, Q))
            unit = float(row.covariance[0, 0])
            return self._row_loss_sums(row, measure, label / unit, q / unit, m / unit, coarse, check_rule)
        level = 3 if row.on_lattice else 1 if coarse else 3
        nodes = self._nodes(row, values, level, check_rule, Q)
        arguments = (measure.compiled, *nodes, Scaling(1.0, 0.0, 1.0))
        return row.multiplicity * sum_in_slices(loss_sums, 1, row.slice, len(nodes[2]), arguments)[:, 0]

    def _fresh_row(self, row: Row, *values: float, power: float | None = None) -> SoftmaxRow:
        """Return the law of a row of logits of a fresh sample: every column has a field of its own."""
        (q, m, learned), field = self._split(values), self._field
        found = row.at(self._sectors * (self._asked_power(power),), q, m)
        if not self.directions.count:
            return found
        added = field**2, learned**2, learned * field
        return SoftmaxRow(
            tuple(
                Column(one.count, *(v + more for v, more in zip((one.Q, one.q, one.m), added, strict=True)))
                for one in found.columns
            )
        )

    @lru_cache(maxsize=64)  # noqa: B019  (channels are frozen and small, and few at a time)
    def at_origin(self, level: int) -> Hats:
        """Return the hats per unit of α at S = 0 and without a field, with the Sigmahat of a loss without curvature
        (4.6).
        """
        sums = np.sum([sums.sum(axis=0) for sums in self._origin_sums(level)], axis=0)
        q_hat, m_hat = tuple(sums[::2].tolist()), tuple(sums[1::2].tolist())
        return Hats(q_hat, m_hat, m_hat)

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

    def _origin_groups(self, block: Block) -> Array:
        """(qhat, mhat) of each sector at S = 0 by formula: label logits of all rows are independent (L2.6)."""
        n, row, count = block.length, block.row, block.multiplicity * block.row_count
        first, second = self._fresh_row(row, *self.label_values()).moments
        factor = 2.0 / n if self.loss.compiled_kind == SQUARED else 1.0
        pull = np.array([factor**2 * (second - 2.0 * first / n + 1.0 / n**2), factor * (first - second)])
        columns = np.array([one.count * np.array(one.variances) for one in row.columns])
        return np.asarray(2.0 * count * (pull @ columns).T.reshape(1, -1))

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
            _, _, Q = self._covariances(block, self.label_values())
            label = np.ascontiguousarray(rule.nodes[:, : block.dim] @ triangular_root(block, Q).T)
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
