"""Several solutions of the equations of several heads, where the replica-symmetric solution is unstable (M4).

The proximal operator has several minima there, and the equations may have solutions of different size. A stable
problem has one solution; what is unstable is solved from a second start, and the other solution is reported.
"""

from contextlib import suppress
from dataclasses import replace

import numpy as np

from onehead.aim.solve.branches import DISTINCT_LOG_DISTANCE
from onehead.aim.solve.certificate import OtherSolution, with_warning
from onehead.aim.solve.several_heads import HeadsSolution, larger_map, reported_numbers, solve_several_heads
from onehead.aim.theory.output.several_heads import ModeState
from onehead.aim.theory.several_heads import SeveralHeads
from onehead.aim.theory.state_evolution import StateEvolution
from onehead.errors import SolveError

ANOTHER_START, NO_JUMPS = "another start of the solver", "equations without jumps of the proximal operator"


def solve_heads_branches(
    problem: SeveralHeads,
    single: StateEvolution,
    alpha: float,
    *,
    near: ModeState | None = None,
    accuracy: float | None = None,
) -> HeadsSolution:
    """Solve the equations, from a second start too where the solution is unstable; see `solve_several_heads`.

    A solution that follows the jumps of the proximal operator comes before one that does not see them: the test error
    of trained heads lay between the two, closer to the first one. Of others the one with the smaller replicon is
    returned: where both were unstable, the training loss of trained heads was that of this one. Differences of the two
    solutions are added to the errors.
    """
    found = solve_several_heads(problem, single, alpha, near=near, accuracy=accuracy)
    if not _unstable(found):
        return found
    smooth = found.without_jumps
    if smooth is not None and _distinct(problem, found, smooth):
        return _joined(problem, single, found, smooth, "this one follows the jumps of the proximal operator", NO_JUMPS)
    with suppress(SolveError):
        if near is None:
            jumping = replace(problem, prox_jumps=True)
            other = solve_several_heads(jumping, single, alpha, near=larger_map(found.state), accuracy=accuracy)
        else:
            other = solve_several_heads(problem, single, alpha, accuracy=accuracy)
        if _distinct(problem, found, other):
            best, other = sorted((found, other), key=_replicon)
            text = f"this one has the smaller replicon ({_replicon(best):.4g}, not {_replicon(other):.4g})"
            return _joined(problem, single, best, other, text, ANOTHER_START)
    return found


def _replicon(solution: HeadsSolution) -> float:
    """Return the replicon; zero where it is not known, as at zero maps."""
    return solution.certificate.replicon or 0.0


def _unstable(solution: HeadsSolution) -> bool:
    """Whether the replica-symmetric solution is unstable."""
    return _replicon(solution) >= 1.0


def _distinct(problem: SeveralHeads, one: HeadsSolution, other: HeadsSolution) -> bool:
    """Whether two solutions differ by more than the choice of a rule or of minima changes."""
    sizes = [problem.modes.own(solution.state.q) for solution in (one, other)]
    if min(sizes) == 0.0:
        return max(sizes) > 0.0
    return bool(abs(np.log(sizes[0] / sizes[1])) > DISTINCT_LOG_DISTANCE)


def _joined(
    problem: SeveralHeads, single: StateEvolution, best: HeadsSolution, other: HeadsSolution, why: str, source: str
) -> HeadsSolution:
    """Return the first solution with the second one listed, and with their differences in the errors."""
    known, further = (reported_numbers(problem, one, one.train) for one in (best, other))
    errors = {
        name: error + abs(known[name] - further[name]) if name in known else error
        for name, error in best.certificate.errors.items()
    }
    errors |= dict.fromkeys(("test_loss", "excess_error"), errors["test_error"])
    listed = OtherSolution(
        test_error=further["test_error"],
        train_loss=other.train,
        q=single.units.own(further["q"], further["m"])[0],
        reached_from=source,
    )
    text = (
        f"the equations have another solution here, with test error {listed.test_error:.4g} and training loss "
        f"{listed.train_loss:.4g}; {why}, and trained heads may lie between them, which the errors include"
    )
    certificate = replace(best.certificate, errors=errors, quadrature_error=errors["test_error"])
    return best._replace(certificate=with_warning(certificate, text), others=(listed,))
