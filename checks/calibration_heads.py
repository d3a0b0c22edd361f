"""Problems of the calibration over all kinds of heads and both best possible learners, and rules that are finer."""

import functools
import gc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any
from unittest.mock import patch

import numpy as np

from checks.soak_best import draw_best
from checks.soak_heads import draw_head
from checks.soak_layers import draw_layer
from checks.soak_problems import Problem, choice, draw, log_uniform, uniform
from onehead.numerics.gaussian import sobol

__all__ = ["KINDS", "draw_problem", "finer_rules", "kind_of"]

KINDS = {  # share of each kind of problem; more tokens than in the soak, since sampled points have the larger errors
    "aim.predict": 0.14,
    "aim.predict, far": 0.04,
    "aim.predict, eigenvalues": 0.06,
    "aim.predict, more tokens": 0.08,
    "heads": 0.24,
    "tokens": 0.1,
    "layers": 0.08,
    "aim.bayes": 0.05,
    "sparse.predict": 0.11,
    "sparse.capacity": 0.03,
    "sparse.oracle": 0.01,
    "sparse.bayes": 0.06,
}
NAMES = {  # in the table
    "aim.predict": "tied, two tokens",
    "aim.predict, far": "tied, two tokens, whole range",
    "aim.predict, eigenvalues": "tied, two tokens, lists of eigenvalues",
    "aim.predict, more tokens": "tied, 3 to 16 tokens",
    "layers": "several heads",
}
LONGEST = {"cross": 10_000, "self": 64, "tied": 12}  # tokens of heads whose finer rules take less than a minute
FINE = {  # the finest lattices of a user have spacings of 0.1 and 0.42
    1: ((0.4, 6.0), (0.08, 7.8), (0.08, 7.8), (0.08, 7.8)),
    2: ((0.8, 5.5), (0.37, 6.6), (0.37, 6.6), (0.37, 6.6)),
}
FINE_MODES = (0.7, 0.61, 0.53, 0.48, 0.44, 0.39, 0.35)  # spacings of the lattices of several heads
SAMPLED = ("leading", "leading_cross", "leading_noise", "several_heads")  # output channels with points of their own
THEORY = "onehead.aim.theory.output."


def draw_problem(seed: int, number: int, only: str | None = None) -> tuple[str, Problem]:
    """Kind and problem of this number; the kind is ``only``, if that is given."""
    rng = np.random.default_rng([seed, number, 4])
    drawn = choice(rng, **KINDS)
    kind = only or drawn
    if kind in ("heads", "tokens", "aim.bayes"):
        problem = draw_head(seed, number)
        task = problem.task | {"tokens": min(problem.task["tokens"], LONGEST[problem.task["attention"]])}
        options = problem.options or {"alpha": log_uniform(rng, 0.1, 10.0) / task["tokens"]}
        problem = replace(problem, verb="aim.predict", task=task, options=options)
        if kind == "tokens":
            return kind, _with_tokens(rng, problem)
        return kind, problem if kind == "heads" else replace(problem, verb="aim.bayes", learner={})
    if kind == "layers":
        problem = draw_layer(seed, number)
        return kind, replace(problem, verb="aim.predict", options={"alpha": min(problem.options["alpha"], 1e3)})
    if kind == "sparse.bayes":
        return kind, replace(draw_best(seed, number), verb="sparse.bayes")
    return kind, draw(seed, number, {kind: 1.0})


def _with_tokens(rng: np.random.Generator, problem: Problem) -> Problem:
    """The head with soft labels, few tokens, and a mean or a covariance of them."""
    task = {name: value for name, value in problem.task.items() if name not in ("kurtosis", "labels")}
    task["tokens"] = min(task["tokens"], 5)
    if rng.random() < 0.5:
        task |= {"attention": "cross", "mask": "none"}
        task["token_spectrum"] = f"levels:{uniform(rng, 0.2, 0.8)},{uniform(rng, 0.05, 0.5)}"
    else:
        task |= {"unasked": uniform(rng, 0.05, 0.5), "token_mean": log_uniform(rng, 0.2, 3.0)}
    learner = {name: value for name, value in problem.learner.items() if name not in ("leading", "loss")}
    return replace(problem, task=task, learner=learner)


def kind_of(kind: str, problem: Problem) -> str:
    """What kind of head a problem has, for the table."""
    task = problem.task
    if kind == "heads":
        labels = ", hard" if task["labels"] == "hard" else ""
        where = ", long" if task["tokens"] > 6 else ""
        return f"{task['attention']}, mask {task['mask']}{labels}{where}"
    if kind == "tokens":
        return "tokens with a covariance" if "token_spectrum" in task else "tokens with a mean"
    return NAMES.get(kind, kind)


def _finer(dim: int, *, log2_points: int, seed: int, parts: int = 1) -> Any:
    """Four times the points, of another scrambling."""
    return sobol(dim, log2_points=log2_points + 2, seed=seed + 1000, parts=parts)


@contextmanager
def finer_rules() -> Iterator[None]:
    """Nodes that are more, and others."""
    quadrature = import_module("onehead.aim.logits.quadrature")
    outputs = [import_module(THEORY + name) for name in SAMPLED]
    with ExitStack() as stack:
        stack.enter_context(patch.object(quadrature, "LATTICES", FINE))
        stack.enter_context(patch.object(outputs[-1], "SPACINGS", FINE_MODES))
        for module in (quadrature, *outputs):
            stack.enter_context(patch.object(module, "sobol", _finer))
        _forget()
        yield
    _forget()


def _forget() -> None:
    """Clear whatever was computed with other rules."""
    for known in gc.get_objects():
        if type(known) is functools._lru_cache_wrapper and str(known.__module__).startswith("onehead.aim"):
            known.cache_clear()
