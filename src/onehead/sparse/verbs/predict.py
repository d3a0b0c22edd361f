"""Predict the protocol without training: alignment, then stage four, then errors (S4, S8)."""

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from onehead.arguments import checked, number, optional, whole
from onehead.errors import NotConverged
from onehead.results import Certificate, in_lines
from onehead.sparse.equations.alignment import Query, query_of
from onehead.sparse.equations.features import (
    Features,
    affordable,
    attention_features,
    linear_features,
    pooled_features,
    stated_error,
    with_gauss,
)
from onehead.sparse.equations.order import Solution
from onehead.sparse.losses import Array, Hinge, Loss
from onehead.sparse.solve.hinge import bias_is_free
from onehead.sparse.solve.parts import solve_parts
from onehead.sparse.solve.readout import COLLAPSED, errors_of, needs_gauss, solve_readout
from onehead.sparse.solve.square import ridgeless_limit
from onehead.sparse.task import PROBLEM, Answer, Protocol, Task, check_model, check_test_length

__all__ = ["Prediction", "predict", "ridgeless", "roughly"]

FIRST, FINEST = 12, 17  # log2 of the points per class of the first sample and of the last
COARSE = 2  # log2 of how many times fewer points serve where an error of 1e-3, or of 1 %, is enough
RIDGELESS_LEVEL = 17  # closed forms: many points cost little
SCRAMBLING = 0  # seed of the points
FREE_BIASES = np.concatenate(
    [-np.geomspace(1.0, 1e-6, 31), [0.0], np.geomspace(1e-6, 1.0, 31)]
)  # tried where none is right
FASTEST = 3.0  # times that an error falls when the points are doubled; a statement that fell farther was lucky


@dataclass(frozen=True, kw_only=True)
class Prediction(Answer):
    """Errors of a trained readout for d -> infinity, and its order parameters.

    ``query_weight`` a (along the query), ``signal_weight`` m (along the rest of the signal), ``bias`` b,
    ``rest_norm`` rp (norm of the remaining weights), ``step`` chi; theory of the readout, 4.2. ``errors`` holds the error of each
    number; less than one in a hundred is off by more than three of them.
    """

    _SHOWN: ClassVar[tuple[str, ...]] = ("model", "test_error", "train_loss", "train_error")
    MEANINGS: ClassVar[dict[str, str]] = {
        "test_error": "share of mistakes on fresh samples",
        "train_loss": "training loss, without the ridge",
        "train_error": "share of mistakes on training samples",
        "cos_query": "cosine of the query with the signal",
        "sharpness": "beta times the length of the query",
    }

    model: str
    test_error: float
    train_loss: float
    train_error: float
    cos_query: float | None
    sharpness: float | None
    query_weight: float | None
    signal_weight: float
    bias: float
    rest_norm: float
    step: float
    certificate: Certificate

    def explain(self) -> str:
        """Say in words what the numbers mean for this readout.

        Examples
        --------
        >>> from onehead.sparse import Protocol, Task, predict
        >>> print(predict(Task(), Protocol(), model="pooled").explain().splitlines()[0])
        The readout of the pooled model, trained on n = 2 d samples, errs on 31.9% of fresh
        """
        chance = min(self.task.positive_rate, 1.0 - self.task.positive_rate)
        samples = self.protocol.readout_samples(self.model)
        along = f"{self.signal_weight:.4g} along the signal"
        if self.query_weight is not None:
            along = f"{self.query_weight:.4g} along the query, {self.signal_weight:.4g} along the rest of the signal"
        return in_lines(
            [
                f"The readout of the {self.model} model, trained on n = {samples:g} d samples, errs on {self.test_error:.1%} of "
                f"fresh sequences; guessing errs on {chance:.1%}.",
                f"On its training samples it errs on {self.train_error:.1%}, with a loss of {self.train_loss:.4g}.",
                *self._explain_query(),
                f"Its weights: {along}, {self.rest_norm:.4g} in directions that carry nothing; bias {self.bias:.4g}.",
                *self._closing(),
            ]
        )

    def _explain_query(self) -> list[str]:
        """The query in words; linear models have none."""
        if self.cos_query is None or self.sharpness is None:
            return []
        where = "towards" if self.cos_query > 0.0 else "away from"
        return [
            f"Query: cosine {self.cos_query:.3f} with the signal, so it looks {where} it; sharpness {self.sharpness:.3g} "
            "(0 is the plain mean of the tokens, infinity the largest token alone)."
        ]


class _Numbers(NamedTuple):
    """What is said of a readout; the weight along the query is not a number where there is none."""

    test_error: float
    train_loss: float
    train_error: float
    query_weight: float
    signal_weight: float
    bias: float
    rest_norm: float
    step: float


