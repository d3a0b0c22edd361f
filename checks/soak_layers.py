"""Random problems of several heads that add to one output, of learnt values and of heads that vanish."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from checks.soak_problems import Problem, choice, log_uniform, problem_of, uniform
from onehead import aim

__all__ = ["draw_layer", "solve_layer"]

HEADS = {1: 0.1, 2: 0.5, 3: 0.2, 4: 0.12, 6: 0.05, 8: 0.03}
TOKENS = {2: 0.8, 3: 0.15, 5: 0.05}
SURVIVORS = 0.1  # share of questions which heads survive
NEIGHBOUR = 0.15  # share solved again from a neighbour, and with the other sign of the overlap of two heads
RESIDUAL = 2e-6  # the solver stops at 1e-6
TIMES = 4.0  # stated errors that a difference may have
ROUNDING = 1e-6
TARGETS = {"Product": 0.7, "MarchenkoPastur": 0.2, "Atoms": 0.1}


def draw_layer(seed: int, number: int) -> Problem:
    """H 1 to 8, T 2, 3, 5, the whole range of rho, κ₀ 0.1 to 2, Δ 0 to 2, α T/2 0.1 to 10, λ 1e-3 to 3."""
    rng = np.random.default_rng([seed, number, 2])
    survivors = rng.random() < SURVIVORS
    heads = int(rng.choice(list(HEADS), p=list(HEADS.values())))
    tokens = 2 if survivors or heads > 4 else int(rng.choice(list(TOKENS), p=list(TOKENS.values())))
    sharing = 0.0 if survivors or heads == 1 else uniform(rng, -0.95 / (heads - 1), 0.95)
    learnt = survivors or heads == 1 or rng.random() < 0.35
    task: dict[str, Any] = {
        "attention": "cross",
        "target": _target(rng),
        "heads": heads,
        "sharing": sharing,
        "tokens": tokens,
        "noise": 0.0 if rng.random() < 0.1 else uniform(rng, 0.0, 2.0),
        "beta0": log_uniform(rng, 0.3, 3.0) if rng.random() < 0.2 else 1.0,
    }
    learner: dict[str, Any] = {
        "weight_decay": log_uniform(rng, 1e-3, 3.0),
        "param": "factorised" if survivors else choice(rng, factorised=0.75, direct=0.25),
        "beta": log_uniform(rng, 0.3, 3.0) if rng.random() < 0.2 else 1.0,
    }
    if learnt:
        learner["values"] = "learnt"
        learner["value_decay"] = log_uniform(rng, 1e-3, 3.0) if rng.random() < 0.7 else None
    ratio = log_uniform(rng, 0.1, 10.0)
    infinite = survivors and rng.random() < 0.3
    size = abs(sharing)
    regions = {
        "half": "aim",
        "verb": "aim.survivors" if survivors else "aim.predict",
        "parameterisation": learner["param"],
        "target": task["target"]["class"],
        "heads": str(heads),
        "tokens": f"T = {tokens}",
        "values": "learnt" if learnt else "fixed",
        "overlap": "0" if size == 0.0 else "to 0.3" if size < 0.3 else "to 0.7" if size <= 0.7 else "above 0.7",
        "noise": "no noise" if task["noise"] == 0.0 else "noise",
        "samples": "infinite" if infinite else "few samples" if ratio < 0.8 else "many samples",
    }
    return Problem(
        verb="aim.survivors" if survivors else "aim.predict",
        task=task,
        learner=learner,
        options={"alpha": float("inf") if infinite else float(f"{2.0 * ratio / tokens:.6g}")},
        regions=regions,
        neighbour=not survivors and rng.random() < NEIGHBOUR,
    )


def _target(rng: np.random.Generator) -> dict[str, Any]:
    """A target as its class and arguments."""
    kind = choice(rng, **TARGETS)
    if kind != "Atoms":
        return {"class": kind, "kappa0": log_uniform(rng, 0.1, 2.0)}
    values = np.abs(rng.standard_normal(int(rng.integers(10, 80))))
    values = np.where(rng.random(len(values)) < 0.7, values, 0.0)
    values[0] = 1.5
    return {"class": kind, "eigenvalues": [float(f"{v:.4g}") for v in values]}


def solve_layer(problem: Problem) -> tuple[str, str]:
    """Solve a problem: how it ended in words, and what is wrong with the answer (nothing, if all is well)."""
    task, learner = problem_of(problem)
    alpha = problem.options["alpha"]
    if problem.verb == "aim.survivors":
        found = aim.survivors(task, learner, alpha)
        return f"{found.alive} alive", next(_of_survivors(found), "")
    point = aim.predict(task, learner, alpha)
    wrong = next(_of_prediction(point), "")
    if not wrong and problem.neighbour:
        wrong = _elsewhere(point)
    return point.status, wrong


def _of_survivors(found: aim.Survivors) -> Iterator[str]:
    """What cannot be true of heads that survive."""
    numbers = [found.q, found.m, found.test_error, found.objective, *found.scales, *found.trace_norms]
    if not np.isfinite(numbers).all():
        yield "not a finite number"
    if not (0 <= found.alive <= found.task.heads and found.test_error >= 0.0):
        yield f"{found.alive} alive, test error {found.test_error!r}"
    if found.starts and found.objective > min(one.objective for one in found.starts) * (1.0 + 1e-9):
        yield "a start has a lower objective"


def _of_prediction(point: aim.Prediction) -> Iterator[str]:
    """What cannot be true of several heads."""
    task, heads = point.task, point.task.heads
    errors = defaultdict(float, point.errors)  # zero maps have none
    numbers = [point.q, point.m, point.rank, point.train_loss, point.test_error, point.test_error_clean]
    cross = [point.q_cross, point.m_cross, point.head_error] if heads > 1 else []
    if not np.isfinite([*numbers, *cross, *(point.value_scale or ())]).all():
        yield "not a finite number"
    if np.isnan([point.q_hat, point.m_hat, point.sigma_hat, point.sigma]).any():  # at zero maps fields are infinite
        yield "a conjugate field is not a number"
    sampled = any("sampled maps of dimension" in text for text in point.certificate.warnings)
    if not sampled and point.certificate.residual > RESIDUAL:
        yield f"residual {point.certificate.residual:.1e}"
    if not -ROUNDING <= point.rank <= 1.0 + ROUNDING:
        yield f"rank {point.rank!r}"
    if min(point.test_error, point.test_error_clean, point.q, point.m, point.train_loss) < 0.0:
        yield f"a negative number: {numbers}"
    # heads at zero, with the values of the target, cost this; learnt ones cost no more than with these values
    zero = point.alpha * _error_of_zero(task)
    if point.learner.values == "learnt":
        zero += 0.5 * heads * (point.learner.value_decay or point.learner.decay)
    if point.train_loss > zero * (1.0 + 1e-3) + TIMES * errors["train_loss"]:
        yield f"train loss {point.train_loss!r}, of the zero maps {zero!r}"
    Q0 = task.target.second_moment
    for own, other, count in ((point.q, point.m, heads - 1), (point.q, point.m, -1)) if heads > 1 else ():
        q, m = own + count * (point.q_cross or 0.0), other + count * (point.m_cross or 0.0)
        room = TIMES * (errors["q"] + abs(count) * errors["q_cross"]) + 1e-8
        if m * m > (q + room) * Q0 * (1.0 + 1e-6):
            yield f"a mode has q {q!r}, m {m!r}"
    best = aim.bayes(task.changed(heads=1, sharing=0.0), point.alpha).head_error
    own_error = point.head_error if heads > 1 else None
    # outputs say less than all attention matrices, from which heads could be learned one by one
    if own_error is not None and own_error < best - TIMES * errors["head_error"] - 1e-6:
        yield f"error of one head {own_error!r}, of the best possible learner {best!r}"


def _error_of_zero(task: aim.Task) -> float:
    """Loss of a sample at zero maps: heads with different labels do not interfere, but their means do not vary."""
    # heads that share values have Gaussian logits, also where one head averages leading directions exactly
    one = aim.predict(task.changed(heads=1, sharing=0.0), aim.Learner(weight_decay=1e4, leading=0), 1.0)
    return task.heads * one.test_error


def _elsewhere(point: aim.Prediction) -> str:
    """The answer depends neither on the start of the solver, nor on the sign of the overlap of two heads."""
    near = aim.predict(point.task, point.learner, point.alpha * 1.25)
    others = [aim.predict(point.task, point.learner, point.alpha, near=near)]
    if (point.task.heads, point.task.tokens, point.learner.values) == (2, 2, "fixed"):
        others.append(aim.predict(point.task.changed(sharing=-point.task.sharing), point.learner, point.alpha))
    for other in others:
        allowed = TIMES * (point.test_error_err + other.test_error_err) + 1e-5
        if abs(other.test_error - point.test_error) > allowed:
            return f"from elsewhere the test error is {other.test_error!r}, not {point.test_error!r}"
    return ""
