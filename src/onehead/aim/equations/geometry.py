"""Coordinates of the logits of a sample, and quadrature over them.

A sample has T tokens. Its logits h_ab matter only up to a common constant, so the coordinates are u = h_ab - h_12 over the
J = T(T+1)/2 - 1 other pairs a <= b, Gaussian with covariance C = diag(1 + delta_ab) + 1 1' per unit of variance of z
(1.4, 1.6, 2.5).
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.numerics.gaussian import GaussianRule, lattice, sobol

__all__ = ["Geometry", "LogitRule", "geometry", "logit_rule", "row_rule"]

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """Coordinates of the logits of T tokens: which coordinate each row sees, and their covariance."""

    tokens: int
    select: NDArray[np.int64]
    covariance: Array

    @property
    def dim(self) -> int:
        """J = T(T+1)/2 - 1, the directions of a sample that carry information (1.6)."""
        return len(self.covariance)

    @cached_property
    def metric(self) -> Array:
        """C^-1."""
        return np.ascontiguousarray(np.linalg.inv(self.covariance))

    @cached_property
    def root(self) -> Array:
        """V sqrt(D) with C = V D V': maps independent normals to coordinates, even and odd parts apart (2.5)."""
        values, vectors = np.linalg.eigh(self.covariance)
        return np.ascontiguousarray(vectors[:, ::-1] * np.sqrt(values[::-1]))

    @cached_property
    def row_fits(self) -> Array:
        """For each row a, the matrix G with v + G (u* - v): row a at its label, the others at their conditional mean."""
        fits = []
        for row in self.select:
            pick = np.zeros((self.tokens, self.dim))
            for b, i in enumerate(row):
                if i >= 0:
                    pick[b, i] = 1.0
            differences = pick[1:] - pick[0]
            gain = self.covariance @ differences.T
            fits.append(gain @ np.linalg.solve(differences @ gain, differences))
        return np.ascontiguousarray(fits)


@lru_cache(maxsize=32)
def geometry(tokens: int) -> Geometry:
    """The geometry of ``tokens`` tokens."""
    pairs = [(a, b) for a in range(tokens) for b in range(a, tokens) if (a, b) != (0, 1)]
    number = {pair: i for i, pair in enumerate(pairs)}
    select = np.array(
        [[number.get((min(a, b), max(a, b)), -1) for b in range(tokens)] for a in range(tokens)],
        dtype=np.int64,
    )
    covariance = np.diag([2.0 if a == b else 1.0 for a, b in pairs]) + 1.0
    return Geometry(tokens=tokens, select=select, covariance=covariance)


class LogitRule(NamedTuple):
    """Quadrature nodes already mapped to coordinates: label part, independent part, weights."""

    label: Array
    free: Array
    weights: Array


@lru_cache(maxsize=24)
def logit_rule(tokens: int, level: int, twin: bool) -> LogitRule:
    """Nodes for the pair (label logits, learner logits) of one sample.

    T = 2: a lattice in four dimensions, folded by its two reflection symmetries (2.5). T > 2: scrambled Sobol (2.6).
    ``level`` 0 is the coarsest; ``twin`` gives a second, independent rule of the same size.
    """
    shape = geometry(tokens)
    n = shape.dim
    rule: GaussianRule
    if tokens == 2:
        spacing, radius = ((0.8, 5.5), (0.6, 6.0), (0.5, 6.2), (0.42, 6.3))[level]
        rule = lattice(4, spacing=spacing, radius=radius, offset=0.0 if twin else 0.5, folded=2)
    else:
        rule = sobol(2 * n, log2_points=sobol_size(tokens, level), seed=1 if twin else 0)
    label, free = rule.nodes[:, :n] @ shape.root.T, rule.nodes[:, n:] @ shape.root.T
    return LogitRule(np.ascontiguousarray(label), np.ascontiguousarray(free), rule.weights)


@lru_cache(maxsize=24)
def row_rule(tokens: int, *, coarse: bool = False, twin: bool = False) -> LogitRule:
    """Nodes for one row of logits, label and learner: the T - 1 differences h_1b - h_12.

    The rows of a fresh sample are alike in law, and their losses add up: one row is enough for their average, and has
    2 (T - 1) dimensions instead of T (T + 1) - 2. T = 2: a lattice in the plane, folded by its reflection symmetry.
    """
    if tokens == 2:
        rule = lattice(2, spacing=0.125, radius=7.5, offset=0.0 if twin else 0.5, folded=1)
    else:
        size = 11 if coarse else 15 if tokens <= 8 else 14
        rule = sobol(2 * (tokens - 1), log2_points=size, seed=1 if twin else 0)
    seen = [i for i in geometry(tokens).select[0] if i >= 0]
    values, vectors = np.linalg.eigh(geometry(tokens).covariance[np.ix_(seen, seen)])
    root = vectors[:, ::-1] * np.sqrt(values[::-1])
    label, free = rule.nodes[:, : tokens - 1] @ root.T, rule.nodes[:, tokens - 1 :] @ root.T
    return LogitRule(np.ascontiguousarray(label), np.ascontiguousarray(free), rule.weights)


def sobol_size(tokens: int, level: int) -> int:
    """log2 of the points before mirroring: fewer where one proximal step costs more."""
    finest = {3: 13, 4: 12, 5: 12, 6: 11, 7: 11}.get(tokens, 10)
    return finest - 4 if level == 0 else finest - 3 + level  # the coarsest only has to find the way
