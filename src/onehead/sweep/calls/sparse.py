"""Calls of sparse-token classification: task and protocol from flat words, and what each verb puts into a row."""

from collections.abc import Callable
from typing import Any

from onehead.fields import words_of
from onehead.problem import Problem
from onehead.results import plain
from onehead.sparse.task import Protocol, Task
from onehead.sweep.calls.base import Answer, Call, Ready, answer, unsaid
from onehead.sweep.settings import Gate, Model, Nothing, Queries, Total, Trials

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
    solve: Callable[[Task, Protocol, Any, int], Answer],
    *,
    seeded: bool = False,
    given: tuple[str, ...] = (),
) -> Call:
    split = "alpha" not in settings.model_fields

    def prepare(words: dict[str, Any]) -> Ready:
        rest = dict(words)
        task = Task(**{name: rest.pop(name) for name in TASK if name in rest})
        protocol = Protocol(**{name: rest.pop(name) for name in PROTOCOL if name in rest})
        if split:
            protocol = _split(protocol, rest.pop("alpha", None))
        chosen = settings(**rest)

        def solved(seed: int) -> Answer:
            found = solve(task, protocol, chosen, seed)
            return Answer(row={"alpha": protocol.alpha, **found.row} if split else found.row, arrays=found.arrays)

        shape = {name: plain(getattr(task, name)) for name in TASK}
        parameters = {**shape, **plain(protocol), **plain(chosen)}
        return Ready(parameters=parameters, solve=solved, unsaid=unsaid(task, protocol, chosen))

    words = {**TASK, **PROTOCOL, **words_of(Total), **words_of(settings)}
    return Call(name=name, words=words, seeded=seeded, prepare=prepare, given=given)


def _predict(task: Task, protocol: Protocol, chosen: Model, _: int) -> Answer:
    from onehead.sparse.theory import predict  # noqa: PLC0415

    return answer(predict(task, protocol, model=chosen.model, test_length=chosen.test_length))


def _train(task: Task, protocol: Protocol, chosen: Trials, seed: int) -> Answer:
    from onehead.sparse.train import train  # noqa: PLC0415

    return answer(
        train(
            task,
            protocol,
            model=chosen.model,
            dim=chosen.dim,
            trials=chosen.trials,
            seed=seed,
            mode=chosen.mode,
            test_length=chosen.test_length,
        )
    )


def _align(task: Task, protocol: Protocol, _chosen: Nothing, _: int) -> Answer:
    from onehead.sparse.alignment import align  # noqa: PLC0415

    return answer(align(task, protocol))


def _capacity(task: Task, protocol: Protocol, _chosen: Nothing, _: int) -> Answer:
    from onehead.sparse.capacity import capacity  # noqa: PLC0415

    return answer(capacity(task, protocol))


def _oracle(task: Task, _protocol: Protocol, chosen: Gate, seed: int) -> Answer:
    from onehead.sparse.oracle import oracle  # noqa: PLC0415

    return answer(oracle(task, activation=chosen.activation, seed=seed))


def _finite_size(task: Task, protocol: Protocol, chosen: Queries, seed: int) -> Answer:
    from onehead.sparse.finite import finite_size  # noqa: PLC0415

    return answer(finite_size(task, protocol, dim=chosen.dim, trials=chosen.trials, seed=seed))


def _tune(task: Task, protocol: Protocol, chosen: Total, _: int) -> Answer:
    from onehead.sparse.tune import tune  # noqa: PLC0415

    return answer(tune(task, protocol, alpha=chosen.alpha))


SPARSE_CALLS = (
    _sparse("sparse.predict", Model, _predict),
    _sparse("sparse.train", Trials, _train, seeded=True),
    _sparse("sparse.align", Nothing, _align),
    _sparse("sparse.capacity", Nothing, _capacity),
    _sparse("sparse.oracle", Gate, _oracle, seeded=True),
    _sparse("sparse.finite_size", Queries, _finite_size, seeded=True),
    _sparse("sparse.tune", Total, _tune, given=TUNED),
)
