"""The output channel: Gaussian logits, noisy labels, the proximal operator, and averages over all of them.

In the coordinates u of `onehead.aim.equations.geometry`, with covariance C,

    prox(v) = argmin_u  (u - v)' C^-1 (u - v) / (2 Sigma) + sum_a loss(row a of u, row a of the label).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, TypeGuard

import numpy as np
from numpy.typing import NDArray

from onehead.aim.equations.averages import Averages, ProxMemory, of_parts, sliced
from onehead.aim.equations.controls import MOMENTS, control_means, corrected, has_many, of_rows, quartic_means
from onehead.aim.equations.drawn import MOST_CHOICES, hard_sums
from onehead.aim.equations.geometry import PARTS, Block, Geometry, Pairs, Row
from onehead.aim.equations.kernels import line_sums, loss_sums, origin_sums, pair_sums, prox_sums
from onehead.aim.equations.lanes import squared_sums
from onehead.aim.equations.long import Lengthened
from onehead.aim.equations.nodes import LogitRule, column_rule, logit_rule, pair_rule, row_rule
from onehead.aim.equations.rows import row_sums
from onehead.aim.equations.shared import shared_sums
from onehead.aim.equations.unknowns import Hats
from onehead.aim.losses import LOSSES, SQUARED, Loss
from onehead.errors import NotConverged
from onehead.numerics.softmax import SoftmaxRow

__all__ = ["OutputChannel"]

Array = NDArray[np.float64]

SMALL_ANGLE = 0.02  # Stein forms divide by Q q - m^2; below this share of Q q they lose digits, derivatives do not
MOST_NUMBERS = 2**23  # in an array of the finest rule
FEW_TOKENS = 4  # up to which a proximal step is cheap enough to look for jumps on twice the points
APART = 1e-3  # of logits of proximal points that are not the same
NEVER = 1e-6  # share of samples with another minimum that matters to nobody: less than one of any sampled points
GRADIENT_TOLERANCE = 1e-6  # largest gradient of a prox objective; Newton leaves about 1e-10


@dataclass(frozen=True, kw_only=True)
class OutputChannel:
    """The output channel of one task and loss: averages, hats and fresh losses at given overlaps.

    ``label_power`` is Q = Q0 + Delta/2, the variance of the noisy label coordinates. ``jumps`` says that proximal points are known
    to jump between minima, which Stein forms see and derivatives do not; ``steady``, that none was seen to have more than one.
    """

    rough: ClassVar[bool] = False  # whether a coarse rule is enough for derivatives of the loss on fresh samples

    loss: Loss
    geometry: Geometry
    label_power: float
    branch: str = "label"
    jumps: bool = False
    steady: bool = False

    @property
    def finer(self) -> tuple[int, ...]:
        """Rules finer than the usual ones, for whoever asks for more digits: sampled points, as many as memory holds."""
        (*_, last) = self.geometry.levels
        numbers = sum(
            self._rule(block, last, False).label.size for block in self.geometry.blocks if not block.on_lattice
        )
        more = int(np.log2(MOST_NUMBERS / numbers)) if self.geometry.sampled else 0
        return tuple(range(last + 1, last + 1 + max(more, 0)))

    def even(self, q: float, m: float) -> tuple[float, ...]:
        """The overlaps of a map that is alike in all its sectors, of which it has one."""
        return q, m

    @property
    def label(self) -> tuple[float, ...]:
        """The overlaps of a map whose logits are those of the labels, noise and all."""
        return self.even(self.label_power, self.label_power)

    def shrunk(self, c: float, reach: tuple[float, ...]) -> tuple[float, ...]:
        """The overlaps of c P, P being what a map can hold of the target, given by its power (8.1)."""
        (power,) = reach
        return self.even(c * c * power, c * power)

    def convex_at(self, sigma: float) -> bool:
        """Whether every prox has one minimum (2.7)."""
        return sigma <= self.loss.one_minimum(self.geometry.exposure)

    def averages(
        self,
        q: float,
        m: float,
        sigma: float,
        *,
        level: int,
        twin: bool = False,
        detail: int = 0,
        search: bool = False,
        memory: ProxMemory | None = None,
    ) -> Averages:
        """Averages over the prox at overlaps (q, m) and step ``sigma`` (2.2).

        Every prox starts at its label, or where ``memory`` left it; ``search`` counts lower minima elsewhere.
        ``detail`` 0 gives the Stein forms alone, 1 also ``trace`` and ``cross``, 2 also ``trace_square``.
        """
        blocks = self._sums((q, m, sigma), level, twin, detail, search, memory)
        found = Averages(*sum((sums.sum(axis=0) for sums in blocks), start=np.zeros(8)).tolist())
        if memory is not None:
            memory.averages = found
            memory.parts = self._part_averages(blocks) if detail and level and self.geometry.sampled else None
        return found

    def parts(
        self, q: float, m: float, sigma: float, *, level: int, memory: ProxMemory | None = None
    ) -> list[Averages]:
        """The same averages, with their derivatives, by each of the independent parts of a rule of sampled points."""
        return self._part_averages(self._sums((q, m, sigma), level, False, 1, False, memory))

    def _part_averages(self, blocks: list[Array]) -> list[Averages]:
        return [Averages(*row) for row in self._in_parts(blocks).tolist()]

    def _in_parts(self, blocks: list[Array]) -> Array:
        """Sums of pieces of blocks, a row for each part of the sampled ones; what is on a lattice, or known, is whole in all of them."""
        found = np.zeros((PARTS, blocks[0].shape[1]))
        for block, sums in zip(self.geometry.blocks, blocks, strict=True):
            found += (
                sums.sum(axis=0)
                if block.on_lattice or len(sums) == 1
                else PARTS * sums.reshape(PARTS, -1, sums.shape[1]).sum(axis=1)
            )
        return found

    def _sums(
        self,
        state: tuple[float, ...],
        level: int,
        twin: bool,
        detail: int,
        search: bool,
        memory: ProxMemory | None,
    ) -> list[Array]:
        """For every block the averages in pieces, a row per slice of the nodes."""
        q, m, sigma = state
        blocks = self.geometry.blocks
        rules = [self._rule(block, level, twin) for block in blocks]
        mode, recall, kept = int(search), 0, tuple(rule.label for rule in rules)
        if self.branch == "global":
            mode = 2
        if memory is not None:
            recall, kept = self._recalled(memory, kept, convex=self.convex_at(sigma))
            mode = 0 if recall == 2 else mode
        if self.convex_at(sigma):
            mode = 0
        found, worst = [], 0.0
        for block, rule, points in zip(blocks, rules, kept, strict=True):
            sums = self._prox_sums(block, rule, points, (q, m, sigma), (mode, detail, recall))
            found.append(block.multiplicity * sums[:, :8])
            worst = max(worst, float(sums[:, 8].max()))
        self._check_gradient(worst, q, m, sigma)
        return found

    @staticmethod
    def _check_gradient(worst: float, q: float, m: float, sigma: float) -> None:
        """Refuse averages over proximal points that are not minima."""
        if not worst < GRADIENT_TOLERANCE:
            raise NotConverged(
                f"a proximal step kept a gradient of {worst:.1e} at q = {q:.4g}, m = {m:.4g}, Sigma = {sigma:.4g}; "
                "try a larger weight_decay.",
                residual=worst,
            )

    def _recalled(
        self, memory: ProxMemory, labels: tuple[Array, ...], *, convex: bool = False
    ) -> tuple[int, tuple[Array, ...]]:
        """Whether to keep proximal points (1) or to begin from them as well (2), and where they are: one for each label of a node.

        Where every prox has one minimum, as that of a hard label has, the last points are always a good start.
        """
        known, drawn = memory.points is not None, self.loss.hard
        follow = memory.follow or drawn or convex or self.steady
        if memory.points is None:
            choices = [block.choices if drawn and not self._corrected(block) else 1 for block in self.geometry.blocks]
            memory.points = tuple(np.zeros((len(u), k * u.shape[1])) for u, k in zip(labels, choices, strict=True))
        return (2 if known and follow else 1), memory.points

    def _lean(self, block: Block) -> TypeGuard[Row]:
        """Whether a block is a row of sampled logits whose Newton step is a Sherman-Morrison formula (U2.1)."""
        if not isinstance(block, Row) or block.on_lattice or self.loss.lean is None:
            return False
        return not self.loss.hard or len(block.columns) == 1  # a drawn label is tilted towards: columns must be alike

    def _paired(self, block: Block) -> TypeGuard[Pairs]:
        """Whether a block is a tied head with more than two tokens whose Newton step is a Woodbury formula (L7)."""
        few = self.loss.hard and block.choices <= MOST_CHOICES
        return isinstance(block, Pairs) and not block.on_lattice and self.loss.lean is not None and not few

    def _corrected(self, block: Block) -> bool:
        """Whether averages over a block are corrected by controls, and have one prox for every node."""
        return self._lean(block) or self._paired(block)

    def _draws(self, block: Block) -> int:
        """Labels that are drawn with every node of a block whose rows share logits (L7.2)."""
        return len(block.select) if self.loss.hard else 0

    def _rule(self, block: Block, level: int, twin: bool) -> LogitRule:
        """Nodes of a block, in coordinates, or for all logits of a row."""
        if self._lean(block):
            return column_rule(block.sampled, level, twin)
        if self._paired(block):
            return pair_rule(block, level, twin, self._draws(block))
        return logit_rule(block, level, twin)

    def _row_sums(
        self,
        row: Row,
        rule: LogitRule,
        points: Array,
        state: tuple[float, float, float],
        modes: tuple[int, int, int],
    ) -> Array:
        """Sums over the nodes of a row, corrected by numbers whose means are known (U2.1).

        Stein combinations vanish only where no prox can jump, and need derivatives.
        """
        (q, m, sigma), Q, (mode, detail, recall), kind = state, self.label_power, modes, self.loss.lean
        assert kind is not None
        short = row.sampled
        further = Lengthened(kind, self.loss.hard, short.length, row.length)
        stein, rich = int(detail > 0 and (self.steady or self.convex_at(sigma))), int(has_many(len(rule.weights)))
        how = (Q, q, m, further.sigma(sigma), int(self.loss.hard), mode, detail, recall, stein, rich)
        sums = sliced(row_sums, MOMENTS, row.slice, (kind, short.variances), (*rule, points), how)
        found = corrected(sums, control_means(self._fresh_row(short, q, m)))
        return found if short is row else further.sums(found, Q, q, m, sigma)

    def _pair_sums(
        self,
        block: Pairs,
        rule: LogitRule,
        points: Array,
        state: tuple[float, float, float],
        modes: tuple[int, int, int],
    ) -> Array:
        """The same over the nodes of all rows of a tied head, the controls being sums over its rows (L7)."""
        (q, m, sigma), Q, (mode, detail, recall), tokens = state, self.label_power, modes, len(block.select)
        stein, rich = int(detail > 0 and (self.steady or self.convex_at(sigma))), int(has_many(len(rule.weights)))
        how = (Q, q, m, sigma, int(self.loss.hard), mode, detail, recall, stein, rich)
        sums = sliced(shared_sums, MOMENTS, block.slice, (self.loss.lean, tokens), (*rule, points), how)
        (row,) = self.geometry.rows
        one = control_means(self._fresh_row(row, q, m))
        return corrected(sums, of_rows(one, tokens, quartic_means(block.variances)))

    def _prox_sums(
        self,
        block: Block,
        rule: LogitRule,
        points: Array,
        state: tuple[float, float, float],
        modes: tuple[int, int, int],
    ) -> Array:
        """Sums over the nodes of one block; one or two coordinates have kernels of their own (2.5, U2.1), hard labels too (U7)."""
        if self._lean(block):
            return self._row_sums(block, rule, points, state, modes)
        if self._paired(block):
            return self._pair_sums(block, rule, points, state, modes)
        (q, m, sigma), Q = state, self.label_power
        return self._kernel_sums(
            block, rule, points, (np.sqrt(Q), m / Q, np.sqrt(max(q - m * m / Q, 0.0)), sigma), modes
        )

    def _kernel_sums(
        self,
        block: Block,
        rule: LogitRule,
        points: Array,
        where: tuple[float, float, float, float],
        modes: tuple[int, int, int],
        *,
        each: bool = False,
    ) -> Array:
        """The same on nodes that are put ``where`` they belong: label times the first, the learner's from the second and third.

        A row of the answer is a slice of the nodes, or ``each`` of them.
        """
        length = 1 if each else block.slice
        at = (*where, *modes)
        before: tuple[Any, ...]
        if self.loss.hard:
            before = (self.loss.compiled, block.select, block.metric)
            return sliced(hard_sums, 9, length, before, (*rule, points), (*where, *modes[1:]))
        kernel: Any = prox_sums
        before = (self.loss.compiled, self.loss.compiled_response, block.select)
        if block.is_pair or block.is_line:
            kernel, before = pair_sums if block.is_pair else line_sums, (self.loss.compiled_pair,)
        if block.is_pair and self.loss.lean == SQUARED and not each:
            kernel, before = squared_sums, ()
        return sliced(kernel, 9, length, (*before, block.metric, block.row_fits), (*rule, points), at)

    def continuation_error(self, q: float, m: float) -> float:
        """Relative error of continuing rows to longer ones, as seen on sums whose values are known at every length (L3).

        Along a straight line in 1/n from the row that is sampled to the limits e^q, e^m and e^Q of n times sum p², p y and y².
        """
        with np.errstate(over="ignore"):  # e^q beyond all numbers is an error beyond all bounds
            worst, limits = 0.0, np.exp([q, m, self.label_power])
        for row in self.geometry.blocks:
            if not self._lean(row) or row.sampled is row:
                continue
            near = row.sampled.length / row.length
            short, long = (
                at.length * np.array([fresh.pp, fresh.py, fresh.yy])
                for at in (row.sampled, row)
                for fresh in [self._fresh_row(at, q, m)]
            )
            worst = max(worst, float(np.max(np.abs(((1.0 - near) * limits + near * short) / long - 1.0))))
        return worst

    def has_one_minimum(self, *state: float, level: int, points: tuple[Array, ...] | None = None) -> bool:
        """Whether every prox that starts at the learner's logits ends where it does from the label, where ``points`` may tell (2.7)."""
        if points is None:
            from_label = ProxMemory(follow=False)
            self._sums(state, level, False, 0, False, from_label)
            points = from_label.points
        assert points is not None
        from_own = ProxMemory(
            follow=True, points=tuple(self._own_logits(block, state, level) for block in self.geometry.blocks)
        )
        self._sums(state, level, False, 0, False, from_own)
        assert from_own.points is not None
        return all(
            float(self._rule(block, level, False).weights @ (np.max(np.abs(a - b), axis=1) > APART)) < NEVER
            for block, a, b in zip(self.geometry.blocks, points, from_own.points, strict=True)
        )

    def _own_logits(self, block: Block, state: tuple[float, ...], level: int) -> Array:
        """Logits of the learner on a fresh sample at the nodes of a block."""
        q, m, _ = state
        Q, rule = self.label_power, self._rule(block, level, False)
        root: Array | float = 1.0
        if self._lean(block):
            root = np.sqrt(block.sampled.variances)
        elif self._paired(block):
            root = np.sqrt(block.variances)
        return np.asarray(root * (m / np.sqrt(Q) * rule.label + np.sqrt(max(q - m * m / Q, 0.0)) * rule.free))

    @property
    def controlled(self) -> bool:
        """Whether averages are corrected by controls."""
        return any(self._corrected(block) for block in self.geometry.blocks)

    def switch_mass(self, q: float, m: float, sigma: float, *, level: int) -> float:
        """Share of samples with a lower minimum than the one near the label, on enough points to see the share that matters (2.7).

        A lattice has its weight everywhere, so that the coarsest will do. Sampled points are counted, on the rule of ``level``; of
        one with few points the twin too.
        """
        if self.convex_at(sigma):
            return 0.0
        if not self.geometry.sampled:
            return self.averages(q, m, sigma, level=0, search=True).switch_mass
        twins = (False, True) if self.geometry.tokens <= FEW_TOKENS else (False,)
        counted = [self.averages(q, m, sigma, level=level, search=True, twin=twin).switch_mass for twin in twins]
        return max(sum(counted) / len(counted), 0.0)  # controls may correct a small count to less than nothing

    def hats(
        self,
        q: float,
        m: float,
        sigma: float,
        *,
        level: int,
        twin: bool = False,
        memory: ProxMemory | None = None,
    ) -> Hats:
        """Hats per unit of α at the given overlaps (2.2), in the form that is the better one there."""
        derivative = self.use_derivatives(q, m)
        detail = 1 if derivative else 0
        averages = self.averages(q, m, sigma, level=level, twin=twin, detail=detail, memory=memory)
        return self.hats_of(averages, q, m, sigma, derivative=derivative)

    def use_derivatives(self, *pair: float) -> bool:
        """Whether the derivative forms are the better ones (2.6).

        Stein forms lose digits when recovery is nearly perfect, and have the larger error on sampled points; but they are the
        exact ones where the prox jumps.
        """
        return (self.geometry.sampled and not self.jumps) or self.narrow_angle(*pair)

    def narrow_angle(self, *pair: float) -> bool:
        """Whether learner and label are too close for the Stein forms, which divide by Q q - m²."""
        q, m = pair
        return 1.0 - m * m / (self.label_power * q) < SMALL_ANGLE

    def hats_of(self, averages: Averages, q: float, m: float, sigma: float, *, derivative: bool) -> Hats:
        """Hats per unit of α (2.2), in the Stein or in the derivative form."""
        Q, unit = self.label_power, self.geometry.unit
        q_hat = unit * averages.distance / sigma**2
        if derivative:
            return Hats(q_hat, unit * averages.cross / sigma, unit * averages.trace / sigma)
        area = sigma * (Q * q - m * m)
        return Hats(
            q_hat,
            unit * (q * averages.along_label - m * averages.along_own) / area,
            -unit * (Q * averages.along_own - m * averages.along_label) / area,
        )

    def fresh_loss(
        self,
        *pair: float,
        coarse: bool = False,
        twin: bool = False,
        power: float | None = None,
        loss: str | None = None,
    ) -> float:
        """E loss on fresh samples; ``power`` replaces Q (clean labels), ``loss`` names another yardstick (2.4).

        Two tokens have a lattice, more a formula (2.9) where the loss has one, else sampled points, fewer if ``coarse``.
        """
        Q = self.label_power if power is None else power
        yardstick = self.loss if loss is None else LOSSES[loss]
        return sum(
            float(self._loss_sums(row, yardstick, Q, pair, coarse, twin).sum())
            if (formula := self._formula(row, yardstick)) is None
            else row.multiplicity * formula(self._fresh_row(row, *pair, power=Q))
            for row in self.geometry.rows
        )

    @staticmethod
    def _formula(row: Row, yardstick: Loss) -> Callable[[SoftmaxRow], float] | None:
        """The average loss of a row by formula, where there is one; two columns have a lattice as good."""
        return None if row.is_line else yardstick.fresh

    def zero_one(self, *pair: float) -> float:
        """Share of rows of a fresh sample whose largest logit is not that of the label drawn from the target's softmax (U7)."""
        rows = self.geometry.rows
        missed = sum(row.multiplicity * self._fresh_row(row, *pair).missed for row in rows)
        return missed / sum(row.multiplicity for row in rows)

    @property
    def noise_error(self) -> float:
        """Test error of an infinitely large map of pure noise: one token per row, whichever (4.2)."""
        total = 0.0
        for row in self.geometry.rows:
            blind = self._fresh_row(row, *self.even(1.0, 0.0))
            total += row.multiplicity * (1.0 + blind.yy - 2.0 * (1.0 - blind.missed))
        return total

    def _fresh_row(self, row: Row, *pair: float, power: float | None = None) -> SoftmaxRow:
        """A row of a fresh sample at these overlaps."""
        q, m = pair
        return row.at([self.label_power if power is None else power], [q], [m])

    def fresh_loss_error(self, *pair: float, power: float | None = None, loss: str | None = None) -> float:
        """Error of an average over fresh samples, as its rule shows it; the formula has none to speak of."""
        yardstick = self.loss if loss is None else LOSSES[loss]
        Q = self.label_power if power is None else power
        gap, found = 0.0, np.zeros(PARTS)
        for row in self.geometry.rows:
            if row.is_line:
                one, other = (self._loss_sums(row, yardstick, Q, pair, False, twin).sum() for twin in (False, True))
                gap += float(one - other)
            elif self._formula(row, yardstick) is None:
                found += self._loss_sums(row, yardstick, Q, pair, False, False).reshape(PARTS, -1).sum(axis=1)
        return abs(gap) + of_parts(PARTS * found)

    def _loss_sums(
        self, row: Row, yardstick: Loss, Q: float, pair: tuple[float, ...], coarse: bool, twin: bool
    ) -> Array:
        """Average loss of one kind of row by quadrature, a number per slice of the nodes."""
        q, m = pair
        how = (np.sqrt(Q), m / Q, np.sqrt(max(q - m * m / Q, 0.0)))
        rule = row_rule(row, coarse=coarse, twin=twin)
        if row.is_line and yardstick.line is not None:
            label = how[0] * rule.label[:, 0]
            losses = yardstick.line(how[1] * label + how[2] * rule.free[:, 0], label)
            return np.array([row.multiplicity * float(rule.weights @ losses)])
        return row.multiplicity * sliced(loss_sums, 1, row.slice, (yardstick.compiled,), rule, how)[:, 0]

    @lru_cache(maxsize=64)  # noqa: B019  (frozen and small: the same few channels are asked again and again)
    def at_origin(self, level: int) -> tuple[float, float]:
        """(qhat, mhat) per unit of α at S = 0: 2 E|grad|^2 and -2 E tr d(grad)/dz* (4.6)."""
        q_hat, m_hat = sum((sums.sum(axis=0) for sums in self._origin_sums(level)), start=np.zeros(2)).tolist()
        return q_hat, m_hat

    def at_origin_error(self, level: int) -> tuple[float, float]:
        """Errors of the same."""
        if not self.geometry.sampled:
            gaps = [
                one.sum(axis=0) - other.sum(axis=0)
                for one, other in zip(self._origin_sums(level), self._origin_sums(level, twin=True), strict=True)
            ]
            q_hat, m_hat = np.abs(np.sum(gaps, axis=0)).tolist()
            return q_hat, m_hat
        parts = self._in_parts(self._origin_sums(level))
        return of_parts(parts[:, 0]), of_parts(parts[:, 1])

    def _origin_row(self, row: Row) -> Array:
        """The same of one row by formula: the gradient at zero logits is 1/n - y, times 2/n if squared (L2.6)."""
        variances, n = np.array([column.variances[0] for column in row.columns]), row.length
        first, second = self._fresh_row(row, self.label_power, self.label_power).moments
        counts = np.array([column.count for column in row.columns]) * variances
        factor = 2.0 / n if self.loss.lean == SQUARED else 1.0
        pull = factor**2 * counts @ (second - 2.0 * first / n + 1.0 / n**2)
        return np.array([[pull, factor * counts @ (first - second)]])

    def _origin_pairs(self, block: Pairs) -> Array:
        """The same of a tied head: its rows, and what two of them say together of the logit that they share (L2.6)."""
        (row,), n = self.geometry.rows, len(block.select)
        labels = self._fresh_row(row, self.label_power, self.label_power)
        first, both = labels.moments[0][1], labels.given_square[1]  # of a column that is not a row's own token
        factor = 2.0 / n if self.loss.lean == SQUARED else 1.0
        together = factor**2 * (both - 2.0 * first / n + 1.0 / n**2)
        return np.asarray(n * self._origin_row(row) + np.array([[n * (n - 1) * together, 0.0]]))

    def _origin_sums(self, level: int, *, twin: bool = False) -> list[Array]:
        """For every block (qhat, mhat) in pieces, a row per slice of the nodes."""
        found = []
        for block in self.geometry.blocks:
            if isinstance(block, Row) and self.loss.lean is not None:
                sums = self._origin_row(block)
            elif self._paired(block):
                sums = self._origin_pairs(block)
            else:
                rule = logit_rule(block, level, twin)
                before = (self.loss.compiled, self.loss.compiled_response, block.select, block.covariance)
                nodes, how = (rule.label, rule.weights), (np.sqrt(self.label_power),)
                sums = sliced(origin_sums, 2, block.slice, before, nodes, how)
            if self.loss.hard:  # the variance of a drawn label adds what it answers to its logits with (U4)
                sums[:, 0] += sums[:, 1]
            found.append(self.geometry.unit * block.multiplicity * sums)
        return found
