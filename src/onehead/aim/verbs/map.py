"""map(): predictions over a grid of any two parameters, such as the sample ratio and the weight decay."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np

from onehead.aim.flat_parameters import (
    LEARNER_PARAMETERS,
    PARAMETERS,
    TARGET_PARAMETERS,
    TASK_PARAMETERS,
    changed_problem,
    target_fields,
    validate_problem,
)
from onehead.aim.task import Learner, Ratio, Task, check_alpha
from onehead.aim.verbs.bayes import BayesReference, check_bayes_comparison
from onehead.aim.verbs.predict import Prediction, predict
from onehead.aim.verbs.thresholds import thresholds
from onehead.aim.verbs.tune import best_decay
from onehead.errors import InvalidArgument, SolveError
from onehead.fields import parameters_of
from onehead.numerics.progress import Progress
from onehead.results import Result
from onehead.results.grids import Axis, Map, axis_values, check_axes, check_axis, describe_setting, solve_grid
from onehead.validation import number, optional

ALPHA, DECAY = "alpha", "weight_decay"
AXIS_PARAMETERS = {**parameters_of(Ratio), **PARAMETERS}
NUMBERS = tuple(one.name for one in fields(Prediction) if one.type in (float, float | None))
ALWAYS_STATED = (
    "kappa0",
    "gamma",
    "noise",
    "tokens",
    "weight_decay",
)  # parameters in the caption even at their defaults
THRESHOLD_LINES = ("interpolation", "emergence", "recovery")


@dataclass(frozen=True, kw_only=True)
class AimMap(Map):
    """Predictions over a grid of two parameters, row by row of the second.

    Attributes
    ----------
    task, learner : Task, Learner
        The problem; the two parameters of the axes, and ``weight_decay`` of a tuned map, differ from cell to cell.
    x_name, y_name : str
        Parameters on the horizontal and on the vertical axis.
    x_values, y_values : tuple of float
        Their values.
    of : str
        Quantity that pictures show.
    setting : str
        The other parameters, as a caption.
    cells : tuple
        One cell per pair of values, the horizontal axis running fastest; a failed cell has a reason.
    """

    _SUMMARY_FIELDS: ClassVar[tuple[str, ...]] = ("alpha", "test_error", "rank", "status")

    task: Task
    learner: Learner

    def lines(self) -> dict[str, list[tuple[float, float]]]:
        """Lines of the map, as points (x, y): thresholds if α is an axis, the best weight decay if λ is an axis."""
        found: dict[str, list[tuple[float, float]]] = {}
        names, values = (self.x_name, self.y_name), (self.x_values, self.y_values)
        if DECAY in names:
            other = values[1 - names.index(DECAY)]
            found["best weight decay"] = _points(names[0] == DECAY, self.valley("test_error", DECAY), other)
        if (
            ALPHA in names and self.task.heads == 1 and self.learner.values == "fixed"
        ):  # several heads have no thresholds
            other_name, other = names[1 - names.index(ALPHA)], values[1 - names.index(ALPHA)]
            rows = [self._thresholds(other_name, value) for value in other]
            for name in THRESHOLD_LINES:
                found[name] = _points(names[0] == ALPHA, [row.get(name, float("nan")) for row in rows], other)
        return {name: points for name, points in found.items() if points}

    def _thresholds(self, name: str, value: float) -> dict[str, float]:
        """Thresholds at one value of the other parameter; empty where they could not be solved."""
        task, learner, _ = _problem(self.task, self.learner, {name: value})
        try:
            row = thresholds(task, learner)
        except SolveError:
            return {}
        return {key: float(ratio) for key in THRESHOLD_LINES if (ratio := getattr(row, key)) is not None}


def _points(first: bool, along: Sequence[float], other: Sequence[float]) -> list[tuple[float, float]]:
    """Points (x, y) of a line, from its values along one axis; points that are not positive and finite are left out."""
    pairs = [(a, b) if first else (b, a) for a, b in zip(along, other, strict=True)]
    return [pair for pair in pairs if all(0.0 < value < float("inf") for value in pair)]


def _setting(task: Task, learner: Learner, moved: Sequence[str]) -> str:
    """Caption with the parameters equal in all cells: those always stated, and those not at their defaults."""
    values = {name: getattr(task.target, own) for name, own in target_fields(task).items() if name in TARGET_PARAMETERS}
    values |= {name: getattr(task, name) for name in TASK_PARAMETERS} | {
        name: getattr(learner, name) for name in LEARNER_PARAMETERS
    }
    return describe_setting(values, AXIS_PARAMETERS, always=ALWAYS_STATED, moved=moved)


def _problem(task: Task, learner: Learner, moved: dict[str, float]) -> tuple[Task, Learner, float | None]:
    """Task and learner with some parameters changed, and the sample ratio if it is one of them."""
    values = {
        name: int(value) if AXIS_PARAMETERS[name].kind == "integer" and value == int(value) else value
        for name, value in moved.items()
    }
    ratio = float(values[ALPHA]) if ALPHA in values else None
    return *changed_problem(task, learner, values), ratio


@validate_problem(x=check_axis, y=check_axis, accuracy=optional(number(above=0.0)))
def map(  # noqa: A001  (the public name; the builtin is not used here)
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
    progress: Progress = None,
) -> AimMap:
    """Predict over a grid of any two numerical parameters, each cell started from its neighbour.

    Parameters
    ----------
    task : Task
        What is learned.
    learner : Learner
        The head that learns it.
    alpha : float, optional
        Sample ratio α = n/d², unless it is one of the two parameters.
    x, y : pair of str and sequence of float
        A parameter, such as "alpha", "weight_decay", "noise" or "kappa0", and its values.
    of : str
        Quantity that pictures show.
    bayes : bool
        Whether to add the test error of the best possible learner, ``bayes_test_error``.
    tuned : bool
        Whether to use the best weight decay in every cell, and add it as ``weight_decay``.
    accuracy : float, optional
        Wanted relative error of the test error, as in `predict`.
    progress : callable or True, optional
        Called once for every finished cell.

    Returns
    -------
    AimMap
        One cell per pair of values; ``grid(name)`` gives a quantity as an array.

    Raises
    ------
    InvalidArgument
        If a parameter or one of its values is not allowed.

    Examples
    --------
    >>> from onehead import aim
    >>> found = aim.map(aim.Task(), aim.Learner(), 0.5, x=("noise", [0.1, 0.5]), y=("weight_decay", [0.01, 0.1]))
    >>> found.grid("test_error").round(3).tolist()
    [[0.032, 0.136], [0.06, 0.129]]
    """
    check_axes(x, y, AXIS_PARAMETERS)
    names = (x[0], y[0])
    for axis, name in zip("xy", names, strict=True):
        if name in TARGET_PARAMETERS and name not in target_fields(task):
            raise InvalidArgument(
                axis, name, f"a parameter of the target, which has {' and '.join(target_fields(task))}"
            )
    columns = [*([DECAY] if tuned else []), *(["bayes_test_error"] if bayes else [])]
    if of not in (*NUMBERS, *columns):
        raise InvalidArgument("of", of, " or ".join((*NUMBERS, *columns)), (*NUMBERS, *columns))
    if (alpha is None) != (ALPHA in names):
        got = "neither" if alpha is None else "both"
        raise InvalidArgument(ALPHA, got, "given, or one of the two parameters; not both")
    if tuned and DECAY in names:
        raise InvalidArgument("tuned", True, "left out where weight_decay is one of the two parameters")
    fixed = {} if alpha is None else {ALPHA: alpha}
    problems = {
        (a, b): _problem(task, learner, {**fixed, x[0]: a, y[0]: b})
        for a in axis_values(x[1])
        for b in axis_values(y[1])
    }  # all problems are built before any is solved, because any may be refused
    for own, head, _ in problems.values() if bayes else ():
        check_bayes_comparison(own, head)
    references = {own: BayesReference(own) for own, _, _ in problems.values()} if bayes else {}

    def solve(a: float, b: float, near: Result | None) -> tuple[Result, dict[str, float | None]]:
        own, head, given = problems[a, b]
        ratio = check_alpha(given if given is not None else np.nan)
        start = near if isinstance(near, Prediction) else None
        point = (best_decay if tuned else predict)(own, head, ratio, near=start, accuracy=accuracy)
        more: dict[str, float | None] = {}
        if tuned:
            more[DECAY] = point.learner.decay
        if bayes:
            more["bayes_test_error"] = references[own].at(ratio).test_error
        return point, more

    cells = solve_grid(x, y, solve, (ALPHA, DECAY), progress)
    return AimMap(
        task=task,
        learner=learner,
        setting=_setting(task, learner, (*names, *([DECAY] if tuned else []))),
        x_name=x[0],
        y_name=y[0],
        x_values=axis_values(x[1]),
        y_values=axis_values(y[1]),
        of=of,
        cells=cells,
    )
