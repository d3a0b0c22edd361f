"""Predict the protocol without training: alignment, then stage four, then errors (S4, S8)."""

from collections.abc import Sequence
from dataclasses import dataclass
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
    with_gauss,
)
from onehead.sparse.equations.order import Solution
from onehead.sparse.losses import Array, Loss
from onehead.sparse.solve.readout import Errors, errors_of, needs_gauss, solve_readout
from onehead.sparse.solve.square import ridgeless_limit
from onehead.sparse.task import PROBLEM, Answer, Protocol, Task, check_model, check_test_length

__all__ = ["Prediction", "predict", "ridgeless"]

COARSE = 8  # log2 of the points of the first solve, whose solution starts the fine one
FINEST = 16
RIDGELESS_LEVEL = 14  # closed forms: many points cost little
SCRAMBLINGS = (0, 1)  # two independent point sets: their mean is the answer, their difference the error


@dataclass(frozen=True, kw_only=True)
class Prediction(Answer):
    """Errors of a trained readout for d -> infinity, and its order parameters.

    ``query_weight`` a (along the query), ``signal_weight`` m (along the rest of the signal), ``bias`` b,
    ``rest_norm`` rp (norm of the remaining weights), ``step`` chi; theory of the readout, 4.2.
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


class _Solved(NamedTuple):
    """One solve on one sample of the law of the features."""

    solution: Solution
    errors: Errors
    features: Features


@checked(**PROBLEM, test_length=optional(whole(1)), accuracy=number(above=0.0))
def predict(
    task: Task,
    protocol: Protocol,
    *,
    model: str = "attention",
    test_length: int | None = None,
    accuracy: float = 2e-4,
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
    accuracy : float
        Wanted quadrature error of the test error; more points are used until it is met (at most 2^17 per
        class).

    Examples
    --------
    >>> plan = Protocol(alpha1=1.5, ridge=1e-2, cos_query=0.9, sharpness=2.0, loss="square")
    >>> point = predict(Task(length=10, signal_tokens=1, strength=5.0), plan)
    >>> round(point.test_error, 3), point.certificate.status
    (0.107, 'converged')
    """
    check_model(model)
    check_test_length(task, model, test_length)
    if model == "attention":
        query = query_of(task, protocol)
        found, error = _refine(task, protocol, query, test_length, accuracy)
        return _prediction(task, protocol, model, found, query, error, _doubts(query["cos_query"], error, accuracy))
    features = linear_features(task, model)
    if needs_gauss(protocol.loss):
        features = with_gauss(features)
    fresh = None if test_length is None else pooled_features(task, length=test_length)
    # vectorised: dimension L d, hence ratio alpha / L (S4.6)
    alpha = protocol.alpha if model == "pooled" else protocol.alpha / task.length
    return _prediction(task, protocol, model, [_solve(protocol, alpha, features, fresh)])


def _doubts(cos_query: float, error: float, accuracy: float) -> tuple[str, ...]:
    """Sentences a reader should see before using the number."""
    doubts = []
    if cos_query < 0.0:
        doubts.append(f"the query is anti-aligned (cos {cos_query:.3f}): it looks away from the signal.")
    if error > accuracy:
        doubts.append(f"the quadrature error {error:.1e} is above the wanted {accuracy:.1e}.")
    return tuple(doubts)


def _solve(
    protocol: Protocol, alpha: float, features: Features, fresh: Features | None, start: Array | None = None
) -> _Solved:
    """The readout of ``alpha`` samples over dimension, and its errors; fresh samples may have a law of their own."""
    solution = solve_readout(features, protocol.loss, alpha=alpha, ridge=protocol.ridge, start=start)
    return _Solved(solution, errors_of(features, protocol.loss, solution, test_features=fresh), features)


def _refine(
    task: Task, protocol: Protocol, query: Query, test_length: int | None, accuracy: float
) -> tuple[list[_Solved], float]:
    """Solve on two point sets, doubling them until they agree; the coarse solution starts the fine ones."""

    def solved(level: int, seed: int, start: Array | None) -> _Solved:
        features = attention_features(task, **query, log2_points=level, seed=seed)
        fresh = None
        if test_length is not None:
            fresh = attention_features(task, **query, log2_points=level, seed=seed, length=test_length)
        return _solve(protocol, protocol.alpha1, features, fresh, start)

    longest = max(task.length, test_length or 1)
    start: Array | None = None
    try:
        start = solved(affordable(COARSE, longest), 0, None).solution.start
    except NotConverged:  # the coarse sample may be harder than the problem itself
        start = None
    first = affordable(_first_level(protocol.loss, accuracy), longest)
    for level in range(first, affordable(FINEST, longest) + 1):
        found = []
        for seed in SCRAMBLINGS:
            found.append(solved(level, seed, start))
            start = found[-1].solution.start
        error = abs(found[0].errors.test_error - found[1].errors.test_error) / 2.0
        if error <= accuracy:
            break
    return found, error


def _first_level(loss: Loss, accuracy: float) -> int:
    """log2 of the points to begin with; closed forms afford more."""
    return (12 if needs_gauss(loss) else 13) - (2 if accuracy >= 1e-3 else 0)


def _prediction(
    task: Task,
    protocol: Protocol,
    model: str,
    found: Sequence[_Solved],
    query: Query | None = None,
    error: float = 0.0,
    warnings: tuple[str, ...] = (),
) -> Prediction:
    """Average what was solved on the point sets."""
    features, solutions = found[0].features, [solved.solution for solved in found]
    x = np.mean([solution.x for solution in solutions], axis=0)
    on_signal = x[features.is_signal]  # one per place where places are not alike: then their norm
    return Prediction(
        task=task,
        protocol=protocol,
        model=model,
        **Errors(*np.mean([solved.errors for solved in found], axis=0).tolist())._asdict(),
        cos_query=None if query is None else query["cos_query"],
        sharpness=None if query is None else query["sharpness"],
        query_weight=float(x[0]) if features.is_query[0] else None,
        signal_weight=float(on_signal[0] if on_signal.size == 1 else np.linalg.norm(on_signal)),
        bias=float(x[-1]),
        rest_norm=float(np.mean([solution.rp for solution in solutions])),
        step=float(np.mean([solution.chi for solution in solutions])),
        certificate=Certificate(
            status=solutions[0].status,
            kind="claim",
            residual=max(solution.residual for solution in solutions),
            quadrature_error=error,
            evaluations=sum(solution.evaluations for solution in solutions),
            warnings=warnings,
        ),
    )


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
        samples = [attention_features(task, **query, log2_points=level, seed=seed) for seed in SCRAMBLINGS]
        limit, slope = np.mean([ridgeless_limit(features) for features in samples], axis=0)
        return float(limit), float(slope)
    limit, slope = ridgeless_limit(linear_features(task, model))
    return limit, slope if model == "pooled" else task.length * slope
