"""Random problems of joint descent, reused data and the joint minimum, which the best possible learner must beat.

A share of the descents is solved again with four times the points, to see whether the stated
errors hold.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from checks.soak_problems import Problem, check_readout, choice, log_uniform, problem_of, uniform
from onehead import sparse
from onehead.sparse.solve.descent import REPLICATE_LOG2_POINTS, STEP_QUANTITIES, solve_trajectory

__all__ = ["draw_joint", "solve_joint"]

KINDS = {"sparse.descend": 0.6, "sparse.reuse": 0.36, "sparse.joint": 0.04}  # a joint minimum takes half a minute
LOSSES = {"logistic": 0.55, "square": 0.35, "squared-hinge": 0.08, "hinge": 0.02}
BATCHES = {"same": 0.7, "fresh": 0.2, "one-pass": 0.1}
TIMES = 4.0  # stated errors that a difference may have; they are one and a half standard errors
REPEATED = 0.1  # share of descents that are solved again with more points
ROUNDING = 1e-9
# quantities whose stated errors are compared with the result of more points
COMPARED = ("test_error", "train_loss", "cos_query", "cos_readout", "norm_query", "norm_readout", "bias")


def draw_joint(seed: int, number: int) -> Problem:
    """L 2 to 30, R to 3, θ 0.5 to 8, π 0.05 to 0.95, α 0.1 to 20, rates 0.1 to 4, ridges 1e-3 to 3, every loss."""
    rng = np.random.default_rng([seed, number])
    verb = choice(rng, **KINDS)
    length = int(rng.integers(2, 31))
    rate = 0.5 if rng.random() < 0.4 else uniform(rng, 0.05, 0.95)
    task = {
        "length": length,
        "signal_tokens": int(rng.integers(1, min(length, 3) + 1)),
        "strength": uniform(rng, 0.5, 8.0),
        "positive_rate": rate,
    }
    alpha = log_uniform(rng, 0.05, 10.0)
    learner: dict[str, Any] = {"alpha0": alpha, "alpha1": alpha, "ridge": log_uniform(rng, 1e-3, 3.0)}
    options: dict[str, Any] = {}
    learner["loss"] = choice(rng, **LOSSES)
    if verb == "sparse.reuse":
        learner |= {"reuse": True, "beta": uniform(rng, 0.5, 15.0), "eta_w": log_uniform(rng, 0.05, 3.0)}
        learner |= {"eta_b": uniform(rng, 0.0, 8.0)}
    else:
        learner |= {"beta": 1.0, "ridge_query": log_uniform(rng, 1e-3, 3.0)}
    if verb == "sparse.descend":
        learner |= {name: log_uniform(rng, 0.1, 4.0) for name in ("eta_q", "eta_w", "eta_b")}
        options = {
            "steps": int(rng.integers(1, 16)),
            "batch": choice(rng, **BATCHES),
        }
        if options["batch"] == "fresh":
            options["batch_ratio"] = log_uniform(rng, 0.05, 4.0)
    regions = {
        "half": "sparse",
        "verb": verb,
        "loss": learner["loss"],
        "data": options.get("batch", "–"),
        "classes": "balanced" if rate == 0.5 else "common" if min(rate, 1.0 - rate) > 0.1 else "rare",
        "signal": "weak" if task["strength"] < 2.0 else "strong",
        "samples": "few samples" if alpha < 0.25 else "many samples",
    }
    return Problem(
        verb=verb,
        task=task,
        learner=learner,
        options=options,
        regions=regions,
        neighbour=verb == "sparse.descend" and rng.random() < REPEATED,
    )


def solve_joint(problem: Problem) -> tuple[str, str]:
    """Solve a problem: how it ended in words, and what is wrong with the answer (nothing, if all is well)."""
    task, protocol = problem_of(problem)
    if problem.verb == "sparse.reuse":
        point = sparse.predict(task, protocol)
        return point.certificate.status, _beaten(point, protocol.alpha) or check_readout(point)
    if problem.verb == "sparse.joint":
        return _solve_minimum(task, protocol)
    found = sparse.descend(task, protocol, **problem.options)
    status = "unstable" if found.unstable_step else "stable"
    wrong = next(_descent_complaints(found), "") or _beaten(found, found.steps[found.best_step - 1].alpha)
    if not wrong and problem.neighbour and not found.unstable_step:
        wrong = _outside_errors(found)
    return status, wrong


def _solve_minimum(task: sparse.Task, protocol: sparse.Protocol) -> tuple[str, str]:
    """Solve the joint minimum; only where it is stable and unique is it an exact statement."""
    found = sparse.joint(task, protocol)
    exact = found.certificate.kind == "claim"
    numbers = [getattr(found, name) for name in found.MEANINGS]
    if not np.isfinite(numbers).all():
        return found.certificate.status, "not a finite number"
    if not (0.0 <= found.test_error <= 1.0 and found.stability >= 0.0 and 0.0 <= found.switching <= 1.0):
        return found.certificate.status, f"out of range: {found.test_error!r}, {found.stability!r}, {found.switching!r}"
    return found.certificate.status, _beaten(found, protocol.alpha) if exact else ""


def _beaten(found: Any, alpha: float) -> str:
    """The complaint that a result errs less than the best possible learner of the same data, or nothing."""
    best = sparse.bayes(found.task, alpha)
    allowed = TIMES * (found.errors["test_error"] + best.errors["test_error"])
    if found.test_error < best.test_error - allowed:
        return f"errs on {found.test_error!r}, the best possible learner on {best.test_error!r}, allowed {allowed:.1e}"
    return ""


def _descent_complaints(found: sparse.Descent) -> Iterator[str]:
    """What cannot be true of a descent."""
    for step in found.steps:
        if not np.isfinite(step).all():
            yield f"step {step.step} has a number that is not finite"
        if not (0.0 <= step.test_error <= 1.0 and 0.0 <= step.train_error <= 1.0 and step.train_loss >= 0.0):
            yield f"step {step.step}: test error {step.test_error!r}, training error {step.train_error!r}"
        if max(abs(step.cos_query), abs(step.cos_readout)) > 1.0:
            yield f"step {step.step}: cosines {step.cos_query!r}, {step.cos_readout!r}"
    lowest = min(step.test_error for step in found.steps)
    if found.test_error != lowest:
        yield f"the best step has test error {found.test_error!r}, another one {lowest!r}"
    if abs(found.query_readout) > found.norm_query * found.norm_readout * (1.0 + ROUNDING):
        yield "Cauchy-Schwarz"


def _outside_errors(found: sparse.Descent) -> str:
    """The first number that differs from the one of four times as many points by more than the stated errors."""
    finer = solve_trajectory(found.task, found.protocol, found.plan, REPLICATE_LOG2_POINTS + 2)
    row = found.best_step - 1
    for name in COMPARED:
        column = STEP_QUANTITIES.index(name)
        value, error = finer.means[row, column], finer.errors[row, column]
        gap, allowed = abs(getattr(found, name) - value), TIMES * np.hypot(found.errors[name], error)
        if gap > allowed + 1e-6:
            return f"{name} is {getattr(found, name)!r}, with more points {value!r}: {gap:.1e}, allowed {allowed:.1e}"
    return ""
