"""Sparse-token curves for the eye: the library's equations on few sample points, each started from its neighbour.

`onehead.sparse.predict` averages over thousands of points to 2e-4; here 2^9 are used, the linear models take a coarser grid for
the Gaussian of their logit, and the error is below 5e-3 (measured). No number of a sketch is shown.
"""

from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from onehead.errors import OneheadError
from onehead.numerics.patience import stopwatch
from onehead.sparse.equations.alignment import query_of
from onehead.sparse.equations.features import Features, attention_features, linear_features, pooled_features, with_gauss
from onehead.sparse.solve.readout import fresh_error, needs_gauss, solve_readout
from onehead.sparse.solve.separability import separable_ratio
from onehead.sparse.task import Protocol, Task

__all__ = ["capacities", "errors", "linear_capacities"]

LOG2_POINTS = 9
LONG = 100  # tokens from which on fewer points must do
GAUSS = np.linspace(-6.0, 6.0, 81)  # trapezoid rule of the logit's Gaussian


def errors(task: Task, plans: Iterable[Protocol], model: str, *, patience: float) -> list[float]:
    """Test errors along a list of protocols; not a number where the quick route fails or time is up.

    Examples
    --------
    >>> [round(e, 1) for e in errors(Task(), [Protocol()], "pooled", patience=60.0)]
    [0.3]
    """
    late, start, found = stopwatch(patience), None, []
    for plan in plans:
        if late():
            found.append(np.nan)
            continue
        try:
            features, alpha = _features(task, plan, model)
            solution = solve_readout(features, plan.loss, alpha=alpha, ridge=plan.ridge, start=start)
            start = solution.start
            found.append(fresh_error(features, solution))
        except OneheadError:
            start = None
            found.append(np.nan)
    return found


def _features(task: Task, plan: Protocol, model: str) -> tuple[Features, float]:
    if model == "attention":
        query = query_of(task, plan)
        return _attention(task, round(query["cos_query"], 6), round(query["sharpness"], 6)), plan.alpha1
    features = _linear(task, model, needs_gauss(plan.loss))
    return features, plan.alpha if model == "pooled" else plan.alpha / task.length


def _attention(task: Task, cos_query: float, sharpness: float) -> Features:
    size = LOG2_POINTS if task.length <= LONG else LOG2_POINTS - 2
    return attention_features(task, cos_query=cos_query, sharpness=sharpness, log2_points=size, seed=0)


@lru_cache(maxsize=64)
def _linear(task: Task, model: str, gauss: bool) -> Features:
    features = linear_features(task, model)
    return with_gauss(features, GAUSS) if gauss else features


def capacities(task: Task, plans: Iterable[Protocol], *, patience: float) -> list[float]:
    """Separable ratio of attention along a list of protocols.

    Examples
    --------
    >>> 1.0 < capacities(Task(), [Protocol()], patience=60.0)[0] < 100.0
    True
    """
    late, found = stopwatch(patience), []
    for plan in plans:
        try:
            found.append(np.nan if late() else separable_ratio(_attention(task, **query_of(task, plan))))
        except OneheadError:
            found.append(np.nan)
    return found


def linear_capacities(task: Task) -> tuple[float, float]:
    """Of the pooled and of the vectorised classifier; not a number where the quick route fails (S6)."""
    try:
        pooled = separable_ratio(pooled_features(task))
    except OneheadError:
        pooled = np.nan
    return pooled, task.length * pooled
