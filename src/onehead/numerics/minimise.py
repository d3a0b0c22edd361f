"""L-BFGS and Adam for a smooth function with a gradient; each returns the best point it evaluated."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.numerics.interrupts import raise_if_interrupted, record_interrupts
from onehead.numerics.lbfgs import LbfgsHistory

Array = NDArray[np.float64]
Function = Callable[[Array], tuple[float, Array]]
Curvature = Callable[[Array], Callable[[Array], Array]]

HISTORY_PAIRS = 20  # pairs in the L-BFGS history; fewer need more passes over the data, more cost as much as a pass
PRECONDITIONER_PERIOD = 4  # iterations after which the preconditioner is computed again
EVALUATIONS_PER_STEP = 3  # limit of evaluations per iteration; line searches of L-BFGS use little more than one
ADAM_MOMENTS = (0.9, 0.999)
ADAM_EPSILON = 1e-8
FIRST_STEP = 0.1  # length of the first step, relative to the weights
WOLFE_DECREASE, WOLFE_CURVATURE = 1e-4, 0.9  # sufficient decrease, and largest share of the slope that may be left
VALUE_ROUNDING = 1e-6  # relative change of the value below which the line search trusts the slope instead
MAX_LINE_EVALUATIONS = 20


class Stopped(Exception):
    """Raised by the function to be minimised when a stop was requested."""


class Minimum(NamedTuple):
    """The best point, its value and relative stationarity, number of evaluations, and how the search ended."""

    theta: Array
    value: float
    stationarity: float
    evaluations: int
    status: str


def stationarity(theta: Array, value: float, gradient: Array) -> float:
    """Relative stationarity |gradient| |θ| / value: first-order relative decrease for a step of relative length one."""
    return float(np.linalg.norm(gradient) * np.linalg.norm(theta) / max(abs(value), 1e-300))


@dataclass
class _Best:
    """Wrapper of the function that counts evaluations and remembers the lowest point."""

    function: Function
    evaluations: int = 0
    value: float = np.inf
    theta: Array = field(default_factory=lambda: np.empty(0))
    gradient: Array = field(default_factory=lambda: np.empty(0))

    def __call__(self, theta: Array) -> tuple[float, Array]:
        value, gradient = self.function(theta)
        raise_if_interrupted()
        self.evaluations += 1
        if value < self.value:
            self.keep(theta, value, gradient)
        return value, gradient

    def keep(self, theta: Array, value: float, gradient: Array) -> None:
        """Set the point to return."""
        self.value, self.theta, self.gradient = float(value), theta.copy(), gradient

    @property
    def stationarity(self) -> float:
        """Relative stationarity of the best point."""
        return stationarity(self.theta, self.value, self.gradient)

    def minimum(self, status: str) -> Minimum:
        """The best point as a result."""
        return Minimum(self.theta, self.value, self.stationarity, self.evaluations, status)


def _interruptible(best: _Best, run: Callable[[], str]) -> Minimum:
    """Run a search; Ctrl-C or a stop request ends it with the best point so far."""
    try:
        with record_interrupts():
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
    low_precision: Function | None = None,
    curvature: Curvature | None = None,
) -> Minimum:
    """Minimise by L-BFGS until the relative stationarity is below ``tolerance``.

    With ``low_precision``, a cheaper version of the function with rounding errors, the search runs on it first, as far
    as possible. ``curvature`` returns, for given weights, a preconditioner: an approximate inverse Hessian up to a
    scale, as a function of the gradient.

    Examples
    --------
    >>> found = lbfgs(lambda x: (1.0 + x @ x, 2.0 * x), np.ones(3), tolerance=1e-8, max_iterations=50)
    >>> found.status, round(float(found.value), 6)
    ('converged', 1.0)
    """
    search = _Search(np.array(theta, dtype=np.float64), tolerance, max_iterations, curvature)
    evaluations = 0
    if low_precision is not None:
        first = search.on(low_precision)
        evaluations = first.evaluations
        if first.status.startswith("interrupted"):
            return first
    found = search.on(function)
    return found._replace(evaluations=found.evaluations + evaluations)


@dataclass
class _Search:
    """L-BFGS search that can continue on another function with its history."""

    theta: Array
    tolerance: float
    max_iterations: int
    curvature: Curvature | None
    iterations: int = 0

    def __post_init__(self) -> None:
        # single precision is enough for a search direction, and reading the history dominates the cost of a step
        self.history = LbfgsHistory(len(self.theta), HISTORY_PAIRS, np.float32)

    def on(self, function: Function) -> Minimum:
        """Search until the tolerance is met, or the value decreases no more but by rounding."""
        best = _Best(function)
        return _interruptible(best, lambda: self._run(best))

    def _run(self, best: _Best) -> str:
        """Iterate and return the status."""
        value, gradient = best(self.theta)
        preconditioner: Callable[[Array], Array] | None = None
        while (current := stationarity(self.theta, value, gradient)) > self.tolerance:
            if self.iterations >= self.max_iterations or best.evaluations >= EVALUATIONS_PER_STEP * self.max_iterations:
                return f"stopped after {self.max_iterations} iterations, stationarity {best.stationarity:.1e}"
            if self.curvature is not None and (preconditioner is None or self.iterations % PRECONDITIONER_PERIOD == 0):
                preconditioner = self.curvature(self.theta)
            move = -self.history.apply_inverse_hessian(gradient, preconditioner)
            if self.history.count == 0:
                move *= FIRST_STEP * float(np.linalg.norm(self.theta)) / max(float(np.linalg.norm(move)), 1e-300)
            found = _line_search(best, self.theta, value, gradient, move)
            if found is None and self.history.count > 0:  # the history gives a bad direction: start again without it
                self.history.count = 0
                continue
            if found is None:
                return f"converged to rounding, stationarity {current:.1e}"
            length, value, new = found
            step = length * move
            self.theta = self.theta + step
            self.history.add(step, new - gradient)
            gradient = new
            self.iterations += 1
        best.keep(self.theta, value, gradient)  # a lower value elsewhere may be due to rounding
        return "converged"


def _line_search(
    function: Function, theta: Array, value: float, gradient: Array, move: Array
) -> tuple[float, float, Array] | None:
    """Step length that meets the Wolfe conditions, with value and gradient; None if the value does not decrease."""
    slope = float(gradient @ move)
    if not slope < 0.0:
        return None
    low, high, length = 0.0, np.inf, 1.0
    for _ in range(MAX_LINE_EVALUATIONS):
        new_value, new_gradient = function(theta + length * move)
        new_slope = float(new_gradient @ move)
        decreased = new_value <= value + WOLFE_DECREASE * length * slope
        # where the change is within rounding, the slope decides whether the step went down
        level = new_value <= value + VALUE_ROUNDING * abs(value) and new_slope <= (2.0 * WOLFE_DECREASE - 1.0) * slope
        if not (decreased or level):
            high = length
            curvature = 2.0 * (new_value - value - slope * length)
            parabola = -slope * length**2 / curvature if curvature > 0.0 else 0.0
            length = low + min(max(parabola - low, 0.1 * (high - low)), 0.5 * (high - low))
        elif new_slope < WOLFE_CURVATURE * slope:
            low = length
            length = 2.5 * length if high == np.inf else 0.5 * (low + high)
        else:
            return length, float(new_value), new_gradient
    return None


def adam(function: Function, theta: Array, *, tolerance: float, max_iterations: int, rate: float = 0.1) -> Minimum:
    """Minimise by Adam with a constant learning rate, as in the paper, until the stationarity is below ``tolerance``.

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
            first += (1.0 - ADAM_MOMENTS[0]) * (gradient - first)
            second += (1.0 - ADAM_MOMENTS[1]) * (gradient**2 - second)
            mean = first / (1.0 - ADAM_MOMENTS[0] ** step)
            x -= rate * mean / (np.sqrt(second / (1.0 - ADAM_MOMENTS[1] ** step)) + ADAM_EPSILON)
        return f"stopped after {max_iterations} iterations, stationarity {best.stationarity:.1e}"

    return _interruptible(best, run)
