"""L-BFGS for a linear readout: two products with the data a step, the line searched without any, in single precision at first."""

from typing import Any, NamedTuple, Protocol

import numpy as np

from onehead.numerics.lbfgs import Memory
from onehead.sparse.losses import Array

__all__ = ["Descent", "Smooth", "approached", "descended"]

MEMORY = 20  # pairs of steps and changes of the gradient
STEPS = 400
ROUGH = 1e-5  # of the first gradient: down to here single precision shows the way
CLOSE = 1e-13  # of the objective above its minimum, relative, which strong convexity bounds by |gradient|² / (2 ridge)
FLAT = 1e-11  # of the largest entry of the gradient
ALONG = 8  # Newton steps along a line
SLOW = 0.4  # share of the slope that may be left there


class _Data:
    """Products with the features and a column of ones."""

    def __init__(self, X: Array, kind: Any) -> None:
        self.X = X.astype(kind, copy=False)

    def seen(self, v: Array) -> Array:
        """X w + b."""
        return np.asarray(self.X @ v[:-1].astype(self.X.dtype) + v[-1], dtype=np.float64)

    def gathered(self, h: Array) -> Array:
        """X'h, and the sum of h."""
        return np.append(h.astype(self.X.dtype) @ self.X, h.sum())


class Smooth(Protocol):
    """A loss of the margin with two derivatives."""

    def value(self, margin: Array) -> Array:
        """l(t)."""

    def derivative(self, margin: Array) -> Array:
        """l'(t)."""

    def curvature(self, margin: Array) -> Array:
        """l''(t)."""


class Descent(NamedTuple):
    """Weights and bias as one vector, the gradient there, and whether that is the minimum but for rounding."""

    place: Array
    gradient: Array
    arrived: bool


def approached(X: Array, y: Array, loss: Smooth, ridge: float) -> tuple[Array, Memory]:
    """Near the minimum of mean loss + (ridge/2) |w|², the bias being free, in single precision; and what was learned on the way."""
    data, memory = _Data(X, np.float32), Memory(X.shape[1] + 1, MEMORY)
    first = float(np.max(np.abs(data.gathered(y * loss.derivative(np.zeros(len(y))))))) / len(y)
    return _search(data, y, loss, ridge, np.zeros(X.shape[1] + 1), memory, ROUGH * first).place, memory


def descended(X: Array, y: Array, loss: Smooth, ridge: float) -> Descent:
    """The minimum itself, or where the search stalls."""
    start, memory = approached(X, y, loss, ridge)
    return _search(_Data(X, np.float64), y, loss, ridge, start, memory, FLAT)


def _search(data: _Data, y: Array, loss: Smooth, ridge: float, v: Array, memory: Memory, flat: float) -> Descent:
    """Steps until the gradient is flat, or the objective is at its minimum but for rounding."""
    penalty = np.append(np.full(len(v) - 1, ridge), 0.0)
    margin = y * data.seen(v)
    slope = loss.derivative(margin)
    most = float(loss.value(np.zeros(1))[0])  # the objective at zero, where the first search began
    gradient = data.gathered(y * slope) / len(y) + penalty * v
    for _ in range(STEPS):
        close = 2.0 * CLOSE * ridge
        square = float(gradient @ gradient)
        if np.max(np.abs(gradient)) < flat:
            return Descent(v, gradient, True)
        if square < close * most and square < close * float(loss.value(margin).mean() + 0.5 * penalty @ v**2):
            return Descent(v, gradient, True)
        move = -memory.turned(gradient)
        if memory.count == 0:  # nothing is known yet: a step of length one
            move /= max(float(np.linalg.norm(move)), 1e-300)
        along = y * data.seen(move)
        length, there, slope = _gone(loss, margin, slope, along, float(penalty @ (v * move)), float(penalty @ move**2))
        if length == 0.0:
            break
        step, before = length * move, gradient
        v, margin = v + step, there
        gradient = data.gathered(y * slope) / len(y) + penalty * v
        memory.add(step, gradient - before)
    return Descent(v, gradient, False)


def _gone(
    loss: Smooth, margin: Array, slope: Array, along: Array, pull: float, bend: float
) -> tuple[float, Array, Array]:
    """How far to go, the margins there and the slopes of the loss.

    Newton's method on the slope of the objective along the line, kept between the ends known so far.
    """
    n, low, high, t = len(margin), 0.0, np.inf, 1.0
    start = float(slope @ along) / n + pull
    if not start < 0.0:
        return 0.0, margin, slope
    for turn in range(ALONG):
        there = margin + t * along
        slope = loss.derivative(there)
        fall = float(slope @ along) / n + pull + t * bend
        if abs(fall) <= SLOW * abs(start) or turn == ALONG - 1:
            break
        low, high = (t, high) if fall < 0.0 else (low, t)
        curve = float(loss.curvature(there) @ along**2) / n + bend
        new = t - fall / curve if curve > 0.0 else np.inf
        t = new if low < new < high else (0.5 * (low + high) if high < np.inf else 2.0 * t)
    return t, there, slope
