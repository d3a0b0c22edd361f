"""Training: L-BFGS and message passing against Adam on one instance, the share of matrix products, cost growth.

`python -m benchmarks.training` prints the rows. Ratios are taken within one run; the growth exponents are fitted.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from onehead.aim import objective as objective_module
from onehead.aim.amp import pass_messages
from onehead.aim.objective import Factorised, Loss, Objective
from onehead.aim.optimise import adam, lbfgs
from onehead.aim.task import Learner, Task
from onehead.aim.train import Instance
from onehead.aim.training import Method

LEARNER = Learner(weight_decay=0.01)
CLOSE = 1e-6  # relative distance from the lowest objective that both must reach
LAST_MOVE = 2e-4  # of message passing; the objective is then within the square of it, times a few
ADAM_LIMIT = 20_000


def problem(dim: int, count: int, tokens: int = 2, dtype: str = "float64") -> tuple[Task, Instance, Objective]:
    task = Task(tokens=tokens)
    instance = Instance.draw(task, dim, count, np.random.SeedSequence(0), method=Method(dtype=dtype, test_samples=2))
    weights = Factorised(dim, dim)
    return task, instance, Objective(samples=instance.train, weights=weights, loss=Loss(loss="squared"), decay=0.01)


class Reached(KeyboardInterrupt):
    """Ends a search as soon as it is close enough; searches hand back their best point on Ctrl-C."""


def until(function: Objective, goal: float) -> Callable[[Any], tuple[float, Any]]:
    def watched(theta: Any) -> tuple[float, Any]:
        value, gradient = function(theta)
        if value <= goal:
            watched.done = True  # type: ignore[attr-defined]
            raise Reached
        return value, gradient

    watched.done = False  # type: ignore[attr-defined]
    return watched


def race() -> list[dict[str, Any]]:
    """Seconds to come within 1e-6 of the minimum, d = 100, α = 0.5."""
    dim = 100
    task, instance, function = problem(dim, dim**2 // 2)
    theta = function.weights.start(np.random.default_rng(0))
    lowest = lbfgs(function, theta, tolerance=1e-6, max_iterations=5000).value
    goal = lowest * (1.0 + CLOSE)
    rows = []
    rounded = replace(function, samples=function.samples.rounded())
    for name, search in (("lbfgs", partial(lbfgs, rough=rounded)), ("adam, rate 0.1", adam)):
        watched = until(function, goal)
        clock = time.perf_counter()
        found = search(watched, theta, tolerance=1e-12, max_iterations=ADAM_LIMIT)
        seconds = time.perf_counter() - clock
        rows.append(
            {
                "name": name,
                "seconds": seconds,
                "ratio": seconds / (rows[0]["seconds"] if rows else seconds),
                "accuracy": found.value / lowest - 1.0 if not watched.done else CLOSE,  # type: ignore[attr-defined]
                "evaluations": found.evaluations,
                "reached": bool(watched.done),  # type: ignore[attr-defined]
            }
        )
    clock = time.perf_counter()
    passed = pass_messages(task, LEARNER, instance, max_iterations=200, tolerance=LAST_MOVE)
    seconds = time.perf_counter() - clock
    values, vectors = np.linalg.eigh(passed.map)
    factor = (np.sqrt(np.clip(values, 0.0, None) * dim) * vectors).T.ravel()
    rows.append(
        {
            "name": "message passing",
            "seconds": seconds,
            "ratio": seconds / rows[0]["seconds"],
            "accuracy": function(factor)[0] / lowest - 1.0,
            "evaluations": passed.iterations,
            "reached": True,
        }
    )
    return rows


def share() -> dict[str, Any]:
    """Part of a pass spent in matrix products, by timing the same pass with them taken out."""
    dim = 100
    _, _, function = problem(dim, dim**2 // 2)
    theta = function.weights.start(np.random.default_rng(0))
    whole = best_of(lambda: function(theta))
    chunks = list(function.samples)
    S = function.weights.maps(theta)[0]

    def products() -> None:
        S @ S  # W'W and the way back cost as much as one of these each
        S @ S
        for chunk in chunks:
            left = chunk.tokens @ S
            for a in range(len(left)):
                left[a].T @ chunk.tokens[a]

    seconds = best_of(products)
    return {"name": "share of matrix products", "seconds": whole, "ratio": seconds / whole, "accuracy": None}


def best_of(work: Callable[[], Any], repeats: int = 7) -> float:
    work()
    times = []
    for _ in range(repeats):
        clock = time.perf_counter()
        work()
        times.append(time.perf_counter() - clock)
    return min(times)


def growth() -> list[dict[str, Any]]:
    """Exponents of the time of one pass in n, d and T, others fixed."""
    rows = []
    grids: dict[str, list[tuple[int, int, int]]] = {
        "n": [(100, count, 2) for count in (2000, 4000, 8000, 16000)],
        "d": [(dim, 4000, 2) for dim in (60, 120, 240, 480)],
        "T": [(100, 4000, tokens) for tokens in (2, 4, 8, 16)],
    }
    for name, grid in grids.items():
        sizes, seconds = [], []
        for dim, count, tokens in grid:
            _, _, function = problem(dim, count, tokens)
            theta = function.weights.start(np.random.default_rng(0))
            seconds.append(best_of(lambda function=function, theta=theta: function(theta), 3))  # type: ignore[misc]
            sizes.append({"n": count, "d": dim, "T": tokens}[name])
        slope = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
        rows.append({"name": f"exponent in {name}", "seconds": seconds[-1], "ratio": slope, "accuracy": None})
    return rows


def precision() -> dict[str, Any]:
    """Single over double precision, one pass at d = 100."""
    times = []
    for dtype in ("float64", "float32"):
        _, _, function = problem(100, 5000, dtype=dtype)
        theta = function.weights.start(np.random.default_rng(0))
        times.append(best_of(lambda function=function, theta=theta: function(theta)))  # type: ignore[misc]
    return {"name": "float32 over float64", "seconds": times[1], "ratio": times[1] / times[0], "accuracy": None}


def run() -> list[dict[str, Any]]:
    """All rows: name, seconds, ratio, accuracy."""
    objective_module.pair_products(np.ones((1, 1, 1)), np.ones((1, 1, 1)), np.ones((1, 1, 1)))  # compiled beforehand
    return [*race(), share(), precision(), *growth()]


if __name__ == "__main__":
    for row in run():
        print(row)
