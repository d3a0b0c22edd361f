"""Solver of the replica-symmetric equations of the joint minimum: several starts, Anderson acceleration, continuation.

A fixed point is sought in nine unknowns: overlaps, bias, and the logarithms of the variances and the inverse hyperbolic
tangents of the correlations of Q - m m' and V. Overlaps and bias take Newton steps, without which the iteration falls
into a cycle of two; a saddle of the objective in overlaps and bias is not a solution.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from onehead.errors import NonFinite, NotConverged, SolveError
from onehead.numerics.fixed_point import fixed_point
from onehead.sparse.losses import Array
from onehead.sparse.theory.joint.joint_minimum import JointMinimum, JointPoint, MinimumAverages

TOLERANCE = 1e-6  # largest change of an unknown
DAMPING = 0.5  # of the steps without extrapolation
DAMPED_STEPS = (15, 60)  # before the first extrapolation, and before the next attempt
MAX_STEP = 0.5  # of an unknown
MAX_EVALUATIONS, PATIENCE = 120, 40  # of one solve
LIMIT = 100.0  # of an unknown
SMALLEST_CURVATURE = 1e-3  # of a Newton step, over the largest one
DISTINCT = 0.02  # difference of an unknown from which two solutions on a small set of points are different
CORRELATION_MARGIN = 1e-12  # distance of a correlation from 1 to which it is clipped
# in a continuation both ridges start at this value, or where they are if they are larger
LARGE_RIDGE = 1.0
FIRST_FRACTION, GROWTH, SHRINKAGE = 0.34, 1.5, 0.4  # steps of a continuation, in shares of the way in log ridge
SMALLEST_FRACTION = 0.01
SMALL = JointPoint(
    np.array([0.02, 0.05]), np.array([[1e-3, 0.0], [0.0, 1e-2]]), np.array([[1.0, 0.0], [0.0, 1.0]]), 0.0
)
ALIGNED = JointPoint(
    np.array([1.2, 1.2]), np.array([[0.1, 0.0], [0.0, 0.2]]), np.array([[3.0, -1.0], [-1.0, 4.0]]), -2.0
)
SMALL_WEIGHTS, LARGER_RIDGES = "small weights", "larger ridges"
STARTS = {SMALL_WEIGHTS: SMALL, "the signal": ALIGNED}


class RidgeProblem(NamedTuple):
    """Samples over dimension, and the ridges of query (in units of beta^2) and readout."""

    alpha: float
    ridge_query: float
    ridge: float

    @property
    def ridges(self) -> Array:
        """Diagonal matrix of the ridges."""
        return np.diag([self.ridge_query, self.ridge])

    def towards(self, share: float) -> "RidgeProblem":
        """Return the problem at a share of the way from large ridges to these, along a line in log ridge."""
        end = np.log([self.ridge_query, self.ridge])
        start = np.maximum(end, np.log(LARGE_RIDGE))
        query, readout = np.exp(start + share * (end - start)).tolist()
        return RidgeProblem(self.alpha, query, readout)


@dataclass(frozen=True)
class JointSolution:
    """Order parameters of a joint minimum and averages there, its objective, and from where it was reached."""

    point: JointPoint
    averages: MinimumAverages
    objective: float
    reached_from: str
    residual: float
    evaluations: int

    def differs(self, other: "JointSolution") -> bool:
        """Return whether the order parameters differ by more than a small set of points resolves."""
        return bool(np.max(np.abs(_unknowns(self.point) - _unknowns(other.point))) > DISTINCT)


def find_minima(equations: JointMinimum, problem: RidgeProblem) -> tuple[JointSolution, ...]:
    """Return the different solutions of (J26, J27) reached from every start, the lowest objective first.

    Where neither small weights nor the signal lead to a solution, or the one found is not stable, solutions are also
    continued from larger ridges.

    Raises
    ------
    NotConverged
        If no start leads to a solution.
    """
    found: list[JointSolution] = []
    for name, start in STARTS.items():
        equations.fields = None
        with suppress(SolveError):
            near = _approach(equations, problem, start, DAMPED_STEPS[0])
            found.append(solve_joint_minimum(equations, problem, near, name))
    failure: NotConverged | None = None
    if len(found) < len(STARTS) or any(problem.alpha * one.averages.stability >= 1.0 for one in found):
        equations.fields = None
        try:
            found.append(_continue(equations, problem))
        except NotConverged as error:
            failure = error
    if not found:
        raise failure or NotConverged("the joint minimum was not found.")
    return distinct_minima(found)


def distinct_minima(found: Iterable[JointSolution]) -> tuple[JointSolution, ...]:
    """Return the different ones of some solutions, the lowest objective first; of equal ones the first is kept."""
    different: list[JointSolution] = []
    for one in found:
        if all(one.differs(other) for other in different):
            different.append(one)
    return tuple(sorted(different, key=lambda solution: solution.objective))


def solve_joint_minimum(
    equations: JointMinimum, problem: RidgeProblem, start: JointPoint, reached_from: str = ""
) -> JointSolution:
    """Solve (J26, J27) from a given point.

    Raises
    ------
    SolveError
        If the iteration does not settle.
    """
    at: list[tuple[JointPoint, MinimumAverages]] = []

    def step(unknowns: Array) -> Array:
        point = _point(unknowns)
        with np.errstate(all="ignore"):
            averages = equations.averages(point)
            at[:] = [(point, averages)]
            return _unknowns(_next(point, averages, problem))

    try:
        found = fixed_point(
            step,
            _unknowns(start),
            tolerance=TOLERANCE,
            max_evaluations=MAX_EVALUATIONS,
            damping=DAMPING,
            max_step=MAX_STEP,
            patience=PATIENCE,
            limit=LIMIT,
        )
    except np.linalg.LinAlgError:  # of a sample at an extreme point
        raise NonFinite("the equations of the joint minimum are singular.") from None
    point, averages = at[0]
    if np.linalg.eigvalsh(_hessian(point, averages, problem.alpha))[0] <= 0.0:
        raise NotConverged("the iteration ended at a saddle of the objective.", residual=found.residual)
    return JointSolution(
        point=point,
        averages=averages,
        objective=averages.train_loss + 0.5 * float(np.trace(problem.ridges @ point.gram)),
        reached_from=reached_from,
        residual=found.residual,
        evaluations=found.evaluations,
    )


def solve_from_neighbour(equations: JointMinimum, problem: RidgeProblem, near: JointSolution) -> JointSolution:
    """Return the solution next to that of another set of points; where the iteration fails, damped steps go first.

    Raises
    ------
    SolveError
        If the iteration does not settle.
    """
    point = near.point
    for steps in DAMPED_STEPS:
        with suppress(SolveError):
            return solve_joint_minimum(equations, problem, point, near.reached_from)
        point = _approach(equations, problem, point, steps)
    return solve_joint_minimum(equations, problem, point, near.reached_from)


def _approach(equations: JointMinimum, problem: RidgeProblem, start: JointPoint, steps: int) -> JointPoint:
    """Return the point after some damped steps: far from a solution extrapolation would lead astray."""
    unknowns = _unknowns(start)
    with np.errstate(all="ignore"):
        for _ in range(steps):
            point = _point(unknowns)
            change = _unknowns(_next(point, equations.averages(point), problem)) - unknowns
            if not np.isfinite(change).all():
                return point
            unknowns = unknowns + np.clip(DAMPING * change, -MAX_STEP, MAX_STEP)
    return _point(unknowns)


def _continue(equations: JointMinimum, problem: RidgeProblem) -> JointSolution:
    """Follow a solution from large ridges to the ones asked for, in shorter steps where it fails.

    Raises
    ------
    NotConverged
        If the solution is lost on the way; the message says where, and what it was like there.
    """
    share, fraction, start = 0.0, FIRST_FRACTION, SMALL
    best: JointSolution | None = None
    reached, evaluations = 0.0, 0
    while True:
        fields = equations.fields
        try:
            best = solve_joint_minimum(equations, problem.towards(share), start, LARGER_RIDGES)
        except SolveError as error:
            equations.fields = fields  # of the last solution
            fraction *= SHRINKAGE
            if best is None or fraction < SMALLEST_FRACTION:
                raise _lost(problem.towards(reached), best, error) from None
        else:
            reached, start, evaluations = share, best.point, evaluations + best.evaluations
            if share == 1.0:
                return replace(best, evaluations=evaluations)
            fraction = min(GROWTH * fraction, 1.0) if share > 0.0 else fraction
        share = min(reached + fraction, 1.0)


def _lost(at: RidgeProblem, last: JointSolution | None, error: SolveError) -> NotConverged:
    """Return the failure of a continuation that ended at some ridges, with the solution there."""
    residual = getattr(error, "residual", np.inf)
    if last is None:
        return NotConverged(f"the joint minimum was not found ({error})", residual=residual)
    stability = at.alpha * last.averages.stability
    cause = (
        f"there it is no longer stable (stability {stability:.3g}), and several minima compete below"
        if stability >= 1.0
        else f"there it is stable (stability {stability:.3g}), and below the equations do not settle"
    )
    return NotConverged(
        f"the joint minimum was followed from larger ridges down to ridge_query = {at.ridge_query:.3g}, "
        f"ridge = {at.ridge:.3g}: {cause}; raise the ridges, or use descend for the first steps.",
        residual=residual,
    )


def _next(point: JointPoint, found: MinimumAverages, problem: RidgeProblem) -> JointPoint:
    """Return the point of an undamped step: (J26), (J27), and Newton's method for overlaps and bias."""
    alpha = problem.alpha
    slope = np.append(np.linalg.solve(point.susceptibility, point.overlap) / alpha - found.drift, found.slope)
    values, vectors = np.linalg.eigh(_hessian(point, found, alpha))
    values = np.maximum(np.abs(values), SMALLEST_CURVATURE * np.max(np.abs(values)))  # downhill also near a saddle
    change = -vectors @ ((vectors.T @ slope) / values)
    susceptibility = np.asarray(np.linalg.inv(alpha * (problem.ridges + found.curvature)), dtype=np.float64)
    if np.linalg.eigvalsh(susceptibility)[0] <= 0.0:  # far from a minimum K may be negative
        susceptibility = np.asarray(GROWTH * point.susceptibility)
    return JointPoint(
        point.overlap + change[:2],
        alpha * point.susceptibility @ found.noise @ point.susceptibility,
        susceptibility,
        point.bias + float(change[2]),
    )


