"""What lies between a leading direction and the rest of the map, of two tokens: noise that is not that of other entries (P10).

A large coordinate of a token in direction k saturates the softmax, so that the data say less of S_kj than of other entries. Their
v_k = sum over j != k of S_kj² is seen through a 2 x 2 matrix of the coordinates x of a sample in that direction,

    U_11 = (2x_1 - x_2)² + x_1²,   U_22 = (2x_2 - x_1)² + x_2²,   U_12 = -(2x_1 - x_2) x_2 - x_1 (2x_2 - x_1),   E U = 2C,

and has hats of its own. Rescaling row and column k of the map makes all entries alike again, for which the input channel is known.
"""

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import float64, int64, types
from numpy.typing import NDArray

from onehead.aim.equations.averages import Averages
from onehead.aim.equations.geometry import PARTS, Geometry
from onehead.aim.equations.kernels import sigmoid
from onehead.aim.equations.leading import ALIKE, led, seen_by
from onehead.aim.equations.leading_evolution import LeadingEvolution
from onehead.aim.equations.leading_output import LeadingOutput, Nodes, corrected_sums, values_at
from onehead.aim.equations.leading_pair import controls
from onehead.aim.equations.nodes import LogitRule
from onehead.aim.equations.told_apart import ToldAverages
from onehead.aim.equations.unknowns import Hats, LeadingOverlaps
from onehead.numerics.compiled import njit
from onehead.numerics.gaussian import sobol
from onehead.numerics.prox import PAIR

__all__ = ["BlockEvolution", "BlockOutput", "BlockOverlaps", "Eigenvector"]

Array = NDArray[np.float64]

SEED = 2  # of the points, those of `LeadingOutput`: what differs from it does not come from them
LEAST = 1e-3  # of what a prediction leaves to the rest of q, which is left without blocks at least
TURNS = 60  # of an outlier's place, each of which brings it some ten times closer
_vector, _matrix, _tensor = (types.Array(float64, dimensions, "C") for dimensions in (1, 2, 3))


class BlockHats(NamedTuple):
    """Hats of the rest; of every direction the pull along it over sqrt d, and the hats q and Sigma of its block over those of the rest."""

    rest: Hats
    along: Array
    q_ratio: Array
    sigma_ratio: Array


class BlockOverlaps(NamedTuple):
    """Overlaps in leading directions and in the rest, and v_k/d of every direction, ``scatter`` (P10).

    ``blocks`` is the same with every S_kl between two leading directions counted once, and not in the row of both. The map is one in
    which all entries are alike, whose rows and columns k are then multiplied by the root of ``stretch``; their noise has ``spread`` times
    the variance of others before that. ``cramped`` says that next to nothing was left for the rest.
    """

    overlaps: LeadingOverlaps
    blocks: Array
    scatter: Array
    stretch: Array
    spread: Array
    cramped: bool

    @property
    def q(self) -> float:
        """Tr S²/d: a block stands twice in a symmetric map."""
        return self.overlaps.q + 2.0 * float(self.blocks.sum())

    @property
    def logs(self) -> Array:
        """The numbers that are solved for: those of P7, and logarithms of the blocks."""
        return np.concatenate([self.overlaps.logs, np.log(self.blocks)])


class Eigenvector(NamedTuple):
    """An eigenvalue of the map that stands apart, and the squared overlap of its eigenvector with the leading direction it comes from."""

    position: float
    overlap: float


class Points(NamedTuple):
    """Sampled points, and U_11, U_22, U_12 of every direction: (points, directions, 3)."""

    plain: Nodes
    block: Array


@lru_cache(maxsize=2)
def points_of(geometry: Geometry, count: int, size: int) -> Points:
    """Scrambled Sobol points over ``count`` directions and the rest, in independent parts."""
    rule = sobol(2 * count + 4, log2_points=size, seed=SEED, parts=PARTS)
    x, root = rule.nodes[:, : 2 * count].reshape(-1, count, 2), geometry.blocks[0].root
    one, other, both = x[:, :, 0] ** 2, x[:, :, 1] ** 2, x[:, :, 0] * x[:, :, 1]
    upsilon = np.stack([one - 1.0 - both, other - 1.0 - both], axis=-1)
    block = np.stack([5.0 * one - 4.0 * both + other, one - 4.0 * both + 5.0 * other, one - 4.0 * both + other], -1)
    label, free = (np.ascontiguousarray(part @ root.T) for part in np.split(rule.nodes[:, 2 * count :], 2, axis=1))
    return Points(Nodes(label, free, upsilon, rule.weights), block)


