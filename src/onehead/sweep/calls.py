"""The calls a sweep can make: flat words in, one flat row and its arrays out.

A word is a flag of the command line with underscores (``weight_decay``, ``signal_tokens``). Each call builds its problem
from words, so that a bad value gets the same sentence as anywhere else, and hands back the words of the problem as
validated, defaults included: two ways of writing one problem are one point.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from onehead.errors import InvalidArgument, SolveError
from onehead.problem import Problem
from onehead.results import Result, plain

__all__ = ["CALLS", "Answer", "Call", "Ready", "call_named"]

LONG = 32  # a list of more numbers than this is an array, kept beside the row
NESTED = ("task", "learner", "protocol", "point")  # what the parameters of the row say already


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What one point gave: numbers and words for the row, arrays for the folder beside it."""

    row: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class Ready:
    """A checked problem: its words, defaults included, and how to solve it with a seed."""

    parameters: dict[str, Any]
    solve: Callable[[int], Answer]


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call of the library.

    ``words`` lists the allowed parameters (None: any), ``whole`` those that are integers, ``seeded`` whether anything is
    drawn at random, ``given`` the parameters that are also results and are therefore called ``given_...`` in a row.
    """

    name: str
    words: frozenset[str] | None
    whole: frozenset[str]
    seeded: bool
    prepare: Callable[[dict[str, Any]], Ready]
    given: frozenset[str] = frozenset()

    def ready(self, words: dict[str, Any]) -> Ready:
        """Check the words and build the problem."""
        if self.words is not None:
            for word in words:
                if word not in self.words:
                    raise InvalidArgument(f"parameter of {self.name}", word, f"one of {', '.join(sorted(self.words))}")
        return self.prepare(words)

    def columns(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """The parameters under the names they have in a row."""
        return {f"given_{name}" if name in self.given else name: value for name, value in parameters.items()}


class Ratio(Problem):
    """A sample ratio α = n/d²."""

    alpha: float = Field(gt=0.0, le=1e6)


class Nothing(Problem):
    """A call without arguments beyond the problem."""


class Training(Ratio):
    """Arguments of ``aim.train`` beyond task and learner; ``seeds`` instances are averaged into one row."""

    dim: int = Field(ge=2)
    seeds: int = Field(1, ge=1)
    optimiser: str = "lbfgs"
    tolerance: float = 1e-3
    max_iterations: int = 5000
    starts: int = 2
    test_samples: int = 20_000
    float32: bool = False
    output: str = "label"
    untied: bool = False
    heads: int = 1
    token_law: str = Field("gaussian", json_schema_extra={"allowed": "the name of a law of tokens"})
    correlation: float = 0.0

    @model_validator(mode="after")
    def _fields_fit(self) -> Self:
        _ = self.variant, self.method  # the library's own classes say what is allowed
        return self

    @property
    def variant(self) -> Any:
        """Where the layer leaves the assumptions of the theory."""
        from onehead.aim.training import Variant  # noqa: PLC0415

        return Variant(
            output=self.output,
            tied=not self.untied,
            heads=self.heads,
            token_law=self.token_law,
            correlation=self.correlation,
        )

    @property
    def method(self) -> Any:
        """How to minimise, and how far."""
        from onehead.aim.training import Method  # noqa: PLC0415

        return Method(
            optimiser=self.optimiser,
            tolerance=self.tolerance,
            max_iterations=self.max_iterations,
            starts=self.starts,
            dtype="float32" if self.float32 else "float64",
            test_samples=self.test_samples,
        )


class MessagePassing(Ratio):
    """Arguments of ``aim.amp`` beyond task and learner."""

    dim: int = Field(ge=2)
    iterations: int = Field(80, ge=1)
    damping: float = Field(0.7, gt=0.0, le=1.0)


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


def _answer(result: Result, **arrays: NDArray[Any]) -> Answer:
    """The row and the arrays of a result: numbers and words, and every long list of numbers."""
    row: dict[str, Any] = {}
    kept = {name: np.asarray(value) for name, value in arrays.items()}
    for name, value in result.to_dict().items():
        if name in NESTED:
            continue
        if name == "warnings":
            row[name] = "; ".join(value)
        elif isinstance(value, list) and len(value) > LONG:
            kept[name] = np.array(value, dtype=float)
        else:
            row[name] = value
    return Answer(row=row, arrays=kept)


# --- aim ---------------------------------------------------------------------------------------------------------------

SHAPE = ("target", "kappa0", "gamma", "dim", "spikes", "atoms")
AIM = (*SHAPE, "noise", "tokens", "beta0", "weight_decay", "width", "param", "beta", "loss", "branch")


def _aim_problem(words: dict[str, Any], settings: type[Problem]) -> tuple[Any, Any, Any]:
    """Task, learner and the arguments beyond them."""
    from onehead.aim.words import dimension, problem_from_words  # noqa: PLC0415  (only who asks for aim pays)

    if not isinstance(words.get("loss", ""), str):
        raise InvalidArgument("loss", words["loss"], "squared or cross-entropy in a sweep")
    task, learner, rest = problem_from_words({name: _list(name, value) for name, value in words.items()})
    if "dim" in settings.model_fields:
        rest.setdefault("dim", dimension(task.target))
    elif "samples" in words:
        rest.pop("dim", None)  # it was needed to count samples only
    return task, learner, settings(**{name: value for name, value in rest.items() if value is not None})


def _list(name: str, value: Any) -> Any:
    """Eigenvalues may be written as on the command line, 6,3,1.8."""
    return value.split(",") if name in ("spikes", "atoms") and isinstance(value, str) else value


def _aim_words(name: str, task: Any, learner: Any) -> dict[str, Any]:
    """The flat words of a task and a learner; what a target does not have is left out."""
    renamed = {"eigenvalues": "atoms"}
    target = {renamed.get(key, key): value for key, value in plain(task.target).items() if value is not None}
    return {"target": name, **target, **_but(plain(task), "target"), **plain(learner)}


def _but(row: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != name}


def _aim(
    name: str, settings: type[Problem], solve: Callable[[Any, Any, Any, int], Answer], *, seeded: bool = False
) -> Call:
    def prepare(words: dict[str, Any]) -> Ready:
        task, learner, chosen = _aim_problem(words, settings)

        def solved(seed: int) -> Answer:
            found = solve(task, learner, chosen, seed)
            if "alpha" in settings.model_fields and hasattr(task.target, "dim"):
                found.row["samples"] = round(chosen.alpha * task.target.dim**2, 6)
            return found

        parameters = {**_aim_words(words.get("target", "mp"), task, learner), **plain(chosen)}
        return Ready(parameters=parameters, solve=solved)

    return Call(
        name=name,
        words=frozenset((*AIM, *settings.model_fields, *(("samples",) if "alpha" in settings.model_fields else ()))),
        whole=frozenset({"tokens", "dim"} | _integers(settings)),
        seeded=seeded,
        prepare=prepare,
        given=frozenset({"weight_decay"} if name == "aim.tune" else ()),
    )


def _integers(settings: type[Problem]) -> set[str]:
    return {name for name, field in settings.model_fields.items() if field.annotation in (int, int | None)}


def _predict(task: Any, learner: Any, chosen: Any, _: int) -> Answer:
    from onehead.aim.theory import predict  # noqa: PLC0415  (every solver loads its kernels when first asked)

    return _answer(predict(task, learner, chosen.alpha))


def _spectrum(task: Any, learner: Any, chosen: Any, _: int) -> Answer:
    from onehead.aim.spectrum import spectrum  # noqa: PLC0415
    from onehead.aim.theory import predict  # noqa: PLC0415

    point = predict(task, learner, chosen.alpha)
    found = _answer(spectrum(point))
    errors = {"test_error": point.test_error, "train_loss": point.train_loss}
    return Answer(row={**found.row, **errors}, arrays=found.arrays)


def _tune(task: Any, learner: Any, chosen: Any, _: int) -> Answer:
    from onehead.aim.tune import tune  # noqa: PLC0415

    return _answer(tune(task, learner, chosen.alpha))


def _scaling(task: Any, learner: Any, chosen: Any, _: int) -> Answer:
    from onehead.aim.scaling import ScalingPoint, scaling  # noqa: PLC0415
    from onehead.aim.words import dimension  # noqa: PLC0415

    (found,) = scaling(task, learner, [chosen.alpha * (dimension(task.target) or 1) ** 2]).points
    if not isinstance(found, ScalingPoint):
        raise SolveError(found.reason)
    return _answer(found)


def _thresholds(task: Any, learner: Any, _chosen: Any, _: int) -> Answer:
    from onehead.aim.thresholds import thresholds  # noqa: PLC0415

    return _answer(thresholds(task, learner))


def _train(task: Any, learner: Any, chosen: Any, seed: int) -> Answer:
    from onehead.aim.train import train  # noqa: PLC0415

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
    return _answer(found, eigenvalues=found.eigenvalues)


def _amp(task: Any, learner: Any, chosen: Any, seed: int) -> Answer:
    from onehead.aim.amp import amp  # noqa: PLC0415

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
    shown = _answer(found)
    row = {**_but(shown.row, "steps"), **_but(steps[-1], "iteration"), "steps": len(steps)}
    return Answer(row=row, arrays={name: np.array([step[name] for step in steps], dtype=float) for name in steps[0]})


# --- sparse ------------------------------------------------------------------------------------------------------------

TASK = ("length", "signal_tokens", "strength", "positive_rate")
PROTOCOL = ("alpha0", "alpha1", "beta", "eta_w", "eta_b", "eta_q", "loss", "ridge", "cos_query", "sharpness")


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

        parameters = {**_but(plain(task), "positions"), **plain(protocol), **plain(chosen)}
        return Ready(parameters=parameters, solve=solved)

    tuned = ("alpha0", "alpha1", "beta", "eta_b", "eta_q", "ridge", "cos_query", "sharpness")
    return Call(
        name=name,
        words=frozenset((*TASK, *PROTOCOL, *settings.model_fields, "alpha")),
        whole=frozenset({"length", "signal_tokens"} | _integers(settings)),
        seeded=seeded,
        prepare=prepare,
        given=frozenset(tuned if name == "sparse.tune" else ()),
    )


def _sparse_predict(task: Any, protocol: Any, chosen: Any, _: int) -> Answer:
    from onehead.sparse.theory import predict  # noqa: PLC0415

    return _answer(predict(task, protocol, model=chosen.model, test_length=chosen.test_length))


def _sparse_train(task: Any, protocol: Any, chosen: Any, seed: int) -> Answer:
    from onehead.sparse.train import train  # noqa: PLC0415

    return _answer(
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

    return _answer(align(task, protocol))


def _capacity(task: Any, protocol: Any, _chosen: Any, _: int) -> Answer:
    from onehead.sparse.capacity import capacity  # noqa: PLC0415

    return _answer(capacity(task, protocol))


def _oracle(task: Any, _protocol: Any, chosen: Any, seed: int) -> Answer:
    from onehead.sparse.oracle import oracle  # noqa: PLC0415

    return _answer(oracle(task, activation=chosen.activation, seed=seed))


def _finite_size(task: Any, protocol: Any, chosen: Any, seed: int) -> Answer:
    from onehead.sparse.finite import finite_size  # noqa: PLC0415

    return _answer(finite_size(task, protocol, dim=chosen.dim, trials=chosen.trials, seed=seed))


def _sparse_tune(task: Any, protocol: Any, chosen: Any, _: int) -> Answer:
    from onehead.sparse.tune import tune  # noqa: PLC0415

    return _answer(tune(task, protocol, alpha=chosen.alpha))


# --- the list ----------------------------------------------------------------------------------------------------------

CALLS: dict[str, Call] = {
    call.name: call
    for call in (
        _aim("aim.predict", Ratio, _predict),
        _aim("aim.train", Training, _train, seeded=True),
        _aim("aim.spectrum", Ratio, _spectrum),
        _aim("aim.tune", Ratio, _tune),
        _aim("aim.scaling", Ratio, _scaling),
        _aim("aim.amp", MessagePassing, _amp, seeded=True),
        _aim("aim.thresholds", Nothing, _thresholds),
        _sparse("sparse.predict", Model, _sparse_predict),
        _sparse("sparse.train", Trials, _sparse_train, seeded=True),
        _sparse("sparse.align", Nothing, _align),
        _sparse("sparse.capacity", Nothing, _capacity),
        _sparse("sparse.oracle", Gate, _oracle, seeded=True),
        _sparse("sparse.finite_size", Queries, _finite_size, seeded=True),
        _sparse("sparse.tune", Total, _sparse_tune),
    )
}


def call_named(name: str, *, own: bool = False) -> Call:
    """Look up a call; ``own`` also allows ``module:function``, which only Python code may ask for, never a file.

    Such a function takes the words as a dict and a seed, and returns a dict of numbers, words and arrays.
    """
    if name in CALLS:
        return CALLS[name]
    if own and ":" in name:
        return _own(name)
    raise InvalidArgument("call", name, f"one of {', '.join(CALLS)}")


@cache
def _own(name: str) -> Call:
    module, _, function = name.partition(":")
    run: Callable[[dict[str, Any], int], dict[str, Any]] = getattr(import_module(module), function)

    def prepare(words: dict[str, Any]) -> Ready:
        def solve(seed: int) -> Answer:
            found = run(words, seed)
            arrays = {key: value for key, value in found.items() if isinstance(value, np.ndarray)}
            return Answer(row=plain({k: v for k, v in found.items() if k not in arrays}), arrays=arrays)

        return Ready(parameters=plain(words), solve=solve)

    return Call(name=name, words=None, whole=frozenset(), seeded=True, prepare=prepare)
