"""The output channel of tied heads with leading directions: their logits exactly, all others as Gaussian (P2).

Direction k of a sample of T tokens has coordinates x_1..x_T, each N(0, 1), and adds to the logit of tokens a and b its
eigenvalue times (x_a x_b - δ_ab)/sqrt d. In the coordinates u of `onehead.aim.logits.blocks` that is upsilon^k, of
covariance C like any other:

    u* = sum_k t_k upsilon^k + r,   v = sum_k l_k upsilon^k + (m_b/Q_b) r + w,   r ~ N(0, Q_b C),  w ~ N(0, (q_b -
    m_b²/Q_b) C),

t_k and l_k being the elements of target and map in the direction. The prox, its kernels and its derivatives are those
of any logits.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from onehead.aim.kernels.arguments import Detail, Scaling, Start
from onehead.aim.kernels.dense import loss_sums
from onehead.aim.logits.blocks import PARTS
from onehead.aim.logits.geometry import Geometry
from onehead.aim.logits.quadrature import LogitRule
from onehead.aim.losses import CrossEntropy, Loss, Squared
from onehead.aim.theory.order_parameters import Hats
from onehead.aim.theory.output.averages import Averages, FreshSamples, ProxCache, Request, parts_error, sum_in_slices
from onehead.aim.theory.output.explicit_directions import DirectionAverages, ExplicitDirectionsOutput
from onehead.aim.theory.output.leading_fresh_tied import (
    COARSE_FREQUENCY,
    HIGHEST_FREQUENCY,
    RowLaw,
    TiedRowLaw,
    control_means,
    controls,
    cross_entropy,
    squared_error,
)
from onehead.aim.theory.output.one_sector import scalar_hats
from onehead.numerics.gaussian import sobol
from onehead.numerics.jit import njit

Array = NDArray[np.float64]

# log2 of the points of the finest rule before mirroring, by the largest number of coordinates: a proximal step costs
# more for many
LOG2_POINTS = ((2, 13), (5, 13), (14, 12), (27, 11), (1000, 10))
LOG2_FRESH_POINTS = 15  # for fresh samples, which need no proximal step
LOG2_FRESH_NUMBERS = 22  # memory that the points of fresh samples may fill
ORIGIN_SIGMA = 1e-7  # Sigma at which a proximal step from the zero map is its gradient
ORIGIN_OVERLAP = 1e-12  # q that stands for the zero map
RIDGE, TINY = 1e-9, 1e-300  # of the correlations of control variates; scale of one that does not vary
PURE_NOISE = 1e10  # q of a map of pure noise that counts as infinite

FORMULAS: dict[type[Loss], Any] = {Squared: squared_error, CrossEntropy: cross_entropy}


class Nodes(NamedTuple):
    """Sampled points: label and independent part of the bulk, per unit of variance; upsilon of every direction;
    weights.
    """

    label: Array
    free: Array
    upsilon: Array  # (nodes, directions, coordinates)
    weights: Array


class NodeTable(NamedTuple):
    """Logits of label and learner at the nodes, their other parts, proximal points, and the sums of the kernels at each
    node.
    """

    label: Array
    learner: Array
    others: tuple[Array, ...]
    points: Array
    per_node: Array


@lru_cache(maxsize=6)
def tied_nodes(geometry: Geometry, count: int, size: int, check_rule: bool) -> Nodes:
    """Return scrambled Sobol points over ``count`` directions and the bulk, in independent parts (P7)."""
    (block,), tokens = geometry.blocks, geometry.tokens
    n = block.dim
    rule = sobol(2 * n + tokens * count, log2_points=size, seed=3 if check_rule else 2, parts=PARTS)
    # directions use the first Sobol dimensions, which are the most uniform, because the integrand varies most along
    # them
    x = rule.nodes[:, : tokens * count].reshape(-1, count, tokens)
    bulk = rule.nodes[:, tokens * count :]
    upsilon = np.empty((len(x), count, n))
    for a, row in enumerate(block.select):
        for b, i in enumerate(row):
            if i >= 0:
                upsilon[:, :, i] = x[:, :, a] * x[:, :, b] - (1.0 if a == b else 0.0) - x[:, :, 0] * x[:, :, 1]
    label, free = (np.ascontiguousarray(part @ block.root.T) for part in (bulk[:, :n], bulk[:, n:]))
    return Nodes(label, free, upsilon, rule.weights)


@dataclass(frozen=True, kw_only=True)
class LeadingOutput(ExplicitDirectionsOutput):
    """Abstract output channel with leading directions; a state is (q_b, m_b, learned elements, Sigma) (P2)."""

    @abstractmethod
    def _nodes(self, size: int, check_rule: bool) -> Any:
        """Return 2^size sampled points, before mirroring."""

    @abstractmethod
    def logits(self, nodes: Any, values: tuple[float, ...], power: float | None = None) -> tuple[Array, ...]:
        """Return u* and v at the nodes, and what `_tabulate` needs besides."""

    @abstractmethod
    def _tabulate(self, values: tuple[float, ...], nodes: Any, table: NodeTable, smooth: bool) -> Array:
        """Return the averages by independent parts, from the sums of the kernels; ``smooth``: derivatives are known and
        nothing jumps.
        """

    @abstractmethod
    def _row_law(self, values: tuple[float, ...], power: float | None) -> RowLaw:
        """Return the law of the logits of a row of two tokens."""

    @abstractmethod
    def _direction_averages(self, averages: DirectionAverages, derivative: bool) -> Array:
        """Return E pull.upsilon of every direction, in the Stein or in the derivative form."""

    @property
    def coarse_fresh_slopes(self) -> bool:
        """True: a coarse rule is enough for derivatives of the loss on fresh samples."""
        return True

    def _size(self, level: int) -> int:
        """log2 of the points of a level before mirroring."""
        finest = next(size for dim, size in LOG2_POINTS if self.geometry.blocks[0].dim <= dim)
        return finest - 4 if level == 0 else finest - 3 + level

    @property
    def _fresh_size(self) -> int:
        """log2 of the points for fresh samples: as many as memory allows, not fewer than a solution has."""
        room = LOG2_FRESH_NUMBERS - 1 - int(np.ceil(np.log2(self.directions.count * self.geometry.blocks[0].dim)))
        return max(self._size(3), min(LOG2_FRESH_POINTS, room))

    def _average(self, state: tuple[float, ...], asked: Request) -> DirectionAverages:
        """Average over the proximal operator (P2)."""
        pieces, cache, detail = self._pieces(state, asked), asked.cache, asked.detail
        found = self._averages(pieces.sum(axis=0))
        if cache is not None:
            cache.averages, cache.parts = found, self._by_part(pieces) if detail else None
            cache.has_second_moments = detail > 0 and self.geometry.tokens == 2  # whose kernels always give tr K² too
        return found

    def parts(self, *state: float, level: int, cache: ProxCache | None = None) -> Sequence[DirectionAverages]:
        """Return the averages, with their derivative forms, by each independent part of the points."""
        return self._by_part(self._pieces(state, Request(level, detail=1, cache=cache)))

    def _by_part(self, pieces: Array) -> list[DirectionAverages]:
        return [self._averages(PARTS * row) for row in pieces]

    @staticmethod
    def _averages(row: Array) -> DirectionAverages:
        return DirectionAverages(Averages(*row[:8].tolist()), tuple(row[8:].tolist()))

    def _pieces(self, state: tuple[float, ...], asked: Request) -> Array:
        """Return the averages by independent parts, one row each: eight of the kernels, then those along the
        directions.
        """
        (*values, sigma), (level, check_rule, detail, search, cache) = state, asked
        (block,), nodes = self.geometry.blocks, self._nodes(self._size(level), check_rule)
        u, v, *others = self.logits(nodes, tuple(values))
        convex, cache = self.convex_at(sigma), cache or ProxCache(track_minimum=False)
        warm, (points,) = self._warm_start(cache, (u,), (1,), convex=convex)
        modes = self._modes(detail, search, warm, convex)
        scaling = Scaling(1.0, 0.0, 1.0, sigma)  # the nodes are logits already
        per_node = self._dense_sums(block, LogitRule(u, v, nodes.weights), points, scaling, modes, per_node=True)
        self._check_gradient(float(per_node[:, 8].max()), sigma)
        table = NodeTable(u, v, tuple(others), points, per_node)
        return block.multiplicity * self._tabulate(tuple(values), nodes, table, detail > 0 and convex)

    def switch_mass(self, *state: float, level: int) -> float:
        """Share of samples with a lower minimum than the one near the label; it is counted, and a coarse rule has
        enough points.
        """
        if self.convex_at(state[-1]):
            return 0.0
        return self.averages(*state, level=min(level, 1), search=True).switch_mass

    def hats_of(self, averages: DirectionAverages, *state: float, derivative: bool) -> Hats:
        """Return the hats per unit of α; a direction sees Sigmahat l_k + 2 E pull.upsilon/Sigma over mhat (P3)."""
        q, m, *learned, sigma = state
        unit = self.geometry.unit
        bulk = scalar_hats(averages.bulk, self.bulk_label_power, q, m, sigma, unit=unit, derivative=derivative)
        field = bulk.sigma * np.array(learned) + unit * self._direction_averages(averages, derivative) / sigma
        effective = self.equal_eigenvalue_mean @ field / bulk.m
        return Hats(bulk.q, bulk.m, bulk.sigma, tuple(effective.tolist()))

    @cached_property
    def equal_eigenvalue_mean(self) -> Array:
        """Matrix that averages over directions of equal eigenvalues, whose averages differ by sampling error alone."""
        same = np.equal.outer(self.directions.target_eigenvalues, self.directions.target_eigenvalues).astype(float)
        return np.asarray(same / same.sum(axis=1))

    def _fresh_loss(self, values: tuple[float, ...], asked: FreshSamples) -> float:
        """Average a loss over fresh samples (P5); two tokens have formulas."""
        measure, power, coarse, check_rule = asked
        known = self._formula_at(measure, values, power, COARSE_FREQUENCY if coarse else HIGHEST_FREQUENCY)
        return float(self._fresh(measure, values, power, coarse, check_rule).sum()) if known is None else known

    def _fresh_loss_error(self, values: tuple[float, ...], asked: FreshSamples) -> float:
        """Quadrature error of `fresh_loss`, from the spread of independent parts; the formula has a negligible one."""
        measure, power, *_ = asked
        if self._formula_at(measure, values, power, HIGHEST_FREQUENCY) is not None:
            return 0.0
        sums = self._fresh(measure, values, power, False, False)
        return parts_error(PARTS * sums.reshape(PARTS, -1).sum(axis=1))

    @lru_cache(maxsize=64)  # noqa: B019  (the same averages are asked for again with their errors)
    def _formula_at(
        self, measure: Loss, values: tuple[float, ...], power: float | None, highest: float
    ) -> float | None:
        """Return the loss of two tokens, where it needs no sampling (P5.1)."""
        formula = FORMULAS.get(type(measure)) if self.geometry.tokens == 2 else None
        known: float | None = None if formula is None else formula(self._row_law(values, power), highest)
        return known

    @lru_cache(maxsize=64)  # noqa: B019  (the same averages are asked for again with their errors)
    def _fresh(
        self, measure: Loss, values: tuple[float, ...], power: float | None, coarse: bool, check_rule: bool
    ) -> Array:
        """Return the average loss of all rows, one number per slice of the nodes."""
        (block,) = self.geometry.blocks
        nodes = self._nodes(self._size(0) if coarse else self._fresh_size, check_rule)
        u, v, *_ = self.logits(nodes, values, power)
        total = np.zeros(-(-len(u) // block.slice))
        for row in block.select:  # logits of a row, measured from the last
            rule = (*(np.ascontiguousarray(_row(logits, row)) for logits in (u, v)), nodes.weights)
            arguments = (measure.compiled, *rule, Scaling(1.0, 0.0, 1.0))
            total += sum_in_slices(loss_sums, 1, block.slice, len(u), arguments)[:, 0]
        return block.multiplicity * total

    @property
    def noise_error(self) -> float:
        """Test error of an infinitely large map of pure noise."""
        return self.fresh_loss(PURE_NOISE, 0.0, *(0.0,) * self.directions.count, loss="squared")

    @lru_cache(maxsize=64)  # noqa: B019  (channels are frozen and small, and few at a time)
    def at_origin(self, level: int) -> Hats:
        """Return the hats per unit of α at S = 0, with the Sigmahat of a loss without curvature (P6)."""
        found = self.hats_of(self._average(self._origin, Request(level, detail=1)), *self._origin, derivative=True)
        return replace(found, sigma_sectors=found.m)

    def at_origin_error(self, level: int) -> tuple[float, float]:
        """Quadrature errors of qhat and mhat at S = 0."""
        parts = [self.hats_of(part, *self._origin, derivative=True) for part in self.parts(*self._origin, level=level)]
        return parts_error(np.array([part.q for part in parts])), parts_error(np.array([part.m for part in parts]))

    @property
    def _origin(self) -> tuple[float, ...]:
        return ORIGIN_OVERLAP, 0.0, *(0.0,) * self.directions.count, ORIGIN_SIGMA


@final
@dataclass(frozen=True, kw_only=True)
class TiedLeadingOutput(LeadingOutput):
    """The output channel of tied heads with leading directions (P2)."""

    def _nodes(self, size: int, check_rule: bool) -> Nodes:
        """Return 2^size sampled points, before mirroring."""
        return tied_nodes(self.geometry, self.directions.count, size, check_rule)

    def logits(self, nodes: Any, values: tuple[float, ...], power: float | None = None) -> tuple[Array, ...]:
        """Return u* and v, and the parts of both in the bulk."""
        Q, (q, m, *learned) = self.bulk_power_of(power), values
        slope = m / Q if Q > 0.0 else 0.0
        label = np.sqrt(Q) * nodes.label
        own = slope * label + np.sqrt(max(q - slope * m, 0.0)) * nodes.free
        elements = np.array([self.directions.target_eigenvalues, learned])
        target, found = np.tensordot(elements, nodes.upsilon, axes=(1, 1))
        return label + target, own + found, label, own

    def _row_law(self, values: tuple[float, ...], power: float | None) -> RowLaw:
        """Return the law of the logits of a row of two tokens."""
        q, m, *learned = values
        target = np.array(self.directions.target_eigenvalues)
        return TiedRowLaw(target, np.array(learned), self.bulk_power_of(power), q, m)

    def _direction_averages(self, averages: DirectionAverages, derivative: bool) -> Array:
        """Return E pull.upsilon of every direction, which has one form."""
        return np.array(averages.along)

    def _tabulate(self, values: tuple[float, ...], nodes: Any, table: NodeTable, smooth: bool) -> Array:
        """Return the averages by independent parts, corrected by control variates for two tokens (P7)."""
        u, v, (label, own), points, per_node = table
        (block,), means = self.geometry.blocks, self.known_means(values, smooth)
        size, known = 8 + self.directions.count, 0 if means is None else len(means)
        found = np.empty((len(u), size + known))  # values of a node, then its controls
        pull = nodes.weights[:, None] * ((points - v) @ block.metric)
        tabulate(pull, label, own, nodes.upsilon, per_node, found)
        if means is None:
            return by_parts(found)
        controls(u, v, nodes.upsilon, found[:, size:])
        if smooth:
            self.add_stein(found, values)
        return corrected_sums(found, means)

    def sums_per_node(self, rule: LogitRule, sigma: float) -> tuple[Array, Array]:
        """Return the sums of the kernels at each node of a rule of logits, derivative forms included, and the proximal
        points.
        """
        (block,), points, convex = self.geometry.blocks, np.empty(rule.label.shape), self.convex_at(sigma)
        modes = self._modes(Detail.DERIVATIVE, False, Start.KEEP, convex)
        per_node = self._dense_sums(block, rule, points, Scaling(1.0, 0.0, 1.0, sigma), modes, per_node=True)
        self._check_gradient(float(per_node[:, 8].max()), sigma)
        return per_node, points

    def known_means(self, values: tuple[float, ...], smooth: bool) -> Array | None:
        """Return the means of the control variates of two tokens (P7), two Stein combinations included where nothing
        jumps.
        """
        means = control_means(self._row_law(values, None)) if self.geometry.tokens == 2 else None
        return np.append(means, [0.0, 0.0]) if smooth and means is not None else means

    def add_stein(self, table: Array, values: tuple[float, ...]) -> None:
        """Put the two Stein combinations of mean zero into the last columns of a table of nodes."""
        by_label, by_own, trace, cross = len(table) * table[:, [1, 2, 3, 5]].T
        (q, m, *_), Q = values, self.bulk_label_power
        table[:, -2], table[:, -1] = by_own + q * trace - m * cross, by_label + m * trace - Q * cross


@njit
def tabulate(pull, label, own, upsilon, per_node, table):  # type: ignore[no-untyped-def]
    """Fill the integrands of every node: eight of the kernels, with those along label and learner in the bulk alone,
    then along directions.

    ``pull`` is the weight of each node times C^-1 (prox - v), ``per_node`` has the eight numbers of the kernels.
    """
    n = pull.shape[1]
    for node in range(pull.shape[0]):
        for place in range(8):
            table[node, place] = per_node[node, place]
        table[node, 1], table[node, 2] = 0.0, 0.0
        for i in range(n):
            table[node, 1] += pull[node, i] * label[node, i]
            table[node, 2] += pull[node, i] * own[node, i]
        for k in range(upsilon.shape[1]):
            table[node, 8 + k] = 0.0
            for i in range(n):
                table[node, 8 + k] += pull[node, i] * upsilon[node, k, i]


def by_parts(table: Array) -> Array:
    """Sum over the independent parts of the nodes."""
    return np.asarray(table.reshape(PARTS, -1, table.shape[1]).sum(axis=1))


def corrected_sums(table: Array, means: Array) -> Array:
    """Sum over independent parts, less the regression on the deviation of the control variates from their means
    (P7).
    """
    parts, size = by_parts(table), table.shape[1] - len(means)
    missed = parts[:, size:] - len(table) / PARTS * means
    table[:, size:] -= parts[:, size:].sum(axis=0) / len(table)
    moments = table[:, size:].T @ table
    square = moments[:, size:]
    scale = np.sqrt(np.diag(square)) + TINY
    unit = square / np.outer(scale, scale) + RIDGE * np.eye(len(scale))
    slopes = np.linalg.solve(unit, moments[:, :size] / scale[:, None]) / scale[:, None]
    slopes[:, 7] = 0.0  # the switch mass is counted without correction
    return np.asarray(parts[:, :size] - missed @ slopes)


def _row(logits: Array, row: NDArray[np.int64]) -> Array:
    """Return the logits of one row but its last, measured from the last."""
    found = np.where(row >= 0, logits[:, np.maximum(row, 0)], 0.0)
    return found[:, :-1] - found[:, -1:]
