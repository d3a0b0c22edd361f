"""Readout with any convex loss, through its proximal operator (S4.2, S4.4)."""

from dataclasses import replace
from functools import partial

import numpy as np

from onehead.errors import NotConverged
from onehead.sparse.losses import Array, Loss
from onehead.sparse.solve.stationarity import solve_stationarity
from onehead.sparse.solve.widest_margin import widest_margin
from onehead.sparse.theory.features import Features
from onehead.sparse.theory.order_parameters import Averages, Solution, Stationarity, System, penalties, radius, unfold


def _averages(features: Features, loss: Loss, x: Array, rp: float, chi: float) -> Averages:
    """Return h = y l'(p), h^2 and dh/dlogit = l'' / (1 + chi tau^2 l'') at the proximal point p of every sample."""
    f = features
    step = chi * f.noise**2
    p = loss.prox(f.label * (f.logit(x) + f.noise * radius(f, x, rp) * f.gauss), step)
    h = f.label * loss.derivative(p)
    curvature = loss.curvature(p)
    return Averages(h, h * h, curvature / (1.0 + step * curvature))


def _system(features: Features, loss: Loss, *, alpha: float, ridge: float) -> System:
    """Return residuals and Jacobian of the five equations in u = (x, log rp, log chi).

    The rows of x are divided by rms(h); the last two are log rp - log(chi sqrt(alpha E[tau^2 h^2])) and
    alpha chi (lambda + E[h tau g] / r) - 1. Derivatives: dh = slope (D.dx + tau g dr) - h slope tau^2 dchi.
    """
    f = features
    n = f.design.shape[1]
    noise_gauss = f.noise * f.gauss

    def system(u: Array) -> tuple[Array, Array]:
        x, chi, r, dr = unfold(f, u)
        averages = _averages(f, loss, x, float(np.exp(u[n])), chi)
        penalty = penalties(f, query=ridge, signal=1.0 / (alpha * chi))
        rms = np.sqrt(f.average(averages.h2)) + 1e-300
        spread = f.average(f.noise**2 * averages.h2) + 1e-300
        gain = f.average(averages.h * noise_gauss) / r
        residual = np.append(
            (f.moments(averages.h) + penalty * x) / rms,
            [u[n] - u[n + 1] - 0.5 * np.log(alpha * spread), alpha * chi * (ridge + gain) - 1.0],
        )
        rows = np.column_stack([f.design, f.noise**2 * averages.h, noise_gauss])
        columns = np.column_stack([f.design, noise_gauss, -averages.h * f.noise**2])
        gram = f.gram(rows, averages.slope, columns)
        jacobian = np.column_stack([gram[:, :n], np.zeros(n + 2), chi * gram[:, n + 1]])
        jacobian[:, : n + 1] += np.outer(gram[:, n], dr)
        jacobian[:n, :n] += np.diag(penalty)
        jacobian[:n, n + 1] -= np.where(f.is_signal, penalty * x, 0.0)
        jacobian[:n] /= rms
        jacobian[n] = np.append(np.zeros(n), [1.0, -1.0]) - jacobian[n] / spread
        jacobian[n + 1, : n + 1] -= gain * dr
        jacobian[n + 1] *= alpha * chi / r
        jacobian[n + 1, n + 1] += alpha * chi * (ridge + gain)
        return residual, jacobian

    return system


def solve_proximal(
    features: Features, loss: Loss, *, alpha: float, ridge: float, start: Array | None = None
) -> Solution:
    """Return the order parameters of a readout with any convex loss, from ``start`` = (x, log rp, log chi) if given.

    Raises
    ------
    NotConverged
        If the residual stays above tolerance.
    """
    equations = Stationarity(
        features=features,
        alpha=alpha,
        averages=lambda x, rp, chi: _averages(features, loss, x, rp, chi),
        system=lambda penalty: _system(features, loss, alpha=alpha, ridge=penalty),
        curvature=float(loss.curvature(np.zeros(1))[0]),
    )
    try:
        found = solve_stationarity(equations, ridge=ridge, start=start)
    except NotConverged:
        margin = widest_margin(features, alpha=alpha) if 0.0 < ridge < 1.0 else None
        if margin is None:
            raise
        # on separable data the weights lie near the widest margin and grow like log(1/ridge); chi is about ell / ridge
        scale = 1.0 - 0.5 * np.log(ridge)
        near = np.append(scale * margin[:-2], [margin[-2] + np.log(scale), margin[-1] - np.log(ridge)])
        found = solve_stationarity(equations, ridge=ridge, start=near)
    return replace(found, equations=partial(_system, loss=loss, alpha=alpha, ridge=ridge))
