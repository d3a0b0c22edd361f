"""Calls of the attention-indexed model: task and learner from flat parameters, and the columns of each result."""

from typing import Any

import numpy as np

from onehead import aim
from onehead.aim.flat_parameters import PARAMETERS, dimension, parameters_from_problem, problem_from_parameters
from onehead.aim.task import Learner, Ratio, Task
from onehead.errors import SolveError
from onehead.fields import parameters_of
from onehead.problem import Problem
from onehead.results import INTERRUPTED, plain
from onehead.sweep.registry.base import (
    Call,
    PointResult,
    PreparedCall,
    Solver,
    omitted_from_key,
    point_result,
    verb_solver,
)
from onehead.sweep.settings import MessagePassing, NoSettings, SampleCount, Training


def _aim_call(
    name: str,
    settings: type[Problem],
    solve: Solver | None = None,
    *,
    seeded: bool = False,
    given: tuple[str, ...] = (),
) -> Call:
    """Call of `onehead.aim`; ``solve`` replaces the function of that name if the row needs more."""
    solver = solve or verb_solver(aim, name)
    takes_alpha = "alpha" in settings.model_fields

    def build(values: dict[str, Any]) -> PreparedCall:
        task, learner, others = problem_from_parameters(values)
        if "dim" in settings.model_fields:
            others.setdefault("dim", dimension(task.target))
        elif "samples" in values:
            others.pop("dim", None)  # only needed to convert samples into alpha
        chosen: Any = settings(**{name: value for name, value in others.items() if value is not None})

        def solve_seed(seed: int) -> PointResult:
            found = solver(task, learner, chosen, seed if seeded else None)
            if takes_alpha and hasattr(task.target, "dim"):
                found.row["samples"] = round(chosen.alpha * task.target.dim**2, 6)
            return found

        return PreparedCall(
            parameters={**parameters_from_problem(task, learner), **plain(chosen)},
            solve=solve_seed,
            omitted_from_key=omitted_from_key(task.target, task, learner, chosen),
        )

    parameters = {**PARAMETERS, **parameters_of(settings), **(parameters_of(SampleCount) if takes_alpha else {})}
    growth = 4 if seeded else 0  # α d² samples are multiplied with d² weights
    return Call(name=name, parameters=parameters, seeded=seeded, build=build, given=given, growth=growth)


def _bayes(task: Task, _learner: Learner, chosen: Ratio, _: None) -> PointResult:
    return point_result(aim.bayes(task, chosen.alpha))


def _spectrum(task: Task, learner: Learner, chosen: Ratio, _: None) -> PointResult:
    point = aim.predict(task, learner, chosen.alpha)
    found = point_result(aim.spectrum(point))
    errors = {"test_error": point.test_error, "train_loss": point.train_loss}
    return PointResult(row={**found.row, **errors}, arrays=found.arrays)


def _scaling(task: Task, learner: Learner, chosen: Ratio, _: None) -> PointResult:
    from onehead.aim.verbs.scaling import ScalingPoint  # loads its kernels

    (found,) = aim.scaling(task, learner, [chosen.alpha * (dimension(task.target) or 1) ** 2]).points
    if not isinstance(found, ScalingPoint):
        raise KeyboardInterrupt if found.reason == INTERRUPTED else SolveError(found.reason)
    return point_result(found)


def _train(task: Task, learner: Learner, chosen: Any, seed: int) -> PointResult:
    size = {name: getattr(chosen, name) for name in ("dim", "alpha", "seeds")}
    found = aim.train(task, learner, **size, seed=seed, variant=chosen.variant, method=chosen.method)
    if found.status.startswith("interrupted"):  # an incomplete measurement is not stored
        raise KeyboardInterrupt
    return point_result(found, eigenvalues=found.eigenvalues)


def _amp(task: Task, learner: Learner, chosen: MessagePassing, seed: int) -> PointResult:
    found = aim.amp(task, learner, **dict(chosen), seed=seed)
    if found.certificate.interrupted:
        raise KeyboardInterrupt
    steps = found.to_rows()
    row = {**point_result(found).row, **steps[-1]}
    for name in ("iteration", "steps"):
        row.pop(name, None)
    return PointResult(
        row={**row, "steps": len(steps)},
        arrays={name: np.array([step[name] for step in steps], dtype=float) for name in steps[0]},
    )


AIM_CALLS = (
    _aim_call("aim.predict", Ratio),
    _aim_call("aim.train", Training, _train, seeded=True),
    _aim_call("aim.spectrum", Ratio, _spectrum),
    _aim_call("aim.tune", Ratio, given=("weight_decay",)),
    _aim_call("aim.scaling", Ratio, _scaling),
    _aim_call("aim.amp", MessagePassing, _amp, seeded=True),
    _aim_call("aim.thresholds", NoSettings),
    _aim_call("aim.bayes", Ratio, _bayes),
)
