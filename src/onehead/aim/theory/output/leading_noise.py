"""Noise of the entries between a leading direction and the bulk of the map, for two tied tokens (P10).

A large coordinate of a token in direction k saturates the softmax, so that the data determine S_kj less well than other
entries. Their v_k = sum over j != k of S_kj² is seen through a 2 x 2 matrix of the coordinates x of a sample in that
direction,

    U_11 = (2x_1 - x_2)² + x_1²,   U_22 = (2x_2 - x_1)² + x_2²,   U_12 = -(2x_1 - x_2) x_2 - x_1 (2x_2 - x_1),   E U =
    2C,

and has hats of its own. Rescaling row and column k of the map gives all entries the same noise again, for which the
input channel is known.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple, cast

import numpy as np
from numba import float64, int64, types
from numpy.typing import NDArray

from onehead.aim.kernels.two_tokens import sigmoid
from onehead.aim.logits.blocks import PARTS
from onehead.aim.logits.geometry import Geometry
from onehead.aim.logits.quadrature import LogitRule
from onehead.aim.theory.input.leading import EQUAL_POWERS
from onehead.aim.theory.order_parameters import Hats, Overlaps
from onehead.aim.theory.output.averages import Averages
from onehead.aim.theory.output.explicit_directions import DirectionAverages
from onehead.aim.theory.output.leading import Nodes, TiedLeadingOutput, corrected_sums, tabulate
from onehead.aim.theory.output.leading_fresh_tied import controls
from onehead.aim.theory.state_evolution import StateEvolution
from onehead.numerics.gaussian import sobol
from onehead.numerics.jit import njit
from onehead.numerics.prox import PAIR

Array = NDArray[np.float64]

SEED = 2  # of the sampled points, those of `TiedLeadingOutput`, so that differences do not come from the points
MINIMUM_BULK = 1e-3  # share of the bulk of q that remains when the noise of the directions is taken off
MAXIMUM_ITERATIONS = 60  # for the position of an outlier; each iteration reduces the error about tenfold
_vector, _matrix, _tensor = (types.Array(float64, dimensions, "C") for dimensions in (1, 2, 3))


class DirectionNoiseHats(NamedTuple):
    """Hats of the bulk; for every direction the average pull along it, and its hats q and Sigma relative to those of
    the bulk.
    """

    bulk: Hats
    along: Array
    q_ratio: Array
    sigma_ratio: Array


class PairNodes(NamedTuple):
    """Nodes of the average over one sample, a row each: proximal points, label logits, forces C^-1 (u - v), whitened
    noise V^-1 w, and the weight.
    """

    points: Array
    label: Array
    pull: Array
    whitened: Array
    weights: Array


_nodes = types.NamedTuple((_matrix, _matrix, _matrix, _matrix, _vector), PairNodes)


class DirectionNoiseOverlaps(NamedTuple):
    """Order parameters of a map whose leading directions have noise of their own (P10).

    Attributes
    ----------
    overlaps : Overlaps
        Order parameters in the leading directions and in the bulk.
    blocks : array
        v_k/d of every direction, an entry between two leading directions being counted once.
    scatter : array
        v_k/d of every direction, with all its entries.
    stretch : array
        Rows and columns k of a map with equal noise are multiplied by the root of it.
    spread : array
        Variance of the noise in row k relative to other entries, before that.
    bulk_exhausted : bool
        Whether almost nothing was left for the bulk.
    """

    overlaps: Overlaps
    blocks: Array
    scatter: Array
    stretch: Array
    spread: Array
    bulk_exhausted: bool

    @property
    def q(self) -> float:
        """Tr S²/d: an entry of a block occurs twice in a symmetric map."""
        return self.overlaps.q + 2.0 * float(self.blocks.sum())

    @property
    def coordinates(self) -> Array:
        """Numbers that the solver iterates on: those of P7, and logarithms of the blocks."""
        return np.concatenate([self.overlaps.coordinates, np.log(self.blocks)])


class Eigenvector(NamedTuple):
    """An outlying eigenvalue of the map, and the squared overlap of its eigenvector with the leading direction it comes
    from.
    """

    position: float
    overlap: float


class Points(NamedTuple):
    """Sampled points, and U_11, U_22, U_12 of every direction: (points, directions, 3)."""

    nodes: Nodes
    block: Array


@lru_cache(maxsize=2)
def points_of(geometry: Geometry, count: int, size: int) -> Points:
    """Return scrambled Sobol points over ``count`` directions and the bulk, in independent parts."""
    rule = sobol(2 * count + 4, log2_points=size, seed=SEED, parts=PARTS)
    x, root = rule.nodes[:, : 2 * count].reshape(-1, count, 2), geometry.blocks[0].root
    one, other, both = x[:, :, 0] ** 2, x[:, :, 1] ** 2, x[:, :, 0] * x[:, :, 1]
    upsilon = np.stack([one - 1.0 - both, other - 1.0 - both], axis=-1)
    block = np.stack([5.0 * one - 4.0 * both + other, one - 4.0 * both + 5.0 * other, one - 4.0 * both + other], -1)
    label, free = (np.ascontiguousarray(part @ root.T) for part in np.split(rule.nodes[:, 2 * count :], 2, axis=1))
    return Points(Nodes(label, free, upsilon, rule.weights), block)


def direction_noise_hats(
    output: TiedLeadingOutput, state: tuple[float, ...], blocks: Array, size: int
) -> list[DirectionNoiseHats]:
    """Return the hats per unit of α, from all of 2^size points and then from each of their independent parts (P10).

    Given the directions of a sample, w has covariance (q_b - m_b²/Q_b) C + sum_k (v_k/d) U^k.
    """
    pieces = _pieces(output, state, blocks, size)
    return [_hats_of(output, row, state) for row in (pieces.sum(axis=0), *PARTS * pieces)]


def _hats_of(output: TiedLeadingOutput, row: Array, state: tuple[float, ...]) -> DirectionNoiseHats:
    """Return the hats from averages; those of a block have U/2 in the place of C (P10)."""
    *values, sigma = state
    along, forces, responses, by_noise = row[8:].reshape(4, -1) @ output.equal_eigenvalue_mean.T
    # derivatives are the more accurate forms, except where proximal points may jump (2.6)
    derivative = output.convex_at(sigma) or output.nearly_aligned(*values)
    averages = DirectionAverages(Averages(*row[:8].tolist()), tuple(along.tolist()))
    hats, unit = output.hats_of(averages, *state, derivative=derivative), output.geometry.unit
    q_ratio = 0.5 * unit * forces / sigma**2 / hats.q
    sigma_ratio = 0.5 * unit * (responses if derivative else by_noise) / sigma / hats.sigma
    return DirectionNoiseHats(replace(hats, effective=()), unit * along / sigma, q_ratio, sigma_ratio)


def _pieces(output: TiedLeadingOutput, state: tuple[float, ...], blocks: Array, size: int) -> Array:
    """Return averages by independent parts: eight of the kernels, pulls along directions, forces and responses of
    blocks.
    """
    *values, sigma = state
    (block,), count, convex = output.geometry.blocks, len(blocks), output.convex_at(sigma)
    at, U = points_of(output.geometry, count, size)
    u, without_blocks, label, own = output.logits(at, tuple(values))
    free = max(values[0] - values[1] ** 2 / output.bulk_label_power, 0.0)
    noise, whitened = _noise(at.free, U, free, blocks, block.covariance)
    v = without_blocks + noise - np.sqrt(free) * at.free
    by_own = own - np.sqrt(free) * at.free + free * whitened @ block.covariance  # the combination in Stein's lemma
    per_node, points = output.sums_per_node(LogitRule(u, v, at.weights), sigma)
    means, wide = output.known_means(tuple(values), convex), 8 + 4 * count
    table = np.empty((len(u), wide + (0 if means is None else len(means))))
    pull = (points - v) @ block.metric
    tabulate(at.weights[:, None] * pull, label, by_own, at.upsilon, per_node, table)
    loss = output.loss.compiled_pair
    nodes = PairNodes(points, u, pull, whitened, at.weights)
    block_values(loss, nodes, U, block.metric, sigma, 8 + count, table)
    if means is None:
        return np.asarray(table.reshape(PARTS, -1, table.shape[1]).sum(axis=1))
    # control variates of logits without blocks, whose means are known and which differ little
    controls(u, without_blocks, at.upsilon, table[:, wide:])
    if convex:
        output.add_stein(table, tuple(values))
    return corrected_sums(table, means)


def _noise(nodes: Array, block: Array, free: float, blocks: Array, covariance: Array) -> tuple[Array, Array]:
    """Return w of covariance V = free C + sum_k blocks_k U^k, and V^-1 w.

    It is made from the independent part by Cholesky roots, so that without blocks it is sqrt(free) times that.
    """
    a, b, c = np.tensordot(blocks, block, axes=(0, 1)).T + free * covariance[[0, 1, 0], [0, 1, 1]][:, None]
    normal = np.linalg.solve(np.linalg.cholesky(covariance), nodes.T)
    first = np.sqrt(a)
    across = c / first
    second = np.sqrt(b - across**2)
    back = normal[1] / second
    w = np.stack([first * normal[0], across * normal[0] + second * normal[1]], axis=-1)
    return w, np.stack([(normal[0] - across * back) / first, back], axis=-1)


@njit(types.void(PAIR, _nodes, _tensor, _matrix, float64, int64, _matrix))
def block_values(pair, nodes, block, metric, sigma, first, table):  # type: ignore[no-untyped-def]
    """Fill for every point and direction pull'U pull, tr U C^-1 K, and the Stein form of the latter, - pull'U V^-1 w
    (P10).
    """
    points, u, pull, whitened, weights = nodes
    p00, p01, p11 = metric[0, 0] / sigma, metric[0, 1] / sigma, metric[1, 1] / sigma
    count = block.shape[1]
    for node in range(points.shape[0]):
        y0, c0 = sigmoid(u[node, 0])
        y1, c1 = sigmoid(u[node, 1])
        l0, l1 = pair(points[node, 0], y0, c0)[2], pair(points[node, 1], y1, c1)[2]
        h0, h1 = p00 + l0, p11 + l1
        share = sigma / max(h0 * h1 - p01 * p01, 1e-9 * p00 * p11)  # the floor of `pair_sums`
        # C^-1 K = P (P/Sigma + H)^-1 H, H = diag(l0, l1), is symmetric
        g00 = share * (p00 * h1 - p01 * p01) * l0
        g11 = share * (p11 * h0 - p01 * p01) * l1
        g01 = share * p01 * l0 * l1
        a, b, e, f = pull[node, 0], pull[node, 1], whitened[node, 0], whitened[node, 1]
        for k in range(count):
            U0, U1, U2 = block[node, k, 0], block[node, k, 1], block[node, k, 2]
            table[node, first + k] = weights[node] * (U0 * a * a + 2.0 * U2 * a * b + U1 * b * b)
            table[node, first + count + k] = weights[node] * (U0 * g00 + 2.0 * U2 * g01 + U1 * g11)
            table[node, first + 2 * count + k] = -weights[node] * (U0 * a * e + U2 * (a * f + b * e) + U1 * b * f)


@dataclass(frozen=True)
class DirectionNoiseEvolution:
    """The equations of leading directions with noise of their own, for two tied tokens: overlaps -> hats -> overlaps
    (P10).

    ``problem`` are the equations without it, of a `TiedLeadingOutput`.
    """

    problem: StateEvolution
    alpha: float

    @property
    def _length(self) -> float:
        """sqrt d."""
        return self.problem.directions.length

    def step(self, coordinates: Array, size: int) -> list[DirectionNoiseOverlaps]:
        """Apply the equations once on 2^size points, by all of them and by each of their independent parts."""
        count = self.problem.directions.count
        output = cast(TiedLeadingOutput, self.problem.output)  # the only channel that these equations are derived for
        overlaps, blocks = self.problem.zero.at(coordinates[:-count]), np.exp(coordinates[-count:])
        found = direction_noise_hats(output, overlaps.state, blocks, size)
        return [self._overlaps(hats, np.array(overlaps.learned)) for hats in found]

    def start(self, overlaps: Overlaps) -> DirectionNoiseOverlaps:
        """Return the solution of the equations without noise of their own, every entry having the same noise."""
        one = np.ones(self.problem.directions.count)
        return self._split(overlaps, one, one)

    def _overlaps(self, hats: DirectionNoiseHats, learned: Array) -> DirectionNoiseOverlaps:
        """Return the overlaps: rescaled by delta_k² = Sigmahat/Sigmahat_k, directions see an isotropic map with a
        rescaled threshold (P10).
        """
        bulk, stretch, known = hats.bulk.times(self.alpha), 1.0 / hats.sigma_ratio, self.problem.directions
        where = self.problem.input.map_at(bulk)
        pulled = (bulk.sigma * learned / stretch + self.alpha * stretch * hats.along) / bulk.m
        field, spread = pulled + (1.0 - stretch) * where.eps / self._length, stretch * hats.q_ratio
        effective = field + (spread - 1.0) * where.s * self._transform(where.s, field) / self._length
        seen = replace(bulk, effective=tuple(effective.tolist()))
        channel = known.channel_at(self.problem.input, seen.effective)
        return self._split(known.split(channel, seen, channel.overlaps(bulk)), stretch, spread)

    def _transform(self, s: float, field: Array) -> Array:
        """Return Re g averaged over the eigenvalues of the blurred spectrum that come from each leading direction."""
        law = self.problem.directions.channel_at(self.problem.input, tuple(field.tolist())).law(s)
        nodes = law.nodes()
        return np.asarray(law.eigenvector_overlaps(-np.inf, self._length * field) @ (nodes.mass * nodes.hilbert))

    def _split(self, overlaps: Overlaps, stretch: Array, spread: Array) -> DirectionNoiseOverlaps:
        """Take the blocks off the bulk of a rescaled map, v_k + theta_k² = c² ∫ rho p_k (x - eps)_+², and scale
        everything back.
        """
        y, share = self._shares(overlaps)
        learned, (q_b, m_b, _) = np.array(overlaps.learned), overlaps.sectors[:, 0].tolist()
        scatter = share @ y**2 / self._length**2 - learned**2
        blocks = scatter - 0.5 * np.minimum(self._between(overlaps).sum(axis=1), scatter)
        left = q_b - 2.0 * float(blocks.sum())
        bulk = max(left, MINIMUM_BULK * q_b)
        largest = float(np.sqrt(bulk * overlaps.directions.bulk_power))
        own = replace(
            overlaps,
            q_sectors=bulk,
            m_sectors=float(np.clip(m_b, -largest, largest)),
            learned=tuple((stretch * learned).tolist()),
        )
        scale, exhausted = stretch * spread, bulk > left or abs(m_b) > largest
        return DirectionNoiseOverlaps(own, scale * blocks, scale * scatter, stretch, spread, exhausted)

    def _between(self, overlaps: Overlaps) -> Array:
        """Return S_kl²/d between leading directions of a rescaled map: noise s/d times a squared difference
        quotient.
        """
        learned, effective = np.array(overlaps.learned), np.array(overlaps.effective)
        gap = np.subtract.outer(effective, effective)
        same = np.abs(gap) < EQUAL_POWERS * np.abs(effective).max()
        quotient = np.where(same, overlaps.map.slope, np.subtract.outer(learned, learned) / np.where(same, 1.0, gap))
        np.fill_diagonal(quotient, 0.0)
        return np.asarray(overlaps.map.s * quotient**2 / self._length**4)

    def _shares(self, overlaps: Overlaps) -> tuple[Array, Array]:
        """Return the nonzero eigenvalues of a rescaled map, and the share of every leading direction in each."""
        where = overlaps.map
        law = self.problem.channel_at(overlaps).law(where.s)
        nodes, places = law.nodes(where.cut), self._length * np.array(overlaps.effective)
        return where.slope * (nodes.x - where.eps), law.eigenvector_overlaps(where.cut, places) * nodes.mass

    def eigenvectors(self, found: DirectionNoiseOverlaps) -> list[Eigenvector | None]:
        """Return the eigenvector of every leading direction; None if it is not alone in an interval of the spectrum
        (P10.1).
        """
        overlaps, d = found.overlaps, self._length**2
        channel, where = self.problem.channel_at(overlaps), overlaps.map
        law, (y, shares) = channel.law(where.s), self._shares(overlaps)
        assert channel.target.values is not None  # leading directions are eigenvalues of a list
        values = channel.scale * channel.target.values
        answer: list[Eigenvector | None] = []
        for k, place in enumerate(self._length * np.array(overlaps.effective)):
            others = np.delete(values, np.argmin(np.abs(values - place)))
            x = place + where.s * float(np.sum(1.0 / (place - others))) / d
            containing = [edge for edge in law.edges if edge[0] <= x <= edge[1]]
            alone = containing and round(d * (law.mass_above(containing[0][0]) - law.mass_above(containing[0][1]))) == 1
            if not alone or x <= where.cut:
                answer.append(None)
                continue
            share = 1.0 - found.spread[k] * where.s * float(np.sum(1.0 / (place - others) ** 2)) / d
            low, high = (where.slope * (edge - where.eps) for edge in containing[0])
            bulk = (y < low) | (y > high)
            top, mass = where.slope * (x - where.eps), found.spread[k] * shares[k, bulk]
            answer.append(_rescaled(top, share, y[bulk], mass, float(found.stretch[k])))
        return answer


def _rescaled(top: float, share: float, y: Array, mass: Array, stretch: float) -> Eigenvector:
    """Return the outlying eigenvector of D S D, where D multiplies row e by the root of ``stretch`` (P10.1).

    D S D has the eigenvalues of S + (stretch - 1) a a', a = S^(1/2) e: a perturbation of rank one. ``top`` is the
    outlier of S and ``share`` its squared overlap with e; ``y`` and ``mass`` are the other eigenvalues of S and their
    shares.
    """
    excess, position = stretch - 1.0, top
    for _ in range(MAXIMUM_ITERATIONS):
        last = position
        position = top + excess * top * share / (1.0 - excess * float(mass @ (y / (position - y))))
        if abs(position - last) <= 1e-13 * top:
            break
    pole = (1.0 - excess * float(mass @ (y / (position - y)))) ** 2 / (top * share)
    size = pole + excess**2 * float(mass @ (y / (position - y) ** 2))
    return Eigenvector(float(position), float(stretch / (position * size)))
