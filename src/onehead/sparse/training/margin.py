"""The readout of the hinge loss by the method of multipliers: each step a Newton method that sees the samples at the kink alone.

With D_i = y_i (x_i, 1), z = D v, and multipliers 0 <= a_i <= 1/n, hinge/n = max_a a (1 - z). A step holds on to the last a:

    minimise over v  (ridge/2) |w|² + sum_i max_c [ c (1 - z_i) - (c - a_i)² / (2 pull) ],     c_i = clip(a_i + pull (1 - z_i), 0, 1/n)

and takes a = c there. Its gradient is ridge w - D'c and its curvature ridge + pull D_J'D_J, J being the samples with c inside. At its
minimum c is feasible for the dual problem, so that the duality gap is known.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.sparse.losses import Array
from onehead.sparse.training.descent import approached

__all__ = ["Margin", "largest_margin"]

STEEP = 5.0  # the hinge is rounded off within 1/STEEP of its kink, for the first guess
STIFF = 100.0  # and no closer than so many times what the penalty alone would do
GROWTH = 3.0  # of the pull from step to step
STEPS, TURNS, ALONG = 40, 60, 30
CLOSE = 1e-9  # duality gap, relative to the objective
LEFT = 1e-11  # gradient of a step, relative to what cancels in it


class Margin(NamedTuple):
    """Weights and bias as one vector, the duality gap, and whether it is small enough."""

    place: Array
    gap: float
    arrived: bool


@dataclass
class _Rounded:
    """The hinge with its kink rounded off: max over 0 <= c <= 1 of c (1 - t) - c² / (2 steep)."""

    steep: float

    def value(self, margin: Array) -> Array:
        """The rounded hinge."""
        c = -self.derivative(margin)
        return np.asarray(c * (1.0 - margin) - 0.5 * c**2 / self.steep)

    def derivative(self, margin: Array) -> Array:
        """-c."""
        return -np.clip(self.steep * (1.0 - margin), 0.0, 1.0)

    def curvature(self, margin: Array) -> Array:
        """Inside the round part."""
        inside = (margin < 1.0) & (margin > 1.0 - 1.0 / self.steep)
        return np.where(inside, self.steep, 0.0)


@dataclass
class _Step:
    """One step: multipliers that are held on to, and how strongly."""

    D: Array
    ridge: float
    held: Array
    pull: float

    def multipliers(self, z: Array) -> Array:
        """The c of margins z."""
        return np.clip(self.held + self.pull * (1.0 - z), 0.0, 1.0 / len(z))

    def inside(self, z: Array) -> NDArray[np.intp]:
        """Samples whose c follows their margin."""
        c = self.held + self.pull * (1.0 - z)
        return np.flatnonzero((c > 0.0) & (c < 1.0 / len(z)))

    def gradient(self, v: Array, z: Array) -> tuple[Array, float]:
        """And the size of what cancels in it."""
        data = self.multipliers(z) @ self.D
        own = self.ridge * v
        own[-1] = 0.0
        return own - data, float(np.max(np.abs(data)))

    def newton(self, gradient: Array, J: NDArray[np.intp]) -> Array:
        """The step of Newton's method, through the smaller one of two systems: of the features, or of the samples inside."""
        p = len(gradient) - 1
        D = self.D[J]
        if len(J) > p:
            bend = self.pull * (D.T @ D)
            bend[range(p), range(p)] += self.ridge
            return np.asarray(np.linalg.solve(bend, -gradient))
        if len(J) == 0:
            return np.asarray(-gradient / np.append(np.full(p, self.ridge), 1.0))
        X, y = D[:, :p], D[:, p]
        system = np.zeros((len(J) + 1, len(J) + 1))
        system[:-1, :-1] = X @ X.T / self.ridge
        system[range(len(J)), range(len(J))] += 1.0 / self.pull
        system[:-1, -1], system[-1, :-1] = -y, y
        found = np.linalg.solve(system, np.append(-X @ gradient[:p] / self.ridge, -gradient[p]))
        return np.append(-(gradient[:p] + found[:-1] @ X) / self.ridge, found[-1])

    def length(self, v: Array, z: Array, move: Array, along: Array) -> float:
        """Where the slope along the line, which grows, is zero."""
        own, bend = self.ridge * float(v[:-1] @ move[:-1]), self.ridge * float(move[:-1] @ move[:-1])
        low, high, t, first = 0.0, np.inf, 1.0, 0.0
        for turn in range(ALONG):
            at = 0.0 if turn == 0 else t
            there = z + at * along
            slope = own + at * bend - float(self.multipliers(there) @ along)
            if turn == 0:
                first = slope
                continue
            if abs(slope) <= 0.01 * abs(first):
                break
            low, high = (t, high) if slope < 0.0 else (low, t)
            J = self.inside(there)
            curve = bend + self.pull * float(along[J] @ along[J])
            new = t - slope / curve if curve > 0.0 else np.inf
            t = new if low < new < high else (0.5 * (low + high) if high < np.inf else 2.0 * t)
        return t if first < 0.0 else 0.0

    def minimised(self, v: Array, z: Array) -> tuple[Array, Array, bool]:
        """Its minimum from v, with the margins there."""
        J, last, t = self.inside(z), np.empty(0, dtype=np.intp), 0.0
        for _ in range(TURNS):
            gradient, size = self.gradient(v, z)
            same = np.array_equal(J, last) and abs(t - 1.0) < 1e-6  # a quadratic function, at its minimum
            if same or np.max(np.abs(gradient)) <= LEFT * size:
                return v, z, True
            move = self.newton(gradient, J)
            along = self.D @ move
            t = self.length(v, z, move, along)
            if t == 0.0:
                return v, z, bool(np.max(np.abs(gradient)) <= 1e3 * LEFT * size)
            v = v + t * move
            z = self.D @ v
            J, last = self.inside(z), J
        return v, z, False


def largest_margin(X: Array, y: Array, ridge: float) -> Margin:
    """Weights and bias with the least (ridge/2) |w|² + mean hinge; or where the search stalls."""
    n, p = X.shape
    D = np.concatenate([X, np.ones((n, 1))], axis=1) * y[:, None]
    rounded = _Rounded(min(STEEP, STIFF * n * ridge / max(p * float(np.mean(X**2)), 1e-300)))
    v, _ = approached(X, y, rounded, ridge)
    z, gap = D @ v, np.inf
    step = _Step(D, ridge, -rounded.derivative(z) / n, rounded.steep / n)
    for _ in range(STEPS):
        v, z, found = step.minimised(v, z)
        if not found:
            break
        c = step.multipliers(z)
        value = 0.5 * ridge * float(v[:-1] @ v[:-1]) + float(np.maximum(1.0 - z, 0.0).mean())
        data = (c @ D)[:-1]
        gap = abs(value - float(c.sum() - 0.5 * data @ data / ridge))
        if gap <= CLOSE * value:
            grown = _cleared(float(z.min()))
            return Margin(grown * v, gap + (grown**2 - 1.0) * value, True)
        step = _Step(D, ridge, c, GROWTH * step.pull)
    return Margin(v, gap, False)


def _cleared(least: float) -> float:
    """By how much to grow the weights, where nobody is inside the margin but by rounding: then nobody is."""
    return 1.0 / (least - 4e-16) if 1.0 - CLOSE < least < 1.0 else 1.0
