"""data_for(): how many samples a head, or the best possible learner, needs for a given test error."""

from dataclasses import dataclass
from math import ceil, exp, inf, log
from typing import ClassVar, overload

from onehead.aim.flat_parameters import dimension
from onehead.aim.task import Learner, Task
from onehead.aim.theory.build import build_state_evolution
from onehead.aim.theory.limits.infinite_data import plateau_of
from onehead.aim.verbs.bayes import BayesReference, check_bayes_comparison
from onehead.aim.verbs.predict import Prediction, predict
from onehead.aim.verbs.tune import best_decay
from onehead.errors import InvalidArgument, NotConverged
from onehead.numerics.brent import brent_root
from onehead.results import Certificate, Result, wrap_sentences
from onehead.validation import checked, instance, integer, number, optional

LOG_ALPHA_TOLERANCE = 1e-4  # of log α at the wanted error
FIRST_ALPHA = 0.05  # of the search, where the best possible learner gives no better start
STEP = 3.0  # factor of α between two points of the search for a bracket
MIN_ALPHA, MAX_ALPHA = 1e-6, 1e6  # range of the search


@dataclass(frozen=True, kw_only=True)
class DataNeeded(Result):
    """Samples that a head needs for a test error, with the best weight decay for that number of samples.

    Attributes
    ----------
    error : float
        Wanted test error, labels with noise.
    alpha : float
        Smallest sample ratio α = n/d² that reaches it; zero if the zero map does, infinite if no number of samples
        does.
    weight_decay : float or None
        Weight decay with the lowest test error at this sample ratio, 0.0 for the limit λ → 0⁺; None without a solution.
    samples : int or None
        Number of samples n = α d², rounded up, where a dimension is known.
    dim : int or None
        Dimension d of a token.
    best_possible_alpha : float or None
        Sample ratio that the best possible learner needs; None where that is not known.
    data_multiple : float or None
        ``alpha`` over ``best_possible_alpha``.
    own_test_error : float or None
        Test error of the learner's own weight decay at this sample ratio.
    floor : float
        Test error of this head with infinitely many samples.
    certificate : Certificate
        How the search ended, and errors.
    point : Prediction or None
        The prediction at this sample ratio and weight decay.
    task, learner : Task, Learner
        The problem.
    """

    _HIDDEN: ClassVar[tuple[str, ...]] = ("point",)
    _MAIN: ClassVar[str] = "alpha"
    _SUMMARY_FIELDS: ClassVar[tuple[str, ...]] = ("error", "alpha", "weight_decay", "samples")
    MEANINGS: ClassVar[dict[str, str]] = {
        "error": "wanted test error, labels with noise",
        "alpha": "sample ratio n/d² that reaches it",
        "samples": "number of samples n",
        "weight_decay": "best weight decay for this number of samples",
        "own_test_error": "test error there with the weight decay that was given",
        "best_possible_alpha": "sample ratio that the best possible learner needs",
        "data_multiple": "samples over those of the best possible learner",
        "floor": "test error with infinitely many samples",
    }

    error: float
    alpha: float
    weight_decay: float | None
    samples: int | None
    dim: int | None
    best_possible_alpha: float | None
    data_multiple: float | None
    own_test_error: float | None
    floor: float
    certificate: Certificate
    point: Prediction | None
    task: Task
    learner: Learner

    def explain(self) -> str:
        """Explain in sentences how many samples are needed, and with which weight decay.

        Examples
        --------
        >>> from onehead.aim import Learner, Task, data_for
        >>> print(data_for(Task(), Learner(), 0.07).explain().splitlines()[0])
        No number of samples gives this head a test error of 0.07: with infinitely many it
        """
        possible = self.best_possible_alpha
        if possible is None:
            bayes = []
        elif possible == inf:
            bayes = ["No learner reaches it: this is below the error that noise in the labels causes."]
        else:
            bayes = [f"The best possible learner needs {possible:.4g} d² samples for this error."]
        if self.alpha == inf:
            return wrap_sentences(
                [
                    f"No number of samples gives this head a test error of {self.error:g}: with infinitely many it is "
                    f"{self.floor:.4g}.",
                    *bayes,
                ]
            )
        count = f", {self.samples:,} for d = {self.dim}" if self.samples is not None else ""
        lines = [f"A test error of {self.error:g} needs n = {self.alpha:.4g} d² samples{count}."]
        if self.weight_decay is not None:
            decay = f"{self.weight_decay:.3g}" if self.weight_decay else "0+"
            lines.append(f"The best weight decay for that number is {decay}.")
        if self.own_test_error is not None:
            lines.append(f"With weight decay {self.learner.weight_decay} the error there is {self.own_test_error:.4g}.")
        return wrap_sentences([*lines, *bayes, *self._closing()])


