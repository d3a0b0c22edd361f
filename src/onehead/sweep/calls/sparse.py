"""Calls of sparse-token classification: task and protocol from flat words, and what each verb puts into a row."""

from dataclasses import replace
from typing import Any

import numpy as np

from onehead import sparse
from onehead.fields import words_of
from onehead.problem import Problem
from onehead.results import plain
from onehead.sparse.task import Protocol, Task
from onehead.sweep.calls.base import Answer, Call, Ready, Solver, answer, unsaid, verb
from onehead.sweep.settings import Gate, Model, Nothing, Posterior, Queries, Total, Trials

__all__ = ["SPARSE_CALLS"]

TASK = {name: said for name, said in words_of(Task).items() if name != "positions"}  # weights have no word in a sweep
PROTOCOL = words_of(Protocol)
TUNED = ("alpha0", "alpha1", "beta", "eta_b", "eta_q", "ridge", "cos_query", "sharpness")


def _split(protocol: Protocol, alpha: float | None) -> Protocol:
    """All samples over dimension shared out as they were between query and readout."""
    alpha = Total(alpha=alpha).alpha
    if alpha is None:
        return protocol
    return protocol.changed(**{name: getattr(protocol, name) / protocol.alpha * alpha for name in ("alpha0", "alpha1")})


def _sparse(
    name: str,
    settings: type[Problem],
    solve: Solver | None = None,
    *,
    seeded: bool = False,
    given: tuple[str, ...] = (),
) -> Call:
    solver = solve or verb(sparse, name)
    split = "alpha" not in settings.model_fields

    def prepare(words: dict[str, Any]) -> Ready:
        rest = dict(words)
        task = Task(**{name: rest.pop(name) for name in TASK if name in rest})
        protocol = Protocol(**{name: rest.pop(name) for name in PROTOCOL if name in rest})
        if split:
            protocol = _split(protocol, rest.pop("alpha", None))
        chosen = settings(**rest)

        def solved(seed: int) -> Answer:
            found = solver(task, protocol, chosen, seed if seeded else None)
            return Answer(row={"alpha": protocol.alpha, **found.row} if split else found.row, arrays=found.arrays)

        shape = {name: plain(getattr(task, name)) for name in TASK}
        parameters = {**shape, **plain(protocol), **plain(chosen)}
        return Ready(parameters=parameters, solve=solved, unsaid=unsaid(task, protocol, chosen))

    words = {**TASK, **PROTOCOL, **words_of(Total), **words_of(settings)}
    return Call(name=name, words=words, seeded=seeded, prepare=prepare, given=given)


def _oracle(task: Task, _: Protocol, chosen: Gate, seed: int) -> Answer:
    return answer(sparse.oracle(task, activation=chosen.activation, seed=seed))


def _bayes(task: Task, protocol: Protocol, _: Nothing, seed: None) -> Answer:
    return answer(sparse.bayes(task, protocol.alpha))


def _amp(task: Task, protocol: Protocol, chosen: Posterior, seed: int) -> Answer:
    found = sparse.amp(task, protocol.alpha, seed=seed, **dict(chosen))
    if found.certificate.interrupted:  # half a measurement is not a point
        raise KeyboardInterrupt
    names = ("iteration", "overlap", "overlap_theory")
    steps = {name: np.array([getattr(step, name) for step in found.steps], dtype=float) for name in names}
    row = answer(replace(found, steps=())).row
    return Answer(row={**row, "steps": len(found.steps)}, arrays=steps)


SPARSE_CALLS = (
    _sparse("sparse.predict", Model),
    _sparse("sparse.train", Trials, seeded=True),
    _sparse("sparse.align", Nothing),
    _sparse("sparse.capacity", Nothing),
    _sparse("sparse.oracle", Gate, _oracle, seeded=True),
    _sparse("sparse.finite_size", Queries, seeded=True),
    _sparse("sparse.tune", Total, given=TUNED),
    _sparse("sparse.bayes", Nothing, _bayes),
    _sparse("sparse.amp", Posterior, _amp, seeded=True),
)
