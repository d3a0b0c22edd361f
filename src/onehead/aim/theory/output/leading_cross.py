"""The output channel of cross-attention with leading directions: rows whose logits are Gaussian given the query (P13).

Direction k of a row has the query's coordinate x_k and the keys' y_1..y_n, and adds to the logit of key b its singular
value times x_k y_b/sqrt d. Given x these are independent normals as all others are, of another variance:

    (u*, v) given x ~ N(0, [[Q, m], [m, q]](x) C),   Q(x) = Q_b + sum_k t_k² x_k²,
    m(x) = m_b + sum_k t_k l_k x_k²,   q(x) = q_b + sum_k l_k² x_k².

t_k and l_k being the elements of target and map in the direction. Only x has to be sampled besides Gaussian logits, for
any number of columns; the field of a direction is the response of the pull on a row to its logits, weighted by x_k².
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from onehead.aim.logits.blocks import PARTS
from onehead.aim.logits.geometry import Geometry
from onehead.aim.theory.output.explicit_directions import DirectionAverages
from onehead.aim.theory.output.leading import LeadingOutput, NodeTable, by_parts, corrected_sums
from onehead.aim.theory.output.leading_fresh_cross import CrossRowLaw, cross_control_means, cross_controls
from onehead.numerics.gaussian import sobol

Array = NDArray[np.float64]

MINIMUM_AREA = 1e-14  # of Q q - m² at a node, relative to Q q


class RowNodes(NamedTuple):
    """Sampled points: label and independent part of the logits, per unit of variance; x_k² of every direction;
    weights.
    """

    label: Array
    free: Array
    squares: Array  # (nodes, directions)
    weights: Array


@lru_cache(maxsize=6)
def cross_nodes(geometry: Geometry, count: int, size: int, check_rule: bool) -> RowNodes:
    """Return scrambled Sobol points over the query's ``count`` coordinates and the logits of a row, in independent
    parts (P7).

    Exchanging the two columns of a row is a symmetry that makes mirrored points redundant: such rows get twice as many
    points instead.
    """
    (block,) = geometry.blocks
    n, seed = block.dim, 3 if check_rule else 2
    rule = sobol(count + 2 * n, log2_points=size + int(block.is_line), seed=seed, parts=PARTS)
    points = rule.nodes
    if block.is_line:
        points = points.reshape(PARTS, 2, -1, count + 2 * n)[:, 0].reshape(-1, count + 2 * n)
    # the query uses the first Sobol dimensions, which are the most uniform, because the integrand varies most along it
    x, bulk = points[:, :count], points[:, count:]
    label, free = (np.ascontiguousarray(part @ block.root.T) for part in (bulk[:, :n], bulk[:, n:]))
    return RowNodes(label, free, x**2, np.full(len(points), 1.0 / len(points)))


@final
@dataclass(frozen=True, kw_only=True)
class CrossLeadingOutput(LeadingOutput):
    """The output channel of cross-attention with leading directions; a state is that of a tied head (P13)."""

    def _nodes(self, size: int, check_rule: bool) -> RowNodes:
        """Return 2^size sampled points, before mirroring."""
        return cross_nodes(self.geometry, self.directions.count, size, check_rule)

    def logits(self, nodes: Any, values: tuple[float, ...], power: float | None = None) -> tuple[Array, ...]:
        """Return u* and v, and Q, q and m given x."""
        (q_b, m_b, *elements), target = values, np.array(self.directions.target_eigenvalues)
        own = np.array(elements)
        Q, q, m = (
            bulk + nodes.squares @ weights
            for bulk, weights in ((self.bulk_power_of(power), target**2), (q_b, own**2), (m_b, target * own))
        )
        slope = np.divide(m, Q, out=np.zeros_like(m), where=Q > 0.0)
        u = np.sqrt(Q)[:, None] * nodes.label
        v = slope[:, None] * u + np.sqrt(np.maximum(q - slope * m, 0.0))[:, None] * nodes.free
        return u, v, Q, q, m

    def _row_law(self, values: tuple[float, ...], power: float | None) -> CrossRowLaw:
        """Return the law of the logits of a row of two columns."""
        q, m, *elements = values
        target = np.array(self.directions.target_eigenvalues)
        return CrossRowLaw(target, np.array(elements), self.bulk_power_of(power), q, m)

    def _direction_averages(self, averages: DirectionAverages, derivative: bool) -> Array:
        """Return E pull.upsilon of every direction, in the Stein or in the derivative form."""
        stein, by_derivative = np.reshape(averages.along, (2, -1))
        return np.asarray(by_derivative if derivative else stein)

    def _tabulate(self, values: tuple[float, ...], nodes: Any, table: NodeTable, smooth: bool) -> Array:
        """Return the eight averages, then E pull.upsilon of every direction in its Stein form and in its derivative
        form (P13).

        Given x, Stein's lemma gives the response of a row to its label (``cross``) and to its own logits (``trace``),
        from which the averages along the bulk follow.
        """
        (Q, q, m), per_node = table.others, table.per_node
        by_label, by_own, trace, cross = per_node[:, [1, 2, 3, 5]].T
        area = np.maximum(Q * q - m * m, MINIMUM_AREA * Q * q)
        responses = (q * by_label - m * by_own) / area, (m * by_label - Q * by_own) / area
        (q_b, m_b, *elements), Q_b = values, self.bulk_label_power
        target, own = np.array(self.directions.target_eigenvalues), np.array(elements)
        columns = [per_node[:, :8]]
        columns += [
            nodes.squares * (target * to_label[:, None] - own * to_own[:, None])
            for to_label, to_own in (responses, (cross, trace))
        ]
        found = np.hstack(columns)
        found[:, 1], found[:, 2] = Q_b * responses[0] - m_b * responses[1], m_b * responses[0] - q_b * responses[1]
        known = self._control_variates(values, nodes, table, smooth)
        if known is None:
            return by_parts(found)
        controls, means = known
        return corrected_sums(np.hstack([found, controls]), means)

    def _control_variates(
        self, values: tuple[float, ...], nodes: RowNodes, table: NodeTable, smooth: bool
    ) -> tuple[Array, Array] | None:
        """Return control variates at the nodes and their means (P13.2).

        They are averages of fresh rows of two columns, and Stein combinations, each by itself and times x_k².
        """
        found, known = [], []
        if self.geometry.tokens == 2:
            means = cross_control_means(self._row_law(values, None))
            if means is not None:
                found.append(cross_controls(table.label, table.learner, nodes.squares))
                known.append(means)
        if smooth:
            (Q, q, m), per_node = table.others, len(table.per_node) * table.per_node
            weights = np.hstack([np.ones((len(Q), 1)), nodes.squares])
            for by, mine, shared in ((2, q, m), (1, m, Q)):
                found.append(weights * (per_node[:, by] + mine * per_node[:, 3] - shared * per_node[:, 5])[:, None])
                known.append(np.zeros(weights.shape[1]))
        return (np.hstack(found), np.concatenate(known)) if found else None
