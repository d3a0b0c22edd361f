"""scikit-learn's solvers of linear readouts, on our data and our objective.

The objective is mean loss + (ridge/2) |w|², bias free: scikit-learn's C is 1/(ridge n), the alpha of its `Ridge` is
ridge n.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from benchmarks.harness import Missing
from onehead.sparse import Protocol, Task
from onehead.sparse.training import descent, margin, minimise
from onehead.sparse.training.minimise import fit
from onehead.sparse.training.samplers import (
    LabelledFeatures,
    SampledQuery,
    attention_sample,
    pooled_sample,
    vectorised_sample,
)

GOAL = 1e-6  # objective above its minimum, relative
TOLERANCES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-10)
LINEAR_SCALE = 30.0  # liblinear penalises the bias; this scale makes the penalty small and the search slower

Weights = tuple[Any, float]


class Problem(NamedTuple):
    """A readout of ``model`` features to be trained."""

    loss: str
    model: str
    samples: int
    dim: int
    ridge: float

    @property
    def strength(self) -> float:
        """scikit-learn's C."""
        return 1.0 / (self.ridge * self.samples)


Search = Callable[[Problem, float], Weights]


@lru_cache(maxsize=8)
def _sample(model: str, samples: int, dim: int) -> LabelledFeatures:
    rng = np.random.default_rng(0)
    if model == "attention":
        return attention_sample(Task(), SampledQuery(0.9, 2.0), samples, dim, rng)
    return (pooled_sample if model == "pooled" else vectorised_sample)(Task(), samples, dim, rng)


def sample(problem: Problem) -> LabelledFeatures:
    """Return labels and features, the same for every solver."""
    return _sample(problem.model, problem.samples, problem.dim)


def objective(problem: Problem, weights: Any, bias: float) -> float:
    """Mean loss plus (ridge/2) |w|²."""
    data = sample(problem)
    margin = data.label * (data.features @ weights + bias)
    return float(Protocol(loss=problem.loss).loss.value(margin).mean() + 0.5 * problem.ridge * weights @ weights)


@contextmanager
def within_goal() -> Iterator[None]:
    """Our searches end where their own bounds say that the goal is met, as the others do, and not at rounding."""
    with (
        patch.object(descent, "CLOSE", GOAL),
        patch.object(margin, "CLOSE", GOAL),
        patch.object(minimise, "ROUNDED", np.sqrt(0.01 * GOAL)),  # of the gradient, whose square is the objective's
    ):
        yield


def ours(problem: Problem) -> Weights:
    """Weights and bias of our own fit."""
    found = fit(sample(problem), Protocol(loss=problem.loss).loss, problem.ridge)
    return found.weights, found.bias


def _classes() -> Any:
    try:
        from sklearn import linear_model, svm
    except ImportError:
        raise Missing("rows of scikit-learn are left out: pip install 'onehead[bench]'") from None
    return linear_model, svm


def _logistic(solver: str, problem: Problem, tolerance: float) -> Weights:
    scale = {"intercept_scaling": LINEAR_SCALE} if solver == "liblinear" else {}
    kind = _classes()[0].LogisticRegression
    return _fitted(kind(C=problem.strength, solver=solver, tol=tolerance, max_iter=20_000, **scale), problem)


def _linear_svc(problem: Problem, tolerance: float) -> Weights:
    kind = _classes()[1].LinearSVC
    words = {"C": problem.strength, "tol": tolerance, "max_iter": 20_000, "intercept_scaling": LINEAR_SCALE}
    return _fitted(kind(loss="hinge", **words), problem)


def _svc(problem: Problem, tolerance: float) -> Weights:
    return _fitted(_classes()[1].SVC(C=problem.strength, kernel="linear", tol=tolerance), problem)


def _ridge(solver: str, problem: Problem, tolerance: float) -> Weights:
    kind = _classes()[0].Ridge
    return _fitted(kind(alpha=1.0 / problem.strength, solver=solver, tol=tolerance, max_iter=20_000), problem)


def _fitted(model: Any, problem: Problem) -> Weights:
    data = sample(problem)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a search that ends early is seen by its objective
        model.fit(data.features, data.label)
    return np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])


SOLVERS: dict[str, dict[str, Search]] = {
    "logistic": {name: partial(_logistic, name) for name in ("lbfgs", "newton-cholesky", "liblinear")},
    "hinge": {"SVC": _svc, "LinearSVC": _linear_svc},
    "square": {name: partial(_ridge, name) for name in ("cholesky", "lsqr")},
}


@lru_cache(maxsize=16)
def lowest(problem: Problem) -> float:
    """A lower bound of the objective: what our fit reaches, for the hinge less the duality gap that it leaves."""
    found = fit(sample(problem), Protocol(loss=problem.loss).loss, problem.ridge)
    left = found.residual if problem.loss == "hinge" else 0.0
    return objective(problem, found.weights, found.bias) - left


def gap(problem: Problem, found: Weights) -> float:
    """Objective above its lower bound, relative."""
    return objective(problem, *found) / lowest(problem) - 1.0


def loosest(search: Search, problem: Problem) -> tuple[float, float]:
    """The largest tolerance with which a solver comes within the goal, or its smallest, and the gap it leaves."""
    for tolerance in TOLERANCES:
        left = gap(problem, search(problem, tolerance))
        if left <= GOAL:
            break
    return tolerance, left
