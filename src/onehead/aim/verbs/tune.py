"""The weight decay with the lowest predicted test error: searched globally, or quickly where there are many to find."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from onehead.aim.equations.emergence import largest_decay
from onehead.aim.equations.head import equations_of
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

DECADES = 6  # scanned, from the largest weight decay that makes a difference downwards; by the quick search with one solve each
SCANNED = 10  # weight decays of the global search: with their slopes two numbers each, so that a valley between two of them shows
ROUGH = 1e-3  # accuracy of a scan, relative; what lies close to the best is solved with the one asked for
ACCURACY = 1e-3  # of log λ; the error is flat there
STRIDE, STRIDES = 0.1, 8  # of log λ from a neighbour's best, and how many solves before the valley counts as lost
FARTHEST = 1.0  # of log λ from a neighbour's best
SAME = 1e-5  # relative difference of test errors below which the root of the slope counts, not the lower error: that is chance
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
    down, errors to 0.1 % and their slopes, which show every valley between two of them; goes to the root of the slope in the lowest
    one; and adds the limit λ → 0⁺ where it could be better.

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

    def solve(decay: float, near: Prediction | None, accuracy: float | None) -> Prediction:
        word = decay if decay > 0.0 else "0+"
        try:
            tried[decay] = predict(task, learner.changed(weight_decay=word), alpha, near=near, accuracy=accuracy)
        finally:
            if progress is not None:
                progress()
        return tried[decay]

    top, near, rough = _top_decay(task, learner, alpha), None, _rough(task, learner, accuracy)
    decays = [float(decay) for decay in top * np.logspace(0.0, -DECADES, SCANNED)]
    for decay in decays:
        with suppress(SolveError):  # a value that cannot be solved is not the optimum; the scan goes on around it
            near = solve(decay, near, rough)
    valley = _lowest_valley([tried[decay] for decay in decays if decay in tried])
    found = None
    if valley is not None:
        found = _bottom(lambda x: solve(float(np.exp(x)), valley.near, accuracy), valley)
    lowest = min((point.test_error for point in tried.values()), default=np.inf)
    limit = np.inf
    falling = decays[-1] not in tried or tried[decays[-1]].test_error <= lowest * (1.0 + 10.0 * FLAT)
    if falling:  # else it cannot be the best
        with suppress(SolveError):
            limit = solve(0.0, None, accuracy).test_error
    if not tried:
        raise NotConverged(f"no weight decay could be solved at alpha = {alpha:g}.")
    winner = min(tried, key=lambda decay: tried[decay].test_error)
    if found is not None and found.test_error < tried[winner].test_error * (1.0 + SAME):
        winner = found.learner.decay
    point = tried[winner]
    if winner in decays and rough != accuracy:
        point = solve(winner, point, accuracy)
    spread = max(p.test_error for p in tried.values()) - point.test_error
    if spread < FLAT * point.test_error:
        status = "converged: flat, the test error hardly depends on the weight decay"
    elif winner == 0.0 or (limit <= point.test_error * (1.0 + 1e-9) and winner <= decays[-1]):
        status = "converged: boundary, the smaller the weight decay the better (the limit 0+ is best)"
    elif winner >= decays[0] * (1.0 - 1e-9):
        status = "converged: boundary, the larger the weight decay the better (the zero map is best)"
    else:
        status = "converged: optimum inside the range"
    slopes = {decay: decay_slope(tried[decay]) for decay in tried if decay > 0.0}
    flat_from, flat_to = _flat_range({decay: tried[decay].test_error for decay in tried}, slopes, winner)
    own = tried[winner] if learner.decay == winner else None
    try:
        own = own or predict(task, learner, alpha, near=point)
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


def _flat_range(errors: dict[float, float], slopes: dict[float, float], winner: float) -> tuple[float, float]:
    """The weight decays around the best whose error is within FLAT of it, read off a curve through those tried with its slopes."""
    from scipy.interpolate import CubicHermiteSpline  # noqa: PLC0415

    tried = sorted(decay for decay in errors if decay > 0.0)
    x = np.log(tried)
    fine = np.unique(np.concatenate([x, np.linspace(x[0], x[-1], 4001)]))
    through = CubicHermiteSpline(x, [errors[decay] for decay in tried], [slopes[decay] for decay in tried])
    good = through(fine) <= errors[winner] * (1.0 + FLAT)
    best = 0 if winner == 0.0 else int(np.argmin(np.abs(fine - np.log(winner))))
    if not good[best]:  # the limit is best, and the smallest weight decay tried is not as good
        return winner, winner
    high = best + int(np.argmin(np.append(good[best:], False))) - 1
    low = best - int(np.argmin(np.append(good[best::-1], False))) + 1
    reaches_limit = low == 0 and (winner == 0.0 or errors.get(0.0, np.inf) <= errors[winner] * (1.0 + FLAT))
    return (0.0 if reaches_limit else float(np.exp(fine[low]))), float(np.exp(fine[high]))


def _top_decay(task: Task, learner: Learner, alpha: float) -> float:
    """The weight decay at which the map vanishes, in the learner's own units."""
    problem = equations_of(task, learner)
    return problem.units.own_decay(largest_decay(problem, alpha))


