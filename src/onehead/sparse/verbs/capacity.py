"""Capacity: the largest sample ratio at which a readout separates the classes (S6; a conjecture)."""

from dataclasses import dataclass
from typing import ClassVar

from onehead.results import Certificate
from onehead.sparse.solve.separability import separable_ratio_with_error
from onehead.sparse.task import PROBLEM, Answer, Protocol, Task
from onehead.sparse.theory.alignment import query_of
from onehead.sparse.theory.features import affordable, attention_features, pooled_features
from onehead.validation import checked

# log2 of the points per class that are tried in turn; rare samples decide strong signals, which need more points
LOG2_POINTS = tuple(range(12, 18))
RELATIVE_ACCURACY = 1e-3  # wanted error of the capacity of attention
SCRAMBLING_SEED = 100  # seed of the Sobol points
MAX_ERROR_REDUCTION = 3.0  # factor by which a stated error may fall when the points are doubled


@dataclass(frozen=True, kw_only=True)
class Capacity(Answer):
    """Largest separable sample ratio n/d of each model; attention counts the samples of its readout, alpha1, only."""

    MEANINGS: ClassVar[dict[str, str]] = {
        "attention": "samples for the readout over dimension that attention separates",
        "pooled": "all samples over dimension that the pooled model separates",
        "vectorised": "all samples over dimension that the vectorised model separates; length times pooled",
        "cos_query": "cosine of the query with the signal",
        "sharpness": "beta times the length of the query",
    }

    attention: float
    pooled: float
    vectorised: float
    cos_query: float
    sharpness: float
    certificate: Certificate


@checked(**PROBLEM)
def capacity(task: Task, protocol: Protocol) -> Capacity:
    """Return the largest separable sample ratio of the three models (S6; a conjecture).

    Attention is in units of alpha1 (its query is fixed beforehand), the linear models in units of all samples
    over dimension; the vectorised one is exactly ``length`` times the pooled one.

    Parameters
    ----------
    task : Task
        Data of the classification problem.
    protocol : Protocol
        Fixes the query, directly or through the two gradient steps.

    Returns
    -------
    Capacity
        The three ratios with their errors; a warning if the error of attention is above 0.1 %.

    Raises
    ------
    InvalidArgument
        If an argument has the wrong type, or the sequence is too long for attention.
    NotConverged
        If the minimisation does not converge.

    Examples
    --------
    >>> found = capacity(Task(), Protocol(cos_query=0.5, sharpness=1.0))
    >>> round(found.pooled, 4), round(found.vectorised, 3), found.certificate.kind
    (2.9501, 29.501, 'conjecture')
    """
    query = query_of(task, protocol)
    relative_error = 0.0
    for level in sorted({affordable(level, task.length) for level in LOG2_POINTS}):
        ratio, error = separable_ratio_with_error(
            attention_features(task, **query, log2_points=level, seed=SCRAMBLING_SEED + level)
        )
        relative_error = max(error / ratio, relative_error / MAX_ERROR_REDUCTION)
        if relative_error < RELATIVE_ACCURACY:
            break
    pooled, pooled_error = separable_ratio_with_error(pooled_features(task))
    return Capacity(
        task=task,
        protocol=protocol,
        attention=ratio,
        pooled=pooled,
        vectorised=task.length * pooled,
        **query,
        certificate=Certificate(
            status="converged",
            kind="conjecture",
            quadrature_error=relative_error * ratio,
            errors={
                "attention": relative_error * ratio,
                "pooled": pooled_error,
                "vectorised": task.length * pooled_error,
            },
            warnings=_warnings(relative_error),
        ),
    )


def _warnings(relative_error: float) -> tuple[str, ...]:
    """Return warnings about the accuracy of the result."""
    if relative_error < RELATIVE_ACCURACY:
        return ()
    return (
        f"the quadrature error of attention, {relative_error:.1%} of it, is above the wanted {RELATIVE_ACCURACY:.1%}.",
    )
