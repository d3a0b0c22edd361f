"""Samples that a trained model, or the best possible learner, needs for a given test error (S7, B.6)."""

from dataclasses import dataclass
from math import ceil, exp, inf, log
from typing import ClassVar, overload

from onehead.errors import InvalidArgument, SolveError
from onehead.numerics.brent import brent_minimum, brent_root
from onehead.results import Certificate, wrap_sentences
from onehead.sparse.task import Answer, Model, Protocol, Task, check_model
from onehead.sparse.verbs.bayes import data_for as best_possible_ratio
from onehead.sparse.verbs.predict import Prediction, predict, predict_to_error
from onehead.sparse.verbs.tune import BORDERS, LINEAR_RIDGES
from onehead.validation import checked, instance, integer, number, optional

MAX_ALPHA = 1e4  # largest sample ratio of the search
FIRST_ALPHA = 0.02  # smallest one
STEP = 2.0  # factor between two sample ratios of the search for a bracket
LOG_ALPHA_TOLERANCE, LOG_RIDGE_TOLERANCE = 1e-3, 0.1
RELATIVE_ACCURACY = 0.01  # error of a prediction in the search, relative to the wanted test error


@dataclass(frozen=True, kw_only=True)
class DataNeeded(Answer):
    """Samples that a model needs for a test error, with the best ridge for that number of samples.

    ``alpha`` is infinite if no number of samples up to 10,000 times the dimension reaches the error; ``floor`` is the
    test error there. ``samples`` is given where the dimension is known. ``own_test_error`` has the ridge of the
    protocol at the same number of samples. Split, rates and temperature are those of the protocol.
    """

    _MAIN: ClassVar[str] = "alpha"
    _SUMMARY_FIELDS: ClassVar[tuple[str, ...]] = ("model", "error", "alpha", "ridge", "samples")
    MEANINGS: ClassVar[dict[str, str]] = {
        "error": "wanted test error",
        "alpha": "samples over dimension that reach it, alpha0 + alpha1",
        "samples": "number of samples n",
        "ridge": "best ridge for this number of samples",
        "own_test_error": "test error there with the ridge that was given",
        "best_possible_alpha": "samples over dimension that the best possible learner needs",
        "data_multiple": "samples over those of the best possible learner",
        "floor": "test error with the most samples of the search",
    }

    model: str
    error: float
    alpha: float
    ridge: float | None
    samples: int | None
    dim: int | None
    best_possible_alpha: float
    data_multiple: float | None
    own_test_error: float | None
    floor: float
    certificate: Certificate

    def explain(self) -> str:
        """Describe in sentences how many samples are needed, and with which ridge.

        Examples
        --------
        >>> from onehead.sparse import Protocol, Task, data_for
        >>> print(data_for(Task(), Protocol(loss="square"), 0.01, model="pooled").explain().splitlines()[0])
        No number of samples gives the pooled model a test error of 0.01: with n = 10000 d
        """
        possible = self.best_possible_alpha
        best = (
            "No learner reaches it: this is below the error of a learner that knows the signal."
            if possible == inf
            else f"The best possible learner needs n = {possible:.4g} d samples for this error."
        )
        if self.alpha == inf:
            reached = (
                f"No number of samples gives the {self.model} model a test error of {self.error:g}: with n = "
                f"{MAX_ALPHA:g} d it is {self.floor:.4g}."
            )
            return wrap_sentences([reached, best, *self._closing()])
        count = f", {self.samples:,} for d = {self.dim}" if self.samples is not None else ""
        lines = [f"A test error of {self.error:g} needs n = {self.alpha:.4g} d samples{count}."]
        if self.ridge is not None and self.own_test_error is not None:
            lines.append(
                f"The best ridge for that number is {self.ridge:.3g}; with {self.protocol.ridge:g} the error is "
                f"{self.own_test_error:.4g}."
            )
        return wrap_sentences([*lines, best, *self._closing()])


