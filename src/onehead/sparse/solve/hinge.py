"""Readout with the hinge loss, the Gaussian of the logit integrated in closed form (S4.4, S4.7).

Per sample, with t = y c, sg = tau r and step cc = chi tau^2: the margin is t + sg g, |h| is 1 below 1 - cc, 0
above 1 and falls linearly between, that is for A < g < B with B = (1 - t)/sg and A = B - cc/sg.

With unbalanced classes and many samples the minimiser can be exactly w = 0 with the bias of the majority. Moving the
weights away from it costs, to first order and whatever the ridge,

    V = min over x, max over chi of
        -E_min[u] - chi E_min[tau^2]/2 + E_maj[M_+(u + tau r g; chi tau^2)] - 1/(2 alpha chi)

with u = -y_maj D.x, rp = 1, E_min and E_maj restricted to the classes, and M_+(t; c) = 0, t^2/(2c), t - c/2
for t <= 0, 0 < t < c, t >= c. The readout has collapsed to zero weights if and only if V >= 0.
"""

from dataclasses import replace
from functools import partial

import numpy as np

from onehead.errors import NotConverged
from onehead.numerics.brent import brent_root
from onehead.numerics.gaussian import cumulative, density
from onehead.sparse.losses import Array
from onehead.sparse.solve.stationarity import TOLERANCE, newton_refine, solve_stationarity
from onehead.sparse.solve.widest_margin import widest_margin
from onehead.sparse.theory.features import Features
from onehead.sparse.theory.order_parameters import Averages, Solution, Stationarity, System, penalties, radius, unfold

Three = tuple[Array, Array, Array]

# The bias counts as undetermined if a change of this size leaves its equation within the tolerance of the solver.
FREE_BIAS_TOLERANCE = 1e-3


def _band(A: Array, B: Array) -> tuple[Array, Array, Array, Array]:
    """Return Phi(A), and the moments of 1, g, g^2 of a standard normal between A and B."""
    below, fA, fB = cumulative(A), density(A), density(B)
    P0 = cumulative(B) - below
    return below, P0, fA - fB, P0 + A * fA - B * fB


def _averages(features: Features, x: Array, rp: float, chi: float) -> Averages:
    """Return E h, E h^2 and E dh/dlogit over g for every sample."""
    f = features
    sg, cc = f.noise * radius(f, x, rp), chi * f.noise**2
    B = (1.0 - f.label * f.logit(x)) / sg
    band = _band(B - cc / sg, B)
    h, h2 = _slopes(B, sg / cc, *band)
    return Averages(-f.label * h, h2, band[1] / cc)


def _slopes(B: Array, k: Array, below: Array, P0: Array, P1: Array, P2: Array) -> tuple[Array, Array]:
    """Return E |h| and E h^2 over g, with k = sg/cc."""
    return below + k * (B * P0 - P1), below + k**2 * (B * B * P0 - 2.0 * B * P1 + P2)


def _jacobian(f: Features, dr: Array, *, alpha: float, spread: float, h: Three, h2: Three, share: Three) -> Array:
    """Return the Jacobian of -E[y h D_j], -log(E[tau^2 h^2])/2 and alpha E[share] in u.

    Each of ``h``, ``h2`` and ``share`` holds the derivatives of this quantity by t, by sg and by the last entry of u.
    """
    n, one = f.design.shape[1], np.ones_like(f.noise)

    def chain(left: Array, by: Three) -> Array:
        """Return the gradient of the averages E[left * quantity] in u by the chain rule."""
        right = np.column_stack([(by[0] * f.label)[:, None] * f.design, by[1] * f.noise, by[2]])
        gram = f.gram(left, one, right)
        out = np.column_stack([gram[:, :n], np.zeros(len(gram)), gram[:, n + 1]])
        out[:, : n + 1] += np.outer(gram[:, n], dr)
        return out

    rows = [chain(-f.label[:, None] * f.design, h), chain((f.noise**2)[:, None], h2) / (-2.0 * spread)]
    return np.vstack([*rows, alpha * chain(one[:, None], share)])


