"""What a training run is, and what it gave: settings beyond the theory, runs, averages, and the verdict."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import field_validator

from onehead.aim.task import Learner, Task
from onehead.aim.training.data import TokenLaw, Tokens
from onehead.fields import word
from onehead.measured import Measured
from onehead.problem import Problem
from onehead.results import Certificate, Result

__all__ = ["QUANTITIES", "Method", "TrainingCertificate", "TrainingResult", "TrainingRun", "Variant"]

Array = NDArray[np.float64]

QUANTITIES = ("test_error", "test_error_clean", "test_loss", "train_loss", "rank", "q", "m", "seconds")


class Variant(Problem):
    """Where a layer leaves the assumptions of the theory; the defaults do not.

    Untied, S = W_Q' W_K / sqrt(m d) with weight decay on both; several heads have weights and weight decay of their own. For the
    laws of tokens see `Tokens`.
    """

    output: Literal["label", "sequence"] = word("label", "", "Compare attention matrices, or the sequences they make.")
    tied: bool = word(True, "", "Query and key share their weights.")
    heads: int = word(1, "H", "Heads whose attention matrices are averaged.", ge=1, le=64)
    token_law: Any = word(
        "gaussian",
        "",
        "Law of the tokens.",
        choices=get_args(TokenLaw),
        allowed="the name of a law of tokens, or an array",
    )
    correlation: float = word(0.0, "", "Share that all tokens of a sequence have in common.", ge=0.0, lt=1.0)

    @field_validator("token_law")
    @classmethod
    def _known_law(cls, law: Any) -> Any:
        Tokens(law)  # an array has more to be said of it than a field can say
        return law

    @property
    def tokens(self) -> Tokens:
        """The law of the tokens."""
        return Tokens(self.token_law, self.correlation)

    def __str__(self) -> str:
        words = [
            self.tokens.name,
            "tokens,",
            "tied" if self.tied else "untied",
            f"query and key, {self.heads} head",
        ]
        text = " ".join(words) + ("s" if self.heads > 1 else "")
        if self.correlation:
            text += f", correlation {self.correlation:g}"
        return text + (", sequence output" if self.output == "sequence" else "")


class Method(Problem):
    """How to minimise, and how far.

    Optimisers are L-BFGS on the weights, Adam with learning rate 0.1 as in the paper, and message passing (tied, one head). The
    stationarity is |gradient| |θ| / objective, the entropy of the labels taken off the objective where there is one; 1e-3 leaves
    about 1e-7 of the objective. The lowest of the starts is kept; seeds after the first have one. Sums are always in double
    precision, and tokens beyond ``memory`` are drawn again in every pass, with the same result.
    """

    optimiser: Literal["lbfgs", "adam", "amp"] = word("lbfgs", "", "How to minimise.")
    tolerance: float = word(1e-3, "", "Relative stationarity to reach.", gt=0.0, le=1.0)
    max_iterations: int = word(5000, "", "Iterations at most.", ge=1)
    starts: int = word(2, "", "Random starts of the first seed.", ge=1, le=100)
    dtype: Literal["float64", "float32"] = word("float64", "", "Precision of the matrix products.")
    test_samples: int = word(20_000, "", "Fresh sequences for the test errors.", ge=2)
    memory: float = word(4e9, "", "Bytes of tokens to keep.", gt=0.0)

    @property
    def number(self) -> type[np.floating[Any]]:
        """The numpy type of the matrix products."""
        return np.float32 if self.dtype == "float32" else np.float64


@dataclass(frozen=True, kw_only=True)
class TrainingCertificate(Certificate):
    """``residual`` is the relative stationarity |gradient| |θ| / objective at the weights returned.

    ``gradient_norm``: norm of the gradient of objective/d². ``starts_gap``: largest relative gap of the
    objective between starts, or None when there was one.
    """

    gradient_norm: float
    objective: float
    starts_gap: float | None = None


@dataclass(frozen=True, kw_only=True)
class TrainingRun(Result):
    """One trained head: its errors on fresh samples, its map S, the target map, and the spectrum of S.

    ``eigenvalues`` are those of S, or its singular values when query and key are untied; with several heads S
    is the mean of their maps.
    """

    _HIDDEN: ClassVar[tuple[str, ...]] = ("eigenvalues", "map", "target")

    seed: int
    test_error: float
    test_error_clean: float
    test_loss: float
    train_loss: float
    rank: float
    q: float
    m: float
    seconds: float
    certificate: TrainingCertificate
    eigenvalues: Array
    map: Array
    target: Array


@dataclass(frozen=True, kw_only=True)
class TrainingResult(Measured):
    """Averages over seeds; ``spread`` has for each its ``_std`` over seeds and the ``_err`` of the mean."""

    _HIDDEN: ClassVar[tuple[str, ...]] = ("runs", "variant", "method")
    _SHOWN: ClassVar[tuple[str, ...]] = ("dim", "alpha", "seeds", "test_error", "train_loss", "rank")
    _COMPARED: ClassVar[tuple[str, ...]] = ("test_error", "test_error_clean", "train_loss", "rank", "q", "m")
    MEANINGS: ClassVar[dict[str, str]] = {
        "test_error": "squared error on fresh samples",
        "test_error_clean": "the same against labels without noise",
        "test_loss": "the learner's own loss on fresh samples",
        "train_loss": "objective over d², weight decay included",
        "rank": "share of the eigenvalues of S that are not zero",
        "q": "mean squared eigenvalue of S",
        "m": "overlap of S with the target",
    }

    alpha: float
    dim: int
    samples: int
    test_error: float
    test_error_clean: float
    test_loss: float
    train_loss: float
    rank: float
    q: float
    m: float
    seconds: float
    spread: dict[str, float]
    seeds: int
    setting: str
    certificate: TrainingCertificate
    runs: tuple[TrainingRun, ...]
    variant: Variant
    method: Method
    task: Task
    learner: Learner

    @property
    def eigenvalues(self) -> Array:
        """The spectra of all runs, pooled."""
        return np.concatenate([run.eigenvalues for run in self.runs])
