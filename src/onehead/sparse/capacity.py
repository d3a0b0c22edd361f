"""Largest sample ratio at which a readout still separates the classes (S6; a conjecture)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from onehead.arguments import checked, instance
from onehead.errors import NotConverged
from onehead.results import Certificate, Result
from onehead.sparse.alignment import query_of
from onehead.sparse.features import Features, affordable, attention_features, pooled_features
from onehead.sparse.task import Protocol, Task

__all__ = ["Capacity", "capacity", "separable_ratio", "separates"]

Array = NDArray[np.float64]

LEVELS = (13, 16)  # log2 of the points; rare bad samples rule strong signals, where more points are needed
ACCURACY = 1e-3  # relative
FLAT = 1e-5  # slope at which a minimisation has ended


@dataclass(frozen=True, kw_only=True)
class Capacity(Result):
    """Largest n/d that each model separates; attention counts its own half, alpha1, only."""

    _HIDDEN: ClassVar[tuple[str, ...]] = ("protocol",)

    task: Task
    protocol: Protocol
    attention: float
    pooled: float
    vectorised: float
    cos_query: float
    sharpness: float
    certificate: Certificate


def _violation(features: Features, x: Array) -> tuple[float, Array]:
    """log E[(y D.x / tau + sqrt(1 + |x_signal|^2) g)_-^2] and its gradient.

    With A = y D.x / tau and sg = sqrt(1 + |x_signal|^2) the average over g is
    (A^2 + sg^2) Phi(-A/sg) - A sg phi(A/sg).
    """
    from scipy.special import ndtr  # noqa: PLC0415  (scipy is loaded when first needed)

    f = features
    A = f.label * f.logit(x) / f.noise
    sg = float(np.sqrt(1.0 + np.sum(x[f.is_signal] ** 2)))
    below, density = ndtr(-A / sg), np.exp(-0.5 * (A / sg) ** 2) / np.sqrt(2.0 * np.pi)
    value = f.average((A * A + sg * sg) * below - A * sg * density)
    by_A = 2.0 * (A * below - sg * density)
    gradient = f.moments(by_A * f.label / f.noise)
    gradient += 2.0 * f.average(below) * np.where(f.is_signal, x, 0.0)
    return float(np.log(value)), gradient / value


def separable_ratio(features: Features) -> float:
    """alpha* = 1 / min over x of E[(y D.x / tau + sqrt(1 + |x_signal|^2) g)_-^2]; the minimisation is convex.

    Raises
    ------
    NotConverged
        When the minimiser runs away, that is when the sample itself is separable at any ratio.
    """
    ratio, slope = _least_violation(features)
    if not slope < FLAT:
        raise _runaway(slope)
    return ratio


def separates(features: Features, alpha: float) -> bool:
    """Whether ``alpha`` samples per dimension are separable: every point of the minimisation bounds alpha* from below."""
    ratio, slope = _least_violation(features)
    if alpha >= ratio and not slope < FLAT:
        raise _runaway(slope)
    return alpha < ratio


def _runaway(slope: float) -> NotConverged:
    message = f"the capacity's minimisation stopped at a slope of {slope:.1e}; lower strength or sharpness."
    return NotConverged(message, residual=slope)


def _least_violation(features: Features) -> tuple[float, float]:
    """One over the smallest violation found, and the slope there."""
    from scipy.optimize import minimize  # noqa: PLC0415  (scipy.optimize is loaded when first needed)

    def cost(x: Array) -> tuple[float, Array]:
        return _violation(features, x)

    start = np.where(features.is_query | features.is_signal, 0.3, 0.0)
    with np.errstate(all="ignore"):
        found = minimize(cost, start, jac=True, method="BFGS", options={"gtol": 1e-8, "maxiter": 500})
        slope = float(np.max(np.abs(_violation(features, found.x)[1])))
        return float(np.exp(-found.fun)), slope


@checked(task=instance(Task, "Task()"), protocol=instance(Protocol, "Protocol()"))
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
    cos_query, sharpness = query_of(task, protocol)
    for level in (affordable(level, task.length) for level in LEVELS):
        ratios = [
            separable_ratio(
                attention_features(task, cos_query=cos_query, sharpness=sharpness, log2_points=level, seed=seed)
            )
            for seed in (0, 1)
        ]
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
        cos_query=cos_query,
        sharpness=sharpness,
        certificate=Certificate(status="converged", kind="conjecture", quadrature_error=error),
    )
