"""What a call needs beyond its problem, each word declared once, for sweeps and for the command line."""

from copy import copy
from typing import Any, Literal, Self

from pydantic import create_model, model_validator
from pydantic.fields import FieldInfo

from onehead.aim.task import Ratio
from onehead.aim.training.settings import Method, Variant
from onehead.fields import word, words_of
from onehead.problem import Problem
from onehead.sparse.task import Activation, Mode, Search, Start
from onehead.sparse.task import Model as ModelName

__all__ = [
    "Gate", "MessagePassing", "Model", "Nothing", "Posterior", "Queries", "Ratio", "Samples", "Total", "Training", "Trials",
]  # fmt: skip


class Nothing(Problem):
    """A call without arguments beyond the problem."""


class Samples(Problem):
    """Another word for α, where a dimension is known."""

    samples: float = word(..., "n", "Samples, instead of alpha; where a dimension is known.", gt=0.0)


class _Instance(Ratio):
    """A problem of finite size."""

    dim: int = word(..., "d", "Dimension of a token.", ge=2)


class MessagePassing(_Instance):
    """Arguments of ``aim.amp`` beyond task and learner."""

    iterations: int = word(80, "", "Steps.", ge=1)
    damping: float = word(0.7, "", "Share of the new estimate in a step; 1 is undamped.", gt=0.0, le=1.0)
    method: Literal["head", "bayes"] = word(
        "head", "", "Messages of the trained head, or of the best possible learner.", since="2.0"
    )


class _Layer(_Instance):
    """Arguments of ``aim.train`` beyond task and learner; ``seeds`` instances are averaged into one row."""

    seeds: int = word(1, "", "Independent instances.", ge=1)

    @model_validator(mode="after")
    def _fields_fit(self) -> Self:
        _ = self.variant, self.method  # the library's own classes say what is allowed
        return self

    @property
    def variant(self) -> Variant:
        """Where the layer leaves the assumptions of the theory."""
        return Variant(**self._own(Variant), tied=not self._said("untied"))

    @property
    def method(self) -> Method:
        """How to minimise, and how far."""
        return Method(**self._own(Method), dtype="float32" if self._said("float32") else "float64")

    def _own(self, problem: type[Problem]) -> dict[str, Any]:
        return {name: self._said(name) for name in problem.model_fields if name in type(self).model_fields}

    def _said(self, name: str) -> Any:
        return getattr(self, name)


def _words_of(problem: type[Problem], **instead: dict[str, Any]) -> dict[str, Any]:
    """The fields of a problem as words of other settings; ``instead`` of some there are others, or none."""
    fields: dict[str, Any] = {}
    for name, field in problem.model_fields.items():
        fields |= instead.get(name, {name: _flat(field, words_of(problem)[name].choices)})
    return fields


def _flat(field: FieldInfo, choices: tuple[str, ...]) -> tuple[Any, FieldInfo]:
    """A field that a word can say: where it also takes objects of Python, its words alone."""
    if field.annotation is not Any:
        return field.annotation, field
    said = copy(field)
    said.json_schema_extra = None  # it says which objects
    return Literal[choices], said


Training: type[_Layer] = create_model(
    "Training",
    __base__=_Layer,
    __module__=__name__,
    __doc__=_Layer.__doc__,
    **_words_of(Method, dtype={}, memory={}),
    float32=(bool, word(False, "", "Matrix products in single precision.")),
    **_words_of(Variant, tied={"untied": (bool, word(False, "", "Query and key have their own weights."))}),
)


class Model(Problem):
    """Which model of the sparse task."""

    model: ModelName = word("attention", "", "Which model.")
    test_length: int | None = word(None, "", "Tokens in a test sequence; as in training if not given.", ge=1, le=20_000)


class Trials(Model):
    """Arguments of ``sparse.train`` beyond task and protocol."""

    dim: int = word(500, "d", "Dimension of a token.", ge=3, le=100_000)
    trials: int = word(8, "", "Independent runs.", ge=1, le=100_000)
    mode: Mode = word("reduced", "", "Sufficient statistics, real tokens, or query and readout trained together.")


class Posterior(Problem):
    """Arguments of ``sparse.amp`` beyond the task and the samples."""

    dim: int = word(500, "d", "Dimension of a token.", ge=3, le=100_000)
    trials: int = word(8, "", "Independent runs.", ge=1, le=100_000)
    method: Search = word("amp", "", "Message passing, or Gibbs samples of the exact posterior.")
    start: Start = word("uninformed", "", "Begin without information, or at the truth.")
    iterations: int = word(100, "", "Steps, or sweeps.", ge=1, le=1_000_000)


class Queries(Problem):
    """Arguments of ``sparse.finite_size`` beyond task and protocol."""

    dim: int = word(..., "d", "Dimension of a token.", ge=3)
    trials: int = word(40, "", "Sampled queries.", ge=2)


class Gate(Problem):
    """Arguments of ``sparse.oracle`` beyond the task."""

    activation: Activation = word("sigmoid", "", "Gate of the element-wise attention.")


class Total(Problem):
    """All samples over dimension, for ``sparse.tune``."""

    alpha: float | None = word(None, "α = n/d", "All samples over dimension, split as alpha0 to alpha1.", gt=0.0)
