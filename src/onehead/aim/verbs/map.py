"""map(): predictions over any two words, such as the sample ratio and the weight decay."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np

from onehead.aim.task import Learner, Ratio, Task, check_alpha
from onehead.aim.verbs.bayes import Yardstick, check_beside
from onehead.aim.verbs.predict import Prediction, predict
from onehead.aim.verbs.thresholds import thresholds
from onehead.aim.verbs.tune import best_decay
from onehead.aim.words import LEARNER, SHAPE, TASK, WORDS, posed
from onehead.arguments import number, optional
from onehead.errors import InvalidArgument, SolveError
from onehead.fields import words_of
from onehead.maps import Axis, Map, an_axis, check_axes, floats, mapped, setting_of
from onehead.results import Result

__all__ = ["AimMap", "map"]

ALPHA, DECAY = "alpha", "weight_decay"
KNOWN = {**words_of(Ratio), **WORDS}
NUMBERS = tuple(one.name for one in fields(Prediction) if one.type in (float, float | None))
ALWAYS = ("kappa0", "gamma", "noise", "tokens", "weight_decay")  # words of a setting that is told
LINES = ("interpolation", "emergence", "recovery")


@dataclass(frozen=True, kw_only=True)
class AimMap(Map):
    """Predictions over two words, row by row of the second."""

    _SHOWN: ClassVar[tuple[str, ...]] = ("alpha", "test_error", "rank", "status")

    task: Task
    learner: Learner

    def lines(self) -> dict[str, list[tuple[float, float]]]:
        """Where something changes, as points (x, y): thresholds along the sample ratio, and the best weight decay, where an axis."""
        found: dict[str, list[tuple[float, float]]] = {}
        names, values = (self.x_name, self.y_name), (self.x_values, self.y_values)
        if DECAY in names:
            other = values[1 - names.index(DECAY)]
            found["best weight decay"] = _points(names[0] == DECAY, self.valley("test_error", DECAY), other)
        if ALPHA in names:
            other_name, other = names[1 - names.index(ALPHA)], values[1 - names.index(ALPHA)]
            known = [self._thresholds(other_name, value) for value in other]
            for name in LINES:
                found[name] = _points(names[0] == ALPHA, [row.get(name, float("nan")) for row in known], other)
        return {name: points for name, points in found.items() if points}

    def _thresholds(self, name: str, value: float) -> dict[str, float]:
        """Thresholds at one value of the other word."""
        task, learner, _ = _problem(self.task, self.learner, {name: value})
        try:
            row = thresholds(task, learner)
        except SolveError:
            return {}
        return {key: float(own) for key in LINES if (own := getattr(row, key)) is not None}


def _points(first: bool, along: Sequence[float], other: Sequence[float]) -> list[tuple[float, float]]:
    """Pairs (x, y) of a line given along one of the words, where it is finite."""
    pairs = [(a, b) if first else (b, a) for a, b in zip(along, other, strict=True)]
    return [pair for pair in pairs if all(0.0 < value < float("inf") for value in pair)]


def _shape(task: Task) -> dict[str, str]:
    """The words of the target of a task, and what it calls them itself."""
    return {said.flat: name for name, said in words_of(type(task.target)).items() if name != "kind"}


def _setting(task: Task, learner: Learner, moved: Sequence[str]) -> str:
    """What is the same all over a map, in symbols: what is always said, and what is not as usual."""
    values = {name: getattr(task.target, own) for name, own in _shape(task).items() if name in SHAPE}
    values |= {name: getattr(task, name) for name in TASK} | {name: getattr(learner, name) for name in LEARNER}
    return setting_of(values, KNOWN, always=ALWAYS, moved=moved)


def _problem(task: Task, learner: Learner, moved: dict[str, float]) -> tuple[Task, Learner, float | None]:
    """The problem with some of its words changed, whole numbers being whole; and the sample ratio, if it is one of them."""
    whole = {
        name: int(value) if KNOWN[name].kind == "integer" and value == int(value) else value
        for name, value in moved.items()
    }
    own = _shape(task)
    target = task.target.changed(**{own[name]: value for name, value in whole.items() if name in own})
    of_task = {name: value for name, value in whole.items() if name in TASK}
    of_learner = {name: value for name, value in whole.items() if name in LEARNER}
    ratio = float(whole[ALPHA]) if ALPHA in whole else None
    return task.changed(target=target, **of_task), learner.changed(**of_learner), ratio


@posed(x=an_axis, y=an_axis, accuracy=optional(number(above=0.0)))
def map(  # noqa: A001  (the word that people use; the builtin is not needed here)
    task: Task,
    learner: Learner,
    alpha: float | None = None,
    *,
    x: Axis,
    y: Axis,
    of: str = "test_error",
    bayes: bool = False,
    tuned: bool = False,
    accuracy: float | None = None,
    progress: Callable[[], None] | None = None,
) -> AimMap:
    """Predict over a grid of any two words that are numbers, each cell started from its neighbour.

    Parameters
    ----------
    task : Task
    learner : Learner
    alpha : float, optional
        The sample ratio, unless it is one of the two words.
    x, y : pair of str and sequence of float
        A word, such as "alpha", "weight_decay", "noise" or "kappa0", and its values.
    of : str
        The number that pictures show.
    bayes : bool
        Add the best possible learner, ``bayes_test_error``.
    tuned : bool
        Use the best weight decay in every cell, and add it as ``weight_decay``.
    accuracy : float, optional
        Wanted error of the test error, relative, as in `predict`.
    progress : callable, optional
        Called once for every finished cell.

    Examples
    --------
    >>> from onehead import aim
    >>> found = aim.map(aim.Task(), aim.Learner(), 0.5, x=("noise", [0.1, 0.5]), y=("weight_decay", [0.01, 0.1]))
    >>> found.grid("test_error").round(3).tolist()
    [[0.032, 0.136], [0.06, 0.129]]
    """
    check_axes(x, y, KNOWN)
    names = (x[0], y[0])
    for axis, name in zip("xy", names, strict=True):
        if name in SHAPE and name not in _shape(task):
            raise InvalidArgument(axis, name, f"a word of the target, which has {' and '.join(_shape(task))}")
    columns = [*([DECAY] if tuned else []), *(["bayes_test_error"] if bayes else [])]
    if of not in (*NUMBERS, *columns):
        raise InvalidArgument("of", of, " or ".join((*NUMBERS, *columns)), (*NUMBERS, *columns))
    if (alpha is None) != (ALPHA in names):
        got = "neither" if alpha is None else "both"
        raise InvalidArgument(ALPHA, got, "given, or one of the two words; not both")
    if tuned and DECAY in names:
        raise InvalidArgument("tuned", True, "left out where weight_decay is one of the two words")
    fixed = {} if alpha is None else {ALPHA: alpha}
    problems = {
        (a, b): _problem(task, learner, {**fixed, x[0]: a, y[0]: b}) for a in floats(x[1]) for b in floats(y[1])
    }  # all of them first, because any may be refused
    for own, head, _ in problems.values() if bayes else ():
        check_beside(own, head)
    yardsticks = {own: Yardstick(own) for own, _, _ in problems.values()} if bayes else {}

    def solve(a: float, b: float, near: Result | None) -> tuple[Result, dict[str, float | None]]:
        own, head, given = problems[a, b]
        ratio, close = (
            check_alpha(given if given is not None else np.nan),
            near if isinstance(near, Prediction) else None,
        )
        point = (best_decay if tuned else predict)(own, head, ratio, near=close, accuracy=accuracy)
        beside: dict[str, float | None] = {}
        if tuned:
            beside[DECAY] = point.learner.decay
        if bayes:
            beside["bayes_test_error"] = yardsticks[own].at(ratio).test_error
        return point, beside

    cells = mapped(x, y, solve, (ALPHA, DECAY), progress)
    return AimMap(
        task=task,
        learner=learner,
        setting=_setting(task, learner, (*names, *([DECAY] if tuned else []))),
        x_name=x[0],
        y_name=y[0],
        x_values=floats(x[1]),
        y_values=floats(y[1]),
        of=of,
        cells=cells,
    )
