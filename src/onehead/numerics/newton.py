"""A safeguarded Newton method for compiled code, made by one function for every form of the Hessian.

Near a minimum the method is Newton's. Where the Hessian is not positive definite, the caller gives a step that leads
downhill. Steps are halved until the objective falls by a share of what its slope promises (Armijo).
"""

from typing import Any

from onehead.numerics.jit import njit

MAX_NEWTON = 200
ARMIJO = 1e-4
LAST_STEP = 1e-5  # relative size of a step that leaves an error of about its square, as Newton's method is quadratic
FLAT = 1e-10  # largest gradient entry at a minimum
ROUNDING = 1e-13  # relative size of a step that only rounding is left to gain from
SLACK = 1e-14  # rounding of the objective: without it the last steps would be refused
SHORTEST = 1e-12  # length of a step below which only rounding is left to gain
KICK = 0.1  # step off a saddle along its downward direction, where the gradient alone shows none
LONGEST = 5.0  # longest step where the curvature is not positive: the quadratic model says little there
SAFE_PIVOT = 1e-6  # share of a diagonal entry below which a pivot is rounding, not curvature
MINIMUM_GAIN = 1e-10  # relative difference of the objective by which a minimum is lower than another one


@njit
def is_lower(value, than):
    """Whether a minimum is lower than another one by more than the error of both."""
    return value < than - MINIMUM_GAIN * (1.0 + abs(than))


def safeguarded_newton(objective: Any, newton_step: Any, displace: Any, accept: Any, steepest: Any) -> Any:
    """Make a compiled function ``minimise(problem, point, work) -> (point, state)``.

    A point is a tuple of numbers, held in registers, or an array, which is overwritten. What the functions need of the
    problem is passed on in the tuple ``problem``, and their work space in the tuple ``work``.

    Parameters
    ----------
    objective : compiled function (problem, point, work) -> state
        Evaluates a point. The first entry of ``state`` is the objective; derivatives are further entries, or are
        written to ``work``.
    newton_step : compiled function (problem, point, state, work) -> (move, slope, size, regular)
        The step, the slope of the objective along it, its size relative to the point, and whether it is Newton's own,
        taken where the Hessian is positive definite.
    displace : compiled function (point, move, length, work) -> point
        point + length * move.
    accept : compiled function (point, trial) -> point
        Replaces the point by the trial point.
    steepest : compiled function (state, work) -> float
        Largest gradient entry.
    """

    @njit(cache=False)  # compiled into the functions that call it, and cached with them
    def minimise(problem, point, work):
        """Move to the minimum that Newton's method reaches from ``point``; return it and its state."""
        state = objective(problem, point, work)
        for _ in range(MAX_NEWTON):
            move, slope, size, regular = newton_step(problem, point, state, work)
            allowed, length = state[0] + SLACK * (1.0 + abs(state[0])), 1.0
            while True:
                trial = displace(point, move, length, work)
                new = objective(problem, trial, work)
                if new[0] <= allowed + ARMIJO * length * slope or length < SHORTEST:
                    break
                length *= 0.5
            point, state = accept(point, trial), new
            if length < SHORTEST:
                break
            if regular and length == 1.0 and size < LAST_STEP and (steepest(state, work) < FLAT or size < ROUNDING):
                break
        return point, state

    return minimise


@njit
def _displace_vector(point, move, length, work):
    """Fill the work space ``trial`` with point + length * move."""
    trial = work[2]
    for i in range(point.shape[0]):
        trial[i] = point[i] + length * move[i]
    return trial


@njit
def _displace_matrix(point, move, length, work):
    """Fill the work space ``trial`` with point + length * move."""
    trial = work[2]
    for i in range(point.shape[0]):
        for j in range(point.shape[1]):
            trial[i, j] = point[i, j] + length * move[i, j]
    return trial


@njit
def _accept_vector(point, trial):
    """Overwrite the point by the trial point."""
    for i in range(point.shape[0]):
        point[i] = trial[i]
    return point


@njit
def _accept_matrix(point, trial):
    """Overwrite the point by the trial point."""
    for i in range(point.shape[0]):
        for j in range(point.shape[1]):
            point[i, j] = trial[i, j]
    return point


@njit
def _steepest_of_vector(state, work):
    """Largest entry of the gradient in the work space."""
    gradient, steepest = work[0], 0.0
    for i in range(gradient.shape[0]):
        steepest = max(steepest, abs(gradient[i]))
    return steepest


@njit
def largest_entry(matrix):
    """Largest absolute value of the entries of a matrix, without work space."""
    largest = 0.0
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            largest = max(largest, abs(matrix[i, j]))
    return largest


@njit
def _steepest_of_matrix(state, work):
    """Largest entry of the gradient in the work space."""
    return largest_entry(work[0])


def newton_on_vectors(objective: Any, newton_step: Any) -> Any:
    """Make `safeguarded_newton` for points that are vectors; ``work`` begins with gradient, step and trial point."""
    return safeguarded_newton(objective, newton_step, _displace_vector, _accept_vector, _steepest_of_vector)


def newton_on_matrices(objective: Any, newton_step: Any) -> Any:
    """Make `safeguarded_newton` for points that are matrices; ``work`` begins with gradient, step and trial point."""
    return safeguarded_newton(objective, newton_step, _displace_matrix, _accept_matrix, _steepest_of_matrix)
