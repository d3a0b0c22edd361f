"""Task and Learner: what is learned, and who learns it. The same two objects drive theory and training."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, SerializeAsAny, model_validator

from onehead.aim.targets import MarchenkoPastur, Product, Target, target_of
from onehead.errors import InvalidArgument
from onehead.fields import LIMIT, Slider, word
from onehead.problem import Problem

__all__ = ["Learner", "Ratio", "Task", "check_alpha"]

BY_DIMENSION = r"^(1/d|sqrt\(d\)|d|d\^.+)$"  # weight decays that need a dimension


MOST_TOKENS = 100_000
MOST_SHARED = 64  # without a mask, where rows share logits, or know of each other's: a proximal step costs T³ (L7)
MOST_SECTORS = 2048  # of self-attention with a causal mask, which sees its own logit: rows of two sectors (U5, L6)
GAUSSIAN = 3.0  # kurtosis of Gaussian entries
MOST_DRAWN = 16  # of the same with hard labels, each of which has a prox of its own


class Task(Problem):
    """A synthetic sequence task whose labels come from a target attention map (1.1, U1).

    One sample is T tokens, each N(0, I_d); its label is softmax_rows(β₀ (h(S*) + noise)) over the columns that a row sees, with
    logits h_ab(S) = (x_a' S x_b - δ_ab Tr S) / sqrt d and symmetric Gaussian noise of variance Δ (Δ/2 off the diagonal).

    Untied, ``attention="self"``, the map has no symmetry and every logit a noise of its own, of variance Δ/2; with
    ``attention="cross"`` keys are other tokens than queries, h_ab = x_a' S y_b / sqrt d. The target of an untied head is a `Product`,
    if none is given; other targets say its singular values.

    Examples
    --------
    >>> Task(noise=0.1, tokens=3).tokens
    3
    >>> Task(noise=-1)
    Traceback (most recent call last):
        ...
    onehead.errors.InvalidArgument: noise must be a number >= 0 and <= 1000; got -1.
    """

    NATURAL = ("target",)

    target: Annotated[SerializeAsAny[Target], BeforeValidator(target_of)] = word(
        MarchenkoPastur(), "S*", "Spectrum of the target.", allowed="a target, such as MarchenkoPastur(kappa0=0.5)"
    )
    noise: float = word(
        0.5, "Δ", "Variance of the noise on the labels before the softmax.", ge=0.0, le=1e3, slider=Slider(0.0, 3.0)
    )
    tokens: int = word(2, "T", "Tokens in a sequence.", ge=2, le=MOST_TOKENS, slider=Slider(2, 8, 1))
    attention: Literal["tied", "self", "cross"] = word(
        "tied",
        "",
        "Head: query and key tied, untied on the same tokens (self), or untied with key tokens of their own (cross).",
        since="2.0",
    )
    mask: Literal["none", "causal", "strict"] = word(
        "none",
        "",
        "Columns a row sees: all, itself and those before (causal), or those before alone (strict).",
        since="2.0",
    )
    labels: Literal["soft", "hard"] = word(
        "soft", "y", "Labels: the target's attention (soft), or one token drawn from it (hard).", since="2.0"
    )
    beta0: float = word(
        1.0,
        "β₀",
        "Inverse temperature of the target's softmax.",
        label="Target's inverse temperature",
        ge=1e-6,
        le=100.0,
        slider=Slider(0.1, 10.0, log=True),
    )
    kurtosis: float = word(
        GAUSSIAN,
        "κ₄",
        "Kurtosis of the entries of a token; 3 is that of Gaussian ones, 1 that of signs and of tokens on a sphere.",
        since="2.0",
        ge=1.0,
        le=1e3,
        slider=Slider(1.0, 9.0, 0.1),
    )

    @model_validator(mode="before")
    @classmethod
    def _target_of_the_head(cls, data: Any) -> Any:
        """An untied head learns a product, unless told otherwise."""
        if isinstance(data, dict) and data.get("target") is None and data.get("attention", "tied") != "tied":
            return {**data, "target": Product()}
        return data

    @model_validator(mode="after")
    def _fits(self) -> "Task":
        if self.tied and not self.target.symmetric:
            raise InvalidArgument(
                "target", self.target, "symmetric for a tied head; a product needs attention self or cross"
            )
        if self.tokens > (most := self._most_tokens):
            kind = "a tied head without a mask" if self.tied else "self-attention that sees its own logit"
            freed = "any mask" if self.tied else "mask strict"
            raise InvalidArgument(
                "tokens", self.tokens, f"at most {most} for {kind}; attention cross, or {freed}, takes {MOST_TOKENS}"
            )
        if self.mask == "strict" and self.tokens < 3:
            raise InvalidArgument(
                "tokens", self.tokens, "an integer >= 3 with a strict mask: a choice needs two columns"
            )
        if self.sees_kurtosis and not self.knows_kurtosis:
            raise InvalidArgument(
                "kurtosis",
                self.kurtosis,
                "3 for a head that sees its own logit, unless it is tied, with two tokens, soft labels and no mask",
            )
        return self

    @property
    def _most_tokens(self) -> int:
        """Tokens up to which such heads are solved."""
        if self.rows_apart:
            return MOST_TOKENS
        if self.mask == "none":
            return MOST_SHARED
        return MOST_DRAWN if self.labels == "hard" else MOST_SECTORS

    @property
    def tied(self) -> bool:
        """Whether query and key share their weights, so that the map is symmetric."""
        return self.attention == "tied"

    @property
    def rows_apart(self) -> bool:
        """Whether no two rows share a logit, and all logits see the map alike: rows of any length are then solved (U2.1, L6)."""
        return self.alike and (self.attention == "cross" or self.mask != "none")

    @property
    def alike(self) -> bool:
        """Whether all logits see the map alike; that of a token with itself sees only the symmetric part of an untied one (U5)."""
        return self.attention != "self" or self.mask == "strict"

    @property
    def own_logit(self) -> bool:
        """Whether a token sees its logit with itself, which knows the kurtosis of its entries (P11)."""
        return self.attention != "cross" and self.mask != "strict"

    @property
    def sees_kurtosis(self) -> bool:
        """Whether tokens have another kurtosis than Gaussian ones, and the head sees it."""
        return self.own_logit and self.kurtosis != GAUSSIAN

    @property
    def knows_kurtosis(self) -> bool:
        """Whether the theory of another kurtosis covers the head (P11)."""
        two = self.tied and self.tokens == 2 and self.mask == "none"
        return not self.own_logit or (two and self.labels == "soft")

    @property
    def best_known(self) -> bool:
        """Whether the best possible learner is known: with soft labels, where all logits see the map alike (A.1, A.10)."""
        return self.labels == "soft" and self.alike and not self.sees_kurtosis

    @property
    def value(self) -> str:
        """What the spectrum of a map consists of: eigenvalues, or singular values of one without symmetry."""
        return "eigenvalue" if self.tied else "singular value"

    @property
    def columns(self) -> tuple[int, ...]:
        """How many columns each row sees: the first so many.

        Examples
        --------
        >>> Task(tokens=3).columns, Task(tokens=3, mask="causal").columns, Task(tokens=3, mask="strict").columns
        ((3, 3, 3), (1, 2, 3), (0, 1, 2))
        """
        if self.mask == "none":
            return (self.tokens,) * self.tokens
        own = int(self.mask == "causal")
        return tuple(row + own for row in range(self.tokens))


def _loss(value: Any) -> Any:
    """Keep a known word; check anything else, which needs the compiled losses."""
    if isinstance(value, str) and value in ("squared", "cross-entropy"):
        return value
    from onehead.aim.losses import loss_named  # noqa: PLC0415  (loads numba)

    return loss_named(value)


def _limit(value: Any) -> Any:
    """No weight decay at all is the limit of little."""
    return LIMIT if value == 0.0 and isinstance(value, (int, float)) and not isinstance(value, bool) else value


class Learner(Problem):
    """A single head, S = W'W / sqrt(m d) with W an m x d matrix, trained with weight decay (1.2).

    The objective is the sum over samples of the loss plus λ d Tr S, that is (λ / sqrt κ) |W|^2; trained directly
    (``param="direct"``) S is any symmetric matrix and the penalty is λ d |S|^2. On an untied task S = W_Q'W_K / sqrt(m d), and the
    penalty is that of both factors, λ d times the sum of the singular values of S (U1). A loss may be a `Loss` of your own. Where
    the proximal operator has several minima (2.7), ``branch`` "label" follows the one reached from the label, as an optimiser
    would, "global" the lowest. Where a few eigenvalues of the target carry much of it, ``leading`` directions are told apart (P8). Where
    a dimension d is known, the weight decay may be written 1/d, sqrt(d) or d^x.

    Examples
    --------
    >>> Learner(weight_decay="0+").decay
    0.0
    """

    weight_decay: Annotated[
        Annotated[float, Field(gt=0.0, le=1e6)] | Literal["0+"] | Annotated[str, Field(pattern=BY_DIMENSION)],
        BeforeValidator(_limit),
    ] = word(
        0.01,
        "λ",
        "Weight decay on the factors of S, penalty λ d Tr S, untied λ d |S|_*; 0+ is the limit λ → 0⁺.",
        allowed="a number > 0 and <= 1e+06, or the word 0+ (the limit λ → 0⁺)",
        slider=Slider(1e-4, 3.0, log=True),
    )
    width: float = word(
        1.0,
        "κ",
        "Width of the learner over d; 1 and more leave the rank free.",
        label="Learner width",
        gt=0.0,
        le=1e3,
        slider=Slider(0.05, 2.0, log=True),
    )
    param: Literal["factorised", "direct"] = word(
        "factorised", "W or S", "Train W or S: the factor, or the map itself.", label="Parameters"
    )
    beta: float = word(
        1.0,
        "β",
        "Inverse temperature of the learner's softmax.",
        label="Inverse temperature",
        ge=1e-6,
        le=100.0,
        slider=Slider(0.1, 10.0, log=True),
    )
    loss: Annotated[Any, BeforeValidator(_loss), PlainSerializer(str)] = word(
        "squared",
        "ℓ",
        "Loss that is minimised on the training set.",
        choices=("squared", "cross-entropy"),
        allowed="squared or cross-entropy, or a Loss object",
    )
    branch: Literal["label", "global"] = word(
        "label",
        "prox",
        "Minimum of the output layer's prox to follow where it has several.",
        label="Which minimum",
    )

    leading: Annotated[int, Field(ge=0, le=64)] | Literal["auto"] = word(
        "auto",
        "K",
        "Leading directions of the target that are averaged exactly; 0 takes all logits as Gaussian.",
        label="Leading directions",
        since="2.0",
    )

    @property
    def by_dimension(self) -> bool:
        """Whether the weight decay is said by d, as 1/d is: verbs that know d turn it into a number."""
        return isinstance(self.weight_decay, str) and self.weight_decay != LIMIT

    @property
    def decay(self) -> float:
        """λ as a number, zero standing for the limit."""
        if isinstance(self.weight_decay, float):
            return self.weight_decay
        if self.by_dimension:
            raise InvalidArgument("weight_decay", self.weight_decay, "a number, or 0+: no dimension d is known here")
        return 0.0

    @property
    def gaussian(self) -> "Learner":
        """The same with all logits taken as Gaussian, as the theory of the paper does."""
        return self if self.leading == 0 else self.changed(leading=0)

    @property
    def splitting(self) -> "Learner":
        """The same for what splits an error into parts: Gaussian logits, unless leading directions are asked for (P8)."""
        return self.gaussian if self.leading == "auto" else self


class Ratio(Problem):
    """How much data there is."""

    alpha: float = word(..., "α = n/d²", "Samples over squared dimension.", label="Sample ratio", gt=0.0, le=1e6)


def check_alpha(alpha: float) -> float:
    """Return the sample ratio α = n/d² if it is allowed."""
    return Ratio(alpha=alpha).alpha
