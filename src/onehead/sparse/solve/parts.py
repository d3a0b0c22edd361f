"""How far the numbers of a readout move from one part of its sample to the next (S4.3).

The equations are solved on the whole sample, at u. Under the averages of part r alone their residual is F_r instead of zero,
and the solution moves by -J^-1 F_r: one Newton step, at the cost of one more evaluation for all parts together.
"""

import numpy as np

from onehead.sparse.equations.features import Features
from onehead.sparse.equations.order import Solution
from onehead.sparse.losses import Loss, Square
from onehead.sparse.solve.square import solve_square
from onehead.sparse.solve.stationarity import newton_step

__all__ = ["solve_parts"]

FARTHEST = 3.0  # that a logarithm moves: beyond it a part says no more than that the error is large


def solve_parts(features: Features, loss: Loss, solution: Solution, *, alpha: float, ridge: float) -> list[Solution]:
    """The solution of every part of a sample, from that of the whole."""
    parts = features.split()
    if isinstance(loss, Square):
        return [solve_square(part, alpha=alpha, ridge=ridge) for part in parts]
    if (
        not parts or solution.equations is None or solution.unknowns is None
    ):  # none where collapsed, whatever the sample
        return [solution] * len(parts)
    with np.errstate(all="ignore"):
        found = [solution.equations(part)(solution.unknowns) for part in parts]
        jacobian = np.mean([slope for _, slope in found], axis=0)
        steps = [newton_step(jacobian, residual) for residual, _ in found]
    limit = np.append(np.full(solution.x.size, np.inf), [FARTHEST, FARTHEST])
    known = {} if np.isfinite(solution.chi) else {"chi": solution.chi}
    return [
        Solution.at(
            solution.unknowns - np.clip(step, -limit, limit),
            residual=solution.residual,
            evaluations=0,
            status=solution.status,
            **known,
        )
        for step in steps
    ]
