"""Task and Learner: what is learned, and who learns it. The same two objects drive theory and training."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from onehead.aim.targets import MarchenkoPastur, Target
from onehead.problem import Problem

__all__ = ["Learner", "Task", "check_alpha"]


class Task(Problem):
    """A synthetic sequence task whose labels come from a target attention map (1.1).

    One sample is T tokens, each N(0, I_d); its label is softmax_rows(β₀ (h(S*) + noise)), with logits
    h_ab(S) = (x_a' S x_b - δ_ab Tr S) / sqrt d and symmetric Gaussian noise of variance Δ (Δ/2 off the diagonal).

    Parameters
    ----------
    target : Target, default MarchenkoPastur()
        Spectrum of S*.
    noise : float, default 0.5
        Variance of the noise before the softmax (Δ).
    tokens : int, default 2
        Tokens in a sequence (T).
    beta0 : float, default 1
        Inverse temperature of the target (β₀).

    Examples
    --------
    >>> Task(noise=0.1, tokens=3).tokens
    3
    >>> Task(noise=-1)
    Traceback (most recent call last):
        ...
    onehead.errors.InvalidArgument: noise must be a number >= 0 and <= 1000; got -1.
    """

    target: Annotated[Target, Field(json_schema_extra={"allowed": "a target, such as MarchenkoPastur(kappa0=0.5)"})] = (
        MarchenkoPastur()
    )
    noise: float = Field(0.5, ge=0.0, le=1e3)
    tokens: int = Field(2, ge=2, le=16)
    beta0: float = Field(1.0, ge=1e-6, le=100.0)


def _channel(value: Any) -> Any:
    """Keep a known word; check anything else, which needs the compiled losses."""
    if isinstance(value, str) and value in ("squared", "cross-entropy"):
        return value
    from onehead.aim.losses import channel_named  # noqa: PLC0415  (loads numba)

    return channel_named(value)


class Learner(Problem):
    """A tied single head, S = W'W / sqrt(m d) with W an m x d matrix, trained with weight decay (1.2).

    The objective is the sum over samples of the loss plus λ d Tr S, that is (λ / sqrt κ) |W|^2; trained directly
    (``param="direct"``) S is any symmetric matrix and the penalty is λ d |S|^2.

    Parameters
    ----------
    weight_decay : float or "0+", default 0.01
        λ; the word "0+" is the limit λ → 0⁺.
    width : float, default 1
        Width m over d (κ). One or more is the same as no limit on the rank.
    param : {"factorised", "direct"}
        Train the factor W, or the map S itself.
    beta : float, default 1
        Inverse temperature of the learner (β).
    loss : {"squared", "cross-entropy"} or Channel
        What is minimised; a class of your own may stand for it.
    branch : {"label", "global"}
        Which minimum of the proximal operator to follow where it has several (2.7). "label" is the one
        reached from the label, as an optimiser would; "global" the lowest.

    Examples
    --------
    >>> Learner(weight_decay="0+").decay
    0.0
    """

    weight_decay: Annotated[float, Field(gt=0.0, le=1e6)] | Literal["0+"] = Field(
        0.01, json_schema_extra={"allowed": "a number > 0 and <= 1e+06, or the word 0+ (the limit λ → 0⁺)"}
    )
    width: float = Field(1.0, gt=0.0, le=1e3)
    param: Literal["factorised", "direct"] = Field("factorised", json_schema_extra={"allowed": "factorised or direct"})
    beta: float = Field(1.0, ge=1e-6, le=100.0)
    loss: Annotated[Any, BeforeValidator(_channel)] = Field(
        "squared", json_schema_extra={"allowed": "squared or cross-entropy, or a Channel object"}
    )
    branch: Literal["label", "global"] = Field("label", json_schema_extra={"allowed": "label or global"})

    @property
    def decay(self) -> float:
        """λ as a number, zero standing for the limit."""
        return 0.0 if isinstance(self.weight_decay, str) else self.weight_decay


class _Alpha(Problem):
    alpha: float = Field(gt=0.0, le=1e6)


def check_alpha(alpha: float) -> float:
    """Return the sample ratio α = n/d² if it is allowed."""
    return _Alpha(alpha=alpha).alpha
