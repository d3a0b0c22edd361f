"""Solver of the replica-symmetric equations of the joint minimum: damped steps with Newton's method in (m, b)."""

from typing import NamedTuple

import numpy as np

from onehead.errors import NotConverged
from onehead.sparse.theory.joint.joint_minimum import JointMinimum, JointPoint, MinimumAverages

__all__ = ["JointSolution", "solve_joint_minimum"]

DAMPING = 0.5
MAX_SWEEPS = 200
TOLERANCE = 1e-6  # largest relative change of an order parameter
MAX_NEWTON_STEP = 0.5  # of overlaps and bias
START = JointPoint(np.array([0.5, 0.8]), np.array([[0.1, 0.0], [0.0, 0.2]]), np.array([[3.0, -1.0], [-1.0, 4.0]]), -1.0)


class JointSolution(NamedTuple):
    """Order parameters of the joint minimum, the averages there, the residual and the number of sweeps."""

    point: JointPoint
    averages: MinimumAverages
    residual: float
    sweeps: int


def solve_joint_minimum(
    equations: JointMinimum, *, alpha: float, ridge_query: float, ridge: float, start: JointPoint | None = None
) -> JointSolution:
    """Solve (J26, J27) from a start with small weights, or from the solution of a neighbouring problem.

    Raises
    ------
    NotConverged
        If the iteration does not settle: several minima compete there, and the equations give no prediction.
    """
    ridges = np.diag([ridge_query, ridge])
    point = start or START
    residual = np.inf
    for sweep in range(1, MAX_SWEEPS + 1):
        with np.errstate(all="ignore"):
            found = equations.averages(point)
            new, residual = _step(point, found, alpha, ridges)
        if not np.isfinite(residual):
            break
        if residual < TOLERANCE:
            return JointSolution(point, found, residual, sweep)
        point = new
    raise NotConverged(
        f"the joint minimum was not found (residual {residual:.1e}): several minima compete; raise ridge_query, or use "
        "descend for the first steps.",
        residual=residual,
    )


def _step(point: JointPoint, found: MinimumAverages, alpha: float, ridges: np.ndarray) -> tuple[JointPoint, float]:
    """Return the next point, and the largest relative change that an undamped step would make."""
    inverse = np.linalg.inv(point.susceptibility)
    susceptibility = np.linalg.inv(alpha * (ridges + found.curvature))
    noise = alpha * point.susceptibility @ found.noise @ point.susceptibility
    overlap = alpha * point.susceptibility @ found.drift
    newton = found.newton.copy()
    newton[:2, :2] += inverse / alpha
    change = -np.linalg.solve(newton, np.append(inverse @ point.overlap / alpha - found.drift, found.slope))
    change *= min(1.0, MAX_NEWTON_STEP / float(np.max(np.abs(change)) + 1e-300))
    residual = max(
        float(np.max(np.abs(susceptibility - point.susceptibility)) / np.max(np.abs(susceptibility))),
        float(np.max(np.abs(noise - point.noise)) / np.trace(noise)),
        float(np.max(np.abs(overlap - point.overlap)) / (1e-3 + np.max(np.abs(overlap)))),
        abs(found.slope),
    )
    return (
        JointPoint(
            point.overlap + change[:2],
            point.noise + DAMPING * (noise - point.noise),
            point.susceptibility + DAMPING * (susceptibility - point.susceptibility),
            point.bias + float(change[2]),
        ),
        residual,
    )
