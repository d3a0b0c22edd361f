"""Predict the protocol without training: alignment, then stage four, then errors (S4, S8)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from onehead.arguments import checked, number, optional, whole
from onehead.errors import NotConverged
from onehead.results import Certificate
from onehead.sparse.equations.alignment import query_of
from onehead.sparse.equations.features import (
    Features,
    affordable,
    attention_features,
    pooled_features,
    vectorised_features,
    with_gauss,
)
from onehead.sparse.equations.order import Solution
from onehead.sparse.losses import Array, Hinge, Loss, Square
from onehead.sparse.solve.readout import Errors, errors_of, needs_gauss, solve_readout
from onehead.sparse.solve.square import ridgeless_limit
from onehead.sparse.task import PROBLEM, Protocol, Task, check_model, check_test_length
from onehead.sparse.verbs.prediction import Prediction

__all__ = ["predict", "ridgeless"]

COARSE = 8  # log2 of the points of the first solve, whose solution starts the fine one
FINEST = 16
RIDGELESS_LEVEL = 14  # closed forms: many points cost little
SCRAMBLINGS = (0, 1)  # two independent point sets: their mean is the answer, their difference the error


class _Answer(NamedTuple):
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
    if model != "attention":
        return _predict_linear(task, protocol, model, test_length)
    cos_query, sharpness = query_of(task, protocol)
    answers, error = _refine(task, protocol, cos_query, sharpness, test_length, accuracy)
    return _prediction(
        task,
        protocol,
        "attention",
        answers,
        query=(cos_query, sharpness),
        error=error,
        warnings=_doubts(cos_query, error, accuracy),
    )


def _doubts(cos_query: float, error: float, accuracy: float) -> tuple[str, ...]:
    """Sentences a reader should see before using the number."""
    doubts = []
    if cos_query < 0.0:
        doubts.append(f"the query is anti-aligned (cos {cos_query:.3f}): it looks away from the signal.")
    if error > accuracy:
        doubts.append(f"the quadrature error {error:.1e} is above the wanted {accuracy:.1e}.")
    return tuple(doubts)


def _refine(
    task: Task,
    protocol: Protocol,
    cos_query: float,
    sharpness: float,
    test_length: int | None,
    accuracy: float,
) -> tuple[list[_Answer], float]:
    """Solve on two point sets, doubling them until they agree; the coarse solution starts the fine ones."""

    def answer(log2_points: int, seed: int, start: Array | None) -> _Answer:
        def sample(length: int | None) -> Features:
            return attention_features(
                task,
                cos_query=cos_query,
                sharpness=sharpness,
                log2_points=log2_points,
                seed=seed,
                length=length,
            )

        features = sample(None)
        solution = solve_readout(features, protocol.loss, alpha=protocol.alpha1, ridge=protocol.ridge, start=start)
        fresh = None if test_length is None else sample(test_length)
        return _Answer(solution, errors_of(features, protocol.loss, solution, test_features=fresh), features)

    longest = max(task.length, test_length or 1)
    start: Array | None = None
    try:
        start = answer(affordable(COARSE, longest), 0, None).solution.start
    except NotConverged:  # the coarse sample may be harder than the problem itself
        start = None
    first = affordable(_first_level(protocol.loss, accuracy), longest)
    for log2_points in range(first, affordable(FINEST, longest) + 1):
        answers = []
        for seed in SCRAMBLINGS:
            answers.append(answer(log2_points, seed, start))
            start = answers[-1].solution.start
        error = abs(answers[0].errors.test_error - answers[1].errors.test_error) / 2.0
        if error <= accuracy:
            break
    return answers, error


def _first_level(loss: Loss, accuracy: float) -> int:
    """log2 of the points to begin with; closed forms afford more."""
    return (13 if isinstance(loss, (Square, Hinge)) else 12) - (2 if accuracy >= 1e-3 else 0)


def _predict_linear(task: Task, protocol: Protocol, model: str, test_length: int | None) -> Prediction:
    """Pooled: ratio alpha; vectorised: dimension L d, hence ratio alpha / L (S4.6)."""
    features = pooled_features(task) if model == "pooled" else vectorised_features(task)
    fresh = None if test_length is None else pooled_features(task, length=test_length)
    alpha = protocol.alpha if model == "pooled" else protocol.alpha / task.length
    if needs_gauss(protocol.loss):
        features = with_gauss(features)
    solution = solve_readout(features, protocol.loss, alpha=alpha, ridge=protocol.ridge)
    errors = errors_of(features, protocol.loss, solution, test_features=fresh)
    return _prediction(task, protocol, model, [_Answer(solution, errors, features)], query=None, error=0.0)


def _prediction(
    task: Task,
    protocol: Protocol,
    model: str,
    answers: Sequence[_Answer],
    *,
    query: tuple[float, float] | None,
    error: float,
    warnings: tuple[str, ...] = (),
) -> Prediction:
    """Average the answers of the point sets."""
    features, solutions = answers[0].features, [answer.solution for answer in answers]
    x = np.mean([solution.x for solution in solutions], axis=0)
    errors = Errors(*np.mean([answer.errors for answer in answers], axis=0).tolist())
    worst = max(solutions, key=lambda solution: solution.residual)
    return Prediction(
        task=task,
        protocol=protocol,
        model=model,
        test_error=errors.test_error,
        train_loss=errors.train_loss,
        train_error=errors.train_error,
        cos_query=None if query is None else query[0],
        sharpness=None if query is None else query[1],
        query_weight=float(x[0]) if features.is_query[0] else None,
        signal_weight=_signal_weight(x[features.is_signal]),
        bias=float(x[-1]),
        rest_norm=float(np.mean([solution.rp for solution in solutions])),
        step=float(np.mean([solution.chi for solution in solutions])),
        certificate=Certificate(
            status=solutions[0].status,
            kind="claim",
            residual=worst.residual,
            quadrature_error=error,
            evaluations=sum(solution.evaluations for solution in solutions),
            warnings=warnings,
        ),
    )


def _signal_weight(weights: Array) -> float:
    """The coefficient itself, or the norm when there is one per place."""
    return float(weights[0]) if weights.size == 1 else float(np.linalg.norm(weights))


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
        cos_query, sharpness = query_of(task, protocol)
        level = affordable(RIDGELESS_LEVEL, task.length)
        found = [
            ridgeless_limit(
                attention_features(task, cos_query=cos_query, sharpness=sharpness, log2_points=level, seed=seed)
            )
            for seed in SCRAMBLINGS
        ]
        limit, slope = np.mean(found, axis=0)
        return float(limit), float(slope)
    limit, slope = ridgeless_limit(pooled_features(task) if model == "pooled" else vectorised_features(task))
    return limit, slope if model == "pooled" else task.length * slope
