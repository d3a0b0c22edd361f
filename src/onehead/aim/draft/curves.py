"""Drafts of learning curves within a tenth of a second: the equations on the coarsest quadrature rule.

`onehead.aim.verbs.curve` solves every point to its certificate, which takes seconds, too long while a slider moves. A
draft solves the same equations (2) on the coarsest quadrature rule to a residual of a few 1e-3, which is invisible in a
picture, and starts every point from the nearest earlier draft, so that two or three evaluations per point are enough.
It has no certificate and its numbers are not shown; the exact curve replaces it when the slider stops.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.aim.solve.fixed_sample_ratio import Iterate, Secants, Vector, solve_at_alpha
from onehead.aim.solve.solver import initial_guesses
from onehead.aim.solve.strategy import isotropic_coordinates
from onehead.aim.task import Learner, Task
from onehead.aim.theory.build import build_state_evolution, gaussian_independent_head
from onehead.aim.theory.limits.emergence import emergence_ratio, is_zero
from onehead.aim.theory.limits.infinite_data import Shrunk, plateau_of
from onehead.aim.theory.order_parameters import Overlaps, SpectralMap
from onehead.aim.theory.output.averages import ProxCache
from onehead.aim.theory.state_evolution import StateEvolution
from onehead.errors import SolveError
from onehead.numerics.time_budget import stopwatch

__all__ = [
    "DRAFT_SECONDS",
    "Draft",
    "DraftPoint",
    "DraftThresholds",
    "draft_curve",
    "draft_decay_curve",
    "draft_plateau",
    "draft_point",
    "draft_thresholds",
    "draft_vanishing_decay",
]

Array = NDArray[np.float64]

TOLERANCE = 3e-3  # residual of (log q, log m, log Σ): half a pixel
DRAFT_SECONDS = 0.16  # CPU time of one draft; points not reached by then are left out
COLD_START_FACTOR = 1.6  # of the time where there is no earlier draft to start from
POINT_FACTOR = 4.0  # of the time after which a point that is being solved is given up
COARSEST = 0  # level of the quadrature rule
STORED_DRAFTS = 48
MIN_START_POINTS = 3  # solved points that a draft needs to be a start for another
MAX_LOG_EXTRAPOLATION = 0.3  # distance in log x beyond a draft up to which it is used as a start


@dataclass(frozen=True, kw_only=True)
class DraftPoint:
    """One point of a draft.

    ``x`` is the sample ratio or the weight decay; ``state`` holds the logarithms of the unknowns, None where the
    solution is a limit that no other point can start from. Quantities that were not asked for are NaN.
    """

    x: float
    test_error: float
    test_error_clean: float
    train_loss: float
    rank: float
    map: SpectralMap
    state: Vector | None = None
    secants: Secants = ()


@dataclass(frozen=True, kw_only=True)
class Draft:
    """Points along one axis, in increasing order; some may be missing.

    Drafts with equal ``cache_key`` can start each other; ``coordinates`` measure how close their parameters are.
    """

    cache_key: tuple[object, ...]
    coordinates: Array
    points: tuple[DraftPoint, ...]

    def column(self, name: str) -> list[float]:
        """One quantity along the axis."""
        return [getattr(point, name) for point in self.points]

    @property
    def x(self) -> list[float]:
        """Positions of the points along the axis."""
        return self.column("x")


_recent: deque[Draft] = deque(maxlen=STORED_DRAFTS)
_lock = threading.Lock()


def draft_curve(
    task: Task, learner: Learner, alphas: Sequence[float], *, full: bool = True, seconds: float = DRAFT_SECONDS
) -> Draft:
    """Draft of a learning curve; only the test error unless ``full``.

    Examples
    --------
    >>> from onehead.aim.task import Learner, Task
    >>> draft = draft_curve(Task(), Learner(), [0.5, 1.0], seconds=60.0)
    >>> [round(error, 2) for error in draft.column("test_error")]
    [0.14, 0.1]
    """
    problem = build_state_evolution(task, learner.gaussian)
    coordinates = _coordinates(learner.decay + 1e-9, problem, task, learner)
    cache_key = ("ratios", *_kind(task, learner), learner.decay == 0.0)
    problems = [(float(alpha), problem) for alpha in sorted(alphas, reverse=True)]
    return _solve_draft(cache_key, coordinates, problems, None, full=full, seconds=seconds)


def draft_decay_curve(
    task: Task, learner: Learner, alpha: float, decays: Sequence[float], *, seconds: float = DRAFT_SECONDS
) -> Draft:
    """Draft of the test error against the weight decay, at one sample ratio.

    Examples
    --------
    >>> from onehead.aim.task import Learner, Task
    >>> draft_decay_curve(Task(), Learner(), 0.5, [0.01], seconds=60.0).column("test_error")[0] < 0.14
    True
    """
    problems = [
        (float(decay), build_state_evolution(task, learner.changed(weight_decay=float(decay), leading=0)))
        for decay in sorted(decays, reverse=True)
    ]
    coordinates = _coordinates(alpha, problems[0][1], task, learner)
    cache_key = ("decays", *_kind(task, learner))
    return _solve_draft(cache_key, coordinates, problems, alpha, full=False, seconds=seconds)


def _kind(task: Task, learner: Learner) -> tuple[object, ...]:
    """Parameters that must agree for one draft to start another: all that are not continuous."""
    head = task.tokens, task.attention, task.mask, task.labels, task.depends_on_kurtosis, task.unasked > 0.0
    return *head, learner.param, str(learner.loss), learner.branch


def _coordinates(first: float, problem: StateEvolution, task: Task, learner: Learner) -> Array:
    """Continuous parameters on a logarithmic scale, to find the nearest earlier draft."""
    values = [
        first,
        problem.target_power,
        task.noise + 0.05,
        learner.beta,
        learner.width,
        task.kurtosis,
        task.unasked + 0.01,
    ]
    return np.asarray(np.log(np.maximum(values, 1e-300)))


def _solve_draft(
    cache_key: tuple[object, ...],
    coordinates: Array,
    problems: list[tuple[float, StateEvolution]],
    alpha: float | None,
    *,
    full: bool,
    seconds: float,
) -> Draft:
    """Solve a draft from the easy end of the axis to the hard one, starting from the nearest earlier draft."""
    old = _nearest(cache_key, coordinates)
    seconds *= COLD_START_FACTOR if old is None else 1.0
    late, point_late = stopwatch(seconds), stopwatch(POINT_FACTOR * seconds)
    if old is None:
        old = _independent_draft(problems, alpha, seconds)
    points: list[DraftPoint] = []
    # the map vanishes for few samples or much weight decay: if not at that end of the axis, then nowhere
    x, problem = problems[-1] if alpha is None else problems[0]
    may_be_zero = is_zero(problem, x if alpha is None else alpha, COARSEST)
    for x, problem in problems:
        if late():
            break
        start = _guesses(x, old, points)
        ratio = x if alpha is None else alpha
        found = _solve(problem, ratio, x, start, point_late, may_be_zero=may_be_zero, full=full)
        if found is not None:
            points.append(found)
    result = Draft(
        cache_key=cache_key, coordinates=coordinates, points=tuple(sorted(points, key=lambda point: point.x))
    )
    with _lock:
        _recent.append(result)
    return result


def _independent_draft(
    problems: list[tuple[float, StateEvolution]], alpha: float | None, seconds: float
) -> Draft | None:
    """Start for heads with two sectors: the draft of the head with independent logits, which is close (U5.5)."""
    independent = [(x, gaussian_independent_head(problem)) for x, problem in problems]
    known = [(x, problem) for x, problem in independent if problem is not None]
    if not known:
        return None
    draft = _solve_draft(("independent",), np.empty(0), known, alpha, full=False, seconds=seconds)
    head = problems[0][1]
    points = [
        replace(point, state=isotropic_coordinates(head, point.state), secants=())
        for point in draft.points
        if point.state is not None
    ]
    return replace(draft, points=tuple(points)) if points else None


def _nearest(cache_key: tuple[object, ...], coordinates: Array) -> Draft | None:
    """Stored draft with the same cache key and the nearest coordinates."""
    with _lock:
        same = [
            old
            for old in _recent
            if old.cache_key == cache_key and sum(point.state is not None for point in old.points) >= MIN_START_POINTS
        ]
    return min(same, key=lambda old: float(np.sum((old.coordinates - coordinates) ** 2)), default=None)


def _guesses(x: float, old: Draft | None, points: list[DraftPoint]) -> tuple[Vector | None, Secants]:
    """Start state at x, with secants: from the old draft, corrected by the last solved point, else by extrapolation."""
    solved = [(point.x, point.state, point.secants) for point in points if point.state is not None]
    here = _state_at(old, x) if old is not None else None
    if old is not None and here is not None:
        near = min((point for point in old.points if point.state is not None), key=lambda p: abs(np.log(p.x / x)))
        before = _state_at(old, solved[-1][0]) if solved else None
        return here if before is None else np.asarray(here + solved[-1][1] - before), near.secants
    if len(solved) >= 2:
        (first_x, first, _), (last_x, last, secants) = solved[-2:]
        share = min(float(np.log(x / last_x) / np.log(last_x / first_x)), 1.5)
        return np.asarray(last + share * (last - first)), secants
    return (solved[-1][1], solved[-1][2]) if solved else (None, ())


def _state_at(old: Draft, x: float) -> Vector | None:
    """State of an old draft interpolated at x; None if x is too far outside of it."""
    points = [point for point in old.points if point.state is not None]
    log_x = np.log([point.x for point in points])
    at = float(np.log(x))
    if not log_x[0] - MAX_LOG_EXTRAPOLATION <= at <= log_x[-1] + MAX_LOG_EXTRAPOLATION:
        return None
    states = np.array([point.state for point in points])
    return np.array([np.interp(at, log_x, column) for column in states.T])


def _solve(
    problem: StateEvolution,
    alpha: float,
    x: float,
    start: tuple[Vector | None, Secants],
    late: Callable[[], bool],
    *,
    may_be_zero: bool,
    full: bool,
) -> DraftPoint | None:
    """Solve one point: the zero map, a limit, or from start states; None if no solution is found in time."""
    try:
        if may_be_zero and is_zero(problem, alpha, COARSEST):
            return _zero_point(problem, alpha, x)
        if problem.decay == 0.0 and alpha >= problem.recovery:
            return _limit_point(problem, alpha, x, problem.input.recovered)
        if problem.decay == 0.0 and alpha <= problem.interpolation:
            if not problem.ridgeless:
                return None
            return _limit_point(
                problem, alpha, x, problem.input.interpolating(problem.labels, alpha, accuracy=1e-2).overlaps
            )
    except SolveError:
        return None
    guess, secants = start
    shrinkage = problem.target_power / problem.label_power  # that of a linear model with noise
    for state in chain([] if guess is None else [guess], _until_failure(initial_guesses(problem, alpha, shrinkage))):
        try:
            found = solve_at_alpha(
                problem, alpha, state, COARSEST, tolerance=TOLERANCE, secants=secants, timed_out=late
            )
            return _solved_point(problem, found, x, full=full)
        except (SolveError, ArithmeticError):  # includes overflow at extreme values
            secants = ()
    return None


def _until_failure(guesses: Iterator[Vector]) -> Iterator[Vector]:
    """Start states up to the first that cannot be computed."""
    with suppress(SolveError):
        yield from guesses


def _errors(problem: StateEvolution, pair: tuple[float, ...]) -> tuple[float, float]:
    """Test errors against noisy and clean labels, on the coarsest rule."""
    output = problem.output
    return (
        output.fresh_loss(*pair, coarse=True, loss="squared"),
        output.fresh_loss(*pair, coarse=True, loss="squared", power=problem.clean_power),
    )


def _solved_point(problem: StateEvolution, found: Iterate, x: float, *, full: bool) -> DraftPoint:
    """Point with errors and training loss at a solution (2.4)."""
    at = found.overlaps
    if full:
        test, clean = _errors(problem, at.values)
        there = ProxCache(track_minimum=True, points=found.cache.points)
        loss = problem.output.averages(*at.state, level=COARSEST, cache=there).loss
        train = found.alpha * loss + problem.input.penalty(at)
    else:
        test, clean, train = problem.output.fresh_loss(*at.values, coarse=True, loss="squared"), np.nan, np.nan
    return DraftPoint(
        x=x,
        test_error=test,
        test_error_clean=clean,
        train_loss=train,
        rank=at.rank,
        map=at.map,
        state=at.coordinates,
        secants=found.secants,
    )


def _zero_point(problem: StateEvolution, alpha: float, x: float) -> DraftPoint:
    """Point with S = 0, below emergence (4.6)."""
    zero = problem.zero.values
    test, clean, train = *_errors(problem, zero), problem.output.fresh_loss(*zero, coarse=True)
    spectral_map = SpectralMap(1.0, 1.0, 1.0, 0.0)
    return DraftPoint(
        x=x, test_error=test, test_error_clean=clean, train_loss=alpha * train, rank=0.0, map=spectral_map
    )


def _limit_point(problem: StateEvolution, alpha: float, x: float, near: Overlaps) -> DraftPoint:
    """Point in the limit λ → 0⁺, below interpolation (4.1) or beyond recovery (4.4)."""
    test, clean = _errors(problem, problem.interpolating(near).values)
    floor = alpha * problem.output.fresh_loss(*problem.output.label_values(), coarse=True)
    return DraftPoint(x=x, test_error=test, test_error_clean=clean, train_loss=floor, rank=near.rank, map=near.map)


def draft_point(
    task: Task, learner: Learner, alpha: float, *, full: bool = False, seconds: float = DRAFT_SECONDS
) -> DraftPoint | None:
    """Draft of a single point, by continuation along a short curve; only the test error unless ``full``.

    Examples
    --------
    >>> from onehead.aim.task import Learner, Task
    >>> found = draft_point(Task(), Learner(), 0.5, seconds=60.0)
    >>> 0.6 < found.rank < 0.7
    True
    """
    problem = build_state_evolution(task, learner.gaussian)
    # convex losses, and heads that start from one with independent logits, need no continuation, which would be slow
    direct = problem.output.loss.hard or gaussian_independent_head(problem) is not None
    near = [alpha] if direct else [4.0 * alpha, 2.0 * alpha, 1.4 * alpha, alpha]
    draft = draft_curve(task, learner, near, full=full, seconds=seconds)
    return next((point for point in draft.points if point.x == float(alpha)), None)


def draft_vanishing_decay(task: Task, learner: Learner, alpha: float) -> float:
    """Weight decay at which the map vanishes or, trained directly, becomes negligible, on the coarsest rule.

    Examples
    --------
    >>> from onehead.aim import Learner, Task
    >>> 1.5 < draft_vanishing_decay(Task(), Learner(), 0.5) < 2.5
    True
    """
    problem = build_state_evolution(task, learner.gaussian)
    s, hats = problem.at_origin(alpha, COARSEST)
    return problem.units.own_decay(problem.channel_at(hats).largest_decay(s, hats.m))


class DraftThresholds(NamedTuple):
    """Thresholds as sample ratios, for a draft (4)."""

    emergence: float
    interpolation: float
    bayes_optimal: float
    direct: float
    recovery: float


def draft_thresholds(task: Task, learner: Learner) -> DraftThresholds:
    """Thresholds, with emergence on the coarsest rule.

    Examples
    --------
    >>> from onehead.aim.task import Learner, Task
    >>> round(draft_thresholds(Task(), Learner()).interpolation, 4)
    0.1535
    """
    problem = build_state_evolution(task, learner.gaussian)
    try:
        interpolation = problem.interpolation
    except SolveError:
        interpolation = np.inf
    return DraftThresholds(
        emergence=emergence_ratio(problem, COARSEST, accuracy=5e-3),
        interpolation=interpolation,
        bayes_optimal=problem.bayes_optimal,
        direct=problem.direct_interpolation,
        recovery=problem.recovery,
    )


def draft_plateau(task: Task, learner: Learner) -> Shrunk:
    """Plateau (8.1) on the coarsest rule, so that the excess error of a draft is smooth.

    Examples
    --------
    >>> from onehead.aim.task import Learner, Task
    >>> round(draft_plateau(Task(), Learner()).test_error, 2)
    0.07
    """
    return plateau_of(build_state_evolution(task, learner.gaussian), coarse=True)
