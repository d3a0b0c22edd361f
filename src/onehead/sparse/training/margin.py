"""Training with the hinge loss by the method of multipliers, with a Newton method on the samples at the kink.

With D_i = y_i (x_i, 1), z = D v, and multipliers 0 <= a_i <= 1/n, hinge/n = max_a a (1 - z). Given a and a penalty
rho, each outer step computes

    argmin over v of  (ridge/2) |w|² + sum_i max_c [ c (1 - z_i) - (c - a_i)² / (2 rho) ]

whose inner maximum is at c_i = clip(a_i + rho (1 - z_i), 0, 1/n), and sets a = c. The gradient is ridge w - D'c, the
Hessian ridge + rho D_J'D_J with J the active set of samples whose c is not clipped. At the minimum c is feasible for
the dual problem, which gives the duality gap.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.sparse.losses import Array
from onehead.sparse.training.descent import minimise_single_precision

SMOOTHING_STEEPNESS = 5.0  # the first guess smooths the hinge within 1/SMOOTHING_STEEPNESS of its kink
MAX_RELATIVE_STEEPNESS = 100.0  # upper limit of the curvature of the smoothed hinge relative to that of the ridge
PENALTY_GROWTH = 3.0  # factor of the penalty rho from one outer step to the next
MAX_OUTER_STEPS, MAX_NEWTON_STEPS, MAX_LINE_STEPS = 40, 60, 30
GAP_TOLERANCE = 1e-9  # duality gap, relative to the objective
GRADIENT_TOLERANCE = 1e-11  # gradient of an outer step, relative to the two terms that cancel in it


class HingeMinimum(NamedTuple):
    """Weights and bias as one vector, the duality gap, and whether it met the tolerance."""

    solution: Array
    gap: float
    converged: bool


@dataclass
class _SmoothedHinge:
    """The smoothed hinge max over 0 <= c <= 1 of c (1 - t) - c² / (2 steepness)."""

    steepness: float

    def value(self, margin: Array) -> Array:
        """Return the smoothed hinge."""
        c = -self.derivative(margin)
        return np.asarray(c * (1.0 - margin) - 0.5 * c**2 / self.steepness)

    def derivative(self, margin: Array) -> Array:
        """Return the derivative -c of the smoothed hinge."""
        return -np.clip(self.steepness * (1.0 - margin), 0.0, 1.0)

    def curvature(self, margin: Array) -> Array:
        """Return the second derivative, which differs from zero only next to the kink."""
        near_kink = (margin < 1.0) & (margin > 1.0 - 1.0 / self.steepness)
        return np.where(near_kink, self.steepness, 0.0)


@dataclass
class _AugmentedLagrangian:
    """The objective of one outer step: ``centre`` are the last multipliers a, ``penalty`` is rho."""

    D: Array
    ridge: float
    centre: Array
    penalty: float

    def multipliers(self, z: Array) -> Array:
        """Return the multipliers c at margins z."""
        return np.clip(self.centre + self.penalty * (1.0 - z), 0.0, 1.0 / len(z))

    def active_set(self, z: Array) -> NDArray[np.intp]:
        """Return the indices of samples whose multiplier is not clipped."""
        c = self.centre + self.penalty * (1.0 - z)
        return np.flatnonzero((c > 0.0) & (c < 1.0 / len(z)))

    def gradient(self, v: Array, z: Array) -> tuple[Array, float]:
        """Return the gradient, and the size of the data term, which cancels against the ridge term at the minimum."""
        data = self.multipliers(z) @ self.D
        ridge = self.ridge * v
        ridge[-1] = 0.0
        return ridge - data, float(np.max(np.abs(data)))

    def newton(self, gradient: Array, J: NDArray[np.intp]) -> Array:
        """Return the Newton step, from the smaller of two systems: of the size of the features or of the active set."""
        p = len(gradient) - 1
        D = self.D[J]
        if len(J) > p:
            hessian = self.penalty * (D.T @ D)
            hessian[range(p), range(p)] += self.ridge
            return np.asarray(np.linalg.solve(hessian, -gradient))
        if len(J) == 0:
            return np.asarray(-gradient / np.append(np.full(p, self.ridge), 1.0))
        X, y = D[:, :p], D[:, p]
        system = np.zeros((len(J) + 1, len(J) + 1))
        system[:-1, :-1] = X @ X.T / self.ridge
        system[range(len(J)), range(len(J))] += 1.0 / self.penalty
        system[:-1, -1], system[-1, :-1] = -y, y
        minimised = np.linalg.solve(system, np.append(-X @ gradient[:p] / self.ridge, -gradient[p]))
        return np.append(-(gradient[:p] + minimised[:-1] @ X) / self.ridge, minimised[-1])

    def line_search(self, v: Array, z: Array, move: Array, margin_change: Array) -> float:
        """Return the zero of the slope along the line, an increasing function of the step length."""
        ridge_slope, ridge_curvature = (self.ridge * float(u[:-1] @ move[:-1]) for u in (v, move))
        low, high, t, first = 0.0, np.inf, 1.0, 0.0
        for iteration in range(MAX_LINE_STEPS):
            at = 0.0 if iteration == 0 else t
            trial = z + at * margin_change
            slope = ridge_slope + at * ridge_curvature - float(self.multipliers(trial) @ margin_change)
            if iteration == 0:
                first = slope
                continue
            if abs(slope) <= 0.01 * abs(first):
                break
            low, high = (t, high) if slope < 0.0 else (low, t)
            J = self.active_set(trial)
            curvature = ridge_curvature + self.penalty * float(margin_change[J] @ margin_change[J])
            new = t - slope / curvature if curvature > 0.0 else np.inf
            t = new if low < new < high else (0.5 * (low + high) if high < np.inf else 2.0 * t)
        return t if first < 0.0 else 0.0

    def minimise(self, v: Array, z: Array) -> tuple[Array, Array, bool]:
        """Return the minimiser reached from v, its margins, and whether the search converged."""
        J, last, t = self.active_set(z), np.empty(0, dtype=np.intp), 0.0
        for _ in range(MAX_NEWTON_STEPS):
            gradient, size = self.gradient(v, z)
            # a full step with an unchanged active set minimises a quadratic function exactly
            exact = np.array_equal(J, last) and abs(t - 1.0) < 1e-6
            if exact or np.max(np.abs(gradient)) <= GRADIENT_TOLERANCE * size:
                return v, z, True
            move = self.newton(gradient, J)
            margin_change = self.D @ move
            t = self.line_search(v, z, move, margin_change)
            if t == 0.0:
                return v, z, bool(np.max(np.abs(gradient)) <= 1e3 * GRADIENT_TOLERANCE * size)
            v = v + t * move
            z = self.D @ v
            J, last = self.active_set(z), J
        return v, z, False


def minimise_hinge(X: Array, y: Array, ridge: float) -> HingeMinimum:
    """Minimise (ridge/2) |w|² + mean hinge over weights and bias; ``converged`` is False where the search stalls."""
    n, p = X.shape
    D = np.concatenate([X, np.ones((n, 1))], axis=1) * y[:, None]
    steepest = MAX_RELATIVE_STEEPNESS * n * ridge / max(p * float(np.mean(X**2)), 1e-300)
    smoothed = _SmoothedHinge(min(SMOOTHING_STEEPNESS, steepest))
    v, _ = minimise_single_precision(X, y, smoothed, ridge)
    z, gap = D @ v, np.inf
    step = _AugmentedLagrangian(D, ridge, -smoothed.derivative(z) / n, smoothed.steepness / n)
    for _ in range(MAX_OUTER_STEPS):
        v, z, minimised = step.minimise(v, z)
        if not minimised:
            break
        c = step.multipliers(z)
        value = 0.5 * ridge * float(v[:-1] @ v[:-1]) + float(np.maximum(1.0 - z, 0.0).mean())
        data = (c @ D)[:-1]
        gap = abs(value - float(c.sum() - 0.5 * data @ data / ridge))
        if gap <= GAP_TOLERANCE * value:
            scale = _scale_to_margin(float(z.min()))
            return HingeMinimum(scale * v, gap + (scale**2 - 1.0) * value, True)
        step = _AugmentedLagrangian(D, ridge, c, PENALTY_GROWTH * step.penalty)
    return HingeMinimum(v, gap, False)


def _scale_to_margin(least: float) -> float:
    """Return the factor of the weights that lifts a smallest margin just below one, by rounding, to one."""
    return 1.0 / (least - 4e-16) if 1.0 - GAP_TOLERANCE < least < 1.0 else 1.0
