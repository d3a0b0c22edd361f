"""Choice of the solver for a trained readout, and the errors that follow from its order parameters (S4.2, S4.7)."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from onehead.errors import NotConverged, OutsideDomain
from onehead.numerics.gaussian import cumulative, density
from onehead.sparse.losses import Array, Hinge, Loss, Square
from onehead.sparse.solve.hinge import collapsed, solve_hard_margin, solve_hinge
from onehead.sparse.solve.proximal import solve_proximal
from onehead.sparse.solve.separability import separates
from onehead.sparse.solve.square import solve_square
from onehead.sparse.theory.features import Features
from onehead.sparse.theory.order_parameters import Solution, radius

ZERO_NORM = 1e-12  # weights with a smaller norm count as zero
COLLAPSED = "collapsed: all weights are zero and the bias is that of the majority"
MAX_MARGIN_DIRECTION = "separable: the weights diverge along the maximum-margin direction, which is given at margin one"


class Errors(NamedTuple):
    """Test error, training loss and training error of a readout."""

    test_error: float
    train_loss: float
    train_error: float


def needs_gauss(loss: Loss) -> bool:
    """Return whether the Gaussian of the logit must be sampled; square and hinge loss integrate it in closed form."""
    return not isinstance(loss, (Square, Hinge))


def solve_readout(
    features: Features, loss: Loss, *, alpha: float, ridge: float, start: Array | None = None
) -> Solution:
    """Return the order parameters of a readout trained on alpha samples per dimension; ridge 0 is the limit from above.

    Raises
    ------
    NotConverged
        If the equations are not solved to tolerance.
    OutsideDomain
        If the data are separable and the limit ridge -> 0 of the loss is not known.
    """
    if isinstance(loss, Square):
        return solve_square(features, alpha=alpha, ridge=ridge)
    if ridge == 0.0 and separates(features, alpha):
        return _separable(features, loss, alpha=alpha)
    if isinstance(loss, Hinge):
        return _hinge_or_collapsed(features, alpha=alpha, ridge=ridge, start=start)
    return solve_proximal(features, loss, alpha=alpha, ridge=ridge, start=start)


def _separable(features: Features, loss: Loss, *, alpha: float) -> Solution:
    """Return the limit ridge -> 0+ for separable data (S4.7)."""
    if loss.separable == "unknown":
        raise OutsideDomain(
            f"at alpha1 = {alpha:g} the data are separable and the limit ridge -> 0 of the loss {loss} is "
            "not known; give ridge a positive value."
        )
    found = solve_hard_margin(features, alpha=alpha)
    if loss.separable == "hard margin":
        return found
    return replace(found, status=MAX_MARGIN_DIRECTION)


def _hinge_or_collapsed(features: Features, *, alpha: float, ridge: float, start: Array | None) -> Solution:
    """Return the hinge solution, or zero weights if the readout has collapsed (S4.7).

    The equations have a solution exactly if the readout has not collapsed. A given start makes success likely, and the
    test for collapse is then made only if the solver fails.
    """
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
    """Return E Phi(-y c / (tau r)) with c = D.x; for r = 0 the sign of c alone decides."""
    f = features
    margin = f.label * f.logit(x)
    if r < ZERO_NORM:
        return f.average((margin < 0.0).astype(float))
    return 0.5 if np.isinf(r) else f.average(cumulative(-margin / (f.noise * r)))


def fresh_error(features: Features, solution: Solution) -> float:
    """Return the test error of a solution on fresh samples."""
    return gaussian_error(features, solution.x, radius(features, solution.x, solution.rp))


def errors_of(features: Features, loss: Loss, solution: Solution, *, test_features: Features | None = None) -> Errors:
    """Return test error, training loss (without ridge) and training error of a solution.

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
