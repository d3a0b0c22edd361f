"""The best weight decay at one sample ratio, where the derivative of the error in log λ changes sign."""

from collections.abc import Callable

import numpy as np

from onehead.aim.equations.emergence import largest_decay
from onehead.aim.equations.state_evolution import reduce
from onehead.aim.task import Learner, Task
from onehead.aim.verbs.predict import predict
from onehead.aim.verbs.prediction import Prediction
from onehead.aim.verbs.response import decay_slope
from onehead.errors import NotConverged, SolveError

__all__ = ["best_decay", "bottom", "top_decay"]

DECADES = 6  # scanned below the weight decay at which the map vanishes
ACCURACY = 1e-3  # of log λ; the error is flat there


def top_decay(task: Task, learner: Learner, alpha: float) -> float:
    """The weight decay at which the map vanishes, in the learner's own units."""
    problem = reduce(task, learner)
    return largest_decay(problem, alpha) * (learner.beta**2 if problem.direct else learner.beta)


def best_decay(task: Task, learner: Learner, alpha: float) -> Prediction:
    """The prediction at the weight decay with the lowest test error.

    One solve per decade, from where the map vanishes downwards until the error has risen twice, finds the valley, and a root
    of d(test error)/d log λ its bottom. When the error falls all the way to λ → 0⁺ the limit itself is returned.
    """
    top = top_decay(task, learner, alpha)
    scan: list[Prediction] = []
    for decay in top * np.logspace(-0.5, 0.5 - DECADES, DECADES):
        try:
            near = scan[-1] if scan else None
            scan.append(predict(task, learner.changed(weight_decay=float(decay)), alpha, near=near))
        except SolveError:
            continue
        errors = [point.test_error for point in scan]
        if len(errors) > 2 and errors[-3] < errors[-2] < errors[-1]:
            break
    if not scan:
        raise NotConverged(f"no weight decay could be solved at alpha = {alpha:g}.")
    best = int(np.argmin([point.test_error for point in scan]))
    if best == len(scan) - 1:
        try:
            limit = predict(task, learner.changed(weight_decay="0+"), alpha)
            return min(limit, scan[-1], key=lambda point: point.test_error)
        except SolveError:
            return scan[-1]

    def at(log_decay: float) -> Prediction:
        return predict(task, learner.changed(weight_decay=float(np.exp(log_decay))), alpha, near=scan[best])

    high = scan[best - 1].learner.decay if best > 0 else top
    return bottom(at, np.log(scan[best + 1].learner.decay), np.log(high), scan[best])


def bottom(at: Callable[[float], Prediction], low: float, high: float, best: Prediction) -> Prediction:
    """The lowest test error between two values of log λ around a good one: a bracketed secant on the slope."""
    slopes: dict[str, float] = {}
    here, x = best, float(np.log(best.learner.decay))
    for _ in range(30):
        slope = decay_slope(here)
        if slope < 0.0:
            low, slopes["low"] = x, slope
        else:
            high, slopes["high"] = x, slope
        if high - low < ACCURACY or abs(slope) < 1e-6 * here.test_error:
            break
        share = 0.5
        if len(slopes) == 2:
            share = float(np.clip(slopes["low"] / (slopes["low"] - slopes["high"]), 0.05, 0.95))
        x = low + share * (high - low)
        try:
            here = at(x)
        except SolveError:
            break
        best = min(here, best, key=lambda point: point.test_error)
    return best
