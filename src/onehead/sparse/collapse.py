"""Does the hinge readout collapse to zero weights? (S4.7)

With unbalanced classes and many samples the hinge minimiser can be exactly w = 0 with the bias of the
majority. Moving the weights away from it costs, to first order and whatever the ridge,

    V = min over x, max over chi of
        -E_min[u] - chi E_min[tau^2]/2 + E_maj[M_+(u + tau r g; chi tau^2)] - 1/(2 alpha chi)

with u = -y_maj D.x, rp = 1, E_min and E_maj restricted to the classes, and M_+(t; c) = 0, t^2/(2c), t - c/2
for t <= 0, 0 < t < c, t >= c. The readout has collapsed if and only if V >= 0.
"""

import numpy as np
from numpy.typing import NDArray

from onehead.sparse.features import Features
from onehead.sparse.order import radius

__all__ = ["collapsed", "first_order_cost"]

Array = NDArray[np.float64]


def _lift(u: Array, sg: Array, cc: Array) -> tuple[Array, Array, Array, Array]:
    """Averages over g of M_+(u + sg g; cc), its slope M', g M' and M'^2."""
    from scipy.special import ndtr  # noqa: PLC0415  (scipy is loaded when first needed)

    A, B = -u / sg, (cc - u) / sg
    fA, fB = np.exp(-0.5 * A * A) / np.sqrt(2.0 * np.pi), np.exp(-0.5 * B * B) / np.sqrt(2.0 * np.pi)
    above = ndtr(-B)
    P0, P1 = ndtr(-A) - above, fA - fB
    P2 = P0 + A * fA - B * fB
    square = u * u * P0 + 2.0 * u * sg * P1 + sg * sg * P2
    return (
        square / (2.0 * cc) + (u - 0.5 * cc) * above + sg * fB,
        (u * P0 + sg * P1) / cc + above,
        (u * P1 + sg * P2) / cc + fB,
        square / cc**2 + above,
    )


def first_order_cost(features: Features, x: Array, *, alpha: float) -> tuple[float, Array]:
    """The inner maximum over chi at given x, and its gradient in x (by the envelope theorem).

    At the maximum alpha chi^2 (E_min[tau^2] + E_maj[tau^2 M'^2]) = 1, whose left side grows with chi.
    """
    from scipy.optimize import brentq  # noqa: PLC0415  (scipy.optimize is loaded when first needed)

    f = features
    majority = 1.0 if f.average(f.label) >= 0.0 else -1.0
    is_major = f.label == majority
    few, many = np.where(is_major, 0.0, 1.0), np.where(is_major, 1.0, 0.0)
    r = radius(f, x, 1.0)
    u, sg, tau2 = -majority * f.logit(x), f.noise * r, f.noise**2

    def excess(log_chi: float) -> float:
        chi = np.exp(log_chi)
        slope2 = _lift(u, sg, chi * tau2)[3]
        return float(np.log(alpha * chi**2 * f.average(np.where(is_major, slope2, 1.0) * tau2)))

    low = -0.5 * np.log(alpha * f.average(tau2))
    high = -0.5 * np.log(alpha * f.average(few * tau2))
    chi = np.exp(brentq(excess, low - 1e-9, high + 1e-9, xtol=1e-10))
    cost, slope, slope_g, _ = _lift(u, sg, chi * tau2)
    value = f.average(np.where(is_major, cost, -u - 0.5 * chi * tau2)) - 0.5 / (alpha * chi)
    gradient = -majority * f.moments(np.where(is_major, slope, -1.0))
    gradient += f.average(many * slope_g * f.noise) * np.where(f.is_signal, x, 0.0) / r
    return float(value), gradient


def collapsed(features: Features, *, alpha: float) -> bool:
    """True when the hinge readout is exactly w = 0; never for balanced classes.

    V is homogeneous, so a single negative value decides, and the search stops there.
    """
    from scipy.optimize import minimize  # noqa: PLC0415

    if abs(features.average(features.label)) < 1e-12:
        return False

    def cost(x: Array) -> tuple[float, Array]:
        value, gradient = first_order_cost(features, x, alpha=alpha)
        if value < 0.0:
            raise _Negative
        return value, gradient

    try:
        with np.errstate(all="ignore"):
            minimize(cost, np.zeros(features.design.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-9})
    except _Negative:
        return False
    return True


class _Negative(Exception):
    """A direction in which the loss falls has been found."""
