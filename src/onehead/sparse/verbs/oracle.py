"""Oracle errors: the lowest test error of each model that knows the signal; and tasks of growing length (S2)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from onehead.errors import InvalidArgument
from onehead.results import Certificate, Result
from onehead.results.base import Kind
from onehead.sparse.task import Task
from onehead.sparse.theory.bayes_rule import bayes_error
from onehead.sparse.theory.oracle import (
    ACTIVATIONS,
    MAX_SAMPLED_ELEMENTWISE_LENGTH,
    MAX_SAMPLED_LENGTH,
    NORMALS_PER_CLASS,
    best_linear_error,
    elementwise_error,
    hardmax_error,
    linear_error,
    sampled_errors,
)
from onehead.validation import Seed, checked, instance, integers, one_of, seed_number, valid_seed

Growth = Literal["fixed", "log", "sqrt"]

MIN_SAMPLES, MAX_SAMPLES = 1_000, 100_000  # bounds of the number of samples per class
CLOSED_FORM_ERROR = 1e-8  # error of a closed form that is minimised over a threshold
GROWTHS: dict[str, Callable[[int], float]] = {
    "fixed": lambda _: 1.0,
    "log": lambda length: float(np.sqrt(np.log(length))),
    "sqrt": lambda length: float(np.sqrt(length)),
}


@dataclass(frozen=True, kw_only=True)
class Oracle(Result):
    """Lowest test error of each model that knows the signal direction; None where it is not computed.

    ``vectorised`` is the best linear rule, which may use a part of the positions only; ``vectorised_symmetric`` the
    uniform one, which convex training finds. ``bayes`` bounds every classifier from below.
    """

    MEANINGS: ClassVar[dict[str, str]] = {
        "softmax": "attention with the best sharpness",
        "hardmax": "attention to the largest token",
        "elementwise": "element-wise attention",
        "pooled": "mean of the tokens",
        "vectorised": "best linear rule",
        "vectorised_symmetric": "uniform linear rule, which convex training finds",
        "bayes": "best classifier of any form",
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


@checked(task=instance(Task, "Task()"), activation=one_of(ACTIVATIONS), seed=valid_seed)
def oracle(task: Task, *, activation: str = "sigmoid", seed: Seed = 0) -> Oracle:
    """Return the lowest test errors of softmax, hardmax, element-wise, pooled, vectorised and Bayes classifiers (S2).

    Hardmax and the linear models have closed forms. Softmax attention has the best of twelve sharpnesses, among them
    zero (the mean of the tokens) and infinity (hardmax); the others are sampled, and sharpness and threshold are chosen
    on other samples than those on which the error is measured. Element-wise attention is sampled up to 50 tokens and
    computed from its characteristic function beyond. The Bayes rule is computed by a Laplace transform for one signal
    token and sampled for several (B.3). Sequences longer than 20,000 tokens are not sampled: softmax is then None, and
    so is Bayes with several signal tokens. The kind of truth is a measurement if any of the numbers is sampled.

    Parameters
    ----------
    task : Task
        Data of the classification problem; its positions must be exchangeable.
    activation : {"sigmoid", "step", "relu", "power"}
        Gate of element-wise attention.
    seed : int or numpy.random.Generator
        Seed of the random numbers.

    Returns
    -------
    Oracle
        One error per model, with their numerical errors in the certificate.

    Raises
    ------
    InvalidArgument
        If an argument is out of range, or the positions are weighted.

    Examples
    --------
    >>> found = oracle(Task(length=10, strength=5.0))
    >>> round(found.pooled, 4), round(found.hardmax, 6)
    (0.2146, 0.017833)
    """
    if task.positions is not None:
        raise InvalidArgument(
            "positions", task.positions, "None for the oracle, which assumes equally likely positions"
        )
    symmetric = linear_error(task.linear_snr, task.positive_rate)
    errors = dict.fromkeys(("hardmax", "pooled", "vectorised", "vectorised_symmetric"), CLOSED_FORM_ERROR)
    bayes, bayes_err = bayes_error(task)
    if np.isfinite(bayes):
        errors["bayes"] = bayes_err
    sampled = None
    if task.length <= MAX_SAMPLED_LENGTH:
        samples = int(np.clip(NORMALS_PER_CLASS // task.length, MIN_SAMPLES, MAX_SAMPLES))
        sampled = sampled_errors(task, activation, np.random.default_rng(seed_number(seed)), samples)
        errors["softmax"] = CLOSED_FORM_ERROR + sampled.softmax_err
    if sampled is not None and task.length <= MAX_SAMPLED_ELEMENTWISE_LENGTH:
        elementwise, errors["elementwise"] = sampled.elementwise, sampled.elementwise_err
    else:
        elementwise, error = elementwise_error(task, activation)
        errors["elementwise"] = CLOSED_FORM_ERROR + error
    hardest = sampled is not None and bool(np.isinf(sampled.sharpness))
    status, kind = _status(task, errors, hardest)
    return Oracle(
        task=task,
        softmax=None if sampled is None else sampled.softmax,
        softmax_sharpness=None if sampled is None or hardest else sampled.sharpness,
        hardmax=hardmax_error(task),
        elementwise=elementwise,
        activation=activation,
        pooled=symmetric,
        vectorised=best_linear_error(task),
        vectorised_symmetric=symmetric,
        bayes=bayes if np.isfinite(bayes) else None,
        certificate=Certificate(status=status, kind=kind, quadrature_error=max(errors.values()), errors=errors),
    )


def _status(task: Task, errors: dict[str, float], hardest: bool) -> tuple[str, Kind]:
    """Return a sentence that names the sampled numbers and their errors, and the kind of truth of the weakest number.

    ``hardest`` says that the best sharpness is infinite.

    >>> _status(Task(), {"softmax": 0.002, "elementwise": 0.003, "bayes": 1e-8}, True)[0]
    'closed forms; the best sharpness is infinite; sampled: softmax (error 0.002), elementwise (error 0.003)'
    """
    if "softmax" not in errors:
        several = ", nor is Bayes with several signal tokens" if "bayes" not in errors else ""
        return (
            f"closed forms only: the sequence is too long to sample, so that softmax is not given{several}",
            "theorem",
        )
    short, several_tokens = task.length <= MAX_SAMPLED_ELEMENTWISE_LENGTH, 1 < task.signal_tokens < task.length
    names = ["softmax", *(["elementwise"] if short else []), *(["bayes"] if several_tokens else [])]
    listed = ", ".join(f"{name} (error {errors[name]:.1g})" for name in names)
    return f"closed forms; {'the best sharpness is infinite; ' if hardest else ''}sampled: {listed}", "measurement"


@checked(task=instance(Task, "Task()"), lengths=integers(1), growth=one_of(GROWTHS))
def grow(task: Task, lengths: Sequence[int], growth: str) -> list[Task]:
    """Return copies of a task at other lengths, with a strength that grows with the length.

    Parameters
    ----------
    task : Task
        Task whose strength is multiplied by the growth factor.
    lengths : sequence of int
        Sequence lengths L.
    growth : {"fixed", "log", "sqrt"}
        Factor of the strength: 1, sqrt(log L) or sqrt(L).

    Returns
    -------
    list of Task
        One task per length, with equally likely positions.

    Raises
    ------
    InvalidArgument
        If an argument is out of range.

    Examples
    --------
    >>> [round(task.strength, 3) for task in grow(Task(strength=2.0), [10, 100], "sqrt")]
    [6.325, 20.0]
    """
    strengths = [task.strength * GROWTHS[growth](length) for length in lengths]
    return [task.changed(length=L, strength=s, positions=None) for L, s in zip(lengths, strengths, strict=True)]
