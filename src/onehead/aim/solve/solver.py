"""Solves the equations (2) at one sample ratio: cheap quadrature first, finer only where it matters."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from onehead.aim.equations.averages import ProxMemory
from onehead.aim.equations.geometry import LONGEST_ROW
from onehead.aim.equations.plateau import plateau_of
from onehead.aim.equations.state_evolution import StateEvolution
from onehead.aim.equations.unknowns import AnyHats, AnyOverlaps
from onehead.aim.solve.continuation import polish, relax, walk
from onehead.aim.solve.doubt import Doubt, Slopes, doubt_of, error_on_fresh, slopes_at
from onehead.aim.solve.iterate import Attempt, Opposed, Secants, Start, Vector, at_alpha, secants_of
from onehead.errors import NotConverged, OutsideDomain, SolveError

__all__ = ["FINE_ENOUGH", "VISIBLE_SWITCH", "Solution", "guesses", "solve"]

COARSE_TOLERANCE = 1e-4  # on the coarsest rule; its own quadrature error is larger
NEIGHBOUR = 3e-2  # of a state of Gaussian logits, which differs from the one looked for by more
SLOPED = 1e-2  # on the coarsest rule where a Newton step follows, its slopes being needed anyway
FINE_ENOUGH = 5e-5  # relative error of q and m at which no finer rule is tried: about as much in the test error
VISIBLE_SWITCH = 1e-4  # below this mass the two branches agree within about 2e-4 (2.7)
FAR = (
    2.5  # change of log q or log Sigma between rules that is no quadrature error: the iterate fell to another solution
)
NO_ANSWER = 1.0  # relative error of q or m, of proximal points that are let go or rows that are continued, at which there is nothing to report
LAST_KEPT_LEVEL = 2  # where minima compete the theory itself is approximate: the finest rule is not worth its price


@dataclass(frozen=True, kw_only=True)
class Solution:
    """A solution in reduced units, with the quadrature rule it was found on and what else it could be.

    ``jacobian`` is F', the derivative of one turn of the equations in (log q, log m, log Sigma). ``switch_mass`` is the share of
    samples with a lower minimum than the one near the label, where it was needed.
    """

    alpha: float
    overlaps: AnyOverlaps
    hats: AnyHats
    residual: float
    evaluations: int
    level: int
    doubt: Doubt
    jacobian: Vector
    switch_mass: float | None
    memory: ProxMemory
    steady: bool

    @property
    def state(self) -> Vector:
        """(log q, log m, log Sigma)."""
        return self.overlaps.logs


def solve(
    problem: StateEvolution,
    alpha: float,
    start: Start | None = None,
    fine_enough: float = FINE_ENOUGH,
    wanted: float | None = None,
) -> Solution:
    """Solve at one sample ratio, from a neighbouring state if one is given, on rules that get finer until one is fine enough.

    ``wanted`` is a relative error of the test error for which rules finer than the usual ones are used.
    """
    solution = _beside(problem, alpha, start, fine_enough, wanted)
    if solution is None:
        near = start.state if start is not None else None
        coarse = _coarse(problem, alpha, near, SLOPED if problem.output.geometry.sampled else COARSE_TOLERANCE)
        solution = _refined(_steadied(problem, coarse[0]), alpha, *coarse, fine_enough, wanted)
    if solution.doubt.several:  # what was taken for granted is not so
        solution = _refined(problem, alpha, solution.state, (), solution.evaluations, fine_enough, wanted)
    if solution.doubt.jumps:  # derivatives do not see them: begin again with the forms that do
        jumping = replace(problem, output=replace(problem.output, jumps=True))
        return _refined(jumping, alpha, solution.state, (), solution.evaluations, fine_enough, wanted)
    return solution


def _beside(
    problem: StateEvolution, alpha: float, start: Start | None, fine_enough: float, wanted: float | None
) -> Solution | None:
    """From a state that is close and whose F' is known, without the coarsest rule; nothing if that does not lead to a solution."""
    if start is None or start.turn is None or problem.output.geometry.sampled:
        return None
    try:
        return _refined(problem, alpha, start.state, secants_of(start.turn), 0, fine_enough, wanted)
    except SolveError:
        return None


def _steadied(problem: StateEvolution, state: Vector) -> StateEvolution:
    """The same, with the controls of proximal points that do not jump, where none of a coarse rule has more than one minimum (L6)."""
    output, at = problem.output, problem.state_of(state)
    if not output.controlled or output.branch == "global" or output.convex_at(*at[2 * output.geometry.sectors :]):
        return problem
    if not output.has_one_minimum(*at, level=0):
        return problem
    return replace(problem, output=replace(output, steady=True))


