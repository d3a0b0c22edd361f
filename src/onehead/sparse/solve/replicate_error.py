"""Solutions of a readout on each replicate of its sample, by one Newton step from the solution of their union (S4.3).

The equations are solved on the union, at u. With the averages of replicate r alone their residual is F_r instead of
zero, and the solution moves by -J^-1 F_r. This costs one evaluation for all replicates together.
"""

import numpy as np

from onehead.sparse.losses import Loss, Square
from onehead.sparse.solve.square import solve_square
from onehead.sparse.solve.stationarity import newton_step
from onehead.sparse.theory.features import Features
from onehead.sparse.theory.order_parameters import Solution

# Largest step of log rp and log chi; beyond it the linearisation says only that the error is large.
MAX_LOG_STEP = 3.0


def solve_replicates(
    features: Features, loss: Loss, solution: Solution, *, alpha: float, ridge: float
) -> list[Solution]:
    """Return the solution on every replicate of ``features``, from the solution on their union."""
    replicates = features.replicates()
    if isinstance(loss, Square):
        return [solve_square(replicate, alpha=alpha, ridge=ridge) for replicate in replicates]
    # a collapsed readout has no equations, and is the same on every replicate
    if not replicates or solution.equations is None or solution.unknowns is None:
        return [solution] * len(replicates)
    with np.errstate(all="ignore"):
        systems = [solution.equations(replicate)(solution.unknowns) for replicate in replicates]
        jacobian = np.mean([slope for _, slope in systems], axis=0)
        steps = [newton_step(jacobian, residual) for residual, _ in systems]
    limit = np.append(np.full(solution.x.size, np.inf), [MAX_LOG_STEP, MAX_LOG_STEP])
    known = {} if np.isfinite(solution.chi) else {"chi": solution.chi}
    return [
        Solution.from_unknowns(
            solution.unknowns - np.clip(step, -limit, limit),
            residual=solution.residual,
            evaluations=0,
            status=solution.status,
            **known,
        )
        for step in steps
    ]