def _system(features: Features, *, alpha: float, ridge: float) -> System:
    """Return residuals and Jacobian in u = (x, log rp, log chi); the last row is alpha (lambda chi + E[P0]) - 1."""
    f = features
    n = f.design.shape[1]

    def system(u: Array) -> tuple[Array, Array]:
        x, chi, r, dr = unfold(f, u)
        sg, cc = f.noise * r, chi * f.noise**2
        B = (1.0 - f.label * f.logit(x)) / sg
        A = B - cc / sg
        below, P0, P1, P2 = _band(A, B)
        k = sg / cc
        h, h2 = _slopes(B, k, below, P0, P1, P2)
        penalty = penalties(f, query=ridge, signal=1.0 / (alpha * chi))
        rms = np.sqrt(f.average(h2)) + 1e-300
        spread = f.average(f.noise**2 * h2) + 1e-300
        residual = np.append(
            (-f.moments(f.label * h) + penalty * x) / rms,
            [u[n] - u[n + 1] - 0.5 * np.log(alpha * spread), alpha * (ridge * chi + f.average(P0)) - 1.0],
        )
        fA, fB = density(A), density(B)
        # derivatives of h, h2 and P0 by t, sg and log cc
        h_by_cc = -(k / cc) * (B * P0 - P1)
        h_by = (-P0 / cc, -P1 / cc, h_by_cc * cc)
        h2_by = (
            2.0 * h_by_cc,
            -2.0 * (k / cc) * (B * P1 - P2),
            -2.0 * (k**2 / cc) * (B * B * P0 - 2.0 * B * P1 + P2) * cc,
        )
        P0_by = ((fA - fB) / sg, (A * fA - B * fB) / sg, fA / sg * cc)
        jacobian = _jacobian(f, dr, alpha=alpha, spread=spread, h=h_by, h2=h2_by, share=P0_by)
        jacobian[:n, :n] += np.diag(penalty)
        jacobian[:n, n + 1] -= np.where(f.is_signal, penalty * x, 0.0)
        jacobian[:n] /= rms
        jacobian[n, n:] += [1.0, -1.0]
        jacobian[n + 1, n + 1] += alpha * ridge * chi
        return residual, jacobian

    return system


def solve_hinge(features: Features, *, alpha: float, ridge: float, start: Array | None = None) -> Solution:
    """Return the order parameters of the hinge readout.

    Where the general solver fails on separable data, the smallest weights with all margins at least one are the start.

    Raises
    ------
    NotConverged
        If the residual stays above tolerance, in particular if the readout has collapsed to zero weights (`collapsed`).
    """
    try:
        found = _solve_equations(features, alpha=alpha, ridge=ridge, start=start)
    except NotConverged:
        margin = widest_margin(features, alpha=alpha) if ridge > 0.0 else None
        if margin is None:
            raise
        near = np.append(margin[:-1], margin[-1] - np.log(ridge))  # chi = ell / ridge
        found = _solve_equations(features, alpha=alpha, ridge=ridge, start=near)
    return replace(found, equations=partial(_system, alpha=alpha, ridge=ridge))


def _solve_equations(features: Features, *, alpha: float, ridge: float, start: Array | None) -> Solution:
    """Return the solution of the stationarity conditions at ``ridge``."""
    equations = Stationarity(
        features=features,
        alpha=alpha,
        averages=lambda x, rp, chi: _averages(features, x, rp, chi),
        system=lambda penalty: _system(features, alpha=alpha, ridge=penalty),
    )
    return solve_stationarity(equations, ridge=ridge, start=start)


def bias_is_free(features: Features, solution: Solution) -> bool:
    """Return whether the bias can be changed without a change of the loss.

    This happens for balanced classes and a ridge so large that every margin stays below one. The equations then hold
    for every bias in an interval of about (-1, 1), and the bias that was found depends on the starting point.
    """
    if solution.equations is None or solution.unknowns is None:
        return False
    slope = solution.equations(features)(solution.unknowns)[1]
    bias = solution.x.size - 1
    return bool(FREE_BIAS_TOLERANCE * abs(slope[bias, bias]) < TOLERANCE)


def _hard_margin_system(features: Features, *, alpha: float) -> System:
    """Return residuals and Jacobian of the hard-margin limit in u = (x, log rp, log ell).

    chi grows like 1/lambda. With the multiplier ell = lambda chi and e = chi |h| = (sg/tau^2)(B Phi(B) +
    phi(B)): E[-y e D_j] + penalty_j x_j = 0 with penalty = ell (query), 1/alpha (signal), 0 (bias),
    rp^2 = alpha E[tau^2 e^2], and ell + E Phi(B) = 1/alpha.
    """
    f = features
    n = f.design.shape[1]
    zeros = np.zeros_like(f.noise)

    def system(u: Array) -> tuple[Array, Array]:
        x, ell, r, dr = unfold(f, u)
        sg, tau2 = f.noise * r, f.noise**2
        B = (1.0 - f.label * f.logit(x)) / sg
        P0, fB = cumulative(B), density(B)
        e = sg / tau2 * (B * P0 + fB)
        e2 = (sg / tau2) ** 2 * ((B * B + 1.0) * P0 + B * fB)
        penalty = penalties(f, query=ell, signal=1.0 / alpha)
        rms = np.sqrt(f.average(e2)) + 1e-300
        spread = f.average(tau2 * e2) + 1e-300
        residual = np.append(
            (-f.moments(f.label * e) + penalty * x) / rms,
            [u[n] - 0.5 * np.log(alpha * spread), alpha * (ell + f.average(P0)) - 1.0],
        )
        e_by, P0_by = (-P0 / tau2, fB / tau2, zeros), (-fB / sg, -B * fB / sg, zeros)
        e2_by = (-2.0 * e / tau2, 2.0 * sg / tau2**2 * P0, zeros)
        jacobian = _jacobian(f, dr, alpha=alpha, spread=spread, h=e_by, h2=e2_by, share=P0_by)
        jacobian[:n, :n] += np.diag(penalty)
        jacobian[:n, n + 1] += np.where(f.is_query, ell * x, 0.0)
        jacobian[:n] /= rms
        jacobian[n, n] += 1.0
        jacobian[n + 1, n + 1] += alpha * ell
        return residual, jacobian

    return system


