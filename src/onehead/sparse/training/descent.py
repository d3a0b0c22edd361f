"""L-BFGS for a linear readout with a smooth loss, first in single, then in double precision.

Each step takes two products with the data; the line search works on the margins and needs none.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np

from onehead.numerics.lbfgs import LbfgsHistory
from onehead.sparse.losses import Array

HISTORY_PAIRS = 20  # steps and gradient changes that are remembered
MAX_STEPS = 400
SINGLE_PRECISION_TOLERANCE = 1e-5  # gradient relative to the first one at which single precision ends
# Relative distance of the objective from its minimum, which strong convexity bounds by |gradient|² / (2 ridge).
OBJECTIVE_TOLERANCE = 1e-13
GRADIENT_TOLERANCE = 1e-11  # largest entry of the gradient
MAX_LINE_STEPS = 8  # Newton steps of a line search
LINE_SLOPE_SHARE = 0.4  # share of the initial slope that may remain after a line search


class _Data:
    """Products with the feature matrix and a column of ones, in a given precision."""

    def __init__(self, X: Array, kind: Any) -> None:
        self.X = X.astype(kind, copy=False)

    def logits(self, v: Array) -> Array:
        """Return X w + b."""
        return np.asarray(self.X @ v[:-1].astype(self.X.dtype) + v[-1], dtype=np.float64)

    def weighted_sum(self, h: Array) -> Array:
        """Return X'h and the sum of h as one vector."""
        return np.append(h.astype(self.X.dtype) @ self.X, h.sum())


class SmoothLoss(Protocol):
    """A loss of the margin with two derivatives."""

    def value(self, margin: Array) -> Array:
        """Return the loss l(t)."""

    def derivative(self, margin: Array) -> Array:
        """Return the derivative l'(t)."""

    def curvature(self, margin: Array) -> Array:
        """Return the second derivative l''(t)."""


class SmoothMinimum(NamedTuple):
    """Weights and bias as one vector, the gradient there, and whether it is the minimum to rounding."""

    solution: Array
    gradient: Array
    converged: bool


def minimise_single_precision(X: Array, y: Array, loss: SmoothLoss, ridge: float) -> tuple[Array, LbfgsHistory]:
    """Minimise mean loss + (ridge/2) |w|², with a free bias, in single precision; return the point and the history."""
    data, history = _Data(X, np.float32), LbfgsHistory(X.shape[1] + 1, HISTORY_PAIRS)
    first = float(np.max(np.abs(data.weighted_sum(y * loss.derivative(np.zeros(len(y))))))) / len(y)
    found = _lbfgs(data, y, loss, ridge, np.zeros(X.shape[1] + 1), history, SINGLE_PRECISION_TOLERANCE * first)
    return found.solution, history


def minimise_smooth(X: Array, y: Array, loss: SmoothLoss, ridge: float) -> SmoothMinimum:
    """Minimise mean loss + (ridge/2) |w|² in double precision; ``converged`` is False where the search stalls."""
    start, history = minimise_single_precision(X, y, loss, ridge)
    return _lbfgs(_Data(X, np.float64), y, loss, ridge, start, history, GRADIENT_TOLERANCE)


def _lbfgs(
    data: _Data, y: Array, loss: SmoothLoss, ridge: float, v: Array, history: LbfgsHistory, tolerance: float
) -> SmoothMinimum:
    """Apply L-BFGS steps until the gradient or the distance of the objective from its minimum is below tolerance."""
    penalty = np.append(np.full(len(v) - 1, ridge), 0.0)
    margin = y * data.logits(v)
    slope = loss.derivative(margin)
    initial_objective = float(loss.value(np.zeros(1))[0])  # objective at zero weights, an upper bound
    gradient = data.weighted_sum(y * slope) / len(y) + penalty * v
    for _ in range(MAX_STEPS):
        close = 2.0 * OBJECTIVE_TOLERANCE * ridge
        square = float(gradient @ gradient)
        if np.max(np.abs(gradient)) < tolerance:
            return SmoothMinimum(v, gradient, True)
        # the bound is tested first, because the objective itself costs an evaluation of the loss
        if square < close * initial_objective:
            objective = float(loss.value(margin).mean() + 0.5 * penalty @ v**2)
            if square < close * objective:
                return SmoothMinimum(v, gradient, True)
        move = -history.apply_inverse_hessian(gradient)
        if history.count == 0:  # no curvature known yet: start with a step of length one
            move /= max(float(np.linalg.norm(move)), 1e-300)
        margin_change = y * data.logits(move)
        length, new_margin, slope = _line_search(
            loss, margin, slope, margin_change, float(penalty @ (v * move)), float(penalty @ move**2)
        )
        if length == 0.0:
            break
        step, before = length * move, gradient
        v, margin = v + step, new_margin
        gradient = data.weighted_sum(y * slope) / len(y) + penalty * v
        history.add(step, gradient - before)
    return SmoothMinimum(v, gradient, False)


def _line_search(
    loss: SmoothLoss, margin: Array, slope: Array, margin_change: Array, ridge_slope: float, ridge_curvature: float
) -> tuple[float, Array, Array]:
    """Return the step length, the margins there and the slopes of the loss.

    Newton's method on the slope of the objective along the line, safeguarded by a bracket. ``ridge_slope`` and
    ``ridge_curvature`` are the contributions of the ridge.
    """
    n, low, high, t = len(margin), 0.0, np.inf, 1.0
    start = float(slope @ margin_change) / n + ridge_slope
    if not start < 0.0:
        return 0.0, margin, slope
    for iteration in range(MAX_LINE_STEPS):
        new_margin = margin + t * margin_change
        slope = loss.derivative(new_margin)
        slope_along = float(slope @ margin_change) / n + ridge_slope + t * ridge_curvature
        if abs(slope_along) <= LINE_SLOPE_SHARE * abs(start) or iteration == MAX_LINE_STEPS - 1:
            break
        low, high = (t, high) if slope_along < 0.0 else (low, t)
        curvature = float(loss.curvature(new_margin) @ margin_change**2) / n + ridge_curvature
        new = t - slope_along / curvature if curvature > 0.0 else np.inf
        t = new if low < new < high else (0.5 * (low + high) if high < np.inf else 2.0 * t)
    return t, new_margin, slope