def _hessian(point: JointPoint, found: MinimumAverages, alpha: float) -> Array:
    """Return the second derivatives of the objective by overlaps and bias at fixed Q - m m' and V."""
    hessian = 0.5 * (found.newton + found.newton.T)
    hessian[:2, :2] += np.linalg.inv(point.susceptibility) / alpha
    return hessian


def _unknowns(point: JointPoint) -> Array:
    """Return overlaps, bias, and logarithms and correlations of Q - m m' and V."""
    return np.array([*point.overlap, point.bias, *_of_matrix(point.noise), *_of_matrix(point.susceptibility)])


def _point(unknowns: Array) -> JointPoint:
    """Return the point of nine unknowns."""
    return JointPoint(unknowns[:2], _matrix(unknowns[3:6]), _matrix(unknowns[6:9]), float(unknowns[2]))


def _of_matrix(matrix: Array) -> tuple[float, float, float]:
    """Return logarithms of the variances and the inverse hyperbolic tangent of the correlation."""
    correlation = matrix[0, 1] / np.sqrt(matrix[0, 0] * matrix[1, 1])
    margin = 1.0 - CORRELATION_MARGIN
    return (
        float(np.log(matrix[0, 0])),
        float(np.log(matrix[1, 1])),
        float(np.arctanh(np.clip(correlation, -margin, margin))),
    )


def _matrix(unknowns: Array) -> Array:
    """Return the covariance matrix of three unknowns."""
    deviations = np.exp(0.5 * unknowns[:2])
    matrix = np.outer(deviations, deviations)
    matrix[0, 1] *= np.tanh(unknowns[2])
    matrix[1, 0] = matrix[0, 1]
    return matrix
