"""The output channel of cross-attention with leading directions: rows whose logits are Gaussian given the query (P13).

Direction k of a row has the query's coordinate x_k and the keys' y_1..y_n, and adds to the logit of key b its singular value times
x_k y_b/sqrt d. Given x these are independent normals as all others are, of another variance:

    (u*, v) given x ~ N(0, [[Q, m], [m, q]](x) C),   Q(x) = Q_b + sum_k told_k² x_k²,
    m(x) = m_b + sum_k told_k strength_k x_k²,   q(x) = q_b + sum_k strength_k² x_k².

So only x is averaged beside what Gaussian logits have, whatever the number of columns, and what the data say of a direction is how much
the pull on a row answers to its logits where x_k² is large.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.aim.equations.geometry import PARTS, Geometry
from onehead.aim.equations.leading_line import LineLaw, line_control_means, line_controls
from onehead.aim.equations.leading_output import LeadingOutput, Seen, by_parts, corrected_sums
from onehead.aim.equations.told_apart import ToldAverages
from onehead.aim.equations.unknowns import LeadingHats
from onehead.numerics.gaussian import sobol

__all__ = ["LeadingRows", "row_nodes_of"]

Array = NDArray[np.float64]

NARROWEST = 1e-14  # of Q q, for Q q - m² at a node


class RowNodes(NamedTuple):
    """Sampled points: label and free part of the logits, per unit of variance; x_k² of every direction; weights."""

    label: Array
    free: Array
    squares: Array  # (nodes, directions)
    weights: Array


@lru_cache(maxsize=6)
def row_nodes_of(geometry: Geometry, count: int, size: int, twin: bool) -> RowNodes:
    """Scrambled Sobol points over the query's ``count`` coordinates and the logits of a row, in independent parts (P7).

    Two columns that change places are a row again, so that the mirror image of a point has nothing new to say: another point instead.
    """
    (block,) = geometry.blocks
    n, seed = block.dim, 3 if twin else 2
    alone = block.is_line
    rule = sobol(count + 2 * n, log2_points=size + int(alone), seed=seed, parts=PARTS)
    points = rule.nodes
    if alone:
        points = points.reshape(PARTS, 2, -1, count + 2 * n)[:, 0].reshape(-1, count + 2 * n)
    # the query first: it is where the points are best, and what varies most
    x, rest = points[:, :count], points[:, count:]
    label, free = (np.ascontiguousarray(part @ block.root.T) for part in (rest[:, :n], rest[:, n:]))
    return RowNodes(label, free, x**2, np.full(len(points), 1.0 / len(points)))


@dataclass(frozen=True, kw_only=True)
class LeadingRows(LeadingOutput):
    """The output channel of cross-attention with leading directions told apart; states are those of a tied head (P13)."""

    attention = "cross"
    row_law = LineLaw

    def _nodes(self, size: int, twin: bool) -> RowNodes:
        return row_nodes_of(self.geometry, len(self.directions.told), size, twin)

    def _logits(self, nodes: Any, pair: tuple[float, ...], power: float | None = None) -> tuple[Array, ...]:
        """u* and v; Q, q and m given x."""
        (q_b, m_b, *strengths), told = pair, np.array(self.directions.told)
        own = np.array(strengths)
        Q, q, m = (
            rest + nodes.squares @ weights
            for rest, weights in ((self._rest(power), told**2), (q_b, own**2), (m_b, told * own))
        )
        slope = np.divide(m, Q, out=np.zeros_like(m), where=Q > 0.0)
        u = np.sqrt(Q)[:, None] * nodes.label
        v = slope[:, None] * u + np.sqrt(np.maximum(q - slope * m, 0.0))[:, None] * nodes.free
        return u, v, Q, q, m

    def _tabled(self, pair: tuple[float, ...], nodes: Any, seen: Seen, smooth: bool) -> Array:
        """The eight averages, then E pull.upsilon of every direction in its Stein form and in its derivative form (P13).

        Given x Stein's lemma gives both answers of a row, to its label (``cross``) and to its own logits (``trace``), and from these
        what it would be along the rest.
        """
        (Q, q, m), each = seen.others, seen.each
        by_label, by_own, trace, cross = each[:, [1, 2, 3, 5]].T
        area = np.maximum(Q * q - m * m, NARROWEST * Q * q)
        answers = (q * by_label - m * by_own) / area, (m * by_label - Q * by_own) / area
        (q_b, m_b, *strengths), told, rest = pair, np.array(self.directions.told), self.rest
        values = [each[:, :8]]
        values += [
            nodes.squares * (told * to_label[:, None] - np.array(strengths) * to_own[:, None])
            for to_label, to_own in (answers, (cross, trace))
        ]
        table = np.hstack(values)
        table[:, 1], table[:, 2] = rest * answers[0] - m_b * answers[1], m_b * answers[0] - q_b * answers[1]
        found = self._controls(pair, nodes, seen, smooth)
        if found is None:
            return by_parts(table)
        controls, means = found
        return corrected_sums(np.hstack([table, controls]), means)

    def _controls(
        self, pair: tuple[float, ...], nodes: RowNodes, seen: Seen, smooth: bool
    ) -> tuple[Array, Array] | None:
        """Numbers whose means are known: of fresh rows of two columns, and Stein combinations, by themselves and times x_k² (P13.2)."""
        found, known = [], []
        if self.geometry.tokens == 2:
            law = self._law(pair, None)
            assert isinstance(law, LineLaw)
            means = line_control_means(law)
            if means is not None:
                found.append(line_controls(seen.label, seen.own, nodes.squares))
                known.append(means)
        if smooth:
            (Q, q, m), each = seen.others, len(seen.each) * seen.each
            weights = np.hstack([np.ones((len(Q), 1)), nodes.squares])
            for by, mine, shared in ((2, q, m), (1, m, Q)):
                found.append(weights * (each[:, by] + mine * each[:, 3] - shared * each[:, 5])[:, None])
                known.append(np.zeros(weights.shape[1]))
        return (np.hstack(found), np.concatenate(known)) if found else None

    def hats_of(self, averages: ToldAverages, *state: float, derivative: bool) -> LeadingHats:  # type: ignore[override]
        """Those of a tied head, with the form of E pull.upsilon that is asked for."""
        count = len(self.directions.told)
        along = averages.along[count:] if derivative else averages.along[:count]
        return super().hats_of(averages._replace(along=along), *state, derivative=derivative)