class _Solved(NamedTuple):
    """The readout of a sample of the law of the features, and the error of each of its numbers."""

    solution: Solution
    numbers: _Numbers
    errors: _Numbers
    free: bool  # is the bias, which no sample then holds


class _Goal(NamedTuple):
    """The error of the test error that is enough: a share of it, or by itself."""

    error: float
    relative: bool = False

    @property
    def is_modest(self) -> bool:
        """Whether fewer points are tried first."""
        return self.error >= (1e-2 if self.relative else 1e-3)

    def met(self, found: _Solved) -> bool:
        """Whether an answer is good enough."""
        return found.errors.test_error <= self.error * (found.numbers.test_error if self.relative else 1.0)

    def missed(self, found: _Solved) -> str:
        """What was reached instead."""
        error, value = found.errors.test_error, found.numbers.test_error
        if self.relative and value > 0.0:
            return f"the test error is good to {error / value:.1e}, relative, not to {self.error:g}."
        return f"the quadrature error {error:.1e} is above the wanted {self.error:.1e}."


USUAL = _Goal(2e-4)


@checked(**PROBLEM, test_length=optional(whole(1)), accuracy=optional(number(above=0.0)))
def predict(
    task: Task,
    protocol: Protocol,
    *,
    model: str = "attention",
    test_length: int | None = None,
    accuracy: float | None = None,
) -> Prediction:
    """Predict test error, training loss and training error of one of the three models.

    Parameters
    ----------
    task, protocol
        What is learned, and how.
    model : str
        ``attention``, ``pooled`` or ``vectorised``; the linear ones are trained on alpha0 + alpha1.
    test_length : int, optional
        Length of the test sequences, when it differs from the length trained on; not for ``vectorised``.
    accuracy : float, optional
        Wanted error of the test error, relative; more points are used until it is met (at most 2^17 per class), or a warning says
        what was reached. Usually the error itself is below 2e-4.

    Examples
    --------
    >>> plan = Protocol(alpha1=1.5, ridge=1e-2, cos_query=0.9, sharpness=2.0, loss="square")
    >>> point = predict(Task(length=10, signal_tokens=1, strength=5.0), plan)
    >>> round(point.test_error, 3), point.certificate.status
    (0.107, 'converged')
    """
    check_model(model)
    check_test_length(task, model, test_length)
    goal = USUAL if accuracy is None else _Goal(accuracy, relative=True)
    return _predict(task, protocol, model, test_length, goal)


def roughly(task: Task, protocol: Protocol, error: float, *, model: str = "attention") -> Prediction:
    """The same to an error that is given by itself: of the points of a map, and of a search."""
    return _predict(task, protocol, model, None, _Goal(error))


def _predict(task: Task, protocol: Protocol, model: str, test_length: int | None, goal: _Goal) -> Prediction:
    """Solve the readout of a model, of attention with as many points as it takes."""
    if model == "attention":
        query = query_of(task, protocol)
        found = _refine(task, protocol, query, test_length, goal)
        return _prediction(task, protocol, model, found, goal, query)
    features = linear_features(task, model)
    if needs_gauss(protocol.loss):
        features = with_gauss(features)
    fresh = None if test_length is None else pooled_features(task, length=test_length)
    # vectorised: dimension L d, hence ratio alpha / L (S4.6)
    alpha = protocol.alpha if model == "pooled" else protocol.alpha / task.length
    return _prediction(task, protocol, model, _solve(protocol, alpha, features, fresh), goal)


def _solve(
    protocol: Protocol, alpha: float, features: Features, fresh: Features | None, start: Array | None = None
) -> _Solved:
    """The readout of ``alpha`` samples over dimension, and its errors; fresh samples may have a law of their own."""
    loss, ridge = protocol.loss, protocol.ridge
    solution = solve_readout(features, loss, alpha=alpha, ridge=ridge, start=start)
    numbers = _numbers(features, loss, solution, fresh)
    parts = features.split()
    others = [fresh] * len(parts) if fresh is None or not fresh.parts else fresh.split()
    moved = solve_parts(features, loss, solution, alpha=alpha, ridge=ridge)
    with np.errstate(all="ignore"):
        rows = [_numbers(*each) for each in zip(parts, [loss] * len(parts), moved, others, strict=True)]
    errors = _Numbers(*stated_error(np.array(numbers), np.array(rows), sampled=features.sampled).tolist())
    if solution.status != COLLAPSED:
        errors = errors._replace(test_error=errors.test_error + features.unseen)
    if np.isfinite(solution.chi):
        errors = errors._replace(train_error=errors.train_error + features.unseen)
    free = isinstance(loss, Hinge) and bias_is_free(features, solution)
    if free:
        x = solution.x
        moved = [replace(solution, x=np.append(x[:-1], bias)) for bias in FREE_BIASES]
        off = [np.abs(np.subtract(_numbers(features, loss, other, fresh), numbers)) for other in moved]
        errors = _Numbers(*np.maximum(errors, np.max(off, axis=0)).tolist())
    return _Solved(solution, numbers, errors, free)


