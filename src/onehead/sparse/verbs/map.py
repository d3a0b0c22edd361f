"""map(): predictions over any two words of the task and the protocol (S7)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import ClassVar

import numpy as np

from onehead.arguments import checked, number, optional
from onehead.best import BESIDE
from onehead.errors import InvalidArgument
from onehead.maps import Axis, Map, MapCell, an_axis, check_axes, floats, mapped, setting_of
from onehead.renamed import renamed
from onehead.results import Result
from onehead.sparse.task import PROBLEM, Protocol, Task
from onehead.sparse.verbs.bayes import bayes as best_of
from onehead.sparse.verbs.predict import Prediction, predict, roughly
from onehead.sparse.words import KNOWN, PROTOCOL, SHARES, TASK, Shares

__all__ = ["SparseMap", "map"]

ENOUGH = 1e-3  # error of the test error: a map is looked at, not read off
ALWAYS = ("length", "signal_tokens", "strength", "positive_rate")  # words of a setting that is told
NUMBERS = tuple(one.name for one in fields(Prediction) if one.type in (float, float | None))
POOLED = ("pooled_test_error", "pooled_test_error_err", "anti_aligned", "worse_than_pooled")


@dataclass(frozen=True, kw_only=True)
class SparseMap(Map):
    """Predictions of the attention model over two words, row by row of the second, with the pooled model beside."""

    _SHOWN: ClassVar[tuple[str, ...]] = ("cos_query", "test_error", "pooled_test_error", "status")

    task: Task
    protocol: Protocol

    def regions(self) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.bool_]]]:
        """Cells in which the query points away from the signal, and those in which the pooled model is better."""
        names = {"anti_aligned": "anti-aligned", "worse_than_pooled": "worse than pooled"}
        return {text: np.nan_to_num(self.grid(name)) > 0.5 for name, text in names.items()}

    def rows(self) -> list[dict[str, object]]:
        """The rows, by their name before 2.0."""
        renamed("Landscape.rows()", "SparseMap.to_rows()")
        return self.to_rows()

    @property
    def spots(self) -> tuple[MapCell, ...]:
        """The cells, by their name before 2.0."""
        renamed("Landscape.spots", "SparseMap.cells")
        return self.cells


def _moved(task: Task, protocol: Protocol, moved: Mapping[str, float]) -> tuple[Task, Protocol]:
    """The problem with some of its words changed, whole numbers being whole; ``alpha`` and ``split`` keep each other."""
    whole = {
        name: int(value) if KNOWN[name].kind == "integer" and value == int(value) else value
        for name, value in moved.items()
    }
    plan = protocol.changed(**{name: value for name, value in whole.items() if name in PROTOCOL})
    if shares := {name: value for name, value in whole.items() if name in SHARES}:
        both = Shares(**{"alpha": plan.alpha, "split": plan.alpha0 / plan.alpha, **shares})
        plan = plan.with_alpha(both.alpha, both.split)
    return task.changed(**{name: value for name, value in whole.items() if name in TASK}), plan


@checked(**PROBLEM, x=an_axis, y=an_axis, accuracy=optional(number(above=0.0)))
def map(  # noqa: A001  (the word that people use; the builtin is not needed here)
    task: Task,
    protocol: Protocol,
    *,
    x: Axis,
    y: Axis,
    of: str = "test_error",
    bayes: bool = False,
    accuracy: float | None = None,
    progress: Callable[[], None] | None = None,
) -> SparseMap:
    """Predict the attention model, and the pooled one beside it, over a grid of any two words that are numbers.

    Parameters
    ----------
    task, protocol
        What is learned, and how.
    x, y : pair of str and sequence of float
        A word of the task or of the protocol, such as "eta_b", "beta" or "strength", and its values; "alpha" is the sum of both
        halves of the data and "split" the share that finds the query.
    of : str
        The number that pictures show.
    bayes : bool
        Add the best possible learner, ``bayes_test_error``.
    accuracy : float, optional
        Wanted error of the test error, relative, as in `predict`; usually the error itself is below 1e-3.
    progress : callable, optional
        Called once for every finished cell.

    Examples
    --------
    >>> from onehead import sparse
    >>> task = sparse.Task(positive_rate=0.2)
    >>> found = sparse.map(task, sparse.Protocol(loss="square"), x=("eta_b", [0.0, 3.0]), y=("ridge", [0.01]))
    >>> found.grid("anti_aligned").tolist()
    [[1.0, 0.0]]
    """
    check_axes(x, y, KNOWN)
    names = (x[0], y[0])
    if set(names) & set(SHARES) and (halves := [name for name in names if name in ("alpha0", "alpha1")]):
        raise InvalidArgument(
            "xy"[names.index(halves[0])], halves[0], "another word: alpha and split are made of alpha0 and alpha1"
        )
    columns = (*NUMBERS, *POOLED, *([BESIDE] if bayes else []))
    if of not in columns:
        raise InvalidArgument("of", of, " or ".join(columns), columns)
    problems = {
        (a, b): _moved(task, protocol, {x[0]: a, y[0]: b}) for a in floats(x[1]) for b in floats(y[1])
    }  # all of them first, because any may be refused

    @cache
    def best(own: Task, alpha: float) -> float:
        return best_of(own, alpha).test_error

    def solve(a: float, b: float, _: Result | None) -> tuple[Result, dict[str, float | None]]:
        own, plan = problems[a, b]
        pooled = predict(own, plan, model="pooled")
        point = roughly(own, plan, ENOUGH) if accuracy is None else predict(own, plan, accuracy=accuracy)
        beside: dict[str, float | None] = {
            "pooled_test_error": pooled.test_error,
            "pooled_test_error_err": pooled.errors["test_error"],
            "anti_aligned": (point.cos_query or 0.0) < 0.0,
            "worse_than_pooled": point.test_error > pooled.test_error,
        }
        return point, beside | ({BESIDE: best(own, plan.alpha)} if bayes else {})

    said = {**dict(task), **dict(protocol), "alpha": protocol.alpha}
    return SparseMap(
        task=task,
        protocol=protocol,
        setting=setting_of(said, KNOWN, always=ALWAYS, moved=(*names, *SHARES)),
        x_name=x[0],
        y_name=y[0],
        x_values=floats(x[1]),
        y_values=floats(y[1]),
        of=of,
        cells=mapped(x, y, solve, (), progress),
    )
