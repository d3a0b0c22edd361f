"""Solves the equations (2) at one sample ratio: cheap quadrature first, finer rules only where they matter."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from onehead.aim.logits.row import LONGEST_ROW
from onehead.aim.solve.continuation import continue_in_decay, continue_in_sigma
from onehead.aim.solve.error_estimate import (
    ErrorEstimate,
    Linearisation,
    error_on_fresh,
    estimate_errors,
    jump_significance,
    linearise,
)
from onehead.aim.solve.fixed_sample_ratio import (
    Iterate,
    NegativeOverlap,
    Secants,
    Start,
    Vector,
    secants_of,
    solve_at_alpha,
)
from onehead.aim.solve.one_level import CLOSE, correct_coarse_solution, distance, no_solution_error, solve_at_level
from onehead.aim.solve.strategy import can_continue_in_decay, can_fix_sigma, isotropic_coordinates, project
from onehead.aim.theory.build import gaussian_independent_head
from onehead.aim.theory.limits.infinite_data import plateau_of
from onehead.aim.theory.order_parameters import Hats, Overlaps
from onehead.aim.theory.output.averages import ProxCache
from onehead.aim.theory.state_evolution import StateEvolution
from onehead.errors import NotConverged, OutsideDomain, SolveError

COARSE_TOLERANCE = 1e-4  # residual on the coarsest rule, whose own quadrature error is larger
EASIER_HEAD_TOLERANCE = 3e-2  # residual of a Gaussian head that only serves as a start for leading directions
BEFORE_NEWTON_TOLERANCE = 1e-2  # residual on the coarsest rule where a Newton step follows
BEFORE_CORRECTION_TOLERANCE = 1e-3  # and on the coarsest lattice where a correction follows
FINE_ENOUGH = 5e-5  # relative error of q and m at which no finer rule is tried: about as much in the test error
VISIBLE_SWITCH_MASS = 1e-4  # below this mass the two branches agree within about 2e-4 (2.7)
MAXIMUM_RELATIVE_ERROR = 1.0  # of q or m, beyond which there is nothing to report
SKIPPED_ERROR = 1.9  # error of a lattice over that wanted, beyond which the finest lattice follows at once
LEVEL_GAIN = 5.0  # least factor between the error of the coarsest lattice and that of the next one
JUMPING_LEVELS = (3, 4)  # where points jump between minima, errors fall slowly with the number of nodes
CERTAIN_JUMPS = 10.0  # standard errors by which Stein forms differ from derivatives at a solution on the coarsest rule
LAST_TRACKED_LEVEL = 3  # where minima compete the theory is approximate, and the finest rule not worth its cost


@dataclass(frozen=True, kw_only=True)
class Solution:
    """A solution in reduced units.

    Attributes
    ----------
    alpha : float
        Sample ratio.
    overlaps, hats : Overlaps, Hats
        Order parameters and their conjugate fields.
    residual : float
        Residual of the fixed point.
    evaluations : int
        Evaluations of the equations.
    level : int
        Quadrature level of the solution.
    error_estimate : ErrorEstimate
        Alternatives to the solution.
    jacobian : array
        F', the derivative of one step of the equations in the coordinates of the order parameters.
    switch_mass : float or None
        Share of samples with a lower minimum than the one near the label, where it was computed.
    cache : ProxCache
        Proximal points of the last evaluation.
    single_minimum : bool
        Whether no proximal objective was seen to have several minima.
    """

    alpha: float
    overlaps: Overlaps
    hats: Hats
    residual: float
    evaluations: int
    level: int
    error_estimate: ErrorEstimate
    jacobian: Vector
    switch_mass: float | None
    cache: ProxCache
    single_minimum: bool

    @property
    def coordinates(self) -> Vector:
        """Coordinates of the order parameters."""
        return self.overlaps.coordinates


def solve(
    problem: StateEvolution,
    alpha: float,
    start: Start | None = None,
    fine_enough: float = FINE_ENOUGH,
    accuracy: float | None = None,
) -> Solution:
    """Solve at one sample ratio, on rules that get finer until one is fine enough.

    Parameters
    ----------
    problem : StateEvolution
    alpha : float
        Sample ratio.
    start : Start, optional
        A neighbouring state.
    fine_enough : float
        Relative error of q and m at which no finer rule is tried.
    accuracy : float, optional
        Wanted relative error of the test error, for which levels beyond the default ones are used.

    Raises
    ------
    NotConverged
        If no route leads to a solution.
    """
    solution = _solve_from_neighbour(problem, alpha, start, fine_enough, accuracy)
    if solution is None:
        near = start.coordinates if start is not None else None
        tolerance = BEFORE_NEWTON_TOLERANCE if problem.output.geometry.sampled else BEFORE_CORRECTION_TOLERANCE
        coarse = _solve_coarsely(problem, alpha, near, tolerance)
        refined = _with_jumps(_with_single_minimum(problem, coarse[0]), coarse[0])
        solution = _refine_rules(refined, alpha, *coarse, fine_enough, accuracy, is_coarse_solution=True)
    if solution.error_estimate.multiple_minima:
        # the single-minimum assumption failed: solve again without it
        solution = _refine_rules(problem, alpha, solution.coordinates, (), solution.evaluations, fine_enough, accuracy)
    if solution.error_estimate.prox_jumps:
        # derivative forms do not see jumps of the prox: solve again with the Stein forms
        jumping = replace(problem, output=replace(problem.output, prox_jumps=True))
        return _refine_rules(jumping, alpha, solution.coordinates, (), solution.evaluations, fine_enough, accuracy)
    return solution


def _solve_from_neighbour(
    problem: StateEvolution, alpha: float, start: Start | None, fine_enough: float, accuracy: float | None
) -> Solution | None:
    """Solve from close coordinates whose F' is known, without the coarsest rule; None if that does not converge."""
    if start is None or start.jacobian is None or problem.output.geometry.sampled:
        return None
    try:
        return _refine_rules(problem, alpha, start.coordinates, secants_of(start.jacobian), 0, fine_enough, accuracy)
    except SolveError:
        return None


