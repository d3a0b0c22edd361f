"""Minimisers of a smooth function with a gradient; each hands back the best point it has seen."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.numerics.interrupts import check, heard

__all__ = ["Minimum", "Stopped", "adam", "lbfgs", "stationarity"]

Array = NDArray[np.float64]
Function = Callable[[Array], tuple[float, Array]]

MEMORY = 20  # pairs that L-BFGS keeps; fewer need more passes, more cost as much as a pass
EVALUATIONS_PER_STEP = 3  # line searches of L-BFGS use a little more than one
MOMENTS = (0.9, 0.999)  # of Adam
GUARD = 1e-8
ROUGH = 5e-3  # stationarity at which a search on rounded samples hands over; rounding ends it at about 3e-3


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
            self.value, self.theta, self.gradient = float(value), theta.copy(), gradient
        return value, gradient

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
    function: Function, theta: Array, *, tolerance: float, max_iterations: int, rough: Function | None = None
) -> Minimum:
    """L-BFGS until the relative stationarity falls below ``tolerance``.

    With a ``rough`` function, the same up to rounding but cheaper, the search begins on that one.

    Examples
    --------
    >>> found = lbfgs(lambda x: (1.0 + x @ x, 2.0 * x), np.ones(3), tolerance=1e-8, max_iterations=50)
    >>> found.status, float(found.value)
    ('converged', 1.0)
    """
    from scipy.optimize import minimize  # noqa: PLC0415

    spent = 0
    if rough is not None and tolerance < ROUGH:
        begun = lbfgs(rough, theta, tolerance=ROUGH, max_iterations=max_iterations)
        theta, spent = begun.theta, begun.evaluations
        if begun.status.startswith("interrupted"):
            return begun
    best = _Best(function)

    def reached(_: Array) -> None:
        if best.stationarity <= tolerance:
            raise StopIteration

    def run() -> str:
        # scipy's own tests are switched off: they depend on the units of θ
        options: Any = {
            "maxiter": max_iterations,
            "maxfun": EVALUATIONS_PER_STEP * max_iterations,
            "maxcor": MEMORY,
            "ftol": 0.0,
            "gtol": 0.0,
        }
        search: Any = minimize  # the stubs know no callable objects
        search(best, theta, jac=True, method="L-BFGS-B", callback=reached, options=options)
        if best.stationarity <= tolerance:
            return "converged"
        if best.evaluations < max_iterations:
            return f"converged to rounding, stationarity {best.stationarity:.1e}"
        return f"stopped after {max_iterations} iterations, stationarity {best.stationarity:.1e}"

    found = _guarded(best, run)
    return found._replace(evaluations=found.evaluations + spent)


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
