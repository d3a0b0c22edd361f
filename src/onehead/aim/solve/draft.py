"""Draft quality of the solver: the coarsest quadrature rule, a residual of a few 1e-3, a time limit, no certificate.

A preview needs an error below a pixel within a tenth of a second; `onehead.aim.solve.certificate` takes seconds. Zero
map, limits, starts, iteration and the choice among several solutions are those of the other modules. What is left out
are finer rules, error estimates, and the routes of last resort (continuation in λ, in α and in Sigma), each of which
takes longer than a preview may.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from typing import NamedTuple

import numpy as np

from onehead.aim.solve.branches import may_have_several, objective, zero_loss
from onehead.aim.solve.fixed_sample_ratio import Iterate, Secants, Vector, solve_at_alpha
from onehead.aim.solve.solver import initial_guesses
from onehead.aim.theory.limits.emergence import is_zero
from onehead.aim.theory.order_parameters import Overlaps, SpectralMap
from onehead.aim.theory.output.averages import ProxCache
from onehead.aim.theory.state_evolution import StateEvolution
from onehead.errors import SolveError

COARSEST = 0  # level of the quadrature rule
TOLERANCE = 3e-3  # residual of (log q, log m, log Σ): half a pixel
ZERO_SHAPE = SpectralMap(1.0, 1.0, 1.0, 0.0)  # spectral map of S = 0


class DraftStart(NamedTuple):
    """Coordinates of a neighbouring solution, None without one, and differences of its last iterates."""

    coordinates: Vector | None = None
    secants: Secants = ()


NO_START = DraftStart()


class DraftNumbers(NamedTuple):
    """Numbers of one point in draft quality; those that were not asked for are NaN.

    ``start`` is where a neighbouring point can start; it has no coordinates at S = 0 and in the limit λ → 0⁺.
    """

    test_error: float
    test_error_clean: float
    train_loss: float
    rank: float
    map: SpectralMap
    start: DraftStart = NO_START

    @property
    def is_zero(self) -> bool:
        """Whether the map is zero."""
        return self.rank == 0.0


def draft_numbers_at(
    problem: StateEvolution,
    alpha: float,
    start: DraftStart = NO_START,
    *,
    timed_out: Callable[[], bool],
    may_be_zero: bool = True,
    only_zero: bool = False,
    full: bool = True,
) -> DraftNumbers | None:
    """Return the numbers at one sample ratio in draft quality; None if no solution is found in time.

    Where the loss is not convex and S = 0 is stable, the solution that continues ``start``, or that is reached from the
    target, is compared with S = 0, and the one with the lower objective is returned (4.7).

    Parameters
    ----------
    problem : StateEvolution
    alpha : float
        Sample ratio.
    start : DraftStart
        A neighbouring solution.
    timed_out : callable
        Returns True when the time is up.
    may_be_zero : bool
        False where S = 0 is known to be unstable.
    only_zero : bool
        True where the other solution is known to have a higher objective than S = 0, if that is stable.
    full : bool
        Compute the training loss and the error against clean labels.
    """
    try:
        stable = may_be_zero and is_zero(problem, alpha, COARSEST)
        several = may_have_several(problem)
        if stable and (only_zero or not several):
            return _zero_numbers(problem, alpha)
        if problem.decay == 0.0:
            limit = _limit_numbers(problem, alpha)
            if limit is not None or alpha <= problem.interpolation:
                return limit
    except SolveError:
        return None
    found = _lowest(problem, alpha, start, timed_out, every=several)
    if stable and (found is None or objective(problem, found) >= alpha * zero_loss(problem)):
        return _zero_numbers(problem, alpha)
    return None if found is None else _solved_numbers(problem, found, full=full)


def _lowest(
    problem: StateEvolution, alpha: float, start: DraftStart, timed_out: Callable[[], bool], *, every: bool
) -> Iterate | None:
    """Return the solution from the first start that leads to one; with ``every`` the lowest one of all starts, unless
    there is a neighbour.
    """
    guess, secants = start
    shrinkage = problem.target_power / problem.label_power  # that of a linear model with noise
    found: list[Iterate] = []
    for state in chain([] if guess is None else [guess], _until_failure(initial_guesses(problem, alpha, shrinkage))):
        try:
            at = solve_at_alpha(
                problem, alpha, state, COARSEST, tolerance=TOLERANCE, secants=secants, timed_out=timed_out
            )
        except (SolveError, ArithmeticError):  # includes overflow at extreme values
            secants = ()
            continue
        found.append(at)
        if guess is not None or not every:
            break
    if len(found) <= 1:
        return found[0] if found else None
    return min(found, key=lambda at: objective(problem, at))


def _until_failure(guesses: Iterator[Vector]) -> Iterator[Vector]:
    """Yield start states up to the first that cannot be computed."""
    with suppress(SolveError):
        yield from guesses


def _errors(problem: StateEvolution, values: tuple[float, ...]) -> tuple[float, float]:
    """Return the test errors against noisy and clean labels, on the coarsest rule."""
    output = problem.output
    return (
        output.fresh_loss(*values, coarse=True, loss="squared"),
        output.fresh_loss(*values, coarse=True, loss="squared", power=problem.clean_power),
    )


def _solved_numbers(problem: StateEvolution, found: Iterate, *, full: bool) -> DraftNumbers:
    """Return errors and training loss at a solution (2.4)."""
    at, start = found.overlaps, DraftStart(found.coordinates, found.secants)
    if not full:
        test = problem.output.fresh_loss(*at.values, coarse=True, loss="squared")
        return DraftNumbers(test, np.nan, np.nan, at.rank, at.map, start)
    there = ProxCache(track_minimum=True, points=found.cache.points)
    loss = problem.output.averages(*at.state, level=COARSEST, cache=there).loss
    train = found.alpha * loss + problem.input.penalty(at)
    return DraftNumbers(*_errors(problem, at.values), train, at.rank, at.map, start)


def _zero_numbers(problem: StateEvolution, alpha: float) -> DraftNumbers:
    """Return the numbers of S = 0 (4.6)."""
    zero = problem.zero_at(problem.at_origin(alpha, COARSEST)[1]).values
    train = alpha * problem.output.fresh_loss(*zero, coarse=True)
    return DraftNumbers(*_errors(problem, zero), train, 0.0, ZERO_SHAPE)


def _limit_numbers(problem: StateEvolution, alpha: float) -> DraftNumbers | None:
    """Return the numbers of the limit λ → 0⁺, beyond recovery (4.4) or below interpolation (4.1); None elsewhere, and
    where the limit is not derived.
    """
    near: Overlaps
    if alpha >= problem.recovery:
        near = problem.input.recovered
    elif alpha <= problem.interpolation and problem.ridgeless:
        near = problem.input.interpolating(problem.labels, alpha, accuracy=1e-2).overlaps
    else:
        return None
    floor = alpha * problem.output.fresh_loss(*problem.output.label_values(), coarse=True)
    return DraftNumbers(*_errors(problem, problem.interpolating(near).values), floor, near.rank, near.map)
