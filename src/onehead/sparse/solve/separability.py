"""Separability: the largest sample ratio at which a readout separates the classes (S6; a conjecture)."""

from functools import partial

import numpy as np

from onehead.errors import NotConverged
from onehead.numerics.gaussian import cumulative, density
from onehead.sparse.losses import Array
from onehead.sparse.theory.features import Features, stated_error

FAR_TAIL = 5.0  # standard deviations from which tail moments are computed from the Mills ratio
GRADIENT_TOLERANCE = 1e-5  # largest gradient entry at which the minimisation counts as converged


def _violation(features: Features, x: Array) -> tuple[float, Array]:
    """Return log E[(y D.x / tau + sqrt(1 + |x_signal|^2) g)_-^2] and its gradient.

    With A = y D.x / tau and sg = sqrt(1 + |x_signal|^2) the average over g is
    (A^2 + sg^2) Phi(-A/sg) - A sg phi(A/sg).
    """
    f = features
    A = f.label * f.logit(x) / f.noise
    sg = float(np.sqrt(1.0 + np.sum(x[f.is_signal] ** 2)))
    first, second = tail_moments(A / sg)
    value = sg * sg * f.average(second)
    gradient = f.moments(-2.0 * sg * first * f.label / f.noise)
    gradient += 2.0 * f.average(cumulative(-A / sg)) * np.where(f.is_signal, x, 0.0)
    return float(np.log(value)), gradient / value


def tail_moments(z: Array) -> tuple[Array, Array]:
    """Return E (g - z)_+ = phi(z) - z Phi(-z) and E (g - z)_+^2 = (z^2 + 1) Phi(-z) - z phi(z) of a standard normal g.

    For large z the differences cancel; there Phi(-z) = phi(z) M(z) with the Mills ratio M keeps them positive.
    """
    from scipy.special import erfcx  # scipy is loaded when first needed

    below, at = cumulative(-z), density(z)
    far = z > FAR_TAIL
    mills = np.sqrt(0.5 * np.pi) * erfcx(np.where(far, z, FAR_TAIL) / np.sqrt(2.0))
    first = np.where(far, at * (1.0 - z * mills), at - z * below)
    second = np.where(far, at * ((z * z + 1.0) * mills - z), (z * z + 1.0) * below - z * at)
    return first, second


def separable_ratio(features: Features) -> float:
    """Return alpha* = 1 / min over x of E[(y D.x / tau + sqrt(1 + |x_signal|^2) g)_-^2], a convex problem (S6).

    Raises
    ------
    NotConverged
        If the minimiser diverges, that is if the sampled law is separable at any ratio.
    """
    _, ratio, slope = least_violation(features)
    _check_minimised(slope)
    return ratio


def separable_ratio_with_error(features: Features) -> tuple[float, float]:
    """Return the separable ratio and its error from the replicates.

    To first order the minimum of a replicate is its violation at the minimiser of the union.
    """
    x, ratio, slope = least_violation(features)
    _check_minimised(slope)
    violations = np.exp([_violation(replicate, x)[0] for replicate in features.replicates()])
    return ratio, ratio * float(stated_error(np.ones(1), ratio * violations[:, None], sampled=features.sampled)[0])


def separates(features: Features, alpha: float) -> bool:
    """Return whether ``alpha`` samples per dimension are separable.

    Every point of the minimisation bounds alpha* from below, so that convergence matters only for a negative answer.
    """
    _, ratio, slope = least_violation(features)
    if alpha >= ratio:
        _check_minimised(slope)
    return alpha < ratio


def _check_minimised(slope: float) -> None:
    if not slope < GRADIENT_TOLERANCE:
        message = f"the capacity's minimisation stopped at a slope of {slope:.1e}; lower strength or sharpness."
        raise NotConverged(message, residual=slope)


def least_violation(features: Features) -> tuple[Array, float, float]:
    """Return the minimiser of the violation, the inverse of its minimum, and the largest gradient entry there."""
    from scipy.optimize import minimize  # scipy.optimize is loaded when first needed

    start = np.where(features.is_query | features.is_signal, 0.3, 0.0)
    with np.errstate(all="ignore"):
        found = minimize(
            partial(_violation, features), start, jac=True, method="BFGS", options={"gtol": 1e-8, "maxiter": 500}
        )
        slope = float(np.max(np.abs(_violation(features, found.x)[1])))
        return np.asarray(found.x), float(np.exp(-found.fun)), slope
