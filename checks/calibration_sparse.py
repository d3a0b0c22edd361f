"""A sparse problem solved as users do, and with rules that are finer and have other points."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from typing import Any
from unittest import mock

import numpy as np

from checks.soak_problems import Problem, problem_of
from onehead import sparse
from onehead.sparse.theory import bayes, bayes_rule, token_samples
from onehead.sparse.theory import features as sampling
from onehead.sparse.theory import oracle as oracles

__all__ = ["said_and_true"]

FINER = 16  # times more points of the truth
LARGEST = 2**26  # normal numbers of the truth
OTHER = 10_000  # added to its seeds
BEST = (bayes, bayes_rule)  # what the best possible learner is computed by
WORKING = {name: import_module(f"onehead.sparse.verbs.{name}") for name in ("predict", "capacity", "oracle")}


def said_and_true(problem: Problem, accuracy: float | None = None) -> tuple[Any, Any] | None:
    """The answer that a user gets, and one by a rule of sixteen times as many other points; nothing if that would take
    minutes.
    """
    used: list[int] = []
    with _watched(used):
        said = _answer(problem, accuracy, seed=0)
    level = max(used, default=0) + int(np.log2(FINER))
    if (problem.task["length"] + 1) << level > LARGEST:
        return None
    with _finer(level):
        return said, _answer(problem, accuracy, seed=OTHER)


def _answer(problem: Problem, accuracy: float | None, seed: int) -> Any:
    task, plan = problem_of(problem)
    if problem.verb == "sparse.oracle":
        return sparse.oracle(task, seed=seed)
    if problem.verb == "sparse.capacity":
        return sparse.capacity(task, plan)
    if problem.verb == "sparse.bayes":
        return sparse.bayes(task, plan.alpha)
    return sparse.predict(task, plan, model=problem.options["model"], accuracy=accuracy)


def _more_sequences(length: int, signal_tokens: int, log2_points: int) -> token_samples.TokenSample:
    """Eight times the sequences."""
    return token_samples.token_sample(length, signal_tokens, log2_points + 3)


@contextmanager
def _watched(used: list[int]) -> Iterator[None]:
    """Write down how many points (log2) are drawn."""

    def counted(*args: Any, log2_points: int, **words: Any) -> Any:
        used.append(log2_points)
        return sampling.attention_features(*args, log2_points=log2_points, **words)

    with ExitStack() as stack:
        for name in ("predict", "capacity"):
            stack.enter_context(mock.patch.object(WORKING[name], "attention_features", counted))
        yield


@contextmanager
def _finer(level: int) -> Iterator[None]:
    """Other points and more of them, a finer grid of the Gaussian, more Monte Carlo samples."""
    grid = np.linspace(-9.0, 9.0, FINER * 2000 + 4)
    changes = [
        (sampling, "MAX_LOG2_NORMALS", 60),
        (WORKING["predict"], "FIRST_LOG2_POINTS", level),
        (WORKING["predict"], "MAX_LOG2_POINTS", level),
        (WORKING["predict"], "LOG2_COARSENING", 0),
        (WORKING["predict"], "SCRAMBLING_SEED", OTHER),
        (WORKING["predict"], "with_gauss", partial(sampling.with_gauss, grid=grid)),
        (WORKING["capacity"], "LOG2_POINTS", (level,)),
        (WORKING["capacity"], "SCRAMBLING_SEED", OTHER),
        (token_samples, "SCRAMBLING_SEED", OTHER),
        *((module, "token_sample", _more_sequences) for module in BEST),
        *((module, name, 0.8 * getattr(module, name)) for module in BEST for name in ("STEP", "NARROW_STEP")),
        (oracles, "INVERSION_RULES", ((4000, 14.0, 16001),) * 2),
        (WORKING["oracle"], "NORMALS_PER_CLASS", FINER * WORKING["oracle"].NORMALS_PER_CLASS),
        (WORKING["oracle"], "MIN_SAMPLES", FINER * WORKING["oracle"].MIN_SAMPLES),
        (WORKING["oracle"], "MAX_SAMPLES", FINER * WORKING["oracle"].MAX_SAMPLES),
    ]
    with ExitStack() as stack:
        for room, name, value in changes:
            stack.enter_context(mock.patch.object(room, name, value))
        token_samples.token_sample.cache_clear()
        yield
    token_samples.token_sample.cache_clear()
