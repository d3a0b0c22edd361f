"""Which sample ratios a readout still separates (S6; a conjecture)."""

from functools import partial

import numpy as np

from onehead.errors import NotConverged
from onehead.numerics.gaussian import cumulative, density
from onehead.sparse.equations.features import Features, stated_error
from onehead.sparse.losses import Array

__all__ = ["separable_ratio", "separates", "with_error"]

FLAT = 1e-5  # slope at which a minimisation has ended


def _violation(features: Features, x: Array) -> tuple[float, Array]:
    """log E[(y D.x / tau + sqrt(1 + |x_signal|^2) g)_-^2] and its gradient.

    With A = y D.x / tau and sg = sqrt(1 + |x_signal|^2) the average over g is
    (A^2 + sg^2) Phi(-A/sg) - A sg phi(A/sg).
    """
    f = features
    A = f.label * f.logit(x) / f.noise
    sg = float(np.sqrt(1.0 + np.sum(x[f.is_signal] ** 2)))
    below, at = cumulative(-A / sg), density(A / sg)
    value = f.average((A * A + sg * sg) * below - A * sg * at)
    by_A = 2.0 * (A * below - sg * at)
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
    _, ratio, slope = _least_violation(features)
    _check(slope)
    return ratio


def with_error(features: Features) -> tuple[float, float]:
    """The separable ratio and its error: at a minimum the violation of every part of the sample is seen at the same x."""
    x, ratio, slope = _least_violation(features)
    _check(slope)
    violations = np.exp([_violation(part, x)[0] for part in features.split()])
    return ratio, ratio * float(stated_error(np.ones(1), ratio * violations[:, None], sampled=features.sampled)[0])


def separates(features: Features, alpha: float) -> bool:
    """Whether ``alpha`` samples per dimension are separable: every point of the minimisation bounds alpha* from below."""
    _, ratio, slope = _least_violation(features)
    if alpha >= ratio:
        _check(slope)
    return alpha < ratio


def _check(slope: float) -> None:
    if not slope < FLAT:
        message = f"the capacity's minimisation stopped at a slope of {slope:.1e}; lower strength or sharpness."
        raise NotConverged(message, residual=slope)


def _least_violation(features: Features) -> tuple[Array, float, float]:
    """Where the violation is smallest, one over it, and the slope there."""
    from scipy.optimize import minimize  # noqa: PLC0415  (scipy.optimize is loaded when first needed)

    start = np.where(features.is_query | features.is_signal, 0.3, 0.0)
    with np.errstate(all="ignore"):
        found = minimize(
            partial(_violation, features), start, jac=True, method="BFGS", options={"gtol": 1e-8, "maxiter": 500}
        )
        slope = float(np.max(np.abs(_violation(features, found.x)[1])))
        return np.asarray(found.x), float(np.exp(-found.fun)), slope