def _with_single_minimum(problem: StateEvolution, coordinates: Vector) -> StateEvolution:
    """Return the equations that assume one minimum of every prox, where a coarse rule sees no second one (L6).

    The assumption gives control variates whose means are known only without jumps.
    """
    output, overlaps = problem.output, problem.zero.at(coordinates)
    if not output.uses_controls or output.branch == "global" or output.convex_at(*overlaps.sigmas):
        return problem
    if not output.has_one_minimum(*overlaps.state, level=0):
        return problem
    return replace(problem, output=replace(output, single_minimum=True))


def _with_jumps(problem: StateEvolution, coordinates: Vector) -> StateEvolution:
    """Return the equations by Stein forms, where these differ from derivatives by far more than their sampling error.

    Derivatives do not see that proximal points jump: where they certainly do, a solution by derivatives would be slow
    and is not needed. Otherwise the error estimate of a solution decides.
    """
    output, state = problem.output, problem.zero.at(coordinates).state
    several = output.uses_controls and output.branch == "label" and not output.single_minimum
    if not several or output.convex_at(*problem.zero.at(coordinates).sigmas):
        return problem
    parts = output.parts(*state, level=output.geometry.levels[0])
    if jump_significance(output, state, parts) < CERTAIN_JUMPS:
        return problem
    return replace(problem, output=replace(output, prox_jumps=True))


