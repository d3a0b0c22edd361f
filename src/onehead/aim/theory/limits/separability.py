"""Separability of hard labels: the sample ratio up to which a head fits all of them, and its map diverges as λ → 0⁺
(U7.1).

With K_y the cone of logits whose largest is that of the label y, and z*, xi independent standard normal logits of a
row,

    1/α = min over t of sum over rows of E dist²(t z* + xi, K_y),      y sampled from softmax(sqrt(Q0) z* + noise).
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from onehead.aim.logits.blocks import PARTS
from onehead.aim.logits.geometry import Geometry
from onehead.numerics.brent import brent_minimum
from onehead.numerics.gaussian import cumulative, density, sobol
from onehead.numerics.replicate_error import error_from_replicates

Array = NDArray[np.float64]

POINTS = 14  # log2 of the points of a row of more than two columns, before mirroring
NUMBERS = 22  # log2 of the numbers that they may fill: longer rows have fewer points, and a larger error
LONGEST = 1024  # columns of a row
KNOWN = f"untied heads of full width (attention cross, or mask strict) and rows of at most {LONGEST} columns"
STEP, RADIUS = 0.1, 8.0  # of the line of two columns: the integrand is analytic, and below 1e-14 beyond


@lru_cache(maxsize=64)
def separability(geometry: Geometry, target_power: float, noise: float) -> tuple[float, float] | None:
    """Return the sample ratio up to which hard labels are separable, and its error; None for rows longer than
    `LONGEST`.
    """
    if max(row.length for row in geometry.rows) > LONGEST:
        return None
    rows = [(row.multiplicity, _Row(sum(c.count for c in row.columns), target_power, noise)) for row in geometry.rows]

    def cost(t: float) -> Array:
        return np.asarray(np.sum([often * row.cost(t) for often, row in rows], axis=0))

    best, _ = brent_minimum(lambda t: float(cost(t).mean()), 0.0, 20.0, xatol=1e-7)
    parts = cost(best)
    ratio = 1.0 / float(parts.mean())
    return ratio, ratio**2 * float(error_from_replicates(parts - parts.mean()))


class _Row:
    """A row of n exchangeable columns, the first being the label: a line for two columns, sampled points for more."""

    def __init__(self, n: int, target_power: float, noise: float) -> None:
        self.n = n
        if n == 2:
            self._place = STEP * np.arange(-RADIUS / STEP, RADIUS / STEP + 1.0)
            self._mass = density(self._place) / density(self._place).sum()
            self._chance = _mean_sigmoid(np.sqrt(2.0 * target_power) * self._place, noise)
            return
        points = min(POINTS, int(NUMBERS - np.log2(3 * n)))
        nodes = sobol(3 * n, log2_points=points, seed=0, parts=PARTS).nodes
        self._label, self._free = nodes[:, :n], nodes[:, n : 2 * n]
        logits = np.sqrt(target_power) * self._label + np.sqrt(0.5 * noise) * nodes[:, 2 * n :]
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        self._chance = p[:, 0] / p.sum(axis=1)

    def cost(self, t: float) -> Array:
        """Return E dist² by each independent part of the points."""
        if self.n == 2:
            tilt = t * self._place
            value = self._mass @ (self._chance * _beyond(-tilt) + (1.0 - self._chance) * _beyond(tilt))
            return np.full(PARTS, float(value))
        away = _distance(t * self._label + self._free)
        return np.asarray(self.n * (self._chance * away).reshape(PARTS, -1).mean(axis=1))


def _mean_sigmoid(x: Array, variance: float) -> Array:
    """E sig(x + sqrt(variance) N)."""
    z = STEP * np.arange(-RADIUS / STEP, RADIUS / STEP + 1.0)
    weights = density(z) / density(z).sum()
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * np.add.outer(x, np.sqrt(variance) * z))) @ weights)


def _beyond(a: Array) -> Array:
    """E (a + Z)_+² = (1 + a²) Phi(a) + a phi(a)."""
    return (1.0 + a * a) * cumulative(a) + a * density(a)


def _distance(h: Array) -> Array:
    """Squared distance of logits to the cone in which the first is the largest.

    The nearest point has the first logit equal to the k largest others, where the k-th lies above the mean of the first
    k.
    """
    others = -np.sort(-h[:, 1:], axis=1)
    taken = np.concatenate([h[:, :1], others], axis=1)
    size = np.arange(1.0, h.shape[1] + 1.0)
    means = np.cumsum(taken, axis=1) / size
    above = np.concatenate(
        [np.ones((len(h), 1), bool), np.cumprod(others > means[:, :-1], axis=1).astype(bool)], axis=1
    )
    count = above.sum(axis=1)
    mean = means[np.arange(len(h)), count - 1]
    return np.asarray(np.sum(np.where(above, taken**2, 0.0), axis=1) - count * mean**2)