def _rough(task: Task, learner: Learner, accuracy: float | None) -> float | None:
    """The accuracy of a scan: little where a lattice can be coarse, the usual one where points are sampled."""
    return None if equations_of(task, learner).output.geometry.sampled else max(ROUGH, accuracy or 0.0)


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

    rough = _rough(task, learner, None)

    def solve(decay: float | str, near: Prediction | None, accuracy: float | None = None) -> Prediction:
        return predict(task, learner.changed(weight_decay=decay), alpha, near=near, accuracy=accuracy)

    scan: list[Prediction] = []
    for decay in _top_decay(task, learner, alpha) * np.logspace(-0.5, 0.5 - DECADES, DECADES):
        with suppress(SolveError):
            scan.append(solve(float(decay), scan[-1] if scan else None, rough))
        errors = [point.test_error for point in scan]
        if len(errors) > 2 and errors[-3] < errors[-2] < errors[-1]:
            break
    if not scan:
        raise NotConverged(f"no weight decay could be solved at alpha = {alpha:g}.")
    best = min(scan, key=lambda point: point.test_error)
    if best is scan[-1]:
        with suppress(SolveError):
            best = min(solve("0+", None), best, key=lambda point: point.test_error)
    else:
        valley = _lowest_valley(scan)
        if valley is not None:
            return _bottom(lambda x: solve(float(np.exp(x)), valley.near), valley)
    return solve(best.learner.decay, best) if best.learner.decay > 0.0 else best


def _follow(task: Task, learner: Learner, alpha: float, near: Prediction) -> Prediction | None:
    """The bottom of the valley that the neighbour lies in, a secant on the slope; nothing if it is not found within a few solves."""
    first = x = float(np.log(near.learner.decay))
    old: tuple[float, float] | None = None
    for _ in range(STRIDES):
        try:
            near = predict(task, learner.changed(weight_decay=float(np.exp(x))), alpha, near=near)
        except SolveError:
            return None
        slope = decay_slope(near)
        if slope == 0.0:  # S = 0 here
            return None
        move = -float(np.copysign(STRIDE, slope))
        if old is not None:
            curvature = (slope - old[1]) / (x - old[0])
            if curvature <= 0.0:
                return None
            move = -slope / curvature
        if abs(move) < ACCURACY:
            return near
        old, x = (x, slope), x + move
        if abs(x - first) > FARTHEST:
            return None
    return None


class _Valley(NamedTuple):
    """Two values of log λ between which the test error falls and rises again, its slopes there, and where it may be lowest."""

    low: float
    high: float
    slopes: tuple[float, float]
    bottom: float
    near: Prediction


def _lowest_valley(points: Sequence[Prediction]) -> _Valley | None:
    """The valley between neighbours whose bottom is lowest, by a cubic through errors and slopes; nothing if there is none."""
    ordered = sorted(points, key=lambda point: point.learner.decay)
    slopes = [decay_slope(point) for point in ordered]
    found: list[tuple[float, _Valley]] = []
    for i in range(len(ordered) - 1):
        (left, right), ends = ordered[i : i + 2], (slopes[i], slopes[i + 1])
        if not ends[0] < 0.0 <= ends[1]:
            continue
        low, high = (float(np.log(point.learner.decay)) for point in (left, right))
        share, depth = _cubic_bottom(left.test_error, right.test_error, *((high - low) * end for end in ends))
        near = min(left, right, key=lambda point: point.test_error)
        found.append((depth, _Valley(low, high, ends, low + share * (high - low), near)))
    return min(found, key=lambda one: one[0])[1] if found else None


def _cubic_bottom(left: float, right: float, fall: float, rise: float) -> tuple[float, float]:
    """Where on (0, 1) the cubic with these values and slopes at the ends is lowest, and how low it is.

    Examples
    --------
    >>> share, depth = _cubic_bottom(1.0, 1.0, -4.0, 4.0)
    >>> round(share, 3), round(depth, 3)
    (0.5, 0.0)
    """
    t = np.linspace(0.02, 0.98, 97)
    bend, twist = 3.0 * (right - left) - 2.0 * fall - rise, 2.0 * (left - right) + fall + rise
    values = left + t * (fall + t * (bend + t * twist))
    place = int(np.argmin(values))
    return float(t[place]), float(values[place])


def _bottom(at: Callable[[float], Prediction], valley: _Valley) -> Prediction:
    """The bottom of a valley, where the slope is smallest: a secant that never leaves it."""
    low, high, (falls, rises), x, best = valley
    least = np.inf
    old = (low, falls) if -falls < rises or rises == 0.0 else (high, rises)
    for _ in range(30):
        try:
            here = at(x)
        except SolveError:
            break
        slope = decay_slope(here)
        if abs(slope) < least:
            best, least = here, abs(slope)
        if slope < 0.0:
            low = x
        else:
            high = x
        if slope == 0.0 or high - low < ACCURACY:
            break
        ahead = x - slope * (x - old[0]) / (slope - old[1]) if slope != old[1] else x
        if not low < ahead < high:
            ahead = 0.5 * (low + high)
        if abs(ahead - x) < ACCURACY:
            break
        old, x = (x, slope), ahead
    return best
