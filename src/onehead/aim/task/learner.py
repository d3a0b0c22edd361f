"""Learner: a head, and how it is trained."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from onehead.aim.task.coverage import HEADS_VERBS
from onehead.errors import InvalidArgument
from onehead.fields import ZERO_PLUS, Slider, parameter
from onehead.problem import Problem

DECAY_BY_DIMENSION = r"^(1/d|sqrt\(d\)|d|d\^.+)$"  # weight decays that become a number once d is known


def _check_loss(value: Any) -> Any:
    """Return the name of a built-in loss unchanged; look up any other value, which loads the compiled losses."""
    if isinstance(value, str) and value in ("squared", "cross-entropy"):
        return value
    from onehead.aim.losses import loss_by_name  # loads numba

    return loss_by_name(value)


def _zero_to_limit(value: Any) -> Any:
    """Read a weight decay of zero as the limit 0+."""
    return ZERO_PLUS if value == 0.0 and isinstance(value, (int, float)) and not isinstance(value, bool) else value


class Learner(Problem):
    """A single head, S = W'W / sqrt(m d) with W an m x d matrix, trained with weight decay (1.2).

    The objective is the sum over samples of the loss plus λ d Tr S, that is (λ / sqrt κ) |W|^2. Trained directly
    (``param="direct"``), S is any symmetric matrix and the penalty is λ d |S|^2. On an untied task
    S = W_Q'W_K / sqrt(m d), and the penalty of both factors is λ d times the sum of the singular values of S (U1).

    ``loss`` may be a `Loss` of your own. Where the proximal operator has several minima (2.7), ``branch="label"``
    follows the one reached from the label, as an optimiser would, and ``branch="global"`` the lowest. Where a few
    eigenvalues of the target carry much of its power, ``leading`` directions are averaged exactly (P8). For targets
    with a dimension d the weight decay may be written 1/d, sqrt(d) or d^x. Invalid values raise
    `onehead.errors.InvalidArgument`.

    Examples
    --------
    >>> Learner(weight_decay="0+").decay
    0.0
    """

    weight_decay: Annotated[
        Annotated[float, Field(gt=0.0, le=1e6)] | Literal["0+"] | Annotated[str, Field(pattern=DECAY_BY_DIMENSION)],
        BeforeValidator(_zero_to_limit),
    ] = parameter(
        0.01,
        "λ",
        "Weight decay. Adds λ d Tr S to the loss (untied heads: λ d ‖S‖∗). Write 0+ for the limit of no weight decay.",
        allowed="a number > 0 and <= 1e+06, or 0+ (the limit λ → 0⁺)",
        slider=Slider(1e-4, 3.0, log=True),
    )
    width: float = parameter(
        1.0,
        "κ",
        "Width of the learner divided by d; from 1 on the rank is not limited.",
        label="Learner width",
        gt=0.0,
        le=1e3,
        slider=Slider(0.05, 2.0, log=True),
    )
    param: Literal["factorised", "direct"] = parameter(
        "factorised",
        "W or S",
        "What is trained: the factor W (factorised), or the map S itself (direct).",
        label="Parameters",
    )
    beta: float = parameter(
        1.0,
        "β",
        "Inverse temperature of the learner's softmax.",
        label="Inverse temperature",
        ge=1e-6,
        le=100.0,
        slider=Slider(0.1, 10.0, log=True),
    )
    loss: Annotated[Any, BeforeValidator(_check_loss), PlainSerializer(str)] = parameter(
        "squared",
        "ℓ",
        "Loss that is minimised on the training set.",
        choices=("squared", "cross-entropy"),
        allowed="squared or cross-entropy, or a Loss object",
    )
    branch: Literal["label", "global"] = parameter(
        "label",
        "prox",
        "Which minimum of the output layer's prox to take where it has several: the one reached from the label, or "
        "the global one.",
        label="Which minimum",
    )

    leading: Annotated[int, Field(ge=0, le=64)] | Literal["auto"] = parameter(
        "auto",
        "K",
        "Number of leading directions of the target that are averaged exactly; 0 treats all logits as Gaussian.",
        label="Leading directions",
        since="2.0",
    )

    sampled: int = parameter(
        0,
        "",
        "Number of sampled maps, at least 2, that solve factorised training with a token spectrum up to 1/d; 0 solves "
        "it by expectation consistency.",
        label="Sampled maps",
        since="3.0",
        verbs=("predict", "curve", "spectrum"),
        ge=0,
        le=64,
    )

    values: Literal["fixed", "learnt"] = parameter(
        "fixed",
        "V",
        "Values of the heads: those of the target (fixed), or learnt together with the maps (learnt).",
        label="Values",
        since="3.0",
        verbs=HEADS_VERBS,
    )
    value_decay: float | None = parameter(
        None,
        "λ_v",
        "Weight decay on learnt values; by default the weight decay of the maps.",
        label="Weight decay on values",
        since="3.0",
        verbs=HEADS_VERBS,
        gt=0.0,
        le=1e6,
    )

    @model_validator(mode="after")
    def _check_value_decay(self) -> "Learner":
        if self.value_decay is not None and self.values == "fixed":
            raise InvalidArgument("value_decay", self.value_decay, "left out unless values are learnt")
        return self

    @model_validator(mode="after")
    def _check_sampled(self) -> "Learner":
        if self.sampled == 1:
            raise InvalidArgument("sampled", 1, "0, or at least 2: the spread of the maps is their error")
        return self

    @property
    def decay_needs_dimension(self) -> bool:
        """Whether the weight decay is written in terms of d, such as 1/d, and needs a dimension to become a number."""
        return isinstance(self.weight_decay, str) and self.weight_decay != ZERO_PLUS

    @property
    def decay(self) -> float:
        """The weight decay λ as a number; 0.0 stands for the limit 0+."""
        if isinstance(self.weight_decay, float):
            return self.weight_decay
        if self.decay_needs_dimension:
            raise InvalidArgument("weight_decay", self.weight_decay, "a number, or 0+: no dimension d is known here")
        return 0.0

    @property
    def gaussian(self) -> "Learner":
        """Copy with ``leading=0``: all logits are treated as Gaussian, as in the paper."""
        return self if self.leading == 0 else self.changed(leading=0)

    @property
    def for_decomposition(self) -> "Learner":
        """Learner used by `decompose` and `scaling`: ``leading="auto"`` is replaced by 0 (P8)."""
        return self.gaussian if self.leading == "auto" else self
