"""tune() and best_decay(): the weight decay with the lowest predicted test error, by a global and by a fast search."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from onehead.aim.flat_parameters import validate_problem
from onehead.aim.solve.branches import vanishing_decay
from onehead.aim.solve.solver import VISIBLE_SWITCH_MASS
from onehead.aim.task import Learner, Task, check_alpha
from onehead.aim.theory.build import build_several_heads, build_state_evolution, heads_are_coupled
from onehead.aim.verbs.bayes import BayesReference, check_bayes_comparison, describe_bayes_gap
from onehead.aim.verbs.decay_bracket import LOG_DECAY_TOLERANCE, lowest_bracket, refine_minimum
from onehead.aim.verbs.implicit_derivatives import decay_slope
from onehead.aim.verbs.predict import Prediction, predict
from onehead.deprecation import warn_renamed
from onehead.errors import NotConverged, SolveError
from onehead.fields import parameters_of
from onehead.results import Certificate, Result, wrap_sentences
from onehead.results.bayes_gap import GAP_MEANINGS, gap_to_bayes
from onehead.validation import number, optional

LARGEST_DECAY = float(parameters_of(Learner)["weight_decay"].bounds["le"]) / 10.0  # half a decade is added in a search
SCAN_DECADES = 6  # range of the scan in decades of λ, down from the value at which the map vanishes
SCAN_POINTS = 10  # of the global search; errors and slopes at these show every minimum between two of them
SCAN_ACCURACY = 1e-3  # relative accuracy of the test error in a scan; near the minimum the accuracy asked for is used
HOPELESS_IN_A_ROW = 2  # weight decays after which a scan ends
FAR_ABOVE = 1.1  # factor over the lowest test error from which on a scan takes what the default rules give
FOLLOW_LOG_STEP = 0.1  # first step of log λ from the best weight decay of a neighbour
FOLLOW_MAX_SOLVES = 8  # after which the minimum of the neighbour is not followed further
FOLLOW_MAX_LOG_DISTANCE = 1.0  # of log λ from the best weight decay of the neighbour
INDISTINGUISHABLE = (
    1e-5  # relative difference of test errors below which the root of the slope is preferred to the lower error
)
FLAT_TOLERANCE = 1e-3  # relative increase of the test error that still counts as equally good


@dataclass(frozen=True, kw_only=True)
class Tuned(Result):
    """The best weight decay at one sample ratio, and how the search ended.

    Attributes
    ----------
    weight_decay : float
        λ with the lowest test error; 0.0 if the limit λ → 0⁺ is best.
    test_error : float
        Test error at this weight decay.
    flat_from, flat_to : float
        Range of weight decays whose test error is within 0.1 % of the lowest.
    gain : float
        Test error of the learner's own weight decay minus the lowest; NaN where the former could not be solved.
    scan : tuple of pairs
        Weight decays tried and their test errors.
    certificate : Certificate
        How the search ended, and the errors of the best point.
    point : Prediction
        The prediction at the best weight decay.
    bayes_test_error : float or None
        Test error of the best possible learner, if asked for.
    gap : float or None
        Relative excess of the test error over ``bayes_test_error``.
    data_multiple : float or None
        Number of samples over the number that the best possible learner needs for the same error; infinite if that
        needs next to none.
    logit_nuclear : float or None
        Test error of least squares on the logits with the same penalty. What lies above it is due to the loss, what
        lies below is due to the penalty (A.8).
    """

    _HIDDEN: ClassVar[tuple[str, ...]] = ("point",)
    MEANINGS: ClassVar[dict[str, str]] = {
        "weight_decay": "λ with the lowest test error",
        "test_error": "at this weight decay",
        "gain": "in test error over the learner's own weight decay",
        "flat_from": "smallest weight decay within 0.1 % of the best",
        "flat_to": "largest weight decay within 0.1 % of the best",
        **GAP_MEANINGS,
        "logit_nuclear": "test error of least squares on logits with the same penalty",
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
        """Deprecated: the sentences on the best possible learner, which `explain` includes."""
        warn_renamed("Tuned.beside", "Tuned.explain()")
        return [] if self.point.directions else describe_bayes_gap(self.point.task, self.point.alpha, self.test_error)

    def explain(self) -> str:
        """Explain in sentences what was found, and how far it is from the best possible learner.

        Examples
        --------
        >>> from onehead.aim import Learner, Task, tune
        >>> print(tune(Task(), Learner(), alpha=0.5).explain().splitlines()[-1])
          and needs 0.345 d² samples for this error; you have 0.5 d².
        """
        gap = [] if self.point.directions else describe_bayes_gap(self.point.task, self.point.alpha, self.test_error)
        return "\n".join([super().explain(), *([wrap_sentences(gap)] if gap else [])])


@validate_problem(accuracy=optional(number(above=0.0)))
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

    The search scans log λ over six decades, down from the value at which the map vanishes (or, trained directly,
    becomes negligible). With noisy labels it ends earlier, at the second value in a row with competing minima and an
    error far above the lowest, or without a solution. Errors, to 0.1 %, and slopes at these values show every minimum
    between two of them. The lowest one is refined by root finding on the slope, and the limit λ → 0⁺ is added where it
    could be better.

    Parameters
    ----------
    task : Task
        What is learned.
    learner : Learner
        The head that learns it; ``gain`` is measured against its weight decay.
    alpha : float
        Sample ratio α = n/d².
    bayes : bool
        Whether to compare with the best possible learner.
    accuracy : float, optional
        Wanted relative error of the test error, as in `predict`.
    progress : callable, optional
        Called once for every weight decay tried.

    Returns
    -------
    Tuned
        Best weight decay, its test error and the range of weight decays that are as good.

    Raises
    ------
    InvalidArgument
        If an argument is not allowed.
    NotConverged
        If no weight decay could be solved.

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
        check_bayes_comparison(task, learner)
    reference = BayesReference(task) if bayes else None  # before the search, because it may be refused
    tried: dict[float, Prediction] = {}

    def solve(decay: float, near: Prediction | None, accuracy: float | None) -> Prediction:
        value = decay if decay > 0.0 else "0+"
        try:
            tried[decay] = predict(task, learner.changed(weight_decay=value), alpha, near=near, accuracy=accuracy)
        finally:
            if progress is not None:
                progress()
        return tried[decay]

    top, near = _vanishing_decay(task, learner, alpha), None
    scan_accuracy = _scan_accuracy(task, learner, accuracy)
    decays = [float(decay) for decay in top * np.logspace(0.0, -SCAN_DECADES, SCAN_POINTS)]
    hopeless = 0
    for decay in decays:
        with suppress(SolveError):  # the scan continues at the other values
            near = _scanned(solve, decay, near, scan_accuracy, tried)
        hopeless = hopeless + 1 if task.noise > 0.0 and _is_hopeless(decay, tried) else 0
        if hopeless == HOPELESS_IN_A_ROW:
            break
    found = None
    with suppress(SolveError):  # slopes near a perfect recovery may fail; the scan and the limit are left
        bracket = lowest_bracket([tried[decay] for decay in decays if decay in tried])
        if bracket is not None:
            found = refine_minimum(lambda x: solve(float(np.exp(x)), bracket.near, accuracy), bracket)
    lowest = min((point.test_error for point in tried.values()), default=np.inf)
    limit = np.inf
    falling = hopeless < HOPELESS_IN_A_ROW and (
        decays[-1] not in tried or tried[decays[-1]].test_error <= lowest * (1.0 + 10.0 * FLAT_TOLERANCE)
    )
    coupled = heads_are_coupled(task, learner)  # their limit is not known
    if (
        falling or task.noise == 0.0
    ) and not coupled:  # else the limit cannot be the best; without noise it may recover the target
        with suppress(SolveError):
            limit = solve(0.0, None, accuracy).test_error
    if not tried:
        raise NotConverged(f"no weight decay could be solved at alpha = {alpha:g}.")
    winner = min(tried, key=lambda decay: tried[decay].test_error)
    if found is not None and found.test_error < tried[winner].test_error * (1.0 + INDISTINGUISHABLE):
        winner = found.learner.decay
    point = tried[winner]
    if winner in decays and scan_accuracy != accuracy:
        point = solve(winner, point, accuracy)
    spread = max(p.test_error for p in tried.values()) - point.test_error
    if spread < FLAT_TOLERANCE * point.test_error:
        status = "converged: flat, the test error hardly depends on the weight decay"
    elif winner == 0.0 or (limit <= point.test_error * (1.0 + 1e-9) and winner <= decays[-1]):
        status = "converged: boundary, the smaller the weight decay the better (the limit 0+ is best)"
    elif winner >= decays[0] * (1.0 - 1e-9) or point.rank == 0.0:
        status = "converged: boundary, the larger the weight decay the better (the zero map is best)"
    else:
        status = "converged: optimum inside the range"
    slopes = _slopes({decay: point for decay, point in tried.items() if decay > 0.0})
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
        **({} if reference is None else bayes_gap_at(reference, alpha, point.test_error)),
    )


def bayes_gap_at(reference: BayesReference, alpha: float, test_error: float) -> dict[str, float]:
    """Fields of `Tuned` that compare a test error with the Bayes-optimal one."""
    best, needed = reference.at(alpha).test_error, reference.sample_ratio_for(test_error)
    gap = gap_to_bayes(best, needed, test_error=test_error, alpha=alpha)
    return gap | {"logit_nuclear": reference.logit_nuclear(alpha)}


def _slopes(tried: dict[float, Prediction]) -> dict[float, float]:
    """Slopes d(test error)/d log λ by weight decay; by differences of the errors where one cannot be solved for."""
    decays = sorted(tried)
    differences = (
        np.gradient([tried[decay].test_error for decay in decays], np.log(decays)) if len(decays) > 1 else [0.0]
    )
    slopes = dict(zip(decays, (float(slope) for slope in differences), strict=True))
    for decay in decays:
        with suppress(SolveError):
            slopes[decay] = decay_slope(tried[decay])
    return slopes


def _flat_range(errors: dict[float, float], slopes: dict[float, float], winner: float) -> tuple[float, float]:
    """Range of weight decays with an error within FLAT_TOLERANCE of the best, by a spline of errors and slopes."""
    from scipy.interpolate import CubicHermiteSpline

    tried = sorted(decay for decay in errors if decay > 0.0)
    x = np.log(tried)
    fine = np.unique(np.concatenate([x, np.linspace(x[0], x[-1], 4001)]))
    spline = CubicHermiteSpline(x, [errors[decay] for decay in tried], [slopes[decay] for decay in tried])
    good = spline(fine) <= errors[winner] * (1.0 + FLAT_TOLERANCE)
    best = 0 if winner == 0.0 else int(np.argmin(np.abs(fine - np.log(winner))))
    if not good[best]:  # only the limit is this good, not even the smallest weight decay tried
        return winner, winner
    high = best + int(np.argmin(np.append(good[best:], False))) - 1
    low = best - int(np.argmin(np.append(good[best::-1], False))) + 1
    reaches_limit = low == 0 and (winner == 0.0 or errors.get(0.0, np.inf) <= errors[winner] * (1.0 + FLAT_TOLERANCE))
    return (0.0 if reaches_limit else float(np.exp(fine[low]))), float(np.exp(fine[high]))


def _vanishing_decay(task: Task, learner: Learner, alpha: float) -> float:
    """Weight decay beyond which the map is zero, in the learner's units; at most the largest that a learner may have.

    Where emergence is discontinuous it lies above the weight decay at which S = 0 becomes stable.
    """
    problem = build_state_evolution(task, learner)
    if heads_are_coupled(task, learner):
        found = build_several_heads(task, learner).vanishing_decay(alpha)
    else:
        found = vanishing_decay(problem, alpha)
    return min(problem.units.own_decay(found), LARGEST_DECAY)


def _scanned(
    solve: Callable[[float, Prediction | None, float | None], Prediction],
    decay: float,
    near: Prediction | None,
    accuracy: float | None,
    tried: dict[float, Prediction],
) -> Prediction:
    """Prediction at a weight decay of a scan, at the accuracy of the scan only if it or its neighbour is near the
    lowest test error.

    Where little weight decay leaves many competing minima the error is far from the lowest, and finer rules than the
    default ones would cost most of a search.
    """
    high = FAR_ABOVE * min((point.test_error for point in tried.values()), default=np.inf)
    if accuracy is None or near is None or near.test_error < high:
        return solve(decay, near, accuracy)
    found = solve(decay, near, None)
    return found if found.test_error > high else solve(decay, found, accuracy)


def _is_hopeless(decay: float, tried: dict[float, Prediction]) -> bool:
    """Whether a larger weight decay had an error far below that of this one, at which minima compete, or whether no
    solution was found here: with noisy labels smaller ones are worse, and take longest.
    """
    if not tried:
        return False
    lowest = min(tried, key=lambda known: tried[known].test_error)
    if decay not in tried:
        return lowest > decay
    here = tried[decay]
    return here.certificate.switch_mass > VISIBLE_SWITCH_MASS and here.test_error > FAR_ABOVE * tried[lowest].test_error


def _scan_accuracy(task: Task, learner: Learner, accuracy: float | None) -> float | None:
    """Accuracy of a scan: low on a lattice, which can be coarse; the default for sampled points, which cannot."""
    return None if build_state_evolution(task, learner).output.geometry.sampled else max(SCAN_ACCURACY, accuracy or 0.0)


def best_decay(
    task: Task, learner: Learner, alpha: float, *, near: Prediction | None = None, accuracy: float | None = None
) -> Prediction:
    """Prediction at the weight decay with the lowest test error, by a faster search than that of `tune`.

    One solve per decade, down from where the map vanishes until the error has risen twice, brackets the minimum, and a
    root of d(test error)/d log λ refines it. Where the error decreases down to λ → 0⁺ the prediction of the limit is
    returned. With a tuned neighbour ``near`` its minimum is followed instead. ``accuracy`` applies to the prediction at
    the minimum only.
    """
    best = _best_decay(task, learner, alpha, near)
    return best if accuracy is None else predict(task, best.learner, alpha, near=best, accuracy=accuracy)


def _best_decay(task: Task, learner: Learner, alpha: float, near: Prediction | None) -> Prediction:
    """Prediction at the best weight decay, with the default accuracy."""
    if near is not None and near.learner.decay > 0.0:
        followed = _follow(task, learner, alpha, near)
        if followed is not None:
            return followed

    scan_accuracy = _scan_accuracy(task, learner, None)

    def solve(decay: float | str, near: Prediction | None, accuracy: float | None = None) -> Prediction:
        return predict(task, learner.changed(weight_decay=decay), alpha, near=near, accuracy=accuracy)

    scan: list[Prediction] = []
    for decay in _vanishing_decay(task, learner, alpha) * np.logspace(-0.5, 0.5 - SCAN_DECADES, SCAN_DECADES):
        with suppress(SolveError):
            scan.append(solve(float(decay), scan[-1] if scan else None, scan_accuracy))
        errors = [point.test_error for point in scan]
        if len(errors) > 2 and errors[-3] < errors[-2] < errors[-1]:
            break
    if not scan:
        raise NotConverged(f"no weight decay could be solved at alpha = {alpha:g}.")
    best = min(scan, key=lambda point: point.test_error)
    if (best is scan[-1] or task.noise == 0.0) and not heads_are_coupled(task, learner):
        with suppress(SolveError):
            best = min(solve("0+", None), best, key=lambda point: point.test_error)
    if best in scan[:-1]:
        with suppress(SolveError):
            bracket = lowest_bracket(scan)
            if bracket is not None:
                return refine_minimum(lambda x: solve(float(np.exp(x)), bracket.near), bracket)
    return solve(best.learner.decay, best) if best.learner.decay > 0.0 else best


def _follow(task: Task, learner: Learner, alpha: float, near: Prediction) -> Prediction | None:
    """Follow the minimum of a tuned neighbour by a secant method on the slope; None if that fails."""
    first = x = float(np.log(near.learner.decay))
    old: tuple[float, float] | None = None
    for _ in range(FOLLOW_MAX_SOLVES):
        try:
            near = predict(task, learner.changed(weight_decay=float(np.exp(x))), alpha, near=near)
        except SolveError:
            return None
        slope = decay_slope(near)
        if slope == 0.0:  # S = 0 here
            return None
        move = -float(np.copysign(FOLLOW_LOG_STEP, slope))
        if old is not None:
            curvature = (slope - old[1]) / (x - old[0])
            if curvature <= 0.0:
                return None
            move = -slope / curvature
        if abs(move) < LOG_DECAY_TOLERANCE:
            return near
        old, x = (x, slope), x + move
        if abs(x - first) > FOLLOW_MAX_LOG_DISTANCE:
            return None
    return None