@dataclass(frozen=True, kw_only=True)
class BlockOutput(LeadingOutput):
    """The output channel with blocks: given the directions of a sample, w has covariance (q_b - m_b²/Q_b) C + sum_k (v_k/d) U^k (P10)."""

    @classmethod
    def of(cls, plain: LeadingOutput) -> "BlockOutput":
        """The same channel with blocks."""
        return cls(**{field.name: getattr(plain, field.name) for field in fields(plain)})

    def block_hats(self, state: tuple[float, ...], blocks: Array, size: int) -> list[BlockHats]:
        """Hats per unit of α, from all of 2^size points and then from each of their independent parts."""
        pieces = self._block_pieces(state, blocks, size)
        return [self._block_hats_of(row, state) for row in (pieces.sum(axis=0), *PARTS * pieces)]

    def _block_hats_of(self, row: Array, state: tuple[float, ...]) -> BlockHats:
        """Those of the rest are as ever; those of a block have U/2 in the place of C (P10)."""
        *pair, sigma = state
        along, forces, answers, by_noise = row[8:].reshape(4, -1) @ self.alike.T
        # derivatives are the better forms, but where proximal points may jump (2.6)
        derivative = self.convex_at(sigma) or self.narrow_angle(*pair)
        plain = ToldAverages(Averages(*row[:8].tolist()), tuple(along.tolist()))
        rest, unit = self.hats_of(plain, *state, derivative=derivative), self.geometry.unit
        q_ratio = 0.5 * unit * forces / sigma**2 / rest.q
        sigma_ratio = 0.5 * unit * (answers if derivative else by_noise) / sigma / rest.sigma
        return BlockHats(Hats(*rest[:3]), unit * along / sigma, q_ratio, sigma_ratio)

    def _block_pieces(self, state: tuple[float, ...], blocks: Array, size: int) -> Array:
        """Averages in independent parts, a row for each: eight of the kernels; pulls along directions; forces and answers of blocks."""
        *pair, sigma = state
        (block,), count, convex = self.geometry.blocks, len(blocks), self.convex_at(sigma)
        at, U = points_of(self.geometry, count, size)
        u, plain, label, own = self._logits(at, tuple(pair))
        free = max(pair[0] - pair[1] ** 2 / self.rest, 0.0)
        noise, turned = _noise(at.free, U, free, blocks, block.covariance)
        v = plain + noise - np.sqrt(free) * at.free
        by_own = own - np.sqrt(free) * at.free + free * turned @ block.covariance  # what Stein's lemma asks for
        points, mode = np.empty(u.shape), 2 if self.branch == "global" and not convex else 0
        rule, where = LogitRule(u, v, at.weights), (1.0, 0.0, 1.0, sigma)
        each = self._kernel_sums(block, rule, points, where, (mode, 1, 1), each=True)
        self._check_gradient(float(each[:, 8].max()), pair[0], pair[1], sigma)
        means, wide = self._control_means(tuple(pair), convex), 8 + 4 * count
        table = np.empty((len(u), wide + (0 if means is None else len(means))))
        values_at(points, v, label, by_own, at.upsilon, at.weights, block.metric, each, table)
        pull = (points - v) @ block.metric
        loss = self.loss.compiled_pair
        block_values(loss, points, u, pull, turned, U, at.weights, block.metric, sigma, 8 + count, table)
        if means is None:
            return np.asarray(table.reshape(PARTS, -1, table.shape[1]).sum(axis=1))
        controls(
            u, plain, at.upsilon, table[:, wide:]
        )  # of logits without blocks: almost these, and their means are known
        if convex:
            self._stein(table, tuple(pair))
        return corrected_sums(table, means)


