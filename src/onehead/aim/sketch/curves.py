"""A learning curve for the eye, within a tenth of a second: the library's equations on its coarsest rule.

`onehead.aim.verbs.curve` solves every point to its certificate, which takes seconds. A slider cannot wait for that. A sketch solves
the same equations (2) on the coarsest quadrature rule to a residual of a few 1e-3, which the eye does not see, and
starts every point from the sketch drawn before it, so that two or three evaluations per point are enough. It carries no
certificate and no number of it is ever shown; the exact curve replaces it as soon as the knobs rest.
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

from onehead.aim.equations.averages import ProxMemory
from onehead.aim.equations.emergence import emergence_ratio, is_zero
from onehead.aim.equations.head import equations_of
from onehead.aim.equations.plateau import Shrunk, plateau_of
from onehead.aim.equations.state_evolution import StateEvolution
from onehead.aim.equations.unknowns import Overlaps, SpectralMap
from onehead.aim.solve.iterate import Attempt, Secants, Vector, at_alpha
from onehead.aim.solve.solver import guesses
from onehead.aim.task import Learner, Task
from onehead.errors import SolveError
from onehead.numerics.patience import stopwatch

__all__ = [
    "PATIENCE",
    "Dot",
    "Marks",
    "Sketch",
    "dot",
    "sketch_decays",
    "sketch_marks",
    "sketch_plateau",
    "sketch_ratios",
    "sketch_top",
]

Array = NDArray[np.float64]

TOLERANCE = 3e-3  # residual of (log q, log m, log Sigma): half a pixel
PATIENCE = 0.16  # seconds of work for one sketch; points not reached by then are left out
COLD = 1.6  # times longer where there is no earlier sketch to start from
HURRY = 4.0  # times longer until a point that is under way is given up
RULE = 0  # the coarsest


@dataclass(frozen=True, kw_only=True)
class Dot:
    """One point of a sketch; ``state`` holds log q, log m and log Sigma, None where there is nothing to continue from."""

    x: float
    test_error: float
    test_error_clean: float
    train_loss: float
    rank: float
    map: SpectralMap
    state: Vector | None = None
    secants: Secants = ()


@dataclass(frozen=True, kw_only=True)
class Sketch:
    """Dots along one axis, sorted; some may be missing."""

    kin: tuple[object, ...]
    place: Array
    dots: tuple[Dot, ...]

    def column(self, name: str) -> list[float]:
        """One quantity along the axis."""
        return [getattr(dot, name) for dot in self.dots]

    @property
    def x(self) -> list[float]:
        """Where the dots are."""
        return self.column("x")


_recent: deque[Sketch] = deque(maxlen=48)
_lock = threading.Lock()


def sketch_ratios(
    task: Task, learner: Learner, alphas: Sequence[float], *, full: bool = True, patience: float = PATIENCE
) -> Sketch:
    """A sketch of the learning curve; only the test error unless ``full``.

    Examples
    --------
    >>> from onehead.aim.task import Learner, Task
    >>> drawn = sketch_ratios(Task(), Learner(), [0.5, 1.0], patience=60.0)
    >>> [round(error, 2) for error in drawn.column("test_error")]
    [0.14, 0.1]
    """
    problem = equations_of(task, learner.gaussian)
    place = _place(learner.decay + 1e-9, problem, task, learner)
    kin = ("ratios", *_kind(task, learner), learner.decay == 0.0)
    problems = [(float(alpha), problem) for alpha in sorted(alphas, reverse=True)]
    return _sketch(kin, place, problems, None, full=full, patience=patience)


def sketch_decays(
    task: Task, learner: Learner, alpha: float, decays: Sequence[float], *, patience: float = PATIENCE
) -> Sketch:
    """A sketch of the test error against the weight decay, at one sample ratio.

    Examples
    --------
    >>> from onehead.aim.task import Learner, Task
    >>> sketch_decays(Task(), Learner(), 0.5, [0.01], patience=60.0).column("test_error")[0] < 0.14
    True
    """
    problems = [
        (float(decay), equations_of(task, learner.changed(weight_decay=float(decay), leading=0)))
        for decay in sorted(decays, reverse=True)
    ]
    place = _place(alpha, problems[0][1], task, learner)
    kin = ("decays", *_kind(task, learner))
    return _sketch(kin, place, problems, alpha, full=False, patience=patience)


def _kind(task: Task, learner: Learner) -> tuple[object, ...]:
    """What makes the states of two sketches incomparable: all but numbers that move little by little."""
    head = task.tokens, task.attention, task.mask, task.labels, task.sees_kurtosis
    return *head, learner.param, str(learner.loss), learner.branch


def _place(first: float, problem: StateEvolution, task: Task, learner: Learner) -> Array:
    """The knobs as a point, to tell which earlier sketch is near."""
    values = [first, problem.target_power, task.noise + 0.05, learner.beta, learner.width, task.kurtosis]
    return np.asarray(np.log(np.maximum(values, 1e-300)))


def _sketch(
    kin: tuple[object, ...],
    place: Array,
    problems: list[tuple[float, StateEvolution]],
    alpha: float | None,
    *,
    full: bool,
    patience: float,
) -> Sketch:
    """Solve from the easy end of the axis to the hard one, from the nearest earlier sketch where there is one."""
    old = _nearest(kin, place)
    patience *= COLD if old is None else 1.0
    late, hurry = stopwatch(patience), stopwatch(HURRY * patience)
    if old is None:
        old = _of_twin(problems, alpha, patience)
    dots: list[Dot] = []
    # the map vanishes for few samples or much weight decay: if not at that end of the axis, nowhere on it
    x, problem = problems[-1] if alpha is None else problems[0]
    may_be_zero = is_zero(problem, x if alpha is None else alpha, RULE)
    for x, problem in problems:
        if late():
            break
        start = _guesses(x, old, dots)
        ratio = x if alpha is None else alpha
        found = _solve(problem, ratio, x, start, hurry, may_be_zero=may_be_zero, full=full)
        if found is not None:
            dots.append(found)
    result = Sketch(kin=kin, place=place, dots=tuple(sorted(dots, key=lambda dot: dot.x)))
    with _lock:
        _recent.append(result)
    return result


def _of_twin(problems: list[tuple[float, StateEvolution]], alpha: float | None, patience: float) -> Sketch | None:
    """The sketch of heads that would have independent logits, for heads of two sectors to start from: they are close (U5.5)."""
    twins = [(x, problem.isotropic) for x, problem in problems]
    known = [(x, twin) for x, twin in twins if twin is not None]
    if not known:
        return None
    drawn = _sketch(("twin",), np.empty(0), known, alpha, full=False, patience=patience)
    even = problems[0][1].even
    dots = [replace(dot, state=even(dot.state), secants=()) for dot in drawn.dots if dot.state is not None]
    return replace(drawn, dots=tuple(dots)) if dots else None


def _nearest(kin: tuple[object, ...], place: Array) -> Sketch | None:
    """The recent sketch of the same kind whose knobs are closest."""
    with _lock:
        same = [old for old in _recent if old.kin == kin and sum(dot.state is not None for dot in old.dots) > 2]
    return min(same, key=lambda old: float(np.sum((old.place - place) ** 2)), default=None)


def _guesses(x: float, old: Sketch | None, dots: list[Dot]) -> tuple[Vector | None, Secants]:
    """Where to start: the old sketch moved as its last point moved, else the last points continued."""
    solved = [(dot.x, dot.state, dot.secants) for dot in dots if dot.state is not None]
    here = _state_at(old, x) if old is not None else None
    if old is not None and here is not None:
        near = min((dot for dot in old.dots if dot.state is not None), key=lambda dot: abs(np.log(dot.x / x)))
        before = _state_at(old, solved[-1][0]) if solved else None
        return here if before is None else np.asarray(here + solved[-1][1] - before), near.secants
    if len(solved) >= 2:
        (first_x, first, _), (last_x, last, secants) = solved[-2:]
        share = min(float(np.log(x / last_x) / np.log(last_x / first_x)), 1.5)
        return np.asarray(last + share * (last - first)), secants
    return (solved[-1][1], solved[-1][2]) if solved else (None, ())


def _state_at(old: Sketch, x: float) -> Vector | None:
    """The state of an old sketch at x, if it reaches that far."""
    dots = [dot for dot in old.dots if dot.state is not None]
    places = np.log([dot.x for dot in dots])
    at = float(np.log(x))
    if not places[0] - 0.3 <= at <= places[-1] + 0.3:
        return None
    states = np.array([dot.state for dot in dots])
    return np.array([np.interp(at, places, column) for column in states.T])


def _solve(
    problem: StateEvolution,
    alpha: float,
    x: float,
    start: tuple[Vector | None, Secants],
    late: Callable[[], bool],
    *,
    may_be_zero: bool,
    full: bool,
) -> Dot | None:
    """One dot: zero, a limit, or from its guesses; None where the quick route finds nothing."""
    try:
        if may_be_zero and is_zero(problem, alpha, RULE):
            return _zero(problem, alpha, x)
        if problem.decay == 0.0 and alpha >= problem.recovery:
            return _limit(problem, alpha, x, problem.input.recovered)
        if problem.decay == 0.0 and alpha <= problem.interpolation:
            if not problem.ridgeless:
                return None
            return _limit(problem, alpha, x, problem.input.interpolating(problem.labels, alpha, accuracy=1e-2).overlaps)
    except SolveError:
        return None
    guess, secants = start
    rough = problem.target_power / problem.label_power  # shrunk by the noise, as in a linear model
    for state in chain([] if guess is None else [guess], _tried(guesses(problem, alpha, rough))):
        try:
            found = at_alpha(problem, alpha, state, RULE, tolerance=TOLERANCE, secants=secants, late=late)
            return _dot(problem, found, x, full=full)
        except (SolveError, ArithmeticError):  # overflow at extreme values is no answer either
            secants = ()
    return None


def _tried(guesses: Iterator[Vector]) -> Iterator[Vector]:
    """Guesses as long as they can be made."""
    with suppress(SolveError):
        yield from guesses


def _errors(problem: StateEvolution, pair: tuple[float, ...]) -> tuple[float, float]:
    """Test errors against noisy and clean labels, on the coarsest rule."""
    output = problem.output
    return (
        output.fresh_loss(*pair, coarse=True, loss="squared"),
        output.fresh_loss(*pair, coarse=True, loss="squared", power=problem.target_power),
    )


def _dot(problem: StateEvolution, found: Attempt, x: float, *, full: bool) -> Dot:
    """Errors and training loss at a solution (2.4)."""
    at = found.overlaps
    if full:
        test, clean = _errors(problem, at.pair)
        there = ProxMemory(follow=True, points=found.memory.points)
        loss = problem.output.averages(*at.state, level=RULE, memory=there).loss
        train = found.alpha * loss + problem.input.penalty(at)
    else:
        test, clean, train = problem.output.fresh_loss(*at.pair, coarse=True, loss="squared"), np.nan, np.nan
    return Dot(
        x=x,
        test_error=test,
        test_error_clean=clean,
        train_loss=train,
        rank=at.rank,
        map=at.map,
        state=at.logs,
        secants=found.secants,
    )


def _zero(problem: StateEvolution, alpha: float, x: float) -> Dot:
    """Below emergence (4.6)."""
    nothing = problem.zero.pair
    test, clean, train = *_errors(problem, nothing), problem.output.fresh_loss(*nothing, coarse=True)
    where = SpectralMap(1.0, 1.0, 1.0, 0.0)
    return Dot(x=x, test_error=test, test_error_clean=clean, train_loss=alpha * train, rank=0.0, map=where)


def _limit(problem: StateEvolution, alpha: float, x: float, near: Overlaps) -> Dot:
    """The limit λ → 0⁺ below interpolation (4.1), or beyond recovery (4.4)."""
    test, clean = _errors(problem, problem.limit(near).pair)
    floor = alpha * problem.output.fresh_loss(*problem.output.label, coarse=True)
    return Dot(x=x, test_error=test, test_error_clean=clean, train_loss=floor, rank=near.rank, map=near.map)


def dot(task: Task, learner: Learner, alpha: float, *, full: bool = False, patience: float = PATIENCE) -> Dot | None:
    """A single point, from the curve through it; only the test error unless ``full``.

    Examples
    --------
    >>> from onehead.aim.task import Learner, Task
    >>> found = dot(Task(), Learner(), 0.5, patience=60.0)
    >>> 0.6 < found.rank < 0.7
    True
    """
    problem = equations_of(task, learner.gaussian)
    direct = problem.output.loss.hard or problem.isotropic is not None  # convex, or started from its twin; and slow
    near = [alpha] if direct else [4.0 * alpha, 2.0 * alpha, 1.4 * alpha, alpha]
    drawn = sketch_ratios(task, learner, near, full=full, patience=patience)
    return next((d for d in drawn.dots if d.x == float(alpha)), None)


def sketch_top(task: Task, learner: Learner, alpha: float) -> float:
    """The weight decay at which the map vanishes, or shrinks to nothing, on the coarsest rule.

    Examples
    --------
    >>> from onehead.aim import Learner, Task
    >>> 1.5 < sketch_top(Task(), Learner(), 0.5) < 2.5
    True
    """
    problem = equations_of(task, learner.gaussian)
    s, hats = problem.at_origin(alpha, RULE)
    return problem.units.own_decay(problem.channel_at(hats).largest_decay(s, hats.m))


class Marks(NamedTuple):
    """Where to draw the thresholds of a sketch (4)."""

    emergence: float
    interpolation: float
    bayes_optimal: float
    direct: float
    recovery: float


def sketch_marks(task: Task, learner: Learner) -> Marks:
    """The thresholds, that of emergence on the coarsest rule.

    Examples
    --------
    >>> from onehead.aim.task import Learner, Task
    >>> round(sketch_marks(Task(), Learner()).interpolation, 4)
    0.1535
    """
    problem = equations_of(task, learner.gaussian)
    try:
        fitted = problem.interpolation
    except SolveError:
        fitted = np.inf
    return Marks(
        emergence=emergence_ratio(problem, RULE, accuracy=5e-3),
        interpolation=fitted,
        bayes_optimal=problem.bayes_optimal,
        direct=problem.direct_interpolation,
        recovery=problem.recovery,
    )


def sketch_plateau(task: Task, learner: Learner) -> Shrunk:
    """The plateau (8.1) on the coarsest rule, so that the excess of a sketch over it is smooth.

    Examples
    --------
    >>> from onehead.aim.task import Learner, Task
    >>> round(sketch_plateau(Task(), Learner()).test_error, 2)
    0.07
    """
    return plateau_of(equations_of(task, learner.gaussian), coarse=True)
