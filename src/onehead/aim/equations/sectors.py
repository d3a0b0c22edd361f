"""Untied self-attention that sees its own logit: the map has two sectors, its symmetric and its antisymmetric part (U5).

A token's logit with itself knows the symmetric part alone, so that the two are learned to different degrees. All covariances of
logits are v_s C_s + v_a C_a, for v the overlaps q, m, Sigma and the power of the labels. The output channel is exact; on the input
side weight decay on singular values mixes the sectors, and expectation consistency stands for what has no closed form.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeGuard

import numpy as np
from numpy.typing import NDArray

from onehead.aim.equations.averages import ProxMemory, of_parts, sliced
from onehead.aim.equations.controls import (
    GROUPED,
    NORMAL,
    STEIN_FORMS,
    control_means,
    corrected,
    has_many,
    moments,
    of_rows,
)
from onehead.aim.equations.drawn import MOST_CHOICES
from onehead.aim.equations.geometry import PARTS, Block, Exchanged, Row
from onehead.aim.equations.kernels import loss_sums, origin_sums
from onehead.aim.equations.matrices import matrix_sums, pair_matrix_sums, row_matrix_sums
from onehead.aim.equations.nodes import LogitRule, logit_rule, normal_rule, sector_rule
from onehead.aim.equations.output import GRADIENT_TOLERANCE, SMALL_ANGLE, OutputChannel
from onehead.aim.equations.sector_pairs import sector_pair_sums
from onehead.aim.equations.sector_rows import sector_row_sums
from onehead.aim.equations.unknowns import SectorHats, SectorOverlaps, SpectralMap
from onehead.aim.equations.untied import SingularValues, UntiedLinear
from onehead.aim.losses import LOSSES, SQUARED, Loss
from onehead.errors import NotConverged, OutsideDomain, SolveError
from onehead.numerics.fixed_point import FixedPoint, fixed_point
from onehead.numerics.softmax import Column, SoftmaxRow

__all__ = ["Consistent", "SectorAverages", "SectorLinear", "SectorOutput"]

Array = NDArray[np.float64]

CONSISTENT, ENOUGH = (
    1e-11,
    3e-8,
)  # of the unknowns of expectation consistency, in units of the hats: wanted, and good enough
HEURISTIC = (
    "the two sectors of self-attention are joined by expectation consistency, which is not exact; it was within 0.7 % of solving for "
    "the map itself, and within sampling error of training"
)


class SectorAverages(NamedTuple):
    """Averages over the prox of one sample: ``distance`` is in units of Sigma, hats are per unit of α, by derivatives and by Stein."""

    distance: float
    loss: float
    switch_mass: float
    derivative: SectorHats
    stein: SectorHats

    def envelope(self, sigma: float) -> float:
        """What the prox attains, step and loss."""
        return self.loss + 0.5 * self.distance


def _mixed(block: Block, values: Sequence[float]) -> Array:
    """C(v) = v_s C_s + v_a C_a."""
    return values[0] * block.sectors[0] + values[1] * block.sectors[1]


def _at(label: Array, free: Array, Q: float, q: Array, m: Array) -> Array:
    """Logits of the learner from independent normals for label and rest."""
    return np.asarray(m / np.sqrt(Q) * label + np.sqrt(np.maximum(q - m * m / Q, 0.0)) * free)


def _root(block: Block, covariance: Array) -> Array:
    """A root of a covariance, triangular along the axes of the block, so that a lattice keeps its reflections."""
    axes = block.axes
    turned = axes.T @ covariance @ axes
    tiny = 1e-15 * float(np.trace(turned)) + 1e-300
    return np.asarray(axes @ np.linalg.cholesky(turned + tiny * np.eye(len(turned))))


@dataclass(frozen=True, kw_only=True)
class SectorOutput(OutputChannel):
    """The output channel of two sectors: states are (q_s, q_a, m_s, m_a, Sigma_s, Sigma_a) (U5.2)."""

    def even(self, q: float, m: float) -> tuple[float, ...]:
        """The same in both sectors."""
        return q, q, m, m

    def narrow_angle(self, *pair: float) -> bool:
        """Whether learner and label are too close for the Stein forms in a sector."""
        q_s, q_a, m_s, m_a = pair
        return min(1.0 - m * m / (self.label_power * q) for q, m in ((q_s, m_s), (q_a, m_a))) < SMALL_ANGLE

    def convex_at(self, *sigmas: float) -> bool:
        """Whether every prox has one minimum: no logit has a larger Sigma than the larger of the sectors."""
        return max(sigmas) <= self.loss.one_minimum(self.geometry.exposure)

    def averages(  # type: ignore[override]
        self,
        *state: float,
        level: int,
        twin: bool = False,
        detail: int = 0,
        search: bool = False,
        memory: ProxMemory | None = None,
    ) -> SectorAverages:
        """Averages over the prox at a state (U5.2); ``detail`` 0 gives the Stein forms alone."""
        pieces = self._sums(state, level, twin, detail, search, memory)
        found = self._contracted(state, [sums.sum(axis=0) for sums in pieces])
        if memory is not None:
            memory.averages = found
        return found

    def parts(self, *state: float, level: int, memory: ProxMemory | None = None) -> list[SectorAverages]:  # type: ignore[override]
        """The same averages by each of the independent parts of a rule of sampled points."""
        pieces = self._sums(state, level, False, 1, False, memory)
        rows = [
            np.repeat(sums.sum(axis=0)[None], PARTS, axis=0)
            if block.on_lattice or len(sums) == 1
            else PARTS * sums.reshape(PARTS, -1, sums.shape[1]).sum(axis=1)
            for block, sums in zip(self.geometry.blocks, pieces, strict=True)
        ]
        return [self._contracted(state, [row[part] for row in rows]) for part in range(PARTS)]

    def _sums(
        self, state: tuple[float, ...], level: int, twin: bool, detail: int, search: bool, memory: ProxMemory | None
    ) -> list[Array]:
        """For every block the averages in pieces, a row per slice of the nodes."""
        blocks, sigmas = self.geometry.blocks, state[4:]
        nodes = [self._nodes(block, state, level, twin) for block in blocks]
        mode, recall, kept = int(search), 0, tuple(label for label, _, _ in nodes)
        if self.branch == "global":
            mode = 2
        if memory is not None:
            recall, kept = self._recalled(memory, kept)
            mode = 0 if recall == 2 else mode
        if self.convex_at(*sigmas):
            mode = 0
        found, worst = [], 0.0
        for block, rule, points in zip(blocks, nodes, kept, strict=True):
            if self._grouped(block):
                sums = self._group_sums(block, rule, points, state, (mode, detail, recall))
                worst = max(worst, float(sums[:, -1].max()))
                found.append(block.multiplicity * sums[:, :-1])
                continue
            kernel, before, lean = self._kernel(block, sigmas)
            how = (int(self.loss.hard), *(() if lean else (mode,)), detail, recall)
            sums = sliced(kernel, 4 + 5 * block.dim**2, block.slice, before, (*rule, points), how)
            worst = max(worst, float(sums[:, 3].max()))
            found.append(block.multiplicity * sums)
        if not worst < GRADIENT_TOLERANCE:
            raise NotConverged(
                f"a proximal step kept a gradient of {worst:.1e} at Sigma = {sigmas[0]:.4g}, {sigmas[1]:.4g}; "
                "try a larger weight_decay.",
                residual=worst,
            )
        return found

    def _kernel(self, block: Block, sigmas: Sequence[float]) -> tuple[Any, tuple[Any, ...], bool]:
        """The sums of a block with what they begin with, and whether they are those of a row with one minimum."""
        if isinstance(block, Row) and self.loss.lean is not None and self.convex_at(*sigmas):
            return row_matrix_sums, (self.loss.lean, 1.0 / block.variances_at(sigmas)), True
        metric = np.ascontiguousarray(np.linalg.inv(_mixed(block, sigmas)))
        if block.is_pair:
            return pair_matrix_sums, (self.loss.compiled_pair, metric, block.row_fits), False
        before = (self.loss.compiled, self.loss.compiled_response, block.select, metric, block.row_fits)
        return matrix_sums, before, False

    def _nodes(self, block: Block, state: tuple[float, ...], level: int, twin: bool) -> tuple[Array, Array, Array]:
        """u*, v and weights: v given u* is Gaussian around C(m) C(Q)^-1 u*."""
        if self._grouped(block):
            return sector_rule(block, level, twin, self._draws(block))
        rule, n = normal_rule(block, level, twin), block.dim
        q, m, Q = (_mixed(block, pair) for pair in (state[:2], state[2:4], (self.label_power, self.label_power)))
        label = rule.nodes[:, :n] @ _root(block, Q).T
        slope = np.linalg.solve(Q, m).T
        free = label @ slope.T + rule.nodes[:, n:] @ _root(block, q - slope @ m).T
        return np.ascontiguousarray(label), np.ascontiguousarray(free), rule.weights

    def _grouped(self, block: Block) -> TypeGuard[Row | Exchanged]:
        """Whether sectors take sums over groups of logits, of sampled rows whose Newton step is a Woodbury formula (L6, L7)."""
        if not isinstance(block, (Row, Exchanged)) or block.on_lattice or self.loss.lean is None:
            return False
        return not self.loss.hard or (isinstance(block, Exchanged) and block.choices > MOST_CHOICES)

    def _corrected(self, block: Block) -> bool:
        """Whether averages over a block are corrected by controls, and have one prox for every node."""
        return self._grouped(block)

    def _rule(self, block: Block, level: int, twin: bool) -> LogitRule:
        """Nodes of a block."""
        return (
            sector_rule(block, level, twin, self._draws(block))
            if self._grouped(block)
            else logit_rule(block, level, twin)
        )

    def _own_logits(self, block: Block, state: tuple[float, ...], level: int) -> Array:
        """Logits of the learner on a fresh sample at the nodes of a block."""
        label, free, _ = self._nodes(block, state, level, False)
        if not self._grouped(block):
            return free.copy()
        Q, (q, m, _) = self.label_power, self._powers(block, state)
        if isinstance(block, Row):
            return np.asarray(_at(label, free, Q, q[[*[0] * (block.length - 1), 1]], m[[*[0] * (block.length - 1), 1]]))
        tokens = block.tokens
        sector = np.concatenate([np.zeros(tokens, dtype=int), np.tile([0, 1], tokens * (tokens - 1) // 2)])
        parts, found = _at(label, free, Q, q[sector], m[sector]), np.empty((len(label), tokens, tokens))
        found[:, range(tokens), range(tokens)] = parts[:, :tokens]
        above, even, odd = np.triu_indices(tokens, 1), parts[:, tokens::2], parts[:, tokens + 1 :: 2]
        found[:, above[0], above[1]] = np.sqrt(0.5) * (even + odd)
        found[:, above[1], above[0]] = np.sqrt(0.5) * (even - odd)
        return found.reshape(len(label), -1)

    def _powers(self, block: Row | Exchanged, state: tuple[float, ...]) -> Array:
        """q, m and Sigma of both groups of logits: sectors, or the others of a row and the own one."""
        pairs = np.reshape(state, (3, 2))
        if isinstance(block, Exchanged):
            return np.ascontiguousarray(pairs)
        return np.ascontiguousarray(pairs @ np.array([column.variances for column in block.columns]).T)

    def _group_sums(
        self,
        block: Row | Exchanged,
        rule: tuple[Array, Array, Array],
        points: Array,
        state: tuple[float, ...],
        modes: tuple[int, int, int],
    ) -> Array:
        """Sums over groups of logits, corrected by numbers whose means are known."""
        mode, detail, recall = modes
        stein = int(detail > 0 and (self.steady or self.convex_at(*state[4:])))
        how: tuple[Any, ...] = (mode, detail, recall, stein, int(has_many(len(rule[2]))))
        powers = self._powers(block, state)
        kernel: Any = sector_row_sums
        before: tuple[Any, ...] = (self.loss.lean, powers)
        if isinstance(block, Row):
            row, rows, how = block, 1, (self.label_power, *how)
        else:
            how = (self.label_power, int(self.loss.hard), *how)
            kernel, before = sector_pair_sums, (self.loss.lean, block.tokens, powers)
            (row,), rows = self.geometry.rows, block.tokens
        sums = sliced(kernel, moments(GROUPED), block.slice, before, (*rule, points), how)
        one = control_means(self._fresh_row(row, *state[:4]))
        return corrected(sums, of_rows(one, rows, rows * row.length * NORMAL), STEIN_FORMS)

    def _of_groups(self, block: Row | Exchanged, state: tuple[float, ...], found: Array) -> tuple[Array, Array]:
        """Loss, distance and switched mass, and what each sector takes of the sums over groups, by derivatives and by Stein."""
        Q, (q, m, _) = self.label_power, self._powers(block, state)
        square, by_label, by_own, pull, response = found[3:].reshape(5, 2)
        area = Q * q - m * m
        stein, stein_pull = (q * by_label - m * by_own) / area, (m * by_label - Q * by_own) / area
        shares = 2.0 * (
            np.eye(2) if isinstance(block, Exchanged) else np.array([one.variances for one in block.columns]).T
        )
        return found[[0, 1, 2]], np.array([square, response, pull, stein, stein_pull]) @ shares.T

    def _contracted(self, state: tuple[float, ...], sums: list[Array]) -> SectorAverages:
        """What each sector takes of the matrices: 2 tr(C_c M) (U5.2)."""
        totals, hats = np.zeros(3), np.zeros((5, 2))
        for block, found in zip(self.geometry.blocks, sums, strict=True):
            if self._grouped(block):
                some, taken = self._of_groups(block, state, found)
                totals, hats = totals + some, hats + taken
                continue
            n = block.dim
            square, by_label, by_own, pull, response = found[4:].reshape(5, n, n)
            q, m, Q = (_mixed(block, pair) for pair in (state[:2], state[2:4], (self.label_power, self.label_power)))
            # Stein: (E de/du*, E de/dv) = (E e u*', E e v') Cov^-1, by the Schur complement of the label
            slope = np.linalg.solve(Q, m).T
            by_free = np.linalg.solve((q - slope @ m).T, (by_own - by_label @ slope.T).T).T
            stein = np.linalg.solve(Q.T, (by_label - by_free @ m.T).T).T
            totals += found[:3]
            for c, C in enumerate(block.sectors):
                hats[:, c] += [2.0 * float(np.sum(C * M.T)) for M in (square, response, pull, stein, -by_free)]
        loss, distance, switch = totals.tolist()
        q_hat, m_hat, sigma_hat, m_stein, sigma_stein = hats
        return SectorAverages(
            distance,
            loss,
            switch,
            SectorHats(*q_hat, *m_hat, *sigma_hat),
            SectorHats(*q_hat, *m_stein, *sigma_stein),
        )

    def switch_mass(self, *state: float, level: int) -> float:
        """Share of samples with a lower minimum than the one near the label."""
        if self.convex_at(*state[4:]):
            return 0.0
        level = level if self.geometry.sampled else 0
        return self.averages(*state, level=level, search=True).switch_mass

    def hats(self, *state: float, level: int, twin: bool = False, memory: ProxMemory | None = None) -> SectorHats:  # type: ignore[override]
        """Hats per unit of α, in the form that is the better one there."""
        derivative = self.use_derivatives(*state[:4])
        averages = self.averages(*state, level=level, twin=twin, detail=int(derivative), memory=memory)
        return self.hats_of(averages, *state, derivative=derivative)

    def hats_of(self, averages: SectorAverages, *state: float, derivative: bool) -> SectorHats:  # type: ignore[override]
        """Hats per unit of α, in the Stein or in the derivative form."""
        return averages.derivative if derivative else averages.stein

    def _loss_sums(
        self, row: Row, yardstick: Loss, Q: float, pair: tuple[float, ...], coarse: bool, twin: bool
    ) -> Array:
        """The same for a row of logits that the sectors have different shares in; two columns have one difference, as ever."""
        if row.is_line:
            whole, *parts = (float(row.variances_at(at).sum()) for at in ((1.0, 1.0), pair[:2], pair[2:]))
            return super()._loss_sums(row, yardstick, Q, tuple(part / whole for part in parts), coarse, twin)
        noisy = replace(self, label_power=Q)
        level = 3 if row.on_lattice else 1 if coarse else 3
        nodes = noisy._nodes(row, (*pair, 0.0, 0.0), level, twin)
        found = sliced(loss_sums, 1, row.slice, (yardstick.compiled,), nodes, (1.0, 0.0, 1.0))[:, 0]
        return row.multiplicity * found

    def _fresh_row(self, row: Row, *pair: float, power: float | None = None) -> SoftmaxRow:
        """A row of a fresh sample at these overlaps."""
        Q = self.label_power if power is None else power
        return row.at((Q, Q), pair[:2], pair[2:])

    def fresh_loss_error(self, *pair: float, power: float | None = None, loss: str | None = None) -> float:
        """Error of an average over fresh samples, as other nodes show it; the formula has none to speak of."""
        yardstick = self.loss if loss is None else LOSSES[loss]
        Q, gap = self.label_power if power is None else power, 0.0
        for row in self.geometry.rows:
            if self._formula(row, yardstick) is None:
                one, other = (self._loss_sums(row, yardstick, Q, pair, False, twin).sum() for twin in (False, True))
                gap += float(one - other)
        return abs(gap)

    @lru_cache(maxsize=64)  # noqa: B019  (frozen and small: the same few channels are asked again and again)
    def at_origin(self, level: int) -> SectorHats:  # type: ignore[override]
        """Hats per unit of α at S = 0, Sigmahat being that of a loss without curvature (4.6)."""
        q_s, m_s, q_a, m_a = np.sum([sums.sum(axis=0) for sums in self._origin_sums(level)], axis=0).tolist()
        return SectorHats(q_s, q_a, m_s, m_a, m_s, m_a)

    def at_origin_error(self, level: int) -> tuple[float, float]:
        """Errors of the means of qhat and mhat."""
        pieces = self._origin_sums(level)
        if self.geometry.sampled:
            parts = self._in_parts(pieces)
            return of_parts(parts[:, ::2].mean(axis=1)), of_parts(parts[:, 1::2].mean(axis=1))
        gap = np.sum([one.sum(axis=0) for one in pieces], axis=0) - np.sum(
            [other.sum(axis=0) for other in self._origin_sums(level, twin=True)], axis=0
        )
        return abs(float(gap[::2].mean())), abs(float(gap[1::2].mean()))

    def _origin_groups(self, block: Row | Exchanged) -> Array:
        """The same by formula: labels have independent logits, all alike, and an own one is seen by one sector alone (L2.6)."""
        n = block.length if isinstance(block, Row) else block.tokens
        count = block.multiplicity if isinstance(block, Row) else block.tokens
        yy = SoftmaxRow((Column(n, *3 * (self.label_power,)),)).yy
        factor = 2.0 / n if self.loss.lean == SQUARED else 1.0
        pull = np.array([factor**2 * (yy - 1.0 / n), factor * (1.0 - yy)])
        return count * np.hstack([(n + 1) / n * pull, (n - 1) / n * pull])[None]

    def _origin_sums(self, level: int, *, twin: bool = False) -> list[Array]:
        """For every block (qhat, mhat) of each sector in pieces, a row per slice of the nodes."""
        found = []
        for block in self.geometry.blocks:
            if self._grouped(block):
                sums = self._origin_groups(block)
                if self.loss.hard:
                    sums[:, ::2] += sums[:, 1::2]
                found.append(sums)
                continue
            rule = normal_rule(block, level, twin)
            label = np.ascontiguousarray(
                rule.nodes[:, : block.dim] @ _root(block, self.label_power * block.covariance).T
            )
            sectors = []
            for C in block.sectors:
                before = (self.loss.compiled, self.loss.compiled_response, block.select, np.ascontiguousarray(C))
                sums = sliced(origin_sums, 2, block.slice, before, (label, rule.weights), (1.0,))
                if self.loss.hard:  # the variance of a drawn label adds what it answers to its logits with (U4)
                    sums[:, 0] += sums[:, 1]
                sectors.append(2.0 * block.multiplicity * sums)
            found.append(np.hstack(sectors))
        return found


def _checked(hats: SectorHats) -> tuple[Array, Array, Array]:
    """(qhat, mhat, Sigmahat) of both sectors, if they are in the domain of the equations."""
    if not min(hats) > 0.0:
        raise OutsideDomain(
            "the output channel gave hats that are not positive; the iterate has left the domain of the equations."
        )
    q, m, sigma = np.reshape(hats, (3, 2))
    return q, m, sigma


@dataclass(frozen=True, kw_only=True)
class Consistent(SingularValues):
    """Weight decay on the singular values of a map whose sectors are known to different degrees: expectation consistency (U5.3).

    A Gaussian of the same first two moments stands for the penalty in each sector, and a spectral problem with one common precision
    for the sectors; the two agree about size, overlap and response. Exact where the sectors have the same hats.
    """

    relaxes = False
    by_sigma = False
    heuristic = HEURISTIC

    @cached_property
    def _ended(self) -> list[FixedPoint]:
        """Where the last call found the sectors consistent: the next one has nearly the same hats."""
        return []

    def _untold(self, hats: SectorHats) -> Array:
        """The unknowns where the sectors are not told apart, which close to emergence is all there is."""
        spread = hats.q + 0.25 * (hats.m_s - hats.m_a) ** 2 * self.target_power
        A = self.integrals(spread / hats.m**2, self.decay / hats.m).A
        return np.array([-np.log(min(A, 1.0)) if A > 0.0 else 0.0, 0.0, 0.0])

    def overlaps(self, hats: SectorHats) -> SectorOverlaps:
        """Overlaps of both sectors from their hats."""
        q_hat, m_hat, sigma_hat = _checked(hats)
        Q0, unit = self.target_power, np.array([sigma_hat.mean(), m_hat.mean(), q_hat.mean()])
        last: dict[str, tuple[Any, ...]] = {}

        def sweep(x: Array) -> Array:
            g1, mu1, nu1 = unit * [np.expm1(x[0]), x[1], x[2]]
            chi = float(np.mean(1.0 / (sigma_hat + g1)))
            g2, w = 1.0 / chi - g1, 1.0 / (chi * (sigma_hat + g1))
            means = w * m_hat + (w - 1.0) * mu1
            mu2 = float(means.mean())
            nu2 = float(np.mean(w**2 * q_hat + (w - 1.0) ** 2 * nu1 + (means - mu2) ** 2 * Q0))
            if not (mu2 > 0.0 and nu2 > 0.0 and g2 > 0.0):
                raise OutsideDomain("the two sectors could not be made consistent here.")
            s, eps, slope = nu2 / mu2**2, self.decay / mu2, mu2 / g2
            part = self.integrals(s, eps)
            if not part.A > 0.0:
                raise OutsideDomain("every singular value fell below the threshold: the map is zero here.")
            overlap = part.J + eps * part.B - s * part.A
            last["spectral"] = (slope * part.B, part.rank, SpectralMap(s, eps, part.cut, slope))
            g1, mu1 = g2 / part.A - g2, mu2 * (overlap / (part.A * Q0) - 1.0)
            nu1 = mu2**2 * ((part.J - overlap**2 / Q0) / part.A**2 - s)
            last["gaussian"] = (g1, mu1, nu1)
            return np.array([np.log1p(max(g1, 0.0) / unit[0]), mu1 / unit[1], nu1 / unit[2]])

        how: dict[str, Any] = {"tolerance": CONSISTENT, "damping": 0.5, "max_evaluations": 400, "limit": 1e9}
        found = None
        if self._ended:
            with suppress(SolveError):
                found = fixed_point(sweep, self._ended[0].value, secants=self._ended[0].secants, **how)
        try:
            self._ended[:] = [found or fixed_point(sweep, self._untold(hats), **how)]
        except NotConverged as failure:  # a law that is next to its atoms is not as smooth
            if not failure.residual < ENOUGH:
                raise
        g1, mu1, nu1 = last["gaussian"]
        sigma = 1.0 / (sigma_hat + g1)
        q, m = ((m_hat + mu1) ** 2 * Q0 + q_hat + nu1) * sigma**2, (m_hat + mu1) * Q0 * sigma
        return SectorOverlaps(*6 * (0.0,), *last["spectral"]).at(*q.tolist(), *m.tolist(), *sigma.tolist())

    def replicon(self, overlaps: Any, hats: Any) -> float | None:
        """Not known."""
        return None


@dataclass(frozen=True, kw_only=True)
class SectorLinear(UntiedLinear):
    """The map itself is trained: each sector is shrunk by its own D_c = Sigmahat_c + 2λ, which is exact (U5.3)."""

    by_sigma = False

    def overlaps(self, hats: SectorHats) -> SectorOverlaps:
        """q_c = (mhat_c² Q0 + qhat_c)/D_c², m_c = mhat_c Q0/D_c, Sigma_c = 1/D_c."""
        q_hat, m_hat, sigma_hat = _checked(hats)
        Q0, D = self.target_power, sigma_hat + 2.0 * self.unit * self.decay
        q, m, slope = (m_hat**2 * Q0 + q_hat) / D**2, m_hat * Q0 / D, float(np.mean(m_hat / D))
        where = SpectralMap(float(q.mean()) / slope**2 - Q0, 0.0, self.lowest, slope)
        found = SectorOverlaps(*6 * (0.0,), tau=slope * self._mean, rank=1.0, map=where)
        return found.at(*q.tolist(), *m.tolist(), *(1.0 / D).tolist())

    def replicon(self, overlaps: Any, hats: Any) -> float | None:
        """Not known."""
        return None
