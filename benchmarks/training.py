"""Rows of training: to the minimum by each method, matrix products, precision, memory.

Adam, the papers' own method, is the plain baseline; it is stopped as soon as it has arrived, which flatters it.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.harness import Budget, Clock, Finding, row
from onehead.aim.task import Learner, Task
from onehead.aim.training.amp import run_amp
from onehead.aim.training.instance import Instance
from onehead.aim.training.objective import Objective, OutputLoss
from onehead.aim.training.parametrisation import Factorised, Untied
from onehead.aim.training.settings import Method
from onehead.aim.training.train import train
from onehead.numerics.minimise import adam, lbfgs

LEARNER = Learner(weight_decay=0.01)
CLOSE = 1e-6  # relative distance from the lowest objective that all must reach
LAST_MOVE = 2e-4  # of message passing; the objective is then within the square of it, times a few
LIMIT = 20_000
DIM = 100
ADAM = "training to 1e-6, d = 100, α = 0.5: Adam, rate 0.1"
FIFTH = Budget(0.2, ADAM, "a fifth of Adam's time")


def problem(
    dim: int, count: int, tokens: int = 2, dtype: str = "float64", **head: Any
) -> tuple[Task, Instance, Objective]:
    """A task, one draw of it, and the objective of a factorised head."""
    task = Task(tokens=tokens, **head)
    instance = Instance.draw(task, dim, count, np.random.SeedSequence(0), method=Method(dtype=dtype, test_samples=2))
    weights = Factorised(dim, dim) if task.tied else Untied(dim, dim)
    loss = OutputLoss(loss="squared", visible=task.visible)
    return task, instance, Objective(samples=instance.train, weights=weights, loss=loss, decay=0.01)


def start(function: Objective) -> Any:
    """Where every method begins."""
    return function.weights.start(np.random.default_rng(0))


class Reached(KeyboardInterrupt):
    """Ends a search as soon as it is close enough; searches hand back their best point on Ctrl-C."""


def until(function: Objective, goal: float) -> Callable[[Any], tuple[float, Any]]:
    """The function, which raises when it has reached the goal."""

    def watched(theta: Any) -> tuple[float, Any]:
        value, gradient = function(theta)
        if value <= goal:
            raise Reached
        return value, gradient

    return watched


@lru_cache(maxsize=1)
def contest() -> tuple[Task, Instance, Objective, float]:
    """The instance that all methods are given, and the lowest objective known."""
    task, instance, function = problem(DIM, DIM**2 // 2)
    lowest = lbfgs(function, start(function), tolerance=1e-6, max_iterations=5000).value
    return task, instance, function, lowest


def _arrived(found: Any) -> Finding:
    """Whether a search ended at the goal or somewhere else."""
    if found.status.startswith("interrupted"):
        return Finding(f"objective {CLOSE:.0e} above the minimum", CLOSE, f"{found.evaluations + 1} passes")
    return Finding(f"did not arrive: {found.status}", None)


def _contest(threads: int, adams: str, own: str) -> None:
    """Adam and our search on the same samples and as many threads, everything counted that each needs."""

    @row("training", adams, repeats=2, ours=False)
    def by_adam(clock: Clock) -> Finding:
        _, _, function, lowest = contest()
        goal = lowest * (1.0 + CLOSE)
        with threadpool_limits(threads, "blas"):
            found = clock(lambda: adam(until(function, goal), start(function), tolerance=1e-12, max_iterations=LIMIT))
        return _arrived(found)

    @row("training", own, budget=Budget(0.2, adams, "a fifth of Adam's time"), repeats=5)
    def by_lbfgs(clock: Clock) -> Finding:
        _, _, function, lowest = contest()

        def work() -> Any:
            rounded = replace(function, samples=function.samples.in_single_precision())
            words = {"low_precision": rounded, "curvature": function.weights.curvature}
            tolerance = Method().tolerance  # that of `train`
            return lbfgs(function, start(function), tolerance=tolerance, max_iterations=LIMIT, **words)

        with threadpool_limits(threads, "blas"):
            found = clock(work)
        gap = found.value / lowest - 1.0
        return Finding(f"objective {gap:.0e} above the minimum", gap, f"{found.evaluations} passes")


_contest(1, ADAM, "training to 1e-6, d = 100, α = 0.5: L-BFGS")
_contest(2, f"{ADAM}, two threads", "training to 1e-6, d = 100, α = 0.5: L-BFGS, two threads")


@row("training", "training to 1e-6, d = 100, α = 0.5: message passing", budget=FIFTH, repeats=5)
def by_messages(clock: Clock) -> Finding:
    task, instance, function, lowest = contest()
    passed = clock(lambda: run_amp(task, LEARNER, instance, max_iterations=200, tolerance=LAST_MOVE))
    values, vectors = np.linalg.eigh(passed.map)
    factor = (np.sqrt(np.clip(values, 0.0, None) * DIM) * vectors).T.ravel()
    gap = function(factor)[0] / lowest - 1.0
    return Finding(f"objective {gap:.0e} above the minimum", gap, f"{passed.iterations} iterations")


def _whole(dim: int, alpha: float, repeats: int) -> None:
    @row("training", f"aim.train, one seed, d = {dim}, α = {alpha:g}, with its test", repeats=repeats, fresh=True)
    def measure(clock: Clock) -> Finding:
        found = clock(lambda: train(Task(), LEARNER, dim=dim, alpha=alpha, seeds=1))
        left = found.certificate.residual
        return Finding(f"stationarity {left:.0e}", left)


_whole(100, 0.5, 3)
_whole(300, 0.1, 1)


@row("training", "one pass over the samples, d = 100, n = 5000", repeats=9)
def one_pass(clock: Clock) -> Finding:
    _, _, function = problem(DIM, DIM**2 // 2)
    theta = start(function)
    value, gradient = clock(lambda: function(theta))
    whole = clock.seconds
    part = Clock(9)
    part(_products(function, theta))
    single = Clock(9)
    rounded = problem(DIM, DIM**2 // 2, dtype="float32")[2]
    rough = single(lambda: rounded(theta))[0]
    off = slope_error(function, theta, gradient)
    return Finding(
        f"gradient off by {off:.0e} from differences",
        off,
        f"matrix products take {part.seconds / whole:.2f} of it; in single precision {single.seconds / whole:.2f} of "
        f"the "
        f"time, value off by {abs(rough / value - 1.0):.0e}",
    )


HEADS = {
    "tied": {},
    "cross-attention": {"attention": "cross"},
    "self-attention": {"attention": "self"},
    "causal self-attention": {"attention": "self", "mask": "causal"},
}


def _per_logit(name: str, head: dict[str, Any]) -> None:
    @row("training", f"one pass of {name}, d = 100, n = 4000, T = 8", repeats=5)
    def measure(clock: Clock) -> Finding:
        each, sizes = [], (2, 4, 8)
        for tokens in sizes:
            function = problem(DIM, 4000, tokens, **head)[2]
            theta = start(function)
            _, gradient = clock(lambda function=function, theta=theta: function(theta))  # type: ignore[misc]
            each.append(1e9 * (clock.cpu or clock.seconds) / (4000 * tokens**2))
        off = slope_error(function, theta, gradient)
        listed = ", ".join(f"{one:.0f} ns at T = {tokens}" for one, tokens in zip(each, sizes, strict=True))
        return Finding(f"gradient off by {off:.0e} from differences", off, f"{listed} per logit and pass")


for _name, _head in HEADS.items():
    _per_logit(_name, _head)


def _products(function: Objective, theta: Any) -> Callable[[], None]:
    """The matrix products of a pass and nothing else."""
    differences = [chunk.tokens[1] - chunk.tokens[0] for chunk in function.samples]  # of two tokens
    S = function.weights.maps(theta)[0]

    def products() -> None:
        S @ S  # W'W and the way back cost as much as one of these each
        S @ S
        for steps in differences:
            (steps @ S).T @ steps

    return products


def slope_error(function: Objective, theta: Any, gradient: Any) -> float:
    """Relative difference between the gradient along a random direction and a central difference."""
    direction = np.random.default_rng(1).standard_normal(theta.shape)
    direction /= np.linalg.norm(direction)
    step = 1e-4
    slope = (function(theta + step * direction)[0] - function(theta - step * direction)[0]) / (2.0 * step)
    return float(abs(gradient @ direction / slope - 1.0))
