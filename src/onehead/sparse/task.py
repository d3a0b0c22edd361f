"""Task and protocol: the data of the classification problem, and how a classifier is trained on them (S1)."""

from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema, model_validator

from onehead.errors import InvalidArgument
from onehead.fields import ZERO_PLUS, Slider, parameter
from onehead.problem import Problem
from onehead.results import Result
from onehead.sparse.losses import LOSSES, Array, Loss, named
from onehead.validation import checked, generator, instance, integer

Model = Literal["attention", "pooled", "vectorised"]
PosteriorMethod = Literal["amp", "gibbs"]  # message passing, or samples of the exact posterior
PosteriorStart = Literal["uninformed", "truth"]  # starting point of such a method
Activation = Literal["sigmoid", "step", "relu", "power"]  # gate of element-wise attention
Mode = Literal["reduced", "tokens", "joint"]  # training on exact features, on stored tokens, or of query and readout
Batch = Literal["same", "fresh", "one-pass"]  # data of the steps of joint descent
MODELS: tuple[Model, ...] = ("attention", "pooled", "vectorised")

MAX_PATTERNS = 2000  # upper limit of the sets of signal positions that are enumerated


class Task(Problem):
    """Sequences of noise tokens, of which positive ones carry a weak signal in a few random positions (S1.1).

    y = +1 with probability ``positive_rate`` (pi): X = theta v xi^T + Z, where v has ``signal_tokens`` (R)
    ones among ``length`` (L) positions, theta is the ``strength`` and xi a unit vector; y = -1: X = Z. Z has iid
    N(0, 1) entries.

    ``positions`` (optional, L weights w_l > 0) makes some positions more likely: a set S of R positions then has
    probability proportional to the product of its weights; with R = 1 the weights are the probabilities. Only
    the vectorised classifier depends on them.

    Raises
    ------
    InvalidArgument
        If a value is out of range.

    Examples
    --------
    >>> Task(length=10, signal_tokens=1, strength=5.0).linear_snr
    1.5811388300841895
    """

    length: int = parameter(10, "L", "Tokens in a sequence.", ge=1, le=10**9, slider=Slider(2, 100, 1, log=True))
    signal_tokens: int = parameter(
        1, "R", "Tokens of a positive sequence that carry the signal.", ge=1, slider=Slider(1, 20, 1)
    )
    strength: float = parameter(
        5.0, "θ", "Strength of the signal in a token that carries it.", ge=0.0, slider=Slider(0.0, 12.0, 0.05)
    )
    positive_rate: float = parameter(0.5, "π", "Share of positive samples.", gt=0.0, lt=1.0, slider=Slider(0.05, 0.95))
    positions: tuple[float, ...] | None = parameter(
        None, "w", "Weights of the positions that may carry the signal.", allowed="L positive weights, or None"
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
        """Signal-to-noise ratio delta = theta R / sqrt(L) of a linear classifier."""
        return float(self.strength * self.signal_tokens / np.sqrt(self.length))

    @property
    def mask_variance(self) -> float:
        """Squared norm nu = R (1 - R / L) of the centred signal mask."""
        return self.signal_tokens * (1.0 - self.signal_tokens / self.length)

    def patterns(self) -> tuple[Array, Array]:
        """Return all sets of signal positions as rows of zeros and ones, and the probability of each."""
        weights = np.full(self.length, 1.0) if self.positions is None else np.array(self.positions)
        sets = list(combinations(range(self.length), self.signal_tokens))
        masks = np.zeros((len(sets), self.length))
        for row, positions in zip(masks, sets, strict=True):
            row[list(positions)] = 1.0
        odds = np.exp(masks @ np.log(weights / weights.max()))
        return masks, odds / odds.sum()


def _limit(value: Any) -> Any:
    """Convert the text 0+ to zero, which stands for the limit from above."""
    return 0.0 if value == ZERO_PLUS else value


class Protocol(Problem):
    """Training protocol: two gradient steps find the query, then the readout is trained on a second sample (S1.4).

    The readout minimises (1/n1) sum_i l(y_i logit_i) + (lambda/2) |w|^2. ``cos_query`` and ``sharpness``, given
    together, fix the query and skip the two steps. The linear models are trained on all data, alpha0 + alpha1.

    Raises
    ------
    InvalidArgument
        If a value is out of range, or only one of ``cos_query`` and ``sharpness`` is given.

    Examples
    --------
    >>> Protocol(alpha0=0.5, alpha1=1.5).alpha
    2.0
    """

    alpha0: float = parameter(
        1.0,
        "α₀ = n₀/d",
        "Samples for the query over dimension.",
        label="Query samples",
        gt=0.0,
        le=1e9,
        slider=Slider(0.1, 20.0, log=True),
    )
    alpha1: float = parameter(
        1.0,
        "α₁ = n₁/d",
        "Samples for the readout over dimension.",
        label="Readout samples",
        gt=0.0,
        le=1e9,
        slider=Slider(0.1, 20.0, log=True),
    )
    beta: float = parameter(
        8.0,
        "β",
        "Inverse temperature of the attention.",
        label="Inverse temperature",
        ge=0.0,
        slider=Slider(0.0, 30.0, 0.1),
    )
    eta_w: float = parameter(
        0.5,
        "η_w",
        "Rate of the first step of the readout.",
        label="Readout rate",
        gt=0.0,
        slider=Slider(0.01, 10.0, log=True),
    )
    eta_b: float = parameter(
        0.5, "η_b", "Rate of the first step of the bias.", label="Bias rate", ge=0.0, slider=Slider(0.0, 10.0, 0.05)
    )
    eta_q: float = parameter(
        1.0,
        "η_q",
        "Rate of the step of the query; a negative rate reverses the query.",
        label="Query rate",
        slider=Slider(-3.0, 3.0, 0.05),
    )
    loss: Annotated[
        Loss, BeforeValidator(named), PlainSerializer(str), WithJsonSchema({"type": "string", "enum": list(LOSSES)})
    ] = parameter(
        "logistic",
        "ℓ",
        "Loss of the readout.",
        choices=tuple(LOSSES),
        allowed=f"{', '.join(LOSSES)}, or a Loss object",
    )
    ridge: Annotated[float, BeforeValidator(_limit)] = parameter(
        1e-3,
        "λ",
        "Ridge penalty of the readout; 0 or 0+ is the limit from above.",
        ge=0.0,
        allowed="a number >= 0, or 0+ (the limit λ → 0⁺)",
        slider=Slider(1e-6, 10.0, log=True),
    )
    ridge_query: float = parameter(
        0.0,
        "λ_q",
        "Ridge penalty of the query, when query and readout are trained together.",
        label="Query ridge",
        ge=0.0,
        slider=Slider(0.0, 1.0, 0.01),
        since="3.0",
        verbs=("descend", "joint", "train", "compare"),
    )
    reuse: bool = parameter(
        False,
        "",
        "Both stages use all samples, alpha0 + alpha1, instead of a part each.",
        since="3.0",
        verbs=("predict", "curve", "train", "compare"),
    )
    cos_query: float | None = parameter(
        None, "s", "Cosine of the query with the signal; give it together with sharpness.", ge=-1.0, le=1.0
    )
    sharpness: float | None = parameter(
        None, "β|q|", "Sharpness of the attention; give it together with cos_query.", ge=0.0
    )

    @model_validator(mode="after")
    def _fields_fit(self) -> Self:
        if (self.cos_query is None) != (self.sharpness is None):
            missing = "sharpness" if self.sharpness is None else "cos_query"
            raise InvalidArgument(missing, None, "given together with the other of cos_query and sharpness")
        return self

    @property
    def alpha(self) -> float:
        """All samples over dimension, alpha0 + alpha1, on which the linear models are trained."""
        return self.alpha0 + self.alpha1

    def with_alpha(self, alpha: float, share: float | None = None) -> Self:
        """Return a copy with ``alpha`` samples over dimension, a ``share`` of them (default: as now) for the query."""
        share = self.alpha0 / self.alpha if share is None else share
        return self.changed(alpha0=share * alpha, alpha1=(1.0 - share) * alpha)

    def readout_samples(self, model: str) -> float:
        """Return the samples over dimension for the readout: alpha1 for attention without reuse, else alpha."""
        return self.alpha1 if model == "attention" and not self.reuse else self.alpha


PROBLEM = {"task": instance(Task, "Task()"), "protocol": instance(Protocol, "Protocol()")}  # arguments of `checked`


@dataclass(frozen=True, kw_only=True)
class Answer(Result):
    """Base class of the results for one task and one protocol."""

    _HIDDEN: ClassVar[tuple[str, ...]] = ("protocol",)

    task: Task
    protocol: Protocol


class Sample(NamedTuple):
    """Labels (n,), tokens (n, L, d) and the signal direction (d,) of a sample."""

    label: Array
    tokens: Array
    signal: Array

    def __repr__(self) -> str:
        count, length, dim = self.tokens.shape
        return f"Sample({count} sequences, L = {length}, d = {dim})"


@checked(
    task=instance(Task, "Task()"),
    samples=integer(1),
    dim=integer(1),
)
def draw(task: Task, rng: np.random.Generator | int, *, samples: int, dim: int) -> Sample:
    """Sample labelled sequences token by token; the signal direction is the first basis vector (S1.1).

    Parameters
    ----------
    task : Task
        Data of the classification problem.
    rng : numpy.random.Generator or int
        Random generator, or a seed.
    samples : int
        Number of sequences.
    dim : int
        Dimension d of a token.

    Returns
    -------
    Sample
        Labels (n,), tokens (n, L, d) and the signal direction (d,).

    Raises
    ------
    InvalidArgument
        If an argument is out of range.

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
    """Return signal masks v (n, L): R random ones on positive samples, zeros on negative ones."""
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
    """Refuse a test length below the number of signal tokens, or any for the vectorised model."""
    if length is not None and (model == "vectorised" or length < task.signal_tokens):
        allowed = f"an integer >= signal_tokens = {task.signal_tokens}, and only for attention and pooled"
        raise InvalidArgument("test_length", length, allowed)
