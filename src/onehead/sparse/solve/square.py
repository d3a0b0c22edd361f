"""Readout with the square loss: closed forms once one scalar equation is solved (S4.5, S5)."""

import numpy as np

from onehead.errors import OutsideDomain
from onehead.numerics.brent import brent_root
from onehead.numerics.gaussian import cumulative, density
from onehead.sparse.losses import Array
from onehead.sparse.theory.features import Features
from onehead.sparse.theory.order_parameters import Solution, penalties


def square_step(features: Features, *, alpha: float, ridge: float) -> float:
    """Return chi of lambda chi + E[chi tau^2 / (1 + chi tau^2)] = 1/alpha; infinite for ridgeless interpolation."""
    f = features
    if ridge == 0.0 and alpha <= 1.0:
        return np.inf

    def excess(log_chi: float) -> float:
        chi = np.exp(log_chi)
        return float(ridge * chi + f.average(chi * f.noise**2 / (1.0 + chi * f.noise**2)) - 1.0 / alpha)

    # the average lies below both 1 and chi E tau^2, which brackets the root
    low = np.log(1.0 / (alpha * (ridge + f.average(f.noise**2))))
    high = low + 1.0
    while excess(high) < 0.0:
        high += 1.0
    return float(np.exp(brent_root(excess, low - 1e-9, high, xtol=1e-15, rtol=1e-14)))


def solve_square(features: Features, *, alpha: float, ridge: float) -> Solution:
    """Return the order parameters of the square loss: coefficients from a linear system, then the remaining norm.

    With psi = 1/(1 + chi tau^2) and F = alpha chi^2:
    (E[psi D D'] + diag(penalty)) x = E[psi y D] and
    rp^2 = F (E[tau^2 psi^2 (c - y)^2] + |x_signal|^2 E[tau^4 psi^2]) / (1 - F E[tau^4 psi^2]).
    At ridge 0 and alpha < 1 (minimum-norm interpolation) chi is infinite: psi -> 1/tau^2 and F = alpha.
    """
    f = features
    chi = square_step(f, alpha=alpha, ridge=ridge)
    if np.isfinite(chi):
        psi, F = 1.0 / (1.0 + chi * f.noise**2), alpha * chi**2
        penalty = penalties(f, query=ridge, signal=1.0 / (alpha * chi))
    else:
        psi, F = f.noise**-2.0, alpha
        penalty = penalties(f, query=1.0 / alpha - 1.0, signal=1.0 / alpha)
    gram = f.gram(f.design, psi, f.design) + np.diag(penalty)
    right = f.moments(psi * f.label)
    x = _least_squares(gram, right)
    error2 = (f.logit(x) - f.label) ** 2
    fourth = f.average(f.noise**4 * psi**2)
    left = 1.0 - F * fourth
    status = "converged" if np.isfinite(chi) else "minimum-norm interpolation"
    if left <= 1e-12:
        rp, status = np.inf, "interpolation peak: the norm of the weights diverges"
    else:
        rp = float(np.sqrt(F * (f.average(f.noise**2 * psi**2 * error2) + np.sum(x[f.is_signal] ** 2) * fourth) / left))
    residual = float(np.max(np.abs(gram @ x - right)))
    return Solution(x=x, rp=rp, chi=chi, residual=residual, evaluations=1, status=status)


def _least_squares(gram: Array, right: Array) -> Array:
    """Solve a linear system; a direction without ridge and without variance gets weight zero."""
    return np.asarray(np.linalg.lstsq(gram, right, rcond=1e-14)[0])


def ridgeless_limit(features: Features) -> tuple[float, float]:
    """Return the limit E0 of the test error for alpha1 -> infinity at ridge 0, and C1 of E = E0 + C1/alpha1 (S5.2).

    With T2 = E tau^2, T4 = E tau^4, A0 = E[D D'] + T2 on the signal columns, x0 = A0^-1 E[y D], c0 = D.x0:
    E0 = E Phi(-y c0 / (tau |m|)), m = x0_signal.

    Raises
    ------
    OutsideDomain
        If m = 0 (query exactly along the signal, or no signal): the expansion divides by m.
    """
    f = features
    tau2 = f.noise**2
    T2, T4 = f.average(tau2), f.average(tau2**2)
    on_signal = np.diag(f.is_signal.astype(float))
    gram = f.gram(f.design, np.ones_like(tau2), f.design)
    A0 = gram + T2 * on_signal
    x0 = _least_squares(A0, f.moments(f.label))
    m = float(np.linalg.norm(x0[f.is_signal]))
    if m < 1e-12:
        raise OutsideDomain("the readout has no weight along the signal; evaluate the prediction itself instead.")
    A1 = -f.gram(f.design, tau2, f.design) / T2 - (T4 / T2) * on_signal
    x1 = _least_squares(A0, -f.moments(tau2 * f.label) / T2 - A1 @ x0)
    c0, c1 = f.logit(x0), f.logit(x1)
    rho = (f.average(tau2 * (c0 - f.label) ** 2) + m**2 * T4) / T2**2
    r1 = (2.0 * float(x0[f.is_signal] @ x1[f.is_signal]) + rho) / (2.0 * m)
    z = -f.label * c0 / (f.noise * m)
    slope = f.average(density(z) * -f.label * (c1 / (f.noise * m) - c0 * r1 / (f.noise * m**2)))
    return f.average(cumulative(z)), slope
