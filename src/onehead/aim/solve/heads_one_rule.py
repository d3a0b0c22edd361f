"""Solution of the equations of several heads on one quadrature rule (M4)."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from onehead.aim.solve.fixed_sample_ratio import Secants
from onehead.aim.theory.input.several_heads import ModeHats, ModeOverlaps, SampledHeads
from onehead.aim.theory.output.several_heads import ModeAverages, ModeState
from onehead.aim.theory.several_heads import SeveralHeads
from onehead.errors import NotConverged, OutsideDomain
from onehead.numerics.fixed_point import fixed_point

Array = NDArray[np.float64]

TOLERANCE = 1e-6  # residual of the logarithms of the unknowns
MAX_ROUNDS = 6  # in which the minima of the nodes are chosen
CHOICE_TOLERANCE = 1e-5  # change of the logarithms of the unknowns by a choice that counts as none
MEMORY, DAMPING, MAX_STEP, LIMIT = 6, 0.6, 0.7, 100.0  # of Anderson acceleration (M4)
ALIKE = 3e-3  # scale of the values of the differences, relative to that of the mean, below which they vanish


@dataclass(frozen=True)
class HeadsPoint:
    """A solution on one rule.

    ``unsettled`` is the solution of the round before, where the choice between the minima of the nodes goes on
    changing; ``checked`` has the averages with both minima of every node, where they are known at the solution.
    """

    state: ModeState
    hats: ModeHats
    overlaps: ModeOverlaps
    averages: ModeAverages
    residual: float
    evaluations: int
    secants: Secants
    checked: ModeAverages | None = None
    unsettled: "HeadsPoint | None" = None

    def change(self, problem: SeveralHeads) -> float:
        """Change of the logarithms of the unknowns by the last choice between minima; zero if that has settled."""
        if self.unsettled is None:
            return 0.0
        now, before = (one.state.coordinates(problem.output.label_power) for one in (self, self.unsettled))
        return float(np.max(np.abs(now - before)))

    def train(self, problem: SeveralHeads, alpha: float) -> float:
        """Training loss over d²."""
        return alpha * self.averages.loss + problem.penalty(self.overlaps, self.state.scales)


def solve_on_rule(
    problem: SeveralHeads, alpha: float, level: int, start: ModeState, secants: Secants = ()
) -> HeadsPoint:
    """Solve the equations on one rule.

    Where the proximal operator may jump, the lower minimum of every node is chosen at the start of a round and kept
    during its iterations, which makes the equations smooth; rounds end when a new choice changes nothing. The rounds
    are a fixed point of their own, and are extrapolated like one.
    """
    if not problem.stiff:
        return solve_round(problem, alpha, level, start, secants=secants)
    Q, points = problem.output.label_power, problem.output.points_at(level)
    rounds: list[tuple[float, HeadsPoint]] = []

    def next_round(x: Array) -> Array:
        known = rounds[-1][1].secants if rounds else secants
        point = solve_round(problem, alpha, level, ModeState.at(x, Q), points=points, secants=known)
        found = point.state.coordinates(Q)
        rounds.append((float(np.max(np.abs(found - x))), point))
        return found

    try:
        fixed_point(
            next_round,
            start.coordinates(Q),
            tolerance=CHOICE_TOLERANCE,
            damping=1.0,
            memory=2,
            max_step=MAX_STEP,
            limit=LIMIT,
            max_evaluations=MAX_ROUNDS,
        )
    except NotConverged:
        if len(rounds) < MAX_ROUNDS:  # a round failed
            raise
    evaluations = sum(point.evaluations for _, point in rounds)
    change, point = rounds[-1]
    before = None if change < CHOICE_TOLERANCE else rounds[-2][1]
    return replace(point, evaluations=evaluations, unsettled=before)


def solve_round(
    problem: SeveralHeads,
    alpha: float,
    level: int,
    start: ModeState,
    *,
    points: Array | None = None,
    secants: Secants = (),
    maps: SampledHeads | None = None,
    tolerance: float = TOLERANCE,
) -> HeadsPoint:
    """Iterate the equations on one rule, where the operator may jump with the minima that the first evaluation chose.

    Sampled ``maps`` replace the input channel.
    """
    output, Q, stiff = problem.output, problem.output.label_power, problem.stiff
    overlaps_of = problem.input.overlaps if maps is None else maps.at
    work = output.points_at(level) if points is None else points
    last: dict[str, tuple[ModeState, ModeHats, ModeOverlaps, ModeAverages]] = {}
    checked: list[ModeAverages] = []

    def step(x: Array) -> Array:
        state, check = ModeState.at(x, Q), stiff and not last
        averages = output.averages(state, level, derivatives=check or not stiff, check=check, points=work)
        checked[:] = [averages] if check else []
        scales = problem.scales(averages, alpha)
        if problem.modes.heads > 1 and scales[1] < ALIKE * scales[0]:
            raise OutsideDomain(
                "weight decay on the values makes all heads alike here, for which there is no solution; lower "
                "value_decay or raise alpha."
            )
        hats = problem.hats(averages, alpha)
        overlaps = overlaps_of(hats)
        last["now"] = (state, hats, overlaps, averages)
        if not (np.min(overlaps.q - overlaps.m**2 / Q) > 0.0 and np.min([overlaps.m, overlaps.sigma]) > 0.0):
            raise OutsideDomain("an overlap of a mode of the heads is not positive; lower sharing or raise alpha.")
        return ModeState(overlaps.q, overlaps.m, overlaps.sigma, scales).coordinates(Q)

    found = fixed_point(
        step,
        start.coordinates(Q),
        tolerance=tolerance,
        damping=DAMPING,
        memory=MEMORY,
        max_step=MAX_STEP,
        limit=LIMIT,
        max_evaluations=150,
        secants=secants,
    )
    return HeadsPoint(*last["now"], found.residual, found.evaluations, found.secants, next(iter(checked), None))
