"""The best weight decay at one sample ratio, where the derivative of the error in log λ changes sign."""

import numpy as np

from onehead.aim.prediction import Prediction
from onehead.aim.slopes import decay_slope
from onehead.aim.task import Learner, Task
from onehead.aim.theory import predict
from onehead.aim.tune import largest_decay
from onehead.errors import NotConverged, SolveError

__all__ = ["best_decay"]

DECADES = 6  # scanned below the weight decay at which the map vanishes
ACCURACY = 1e-3  # of log λ; the error is flat there


def best_decay(task: Task, learner: Learner, alpha: float) -> Prediction:
    """The prediction at the weight decay with the lowest test error.

    One solve per decade, from where the map vanishes downwards until the error has risen twice, finds the valley, and a root
    of d(test error)/d log λ its bottom. When the error falls all the way to λ → 0⁺ the limit itself is returned.
    """
    top = largest_decay(task, learner, alpha)
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
    high, low = scan[max(best - 1, 0)], scan[best + 1]
    return _root(low, high, scan[best])


def _root(low: Prediction, high: Prediction, best: Prediction) -> Prediction:
    """Where the slope in log λ changes sign between two predictions: secant steps that keep the bracket."""
    task, alpha = best.task, best.alpha
    a, b = np.log(low.learner.decay), np.log(high.learner.decay)
    at_a, at_b = decay_slope(low), decay_slope(high)
    if not at_a < 0.0 < at_b:
        return best
    here = best
    for _ in range(30):
        share = np.clip(at_a / (at_a - at_b), 0.05, 0.95)
        x = float(a + share * (b - a))
        here = predict(task, best.learner.changed(weight_decay=float(np.exp(x))), alpha, near=here)
        slope = decay_slope(here)
        if slope < 0.0:
            a, at_a, at_b = x, slope, 0.5 * at_b  # Illinois: the end that stays loses weight
        else:
            b, at_b, at_a = x, slope, 0.5 * at_a
        if b - a < ACCURACY or abs(slope) < 1e-6 * here.test_error:
            break
    return min(here, best, key=lambda point: point.test_error)
