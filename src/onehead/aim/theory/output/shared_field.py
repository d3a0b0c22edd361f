"""The output channel of heads that see their own logit, where tokens have a mean: a field shared by all queries (D2.2).

The field of key b enters the logits of a row as g_b - g_a relative to the token's own logit. Its covariance C_g over
the coordinates of a block is not that of the map, so that covariances of logits are

    C(Q) + G C_g,   C(m) + c G C_g,   C(q) + c² G C_g,   C(Sigma),     C(v) = sum over sectors of v_s C_s,

and c is the ratio of tr(C_g E de/du*) and tr(C_g E[-de/dv]). The map has one sector (tied heads) or two
(self-attention).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from onehead.aim.kernels.arguments import BlockArrays, Nodes, Scaling
from onehead.aim.kernels.dense import loss_sums, origin_sums
from onehead.aim.kernels.matrix_sums import matrix_sums, row_matrix_sums, two_token_matrix_sums
from onehead.aim.logits.blocks import PARTS, Block, Row, TiedBlock
from onehead.aim.logits.quadrature import LogitRule, logit_rule, normal_rule
from onehead.aim.logits.softmax_row import Column, SoftmaxRow
from onehead.aim.losses import Loss
from onehead.aim.theory.order_parameters import Hats
from onehead.aim.theory.output.averages import ProxCache, parts_error, sum_in_slices
from onehead.aim.theory.output.base import NEARLY_ALIGNED
from onehead.aim.theory.output.gaussian import GaussianOutput
from onehead.aim.theory.output.two_sectors import LOGITS_AS_GIVEN, TwoSectorAverages, triangular_root

__all__ = ["SharedFieldOutput", "field_covariance"]

Array = NDArray[np.float64]


@lru_cache(maxsize=64)
def field_covariance(block: Block) -> Array:
    """Return C_g, the covariance of a block's coordinates for fields of unit variance.

    Examples
    --------
    >>> from onehead.aim.logits.geometry import geometry_of
    >>> field_covariance(geometry_of("self", "none", 2).blocks[0]).tolist()
    [[2.0, -2.0], [-2.0, 2.0]]
    >>> field_covariance(geometry_of("tied", "none", 2).blocks[0]).tolist()
    [[2.0, -2.0], [-2.0, 2.0]]
    """
    if isinstance(block, Row):
        return np.eye(block.dim) + 1.0
    tokens = len(block.select)
    D = np.zeros((block.dim, tokens))
    for a, row in enumerate(block.select):
        for b, i in enumerate(row):
            if i < 0:
                continue
            D[i] = 0.0
            D[i, b] += 1.0
            if isinstance(
                block, TiedBlock
            ):  # the logit of two tokens has both fields, relative to those of the first pair
                D[i, a] += 1.0
                D[i, [0, 1]] -= 1.0
            else:
                D[i, a] -= 1.0
    return D @ D.T


@final
@dataclass(frozen=True, kw_only=True)
class SharedFieldOutput(GaussianOutput):
    """The output channel with a shared field; a state is (q, m of every sector, c sqrt G, Sigma of every sector)."""

    @property
    def _field_power(self) -> float:
        """G, variance of the field of the target."""
        return self.directions.separate_power

    @property
    def _sectors(self) -> int:
        return self.geometry.sectors

    def _isotropic_values(self, q: float, m: float) -> tuple[float, ...]:
        """Return (q, m of every sector) and no field."""
        return *self._sectors * (q,), *self._sectors * (m,), 0.0

    def label_values(self) -> tuple[float, ...]:
        """Return the values of a map whose logits equal the noisy labels."""
        asked = self.label_power - self._field_power
        return *2 * self._sectors * (asked,), float(np.sqrt(self._field_power))

    def nearly_aligned(self, *values: float) -> bool:
        """Whether learner and label are so close in a sector that the Stein forms lose digits."""
        n, Q = self._sectors, self.label_power - self._field_power
        return min(1.0 - m * m / (Q * q) for q, m in zip(values[:n], values[n : 2 * n], strict=True)) < NEARLY_ALIGNED

    def _covariances(self, block: Block, values: Sequence[float], power: float | None = None) -> tuple[Array, ...]:
        """Return the covariances of learner, of learner and label, and of the label."""
        n, G, fields = self._sectors, self._field_power, field_covariance(block)
        asked = (self.label_power if power is None else power) - G
        size, field = values[2 * n], float(np.sqrt(G))

        def of_map(variances: Sequence[float]) -> Array:
            return sum((v * C for v, C in zip(variances, block.sectors, strict=True)), start=np.zeros_like(fields))

        q, m = of_map(values[:n]) + size**2 * fields, of_map(values[n : 2 * n]) + size * field * fields
        return q, m, of_map(n * (asked,)) + G * fields

    def averages(
        self,
        *state: float,
        level: int,
        check_rule: bool = False,
        detail: int = 0,
        search: bool = False,
        cache: ProxCache | None = None,
    ) -> TwoSectorAverages:
        """Average over the proximal operator (D2.2); see `OutputChannel.averages`."""
        pieces = self._sums(state, level, check_rule, detail, search, cache)
        found = self._contract(state, [sums.sum(axis=0) for sums in pieces])
        if cache is not None:
            cache.averages = found
        return found

    def parts(self, *state: float, level: int, cache: ProxCache | None = None) -> Sequence[TwoSectorAverages]:
        """Return the averages by each independent part of a rule of sampled points."""
        pieces = self._sums(state, level, False, 1, False, cache)
        blocks = [self._block_parts(block, sums) for block, sums in zip(self.geometry.blocks, pieces, strict=True)]
        return [self._contract(state, [rows[part] for rows in blocks]) for part in range(PARTS)]

    def _sums(
        self, state: tuple[float, ...], level: int, check_rule: bool, detail: int, search: bool, cache: ProxCache | None
    ) -> list[Array]:
        """Return for every block the averages in pieces, one row per slice of the nodes."""
        blocks, sigmas = self.geometry.blocks, state[-self._sectors :]
        convex = self.convex_at(*sigmas)
        nodes = [self._nodes(block, state, level, check_rule) for block in blocks]
        warm, kept = self._warm_start(cache, tuple(label for label, _, _ in nodes), self._label_choices())
        modes = self._modes(detail, search, warm, convex)
        found, worst = [], 0.0
        for block, rule, points in zip(blocks, nodes, kept, strict=True):
            kernel, before = self._kernel(block, sigmas)
            arguments = (*before, Nodes(*rule, points), LOGITS_AS_GIVEN, modes)
            sums = sum_in_slices(kernel, 4 + 5 * block.dim**2, block.slice, len(rule[2]), arguments)
            worst = max(worst, float(sums[:, 3].max()))
            found.append(block.multiplicity * sums)
        self._check_gradient(worst, *sigmas)
        return found

    def _kernel(self, block: Block, sigmas: Sequence[float]) -> tuple[Any, tuple[Any, ...]]:
        """Return the kernel that sums over a block, and its first arguments."""
        one_law = isinstance(block, Row) and len({column.variances for column in block.columns[:-1]}) <= 1
        if (
            isinstance(block, Row)
            and one_law
            and block.columns[-1].count == 1
            and self.loss.compiled_kind is not None
            and self.convex_at(*sigmas)
        ):
            return row_matrix_sums, (self.loss.compiled_kind, 1.0 / block.variances_at(sigmas))
        covariance = sum((v * C for v, C in zip(sigmas, block.sectors, strict=True)), start=0.0 * block.sectors[0])
        arrays = BlockArrays(block.select, np.ascontiguousarray(np.linalg.inv(covariance)), block.conditional_means)
        if block.is_pair:
            return two_token_matrix_sums, (self.loss.compiled_pair, arrays)
        return matrix_sums, (self.loss.compiled, self.loss.compiled_response, arrays)

    def _nodes(self, block: Block, values: Sequence[float], level: int, check_rule: bool) -> tuple[Array, Array, Array]:
        """Return u*, v and weights: v given u* is Gaussian around C(m) C(Q)^-1 u*."""
        rule, n = normal_rule(block, level, check_rule), block.dim
        q, m, Q = self._covariances(block, values)
        label = rule.nodes[:, :n] @ triangular_root(block, Q).T
        slope = np.linalg.solve(Q, m).T
        free = label @ slope.T + rule.nodes[:, n:] @ triangular_root(block, q - slope @ m).T
        return np.ascontiguousarray(label), np.ascontiguousarray(free), rule.weights

    def _uses_controls(self, block: Block) -> bool:
        """False: control variates are not derived with a field."""
        return False

    def _sums_labels(self, block: Block) -> bool:
        """True: hard labels of every block are summed over."""
        return True

    def _rule(self, block: Block, level: int, check_rule: bool) -> LogitRule:
        """Return the quadrature nodes of a block."""
        return logit_rule(block, level, check_rule)

    def _learner_logits(self, block: Block, state: tuple[float, ...], level: int) -> Array:
        """Return the logits of the learner on a fresh sample at the nodes of a block."""
        return self._nodes(block, state, level, False)[1].copy()

    def _contract(self, state: tuple[float, ...], sums: list[Array]) -> TwoSectorAverages:
        """Contract the sums with the covariances of the sectors and of the field."""
        totals, hats, fields = np.zeros(3), np.zeros((5, self._sectors)), np.zeros(4)
        for block, found in zip(self.geometry.blocks, sums, strict=True):
            n = block.dim
            square, by_label, by_own, pull, response = found[4:].reshape(5, n, n)
            q, m, Q = self._covariances(block, state)
            # Stein: (E de/du*, E de/dv) = (E e u*', E e v') Cov^-1, by the Schur complement of the label
            slope = np.linalg.solve(Q, m).T
            by_free = np.linalg.solve((q - slope @ m).T, (by_own - by_label @ slope.T).T).T
            stein = np.linalg.solve(Q.T, (by_label - by_free @ m.T).T).T
            totals += found[:3]
            for c, C in enumerate(block.sectors):
                hats[:, c] += [2.0 * float(np.sum(C * M.T)) for M in (square, response, pull, stein, -by_free)]
            fields += [float(np.sum(field_covariance(block) * M.T)) for M in (response, pull, stein, -by_free)]
        loss, distance, switch = totals.tolist()
        q_hat, m_hat, sigma_hat, m_stein, sigma_stein = hats
        root = float(np.sqrt(self._field_power))
        with np.errstate(divide="ignore", invalid="ignore"):  # derivative forms are zero where they were not asked for
            derivative, by_stein = root * fields[0] / fields[1], root * fields[2] / fields[3]
        return TwoSectorAverages(
            distance,
            loss,
            switch,
            Hats.from_sectors(np.array([q_hat, m_hat, sigma_hat]), (float(derivative),)),
            Hats.from_sectors(np.array([q_hat, m_stein, sigma_stein]), (float(by_stein),)),
        )

    def switch_mass(self, *state: float, level: int) -> float:
        """Share of samples with a lower minimum than the one near the label."""
        if self.convex_at(*state[-self._sectors :]):
            return 0.0
        level = level if self.geometry.sampled else 0
        return self.averages(*state, level=level, search=True).switch_mass

    def hats_of(self, averages: TwoSectorAverages, *state: float, derivative: bool) -> Hats:
        """Return the hats per unit of α, in the Stein or in the derivative form."""
        return averages.derivative if derivative else averages.stein

    def continuation_error(self, *values: float) -> float:
        """Return zero: all rows are sampled at their length."""
        return 0.0

    def _loss_sums(
        self, row: Row, measure: Loss, Q: float, values: tuple[float, ...], coarse: bool, check_rule: bool
    ) -> Array:
        """Return the average loss of one kind of row by quadrature, one number per slice of the nodes."""
        if row.is_line:  # one coordinate: only its variances matter
            q, m, label = (float(C[0, 0]) for C in self._covariances(row, values, Q))
            unit = float(row.covariance[0, 0])
            return self._row_loss_sums(row, measure, label / unit, q / unit, m / unit, coarse, check_rule)
        noisy = replace(self, label_power=Q)
        level = 3 if row.on_lattice else 1 if coarse else 3
        nodes = noisy._nodes(row, values, level, check_rule)
        arguments = (measure.compiled, *nodes, Scaling(1.0, 0.0, 1.0))
        return row.multiplicity * sum_in_slices(loss_sums, 1, row.slice, len(nodes[2]), arguments)[:, 0]

    def _fresh_row(self, row: Row, *values: float, power: float | None = None) -> SoftmaxRow:
        """Return the law of a row of logits of a fresh sample: every column has a field of its own."""
        n, G = self._sectors, self._field_power
        asked, size = (self.label_power if power is None else power) - G, values[2 * n]
        found = row.at(n * (asked,), values[:n], values[n : 2 * n])
        shared = size * float(np.sqrt(G))
        return SoftmaxRow(tuple(Column(one.count, one.Q + G, one.q + size**2, one.m + shared) for one in found.columns))

    @lru_cache(maxsize=64)  # noqa: B019  (channels are frozen and small, and few at a time)
    def at_origin(self, level: int) -> Hats:
        """Return the hats per unit of α at S = 0 and without a field, with the Sigmahat of a loss without curvature."""
        sums = np.sum([sums.sum(axis=0) for sums in self._origin_sums(level)], axis=0).reshape(self._sectors, 2)
        return Hats(tuple(sums[:, 0].tolist()), tuple(sums[:, 1].tolist()), tuple(sums[:, 1].tolist()))

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

    def _origin_sums(self, level: int, *, check_rule: bool = False) -> list[Array]:
        """Return for every block (qhat, mhat) of each sector at S = 0 in pieces, one row per slice of the nodes."""
        found = []
        for block in self.geometry.blocks:
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
