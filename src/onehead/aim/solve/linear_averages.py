"""Solution on a rule of many points whose averages are extrapolated linearly in the order parameters.

Averages over the proximal operator take nearly all of the time of a solution. Close to the solution they are linear in
the order parameters, with slopes that the coarsest rule gives. After one evaluation on the fine rule the equations are
therefore solved without another one, for averages that move along these slopes. The evaluation is repeated at this
solution until the slopes no longer matter.
"""

import numpy as np

from onehead.aim.solve.error_estimate import Linearisation
from onehead.aim.solve.fixed_sample_ratio import Iterate, Vector, secants_of
from onehead.aim.solve.strategy import project
from onehead.aim.theory.order_parameters import Hats, Overlaps
from onehead.aim.theory.output.averages import ProxAverages, ProxCache
from onehead.aim.theory.state_evolution import StateEvolution
from onehead.errors import NotConverged, OutsideDomain
from onehead.numerics.fixed_point import fixed_point

TOLERANCE = 3e-6  # estimated residual of the equations on the fine rule
TOLERANCE_WITHOUT_CONTROLS = 3e-5  # where no control variates correct averages, whose error is a few thousandths
SCALAR_TOLERANCE = 1e-9  # residual of the equations with averages that are linear
FIRST_SHARE = 0.2  # share of the first shift that errors of the slopes are assumed to leave
LARGEST_SHIFT = 0.1  # of a coordinate in one extrapolation
MAXIMUM_EVALUATIONS = 4


def solve_with_linear_averages(
    problem: StateEvolution, alpha: float, coordinates: Vector, level: int, linearisation: Linearisation
) -> Iterate:
    """Solve on the rule of a level, from coordinates close to the solution.

    The residual of the answer is estimated: the share of it that an evaluation leaves is that of the last two.

    Raises
    ------
    NotConverged
        If the solution is too far away.
    """
    slopes, output = linearisation.averages, problem.output
    assert slopes is not None
    tolerance = TOLERANCE if output.uses_controls else TOLERANCE_WITHOUT_CONTROLS
    cache, secants = ProxCache(track_minimum=False), secants_of(linearisation.step)
    share, last = FIRST_SHARE, np.inf
    for evaluation in range(1, MAXIMUM_EVALUATIONS + 1):
        state = _state(problem, coordinates)
        averages = output.averages(*state, level=level, detail=2 if evaluation > 1 else 1, cache=cache)
        parts = cache.parts
        centre = coordinates

        def step(y: Vector, averages: ProxAverages = averages, centre: Vector = centre) -> tuple[Hats, Overlaps]:
            moved = averages.moved(slopes, y - centre)
            hats = output.hats_of(moved, *_state(problem, y), derivative=True).times(alpha)
            return hats, problem.overlaps_of(hats)

        solved = fixed_point(
            lambda y: step(y)[1].coordinates,
            centre,
            tolerance=SCALAR_TOLERANCE,
            project=lambda y: project(problem, y),
            secants=secants,
        )
        shift = solved.value - centre
        size = float(np.max(np.abs(shift)))
        if size > LARGEST_SHIFT or size > last:
            raise NotConverged("averages are not linear between the coarsest rule and a finer one.", residual=size)
        if evaluation > 1:
            share = size / last
        residual = share * float(np.max(np.abs(shift - linearisation.step @ shift)))
        coordinates, last = solved.value, size
        if residual < tolerance:
            break
    else:
        raise NotConverged(f"the residual stopped at {residual:.1e}.", residual=residual)
    hats, overlaps = step(coordinates)
    if not overlaps.m > 0.0:
        raise NotConverged("the overlap with the target is not positive.", residual=residual)
    cache.state = state
    cache.averages = averages.moved(slopes, shift)
    cache.parts = None if parts is None else [part.moved(slopes, shift) for part in parts]
    return Iterate(overlaps, hats, residual, evaluation, level, alpha, cache, secants)


def _state(problem: StateEvolution, coordinates: Vector) -> tuple[float, ...]:
    """Return the arguments of averages at these coordinates."""
    overlaps = problem.zero.at(coordinates)
    if overlaps.sectors[0, 0] == 0.0:
        raise OutsideDomain("the iteration reached the zero map.")
    return overlaps.state
