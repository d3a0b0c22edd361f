"""What a training run is, and what it gave: settings beyond the theory, runs, averages, and the verdict."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import field_validator

from onehead.aim.task import Learner, Task
from onehead.aim.training.data import TokenLaw, Tokens
from onehead.aim.verbs.prediction import Prediction
from onehead.fields import word
from onehead.problem import Problem
from onehead.results import Certificate, Result

__all__ = ["Agreement", "Method", "TrainingCertificate", "TrainingResult", "TrainingRun", "Variant", "spread"]

Array = NDArray[np.float64]

QUANTITIES = ("test_error", "test_error_clean", "test_loss", "train_loss", "rank", "q", "m", "seconds")
COMPARED = ("test_error", "test_error_clean", "train_loss", "rank", "q", "m")
FINITE_SIZE = 3.0  # the bias of a run is of order 1/d: up to 3 % at d = 100 (1.8)
LOUD = 3.0  # standard errors beyond which a difference is more than noise


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
class Agreement(Result):
    """One number beside its prediction: how far off, and whether that is more than noise."""

    quantity: str
    measured: float
    standard_error: float
    predicted: float
    difference: float
    z: float
    verdict: str


@dataclass(frozen=True, kw_only=True, repr=False)
class TrainingResult(Result):
    """Averages over seeds; ``spread`` has for each its ``_std`` over seeds and the ``_err`` of the mean."""

    _NESTED: ClassVar[tuple[str, ...]] = ("certificate", "spread")
    _HIDDEN: ClassVar[tuple[str, ...]] = ("runs", "variant", "method")

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
    def status(self) -> str:
        """How the runs ended, in words."""
        return self.certificate.status

    @property
    def eigenvalues(self) -> Array:
        """The spectra of all runs, pooled."""
        return np.concatenate([run.eigenvalues for run in self.runs])

    def __repr__(self) -> str:
        return (
            f"TrainingResult(dim={self.dim}, alpha={self.alpha:g}, seeds={self.seeds}, "
            f"test_error={self.test_error:.5f} ± {self.spread['test_error_err']:.5f}, "
            f"train_loss={self.train_loss:.5g}, rank={self.rank:.4f}, status={self.status!r})"
        )

    def against(self, prediction: Prediction) -> tuple[Agreement, ...]:
        """Lay the run beside a prediction, number by number.

        z = (measured - predicted) / standard error. A run of size d differs from the limit by a relative
        O(1/d); a difference below 3 standard errors plus 3/d of the value is not held against the theory.
        """
        return tuple(self._agreement(name, float(getattr(prediction, name))) for name in COMPARED)

    def _agreement(self, name: str, predicted: float) -> Agreement:
        measured, error = float(getattr(self, name)), self.spread[f"{name}_err"]
        difference = measured - predicted
        z = difference / error if error > 0.0 else np.nan
        if not np.isfinite(error):
            verdict = "unknown: one seed has no standard error"
        elif abs(difference) <= LOUD * error:
            verdict = "agrees within noise"
        elif abs(difference) <= LOUD * error + FINITE_SIZE / self.dim * abs(predicted):
            verdict = "agrees within noise and the finite-size bias"
        else:
            verdict = "differs by more than noise"
        return Agreement(
            quantity=name,
            measured=measured,
            standard_error=error,
            predicted=predicted,
            difference=difference,
            z=z,
            verdict=verdict,
        )


def spread(runs: tuple[TrainingRun, ...]) -> tuple[dict[str, float], dict[str, float]]:
    """Means over runs, and the standard deviation and standard error of each number."""
    means, spreads = {}, {}
    for name in QUANTITIES:
        values = np.array([getattr(run, name) for run in runs])
        means[name] = float(values.mean())
        std = float(values.std(ddof=1)) if len(values) > 1 else np.nan
        spreads[f"{name}_std"], spreads[f"{name}_err"] = std, std / float(np.sqrt(len(values)))
    return means, spreads