def _refine_rules(
    problem: StateEvolution,
    alpha: float,
    coordinates: Vector,
    secants: Secants,
    evaluations: int,
    fine_enough: float,
    accuracy: float | None,
    *,
    is_coarse_solution: bool = False,
) -> Solution:
    """Solve on finer and finer rules until one is fine enough.

    ``is_coarse_solution`` says that the coordinates solve the equations on the coarsest rule.
    """
    solution: Solution | None = None
    linearisation: Linearisation | None = None
    output, sampled = problem.output, problem.output.geometry.sampled
    levels, omitted = [*output.geometry.levels, *(output.extra_levels if accuracy else ())], list[int]()
    switch_mass: float | None = None
    is_close, where = False, coordinates  # where the derivatives were taken
    if sampled:
        # one rule of many points follows: with the derivatives of the coarse one few evaluations are enough
        linearisation = linearise(problem, alpha, coordinates)
        coordinates = project(problem, coordinates + linearisation.newton_step)
        secants = secants_of(linearisation.step)
    elif is_coarse_solution and output.branch == "label":
        correction = correct_coarse_solution(problem, alpha, coordinates, levels[0])
        if correction is not None and (is_close := correction.size < CLOSE):
            linearisation, secants = correction.linearisation, secants_of(correction.linearisation.step)
            coordinates = project(problem, coordinates + correction.shift)
            jumping, switch_mass = correction.switch_mass > VISIBLE_SWITCH_MASS, correction.switch_mass
            if not accuracy and correction.coarse_error > LEVEL_GAIN * fine_enough:
                omitted = levels[:-1]
                levels = list(JUMPING_LEVELS) if jumping else levels[-1:]
    while levels:
        level = levels.pop(0)
        try:
            iterate = solve_at_level(
                problem, alpha, coordinates, level, secants, is_close=is_close, linearisation=linearisation
            )
        except SolveError:
            if solution is None and not omitted:
                raise
            levels, omitted = omitted, []  # without them, the coarser rule has a solution with its error estimate
            continue
        evaluations += iterate.evaluations
        is_close = is_close and distance(iterate.coordinates, where) < CLOSE
        if linearisation is None or not (sampled or is_close):
            linearisation = linearise(problem, alpha, iterate.coordinates)
        estimate = estimate_errors(problem, iterate, linearisation)
        if estimate.relative > MAXIMUM_RELATIVE_ERROR:
            _refuse_large_error(problem, alpha, iterate)
        first = solution is None
        if not is_close:
            switch_mass = _switch_mass(problem, iterate)
        # where points jump between minima a lattice and its check rule may agree by chance: the coarser rule counts too
        jumping = switch_mass is not None and switch_mass > VISIBLE_SWITCH_MASS
        if jumping and solution is not None:
            estimate = estimate.with_alternative(solution.error_estimate.found)
        solution = Solution(
            alpha=alpha,
            overlaps=iterate.overlaps,
            hats=iterate.hats,
            residual=iterate.residual,
            evaluations=evaluations,
            level=level,
            error_estimate=estimate,
            jacobian=linearisation.step,
            switch_mass=switch_mass,
            cache=iterate.cache,
            single_minimum=output.single_minimum,
        )
        coordinates = solution.coordinates
        secants = iterate.secants if sampled else secants_of(linearisation.step)
        if iterate.cache.track_minimum and level == LAST_TRACKED_LEVEL and not accuracy:
            break
        if estimate.multiple_minima or (estimate.prox_jumps and not output.prox_jumps):
            break
        if accuracy and sampled:
            skipped = _levels_too_coarse(problem, estimate, accuracy)
            levels = [] if skipped is None else levels[min(skipped, len(levels) - 1) :]
        elif estimate.relative < fine_enough and not (jumping and first):
            met = not accuracy or _levels_too_coarse(problem, estimate, accuracy) is None
            levels = [] if met else levels
        elif (
            first
            and not (accuracy or sampled or jumping or iterate.cache.track_minimum)
            and estimate.relative > SKIPPED_ERROR * fine_enough
        ):
            levels, omitted = levels[-1:], levels[:-1]
        elif first and jumping and level < JUMPING_LEVELS[0] and not (accuracy or sampled):
            levels, omitted = list(JUMPING_LEVELS), levels
    assert solution is not None
    return solution


def _refuse_large_error(problem: StateEvolution, alpha: float, iterate: Iterate) -> None:
    """Raise where the error of a tracked or continued solution exceeds the solution itself."""
    if iterate.cache.track_minimum:
        raise no_solution_error(
            problem, alpha, NotConverged("an error larger than the answer", residual=iterate.residual)
        )
    if problem.output.geometry.extrapolates_length:
        raise NotConverged(
            f"rows of {problem.output.geometry.tokens} tokens are extrapolated from shorter ones, with an error "
            f"larger than the answer "
            f"at alpha = {alpha:.6g}; raise weight_decay, or take at most {LONGEST_ROW} tokens.",
            residual=iterate.residual,
        )


def _levels_too_coarse(problem: StateEvolution, estimate: ErrorEstimate, accuracy: float) -> int | None:
    """Return how many levels, each with twice as many points, are too coarse for ``accuracy``; None if this one meets
    it.
    """
    test = problem.output.fresh_loss(*estimate.found.overlaps.values, loss="squared")
    excess = error_on_fresh(problem.output, estimate, loss="squared") / (accuracy * test)
    return None if excess <= 1.0 else max(int(np.ceil(2.0 * np.log2(excess))) - 1, 0)


