"""Curves in draft quality, drawn while a slider moves, each started from the nearest earlier one.

Every point is solved by `onehead.aim.solve.draft`: the solver on its coarsest quadrature rule, to a residual of a few
1e-3, which is invisible in a picture. Kept here are the solutions of the last drafts, from which the next ones start,
so that two or three evaluations per point are enough. Drafts have no certificate and their numbers are not shown; the
exact curve replaces a draft when the slider stops.
"""

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.aim.solve.branches import may_have_several
from onehead.aim.solve.draft import COARSEST, DraftNumbers, DraftStart, draft_numbers_at
from onehead.aim.solve.strategy import isotropic_coordinates
from onehead.aim.task import Learner, Task
from onehead.aim.theory.build import (
    build_state_evolution,
    check_summed_loss,
    gaussian_independent_head,
    heads_are_coupled,
)
from onehead.aim.theory.limits.emergence import emergence_ratio, is_zero
from onehead.aim.theory.limits.infinite_data import Shrunk, plateau_of
from onehead.aim.theory.state_evolution import StateEvolution
from onehead.errors import SolveError
from onehead.fields import ZERO_PLUS
from onehead.numerics.time_budget import stopwatch

Array = NDArray[np.float64]

SUMS = ("test_error", "test_error_clean", "train_loss")  # numbers that are sums over several heads
DRAFT_SECONDS = 0.16  # CPU time of one draft; points not reached by then are left out
COLD_START_FACTOR = 1.6  # of the time where there is no earlier draft to start from
POINT_FACTOR = 4.0  # of the time after which a point that is being solved is given up
STORED_DRAFTS = 48
MIN_START_POINTS = 3  # solved points that a draft needs to be a start for another
SMALLEST_DISTANCE = 0.05  # added to a parameter before its logarithm is taken, so that zero is close to small values
MAX_LOG_EXTRAPOLATION = 0.3  # distance in log x beyond a draft up to which it is used as a start


class DraftPoint(NamedTuple):
    """One point of a draft: its sample ratio or weight decay, and its numbers."""

    x: float
    numbers: DraftNumbers

    @property
    def state(self) -> Array | None:
        """Coordinates of the solution; None where the solution is a limit that no other point can start from."""
        return self.numbers.start.coordinates


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
        return [getattr(point.numbers, name) for point in self.points]

    @property
    def x(self) -> list[float]:
        """Positions of the points along the axis."""
        return [point.x for point in self.points]


_recent: deque[Draft] = deque(maxlen=STORED_DRAFTS)
_lock = threading.Lock()


def draft_curve(
    task: Task, learner: Learner, alphas: Sequence[float], *, full: bool = True, seconds: float = DRAFT_SECONDS
) -> Draft:
    """Draft of a learning curve; only the test error unless ``full``. Heads that share values have no draft.

    Examples
    --------
    >>> from onehead.aim.task import Learner, Task
    >>> draft = draft_curve(Task(), Learner(), [0.5, 1.0], seconds=60.0)
    >>> [round(error, 2) for error in draft.column("test_error")]
    [0.14, 0.1]
    """
    check_summed_loss(task, learner)
    problem = build_state_evolution(task, learner.gaussian)
    coordinates = _coordinates(learner.decay + 1e-9, problem, task, learner)
    cache_key = ("ratios", *_kind(task, learner, problem), learner.decay == 0.0)
    if heads_are_coupled(task, learner):
        return Draft(cache_key=cache_key, coordinates=coordinates, points=())
    problems = [(float(alpha), problem) for alpha in sorted(alphas, reverse=True)]
    return _summed(_solve_draft(cache_key, coordinates, problems, None, full=full, seconds=seconds), task.heads)


def draft_decay_curve(
    task: Task, learner: Learner, alpha: float, decays: Sequence[float], *, seconds: float = DRAFT_SECONDS
) -> Draft:
    """Draft of the test error against the weight decay, at one sample ratio. Heads that share values have no draft.

    Examples
    --------
    >>> from onehead.aim.task import Learner, Task
    >>> draft_decay_curve(Task(), Learner(), 0.5, [0.01], seconds=60.0).column("test_error")[0] < 0.14
    True
    """
    check_summed_loss(task, learner)
    problems = [
        (float(decay), build_state_evolution(task, learner.changed(weight_decay=float(decay), leading=0)))
        for decay in sorted(decays, reverse=True)
    ]
    coordinates = _coordinates(alpha, problems[0][1], task, learner)
    cache_key = ("decays", *_kind(task, learner, problems[0][1]))
    if heads_are_coupled(task, learner):
        return Draft(cache_key=cache_key, coordinates=coordinates, points=())
    return _summed(_solve_draft(cache_key, coordinates, problems, alpha, full=False, seconds=seconds), task.heads)