def _refined(
    problem: StateEvolution,
    alpha: float,
    state: Vector,
    secants: Secants,
    used: int,
    fine_enough: float,
    wanted: float | None,
) -> Solution:
    """Finer rules, until one is fine enough."""
    solution: Solution | None = None
    slopes: Slopes | None = None
    sampled = problem.output.geometry.sampled
    if sampled:
        # one rule follows, whose points are many: with the slopes of the coarse one few turns are enough
        slopes = slopes_at(problem, alpha, state)
        state, secants = problem.inside(state + slopes.step), secants_of(slopes.turn)
    levels = [*problem.output.geometry.levels, *(problem.output.finer if wanted else ())]
    while levels:
        level = levels.pop(0)
        try:
            attempt = _at_level(problem, alpha, state, level, secants)
        except SolveError:
            if solution is None:
                raise
            break  # the coarser rule has an answer, and its error estimate
        used += attempt.evaluations
        if slopes is None or not sampled:
            slopes = slopes_at(problem, alpha, attempt.state)
        doubt = doubt_of(problem, attempt, slopes)
        if attempt.memory.follow and doubt.relative > NO_ANSWER:
            raise _lost(alpha, NotConverged("an error larger than the answer", residual=attempt.residual))
        if problem.output.geometry.continued and doubt.relative > NO_ANSWER:
            raise NotConverged(
                f"rows of {problem.output.geometry.tokens} tokens are continued from shorter ones, which is off by more than the answer "
                f"at alpha = {alpha:.6g}; raise weight_decay, or take at most {LONGEST_ROW} tokens.",
                residual=attempt.residual,
            )
        switch_mass, alone = _switch_mass(problem, attempt), solution is None
        # points that hop between minima: a lattice and its twin may then agree by chance, and a coarser one counts too
        hops = switch_mass is not None and switch_mass > VISIBLE_SWITCH
        if hops and solution is not None:
            doubt = doubt.beside(solution.doubt.found)
        solution = Solution(
            alpha=alpha,
            overlaps=attempt.overlaps,
            hats=attempt.hats,
            residual=attempt.residual,
            evaluations=used,
            level=level,
            doubt=doubt,
            jacobian=slopes.turn,
            switch_mass=switch_mass,
            memory=attempt.memory,
            steady=problem.output.steady,
        )
        state = solution.state
        secants = attempt.secants if sampled else secants_of(slopes.turn)
        if attempt.memory.follow and level == LAST_KEPT_LEVEL:
            break
        if doubt.several or (doubt.jumps and not problem.output.jumps):
            break
        if wanted and sampled:
            skipped = _skipped(problem, doubt, wanted)
            levels = [] if skipped is None else levels[min(skipped, len(levels) - 1) :]
        elif doubt.relative < fine_enough and not (hops and alone):
            break
    assert solution is not None
    return solution


def _skipped(problem: StateEvolution, doubt: Doubt, wanted: float) -> int | None:
    """How many rules, each with twice as many points, are too coarse for the ``wanted`` error; None if this one has it."""
    test = problem.output.fresh_loss(*doubt.found.overlaps.pair, loss="squared")
    over = error_on_fresh(problem.output, doubt, loss="squared") / (wanted * test)
    return None if over <= 1.0 else max(int(np.ceil(2.0 * np.log2(over))) - 1, 0)


def _switch_mass(problem: StateEvolution, attempt: Attempt) -> float | None:
    """Share of samples with a lower minimum than the one near the label; not of sampled points, which show their error themselves."""
    output = problem.output
    return None if output.geometry.sampled else output.switch_mass(*attempt.overlaps.state, level=0)


def _coarse(
    problem: StateEvolution, alpha: float, start: Vector | None, tolerance: float
) -> tuple[Vector, Secants, int]:
    """A state close to the solution, on the coarsest rule, by whichever route gets there."""
    for guess in _starts(problem, alpha, start):
        try:
            found = at_alpha(problem, alpha, guess, 0, tolerance=tolerance)
        except Opposed:
            raise
        except SolveError:
            continue
        return found.state, found.secants, found.evaluations
    if problem.relaxes:
        with suppress(SolveError):
            return relax(problem, alpha, 0), (), 0
    try:
        if not problem.by_sigma:
            raise NotConverged("no start led to one.")
        return walk(problem, alpha, 0), (), 0
    except SolveError as failure:
        raise _lost(alpha, failure) from failure


