"""Calls of the attention-indexed model: task and learner from flat words, and what each verb puts into a row."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from pydantic import Field, model_validator

from onehead.errors import InvalidArgument, SolveError
from onehead.problem import Problem
from onehead.results import plain
from onehead.sweep.call import Answer, Call, Nothing, Ready, answer, integers, unsaid

__all__ = ["AIM_CALLS"]

SHAPE = ("target", "kappa0", "gamma", "dim", "spikes", "atoms")
AIM = (*SHAPE, "noise", "tokens", "beta0", "weight_decay", "width", "param", "beta", "loss", "branch")


class Ratio(Problem):
    """A sample ratio α = n/d²."""

    alpha: float = Field(gt=0.0, le=1e6)


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
        from onehead.aim.training.results import Variant  # noqa: PLC0415

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
        from onehead.aim.training.results import Method  # noqa: PLC0415

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


def _but(row: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != name}


def _aim(
    name: str, settings: type[Problem], solve: Callable[[Any, Any, Any, int], Answer], *, seeded: bool = False
) -> Call:
    def prepare(words: dict[str, Any]) -> Ready:
        from onehead.aim.words import words_from_problem  # noqa: PLC0415

        task, learner, chosen = _aim_problem(words, settings)

        def solved(seed: int) -> Answer:
            found = solve(task, learner, chosen, seed)
            if "alpha" in settings.model_fields and hasattr(task.target, "dim"):
                found.row["samples"] = round(chosen.alpha * task.target.dim**2, 6)
            return found

        parameters = {**words_from_problem(task, learner), **plain(chosen)}
        return Ready(parameters=parameters, solve=solved, unsaid=unsaid(task.target, task, learner, chosen))

    return Call(
        name=name,
        words=frozenset((*AIM, *settings.model_fields, *(("samples",) if "alpha" in settings.model_fields else ()))),
        whole=frozenset({"tokens", "dim"} | integers(settings)),
        seeded=seeded,
        prepare=prepare,
        given=frozenset({"weight_decay"} if name == "aim.tune" else ()),
    )


def _predict(task: Any, learner: Any, chosen: Any, _: int) -> Answer:
    from onehead.aim.verbs.predict import predict  # noqa: PLC0415  (every solver loads its kernels when first asked)

    return answer(predict(task, learner, chosen.alpha))


def _spectrum(task: Any, learner: Any, chosen: Any, _: int) -> Answer:
    from onehead.aim.verbs.predict import predict  # noqa: PLC0415
    from onehead.aim.verbs.spectrum import spectrum  # noqa: PLC0415

    point = predict(task, learner, chosen.alpha)
    found = answer(spectrum(point))
    errors = {"test_error": point.test_error, "train_loss": point.train_loss}
    return Answer(row={**found.row, **errors}, arrays=found.arrays)


def _tune(task: Any, learner: Any, chosen: Any, _: int) -> Answer:
    from onehead.aim.verbs.tune import tune  # noqa: PLC0415

    return answer(tune(task, learner, chosen.alpha))


def _scaling(task: Any, learner: Any, chosen: Any, _: int) -> Answer:
    from onehead.aim.verbs.scaling import ScalingPoint, scaling  # noqa: PLC0415
    from onehead.aim.words import dimension  # noqa: PLC0415

    (found,) = scaling(task, learner, [chosen.alpha * (dimension(task.target) or 1) ** 2]).points
    if not isinstance(found, ScalingPoint):
        raise SolveError(found.reason)
    return answer(found)


def _thresholds(task: Any, learner: Any, _chosen: Any, _: int) -> Answer:
    from onehead.aim.verbs.thresholds import thresholds  # noqa: PLC0415

    return answer(thresholds(task, learner))


def _train(task: Any, learner: Any, chosen: Any, seed: int) -> Answer:
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


def _amp(task: Any, learner: Any, chosen: Any, seed: int) -> Answer:
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
    shown = answer(found)
    row = {**_but(shown.row, "steps"), **_but(steps[-1], "iteration"), "steps": len(steps)}
    return Answer(row=row, arrays={name: np.array([step[name] for step in steps], dtype=float) for name in steps[0]})


AIM_CALLS = (
    _aim("aim.predict", Ratio, _predict),
    _aim("aim.train", Training, _train, seeded=True),
    _aim("aim.spectrum", Ratio, _spectrum),
    _aim("aim.tune", Ratio, _tune),
    _aim("aim.scaling", Ratio, _scaling),
    _aim("aim.amp", MessagePassing, _amp, seeded=True),
    _aim("aim.thresholds", Nothing, _thresholds),
)