def _summed(draft: Draft, heads: int) -> Draft:
    """Return the draft of one head as that of several heads with values of their own, whose errors add up (M1)."""
    if heads == 1:
        return draft
    points = (
        point._replace(numbers=point.numbers._replace(**{name: heads * getattr(point.numbers, name) for name in SUMS}))
        for point in draft.points
    )
    return replace(draft, points=tuple(points))


def _kind(task: Task, learner: Learner, problem: StateEvolution) -> tuple[object, ...]:
    """Return what must agree for one draft to start another: all parameters that are not continuous, and the explicit
    directions, which appear where a continuous parameter leaves its default.
    """
    fixed = (str(value) for own in (task, learner) for name, value in own if not _continuous(name, value))
    return *fixed, type(problem.directions).__name__, problem.directions.count


def _coordinates(first: float, problem: StateEvolution, task: Task, learner: Learner) -> Array:
    """Return continuous parameters on a logarithmic scale, to find the nearest earlier draft."""
    numbers = [value for own in (task, learner) for name, value in own if _continuous(name, value)]
    numbers = [0.0 if value == ZERO_PLUS else value for value in numbers]  # as many coordinates as with a number
    floats = [value + SMALLEST_DISTANCE for value in numbers if isinstance(value, float)]
    return np.asarray(np.log(np.maximum([first, problem.target_power, *floats], 1e-300)))


def _continuous(name: str, value: object) -> bool:
    """Whether a parameter of a task or a learner is continuous, or has a coordinate of its own."""
    return isinstance(value, float) or name in ("target", "weight_decay", "leading")


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
    if may_have_several(problems[0][1]) and alpha is not None:
        problems = problems[::-1]  # the map with the lower objective is found from small weight decay
    # the map vanishes for few samples or much weight decay: if not at that end of the axis, then nowhere
    x, problem = problems[-1] if alpha is None else max(problems, key=lambda pair: pair[0])
    may_be_zero = is_zero(problem, x if alpha is None else alpha, COARSEST)
    only_zero = False  # beyond the first point at which S = 0 has the lower objective it keeps it
    for x, problem in problems:
        if late():
            break
        start = _guesses(x, old, points)
        ratio = x if alpha is None else alpha
        found = draft_numbers_at(
            problem, ratio, start, timed_out=point_late, may_be_zero=may_be_zero, only_zero=only_zero, full=full
        )
        if found is not None:
            points.append(DraftPoint(x, found))
            only_zero = only_zero or (found.is_zero and (alpha is None or may_have_several(problem)))
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
        DraftPoint(x, numbers._replace(start=DraftStart(isotropic_coordinates(head, numbers.start.coordinates))))
        for x, numbers in draft.points
        if numbers.start.coordinates is not None
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


def _guesses(x: float, old: Draft | None, points: list[DraftPoint]) -> DraftStart:
    """Start state at x, with secants: from the old draft, corrected by the last solved point, else by extrapolation."""
    solved = [(point.x, point.state, point.numbers.start.secants) for point in points if point.state is not None]
    here = _state_at(old, x) if old is not None else None
    if old is not None and here is not None:
        near = min((point for point in old.points if point.state is not None), key=lambda p: abs(np.log(p.x / x)))
        before = _state_at(old, solved[-1][0]) if solved else None
        state = here if before is None else np.asarray(here + solved[-1][1] - before)
        return DraftStart(state, near.numbers.start.secants)
    if len(solved) >= 2:
        (first_x, first, _), (last_x, last, secants) = solved[-2:]
        share = min(float(np.log(x / last_x) / np.log(last_x / first_x)), 1.5)
        return DraftStart(np.asarray(last + share * (last - first)), secants)
    return DraftStart(solved[-1][1], solved[-1][2]) if solved else DraftStart()


def _state_at(old: Draft, x: float) -> Array | None:
    """State of an old draft interpolated at x; None if x is too far outside of it."""
    points = [point for point in old.points if point.state is not None]
    log_x = np.log([point.x for point in points])
    at = float(np.log(x))
    if not log_x[0] - MAX_LOG_EXTRAPOLATION <= at <= log_x[-1] + MAX_LOG_EXTRAPOLATION:
        return None
    states = np.array([point.state for point in points])
    return np.array([np.interp(at, log_x, column) for column in states.T])


def draft_point(
    task: Task, learner: Learner, alpha: float, *, full: bool = False, seconds: float = DRAFT_SECONDS
) -> DraftNumbers | None:
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
    return next((point.numbers for point in draft.points if point.x == float(alpha)), None)


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
