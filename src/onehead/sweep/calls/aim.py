"""Calls of the attention-indexed model: task and learner from flat words, and what each verb puts into a row."""

from collections.abc import Callable
from typing import Any

import numpy as np

from onehead.aim.task import Learner, Task
from onehead.aim.words import WORDS, dimension, problem_from_words, words_from_problem
from onehead.errors import SolveError
from onehead.fields import words_of
from onehead.problem import Problem
from onehead.results import plain
from onehead.sweep.calls.base import Answer, Call, Ready, answer, unsaid
from onehead.sweep.settings import MessagePassing, Nothing, Ratio, Samples, Training

__all__ = ["AIM_CALLS"]


def _aim(
    name: str,
    settings: type[Problem],
    solve: Callable[[Task, Learner, Any, int], Answer],
    *,
    seeded: bool = False,
    given: tuple[str, ...] = (),
) -> Call:
    counted = "alpha" in settings.model_fields

    def prepare(words: dict[str, Any]) -> Ready:
        task, learner, rest = problem_from_words(words)
        if "dim" in settings.model_fields:
            rest.setdefault("dim", dimension(task.target))
        elif "samples" in words:
            rest.pop("dim", None)  # it was needed to count samples only
        chosen: Any = settings(**{name: value for name, value in rest.items() if value is not None})

        def solved(seed: int) -> Answer:
            found = solve(task, learner, chosen, seed)
            if counted and hasattr(task.target, "dim"):
                found.row["samples"] = round(chosen.alpha * task.target.dim**2, 6)
            return found

        parameters = {**words_from_problem(task, learner), **plain(chosen)}
        return Ready(parameters=parameters, solve=solved, unsaid=unsaid(task.target, task, learner, chosen))

    words = {**WORDS, **words_of(settings), **(words_of(Samples) if counted else {})}
    return Call(name=name, words=words, seeded=seeded, prepare=prepare, given=given)


def _predict(task: Task, learner: Learner, chosen: Ratio, _: int) -> Answer:
    from onehead.aim.verbs.predict import predict  # noqa: PLC0415  (every solver loads its kernels when first asked)

    return answer(predict(task, learner, chosen.alpha))


def _spectrum(task: Task, learner: Learner, chosen: Ratio, _: int) -> Answer:
    from onehead.aim.verbs.predict import predict  # noqa: PLC0415
    from onehead.aim.verbs.spectrum import spectrum  # noqa: PLC0415

    point = predict(task, learner, chosen.alpha)
    found = answer(spectrum(point))
    errors = {"test_error": point.test_error, "train_loss": point.train_loss}
    return Answer(row={**found.row, **errors}, arrays=found.arrays)


def _tune(task: Task, learner: Learner, chosen: Ratio, _: int) -> Answer:
    from onehead.aim.verbs.tune import tune  # noqa: PLC0415

    return answer(tune(task, learner, chosen.alpha))


def _scaling(task: Task, learner: Learner, chosen: Ratio, _: int) -> Answer:
    from onehead.aim.verbs.scaling import ScalingPoint, scaling  # noqa: PLC0415

    (found,) = scaling(task, learner, [chosen.alpha * (dimension(task.target) or 1) ** 2]).points
    if not isinstance(found, ScalingPoint):
        raise SolveError(found.reason)
    return answer(found)


def _thresholds(task: Task, learner: Learner, _chosen: Nothing, _: int) -> Answer:
    from onehead.aim.verbs.thresholds import thresholds  # noqa: PLC0415

    return answer(thresholds(task, learner))


def _train(task: Task, learner: Learner, chosen: Any, seed: int) -> Answer:
    from onehead.aim.training.train import train  # noqa: PLC0415

    found = train(
        task,
        learner,
        dim=chosen.dim,
        alpha=chosen.alpha,
        seeds=chosen.seeds,
        seed=seed,
        variant=chosen.variant,
        method=chosen.method,
    )
    if found.status.startswith("interrupted"):  # half a measurement is not a point
        raise KeyboardInterrupt
    return answer(found, eigenvalues=found.eigenvalues)


def _amp(task: Task, learner: Learner, chosen: MessagePassing, seed: int) -> Answer:
    from onehead.aim.training.amp import amp  # noqa: PLC0415

    found = amp(
        task,
        learner,
        dim=chosen.dim,
        alpha=chosen.alpha,
        iterations=chosen.iterations,
        damping=chosen.damping,
        seed=seed,
    )
    steps = found.to_rows()
    row = {**answer(found).row, **steps[-1]}
    for name in ("iteration", "steps"):
        row.pop(name, None)
    return Answer(
        row={**row, "steps": len(steps)},
        arrays={name: np.array([step[name] for step in steps], dtype=float) for name in steps[0]},
    )


AIM_CALLS = (
    _aim("aim.predict", Ratio, _predict),
    _aim("aim.train", Training, _train, seeded=True),
    _aim("aim.spectrum", Ratio, _spectrum),
    _aim("aim.tune", Ratio, _tune, given=("weight_decay",)),
    _aim("aim.scaling", Ratio, _scaling),
    _aim("aim.amp", MessagePassing, _amp, seeded=True),
    _aim("aim.thresholds", Nothing, _thresholds),
)