def _noise(nodes: Array, block: Array, free: float, blocks: Array, covariance: Array) -> tuple[Array, Array]:
    """w of covariance V = free C + sum_k blocks_k U^k, and V^-1 w.

    It is turned from the free part by Cholesky roots, so that without blocks it is sqrt(free) times that.
    """
    a, b, c = np.tensordot(blocks, block, axes=(0, 1)).T + free * covariance[[0, 1, 0], [0, 1, 1]][:, None]
    normal = np.linalg.solve(np.linalg.cholesky(covariance), nodes.T)
    first = np.sqrt(a)
    across = c / first
    second = np.sqrt(b - across**2)
    back = normal[1] / second
    w = np.stack([first * normal[0], across * normal[0] + second * normal[1]], axis=-1)
    return w, np.stack([(normal[0] - across * back) / first, back], axis=-1)


@njit(
    types.void(PAIR, _matrix, _matrix, _matrix, _matrix, _tensor, _vector, _matrix, float64, int64, _matrix),
    cache=True,
    nogil=True,
    error_model="numpy",
)
def block_values(pair, points, u, pull, turned, block, weights, metric, sigma, first, table):  # type: ignore[no-untyped-def]
    """At every point and for every direction pull'U pull, tr U C^-1 K, and the Stein form of that, - pull'U V^-1 w (P10)."""
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
        a, b, e, f = pull[node, 0], pull[node, 1], turned[node, 0], turned[node, 1]
        for k in range(count):
            U0, U1, U2 = block[node, k, 0], block[node, k, 1], block[node, k, 2]
            table[node, first + k] = weights[node] * (U0 * a * a + 2.0 * U2 * a * b + U1 * b * b)
            table[node, first + count + k] = weights[node] * (U0 * g00 + 2.0 * U2 * g01 + U1 * g11)
            table[node, first + 2 * count + k] = -weights[node] * (U0 * a * e + U2 * (a * f + b * e) + U1 * b * f)


