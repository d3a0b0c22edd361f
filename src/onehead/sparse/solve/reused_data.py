"""Solver of the staged protocol on the same samples: damped steps, then Powell's hybrid method (J15-J24)."""

from typing import Any, NamedTuple

import numpy as np

from onehead.errors import NotConverged
from onehead.sparse.losses import Array
from onehead.sparse.theory.joint.reused_data import Residual, ReusedData, ReusedReadout

__all__ = ["ReusedSolution", "solve_reused"]

DAMPING = 0.5
MAX_DAMPED_STEPS = 80
DAMPED_TOLERANCE = 1e-3  # residual from which Powell's method converges
TOLERANCE = 1e-7  # largest residual of a solution
START = ReusedReadout(0.3, 0.01, 0.3, 0.1, 0.5, 0.0, 0.0, 0.0)


class ReusedSolution(NamedTuple):
    """Order parameters, the equations there, the largest residual and the number of evaluations."""

    readout: ReusedReadout
    equations: Residual
    residual: float
    evaluations: int


def solve_reused(equations: ReusedData, start: ReusedReadout | None = None) -> ReusedSolution:
    """Solve for the readout; ``start`` is the solution of a neighbouring problem.

    Raises
    ------
    NotConverged
        If the residual stays above the tolerance.
    """
    from scipy.optimize import root  # scipy.optimize is loaded when first needed

    evaluations = 0

    def values(u: Array) -> Array:
        nonlocal evaluations
        evaluations += 1
        with np.errstate(all="ignore"):
            found = equations.residual(ReusedReadout.from_unknowns(u)).values
        return np.where(np.isfinite(found), found, 1e6)

    readout, count = _damped(equations, start or START) if start is None else (start, 0)
    options: Any = {"xtol": 1e-12, "maxfev": 400}
    found = root(values, readout.unknowns(), method="hybr", options=options)
    if start is not None and not np.max(np.abs(found.fun)) < TOLERANCE:
        return solve_reused(equations)
    solution = ReusedReadout.from_unknowns(found.x)
    residual = float(np.max(np.abs(values(found.x))))
    if not residual < TOLERANCE:
        raise NotConverged(
            f"the equations of the readout on reused data stopped at a residual of {residual:.1e}; raise ridge.",
            residual=residual,
        )
    return ReusedSolution(solution, equations.residual(solution), residual, evaluations + count)


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
        d_m, d_b = np.linalg.solve(found.newton, [found.values[0] / scale, found.values[5]])
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
