"""Task and Learner: what is learned, and the head that learns it; theory and training both start from them."""

from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, PlainSerializer, SerializeAsAny, model_validator

from onehead.aim.mask import Mask, check_mask, matrix_of, mutual_pair, row_kinds
from onehead.aim.targets import MarchenkoPastur, Product, Target, target_from_document
from onehead.aim.token_spectrum import ISOTROPIC, check_spectrum, effective_share, spectrum_dimension
from onehead.errors import InvalidArgument, WrongCall
from onehead.fields import ZERO_PLUS, Slider, parameter
from onehead.problem import Problem
from onehead.sanitize import Unquoted

__all__ = ["GAUSSIAN_KURTOSIS", "Learner", "Ratio", "Task", "check_alpha"]

GAUSSIAN_KURTOSIS = 3.0  # kurtosis of a Gaussian entry of a token
DECAY_BY_DIMENSION = r"^(1/d|sqrt\(d\)|d|d\^.+)$"  # weight decays that become a number once d is known

# Largest number of tokens that is solved, by kind of head.
MAX_TOKENS = 100_000  # heads whose rows have independent logits
MAX_TOKENS_SHARED_LOGITS = 64  # without a mask, where rows share logits: a proximal step costs T³ (L7)
MAX_TOKENS_TWO_SECTORS = 2048  # causal self-attention: a row mixes the two sectors of the map (U5, L6)
MAX_TOKENS_TWO_SECTORS_HARD = 16  # causal self-attention with hard labels: one prox per possible label

# functions that have a theory, or a simulation, of tokens with a mean
UNASKED_VERBS = (
    "predict", "curve", "map", "tune", "thresholds", "unasked_curve", "plateau", "spectrum", "bayes", "bayes_curve",
    "data_for", "scaling", "features", "phase_diagram", "decompose", "train", "amp", "sample", "compare",
)  # fmt: skip
# functions that have a theory, or a simulation, of a direction of the queries along which they fluctuate strongly
FLUCTUATION_VERBS = ("predict", "curve", "map", "tune", "spectrum", "train", "sample", "compare")
# functions that have a theory, or a simulation, of tokens with a covariance
SPECTRUM_VERBS = ("predict", "curve", "map", "tune", "plateau", "spectrum", "train", "compare")
# functions that have a theory, or a simulation, of several heads that add to one output
HEADS_VERBS = ("predict", "curve", "map", "tune", "spectrum", "survivors", "train_survivors", "train", "compare")
MAX_HEADS, MAX_SHARING = 16, 0.95  # beyond this overlap of the values random starts may not reach the state described
MAX_LOGITS = 32  # of one row in all heads, H (T - 1): the Hessian of a sample has this dimension
AS_QUERIES = "queries"  # spectrum of the keys that is that of the queries