def _at_level(problem: StateEvolution, alpha: float, state: Vector, level: int, secants: Secants) -> Attempt:
    """Solve on one rule: at fixed α, else by way of Sigma with every prox kept in its minimum, α or λ being the unknown."""
    routes: list[Callable[[], Attempt]] = [lambda: at_alpha(problem, alpha, state, level, secants=secants)]
    if problem.by_sigma:
        routes.append(lambda: polish(problem, alpha, state, level))
    else:
        routes.append(lambda: at_alpha(problem, alpha, state, level, memory=ProxMemory(follow=True)))
    if problem.relaxes:
        routes.append(lambda: polish(problem, alpha, state, level, by_decay=True))
    failure: SolveError = NotConverged("the equations have several solutions far apart.")
    for route in routes:
        try:
            found = route()
        except Opposed:
            raise
        except SolveError as error:
            failure = error
            continue
        if np.max(np.abs(found.state - state)) < FAR:
            return found
    raise _lost(alpha, failure) from failure


def _lost(alpha: float, failure: SolveError) -> NotConverged:
    """The sentence a user gets when every route has failed."""
    return NotConverged(
        f"no solution found at alpha = {alpha:.6g} ({str(failure).rstrip('.')}). With noisy labels and so little weight "
        "decay the output layer has many competing minima here, and the theory breaks down; raise weight_decay or move "
        "alpha.",
        residual=failure.residual,
    )


def guesses(problem: StateEvolution, alpha: float, shrinkage: float) -> Iterator[Vector]:
    """Starts without a neighbour: the interpolating limit below interpolation, the plateau, close to emergence (2.8, 4.1)."""
    if problem.input.emerges and not problem.output.loss.hard and alpha < problem.interpolation:
        with suppress(SolveError):  # without noise there is no such state between recovery and interpolation
            near = problem.input.interpolating(problem.labels, alpha, accuracy=0.5).overlaps
            eps = near.map.eps + problem.channel_at(problem.limit(near)).lift  # that of weight decay
            sigma = alpha * problem.informative * eps / problem.decay
            if near.q > 0.0 and near.m > 0.0:  # with next to no samples both may underflow
                yield problem.even(np.log([near.q, near.m, max(sigma, 1e-3)]))
    yield _plateau_guess(problem, alpha, shrinkage)
    if problem.input.emerges:  # the map of the first step from S = 0, with its own small Sigma
        with suppress(OutsideDomain):
            yield problem.overlaps_of(problem.at_origin(alpha, 0)[1]).logs


def _starts(problem: StateEvolution, alpha: float, start: Vector | None) -> Iterator[Vector]:
    """A neighbour, guesses, and the end of a long way down from many samples."""
    if start is not None:
        yield start
    if problem.isotropic is not None:  # close, and solved by all routes there are
        with suppress(SolveError):
            close = NEIGHBOUR if problem.leading else COARSE_TOLERANCE
            yield problem.even(_coarse(problem.isotropic, alpha, None, close)[0])
    yield from guesses(problem, alpha, plateau_of(problem).c)
    descended = _descend(problem, alpha)
    if descended is not None:
        yield descended


def _descend(problem: StateEvolution, alpha: float) -> Vector | None:
    """Continuation from many samples, where the plateau is a good start, down to α, on the coarsest rule (2.8)."""
    here = max(4.0, 30.0 * alpha)
    try:
        easy = _plateau_guess(problem, here, plateau_of(problem).c)
        state = at_alpha(problem, here, easy, 0, tolerance=COARSE_TOLERANCE).state
        factor = 2.0
        while here > alpha:
            there = max(alpha, here / factor)
            try:
                state = at_alpha(problem, there, state, 0, tolerance=COARSE_TOLERANCE).state
                here, factor = there, min(2.0, factor**1.5)
            except SolveError:
                factor = factor**0.5
                if factor < 1.01:
                    return None
    except SolveError:
        return None
    return state


def _plateau_guess(problem: StateEvolution, alpha: float, c: float) -> Vector:
    """The plateau c P (8.1), with the Sigma of many samples."""
    c, power = max(c, 0.05), problem.input.reachable_power or problem.target_power
    sigma = min(0.6 / alpha, problem.input.largest_sigma)
    return problem.even(np.log([c * c * power, c * power * (1.0 - 1e-6), sigma]))
