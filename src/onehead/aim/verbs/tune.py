"""The weight decay with the lowest predicted test error: searched globally, or quickly where there are many to find."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from onehead.aim.equations.emergence import largest_decay
from onehead.aim.equations.state_evolution import StateEvolution
from onehead.aim.task import Learner, Task, check_alpha
from onehead.aim.verbs.bayes import Yardstick, beside, check_beside
from onehead.aim.verbs.predict import Prediction, predict
from onehead.aim.verbs.response import decay_slope
from onehead.aim.words import posed
from onehead.arguments import number, optional
from onehead.best import GAP, gap_to
from onehead.errors import NotConverged, SolveError
from onehead.results import Certificate, Result, in_lines

__all__ = ["Tuned", "beside_best", "best_decay", "tune"]

LOWEST = 1e-6  # relative to the largest weight decay that makes a difference
PER_DECADE = 3
DECADES = 6  # scanned by the quick search, one solve each
ACCURACY = 1e-3  # of log λ; the error is flat there
STRIDE, STRIDES = 0.3, 6  # of log λ from a neighbour's best, and how many before the valley counts as lost
FLAT = 1e-3  # relative change of the test error that is not worth tuning for


@dataclass(frozen=True, kw_only=True)
class Tuned(Result):
    """The best weight decay at one sample ratio, and how the search ended.

    ``weight_decay`` is zero when the limit λ → 0⁺ is best. ``flat_from`` and ``flat_to`` bound the weight decays whose test
    error is within 0.1 % of the best. ``scan`` lists the pairs tried. If asked, the best possible learner stands beside:
    its ``bayes_test_error``, the ``gap`` to it, and the ``data_multiple``, how many times the samples that it needs for the same
    error (infinite if next to none are enough). ``logit_nuclear`` is the same penalty on logits, without the softmax in the loss:
    from it up the loss is what costs, from it down the penalty (A.8).
    """

    _HIDDEN: ClassVar[tuple[str, ...]] = ("point",)
    MEANINGS: ClassVar[dict[str, str]] = {
        "weight_decay": "λ with the lowest test error",
        "test_error": "there",
        "gain": "over the weight decay of the learner",
        "flat_from": "smallest weight decay within 0.1 % of the best",
        "flat_to": "largest weight decay within 0.1 % of the best",
        **GAP,
        "logit_nuclear": "test error of the same penalty on logits",
    }

    weight_decay: float
    test_error: float
    flat_from: float
    flat_to: float
    gain: float
    scan: tuple[tuple[float, float], ...]
    certificate: Certificate
    point: Prediction
    bayes_test_error: float | None = None
    gap: float | None = None
    data_multiple: float | None = None
    logit_nuclear: float | None = None

    @property
    def beside(self) -> list[str]:
        """The best possible learner beside it, in words, where that is known."""
        return [] if self.point.directions else beside(self.point.task, self.point.alpha, self.test_error)

    def explain(self) -> str:
        """Say in words what was found, and how far the best possible learner is.

        Examples
        --------
        >>> from onehead.aim import Learner, Task, tune
        >>> print(tune(Task(), Learner(), alpha=0.5).explain().splitlines()[-1])
          needs 0.345 d² samples for this error; yours 0.5 d².
        """
        return "\n".join([super().explain(), *([in_lines(self.beside)] if self.beside else [])])


@posed(accuracy=optional(number(above=0.0)))
def tune(
    task: Task,
    learner: Learner,
    alpha: float,
    *,
    bayes: bool = False,
    accuracy: float | None = None,
    progress: Callable[[], None] | None = None,
) -> Tuned:
    """Find the weight decay λ with the lowest predicted test error at sample ratio α.

    The search scans log λ from the value at which the map vanishes (or shrinks to nothing, trained directly) six decades
    down, adds the limit λ → 0⁺, and goes to the root of the slope next to the lowest value, so that a second minimum is not
    missed.

    Parameters
    ----------
    task : Task
    learner : Learner
        Everything but its weight decay is kept; its weight decay is what the gain is measured against.
    alpha : float
    bayes : bool
        Lay the best possible learner beside it.
    accuracy : float, optional
        Wanted error of the test error, relative, as in `predict`.
    progress : callable, optional
        Called once for every weight decay tried.

    Examples
    --------
    >>> from onehead.aim import Learner, MarchenkoPastur, Task, tune
    >>> task = Task(target=MarchenkoPastur(kappa0=0.05), noise=0.05)
    >>> best = tune(task, Learner(), alpha=0.15)
    >>> round(best.test_error, 4), best.certificate.status
    (0.0162, 'converged: optimum inside the range')
    """
    alpha = check_alpha(alpha)
    if bayes:
        check_beside(task, learner)
    yardstick = Yardstick(task) if bayes else None  # first, because it may be refused
    tried: dict[float, Prediction] = {}

    def error(decay: float, near: Prediction | None = None) -> float:
        word = decay if decay > 0.0 else "0+"
        try:
            tried[decay] = predict(task, learner.changed(weight_decay=word), alpha, near=near, accuracy=accuracy)
        except SolveError:
            return np.inf  # a value that cannot be solved is not the optimum; the scan goes on around it
        finally:
            if progress is not None:
                progress()
        return tried[decay].test_error

    decays = _top_decay(task, learner, alpha) * np.logspace(
        0.0, np.log10(LOWEST), int(-np.log10(LOWEST) * PER_DECADE) + 1
    )
    near: Prediction | None = None
    errors = []
    for decay in decays:
        errors.append(error(float(decay), near))
        near = tried.get(float(decay), near)
    limit = error(0.0)
    best = int(np.argmin(errors))
    if 0 < best < len(decays) - 1:

        def at(log_decay: float) -> Prediction:
            decay = float(np.exp(log_decay))
            if error(decay, tried[float(decays[best])]) == np.inf:
                raise NotConverged(f"no solution at weight decay {decay:g}.")
            return tried[decay]

        _bottom(at, float(np.log(decays[best + 1])), float(np.log(decays[best - 1])), tried[float(decays[best])])
    winner = min(tried, key=lambda decay: tried[decay].test_error)
    point = tried[winner]
    spread = max(p.test_error for p in tried.values()) - point.test_error
    if spread < FLAT * point.test_error:
        status = "converged: flat, the test error hardly depends on the weight decay"
    elif winner == 0.0 or (limit <= point.test_error * (1.0 + 1e-9) and winner <= decays[-1]):
        status = "converged: boundary, the smaller the weight decay the better (the limit 0+ is best)"
    elif winner >= decays[0] * (1.0 - 1e-9):
        status = "converged: boundary, the larger the weight decay the better (the zero map is best)"
    else:
        status = "converged: optimum inside the range"
    flat_from, flat_to = _flat_range({decay: tried[decay].test_error for decay in tried}, winner)
    own = tried[winner] if learner.decay == winner else None
    try:
        own = own or predict(task, learner, alpha)
        gain = own.test_error - point.test_error
    except SolveError:
        gain = float("nan")
    return Tuned(
        weight_decay=winner,
        test_error=point.test_error,
        flat_from=flat_from,
        flat_to=flat_to,
        gain=gain,
        scan=tuple((decay, tried[decay].test_error) for decay in sorted(tried)),
        certificate=Certificate.of(point.certificate, status=status, evaluations=len(tried)),
        point=point,
        **({} if yardstick is None else beside_best(yardstick, alpha, point.test_error)),
    )


def beside_best(yardstick: Yardstick, alpha: float, test_error: float) -> dict[str, float]:
    """The best possible learner beside a test error."""
    best, needed = yardstick.at(alpha).test_error, yardstick.ratio_for(test_error)
    told = gap_to(best, needed, test_error=test_error, alpha=alpha)
    return told | {"logit_nuclear": yardstick.logit_nuclear(alpha)}


def _flat_range(errors: dict[float, float], winner: float) -> tuple[float, float]:
    """The weight decays around the best whose error is within FLAT of it, read off a monotone curve through those tried."""
    from scipy.interpolate import PchipInterpolator  # noqa: PLC0415

    tried = sorted(decay for decay in errors if decay > 0.0)
    x = np.log(tried)
    fine = np.unique(np.concatenate([x, np.linspace(x[0], x[-1], 4001)]))
    good = PchipInterpolator(x, [errors[decay] for decay in tried])(fine) <= errors[winner] * (1.0 + FLAT)
    best = 0 if winner == 0.0 else int(np.argmin(np.abs(fine - np.log(winner))))
    if not good[best]:  # the limit is best, and the smallest weight decay tried is not as good
        return winner, winner
    high = best + int(np.argmin(np.append(good[best:], False))) - 1
    low = best - int(np.argmin(np.append(good[best::-1], False))) + 1
    reaches_limit = low == 0 and (winner == 0.0 or errors.get(0.0, np.inf) <= errors[winner] * (1.0 + FLAT))
    return (0.0 if reaches_limit else float(np.exp(fine[low]))), float(np.exp(fine[high]))


def _top_decay(task: Task, learner: Learner, alpha: float) -> float:
    """The weight decay at which the map vanishes, in the learner's own units."""
    problem = StateEvolution.of(task, learner)
    return problem.units.own_decay(largest_decay(problem, alpha))


