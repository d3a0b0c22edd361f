"""Solver of the staged protocol on the same samples: damped steps, then Powell's hybrid method (J15-J24)."""

from typing import Any, NamedTuple

import numpy as np

from onehead.errors import NotConverged
from onehead.sparse.losses import Array
from onehead.sparse.theory.joint.reused_data import Residual, ReusedData, ReusedReadout

DAMPING = 0.5
MAX_DAMPED_STEPS = 80
DAMPED_TOLERANCE = 1e-3  # residual from which Powell's method converges
TOLERANCE = 1e-7  # largest residual of a solution
RIDGE_STEP = 2.0  # of log ridge, in a continuation from a larger one
SHORTEST_RIDGE_STEP = 0.05
LARGEST_LOG_RIDGE = 5.0
START = ReusedReadout(0.3, 0.01, 0.3, 0.1, 0.5, 0.0, 0.0, 0.0)


class ReusedSolution(NamedTuple):
    """Order parameters, the equations there, the largest residual and the number of evaluations."""

    readout: ReusedReadout
    equations: Residual
    residual: float
    evaluations: int


@np.errstate(all="ignore")  # far from a solution variances may vanish or overflow
def solve_reused(equations: ReusedData, start: ReusedReadout | None = None) -> ReusedSolution:
    """Solve for the readout; ``start`` is the solution of a neighbouring problem.

    Where neither the start nor damped steps lead to the solution, it is continued from a larger ridge.

    Raises
    ------
    NotConverged
        If the residual stays above the tolerance.
    """
    found = None if start is None else _powell(equations, start)
    if found is None or not found.residual < TOLERANCE:
        found = _from_damped_steps(equations)
    if not found.residual < TOLERANCE:
        found = _from_larger_ridge(equations)
    if not found.residual < TOLERANCE:
        raise NotConverged(
            f"the equations of the readout on reused data stopped at a residual of {found.residual:.1e}; raise ridge.",
            residual=found.residual,
        )
    return found


def _from_damped_steps(equations: ReusedData) -> ReusedSolution:
    """Return the result of damped steps and Powell's method, from a start without knowledge."""
    readout, steps = _damped(equations, START)
    found = _powell(equations, readout)
    return found._replace(evaluations=found.evaluations + steps)


def _from_larger_ridge(equations: ReusedData) -> ReusedSolution:
    """Follow the solution from the first larger ridge at which damped steps find it, in shorter steps where needed."""
    target = float(np.log(equations.protocol.ridge))
    at, found = target, None
    for at in np.arange(np.ceil(target), LARGEST_LOG_RIDGE + RIDGE_STEP, RIDGE_STEP).tolist():
        found = _from_damped_steps(equations.with_ridge(float(np.exp(at))))
        if found.residual < TOLERANCE:
            break
    if found is None or not found.residual < TOLERANCE:
        return _powell(equations, START)
    step = RIDGE_STEP
    while at > target and step > SHORTEST_RIDGE_STEP:
        tried = max(at - step, target)
        last = tried == target
        closer = _powell(equations if last else equations.with_ridge(float(np.exp(tried))), found.readout)
        if closer.residual < TOLERANCE:
            at, found, step = tried, closer, 1.5 * step
        else:
            step *= 0.5
    return found if at == target else _powell(equations, found.readout)


def _powell(equations: ReusedData, start: ReusedReadout) -> ReusedSolution:
    """Return the end of Powell's hybrid method, converged or not."""
    from scipy.optimize import root  # scipy.optimize is loaded when first needed

    evaluations = 0

    def values(u: Array) -> Array:
        nonlocal evaluations
        evaluations += 1
        with np.errstate(all="ignore"):
            found = equations.residual(ReusedReadout.from_unknowns(u)).values
        return np.where(np.isfinite(found), found, 1e6)

    options: Any = {"xtol": 1e-12, "maxfev": 400}
    found = root(values, start.unknowns(), method="hybr", options=options)
    solution = ReusedReadout.from_unknowns(found.x)
    with np.errstate(all="ignore"):
        at_solution = equations.residual(solution)
    residual = float(np.max(np.abs(at_solution.values)))
    return ReusedSolution(solution, at_solution, residual if np.isfinite(residual) else np.inf, evaluations)


def _damped(equations: ReusedData, readout: ReusedReadout) -> tuple[ReusedReadout, int]:
    """Iterate the equations with damping, and Newton's method for overlap and bias, where plain steps would diverge."""
    steps = 0
    for _ in range(MAX_DAMPED_STEPS):
        steps += 1
        with np.errstate(all="ignore"):
            found = equations.residual(readout)
        if not np.isfinite(found.values).all():
            break
        if np.max(np.abs(found.values)) < DAMPED_TOLERANCE:
            break
        scale = equations.alpha * readout.chi
        try:
            d_m, d_b = np.linalg.solve(found.newton, [found.values[0] / scale, found.values[5]])
        except np.linalg.LinAlgError:  # every sample is far beyond its margin, where the loss has no curvature
            break
        new = found.proposal
        mixed = [
            (1.0 - DAMPING) * old + DAMPING * proposed if name not in ("free_variance", "chi") else
            float(np.exp((1.0 - DAMPING) * np.log(old) + DAMPING * np.log(proposed)))
            for name, old, proposed in zip(ReusedReadout._fields, readout, new, strict=True)
        ]  # fmt: skip
        readout = ReusedReadout(*mixed)._replace(
            overlap=readout.overlap + DAMPING * float(d_m), bias=readout.bias + DAMPING * float(d_b)
        )
    return readout, steps