class Task(Problem):
    """A synthetic sequence task whose labels come from a target attention map (1.1, U1).

    One sample is T tokens, each N(0, I_d). Its label is softmax_rows(β₀ (h(S*) + noise)) over the columns that the mask
    allows, with logits h_ab(S) = (x_a' S x_b - δ_ab Tr S) / sqrt d and symmetric Gaussian noise of variance Δ (Δ/2 off
    the diagonal).

    With ``attention="self"`` the map is not symmetric (untied) and each logit has independent noise of variance Δ/2.
    With ``attention="cross"`` keys are other tokens than queries, h_ab = x_a' S y_b / sqrt d. The default target of an
    untied head is a `Product`; the eigenvalues of other targets are then read as singular values.

    ``mask`` may be a square matrix of zeros and ones, which is kept as a `Mask`: row a attends to the columns at which
    it is one, and ``tokens`` is their number. Cross-attention takes any matrix, other heads those in which no two
    tokens attend to each other.

    Invalid values raise `onehead.errors.InvalidArgument`.

    Examples
    --------
    >>> Task(noise=0.1, tokens=3).tokens
    3
    >>> Task(noise=-1)
    Traceback (most recent call last):
        ...
    onehead.errors.InvalidArgument: noise must be a number >= 0 and <= 1000; got -1.
    """

    POSITIONAL = ("target",)

    target: Annotated[SerializeAsAny[Target], BeforeValidator(target_from_document)] = parameter(
        MarchenkoPastur(), "S*", "Spectrum of the target.", allowed="a target, such as MarchenkoPastur(kappa0=0.5)"
    )
    noise: float = parameter(
        0.5, "Δ", "Variance of the noise on the labels before the softmax.", ge=0.0, le=1e3, slider=Slider(0.0, 3.0)
    )
    tokens: int = parameter(2, "T", "Number of tokens in a sequence.", ge=2, le=MAX_TOKENS, slider=Slider(2, 8, 1))
    attention: Literal["tied", "self", "cross"] = parameter(
        "tied",
        "",
        "Kind of head: query and key weights tied; untied, on the same tokens (self); untied, with separate key "
        "tokens (cross).",
        since="2.0",
    )
    mask: Literal["none", "causal", "strict"] | Mask = parameter(
        "none",
        "",
        "Which tokens a token may attend to: all (none); itself and earlier ones (causal); only earlier ones (strict).",
        allowed="none, causal or strict, or a square matrix of zeros and ones",
        since="2.0",
    )
    labels: Literal["soft", "hard"] = parameter(
        "soft", "y", "Labels: the target's attention (soft), or one token sampled from it (hard).", since="2.0"
    )
    beta0: float = parameter(
        1.0,
        "β₀",
        "Inverse temperature of the target's softmax.",
        label="Target's inverse temperature",
        ge=1e-6,
        le=100.0,
        slider=Slider(0.1, 10.0, log=True),
    )
    kurtosis: float = parameter(
        GAUSSIAN_KURTOSIS,
        "κ₄",
        "Kurtosis of the entries of a token: 3 for Gaussian entries, 1 for signs and for tokens on a sphere.",
        since="2.0",
        ge=1.0,
        le=1e3,
        slider=Slider(1.0, 9.0, 0.1),
    )

    unasked: float = parameter(
        0.0,
        "f",
        "Share of the target's logit variance within a row that is the same for every query: tokens with a mean.",
        label="Unasked share",
        since="3.0",
        verbs=UNASKED_VERBS,
        ge=0.0,
        lt=1.0,
        slider=Slider(0.0, 0.9, 0.01),
    )
    token_mean: float = parameter(
        1.0,
        "M",
        "Squared length of the mean of the queries divided by d; it matters where there is an unasked share and the "
        "dimension is finite.",
        label="Mean of the tokens",
        since="3.0",
        verbs=UNASKED_VERBS,
        gt=0.0,
        le=1e6,
    )
    fluctuation: float = parameter(
        0.0,
        "w",
        "Share of the second moment of the queries along their mean that fluctuates between them: 0 for a mean, 1 for "
        "a strong direction of their covariance; cross-attention only.",
        label="Fluctuation along the mean",
        since="3.0",
        verbs=FLUCTUATION_VERBS,
        ge=0.0,
        le=1.0,
    )
    token_spectrum: str = parameter(
        ISOTROPIC,
        "c",
        "Eigenvalues of the covariance of the tokens, scaled to mean one: isotropic, subspace:R, levels:SHARE,RATIO, "
        "power:P (with a dimension), or a list.",
        label="Covariance of the tokens",
        allowed="isotropic, subspace:R, levels:SHARE,RATIO, power:P (with a dimension) or a list of eigenvalues",
        since="3.0",
        verbs=SPECTRUM_VERBS,
    )
    key_spectrum: str = parameter(
        AS_QUERIES,
        "c'",
        "The same for the keys of cross-attention alone; by default as the queries.",
        label="Covariance of the keys",
        allowed="queries, or a spectrum such as token_spectrum takes",
        since="3.0",
        verbs=SPECTRUM_VERBS,
    )
    heads: int = parameter(
        1,
        "H",
        "Number of heads that add to one output; cross-attention with soft labels has several.",
        label="Heads",
        since="3.0",
        verbs=HEADS_VERBS,
        ge=1,
        le=MAX_HEADS,
        slider=Slider(1, 8, 1),
    )
    sharing: float = parameter(
        0.0,
        "ρ",
        "Overlap of the values of any two heads, tr(V_h'V_k)/d; 0 for heads that do not share values.",
        label="Shared values",
        since="3.0",
        verbs=HEADS_VERBS,
        ge=-MAX_SHARING,
        le=MAX_SHARING,
        slider=Slider(0.0, 0.9, 0.05),
    )

    @model_validator(mode="before")
    @classmethod
    def _set_default_target(cls, data: Any) -> Any:
        """Give an untied head a `Product` as its default target; refuse parameters of a target given to the task."""
        if not isinstance(data, dict):
            return data
        untied = data.get("attention", "tied") != "tied"
        for name in data:
            if name not in (*cls.model_fields, "kind") and (owner := _target_with(name, untied)):
                raise WrongCall(
                    f"{name} is a parameter of the target: write Task(target={owner}({name}={data[name]!r}))."
                )
        data = {**data, "target": Product()} if untied and data.get("target") is None else dict(data)
        if data.get("mask") is not None:
            _set_mask(data)
        target = target_from_document(data.get("target"))
        dim = target.dimension if isinstance(target, Target) else None
        for name in ("token_spectrum", "key_spectrum"):
            if data.get(name) is not None and not (name == "key_spectrum" and data[name] == AS_QUERIES):
                data[name] = check_spectrum(name, data[name], dim)
        return data

    @model_validator(mode="after")
    def _check_combination(self) -> "Task":
        if self.tied and not self.target.symmetric:
            raise InvalidArgument(
                "target", self.target, "symmetric for a tied head; a product needs attention self or cross"
            )
        if self.longest_row > (largest := self._max_tokens):
            kind = "a tied head without a mask" if self.tied else "self-attention that sees its own logit"
            unlimited = "any mask" if self.tied else "mask strict"
            raise InvalidArgument(
                "tokens",
                self.tokens,
                f"at most {largest} for {kind}; attention cross, or {unlimited}, takes {MAX_TOKENS}",
            )
        if self.longest_row < 2:
            if isinstance(self.mask, Mask):
                raise InvalidArgument("mask", self.mask, "a matrix with two ones in a row: a choice needs two columns")
            raise InvalidArgument(
                "tokens", self.tokens, "an integer >= 3 with a strict mask: a choice needs two columns"
            )
        if isinstance(self.mask, Mask) and self.attention != "cross" and (pair := mutual_pair(self.mask)):
            raise InvalidArgument(
                "mask",
                Unquoted("tokens {} and {}, which do".format(*pair)),
                "a matrix in which no two tokens attend to each other, because their logits are not independent "
                "(attention cross takes any matrix)",
            )
        if self.attention == "self" and self.key_spectrum != AS_QUERIES:
            raise InvalidArgument("key_spectrum", self.key_spectrum, "queries for self-attention, whose keys they are")
        if self.fluctuation and self.attention != "cross":
            raise InvalidArgument(
                "fluctuation", self.fluctuation, "0 unless attention is cross, whose keys do not fluctuate with it"
            )
        if self.depends_on_kurtosis and not self.kurtosis_supported:
            raise InvalidArgument(
                "kurtosis",
                self.kurtosis,
                "3 for a head that sees its own logit, unless it is tied, with two tokens, soft labels and no mask",
            )
        return self

    @model_validator(mode="after")
    def _check_heads(self) -> "Task":
        if self.heads == 1:
            if self.sharing:
                raise InvalidArgument(
                    "sharing", self.sharing, "0 for one head, which has no other to share values with"
                )
            return self
        plain = self.attention == "cross" and self.mask == "none" and self.labels == "soft"
        if not plain or not self.standard_tokens:
            raise InvalidArgument(
                "heads",
                self.heads,
                "1 unless attention is cross, labels are soft, and there is no mask, no unasked share and no token "
                "spectrum; the theory of several heads covers these (--averaged-heads, heads of Variant, trains a head "
                "whose attention is the average of several)",
            )
        if self.sharing < -MAX_SHARING / (self.heads - 1):
            lowest = -MAX_SHARING / (self.heads - 1)
            raise InvalidArgument(
                "sharing", self.sharing, f"at least {lowest:.4g} for the values of {self.heads} heads"
            )
        if self.sharing and self.heads * (self.tokens - 1) > MAX_LOGITS:
            raise InvalidArgument(
                "tokens",
                self.tokens,
                f"at most {1 + MAX_LOGITS // self.heads} for {self.heads} heads that share values",
            )
        return self

    @property
    def _max_tokens(self) -> int:
        """Largest number of tokens, or of columns of a row, that is solved for this kind of head."""
        if self.rows_independent:
            return MAX_TOKENS
        if self.mask == "none":
            return MAX_TOKENS_SHARED_LOGITS
        return MAX_TOKENS_TWO_SECTORS_HARD if self.labels == "hard" else MAX_TOKENS_TWO_SECTORS

    @property
    def tied(self) -> bool:
        """Whether query and key share their weights, so that the map is symmetric."""
        return self.attention == "tied"

    @property
    def rows_independent(self) -> bool:
        """Whether rows share no logit and the map has one sector: rows of any length are then solved (U2.1, L6)."""
        return self.single_sector and (self.attention == "cross" or self.mask != "none")

    @property
    def single_sector(self) -> bool:
        """Whether all logits depend on the map in the same way.

        False for untied self-attention of tokens that attend to themselves: the logit of a token with itself depends on
        the symmetric part of the map only, so that the symmetric and the antisymmetric part are two sectors (U5).
        """
        return self.attention != "self" or not self.own_logit

    @property
    def own_logit(self) -> bool:
        """Whether a token attends to itself; that logit depends on the kurtosis of the entries (P11)."""
        if isinstance(self.mask, Mask):
            return self.attention != "cross" and any(kind.own for kind in row_kinds(self.mask))
        return self.attention != "cross" and self.mask != "strict"

    @property
    def depends_on_kurtosis(self) -> bool:
        """Whether the tokens have a kurtosis other than 3 and the head depends on it."""
        return self.own_logit and self.kurtosis != GAUSSIAN_KURTOSIS

    @property
    def standard_tokens(self) -> bool:
        """Whether the tokens have mean zero and the identity as their covariance."""
        return not self.unasked and self.isotropic

    @property
    def own_field(self) -> bool:
        """Whether the unasked logits have a covariance of their own: where a token attends to itself (D2.2)."""
        return self.unasked > 0.0 and self.own_logit

    @property
    def gaussian_tokens(self) -> bool:
        """Whether all logits are those of Gaussian tokens with mean zero."""
        return not (self.depends_on_kurtosis or self.unasked)

    @property
    def kurtosis_supported(self) -> bool:
        """Whether the theory covers this head for a kurtosis other than 3 (P11)."""
        two_tokens = self.tied and self.tokens == 2 and self.mask == "none"
        return not self.own_logit or (two_tokens and self.labels == "soft")

    @property
    def bayes_known(self) -> bool:
        """Whether the Bayes-optimal learner is known: soft labels, one sector, Gaussian tokens (A.1, A.10)."""
        unknown = self.depends_on_kurtosis or self.own_field or not self.supported_by("bayes")
        return self.labels == "soft" and self.single_sector and not unknown

    @property
    def keys_spectrum(self) -> str:
        """Spectrum of the covariance of the keys."""
        return self.token_spectrum if self.key_spectrum == AS_QUERIES else self.key_spectrum

    @property
    def isotropic(self) -> bool:
        """Whether the covariance of queries and keys is the identity."""
        return self.token_spectrum == ISOTROPIC == self.keys_spectrum

    @property
    def effective_dim(self) -> float | None:
        """Participation ratio (sum c)²/sum c² of the tokens' eigenvalues, the smaller one of queries and keys (D7).

        None where the tokens have no dimension.
        """
        dim, spectra = self.dimension, (self.token_spectrum, self.keys_spectrum)
        return None if dim is None else dim * min(effective_share(text) for text in spectra)

    @property
    def dimension(self) -> int | None:
        """Dimension d of the target, or of the spectrum of the tokens; None where neither has one."""
        return (
            self.target.dimension or spectrum_dimension(self.token_spectrum) or spectrum_dimension(self.keys_spectrum)
        )

    @property
    def unasked_variance(self) -> float:
        """G, variance of the target's logits within a row that all queries share: Q0 f/(1 - f) (D1.1)."""
        return self.target.second_moment * self.unasked / (1.0 - self.unasked)

    @property
    def spectral_value(self) -> str:
        """Name of a value in the spectrum of a map: "eigenvalue", or "singular value" for an untied head."""
        return "eigenvalue" if self.tied else "singular value"

    @property
    def columns(self) -> tuple[int, ...]:
        """Number of columns that each row attends to.

        Examples
        --------
        >>> Task(tokens=3).columns, Task(tokens=3, mask="causal").columns, Task(tokens=3, mask="strict").columns
        ((3, 3, 3), (1, 2, 3), (0, 1, 2))
        """
        if self.mask == "none":
            return (self.tokens,) * self.tokens
        if isinstance(self.mask, Mask):
            return tuple(self.mask.matrix.sum(axis=1).tolist())
        own = int(self.mask == "causal")
        return tuple(row + own for row in range(self.tokens))

    @property
    def mask_name(self) -> str:
        """Name of the mask: none, causal, strict or own."""
        return "own" if isinstance(self.mask, Mask) else self.mask

    @property
    def longest_row(self) -> int:
        """Largest number of columns that a row attends to."""
        return max(self.columns) if isinstance(self.mask, Mask) else self.tokens - (self.mask == "strict")

    @property
    def visible(self) -> NDArray[np.bool_]:
        """Matrix of the mask: entry (a, b) says whether token a attends to token b.

        Examples
        --------
        >>> Task(attention="self", mask="100/110/011").visible.astype(int).tolist()
        [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
        """
        return matrix_of(self.mask, self.tokens)


def _set_mask(data: dict[str, Any]) -> None:
    """Replace a matrix by the mask that it is, which sets the number of tokens."""
    given = data["mask"]
    if isinstance(given, str) and not given[:1].isdigit():
        return
    size = Mask(given).tokens
    if data.get("tokens", size) != size:
        raise InvalidArgument("tokens", data["tokens"], f"left out, or {size}, the size of the mask")
    data["mask"], data["tokens"] = check_mask(given), size


def _target_with(name: str, untied: bool) -> str:
    """Name of the first kind of target that has this parameter, or an empty string."""
    kinds: list[type[Target]] = [*([Product] if untied else []), *Target.known.values()]
    return next((kind.__name__ for kind in kinds if name in kind.model_fields), "")


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


class Ratio(Problem):
    """Amount of training data, as a sample ratio."""

    alpha: float = parameter(
        ...,
        "α = n/d²",
        "Sample ratio: number of samples divided by the squared dimension.",
        label="Sample ratio",
        gt=0.0,
        le=1e6,
    )


def check_alpha(alpha: float) -> float:
    """Return the sample ratio α = n/d² if it is allowed, else raise `InvalidArgument`."""
    return Ratio(alpha=alpha).alpha
