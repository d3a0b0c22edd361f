"""Calls of the attention-indexed model: task and learner from flat words, and what each verb puts into a row."""

from typing import Any

import numpy as np

from onehead import aim
from onehead.aim.task import Learner, Task
from onehead.aim.words import WORDS, dimension, problem_from_words, words_from_problem
from onehead.errors import SolveError
from onehead.fields import words_of
from onehead.problem import Problem
from onehead.results import INTERRUPTED, plain
from onehead.sweep.calls.base import Answer, Call, Ready, Solver, answer, unsaid, verb
from onehead.sweep.settings import MessagePassing, Nothing, Ratio, Samples, Training

__all__ = ["AIM_CALLS"]


def _aim(
    name: str,
    settings: type[Problem],
    solve: Solver | None = None,
    *,
    seeded: bool = False,
    given: tuple[str, ...] = (),
) -> Call:
    solver = solve or verb(aim, name)
    counted = "alpha" in settings.model_fields

    def prepare(words: dict[str, Any]) -> Ready:
        task, learner, rest = problem_from_words(words)
        if "dim" in settings.model_fields:
            rest.setdefault("dim", dimension(task.target))
        elif "samples" in words:
            rest.pop("dim", None)  # it was needed to count samples only
        chosen: Any = settings(**{name: value for name, value in rest.items() if value is not None})

        def solved(seed: int) -> Answer:
            found = solver(task, learner, chosen, seed if seeded else None)
            if counted and hasattr(task.target, "dim"):
                found.row["samples"] = round(chosen.alpha * task.target.dim**2, 6)
            return found

        parameters = {**words_from_problem(task, learner), **plain(chosen)}
        return Ready(parameters=parameters, solve=solved, unsaid=unsaid(task.target, task, learner, chosen))

    words = {**WORDS, **words_of(settings), **(words_of(Samples) if counted else {})}
    # α d² samples are multiplied with d² weights
    return Call(name=name, words=words, seeded=seeded, prepare=prepare, given=given, growth=4 if seeded else 0)


def _bayes(task: Task, _learner: Learner, chosen: Ratio, _: None) -> Answer:
    return answer(aim.bayes(task, chosen.alpha))


def _spectrum(task: Task, learner: Learner, chosen: Ratio, _: None) -> Answer:
    point = aim.predict(task, learner, chosen.alpha)
    found = answer(aim.spectrum(point))
    errors = {"test_error": point.test_error, "train_loss": point.train_loss}
    return Answer(row={**found.row, **errors}, arrays=found.arrays)


def _scaling(task: Task, learner: Learner, chosen: Ratio, _: None) -> Answer:
    from onehead.aim.verbs.scaling import ScalingPoint  # noqa: PLC0415  (loads its kernels)

    (found,) = aim.scaling(task, learner, [chosen.alpha * (dimension(task.target) or 1) ** 2]).points
    if not isinstance(found, ScalingPoint):
        raise KeyboardInterrupt if found.reason == INTERRUPTED else SolveError(found.reason)
    return answer(found)


def _train(task: Task, learner: Learner, chosen: Any, seed: int) -> Answer:
    size = {name: getattr(chosen, name) for name in ("dim", "alpha", "seeds")}
    found = aim.train(task, learner, **size, seed=seed, variant=chosen.variant, method=chosen.method)
    if found.status.startswith("interrupted"):  # half a measurement is not a point
        raise KeyboardInterrupt
    return answer(found, eigenvalues=found.eigenvalues)


def _amp(task: Task, learner: Learner, chosen: MessagePassing, seed: int) -> Answer:
    found = aim.amp(task, learner, **dict(chosen), seed=seed)
    if found.certificate.interrupted:
        raise KeyboardInterrupt
    steps = found.to_rows()
    row = {**answer(found).row, **steps[-1]}
    for name in ("iteration", "steps"):
        row.pop(name, None)
    return Answer(
        row={**row, "steps": len(steps)},
        arrays={name: np.array([step[name] for step in steps], dtype=float) for name in steps[0]},
    )


AIM_CALLS = (
    _aim("aim.predict", Ratio),
    _aim("aim.train", Training, _train, seeded=True),
    _aim("aim.spectrum", Ratio, _spectrum),
    _aim("aim.tune", Ratio, given=("weight_decay",)),
    _aim("aim.scaling", Ratio, _scaling),
    _aim("aim.amp", MessagePassing, _amp, seeded=True),
    _aim("aim.thresholds", Nothing),
    _aim("aim.bayes", Ratio, _bayes),
)