def best_decay(
    task: Task, learner: Learner, alpha: float, *, near: Prediction | None = None, accuracy: float | None = None
) -> Prediction:
    """The prediction at the weight decay with the lowest test error.

    One solve per decade, from where the map vanishes downwards until the error has risen twice, finds the valley, and a root
    of d(test error)/d log λ its bottom. When the error falls all the way to λ → 0⁺ the limit itself is returned. From a tuned
    neighbour ``near`` the bottom of its valley is followed. The best is found with the usual accuracy, and solved with that asked for.
    """
    best = _best_decay(task, learner, alpha, near)
    return best if accuracy is None else predict(task, best.learner, alpha, near=best, accuracy=accuracy)


def _best_decay(task: Task, learner: Learner, alpha: float, near: Prediction | None) -> Prediction:
    """The same with the usual accuracy."""
    if near is not None and near.learner.decay > 0.0:
        followed = _follow(task, learner, alpha, near)
        if followed is not None:
            return followed
    top = _top_decay(task, learner, alpha)
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
    return _bottom(at, np.log(scan[best + 1].learner.decay), np.log(high), scan[best])


def _follow(task: Task, learner: Learner, alpha: float, near: Prediction) -> Prediction | None:
    """The bottom of the valley that the neighbour lies in; nothing if it is not found within a few strides."""
    tried = near

    def at(log_decay: float) -> Prediction:
        nonlocal tried
        tried = predict(task, learner.changed(weight_decay=float(np.exp(log_decay))), alpha, near=tried)
        return tried

    try:
        x = float(np.log(near.learner.decay))
        here = at(x)
        slope = decay_slope(here)
        for _ in range(STRIDES):
            if slope == 0.0:  # S = 0 here
                return None
            ahead = x - float(np.copysign(STRIDE, slope))
            there = at(ahead)
            other = decay_slope(there)
            if slope * other < 0.0:
                best = min(here, there, key=lambda point: point.test_error)
                return _bottom(at, min(x, ahead), max(x, ahead), best)
            x, here, slope = ahead, there, other
    except SolveError:
        return None
    return None


def _bottom(at: Callable[[float], Prediction], low: float, high: float, best: Prediction) -> Prediction:
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