def _numbers(features: Features, loss: Loss, solution: Solution, fresh: Features | None) -> _Numbers:
    """Errors, and weights; along the signal one per place where places are not alike: then their norm."""
    x = solution.x
    on_signal = x[features.is_signal]
    return _Numbers(
        *errors_of(features, loss, solution, test_features=fresh),
        query_weight=float(x[0]) if features.is_query[0] else np.nan,
        signal_weight=float(on_signal[0] if on_signal.size == 1 else np.linalg.norm(on_signal)),
        bias=float(x[-1]),
        rest_norm=solution.rp,
        step=solution.chi,
    )


def _refine(task: Task, protocol: Protocol, query: Query, test_length: int | None, goal: _Goal) -> _Solved:
    """Solve on one sample, doubling it until its parts agree; the coarse solution starts the fine ones."""

    def sample(level: int, length: int | None) -> Features:
        return attention_features(task, **query, log2_points=level, seed=SCRAMBLING + level, length=length)

    longest = max(task.length, test_length or 1)
    first = affordable(FIRST - (COARSE if goal.is_modest else 0), longest)
    start: Array | None = None
    last = np.zeros(len(_Numbers._fields))
    for level in range(first, affordable(FINEST, longest) + 1):
        features = sample(level, None)
        fresh = None if test_length is None else sample(level, test_length)
        if level == first:
            start = _first_guess(protocol, features)
        found = _solve(protocol, protocol.alpha1, features, fresh, start)
        errors = _Numbers(*np.maximum(found.errors, last / FASTEST).tolist())
        found, last, start = found._replace(errors=errors), np.array(errors), found.solution.start
        if goal.met(found) or found.free:
            break
    return found


def _first_guess(protocol: Protocol, features: Features) -> Array | None:
    """The solution of one part of the sample; none where it is harder than the whole."""
    try:
        part = features.split()[0]
        return solve_readout(part, protocol.loss, alpha=protocol.alpha1, ridge=protocol.ridge).start
    except NotConverged:
        return None


def _prediction(
    task: Task, protocol: Protocol, model: str, found: _Solved, goal: _Goal, query: Query | None = None
) -> Prediction:
    """What was solved, in words."""
    solution, numbers, errors = found.solution, found.numbers._asdict(), found.errors._asdict()
    if query is None:
        numbers["query_weight"] = None
        del errors["query_weight"]
    return Prediction(
        task=task,
        protocol=protocol,
        model=model,
        **numbers,
        cos_query=None if query is None else query["cos_query"],
        sharpness=None if query is None else query["sharpness"],
        certificate=Certificate(
            status=solution.status,
            kind="claim",
            residual=solution.residual,
            quadrature_error=found.errors.test_error,
            errors=errors,
            evaluations=solution.evaluations,
            warnings=_doubts(query, found, goal),
        ),
    )


def _doubts(query: Query | None, found: _Solved, goal: _Goal) -> tuple[str, ...]:
    """Sentences a reader should see before using the number."""
    doubts = []
    if query is not None and query["cos_query"] < 0.0:
        doubts.append(f"the query is anti-aligned (cos {query['cos_query']:.3f}): it looks away from the signal.")
    if found.free:
        doubts.append("the ridge keeps every margin below one, so that nothing determines the bias; lower ridge.")
    elif not goal.met(found):
        doubts.append(goal.missed(found))
    return tuple(doubts)


@checked(**PROBLEM)
def ridgeless(task: Task, protocol: Protocol, *, model: str = "attention") -> tuple[float, float]:
    """E0 and C1 of the square loss without ridge: test error = E0 + C1/alpha + O(alpha^-2) (S5).

    alpha is alpha1 for attention and all samples over dimension for the linear models.

    Examples
    --------
    >>> [round(value, 6) for value in ridgeless(Task(), Protocol(), model="pooled")]
    [0.214598, 0.299969]
    """
    if check_model(model) == "attention":
        query, level = query_of(task, protocol), affordable(RIDGELESS_LEVEL, task.length)
        return ridgeless_limit(attention_features(task, **query, log2_points=level, seed=SCRAMBLING))
    limit, slope = ridgeless_limit(linear_features(task, model))
    return limit, slope if model == "pooled" else task.length * slope
