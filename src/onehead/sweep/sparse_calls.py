"""Calls of sparse-token classification: task and protocol from flat words, and what each verb puts into a row."""

from collections.abc import Callable
from typing import Any, Literal

from pydantic import Field

from onehead.problem import Problem
from onehead.results import plain
from onehead.sweep.call import Answer, Call, Nothing, Ready, answer, integers, unsaid

__all__ = ["SPARSE_CALLS"]

TASK = ("length", "signal_tokens", "strength", "positive_rate")
PROTOCOL = ("alpha0", "alpha1", "beta", "eta_w", "eta_b", "eta_q", "loss", "ridge", "cos_query", "sharpness")


class Model(Problem):
    """Which model of the sparse task."""

    model: Literal["attention", "pooled", "vectorised"] = Field(
        "attention", json_schema_extra={"allowed": "attention, pooled or vectorised"}
    )
    test_length: int | None = Field(None, ge=1, le=20_000, json_schema_extra={"allowed": "an integer >= 1 or nothing"})


class Trials(Model):
    """Arguments of ``sparse.train`` beyond task and protocol."""

    dim: int = Field(500, ge=3, le=100_000)
    trials: int = Field(8, ge=1, le=100_000)
    mode: Literal["reduced", "tokens", "joint"] = Field(
        "reduced", json_schema_extra={"allowed": "reduced, tokens or joint"}
    )


class Queries(Problem):
    """Arguments of ``sparse.finite_size`` beyond task and protocol."""

    dim: int = Field(ge=3)
    trials: int = Field(40, ge=2)


class Gate(Problem):
    """Arguments of ``sparse.oracle`` beyond the task."""

    activation: Literal["sigmoid", "step", "relu", "power"] = Field(
        "sigmoid", json_schema_extra={"allowed": "sigmoid, step, relu or power"}
    )


class Total(Problem):
    """All samples over dimension, for ``sparse.tune``."""

    alpha: float | None = Field(None, gt=0.0, json_schema_extra={"allowed": "a number > 0 or nothing"})


def _sparse_problem(words: dict[str, Any], *, split: bool) -> tuple[Any, Any, dict[str, Any]]:
    """Task, protocol and what is left; with ``split`` the word alpha rescales both halves of the data."""
    from onehead.sparse.task import Protocol, Task  # noqa: PLC0415

    rest = dict(words)
    task = Task(**{name: rest.pop(name) for name in TASK if name in rest})
    chosen = {name: rest.pop(name) for name in PROTOCOL if name in rest}
    if chosen.get("ridge") == "0+":
        chosen["ridge"] = 0.0
    protocol = Protocol(**chosen)
    if split and (alpha := rest.pop("alpha", None)) is not None:
        alpha = Total(alpha=alpha).alpha
        halves = {name: getattr(protocol, name) / protocol.alpha * alpha for name in ("alpha0", "alpha1")}
        protocol = protocol.changed(**halves)
    return task, protocol, rest


def _sparse(
    name: str, settings: type[Problem], solve: Callable[[Any, Any, Any, int], Answer], *, seeded: bool = False
) -> Call:
    split = "alpha" not in settings.model_fields

    def prepare(words: dict[str, Any]) -> Ready:
        task, protocol, rest = _sparse_problem(words, split=split)
        chosen = settings(**rest)

        def solved(seed: int) -> Answer:
            found = solve(task, protocol, chosen, seed)
            return Answer(row={"alpha": protocol.alpha, **found.row} if split else found.row, arrays=found.arrays)

        shape = {name: value for name, value in plain(task).items() if name != "positions"}
        parameters = {**shape, **plain(protocol), **plain(chosen)}
        return Ready(parameters=parameters, solve=solved, unsaid=unsaid(task, protocol, chosen))

    tuned = ("alpha0", "alpha1", "beta", "eta_b", "eta_q", "ridge", "cos_query", "sharpness")
    return Call(
        name=name,
        words=frozenset((*TASK, *PROTOCOL, *settings.model_fields, "alpha")),
        whole=frozenset({"length", "signal_tokens"} | integers(settings)),
        seeded=seeded,
        prepare=prepare,
        given=frozenset(tuned if name == "sparse.tune" else ()),
    )


def _sparse_predict(task: Any, protocol: Any, chosen: Any, _: int) -> Answer:
    from onehead.sparse.theory import predict  # noqa: PLC0415

    return answer(predict(task, protocol, model=chosen.model, test_length=chosen.test_length))


def _sparse_train(task: Any, protocol: Any, chosen: Any, seed: int) -> Answer:
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


def _align(task: Any, protocol: Any, _chosen: Any, _: int) -> Answer:
    from onehead.sparse.alignment import align  # noqa: PLC0415

    return answer(align(task, protocol))


def _capacity(task: Any, protocol: Any, _chosen: Any, _: int) -> Answer:
    from onehead.sparse.capacity import capacity  # noqa: PLC0415

    return answer(capacity(task, protocol))


def _oracle(task: Any, _protocol: Any, chosen: Any, seed: int) -> Answer:
    from onehead.sparse.oracle import oracle  # noqa: PLC0415

    return answer(oracle(task, activation=chosen.activation, seed=seed))


def _finite_size(task: Any, protocol: Any, chosen: Any, seed: int) -> Answer:
    from onehead.sparse.finite import finite_size  # noqa: PLC0415

    return answer(finite_size(task, protocol, dim=chosen.dim, trials=chosen.trials, seed=seed))


def _sparse_tune(task: Any, protocol: Any, chosen: Any, _: int) -> Answer:
    from onehead.sparse.tune import tune  # noqa: PLC0415

    return answer(tune(task, protocol, alpha=chosen.alpha))


SPARSE_CALLS = (
    _sparse("sparse.predict", Model, _sparse_predict),
    _sparse("sparse.train", Trials, _sparse_train, seeded=True),
    _sparse("sparse.align", Nothing, _align),
    _sparse("sparse.capacity", Nothing, _capacity),
    _sparse("sparse.oracle", Gate, _oracle, seeded=True),
    _sparse("sparse.finite_size", Queries, _finite_size, seeded=True),
    _sparse("sparse.tune", Total, _sparse_tune),
)
