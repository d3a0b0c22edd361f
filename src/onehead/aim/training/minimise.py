"""Minimisers of a smooth function with a gradient; each hands back the best point it has seen."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.numerics.interrupts import check, heard
from onehead.numerics.lbfgs import Memory

__all__ = ["Minimum", "Stopped", "adam", "lbfgs", "stationarity"]

Array = NDArray[np.float64]
Function = Callable[[Array], tuple[float, Array]]
Curvature = Callable[[Array], Callable[[Array], Array]]

MEMORY = 20  # pairs that L-BFGS keeps; fewer need more passes, more cost as much as a pass
REFRESHED = 4  # steps after which what weights say of the curvature is asked for again
EVALUATIONS_PER_STEP = 3  # line searches of L-BFGS use a little more than one
MOMENTS = (0.9, 0.999)  # of Adam
GUARD = 1e-8
FIRST = 0.1  # length of the first step, relative to the weights
ENOUGH, FLATTER = 1e-4, 0.9  # of the slope along a line: how far the value has to fall, and what may be left (Wolfe)
ROUNDING = 1e-6  # of the value: within it the slope alone says whether a step went down, since rounded values do not
ALONG = 20  # evaluations along a line


class Stopped(Exception):
    """Raised by a function to be minimised when somebody asked to stop."""


class Minimum(NamedTuple):
    """The best point seen, its value and relative stationarity, evaluations, and how the search ended."""

    theta: Array
    value: float
    stationarity: float
    evaluations: int
    status: str


def stationarity(theta: Array, value: float, gradient: Array) -> float:
    """|gradient| |θ| / value: the relative fall that a move of relative size one would promise."""
    return float(np.linalg.norm(gradient) * np.linalg.norm(theta) / max(abs(value), 1e-300))


@dataclass
class _Best:
    """Counts evaluations and keeps the lowest point."""

    function: Function
    evaluations: int = 0
    value: float = np.inf
    theta: Array = field(default_factory=lambda: np.empty(0))
    gradient: Array = field(default_factory=lambda: np.empty(0))

    def __call__(self, theta: Array) -> tuple[float, Array]:
        value, gradient = self.function(theta)
        check()
        self.evaluations += 1
        if value < self.value:
            self.keep(theta, value, gradient)
        return value, gradient

    def keep(self, theta: Array, value: float, gradient: Array) -> None:
        """The point to hand back."""
        self.value, self.theta, self.gradient = float(value), theta.copy(), gradient

    @property
    def stationarity(self) -> float:
        return stationarity(self.theta, self.value, self.gradient)

    def minimum(self, status: str) -> Minimum:
        return Minimum(self.theta, self.value, self.stationarity, self.evaluations, status)


def _guarded(best: _Best, run: Callable[[], str]) -> Minimum:
    """Run a search; Ctrl-C, or a request to stop, ends it with the best point so far."""
    try:
        with heard():
            status = run()
    except (KeyboardInterrupt, Stopped):
        if best.evaluations == 0:
            raise
        status = "interrupted: the best weights so far"
    return best.minimum(status)


def lbfgs(
    function: Function,
    theta: Array,
    *,
    tolerance: float,
    max_iterations: int,
    rough: Function | None = None,
    curvature: Curvature | None = None,
) -> Minimum:
    """L-BFGS until the relative stationarity falls below ``tolerance``.

    With a ``rough`` function, the same up to rounding but cheaper, the search goes as far as it can on that one. ``curvature`` gives
    what the weights say of the inverse Hessian, up to a scale, as a function of the gradient.

    Examples
    --------
    >>> found = lbfgs(lambda x: (1.0 + x @ x, 2.0 * x), np.ones(3), tolerance=1e-8, max_iterations=50)
    >>> found.status, round(float(found.value), 6)
    ('converged', 1.0)
    """
    search = _Search(np.array(theta, dtype=np.float64), tolerance, max_iterations, curvature)
    spent = 0
    if rough is not None:
        begun = search.on(rough)
        spent = begun.evaluations
        if begun.status.startswith("interrupted"):
            return begun
    found = search.on(function)
    return found._replace(evaluations=found.evaluations + spent)


@dataclass
class _Search:
    """A search that goes on where it was, on one function after the other."""

    theta: Array
    tolerance: float
    max_iterations: int
    curvature: Curvature | None
    iterations: int = 0

    def __post_init__(self) -> None:
        # pairs in single precision: they show the way, and are most of what a step has to read
        self.memory = Memory(len(self.theta), MEMORY, np.float32)

    def on(self, function: Function) -> Minimum:
        """Search until the tolerance is met, or nothing falls any more but by rounding."""
        best = _Best(function)
        return _guarded(best, lambda: self._run(best))

    def _run(self, best: _Best) -> str:
        value, gradient = best(self.theta)
        turn: Callable[[Array], Array] | None = None
        while (left := stationarity(self.theta, value, gradient)) > self.tolerance:
            if self.iterations >= self.max_iterations or best.evaluations >= EVALUATIONS_PER_STEP * self.max_iterations:
                return f"stopped after {self.max_iterations} iterations, stationarity {best.stationarity:.1e}"
            if self.curvature is not None and (turn is None or self.iterations % REFRESHED == 0):
                turn = self.curvature(self.theta)
            move = -self.memory.turned(gradient, turn)
            if self.memory.count == 0:
                move *= FIRST * float(np.linalg.norm(self.theta)) / max(float(np.linalg.norm(move)), 1e-300)
            found = _gone(best, self.theta, value, gradient, move)
            if found is None and self.memory.count > 0:  # what was learned misleads
                self.memory.count = 0
                continue
            if found is None:
                return f"converged to rounding, stationarity {left:.1e}"
            length, value, new = found
            step = length * move
            self.theta = self.theta + step
            self.memory.add(step, new - gradient)
            gradient = new
            self.iterations += 1
        best.keep(self.theta, value, gradient)  # lower values may be so by rounding alone
        return "converged"


def _gone(
    function: Function, theta: Array, value: float, gradient: Array, move: Array
) -> tuple[float, float, Array] | None:
    """How far to go along a line, the value and the gradient there; nothing where it does not fall."""
    slope = float(gradient @ move)
    if not slope < 0.0:
        return None
    low, high, length = 0.0, np.inf, 1.0
    for _ in range(ALONG):
        reached, there = function(theta + length * move)
        left = float(there @ move)
        fallen = reached <= value + ENOUGH * length * slope
        level = reached <= value + ROUNDING * abs(value) and left <= (2.0 * ENOUGH - 1.0) * slope
        if not (fallen or level):
            high = length
            bent = 2.0 * (reached - value - slope * length)
            new = -slope * length**2 / bent if bent > 0.0 else 0.0
            length = low + min(max(new - low, 0.1 * (high - low)), 0.5 * (high - low))
        elif left < FLATTER * slope:
            low = length
            length = 2.5 * length if high == np.inf else 0.5 * (low + high)
        else:
            return length, float(reached), there
    return None


def adam(function: Function, theta: Array, *, tolerance: float, max_iterations: int, rate: float = 0.1) -> Minimum:
    """Adam with a constant learning rate, the papers' own method, with the same test of stationarity.

    Examples
    --------
    >>> found = adam(lambda x: (1.0 + x @ x, 2.0 * x), np.ones(3), tolerance=1e-6, max_iterations=2000)
    >>> found.status, round(float(found.value), 6)
    ('converged', 1.0)
    """
    best = _Best(function)

    def run() -> str:
        x, first, second = theta.copy(), np.zeros(theta.shape), np.zeros(theta.shape)
        for step in range(1, max_iterations + 1):
            value, gradient = best(x)
            if stationarity(x, value, gradient) <= tolerance:
                return "converged"
            first += (1.0 - MOMENTS[0]) * (gradient - first)
            second += (1.0 - MOMENTS[1]) * (gradient**2 - second)
            mean = first / (1.0 - MOMENTS[0] ** step)
            x -= rate * mean / (np.sqrt(second / (1.0 - MOMENTS[1] ** step)) + GUARD)
        return f"stopped after {max_iterations} iterations, stationarity {best.stationarity:.1e}"

    return _guarded(best, run)