def _switch_mass(problem: StateEvolution, iterate: Iterate) -> float | None:
    """Share of samples with a lower minimum than the one near the label; None for sampled points, which show jumps
    themselves.
    """
    output = problem.output
    return None if output.geometry.sampled else output.switch_mass(*iterate.overlaps.state, level=0)


def _solve_coarsely(
    problem: StateEvolution, alpha: float, start: Vector | None, tolerance: float
) -> tuple[Vector, Secants, int]:
    """Return coordinates close to the solution on the coarsest rule, with secants and evaluations, by the first route
    that works.
    """
    for guess in _starts(problem, alpha, start):
        try:
            found = solve_at_alpha(problem, alpha, guess, 0, tolerance=tolerance)
        except NegativeOverlap:
            raise
        except SolveError:
            continue
        return found.coordinates, found.secants, found.evaluations
    if can_continue_in_decay(problem):
        with suppress(SolveError):
            return continue_in_decay(problem, alpha), (), 0
    try:
        if not can_fix_sigma(problem):
            raise NotConverged("no start led to a solution.")
        return continue_in_sigma(problem, alpha), (), 0
    except SolveError as failure:
        raise no_solution_error(problem, alpha, failure) from failure


def initial_guesses(problem: StateEvolution, alpha: float, shrinkage: float) -> Iterator[Vector]:
    """Yield starts without a neighbour: the interpolating limit, the plateau, the first step from S = 0 (2.8, 4.1)."""
    if problem.input.emerges and not problem.output.loss.hard and alpha < problem.interpolation:
        with suppress(SolveError):  # without noise there is no such state between recovery and interpolation
            near = problem.input.interpolating(problem.labels, alpha, accuracy=0.5).overlaps
            # the threshold of weight decay alone, without the shift of the trace
            eps = near.map.eps + problem.channel_at(problem.interpolating(near)).spectral_shift
            sigma = alpha * problem.informative * eps / problem.decay
            if near.q > 0.0 and near.m > 0.0:  # with next to no samples both may underflow
                yield isotropic_coordinates(problem, np.log([near.q, near.m, max(sigma, 1e-3)]))
    yield plateau_guess(problem, alpha, shrinkage)
    if problem.input.emerges:  # the map of the first step from S = 0, with its own small Sigma
        with suppress(OutsideDomain):
            yield problem.overlaps_of(problem.at_origin(alpha, 0)[1]).coordinates


def _starts(problem: StateEvolution, alpha: float, start: Vector | None) -> Iterator[Vector]:
    """Yield a neighbour, the solution of an easier head, guesses, and the end of a continuation from many samples."""
    if start is not None:
        yield start
    easier = gaussian_independent_head(problem)
    if easier is not None:
        with suppress(SolveError):
            tolerance = EASIER_HEAD_TOLERANCE if problem.directions.sampled else COARSE_TOLERANCE
            yield isotropic_coordinates(problem, _solve_coarsely(easier, alpha, None, tolerance)[0])
    yield from initial_guesses(problem, alpha, plateau_of(problem).c)
    continued = _continue_from_many_samples(problem, alpha)
    if continued is not None:
        yield continued


def _continue_from_many_samples(problem: StateEvolution, alpha: float) -> Vector | None:
    """Continue on the coarsest rule from many samples, where the plateau is a good start, down to α (2.8)."""
    here = max(4.0, 30.0 * alpha)
    try:
        easy = plateau_guess(problem, here, plateau_of(problem).c)
        coordinates = solve_at_alpha(problem, here, easy, 0, tolerance=COARSE_TOLERANCE).coordinates
        factor = 2.0
        while here > alpha:
            there = max(alpha, here / factor)
            try:
                coordinates = solve_at_alpha(problem, there, coordinates, 0, tolerance=COARSE_TOLERANCE).coordinates
                here, factor = there, min(2.0, factor**1.5)
            except SolveError:
                factor = factor**0.5
                if factor < 1.01:
                    return None
    except SolveError:
        return None
    return coordinates


def plateau_guess(problem: StateEvolution, alpha: float, c: float) -> Vector:
    """Return the plateau c P (8.1), with the Sigma of many samples."""
    c, power = max(c, 0.05), problem.input.representable_power or problem.target_power
    sigma = min(0.6 / alpha, problem.input.largest_sigma)
    return isotropic_coordinates(problem, np.log([c * c * power, c * power * (1.0 - 1e-6), sigma]))
