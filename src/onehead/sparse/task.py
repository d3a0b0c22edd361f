"""The task and the protocol: what is learned, and how (S1)."""

from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema, model_validator

from onehead.arguments import checked, generator, instance, whole
from onehead.errors import InvalidArgument
from onehead.fields import LIMIT, Slider, word
from onehead.problem import Problem
from onehead.results import Result
from onehead.sparse.losses import LOSSES, Array, Loss, named

__all__ = [
    "MODELS",
    "PROBLEM",
    "Activation",
    "Answer",
    "Mode",
    "Model",
    "Protocol",
    "Sample",
    "Search",
    "Start",
    "Task",
    "check_model",
    "check_test_length",
    "draw",
    "place_signal",
]

Model = Literal["attention", "pooled", "vectorised"]
Search = Literal["amp", "gibbs"]  # for the signal: message passing, or samples of the exact posterior
Start = Literal["uninformed", "truth"]  # of such a search
Activation = Literal["sigmoid", "step", "relu", "power"]  # gate of element-wise attention
Mode = Literal[
    "reduced", "tokens", "joint"
]  # of training: what matters of tokens, all tokens, query and readout at once
MODELS: tuple[Model, ...] = ("attention", "pooled", "vectorised")

MAX_PATTERNS = 2000  # sets of signal positions that are listed one by one when they are not all alike


class Task(Problem):
    """A sequence of noise tokens; a positive one carries a weak signal in a few random places.

    y = +1 with probability ``positive_rate`` (pi): X = theta v xi^T + Z, where v has ``signal_tokens`` (R)
    ones among ``length`` (L) places, theta is the ``strength`` and xi a unit vector; y = -1: X = Z. Z has iid
    N(0, 1) entries.

    ``positions`` (optional, L weights w_l > 0) makes some places likelier: a set S of R places then has
    probability proportional to the product of its weights; with R = 1 the weights are the probabilities. Only
    the vectorised classifier notices.

    Examples
    --------
    >>> Task(length=10, signal_tokens=1, strength=5.0).linear_snr
    1.5811388300841895
    """

    length: int = word(10, "L", "Tokens in a sequence.", ge=1, le=10**9, slider=Slider(2, 100, 1, log=True))
    signal_tokens: int = word(
        1, "R", "Tokens of a positive sequence that carry the signal.", ge=1, slider=Slider(1, 20, 1)
    )
    strength: float = word(
        5.0, "θ", "Strength of the signal in a token that carries it.", ge=0.0, slider=Slider(0.0, 12.0, 0.05)
    )
    positive_rate: float = word(0.5, "π", "Share of positive samples.", gt=0.0, lt=1.0, slider=Slider(0.05, 0.95))
    positions: tuple[float, ...] | None = word(
        None, "w", "Weights of the places where a signal may stand.", allowed="L positive weights, or None"
    )

    @model_validator(mode="after")
    def _fields_fit(self) -> Self:
        if self.signal_tokens > self.length:
            raise InvalidArgument("signal_tokens", self.signal_tokens, f"at most length = {self.length}")
        if self.positions is not None:
            if len(self.positions) != self.length or min(self.positions) <= 0.0:
                raise InvalidArgument("positions", self.positions, f"length = {self.length} weights > 0, or None")
            if comb(self.length, self.signal_tokens) > MAX_PATTERNS:
                allowed = f"None when more than {MAX_PATTERNS} sets of signal tokens are possible"
                raise InvalidArgument("positions", "weights", allowed)
        return self

    @property
    def linear_snr(self) -> float:
        """delta = theta R / sqrt(L), what a linear classifier sees of the signal."""
        return float(self.strength * self.signal_tokens / np.sqrt(self.length))

    @property
    def mask_variance(self) -> float:
        """nu = R (1 - R / L), the squared norm of the centred signal mask."""
        return self.signal_tokens * (1.0 - self.signal_tokens / self.length)

    def patterns(self) -> tuple[Array, Array]:
        """Every set of signal places as rows of zeros and ones, and the probability of each."""
        weights = np.full(self.length, 1.0) if self.positions is None else np.array(self.positions)
        sets = list(combinations(range(self.length), self.signal_tokens))
        masks = np.zeros((len(sets), self.length))
        for row, places in zip(masks, sets, strict=True):
            row[list(places)] = 1.0
        odds = np.exp(masks @ np.log(weights / weights.max()))
        return masks, odds / odds.sum()


def _limit(value: Any) -> Any:
    """The word 0+ is the number zero, which stands for the limit."""
    return 0.0 if value == LIMIT else value


