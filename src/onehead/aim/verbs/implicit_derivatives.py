"""Derivatives of a prediction with respect to the sample ratio and the weight decay, by the implicit function theorem.

With y = (log q, log m, log Σ) = F(y; α, λ), dy = (1 - F')^-1 dF at fixed y, without a second solve. At fixed y only the
input channel depends on α and λ: the conjugate fields are proportional to α, and λ enters through the threshold only.
"""

import numpy as np
from numpy.typing import NDArray

from onehead.aim.theory.build import heads_are_coupled
from onehead.aim.theory.order_parameters import Hats
from onehead.aim.theory.state_evolution import StateEvolution
from onehead.aim.verbs.predict import Prediction, hats_of, overlaps_of, predict
from onehead.aim.verbs.several_heads import predict_several_heads

LOG_STEP = 1e-4  # central differences in the logarithm of a conjugate field or of λ: relative error about its square
SOLVE_LOG_STEP = 2e-2  # central differences in log α or log λ where the equations are solved again on both sides
MIN_DISTANCE_FROM_RECOVERY = 0.05  # of 1 - m²/(Q q): closer to perfect recovery the numerical F' is too inaccurate


def error_partials(problem: StateEvolution, q: float, m: float) -> tuple[float, float]:
    """Partial derivatives (dE/dq, dE/dm) of the test error with noise, in reduced units, by central differences.

    The step is a share of the distance to the boundary q = m²/Q of the domain, which a noiseless head approaches.
    """
    distance = q - m * m / problem.label_power
    step_q = 1e-2 * min(distance, q)
    step_m = step_q / max(2.0 * abs(m) / problem.label_power, 1.0)

    def error(q: float, m: float) -> float:
        return problem.output.fresh_loss(q, m, loss="squared")

    by_q = (error(q + step_q, m) - error(q - step_q, m)) / (2.0 * step_q)
    by_m = (error(q, m + step_m) - error(q, m - step_m)) / (2.0 * step_m)
    return by_q, by_m


def local_exponent(point: Prediction) -> float:
    """Local exponent d log(excess error) / d log n at fixed weight decay (8.4); zero where the map has not emerged.

    Examples
    --------
    >>> from onehead.aim import Learner, PowerLaw, Task, predict
    >>> from onehead.aim.verbs.implicit_derivatives import local_exponent
    >>> task = Task(target=PowerLaw(gamma=0.75, dim=200))
    >>> round(local_exponent(predict(task, Learner(weight_decay=1.0, leading=0), alpha=1.5)), 2)
    -0.78
    """
    if point.rank == 0.0:
        return 0.0
    problem = point.equations
    if problem.directions.count or not has_accurate_jacobian(point, problem):
        near = point if problem.directions.count else None
        sides = [
            predict(point.task, point.learner, point.alpha * float(np.exp(d)), near=near)
            for d in (-SOLVE_LOG_STEP, SOLVE_LOG_STEP)
        ]
        low, high = (max(side.excess_error, 1e-300) for side in sides)
        return float(np.log(high / low) / (2.0 * SOLVE_LOG_STEP))
    hats = Hats(point.q_hat, point.m_hat, point.sigma_hat)
    more, less = (hats.times(float(np.exp(d))) for d in (LOG_STEP, -LOG_STEP))
    shift = problem.input.overlaps(more).coordinates - problem.input.overlaps(less).coordinates
    return _error_change(point, problem, shift / (2.0 * LOG_STEP)) / point.excess_error


def decay_slope(point: Prediction) -> float:
    """Slope d(test error) / d log λ at fixed sample ratio; zero at the best weight decay, and where S = 0."""
    if point.rank == 0.0 or point.learner.decay == 0.0:
        return 0.0
    problem = point.equations
    if not has_accurate_jacobian(point, problem):
        decays = [point.learner.decay * float(np.exp(d)) for d in (-SOLVE_LOG_STEP, SOLVE_LOG_STEP)]
        learners = [point.learner.changed(weight_decay=d) for d in decays]
        if heads_are_coupled(point.task, point.learner):
            sides = [predict_several_heads(point.task, one, point.alpha, point, smooth=True) for one in learners]
        else:
            sides = [predict(point.task, one, point.alpha) for one in learners]
        low, high = sides
        return (high.test_error - low.test_error) / (2.0 * SOLVE_LOG_STEP)
    hats = hats_of(problem, point)
    more, less = (problem.with_decay(problem.decay * float(np.exp(d))) for d in (LOG_STEP, -LOG_STEP))
    shift = more.overlaps_of(hats).coordinates - less.overlaps_of(hats).coordinates
    return _error_change(point, problem, shift / (2.0 * LOG_STEP))


def _coordinates(problem: StateEvolution, point: Prediction) -> NDArray[np.float64]:
    """Return the coordinates of a converged point."""
    overlaps = overlaps_of(problem, point)
    assert overlaps is not None
    return overlaps.coordinates


def has_accurate_jacobian(point: Prediction, problem: StateEvolution) -> bool:
    """Whether the Jacobian of a prediction is known and accurate."""
    q, m = problem.units.reduced(point.q, point.m)
    if point.task.heads > 1:  # the Jacobian is that of one head, the errors are those of the sum
        return False
    return point.jacobian is not None and 1.0 - m**2 / (problem.label_power * q) > MIN_DISTANCE_FROM_RECOVERY


def _error_change(point: Prediction, problem: StateEvolution, shift: NDArray[np.float64]) -> float:
    """First-order change of the test error when F changes by ``shift`` at fixed y."""
    assert point.jacobian is not None
    response = np.linalg.solve(np.eye(len(shift)) - np.asarray(point.jacobian), shift)
    if problem.directions.count:  # one directional derivative instead of K + 2 partial ones
        y = _coordinates(problem, point)
        ahead, behind = (problem.zero.at(y + d * LOG_STEP * response).values for d in (1.0, -1.0))
        errors = [problem.output.fresh_loss(*values, loss="squared") for values in (ahead, behind)]
        return (errors[0] - errors[1]) / (2.0 * LOG_STEP)
    q, m = problem.units.reduced(point.q, point.m)
    by_q, by_m = error_partials(problem, q, m)
    return float(by_q * q * response[0] + by_m * m * response[1])
