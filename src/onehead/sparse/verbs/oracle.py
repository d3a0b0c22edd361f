"""oracle(): the lowest error of each model that knows the signal; grow(): the same task at other lengths."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from onehead.arguments import checked, instance, one_of, whole, wholes
from onehead.errors import InvalidArgument
from onehead.results import Certificate, Result
from onehead.sparse.equations.oracle import (
    ACTIVATIONS,
    LONGEST_GATED,
    LONGEST_SAMPLED,
    MONTE_CARLO,
    best_linear_error,
    elementwise_error,
    hardmax_error,
    linear_error,
    sampled_errors,
)
from onehead.sparse.equations.rule import bayes_error
from onehead.sparse.task import Activation, Task

__all__ = ["Activation", "Growth", "Oracle", "grow", "oracle"]

Growth = Literal["fixed", "log", "sqrt"]

FEWEST, MOST = 1_000, 100_000  # samples
CLOSED = 1e-8  # error of a closed form, minimised over a threshold
GROWTHS: dict[str, Callable[[int], float]] = {
    "fixed": lambda _: 1.0,
    "log": lambda length: float(np.sqrt(np.log(length))),
    "sqrt": lambda length: float(np.sqrt(length)),
}


@dataclass(frozen=True, kw_only=True)
class Oracle(Result):
    """Lowest test error of each model that knows the signal direction; ``None`` where nothing is computed.

    ``vectorised`` is the best linear rule, which may look at a few places only; ``vectorised_symmetric`` the
    uniform one, which convex training finds. ``bayes`` bounds every classifier from below.
    """

    MEANINGS: ClassVar[dict[str, str]] = {
        "softmax": "attention with the best sharpness",
        "hardmax": "attention to the largest token",
        "elementwise": "element-wise attention",
        "pooled": "mean of the tokens",
        "vectorised": "best linear rule",
        "vectorised_symmetric": "uniform linear rule, which convex training finds",
        "bayes": "any rule at all",
    }

    task: Task
    softmax: float | None
    softmax_sharpness: float | None
    hardmax: float
    elementwise: float
    activation: str
    pooled: float
    vectorised: float
    vectorised_symmetric: float
    bayes: float | None
    certificate: Certificate


@checked(task=instance(Task, "Task()"), activation=one_of(ACTIVATIONS), seed=whole(0))
def oracle(task: Task, *, activation: str = "sigmoid", seed: int = 0) -> Oracle:
    """Lowest test error of softmax, hardmax, element-wise, pooled and vectorised models, and of any rule.

    Closed forms for hardmax and the linear models; softmax (best of eight sharpnesses, hardmax among them) by
    sampling with common noise in both classes, element-wise attention by sampling up to 50 tokens and by its
    characteristic function beyond. The Bayes rule of one signal token by its Laplace transform, of several by sampling (B.3).
    Sequences longer than 20,000 tokens are not sampled: softmax is left out, and Bayes where there are several signal tokens.

    Examples
    --------
    >>> found = oracle(Task(length=10, strength=5.0))
    >>> round(found.pooled, 4), round(found.hardmax, 6)
    (0.2146, 0.017833)
    """
    if task.positions is not None:
        raise InvalidArgument("positions", task.positions, "None for the oracle, whose places are all alike")
    pi = task.positive_rate
    symmetric, hard = linear_error(task.linear_snr, pi), hardmax_error(task)
    sampled, errors = None, dict.fromkeys(("hardmax", "pooled", "vectorised", "vectorised_symmetric"), CLOSED)
    status = "closed forms only: the sequence is too long to sample softmax, and Bayes with several signal tokens"
    bayes, bayes_err = bayes_error(task)
    if np.isfinite(bayes):
        errors["bayes"] = bayes_err
    if task.length <= LONGEST_SAMPLED:
        samples = int(np.clip(MONTE_CARLO // task.length, FEWEST, MOST))
        sampled = sampled_errors(task, activation, np.random.default_rng(seed), samples, hard)
        errors["softmax"] = sampled.softmax_err
        status = f"closed forms, and {samples} samples per class for softmax and for elementwise"
    if sampled is not None and task.length <= LONGEST_GATED:
        gated, errors["elementwise"] = sampled.gated, sampled.gated_err
    else:
        gated, error = elementwise_error(task, activation)
        errors["elementwise"] = CLOSED + error
    return Oracle(
        task=task,
        softmax=None if sampled is None else max(sampled.softmax, bayes),  # a rule, and sampled
        softmax_sharpness=None if sampled is None else sampled.sharpness,
        hardmax=hard,
        elementwise=gated,
        activation=activation,
        pooled=symmetric,
        vectorised=best_linear_error(task),
        vectorised_symmetric=symmetric,
        bayes=bayes if np.isfinite(bayes) else None,
        certificate=Certificate(
            status=status, kind="theorem", quadrature_error=errors.get("softmax", 0.0), errors=errors
        ),
    )


@checked(task=instance(Task, "Task()"), lengths=wholes(1), growth=one_of(GROWTHS))
def grow(task: Task, lengths: Sequence[int], growth: str) -> list[Task]:
    """The same task at other lengths, the strength being ``fixed``, or times sqrt(log L), or times sqrt(L).

    Examples
    --------
    >>> [round(task.strength, 3) for task in grow(Task(strength=2.0), [10, 100], "sqrt")]
    [6.325, 20.0]
    """
    strengths = [task.strength * GROWTHS[growth](length) for length in lengths]
    return [task.changed(length=L, strength=s, positions=None) for L, s in zip(lengths, strengths, strict=True)]
