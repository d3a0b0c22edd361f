"""Settings of a training run: deviations from the theory (Variant) and the minimisation (Method)."""

from math import isclose
from typing import Any, Literal, get_args

import numpy as np
from pydantic import field_validator

from onehead.aim.task import GAUSSIAN_KURTOSIS, Task
from onehead.aim.training.data import TokenLaw, Tokens, token_law_with
from onehead.errors import InvalidArgument
from onehead.fields import parameter
from onehead.problem import Problem

Start = Literal["random", "informed", "both"]  # weights from which the minimisation starts


class Variant(Problem):
    """Deviations of a trained layer from the assumptions of the theory; the defaults have none.

    With ``tied=False``, S = W_Q' W_K / sqrt(m d) with weight decay on both factors, also for a symmetric target. Each
    of several heads has weights and weight decay of its own.

    Examples
    --------
    >>> from onehead.aim import Variant
    >>> str(Variant(heads=2, token_law="sphere"))
    'sphere tokens, tied query and key, 2 heads'
    """

    output: Literal["label", "sequence"] = parameter(
        "label",
        "",
        "What the loss compares: attention matrices (label), or the output sequences they produce (sequence).",
    )
    tied: bool = parameter(True, "", "Whether query and key share their weights.")
    heads: int = parameter(1, "H", "Number of heads, whose attention matrices are averaged.", ge=1, le=64)
    token_law: Any = parameter(
        "gaussian",
        "",
        "Law of the tokens.",
        choices=get_args(TokenLaw),
        allowed="the name of a law of tokens, or an array",
    )
    correlation: float = parameter(
        0.0, "", "Share of variance that all tokens of a sequence have in common.", ge=0.0, lt=1.0
    )

    @field_validator("token_law")
    @classmethod
    def _known_law(cls, law: Any) -> Any:
        Tokens(law)  # raises with a reason of its own for arrays
        return law

    def for_task(self, task: Task) -> "Variant":
        """Copy that fits a task: untied weights for an untied task, and tokens with the kurtosis of the task."""
        own = self if task.tied else self.changed(tied=False)
        if task.kurtosis == GAUSSIAN_KURTOSIS:  # the default, which any law of tokens may replace
            return own
        if self.tokens.name == "gaussian":
            return own.changed(token_law=token_law_with(task.kurtosis))
        if self.tokens.kurtosis is not None and isclose(self.tokens.kurtosis, task.kurtosis):
            return own
        raise InvalidArgument(
            "token_law", self.tokens.name, f"a law whose kurtosis is {task.kurtosis:g}, that of the task, or gaussian"
        )

    def task_with_token_kurtosis(self, task: Task) -> Task:
        """Task with the kurtosis of the tokens of a run, where the theory covers that (P11)."""
        kurtosis = self.for_task(task).tokens.kurtosis
        return task if kurtosis is None or not task.kurtosis_supported else task.changed(kurtosis=kurtosis)

    @property
    def tokens(self) -> Tokens:
        """Law of the tokens."""
        return Tokens(self.token_law, self.correlation)

    def describe(self, task: Task) -> str:
        """Text with the heads of a layer where the task has several."""
        text = str(self)
        return text.replace("1 head", f"{task.heads} heads", 1) if task.heads > 1 else text

    def __str__(self) -> str:
        weights = "tied" if self.tied else "untied"
        text = f"{self.tokens.name} tokens, {weights} query and key, {self.heads} head" + (
            "s" if self.heads > 1 else ""
        )
        if self.correlation:
            text += f", correlation {self.correlation:g}"
        return text + (", sequence output" if self.output == "sequence" else "")


class Method(Problem):
    """How the training objective is minimised, and to which precision.

    Optimisers are L-BFGS on the weights, Adam with learning rate 0.1 as in the paper, and message passing (one head of
    full width). The stationarity is |gradient| |θ| / objective, where the entropy of the labels is subtracted from a
    cross-entropy objective; 1e-3 leaves about 1e-7 of the objective. The first seed has ``starts`` random starts, of
    which the lowest is kept, the others one. With squared loss and many columns small weights and the target may lead
    to different minima (4.7); ``start="both"`` minimises from random weights and from the target, reports both and
    keeps the one with the lower objective. Sums are always in double precision. Tokens beyond ``memory`` are sampled
    again in every pass, with the same result.

    Examples
    --------
    >>> from onehead.aim import Method
    >>> Method(optimiser="adam", starts=1).tolerance
    0.001
    """

    optimiser: Literal["lbfgs", "adam", "amp"] = parameter(
        "lbfgs", "", "Minimiser: L-BFGS, Adam, or approximate message passing (amp)."
    )
    tolerance: float = parameter(1e-3, "", "Relative stationarity at which the minimisation stops.", gt=0.0, le=1.0)
    max_iterations: int = parameter(5000, "", "Largest number of iterations.", ge=1)
    starts: int = parameter(2, "", "Number of random starts for the first seed.", ge=1, le=100)
    start: Start = parameter(
        "random",
        "",
        "Start of the minimisation: random weights, the target (informed), or both, each reported.",
        since="3.0",
    )
    dtype: Literal["float64", "float32"] = parameter("float64", "", "Precision of the matrix products.")
    test_samples: int = parameter(20_000, "", "Number of fresh sequences for the test errors.", ge=2)
    memory: float = parameter(4e9, "", "Memory for tokens, in bytes.", gt=0.0)

    @property
    def single_starts(self) -> tuple[Start, ...]:
        """Starts of each run, random weights first."""
        return ("random", "informed") if self.start == "both" else (self.start,)

    @property
    def number(self) -> type[np.floating[Any]]:
        """Numpy type of the matrix products."""
        return np.float32 if self.dtype == "float32" else np.float64