@dataclass(frozen=True)
class BlockEvolution:
    """The equations of leading directions with their blocks, of two tokens: overlaps -> hats -> overlaps (P10)."""

    plain: LeadingEvolution
    alpha: float

    def turn(self, y: Array, size: int) -> list[BlockOverlaps]:
        """One turn on 2^size points, by all of them and by each of their independent parts."""
        count = self.plain.leading
        state, blocks = tuple(self.plain.state_of(y[:-count])), np.exp(y[-count:])
        found = BlockOutput.of(self.plain.output).block_hats(state, blocks, size)
        return [self._overlaps(hats, np.array(state[2:-1])) for hats in found]

    def start(self, overlaps: LeadingOverlaps) -> BlockOverlaps:
        """Where the equations without blocks end, the noise of a block being that of any other entry."""
        one = np.ones(self.plain.leading)
        return self._told_apart(overlaps, one, one)

    def _overlaps(self, hats: BlockHats, strengths: Array) -> BlockOverlaps:
        """Rescaled by delta_k² = Sigmahat/Sigmahat_k, directions have the field of an isotropic map; its threshold is rescaled too (P10)."""
        rest, root, stretch = hats.rest.times(self.alpha), self.plain.root, 1.0 / hats.sigma_ratio
        where = self.plain.input.map_at(rest)
        pulled = (rest.sigma * strengths / stretch + self.alpha * stretch * hats.along) / rest.m
        field, spread = pulled + (1.0 - stretch) * where.eps / root, stretch * hats.q_ratio
        seen = field + (spread - 1.0) * where.s * self._transform(where.s, field) / root
        channel = seen_by(self.plain.input, tuple(seen.tolist()))
        whole = led(channel, channel.overlaps(rest), tuple(seen.tolist()), self.plain.output.directions)
        return self._told_apart(whole, stretch, spread)

    def _transform(self, s: float, field: Array) -> Array:
        """Re g where a leading direction shows in the blurred spectrum: its mean over what comes from there."""
        law = seen_by(self.plain.input, tuple(field.tolist())).law(s)
        nodes = law.nodes()
        return np.asarray(law.shares(-np.inf, self.plain.root * field) @ (nodes.mass * nodes.hilbert))

    def _told_apart(self, whole: LeadingOverlaps, stretch: Array, spread: Array) -> BlockOverlaps:
        """Blocks taken off the rest of a rescaled map, v_k + theta_k² = c² ∫ rho p_k (x - eps)_+², and everything scaled back."""
        y, share = self._shares(whole)
        strengths = np.array(whole.strengths)
        scatter = share @ y**2 / self.plain.root**2 - strengths**2
        blocks = scatter - 0.5 * np.minimum(self._between(whole).sum(axis=1), scatter)
        left = whole.q_b - 2.0 * float(blocks.sum())
        rest = max(left, LEAST * whole.q_b)
        most = float(np.sqrt(rest * whole.directions.rest))
        own = whole._replace(
            q_b=rest, m_b=float(np.clip(whole.m_b, -most, most)), strengths=tuple((stretch * strengths).tolist())
        )
        scale, cramped = stretch * spread, rest > left or abs(whole.m_b) > most
        return BlockOverlaps(own, scale * blocks, scale * scatter, stretch, spread, cramped)

    def _between(self, whole: LeadingOverlaps) -> Array:
        """S_kl²/d between leading directions of a rescaled map: noise s/d times a squared difference quotient of what is learned."""
        learned, seen = np.array(whole.strengths), np.array(whole.effective)
        gap = np.subtract.outer(seen, seen)
        same = np.abs(gap) < ALIKE * np.abs(seen).max()
        quotient = np.where(same, whole.map.slope, np.subtract.outer(learned, learned) / np.where(same, 1.0, gap))
        np.fill_diagonal(quotient, 0.0)
        return np.asarray(whole.map.s * quotient**2 / self.plain.root**4)

    def _shares(self, whole: LeadingOverlaps) -> tuple[Array, Array]:
        """Eigenvalues of a rescaled map above zero, and the share that every leading direction has in each."""
        where = whole.map
        law = seen_by(self.plain.input, whole.effective).law(where.s)
        nodes, places = law.nodes(where.cut), self.plain.root * np.array(whole.effective)
        return where.slope * (nodes.x - where.eps), law.shares(where.cut, places) * nodes.mass

    def eigenvectors(self, found: BlockOverlaps) -> list[Eigenvector | None]:
        """Of every leading direction its eigenvector; none if it is not alone in an interval of the spectrum (P10.1)."""
        whole, d = found.overlaps, self.plain.root**2
        channel, where = seen_by(self.plain.input, whole.effective), whole.map
        law, (y, shares) = channel.law(where.s), self._shares(whole)
        values, places = channel.scale * channel.target.values, self.plain.root * np.array(whole.effective)  # type: ignore[attr-defined]
        answer: list[Eigenvector | None] = []
        for k, place in enumerate(places):
            others = np.delete(values, np.argmin(np.abs(values - place)))
            x = place + where.s * float(np.sum(1.0 / (place - others))) / d
            inside = [edge for edge in law.edges if edge[0] <= x <= edge[1]]
            alone = inside and round(d * (law.mass_above(inside[0][0]) - law.mass_above(inside[0][1]))) == 1
            if not alone or x <= where.cut:
                answer.append(None)
                continue
            kept = 1.0 - found.spread[k] * where.s * float(np.sum(1.0 / (place - others) ** 2)) / d
            low, high = (where.slope * (edge - where.eps) for edge in inside[0])
            rest = (y < low) | (y > high)
            top, mass = where.slope * (x - where.eps), found.spread[k] * shares[k, rest]
            answer.append(_rescaled(top, kept, y[rest], mass, float(found.stretch[k])))
        return answer


def _rescaled(top: float, kept: float, y: Array, mass: Array, stretch: float) -> Eigenvector:
    """The eigenvector of D S D, D multiplying row e by the root of ``stretch``, from the eigenvalues of S and their shares of e (P10.1).

    D S D has the eigenvalues of S + (stretch - 1) a a', a = S^(1/2) e: a perturbation of rank one. ``kept`` is the share of the one that
    stands apart, at ``top``.
    """
    more, place = stretch - 1.0, top
    for _ in range(TURNS):
        last, place = place, top + more * top * kept / (1.0 - more * float(mass @ (y / (place - y))))
        if abs(place - last) <= 1e-13 * top:
            break
    pole = (1.0 - more * float(mass @ (y / (place - y)))) ** 2 / (top * kept)
    size = pole + more**2 * float(mass @ (y / (place - y) ** 2))
    return Eigenvector(float(place), float(stretch / (place * size)))
