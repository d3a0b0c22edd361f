"""Maps: predictions over a grid of any two numerical parameters of the task and the protocol (S7)."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import ClassVar

import numpy as np

from onehead.errors import InvalidArgument
from onehead.numerics.progress import Progress
from onehead.results import Result
from onehead.results.bayes_gap import BAYES_TEST_ERROR
from onehead.results.grids import Axis, Map, axis_values, check_axes, check_axis, describe_setting, solve_grid
from onehead.sparse.flat_parameters import (
    PARAMETERS,
    PROTOCOL_PARAMETERS,
    SPLIT_PARAMETERS,
    TASK_PARAMETERS,
    SampleSplit,
)
from onehead.sparse.task import PROBLEM, Protocol, Task
from onehead.sparse.verbs.bayes import bayes as best_of
from onehead.sparse.verbs.predict import Prediction, predict, predict_to_error
from onehead.validation import checked, number, optional

CELL_ERROR = 1e-3  # wanted error of the test error of a cell
ALWAYS_SHOWN = ("length", "signal_tokens", "strength", "positive_rate")  # parameters in every description of a map
PREDICTED_COLUMNS = tuple(one.name for one in fields(Prediction) if one.type in (float, float | None))
POOLED_COLUMNS = ("pooled_test_error", "pooled_test_error_err", "anti_aligned", "worse_than_pooled")


@dataclass(frozen=True, kw_only=True)
class SparseMap(Map):
    """Predictions of the attention and the pooled model over a grid of two parameters, row by row of the second."""

    _SUMMARY_FIELDS: ClassVar[tuple[str, ...]] = ("cos_query", "test_error", "pooled_test_error", "status")

    task: Task
    protocol: Protocol

    def regions(self) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.bool_]]]:
        """Return masks of the cells with an anti-aligned query, and of those where the pooled model is better."""
        names = {"anti_aligned": "anti-aligned", "worse_than_pooled": "worse than pooled"}
        return {text: np.nan_to_num(self.grid(name)) > 0.5 for name, text in names.items()}


def _problem_at(task: Task, protocol: Protocol, values: Mapping[str, float]) -> tuple[Task, Protocol]:
    """Return task and protocol with new parameter values; a new ``alpha`` keeps the split, and vice versa."""
    values = {
        name: int(value) if PARAMETERS[name].kind == "integer" and value == int(value) else value
        for name, value in values.items()
    }
    plan = protocol.changed(**{name: value for name, value in values.items() if name in PROTOCOL_PARAMETERS})
    if totals := {name: value for name, value in values.items() if name in SPLIT_PARAMETERS}:
        samples = SampleSplit(**{"alpha": plan.alpha, "split": plan.alpha0 / plan.alpha, **totals})
        plan = plan.with_alpha(samples.alpha, samples.split)
    return task.changed(**{name: value for name, value in values.items() if name in TASK_PARAMETERS}), plan


@checked(**PROBLEM, x=check_axis, y=check_axis, accuracy=optional(number(above=0.0)))
def map(  # noqa: A001  (the usual name of such a plot; the builtin is not needed here)
    task: Task,
    protocol: Protocol,
    *,
    x: Axis,
    y: Axis,
    of: str = "test_error",
    bayes: bool = False,
    accuracy: float | None = None,
    progress: Progress = None,
) -> SparseMap:
    """Predict the attention and the pooled model over a grid of any two numerical parameters.

    Parameters
    ----------
    task : Task
        Data of the classification problem.
    protocol : Protocol
        Training protocol.
    x, y : pair of str and sequence of float
        A parameter of the task or of the protocol, such as "eta_b", "beta" or "strength", and its values; "alpha" is
        alpha0 + alpha1, and "split" is alpha0/alpha.
    of : str
        Quantity shown in colour.
    bayes : bool
        Whether to add the Bayes-optimal learner of the same data, as ``bayes_test_error``.
    accuracy : float, optional
        Wanted relative error of the test error, see `predict`; by default its absolute error is below 1e-3.
    progress : callable or True, optional
        Called once for every finished cell.

    Returns
    -------
    SparseMap
        One cell per pair of values; cells without a solution hold the reason.

    Raises
    ------
    InvalidArgument
        If a parameter does not exist, a value is out of range, or ``of`` is not a quantity of the map.

    Examples
    --------
    >>> from onehead import sparse
    >>> task = sparse.Task(positive_rate=0.2)
    >>> found = sparse.map(task, sparse.Protocol(loss="square"), x=("eta_b", [0.0, 3.0]), y=("ridge", [0.01]))
    >>> found.grid("anti_aligned").tolist()
    [[1.0, 0.0]]
    """
    check_axes(x, y, PARAMETERS)
    names = (x[0], y[0])
    if set(names) & set(SPLIT_PARAMETERS) and (halves := [name for name in names if name in ("alpha0", "alpha1")]):
        raise InvalidArgument(
            "xy"[names.index(halves[0])],
            halves[0],
            "another parameter: alpha and split already determine alpha0 and alpha1",
        )
    columns = (*PREDICTED_COLUMNS, *POOLED_COLUMNS, *([BAYES_TEST_ERROR] if bayes else []))
    if of not in columns:
        raise InvalidArgument("of", of, " or ".join(columns), columns)
    # all problems are validated before the first one is solved
    problems = {
        (a, b): _problem_at(task, protocol, {x[0]: a, y[0]: b}) for a in axis_values(x[1]) for b in axis_values(y[1])
    }

    @cache
    def best(own: Task, alpha: float) -> float:
        return best_of(own, alpha).test_error

    def solve(a: float, b: float, _: Result | None) -> tuple[Result, dict[str, float | None]]:
        own, plan = problems[a, b]
        pooled = predict(own, plan, model="pooled")
        point = predict_to_error(own, plan, CELL_ERROR) if accuracy is None else predict(own, plan, accuracy=accuracy)
        pooled_columns: dict[str, float | None] = {
            "pooled_test_error": pooled.test_error,
            "pooled_test_error_err": pooled.errors["test_error"],
            "anti_aligned": (point.cos_query or 0.0) < 0.0,
            "worse_than_pooled": point.test_error > pooled.test_error,
        }
        return point, pooled_columns | ({BAYES_TEST_ERROR: best(own, plan.alpha)} if bayes else {})

    values = {**dict(task), **dict(protocol), "alpha": protocol.alpha}
    return SparseMap(
        task=task,
        protocol=protocol,
        setting=describe_setting(values, PARAMETERS, always=ALWAYS_SHOWN, moved=(*names, *SPLIT_PARAMETERS)),
        x_name=x[0],
        y_name=y[0],
        x_values=axis_values(x[1]),
        y_values=axis_values(y[1]),
        of=of,
        cells=solve_grid(x, y, solve, (), progress),
    )
