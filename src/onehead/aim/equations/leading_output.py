"""The output channel of logits that are not Gaussian: leading directions of the target exactly, the rest as ever (P2).

Direction k of a sample of T tokens has coordinates x_1..x_T, each N(0, 1), and adds to the logit of tokens a and b its eigenvalue times
(x_a x_b - δ_ab)/sqrt d. In the coordinates u of `onehead.aim.equations.geometry` that is upsilon^k, of covariance C like any other:

    u* = sum_k told_k upsilon^k + r,   v = sum_k strength_k upsilon^k + (m_b/Q_b) r + w,   r ~ N(0, Q_b C),  w ~ N(0, (q_b - m_b²/Q_b) C).

The prox, its kernels and its derivatives are those of any logits.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.aim.equations.averages import Averages, ProxMemory, of_parts, sliced
from onehead.aim.equations.geometry import PARTS, Geometry
from onehead.aim.equations.kernels import loss_sums
from onehead.aim.equations.leading_pair import (
    HIGHEST,
    ROUGH,
    RowLaw,
    control_means,
    controls,
    cross_entropy,
    squared_error,
)
from onehead.aim.equations.nodes import LogitRule
from onehead.aim.equations.told_apart import ToldApart, ToldAverages
from onehead.aim.equations.unknowns import LeadingHats
from onehead.aim.losses import LOSSES, CrossEntropy, Loss, Squared
from onehead.numerics.compiled import njit
from onehead.numerics.gaussian import sobol

__all__ = ["LeadingOutput", "Nodes", "Seen", "by_parts", "corrected_sums", "values_at"]

Array = NDArray[np.float64]

# log2 of the points of the finest rule before mirroring, up to so many coordinates of a sample: fewer where a proximal step costs more
POINTS = ((2, 13), (5, 13), (14, 12), (27, 11), (1000, 10))
FRESH, NUMBERS = (
    15,
    22,
)  # log2 of the points for fresh samples, which need no proximal step, and of the numbers they may fill
ORIGIN = 1e-7  # Sigma at which a proximal step from no map is its gradient
NOTHING = 1e-12  # size of no map
RIDGE, TINY = 1e-9, 1e-300  # of the correlations of controls, and of one that does not vary
PURE_NOISE = 1e10  # size of a map of pure noise that counts as infinite


FORMULAS: dict[type[Loss], Any] = {Squared: squared_error, CrossEntropy: cross_entropy}


class Nodes(NamedTuple):
    """Sampled points: label and free part of the rest, per unit of variance; upsilon of every direction; weights."""

    label: Array
    free: Array
    upsilon: Array  # (nodes, directions, coordinates)
    weights: Array


class Seen(NamedTuple):
    """Logits of label and learner at the nodes, what else is known of them, proximal points, and what the kernels gave at each node."""

    label: Array
    own: Array
    others: tuple[Array, ...]
    points: Array
    each: Array


@lru_cache(maxsize=6)
def nodes_of(geometry: Geometry, count: int, size: int, twin: bool) -> Nodes:
    """Scrambled Sobol points over the rest and ``count`` directions, in independent parts (P7)."""
    (block,), tokens = geometry.blocks, geometry.tokens
    n = block.dim
    rule = sobol(2 * n + tokens * count, log2_points=size, seed=3 if twin else 2, parts=PARTS)
    # a direction first: it is where the points are best, and what varies most
    x = rule.nodes[:, : tokens * count].reshape(-1, count, tokens)
    rest = rule.nodes[:, tokens * count :]
    upsilon = np.empty((len(x), count, n))
    for a, row in enumerate(block.select):
        for b, i in enumerate(row):
            if i >= 0:
                upsilon[:, :, i] = x[:, :, a] * x[:, :, b] - (1.0 if a == b else 0.0) - x[:, :, 0] * x[:, :, 1]
    label, free = (np.ascontiguousarray(part @ block.root.T) for part in (rest[:, :n], rest[:, n:]))
    return Nodes(label, free, upsilon, rule.weights)


@dataclass(frozen=True, kw_only=True)
class LeadingOutput(ToldApart):
    """The output channel with leading directions told apart: states are (q_b, m_b, strengths, Sigma) (P2)."""

    rough = True
    row_law: ClassVar[type[RowLaw]] = RowLaw  # of a row of two tokens

    def shrunk(self, c: float, reach: tuple[float, ...]) -> tuple[float, ...]:
        """c P, given by the power of P in the rest and its eigenvalues in the leading directions (P5)."""
        power, *told = reach
        return c * c * power, c * power, *(c * strength for strength in told)

    def _size(self, level: int) -> int:
        finest = next(size for dim, size in POINTS if self.geometry.blocks[0].dim <= dim)
        return finest - 4 if level == 0 else finest - 3 + level

    @property
    def _fresh_size(self) -> int:
        """As many points for fresh samples as memory is good for, not fewer than a solution has."""
        room = NUMBERS - 1 - int(np.ceil(np.log2(len(self.directions.told) * self.geometry.blocks[0].dim)))
        return max(self._size(3), min(FRESH, room))

    def _nodes(self, size: int, twin: bool) -> Any:
        return nodes_of(self.geometry, len(self.directions.told), size, twin)

    def _logits(self, nodes: Any, pair: tuple[float, ...], power: float | None = None) -> tuple[Array, ...]:
        """u* and v, and of both what the rest contributes."""
        Q, (q, m, *strengths) = self._rest(power), pair
        slope = m / Q if Q > 0.0 else 0.0
        label = np.sqrt(Q) * nodes.label
        own = slope * label + np.sqrt(max(q - slope * m, 0.0)) * nodes.free
        told, learned = np.tensordot(np.array([self.directions.told, strengths]), nodes.upsilon, axes=(1, 1))
        return label + told, own + learned, label, own

    def averages(  # type: ignore[override]
        self,
        *state: float,
        level: int,
        twin: bool = False,
        detail: int = 0,
        search: bool = False,
        memory: ProxMemory | None = None,
    ) -> ToldAverages:
        """Averages over the prox at a state (P2)."""
        pieces = self._pieces(state, level, twin, detail, search, memory)
        found = self._averaged(pieces.sum(axis=0))
        if memory is not None:
            memory.averages, memory.parts = found, self._by_part(pieces) if detail else None
            memory.whole = detail > 0 and self.geometry.tokens == 2  # whose kernels always give tr K² too
        return found

    def parts(self, *state: float, level: int, memory: ProxMemory | None = None) -> list[ToldAverages]:  # type: ignore[override]
        """The same averages, with their derivatives, by each of the independent parts of the points."""
        return self._by_part(self._pieces(state, level, False, 1, False, memory))

    def _by_part(self, pieces: Array) -> list[ToldAverages]:
        return [self._averaged(PARTS * row) for row in pieces]

    @staticmethod
    def _averaged(row: Array) -> ToldAverages:
        return ToldAverages(Averages(*row[:8].tolist()), tuple(row[8:].tolist()))

    def _pieces(
        self, state: tuple[float, ...], level: int, twin: bool, detail: int, search: bool, memory: ProxMemory | None
    ) -> Array:
        """The averages in independent parts, a row for each: eight of the kernels, then those along the directions."""
        *pair, sigma = state
        (block,), nodes = self.geometry.blocks, self._nodes(self._size(level), twin)
        u, v, *others = self._logits(nodes, tuple(pair))
        mode, recall, points = int(search), 1, np.empty(u.shape)
        if self.branch == "global":
            mode = 2
        convex = self.convex_at(sigma)
        if memory is not None:
            again = convex and memory.points is not None
            recall, (points,) = self._recalled(memory, (u,))
            recall = 2 if again else recall  # one minimum, wherever one starts
            mode = 0 if recall == 2 else mode
        if convex:
            mode = 0
        where = (1.0, 0.0, 1.0, sigma)  # the nodes are logits already
        modes = (mode, detail, recall)
        each = self._kernel_sums(block, LogitRule(u, v, nodes.weights), points, where, modes, each=True)
        self._check_gradient(float(each[:, 8].max()), pair[0], pair[1], sigma)
        found = self._tabled(tuple(pair), nodes, Seen(u, v, tuple(others), points, each), detail > 0 and convex)
        return block.multiplicity * found

    def _tabled(self, pair: tuple[float, ...], nodes: Any, seen: Seen, smooth: bool) -> Array:
        """What is averaged, in independent parts, from what the kernels gave; ``smooth``: derivatives are known, and nothing jumps."""
        (u, v, (label, own), points, each), (block,) = seen, self.geometry.blocks
        means = self._control_means(pair, smooth)
        size, known = 8 + nodes.upsilon.shape[1], 0 if means is None else len(means)
        table = np.empty((len(u), size + known))  # values of a node, then its controls
        values_at(points, v, label, own, nodes.upsilon, nodes.weights, block.metric, each, table)
        if means is None:
            return by_parts(table)
        controls(u, v, nodes.upsilon, table[:, size:])
        if smooth:
            self._stein(table, pair)
        return corrected_sums(table, means)

    def _control_means(self, pair: tuple[float, ...], smooth: bool) -> Array | None:
        """Means of the controls that two tokens have (P7); where the prox has one minimum, two Stein combinations of mean zero too."""
        means = control_means(self._law(pair, None)) if self.geometry.tokens == 2 else None
        return np.append(means, [0.0, 0.0]) if smooth and means is not None else means

    def _stein(self, table: Array, pair: tuple[float, ...]) -> None:
        """The two Stein combinations, put into the last columns of a table of nodes."""
        by_label, by_own, trace, cross = len(table) * table[:, [1, 2, 3, 5]].T
        (q, m, *_), Q = pair, self.rest
        table[:, -2], table[:, -1] = by_own + q * trace - m * cross, by_label + m * trace - Q * cross

    def switch_mass(self, *state: float, level: int) -> float:
        """Share of samples with a lower minimum than the one near the label; it is counted, and the coarsest rule has enough points."""
        if self.convex_at(state[-1]):
            return 0.0
        return self.averages(*state, level=min(level, 1), search=True).switch_mass

    def hats_of(self, averages: ToldAverages, *state: float, derivative: bool) -> LeadingHats:  # type: ignore[override]
        """Those of the rest in the Stein or in the derivative form; a direction sees Sigmahat strength + 2 E pull.upsilon/Sigma (P3)."""
        plain, Q, unit = averages.plain, self.rest, self.geometry.unit
        q, m, *strengths, sigma = state
        q_hat = unit * plain.distance / sigma**2
        if derivative:
            m_hat, sigma_hat = unit * plain.cross / sigma, unit * plain.trace / sigma
        else:
            area = sigma * (Q * q - m * m)
            m_hat = unit * (q * plain.along_label - m * plain.along_own) / area
            sigma_hat = -unit * (Q * plain.along_own - m * plain.along_label) / area
        field = sigma_hat * np.array(strengths) + unit * np.array(averages.along) / sigma
        return LeadingHats(q_hat, m_hat, sigma_hat, tuple((self.alike @ field / m_hat).tolist()))

    @cached_property
    def alike(self) -> Array:
        """Mean over directions whose eigenvalues are equal: they are seen alike, but for the points that were sampled."""
        same = np.equal.outer(self.directions.told, self.directions.told).astype(float)
        return np.asarray(same / same.sum(axis=1))

    def fresh_loss(
        self,
        *pair: float,
        coarse: bool = False,
        twin: bool = False,
        power: float | None = None,
        loss: str | None = None,
    ) -> float:
        """E loss on fresh samples (P5); ``power`` is that of labels without noise. Two tokens have formulas."""
        yardstick = self.loss if loss is None else LOSSES[loss]
        known = self._formula_at(yardstick, pair, power, ROUGH if coarse else HIGHEST)
        return float(self._fresh(yardstick, pair, power, coarse, twin).sum()) if known is None else known

    def fresh_loss_error(self, *pair: float, power: float | None = None, loss: str | None = None) -> float:
        """Error of an average over fresh samples, from the spread of its independent parts; the formula has none to speak of."""
        yardstick = self.loss if loss is None else LOSSES[loss]
        if self._formula_at(yardstick, pair, power, HIGHEST) is not None:
            return 0.0
        sums = self._fresh(yardstick, pair, power, False, False)
        return of_parts(PARTS * sums.reshape(PARTS, -1).sum(axis=1))

    @lru_cache(maxsize=64)  # noqa: B019  (the same averages are asked for with their errors)
    def _formula_at(
        self, yardstick: Loss, pair: tuple[float, ...], power: float | None, highest: float
    ) -> float | None:
        """The loss of two tokens, where it needs no sampling (P5.1)."""
        formula = FORMULAS.get(type(yardstick)) if self.geometry.tokens == 2 else None
        known: float | None = None if formula is None else formula(self._law(pair, power), highest)
        return known

    def _law(self, pair: tuple[float, ...], power: float | None) -> RowLaw:
        """Logits of a row of two tokens."""
        q, m, *strengths = pair
        return self.row_law(np.array(self.directions.told), np.array(strengths), self._rest(power), q, m)

    @lru_cache(maxsize=64)  # noqa: B019  (the same averages are asked for with their errors)
    def _fresh(self, yardstick: Loss, pair: tuple[float, ...], power: float | None, coarse: bool, twin: bool) -> Array:
        """Average loss of all rows, a number per slice of the nodes."""
        (block,) = self.geometry.blocks
        nodes = self._nodes(self._size(0) if coarse else self._fresh_size, twin)
        u, v, *_ = self._logits(nodes, pair, power)
        total = np.zeros(-(-len(u) // block.slice))
        for row in block.select:  # logits of a row, measured from the last
            rule = (*(np.ascontiguousarray(_row(logits, row)) for logits in (u, v)), nodes.weights)
            total += sliced(loss_sums, 1, block.slice, (yardstick.compiled,), rule, (1.0, 0.0, 1.0))[:, 0]
        return block.multiplicity * total

    @property
    def noise_error(self) -> float:
        """Test error of an infinitely large map of pure noise."""
        return self.fresh_loss(PURE_NOISE, 0.0, *(0.0,) * len(self.directions.told), loss="squared")

    @lru_cache(maxsize=64)  # noqa: B019  (frozen and small: the same few channels are asked again and again)
    def at_origin(self, level: int) -> LeadingHats:  # type: ignore[override]
        """Hats per unit of α at S = 0, Sigmahat being that of a loss without curvature (P6)."""
        found = self.hats_of(self.averages(*self._origin, level=level, detail=1), *self._origin, derivative=True)
        return found._replace(sigma=found.m)

    def at_origin_error(self, level: int) -> tuple[float, float]:
        """Errors of qhat and mhat there."""
        parts = [self.hats_of(part, *self._origin, derivative=True) for part in self.parts(*self._origin, level=level)]
        return of_parts(np.array([part.q for part in parts])), of_parts(np.array([part.m for part in parts]))

    @property
    def _origin(self) -> tuple[float, ...]:
        return NOTHING, 0.0, *(0.0,) * len(self.directions.told), ORIGIN


@njit(cache=True, nogil=True, error_model="numpy")
def values_at(points, v, label, own, upsilon, weights, metric, each, table):  # type: ignore[no-untyped-def]
    """What is averaged at every node: eight numbers of the kernels, those along label and learner by the rest alone, then along directions."""
    n = v.shape[1]
    pull = np.empty(n)
    for node in range(v.shape[0]):
        for i in range(n):
            pull[i] = 0.0
            for j in range(n):
                pull[i] += metric[i, j] * (points[node, j] - v[node, j])
            pull[i] *= weights[node]
        for place in range(8):
            table[node, place] = each[node, place]
        table[node, 1], table[node, 2] = 0.0, 0.0
        for i in range(n):
            table[node, 1] += pull[i] * label[node, i]
            table[node, 2] += pull[i] * own[node, i]
        for k in range(upsilon.shape[1]):
            table[node, 8 + k] = 0.0
            for i in range(n):
                table[node, 8 + k] += pull[i] * upsilon[node, k, i]


def by_parts(table: Array) -> Array:
    """Sums over the independent parts of the nodes."""
    return np.asarray(table.reshape(PARTS, -1, table.shape[1]).sum(axis=1))


def corrected_sums(table: Array, means: Array) -> Array:
    """Sums of values over independent parts, less what regression on the controls says that the points miss of their means (P7)."""
    parts, size = by_parts(table), table.shape[1] - len(means)
    missed = parts[:, size:] - len(table) / PARTS * means
    table[:, size:] -= parts[:, size:].sum(axis=0) / len(table)
    moments = table[:, size:].T @ table
    square = moments[:, size:]
    scale = np.sqrt(np.diag(square)) + TINY
    unit = square / np.outer(scale, scale) + RIDGE * np.eye(len(scale))
    slopes = np.linalg.solve(unit, moments[:, :size] / scale[:, None]) / scale[:, None]
    slopes[:, 7] = 0.0  # the mass of other minima is counted as it is
    return np.asarray(parts[:, :size] - missed @ slopes)


def _row(logits: Array, row: NDArray[np.int64]) -> Array:
    """Logits of one row but its last, measured from that."""
    whole = np.where(row >= 0, logits[:, np.maximum(row, 0)], 0.0)
    return whole[:, :-1] - whole[:, -1:]
