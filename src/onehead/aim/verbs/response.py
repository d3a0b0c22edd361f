"""How a solution answers to a little more data or weight decay: derivatives from the equations, no second solve.

With y = (log q, log m, log Sigma) = F(y; α, λ), dy = (1 - F')^-1 dF at fixed y. Only the input channel moves with α and
λ at fixed y: the hats are proportional to α, and λ enters through the threshold alone.
"""

import numpy as np
from numpy.typing import NDArray

from onehead.aim.equations.state_evolution import StateEvolution
from onehead.aim.equations.unknowns import Hats
from onehead.aim.verbs.predict import Prediction, overlaps_of, predict

__all__ = ["decay_slope", "error_partials", "local_exponent"]

STEP = 1e-4  # of the logarithm of a hat or of λ: central differences, their error is its square
STRIDE = 2e-2  # of log α or log λ where the point has to be solved again on both sides
CLEAR = 0.05  # of 1 - m²/(Q q): closer to perfect recovery F' by differences is too rough


def error_partials(problem: StateEvolution, q: float, m: float) -> tuple[float, float]:
    """(dE/dq, dE/dm) of the noisy test error, in reduced units, by central differences.

    The step is a share of the distance from the edge of the domain, q = m²/Q, where a noiseless head ends up.
    """
    room = q - m * m / problem.label_power
    step_q = 1e-2 * min(room, q)
    step_m = step_q / max(2.0 * abs(m) / problem.label_power, 1.0)

    def error(q: float, m: float) -> float:
        return problem.output.fresh_loss(q, m, loss="squared")

    along_q = (error(q + step_q, m) - error(q - step_q, m)) / (2.0 * step_q)
    along_m = (error(q, m + step_m) - error(q, m - step_m)) / (2.0 * step_m)
    return along_q, along_m


def local_exponent(point: Prediction) -> float:
    """d log(excess error) / d log n at fixed weight decay (8.4); zero where the map has not emerged.

    Examples
    --------
    >>> from onehead.aim import Learner, PowerLaw, Task, predict
    >>> from onehead.aim.verbs.response import local_exponent
    >>> task = Task(target=PowerLaw(gamma=0.75, dim=200))
    >>> round(local_exponent(predict(task, Learner(weight_decay=1.0, leading=0), alpha=1.5)), 2)
    -0.78
    """
    if point.rank == 0.0:
        return 0.0
    problem = point.equations
    if point.directions or not _has_jacobian(point, problem):
        near = point if point.directions else None
        sides = [
            predict(point.task, point.learner, point.alpha * float(np.exp(d)), near=near) for d in (-STRIDE, STRIDE)
        ]
        low, high = (max(side.excess_error, 1e-300) for side in sides)
        return float(np.log(high / low) / (2.0 * STRIDE))
    hats = Hats(point.q_hat, point.m_hat, point.sigma_hat)
    more, less = (hats.times(float(np.exp(d))) for d in (STEP, -STEP))
    moved = problem.input.overlaps(more).logs - problem.input.overlaps(less).logs
    return _error_change(point, problem, moved / (2.0 * STEP)) / point.excess_error


def decay_slope(point: Prediction) -> float:
    """d(test error) / d log λ at fixed sample ratio; zero at the best weight decay, and where S = 0."""
    if point.rank == 0.0 or point.learner.decay == 0.0:
        return 0.0
    problem = point.equations
    if not _has_jacobian(point, problem):
        decays = [point.learner.decay * float(np.exp(d)) for d in (-STRIDE, STRIDE)]
        low, high = (predict(point.task, point.learner.changed(weight_decay=d), point.alpha) for d in decays)
        return (high.test_error - low.test_error) / (2.0 * STRIDE)
    hats = problem.hats_of(point.q_hat, point.m_hat, point.sigma_hat, [one.effective for one in point.directions])
    more, less = (problem.with_decay(problem.decay * float(np.exp(d))) for d in (STEP, -STEP))
    moved = more.overlaps_of(hats).logs - less.overlaps_of(hats).logs
    return _error_change(point, problem, moved / (2.0 * STEP))


def _has_jacobian(point: Prediction, problem: StateEvolution) -> bool:
    """Whether the point knows F' well enough."""
    q, m = problem.units.reduced(point.q, point.m)
    return point.jacobian is not None and 1.0 - m**2 / (problem.label_power * q) > CLEAR


def _error_change(point: Prediction, problem: StateEvolution, forced: NDArray[np.float64]) -> float:
    """Change of the test error when F moves by ``forced`` at fixed y and y follows."""
    assert point.jacobian is not None
    response = np.linalg.solve(np.eye(len(forced)) - np.asarray(point.jacobian), forced)
    if point.directions:  # along the change itself
        y = overlaps_of(point).logs
        ahead, behind = (problem.state_of(y + d * STEP * response)[:-1] for d in (1.0, -1.0))
        change = [problem.output.fresh_loss(*pair, loss="squared") for pair in (ahead, behind)]
        return (change[0] - change[1]) / (2.0 * STEP)
    q, m = problem.units.reduced(point.q, point.m)
    along_q, along_m = error_partials(problem, q, m)
    return float(along_q * q * response[0] + along_m * m * response[1])
