"""Task: what is learned."""

from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, SerializeAsAny, model_validator

from onehead.aim.mask import Mask, check_mask, matrix_of, row_kinds
from onehead.aim.targets import MarchenkoPastur, Product, Target, target_from_document
from onehead.aim.task.coverage import (
    AS_QUERIES,
    FLUCTUATION_VERBS,
    GAUSSIAN_KURTOSIS,
    HEADS_VERBS,
    MAX_HEADS,
    MAX_SHARING,
    MAX_TOKENS,
    SPECTRUM_VERBS,
    UNASKED_VERBS,
    check_combination,
    check_heads,
)
from onehead.aim.token_spectrum import ISOTROPIC, check_spectrum, effective_share, spectrum_dimension
from onehead.errors import InvalidArgument, WrongCall
from onehead.fields import Slider, parameter
from onehead.problem import Problem


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
    def _check_covered(self) -> "Task":
        check_combination(self)
        check_heads(self)
        return self

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