class Protocol(Problem):
    """Two gradient steps find the query on one half of the data, the readout is then trained on the other half.

    The readout minimises (1/n1) sum_i l(y_i logit_i) + (lambda/2) |w|^2; a loss may be a `Loss` of your own. ``cos_query`` and
    ``sharpness``, given together, fix the query directly and skip the two steps. The linear models are trained on all the data,
    ``alpha`` = alpha0 + alpha1.
    """

    alpha0: float = word(
        1.0,
        "α₀ = n₀/d",
        "Samples for the query over dimension.",
        label="Query samples",
        gt=0.0,
        le=1e9,
        slider=Slider(0.1, 20.0, log=True),
    )
    alpha1: float = word(
        1.0,
        "α₁ = n₁/d",
        "Samples for the readout over dimension.",
        label="Readout samples",
        gt=0.0,
        le=1e9,
        slider=Slider(0.1, 20.0, log=True),
    )
    beta: float = word(
        8.0,
        "β",
        "Inverse temperature of the attention.",
        label="Inverse temperature",
        ge=0.0,
        slider=Slider(0.0, 30.0, 0.1),
    )
    eta_w: float = word(
        0.5,
        "η_w",
        "Rate of the first step of the readout.",
        label="Readout rate",
        gt=0.0,
        slider=Slider(0.01, 10.0, log=True),
    )
    eta_b: float = word(
        0.5, "η_b", "Rate of the first step of the bias.", label="Bias rate", ge=0.0, slider=Slider(0.0, 10.0, 0.05)
    )
    eta_q: float = word(
        1.0,
        "η_q",
        "Rate of the step of the query; its sign turns the query round.",
        label="Query rate",
        slider=Slider(-3.0, 3.0, 0.05),
    )
    loss: Annotated[
        Loss, BeforeValidator(named), PlainSerializer(str), WithJsonSchema({"type": "string", "enum": list(LOSSES)})
    ] = word(
        "logistic", "ℓ", "Loss of the readout.", choices=tuple(LOSSES), allowed=f"{', '.join(LOSSES)}, or a Loss object"
    )
    ridge: Annotated[float, BeforeValidator(_limit)] = word(
        1e-3,
        "λ",
        "Penalty of the readout; 0 or 0+ is the limit from above.",
        ge=0.0,
        allowed="a number >= 0, or the word 0+ (the limit λ → 0⁺)",
        slider=Slider(1e-6, 10.0, log=True),
    )
    cos_query: float | None = word(
        None, "s", "Cosine of the query with the signal, given directly with sharpness.", ge=-1.0, le=1.0
    )
    sharpness: float | None = word(None, "β|q|", "Sharpness of the attention, given directly with cos_query.", ge=0.0)

    @model_validator(mode="after")
    def _fields_fit(self) -> Self:
        if (self.cos_query is None) != (self.sharpness is None):
            missing = "sharpness" if self.sharpness is None else "cos_query"
            raise InvalidArgument(missing, None, "given whenever the other of cos_query and sharpness is")
        return self

    @property
    def alpha(self) -> float:
        """All samples over dimension, what the linear models are trained on."""
        return self.alpha0 + self.alpha1

    def with_alpha(self, alpha: float, share: float | None = None) -> Self:
        """The same with ``alpha`` samples over dimension in all, a ``share`` of them for the query; as before without it."""
        share = self.alpha0 / self.alpha if share is None else share
        return self.changed(alpha0=share * alpha, alpha1=(1.0 - share) * alpha)

    def readout_samples(self, model: str) -> float:
        """Samples over dimension that the readout of a model is trained on: a linear one has no query to find first."""
        return self.alpha1 if model == "attention" else self.alpha


PROBLEM = {"task": instance(Task, "Task()"), "protocol": instance(Protocol, "Protocol()")}  # for `checked`


@dataclass(frozen=True, kw_only=True)
class Answer(Result):
    """Base of every result about one task and one protocol."""

    _HIDDEN: ClassVar[tuple[str, ...]] = ("protocol",)

    task: Task
    protocol: Protocol


class Sample(NamedTuple):
    """Labels (n,), tokens (n, L, d) and the signal direction (d,)."""

    label: Array
    tokens: Array
    signal: Array


@checked(
    task=instance(Task, "Task()"),
    samples=whole(1),
    dim=whole(1),
)
def draw(task: Task, rng: np.random.Generator | int, *, samples: int, dim: int) -> Sample:
    """Draw labelled sequences, token by token, from a generator or a seed; the signal direction is the first basis vector.

    Examples
    --------
    >>> draw(Task(), np.random.default_rng(0), samples=3, dim=5).tokens.shape
    (3, 10, 5)
    """
    rng = generator("rng", rng)
    signal = np.zeros(dim)
    signal[0] = 1.0
    label = np.where(rng.random(samples) < task.positive_rate, 1.0, -1.0)
    tokens = rng.standard_normal((samples, task.length, dim))
    tokens[:, :, 0] += task.strength * place_signal(task, rng, label)
    return Sample(label, tokens, signal)


def place_signal(task: Task, rng: np.random.Generator, label: Array) -> Array:
    """Masks v (n, L): R random ones on positive samples, none on negative ones."""
    if task.positions is None:
        order = np.argsort(rng.random((len(label), task.length)), axis=1)
        mask = (order < task.signal_tokens).astype(float)
    else:
        masks, odds = task.patterns()
        mask = masks[rng.choice(len(odds), size=len(label), p=odds)]
    return np.asarray(mask * (label > 0.0)[:, None])


def check_model(model: str) -> Model:
    """Refuse a model that does not exist."""
    if model not in MODELS:
        raise InvalidArgument("model", model, " or ".join(MODELS), MODELS)
    return model


def check_test_length(task: Task, model: str, length: int | None) -> None:
    """Refuse a length of test sequences that the signal does not fit into, or that a model cannot take."""
    if length is not None and (model == "vectorised" or length < task.signal_tokens):
        allowed = f"an integer >= signal_tokens = {task.signal_tokens}, and only for attention and pooled"
        raise InvalidArgument("test_length", length, allowed)