@overload
def data_for(task: Task, protocol: float = ..., *, test_error: float = ...) -> float: ...
@overload
def data_for(
    task: Task, protocol: Protocol, error: float, *, model: Model = ..., dim: int | None = ...
) -> DataNeeded: ...
@checked(task=instance(Task, "Task()"), dim=optional(integer(3)))
def data_for(
    task: Task,
    protocol: Protocol | float | None = None,
    error: float | None = None,
    *,
    test_error: float | None = None,
    model: str = "attention",
    dim: int | None = None,
) -> DataNeeded | float:
    """Find the samples over dimension that a test error needs, for a trained model or for the best possible learner.

    ``data_for(task, protocol, error)`` searches for the smallest alpha0 + alpha1 at which the model, with the best
    ridge for it, reaches the error. ``data_for(task, error)`` is the sample ratio of the best possible learner alone.

    Parameters
    ----------
    task : Task
        Data of the classification problem; its positions must be exchangeable.
    protocol : Protocol
        Split, rates, temperature and loss; its ridge is only used for ``own_test_error``. Left out for the best
        possible learner.
    error : float
        Wanted test error, positive.
    test_error : float
        The same, as a keyword for the best possible learner.
    model : {"attention", "pooled", "vectorised"}
        Model that is trained.
    dim : int, optional
        Dimension d of a token, for the number of samples.

    Returns
    -------
    DataNeeded or float
        For a model the sample ratio and the best ridge there, next to the best possible learner. For the best possible
        learner the sample ratio; 0 if guessing is as good, infinite below the error for a known signal.

    Raises
    ------
    InvalidArgument
        If an argument is out of range, the positions are weighted, or the sequence is too long for several signal
        tokens.

    Examples
    --------
    >>> from onehead.sparse import Protocol, Task, data_for
    >>> found = data_for(Task(), Protocol(loss="square"), 0.25, model="pooled", dim=100)
    >>> round(found.alpha, 1), found.samples, round(found.best_possible_alpha, 3)
    (4.3, 429, 0.033)
    >>> round(data_for(Task(length=10, strength=5.0), 0.0327), 2)
    0.37
    """
    if isinstance(protocol, Protocol):
        number(above=0.0)("error", error)
        if protocol.reuse:
            raise InvalidArgument("reuse", True, "False: the samples needed are known for the split protocol")
        assert error is not None
        return _data_needed(task, protocol, float(error), check_model(model), dim)
    alone = protocol if test_error is None else test_error
    if alone is None or error is not None or dim is not None:
        instance(Protocol, "Protocol()")("protocol", protocol)
    number(above=0.0)("test_error", alone)
    assert isinstance(alone, (int, float))
    return best_possible_ratio(task, float(alone))


def _data_needed(task: Task, protocol: Protocol, error: float, model: str, dim: int | None) -> DataNeeded:
    """Return the sample ratio at which a model with the best ridge reaches a test error."""
    possible = best_possible_ratio(task, error)
    search = _Search(task, protocol, model, RELATIVE_ACCURACY * error)
    floor = search.best(log(MAX_ALPHA))[1]
    alpha, point = inf, None
    status = f"out of reach: with n = {MAX_ALPHA:g} d samples the test error is {floor:.4g}"
    if error >= min(task.positive_rate, 1.0 - task.positive_rate):
        alpha, status = 0.0, "converged: no samples are needed, guessing has this error"
    elif floor <= error:
        status = "converged"
        alpha = exp(search.root(error, log(min(max(possible, FIRST_ALPHA), MAX_ALPHA))))
        ridge = exp(search.best(log(alpha))[0])
        point = predict(task, protocol.with_alpha(alpha).changed(ridge=ridge), model=model)
    if possible == inf:
        status += "; no learner reaches it"
    own = None if point is None else predict(task, protocol.with_alpha(alpha), model=model).test_error
    base = Certificate(status=status, kind="claim") if point is None else point.certificate
    return DataNeeded(
        task=task,
        protocol=protocol,
        model=model,
        error=error,
        alpha=alpha,
        ridge=None if point is None else point.protocol.ridge,
        samples=ceil(alpha * dim) if dim is not None and alpha < inf else None,
        dim=dim,
        best_possible_alpha=possible,
        data_multiple=alpha / possible if possible and alpha < inf else None,
        own_test_error=own,
        floor=floor,
        certificate=Certificate.of(
            base, status=status, quadrature_error=0.0, errors=search.alpha_error(alpha, point, error)
        ),
    )


@dataclass(frozen=True)
class _Search:
    """Search for the sample ratio of one model, with its best ridge at every ratio."""

    task: Task
    protocol: Protocol
    model: str
    accuracy: float

    def best(self, log_alpha: float) -> tuple[float, float]:
        """Return the logarithm of the best ridge at a sample ratio, and the test error there."""
        bounds = BORDERS["ridge"] if self.model == "attention" else LINEAR_RIDGES
        plan = self.protocol.with_alpha(exp(log_alpha))

        def test_error(log_ridge: float) -> float:
            try:
                changed = plan.changed(ridge=exp(log_ridge))
                return predict_to_error(self.task, changed, self.accuracy, model=self.model).test_error
            except SolveError:
                return 1.0

        return brent_minimum(test_error, log(bounds[0]), log(bounds[1]), xatol=LOG_RIDGE_TOLERANCE)

    def root(self, error: float, start: float) -> float:
        """Return the logarithm of the smallest sample ratio above ``start`` at which the error is reached."""
        low, high = start, start
        while high < log(MAX_ALPHA) and self.best(high)[1] > error:
            low, high = high, min(high + log(STEP), log(MAX_ALPHA))
        if low == high:
            return high
        return brent_root(lambda at: log(self.best(at)[1] / error), low, high, xtol=LOG_ALPHA_TOLERANCE)

    def alpha_error(self, alpha: float, point: Prediction | None, wanted: float) -> dict[str, float]:
        """Return the error of the sample ratio: that of the test error over its slope, a difference in log alpha."""
        if point is None:
            return {}
        here = log(alpha)
        slope = abs(self.best(here + 0.1)[1] - self.best(here - 0.1)[1]) / 0.2
        noise = point.errors["test_error"] + abs(point.test_error - wanted)
        return {"alpha": alpha * min(noise / max(slope, 1e-12) + LOG_ALPHA_TOLERANCE, 1.0)}
