"""Settings of a training run beyond task and learner: where the layer leaves the theory, and how it is minimised."""

from math import isclose
from typing import Any, Literal, get_args

import numpy as np
from pydantic import field_validator

from onehead.aim.task import GAUSSIAN, Task
from onehead.aim.training.data import TokenLaw, Tokens, law_of
from onehead.errors import InvalidArgument
from onehead.fields import word
from onehead.problem import Problem

__all__ = ["Method", "Variant"]


class Variant(Problem):
    """Where a layer leaves the assumptions of the theory; the defaults do not.

    Untied, S = W_Q' W_K / sqrt(m d) with weight decay on both, even where the target is tied; several heads have weights and weight
    decay of their own. For the laws of tokens see `Tokens`.
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

    def of(self, task: Task) -> "Variant":
        """The same for the head of a task: an untied task has an untied learner, one with a kurtosis tokens that have it."""
        own = self if task.tied else self.changed(tied=False)
        if task.kurtosis == GAUSSIAN:  # the law of the tokens decides
            return own
        if self.tokens.name == "gaussian":
            return own.changed(token_law=law_of(task.kurtosis))
        if self.tokens.kurtosis is not None and isclose(self.tokens.kurtosis, task.kurtosis):
            return own
        raise InvalidArgument(
            "token_law", self.tokens.name, f"a law whose kurtosis is {task.kurtosis:g}, that of the task, or gaussian"
        )

    def told(self, task: Task) -> Task:
        """The task to predict beside a run: its tokens have the kurtosis of their law, where the theory knows what that does (P11)."""
        kurtosis = self.of(task).tokens.kurtosis
        return task if kurtosis is None or not task.knows_kurtosis else task.changed(kurtosis=kurtosis)

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

    Optimisers are L-BFGS on the weights, Adam with learning rate 0.1 as in the paper, and message passing (one head of full width). The
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
