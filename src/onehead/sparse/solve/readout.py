"""Which equations a trained readout obeys, and the errors it makes (S4.2, S4.7)."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from onehead.errors import NotConverged, OutsideDomain
from onehead.numerics.gaussian import cumulative, density
from onehead.sparse.equations.features import Features
from onehead.sparse.equations.order import Solution, radius
from onehead.sparse.losses import Array, Hinge, Loss, Square
from onehead.sparse.solve.hinge import collapsed, solve_hard_margin, solve_hinge
from onehead.sparse.solve.saddle import solve_saddle
from onehead.sparse.solve.separability import separates
from onehead.sparse.solve.square import solve_square

__all__ = ["COLLAPSED", "Errors", "errors_of", "fresh_error", "gaussian_error", "needs_gauss", "solve_readout"]

NOTHING = 1e-12  # a norm of weights below it is none
COLLAPSED = "collapsed: all weights are zero and the bias is that of the majority"
DIRECTION = "separable: the weights diverge along the maximum-margin direction, which is given at margin one"


class Errors(NamedTuple):
    """What a trained readout does on fresh and on training samples."""

    test_error: float
    train_loss: float
    train_error: float


def needs_gauss(loss: Loss) -> bool:
    """Whether the Gaussian of the logit must be sampled, or has been integrated by hand."""
    return not isinstance(loss, (Square, Hinge))


def solve_readout(
    features: Features, loss: Loss, *, alpha: float, ridge: float, start: Array | None = None
) -> Solution:
    """Order parameters of the readout trained on alpha samples per dimension; ridge 0 is the limit from above."""
    if isinstance(loss, Square):
        return solve_square(features, alpha=alpha, ridge=ridge)
    if ridge == 0.0 and separates(features, alpha):
        return _separable(features, loss, alpha=alpha)
    if isinstance(loss, Hinge):
        return _hinge_or_nothing(features, alpha=alpha, ridge=ridge, start=start)
    return solve_saddle(features, loss, alpha=alpha, ridge=ridge, start=start)


def _separable(features: Features, loss: Loss, *, alpha: float) -> Solution:
    """The limit ridge -> 0+ when a hyperplane separates the data."""
    if loss.separable == "unknown":
        raise OutsideDomain(
            f"at alpha1 = {alpha:g} the data are separable and the limit ridge -> 0 of the loss {loss} is "
            "not known; give ridge a positive value."
        )
    found = solve_hard_margin(features, alpha=alpha)
    if loss.separable == "hard margin":
        return found
    return replace(found, status=DIRECTION)


def _hinge_or_nothing(features: Features, *, alpha: float, ridge: float, start: Array | None) -> Solution:
    """The equations have a solution exactly when the readout has not collapsed; without a start that is asked first."""
    if start is not None or not collapsed(features, alpha=alpha):
        try:
            return solve_hinge(features, alpha=alpha, ridge=ridge, start=start)
        except NotConverged:
            if start is None or not collapsed(features, alpha=alpha):
                raise
    bias = np.sign(features.average(features.label))
    x = np.where(features.is_query | features.is_signal, 0.0, bias)
    return Solution(x=x, rp=0.0, chi=np.inf, residual=0.0, evaluations=0, status=COLLAPSED)


def gaussian_error(features: Features, x: Array, r: float) -> float:
    """E Phi(-y c / (tau r)) with c = D.x; the noise level tau is that of each sample, and without it c alone decides."""
    f = features
    margin = f.label * f.logit(x)
    if r < NOTHING:
        return f.average((margin < 0.0).astype(float))
    return 0.5 if np.isinf(r) else f.average(cumulative(-margin / (f.noise * r)))


def fresh_error(features: Features, solution: Solution) -> float:
    """The error of a solution on fresh samples."""
    return gaussian_error(features, solution.x, radius(features, solution.x, solution.rp))


def errors_of(features: Features, loss: Loss, solution: Solution, *, test_features: Features | None = None) -> Errors:
    """Test error, training loss (without ridge) and training error.

    The training margin p is negative exactly when y (c + tau r g) < -c0 chi tau^2, so the training error is
    E Phi(-(y c + c0 chi tau^2) / (tau r)) for every loss.
    """
    f = features
    fresh = fresh_error(f if test_features is None else test_features, solution)
    if solution.status == COLLAPSED:
        margin = f.label * f.logit(solution.x)
        return Errors(fresh, f.average(loss.value(margin)), f.average((margin < 0.0).astype(float)))
    if np.isinf(solution.chi):
        return Errors(fresh, 0.0, 0.0)
    r = radius(f, solution.x, solution.rp)
    margin, spread, step = f.label * f.logit(solution.x), f.noise * r, solution.chi * f.noise**2
    train_error = f.average(cumulative(-(margin + loss.first_slope * step) / spread))
    if isinstance(loss, Square):
        loss_value = 0.5 * ((1.0 - margin) ** 2 + spread**2) / (1.0 + step) ** 2
    elif isinstance(loss, Hinge):
        A = (1.0 - margin - step) / spread
        loss_value = spread * (A * cumulative(A) + density(A))
    else:
        loss_value = loss.value(loss.prox(margin + spread * f.label * f.gauss, step))
    return Errors(fresh, f.average(loss_value), train_error)
