"""Largest sample ratio at which a readout still separates the classes (S6; a conjecture)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from onehead.arguments import checked
from onehead.results import Certificate
from onehead.sparse.equations.alignment import query_of
from onehead.sparse.equations.features import affordable, attention_features, pooled_features
from onehead.sparse.solve.separability import separable_ratio
from onehead.sparse.task import PROBLEM, Answer, Protocol, Task

__all__ = ["Capacity", "capacity"]

LEVELS = (13, 16)  # log2 of the points; rare bad samples rule strong signals, where more points are needed
ACCURACY = 1e-3  # relative


@dataclass(frozen=True, kw_only=True)
class Capacity(Answer):
    """Largest n/d that each model separates; attention counts its own half, alpha1, only."""

    _MAIN: ClassVar[str] = "attention"
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
    """Largest separable sample ratio of the three models.

    Attention is in units of alpha1 (its query is fixed beforehand), the linear models in units of all samples
    over dimension; the vectorised one is exactly ``length`` times the pooled one.

    Examples
    --------
    >>> found = capacity(Task(), Protocol(cos_query=0.5, sharpness=1.0))
    >>> round(found.pooled, 4), round(found.vectorised, 3), found.certificate.kind
    (2.9501, 29.501, 'conjecture')
    """
    query = query_of(task, protocol)
    for level in (affordable(level, task.length) for level in LEVELS):
        samples = [attention_features(task, **query, log2_points=level, seed=seed) for seed in (0, 1)]
        ratios = [separable_ratio(features) for features in samples]
        error = abs(ratios[0] - ratios[1]) / 2.0
        if error < ACCURACY * ratios[0]:
            break
    pooled = separable_ratio(pooled_features(task))
    return Capacity(
        task=task,
        protocol=protocol,
        attention=float(np.mean(ratios)),
        pooled=pooled,
        vectorised=task.length * pooled,
        **query,
        certificate=Certificate(status="converged", kind="conjecture", quadrature_error=error),
    )