def solve_hard_margin(features: Features, *, alpha: float) -> Solution:
    """Return the smallest weights with all margins at least one: the limit ridge -> 0+ below capacity (S4.7).

    Raises
    ------
    NotConverged
        If the residual stays above tolerance.
    """
    start, before = None, 0
    try:
        near = _solve_equations(features, alpha=alpha, ridge=1e-6, start=None)
        start, before = np.append(near.x, [np.log(near.rp), np.log(1e-6 * near.chi)]), near.evaluations
    except NotConverged as failure:  # strong signals
        start = widest_margin(features, alpha=alpha)
        if start is None:
            raise failure
    u, residual, evaluations = newton_refine(_hard_margin_system(features, alpha=alpha), start)
    if not residual < TOLERANCE:
        raise NotConverged(
            f"the hard-margin equations stopped at a residual of {residual:.1e}; take ridge > 0.",
            residual=residual,
        )
    return Solution.from_unknowns(
        u,
        chi=np.inf,
        residual=residual,
        evaluations=before + evaluations,
        status="hard-margin limit",
        equations=partial(_hard_margin_system, alpha=alpha),
    )


def _positive_part_averages(u: Array, sg: Array, cc: Array) -> tuple[Array, Array, Array, Array]:
    """Return the averages over g of M_+(u + sg g; cc), of its slope M', of g M' and of M'^2."""
    A, B = -u / sg, (cc - u) / sg
    fA, fB = density(A), density(B)
    above = cumulative(-B)
    P0, P1 = cumulative(-A) - above, fA - fB
    P2 = P0 + A * fA - B * fB
    square = u * u * P0 + 2.0 * u * sg * P1 + sg * sg * P2
    return (
        square / (2.0 * cc) + (u - 0.5 * cc) * above + sg * fB,
        (u * P0 + sg * P1) / cc + above,
        (u * P1 + sg * P2) / cc + fB,
        square / cc**2 + above,
    )


def first_order_cost(features: Features, x: Array, *, alpha: float) -> tuple[float, Array]:
    """Return the inner maximum over chi of V at given x, and its gradient in x by the envelope theorem.

    At the maximum alpha chi^2 (E_min[tau^2] + E_maj[tau^2 M'^2]) = 1, whose left side grows with chi.
    """
    f = features
    majority = 1.0 if f.average(f.label) >= 0.0 else -1.0
    is_major = f.label == majority
    in_minority, in_majority = np.where(is_major, 0.0, 1.0), np.where(is_major, 1.0, 0.0)
    r = radius(f, x, 1.0)
    u, sg, tau2 = -majority * f.logit(x), f.noise * r, f.noise**2

    def excess(log_chi: float) -> float:
        chi = np.exp(log_chi)
        slope2 = _positive_part_averages(u, sg, chi * tau2)[3]
        return float(np.log(alpha * chi**2 * f.average(np.where(is_major, slope2, 1.0) * tau2)))

    low = -0.5 * np.log(alpha * f.average(tau2))
    high = -0.5 * np.log(alpha * f.average(in_minority * tau2))
    chi = np.exp(brent_root(excess, low - 1e-9, high + 1e-9, xtol=1e-10))
    cost, slope, slope_g, _ = _positive_part_averages(u, sg, chi * tau2)
    value = f.average(np.where(is_major, cost, -u - 0.5 * chi * tau2)) - 0.5 / (alpha * chi)
    gradient = -majority * f.moments(np.where(is_major, slope, -1.0))
    gradient += f.average(in_majority * slope_g * f.noise) * np.where(f.is_signal, x, 0.0) / r
    return float(value), gradient


def collapsed(features: Features, *, alpha: float) -> bool:
    """Return whether the hinge readout is exactly w = 0, which cannot happen for balanced classes.

    V is homogeneous in x, so that one negative value decides and ends the search.
    """
    from scipy.optimize import minimize

    if abs(features.average(features.label)) < 1e-12:
        return False

    def cost(x: Array) -> tuple[float, Array]:
        value, gradient = first_order_cost(features, x, alpha=alpha)
        if value < 0.0:
            raise _NegativeCost
        return value, gradient

    try:
        with np.errstate(all="ignore"):
            minimize(cost, np.zeros(features.design.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-9})
    except _NegativeCost:
        return False
    return True


class _NegativeCost(Exception):
    """Raised to stop the minimisation when a direction of negative cost is found."""
