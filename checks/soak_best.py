"""Random sparse problems beside the best possible learner of the same data: nobody may beat it."""

from collections.abc import Iterator
from dataclasses import replace

from checks.soak_problems import Problem, check_readout, draw, problem_of
from onehead import sparse

__all__ = ["beaten", "draw_best", "solve_best"]

KINDS = {"sparse.predict": 0.85, "sparse.predict, far": 0.15}
TIMES = 4.0  # stated errors of the prediction that a difference may have
MORE = 1.3  # times the samples


def draw_best(seed: int, number: int) -> Problem:
    """The problem of this number; the query comes from the data, since a given one may know more than they say."""
    problem = draw(seed, number, KINDS)
    learner = {name: value for name, value in problem.learner.items() if name not in ("cos_query", "sharpness")}
    return replace(problem, learner=learner, regions={**problem.regions, "query": "from two steps"})


def solve_best(problem: Problem) -> tuple[str, str]:
    """Predict, and lay the best possible learner beside it: how it ended, and what is wrong."""
    task, protocol = problem_of(problem)
    best = sparse.bayes(task, protocol.alpha)
    wrong = next(_complaints(best), "")
    point = sparse.predict(task, protocol, **problem.options)
    status = "hard" if best.hard else "one root" if best.algorithmic_threshold is None else "beside a hard phase"
    return status, wrong or beaten(point, best) or check_readout(point)


def beaten(point: sparse.Prediction, best: sparse.Best) -> str:
    """The complaint that a prediction errs less than the best possible learner, or nothing."""
    allowed = TIMES * (point.errors["test_error"] + best.errors["test_error"])
    if point.test_error < best.test_error - allowed:
        return f"{point.model} errs on {point.test_error!r}, the best possible learner on {best.test_error!r}"
    return ""


def _complaints(best: sparse.Best) -> Iterator[str]:
    """What cannot be true of a best learner: bounds, limits, and that more samples never hurt."""
    task, a = best.task, best.alpha * best.task.positive_rate * best.task.strength**2
    R, L = task.signal_tokens, task.length
    low, high = a * R * R / L / (1.0 + a * R * R / L), a * R / (1.0 + a * R)
    slack = 3.0 * best.errors["overlap"] + 1e-9
    if not low - slack <= best.overlap_amp <= best.overlap <= high + slack:
        yield f"overlaps {best.overlap_amp!r}, {best.overlap!r} outside {low!r} to {high!r}"
    noise = TIMES * (best.errors["test_error"] + best.errors["floor"] + best.errors["test_error_amp"])
    chance = min(task.positive_rate, 1.0 - task.positive_rate)
    if not best.floor - noise <= best.test_error <= best.test_error_amp + noise <= chance + 2.0 * noise:
        yield f"errors {best.floor!r}, {best.test_error!r}, {best.test_error_amp!r} out of order"
    jumps = [one for one in (best.spinodal, best.information_threshold, best.algorithmic_threshold) if one is not None]
    if jumps != sorted(jumps) or best.hard != bool(jumps and jumps[1] < best.alpha < jumps[2]):
        yield f"thresholds {jumps!r}, hard {best.hard!r} at {best.alpha!r}"
    more = sparse.bayes(task, MORE * best.alpha)
    if more.overlap < best.overlap - slack - 3.0 * more.errors["overlap"]:
        yield f"more samples lower the overlap from {best.overlap!r} to {more.overlap!r}"