@overload
def data_for(task: Task, learner: float = ..., *, test_error: float = ...) -> float: ...
@overload
def data_for(task: Task, learner: Learner, error: float, *, dim: int | None = None) -> DataNeeded: ...
@checked(
    task=instance(Task, "Task()"),
    dim=optional(integer(2)),
)
def data_for(
    task: Task,
    learner: Learner | float | None = None,
    error: float | None = None,
    *,
    test_error: float | None = None,
    dim: int | None = None,
) -> DataNeeded | float:
    """Find the number of samples that a test error needs, for a head or for the best possible learner.

    ``data_for(task, learner, error)`` searches for the smallest sample ratio at which the head, with the best weight
    decay for it, reaches the error. ``data_for(task, error)`` is the sample ratio of the best possible learner alone.

    Parameters
    ----------
    task : Task
        What is learned.
    learner : Learner
        The head; its weight decay is only used for ``own_test_error``. Left out for the best possible learner.
    error : float
        Wanted test error, labels with noise.
    test_error : float
        The same, as a keyword for the best possible learner.
    dim : int, optional
        Dimension d of a token, by default that of the target if it has one.

    Returns
    -------
    DataNeeded or float
        For a head the sample ratio, the number of samples and the best weight decay there, next to the best possible
        learner. For the best possible learner α = n/d²; zero if next to no samples are enough, because they reveal the
        trace of the target, and infinite for errors below the floor of infinitely many samples.

    Raises
    ------
    InvalidArgument
        If an argument is not allowed, or the theory does not cover this combination of task and learner.
    NotConverged
        If the error is reached only with more than a million samples per squared dimension.

    Examples
    --------
    >>> from onehead.aim import Learner, Task, data_for
    >>> found = data_for(Task(), Learner(), 0.1, dim=100)
    >>> round(found.alpha, 3), found.samples, round(found.weight_decay, 3), round(found.best_possible_alpha, 3)
    (0.892, 8916, 0.06, 0.585)
    >>> round(data_for(Task(), 0.12121), 3)
    0.345
    """
    if isinstance(learner, Learner):
        number(above=0.0)("error", error)
        assert error is not None
        return _data_needed(task, learner, float(error), dim)
    alone = learner if test_error is None else test_error
    if alone is None or error is not None or dim is not None:
        instance(Learner, "Learner()")("learner", learner)
    number(above=0.0)("test_error", alone)
    assert isinstance(alone, (int, float))
    return BayesReference(task).sample_ratio_for(float(alone))


def _data_needed(task: Task, learner: Learner, error: float, dim: int | None) -> DataNeeded:
    """Sample ratio at which a head with the best weight decay reaches a test error."""
    own_dim = dimension(task.target)
    if own_dim is not None and dim not in (None, own_dim):
        raise InvalidArgument("dim", dim, f"{own_dim}, that of the target")
    problem = build_state_evolution(task, learner)
    floor = plateau_of(problem).test_error
    possible = _best_possible(task, learner, error)
    zero = problem.output.fresh_loss(*problem.zero.values, loss="squared")
    if error >= zero:
        status = f"converged: no samples are needed, the zero map has a test error of {zero:.4g}"
        found: tuple[float, Prediction | None] = (0.0, None)
    elif error <= floor:
        status = f"out of reach: with infinitely many samples the test error is {floor:.4g}"
        found = (inf, None)
        if possible == inf:
            status += "; no learner reaches it"
    else:
        status, found = "converged", _search(task, learner, error, floor, start=possible)
    alpha, point = found
    own = None if point is None else predict(task, learner, alpha, near=point).test_error
    width = dim or own_dim
    base = Certificate(status=status, kind=problem.output.loss.kind) if point is None else point.certificate
    return DataNeeded(
        error=error,
        alpha=alpha,
        weight_decay=None if point is None else point.learner.decay,
        samples=ceil(alpha * width**2) if width is not None and alpha < inf else None,
        dim=width,
        best_possible_alpha=possible,
        data_multiple=alpha / possible if possible and alpha < inf else None,
        own_test_error=own,
        floor=floor,
        certificate=Certificate.of(base, status=status, quadrature_error=0.0, errors=_alpha_error(alpha, point, floor)),
        point=point,
        task=task,
        learner=learner,
    )


def _alpha_error(alpha: float, point: Prediction | None, floor: float) -> dict[str, float]:
    """Error of the sample ratio: that of the test error over its slope, which is about excess error over α."""
    if point is None:
        return {}
    return {"alpha": alpha * (point.errors["test_error"] / (point.test_error - floor) + LOG_ALPHA_TOLERANCE)}


def _best_possible(task: Task, learner: Learner, error: float) -> float | None:
    """Sample ratio of the best possible learner; None where it is not known."""
    try:
        check_bayes_comparison(task, learner)
        return BayesReference(task).sample_ratio_for(error)
    except InvalidArgument:
        return None


def _search(
    task: Task, learner: Learner, error: float, floor: float, *, start: float | None
) -> tuple[float, Prediction]:
    """Sample ratio and prediction at which the error with the best weight decay, which falls with α, is ``error``.

    The logarithm of the excess error is nearly linear in log α; its root is bracketed and found by Brent's method.
    """
    solved: dict[float, Prediction] = {}

    def distance(log_alpha: float) -> float:
        near = min(solved, key=lambda known: abs(known - log_alpha), default=None)
        solved[log_alpha] = best_decay(task, learner, exp(log_alpha), near=None if near is None else solved[near])
        return log(max(solved[log_alpha].test_error - floor, 1e-300) / (error - floor))

    low = high = log(min(max(start or FIRST_ALPHA, MIN_ALPHA), MAX_ALPHA))
    while distance(high) > 0.0:
        low, high = high, high + log(STEP)
        if high > log(MAX_ALPHA):
            raise NotConverged(f"a test error of {error:g} needs more than {MAX_ALPHA:g} d² samples.")
    while low == high or distance(low) < 0.0:
        low = low - log(STEP)
        if low < log(MIN_ALPHA):
            break
    root = brent_root(distance, low, high, xtol=LOG_ALPHA_TOLERANCE)
    if root not in solved:
        distance(root)
    return exp(root), solved[root]
