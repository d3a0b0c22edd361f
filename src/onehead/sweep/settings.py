"""Settings of the calls beyond their problem, each parameter declared once for sweeps and the command line."""

from copy import copy
from typing import Any, Literal, Self

from pydantic import create_model, model_validator
from pydantic.fields import FieldInfo

from onehead.aim.task import Ratio
from onehead.aim.training.settings import Method, Variant
from onehead.fields import parameter, parameters_of
from onehead.problem import Problem
from onehead.sparse.task import Activation, Batch, Mode, PosteriorMethod, PosteriorStart
from onehead.sparse.task import Model as ModelName


class NoSettings(Problem):
    """Settings of a call that takes nothing beyond its problem."""


class SampleCount(Problem):
    """Number of samples, which stands for α = n/d² where the dimension is known."""

    samples: float = parameter(..., "n", "Number of samples, in place of alpha; needs a dimension.", gt=0.0)


class _FiniteSize(Ratio):
    """Sample ratio and dimension of a problem of finite size."""

    dim: int = parameter(..., "d", "Dimension of a token.", ge=2)


class MessagePassing(_FiniteSize):
    """Arguments of ``aim.amp`` beyond task and learner."""

    iterations: int = parameter(80, "", "Number of iterations.", ge=1)
    damping: float = parameter(0.7, "", "Weight of the new estimate in each iteration; 1 is undamped.", gt=0.0, le=1.0)
    method: Literal["head", "bayes"] = parameter(
        "head", "", "Messages of the trained head, or of the best possible learner.", since="2.0"
    )


class _TrainingBase(_FiniteSize):
    """Arguments of ``aim.train`` beyond task and learner; ``seeds`` instances are averaged into one row."""

    seeds: int = parameter(1, "", "Number of independent instances.", ge=1)

    @model_validator(mode="after")
    def _fields_fit(self) -> Self:
        _ = self.variant, self.method  # their constructors validate the fields
        return self

    @property
    def variant(self) -> Variant:
        """Deviations of the trained layer from the assumptions of the theory."""
        switches = {"tied": not self._value("untied"), "heads": self._value("averaged_heads")}
        return Variant(**self._fields_of(Variant), **switches)

    @property
    def method(self) -> Method:
        """Optimiser and its stopping criteria."""
        return Method(**self._fields_of(Method), dtype="float32" if self._value("float32") else "float64")

    def _fields_of(self, problem: type[Problem]) -> dict[str, Any]:
        """Values of the fields that these settings share with another problem."""
        return {name: self._value(name) for name in problem.model_fields if name in type(self).model_fields}

    def _value(self, name: str) -> Any:
        """Value of a field that only the derived class `Training` declares."""
        return getattr(self, name)


def _copied_fields(problem: type[Problem], **replaced: dict[str, Any]) -> dict[str, Any]:
    """Fields of a problem for `create_model`; those in ``replaced`` are exchanged for others, or dropped."""
    fields: dict[str, Any] = {}
    for name, field in problem.model_fields.items():
        fields |= replaced.get(name, {name: _flat_field(field, parameters_of(problem)[name].choices)})
    return fields


def _flat_field(field: FieldInfo, choices: tuple[str, ...]) -> tuple[Any, FieldInfo]:
    """Field restricted to its named choices, where it also takes Python objects; else the field itself."""
    if field.annotation is not Any:
        return field.annotation, field
    restricted = copy(field)
    restricted.json_schema_extra = None  # describes the objects
    return Literal[choices], restricted


AVERAGED_HEADS = parameter(
    1, "", "Number of heads of the learner, whose attention matrices are averaged.", since="3.0", ge=1, le=64
)

Training: type[_TrainingBase] = create_model(
    "Training",
    __base__=_TrainingBase,
    __module__=__name__,
    __doc__=_TrainingBase.__doc__,
    **_copied_fields(Method, dtype={}, memory={}),
    float32=(bool, parameter(False, "", "Matrix products in single precision.")),
    **_copied_fields(
        Variant,
        tied={"untied": (bool, parameter(False, "", "Query and key have their own weights."))},
        heads={"averaged_heads": (int, AVERAGED_HEADS)},  # heads are those of the task, whose outputs add up
    ),
)


class SparsePredict(Problem):
    """Arguments of ``sparse.predict`` beyond task and protocol."""

    model: ModelName = parameter("attention", "", "Model to solve.")
    test_length: int | None = parameter(
        None, "", "Tokens in a test sequence; same as in training if not given.", ge=1, le=20_000
    )


class SparseTrain(SparsePredict):
    """Arguments of ``sparse.train`` beyond task and protocol."""

    dim: int = parameter(500, "d", "Dimension of a token.", ge=3, le=100_000)
    trials: int = parameter(8, "", "Number of independent runs.", ge=1, le=100_000)
    mode: Mode = parameter(
        "reduced",
        "",
        "Sample sufficient statistics (reduced) or real tokens (tokens), or train query and readout together (joint).",
    )
    steps: int | None = parameter(
        None,
        "",
        "Steps of joint gradient descent with the given rates; to the minimum if not given.",
        ge=1,
        le=200,
        since="3.0",
    )


class SparseDescend(Problem):
    """Arguments of ``sparse.descend`` beyond task and protocol."""

    steps: int = parameter(15, "k", "Number of steps of joint descent.", ge=1, le=200)
    batch: Batch = parameter(
        "same", "", "The same samples at every step, fresh ones, or each sample once (one-pass SGD)."
    )
    batch_ratio: float = parameter(0.5, "n_b/d", "Samples of a fresh batch over dimension.", gt=0.0, le=1e9)


class SparseAmp(Problem):
    """Arguments of ``sparse.amp`` beyond the task and the samples."""

    dim: int = parameter(500, "d", "Dimension of a token.", ge=3, le=100_000)
    trials: int = parameter(8, "", "Number of independent runs.", ge=1, le=100_000)
    method: PosteriorMethod = parameter("amp", "", "Message passing, or Gibbs samples of the exact posterior.")
    start: PosteriorStart = parameter("uninformed", "", "Start without information, or at the true signal.")
    iterations: int = parameter(100, "", "Number of iterations, or of Gibbs sweeps.", ge=1, le=1_000_000)


class SparseFiniteSize(Problem):
    """Arguments of ``sparse.finite_size`` beyond task and protocol."""

    dim: int = parameter(..., "d", "Dimension of a token.", ge=3)
    trials: int = parameter(40, "", "Number of sampled queries.", ge=2)


class SparseOracle(Problem):
    """Arguments of ``sparse.oracle`` beyond the task."""

    activation: Activation = parameter("sigmoid", "", "Gate of the element-wise attention.")


class AllSamples(Problem):
    """Total number of samples over dimension."""

    alpha: float | None = parameter(
        None, "α = n/d", "All samples over dimension; they are divided in the proportion of alpha0 to alpha1.", gt=0.0
    )


class TotalSamples(AllSamples):
    """Arguments of ``sparse.tune`` beyond task and protocol: total number of samples over dimension, and dimension."""

    dim: int | None = parameter(
        None,
        "d",
        "Dimension at which the test error is minimised, with a random share of positives; infinite if not given.",
        ge=3,
        since="3.0",
    )


class SparseTuneJoint(AllSamples):
    """Arguments of ``sparse.tune_joint`` beyond task and protocol."""

    procedure: Literal["reuse", "descend"] = parameter(
        ..., "", "Both stages on all samples, or joint descent with the step at which to stop."
    )
    steps: int = parameter(15, "k", "Largest number of steps of joint descent.", ge=2, le=200)
