"""Draft curves for the explorer: the same equations on few sample points, each solution started from its neighbour.

`onehead.sparse.predict` averages over thousands of points to an error of 2e-4. A draft uses 2^9 points and a coarser
grid for the linear models; its measured error is below 5e-3. Draft values are plotted, never printed.
"""

from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from onehead.errors import OneheadError
from onehead.numerics.time_budget import stopwatch
from onehead.sparse.solve.descent import Plan, Trajectory, solve_trajectory
from onehead.sparse.solve.readout import fresh_error, needs_gauss, solve_readout
from onehead.sparse.solve.separability import separable_ratio
from onehead.sparse.task import Protocol, Task
from onehead.sparse.theory.alignment import query_of
from onehead.sparse.theory.features import Features, attention_features, linear_features, pooled_features, with_gauss

LOG2_POINTS = 9  # log2 of the sample points per class
DESCENT_LOG2_POINTS = 6  # log2 of the points per class of each of 8 sets, in a draft of joint descent
LONG_SEQUENCE = 100  # tokens; longer sequences use a quarter of the points
GAUSS_GRID = np.linspace(-6.0, 6.0, 81)  # trapezoidal rule of the Gaussian of the logit


def errors(task: Task, protocols: Iterable[Protocol], model: str, *, patience: float) -> list[float]:
    """Return draft test errors along a list of protocols; NaN where the solver fails or the time budget is exceeded.

    Examples
    --------
    >>> [round(e, 1) for e in errors(Task(), [Protocol()], "pooled", patience=60.0)]
    [0.3]
    """
    late, start, found = stopwatch(patience), None, []
    for protocol in protocols:
        if late():
            found.append(np.nan)
            continue
        try:
            features, alpha = _features(task, protocol, model)
            solution = solve_readout(features, protocol.loss, alpha=alpha, ridge=protocol.ridge, start=start)
            start = solution.start
            found.append(fresh_error(features, solution))
        except OneheadError:
            start = None
            found.append(np.nan)
    return found


def _features(task: Task, protocol: Protocol, model: str) -> tuple[Features, float]:
    if model == "attention":
        query = query_of(task, protocol)
        return _attention_features(task, round(query["cos_query"], 6), round(query["sharpness"], 6)), protocol.alpha1
    features = _linear_features(task, model, needs_gauss(protocol.loss))
    return features, protocol.alpha if model == "pooled" else protocol.alpha / task.length


def _attention_features(task: Task, cos_query: float, sharpness: float) -> Features:
    size = LOG2_POINTS if task.length <= LONG_SEQUENCE else LOG2_POINTS - 2
    return attention_features(task, cos_query=cos_query, sharpness=sharpness, log2_points=size, seed=0)


@lru_cache(maxsize=64)
def _linear_features(task: Task, model: str, gauss: bool) -> Features:
    features = linear_features(task, model)
    return with_gauss(features, GAUSS_GRID) if gauss else features


def capacities(task: Task, protocols: Iterable[Protocol], *, patience: float) -> list[float]:
    """Return draft capacities of attention along a list of protocols; NaN where the solver fails or time is up.

    Examples
    --------
    >>> 1.0 < capacities(Task(), [Protocol()], patience=60.0)[0] < 100.0
    True
    """
    late, found = stopwatch(patience), []
    for protocol in protocols:
        try:
            found.append(np.nan if late() else separable_ratio(_attention_features(task, **query_of(task, protocol))))
        except OneheadError:
            found.append(np.nan)
    return found


def linear_capacities(task: Task) -> tuple[float, float]:
    """Return the capacities of the pooled and of the vectorised model; NaN where the solver fails (S6)."""
    try:
        pooled = separable_ratio(pooled_features(task))
    except OneheadError:
        pooled = np.nan
    return pooled, task.length * pooled


def descent(task: Task, protocol: Protocol, *, steps: int) -> Trajectory:
    """Return draft numbers after every step of joint descent on the same data, in a tenth of the time (J8-J13).

    Cosines and test errors differ by at most about 2e-3 from those of `onehead.sparse.descend` in stable descents.

    Examples
    --------
    >>> found = descent(Task(), Protocol(beta=1.0, eta_b=3.0, ridge=0.1), steps=4)
    >>> found.means.shape == found.errors.shape, len(found.means)
    (True, 4)
    """
    return solve_trajectory(task, protocol, Plan(steps), DESCENT_LOG2_POINTS)
