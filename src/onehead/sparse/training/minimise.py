"""Minimisers on finite samples: a linear readout (S1.5), or query and readout jointly.

The objective is (1/n) sum_i l(y_i (x_i.w + b)) + (ridge/2) |w|^2, the bias being free.
"""

from contextlib import suppress
from typing import NamedTuple

import numpy as np

from onehead.errors import NotConverged, OutsideDomain
from onehead.sparse.losses import Array, Hinge, Loss, Square
from onehead.sparse.task import Protocol
from onehead.sparse.theory.features import softmax
from onehead.sparse.training.descent import SmoothMinimum, minimise_smooth
from onehead.sparse.training.margin import minimise_hinge
from onehead.sparse.training.samplers import LabelledFeatures

MAX_NEWTON_STEPS = 200
DIVERGED_MARGIN = 1e3  # margin that stands for infinity where the weights diverge
GAP_TOLERANCE = 1e-7  # duality gap of the hinge readout, relative to its objective
TINY_RIDGE = 1e-7  # stands for the limit ridge -> 0+ of the hinge on separable data, which has the same minimiser
# Refinement steps of a linear system with a single-precision factor. If more were needed, the factor would not
# resolve the smallest eigenvalues.
MAX_REFINEMENTS = 6
REFINEMENT_TOLERANCE = 1e-13  # residual of the linear system, relative to the first one
MAX_DESCENT_STEPS = 400  # steps of joint gradient descent
MIN_RELATIVE_DECREASE = 1e-7  # relative decrease of the objective per step below which joint descent stops


class Readout(NamedTuple):
    """Trained weights and bias, and the residual: largest gradient entry, or duality gap for the hinge."""

    weights: Array
    bias: float
    residual: float


def fit(sample: LabelledFeatures, loss: Loss, ridge: float) -> Readout:
    """Return the minimiser; ridge 0 is the limit from above (smallest weights that interpolate or separate).

    With fewer samples than dimensions the problem is solved in the row space of the features, unless L-BFGS converges,
    which needs only products with the data.
    """
    X, y = sample.features, sample.label
    if X.shape[0] >= X.shape[1]:
        return _fit(X, y, loss, ridge)
    if ridge > 0.0 and not isinstance(loss, (Square, Hinge)):
        first = minimise_smooth(X, y, loss, ridge)
        if first.converged:
            return _as_readout(first)
    Q, R = np.linalg.qr(X.T)
    found = _fit(np.ascontiguousarray(R.T), y, loss, ridge)
    return Readout(Q @ found.weights, found.bias, found.residual)


def _fit(X: Array, y: Array, loss: Loss, ridge: float) -> Readout:
    """Return the minimiser by the method that suits the loss."""
    if isinstance(loss, Square):
        return _fit_square(X, y, ridge)
    if ridge == 0.0 and separable(LabelledFeatures(y, X)):
        if loss.separable == "unknown":
            raise OutsideDomain(f"the sample is separable and the limit ridge -> 0 of the loss {loss} is not known.")
        found = _fit_hinge(X, y, TINY_RIDGE)
        scale = DIVERGED_MARGIN if loss.separable == "direction" else 1.0
        return Readout(scale * found.weights, scale * found.bias, found.residual)
    if isinstance(loss, Hinge):
        return _fit_hinge(X, y, ridge) if ridge > 0.0 else _fit_hinge_program(X, y)
    return _fit_newton(X, y, loss, ridge)


def _as_readout(found: SmoothMinimum) -> Readout:
    """Split the solution vector into weights and bias."""
    return Readout(found.solution[:-1], float(found.solution[-1]), float(np.max(np.abs(found.gradient))))


def _fit_square(X: Array, y: Array, ridge: float) -> Readout:
    """Return the least-squares readout from centred features and labels; the one of minimum norm at ridge 0."""
    centre, level = X.mean(axis=0), float(y.mean())
    if ridge > 0.0:
        w, residual = _ridge_solve(X, centre, y - level, ridge)
    else:
        Z, t = X - centre, y - level
        w = np.linalg.lstsq(Z, t, rcond=1e-10)[0]
        residual = float(np.max(np.abs(Z.T @ (Z @ w - t) / len(y))))
    return Readout(w, level - float(centre @ w), residual)


def _ridge_solve(X: Array, centre: Array, t: Array, ridge: float) -> tuple[Array, float]:
    """Solve (Z'Z/n + ridge) w = Z't/n with Z = X - centre; return w and its residual.

    Iterative refinement: a single-precision Cholesky factor with residuals in double precision. If that does not
    converge, the system is solved in double precision.
    """
    from scipy.linalg import LinAlgError, cho_factor, cho_solve  # loaded when first needed

    n, p = X.shape

    def residual_of(w: Array) -> Array:
        error = t - X @ w + centre @ w
        return np.asarray((error @ X - error.sum() * centre) / n - ridge * w)

    w, residual = np.zeros(p), (t @ X - t.sum() * centre) / n
    tolerance = REFINEMENT_TOLERANCE * float(np.max(np.abs(residual)))
    rounded, middle = X.astype(np.float32), centre.astype(np.float32)
    gram = rounded.T @ rounded
    gram -= np.outer(np.float32(n) * middle, middle)
    gram[range(p), range(p)] += np.float32(n * ridge)
    with suppress(LinAlgError):
        factor = cho_factor(gram.T, lower=True, overwrite_a=True, check_finite=False)
        for _ in range(MAX_REFINEMENTS):
            w += cho_solve(factor, (n * residual).astype(np.float32), overwrite_b=True, check_finite=False)
            residual = residual_of(w)
            if (size := float(np.max(np.abs(residual)))) <= tolerance:
                return w, size
    Z = X - centre
    w = np.linalg.solve(Z.T @ Z / n + ridge * np.eye(p), Z.T @ t / n)
    return w, float(np.max(np.abs(residual_of(w))))


def _fit_newton(X: Array, y: Array, loss: Loss, ridge: float) -> Readout:
    """Return the minimiser by L-BFGS; where it stalls, by Newton's method with step halving (Armijo, 1e-4)."""
    n, p = X.shape
    first = minimise_smooth(X, y, loss, ridge)
    if first.converged:
        return _as_readout(first)
    D = np.concatenate([X, np.ones((n, 1))], axis=1)
    penalty = np.append(np.full(p, ridge), 0.0)

    def objective(v: Array) -> float:
        return float(loss.value(y * (D @ v)).mean() + 0.5 * penalty @ v**2)

    v = first.solution
    value = objective(v)
    for _ in range(MAX_NEWTON_STEPS):
        margin = y * (D @ v)
        gradient = D.T @ (y * loss.derivative(margin)) / n + penalty * v
        if np.max(np.abs(gradient)) < 1e-10:
            break
        hessian = D.T @ ((loss.curvature(margin) / n)[:, None] * D) + np.diag(penalty + 1e-12)
        step = np.linalg.solve(hessian, gradient)
        slope, length = float(gradient @ step), 1.0
        while length > 1e-10:
            trial = v - length * step
            new = objective(trial)
            if new <= value - 1e-4 * length * slope + 1e-15 * abs(value):
                break
            length *= 0.5
        else:
            break
        v, value = trial, new
    residual = float(np.max(np.abs(gradient)))
    if not residual < 1e-6:
        raise NotConverged(f"training stopped at a gradient of {residual:.1e}; raise ridge.", residual=residual)
    return Readout(v[:p], float(v[p]), residual)


def _fit_hinge(X: Array, y: Array, ridge: float) -> Readout:
    """Return the hinge readout by the method of multipliers; where it stalls, by an interior-point method."""
    found = minimise_hinge(X, y, ridge)
    if not found.converged:
        return _interior_hinge(X, y, ridge)
    return Readout(found.solution[:-1], float(found.solution[-1]), found.gap)


def _interior_hinge(X: Array, y: Array, ridge: float) -> Readout:
    """Return the hinge readout (support vector machine with a free bias) by a primal-dual interior-point method.

    minimise (ridge/2)|w|^2 + mean(xi) with slack s = y (X w + b) - 1 + xi >= 0 and xi >= 0; multipliers a of
    s and 1/n - a of xi. Each step solves one system of the size of the features.
    """
    n, p = X.shape
    D = np.concatenate([X, np.ones((n, 1))], axis=1) * y[:, None]
    penalty = np.append(np.full(p, ridge), 0.0)
    v = np.zeros(p + 1)
    xi, a = np.full(n, 2.0), np.full(n, 0.5 / n)
    gap = np.inf
    for _ in range(200):
        s = np.maximum(D @ v - 1.0 + xi, 1e-300)
        beta = 1.0 / n - a
        gap = float(a @ s + beta @ xi)
        dual = penalty * v - D.T @ a
        value = float(0.5 * penalty @ v**2 + xi.mean())
        if gap < GAP_TOLERANCE * value and np.max(np.abs(dual)) < GAP_TOLERANCE * np.sqrt(ridge * value):
            break
        centre = 0.1 * gap / (2 * n)
        r_s, r_xi = centre - a * s, centre - beta * xi
        weight = 1.0 / (s / a + xi / beta)
        e = weight * (r_s / a - r_xi / beta)
        hessian = D.T @ (weight[:, None] * D) + np.diag(penalty)
        hessian[p, p] += 1e-14
        dv = np.linalg.solve(hessian, D.T @ e - dual)
        da = e - weight * (D @ dv)
        dxi = (r_xi + xi * da) / beta
        ds = D @ dv + dxi
        length = 1.0
        for now, change in ((s, ds), (xi, dxi), (a, da), (beta, -da)):
            shrinking = change < 0.0
            if shrinking.any():
                length = min(length, 0.995 * float(np.min(-now[shrinking] / change[shrinking])))
        v, xi, a = v + length * dv, xi + length * dxi, a + length * da
    if not gap < 1e3 * GAP_TOLERANCE * value:
        raise NotConverged(f"the hinge readout stopped at a duality gap of {gap:.1e}; raise ridge.", residual=gap)
    return Readout(v[:p], float(v[p]), gap)


def _fit_hinge_program(X: Array, y: Array) -> Readout:
    """Return the hinge readout at ridge 0 on data that are not separable: minimise mean(xi) as a linear program."""
    from scipy.optimize import linprog  # scipy.optimize is loaded when first needed

    n, p = X.shape
    D = np.concatenate([X, np.ones((n, 1))], axis=1) * y[:, None]
    found = linprog(
        np.append(np.zeros(p + 1), np.full(n, 1.0 / n)),
        A_ub=np.concatenate([-D, -np.eye(n)], axis=1),
        b_ub=-np.ones(n),
        bounds=[(None, None)] * (p + 1) + [(0.0, None)] * n,
        method="highs",
    )
    if found.x is None:
        raise NotConverged(f"the linear program of the hinge readout failed: {found.message}.")
    return Readout(found.x[:p], float(found.x[p]), 0.0)


def separable(sample: LabelledFeatures) -> bool:
    """Return whether a hyperplane separates the classes, by linear programming.

    Largest t <= 1 with y_i (x_i.w + b) >= t and |w_j| <= 1: always feasible (w = 0, t = 0), positive exactly
    when the classes are separable. Without the box the solver often ends with an unknown status on infeasible
    data.
    """
    from scipy.optimize import linprog

    X, y = sample.features, sample.label
    n, p = X.shape
    if n <= p:
        return True  # any labels of points in general position are separable
    A = np.concatenate([-y[:, None] * X, -y[:, None], np.ones((n, 1))], axis=1)
    bounds = [(-1.0, 1.0)] * p + [(None, None), (0.0, 1.0)]
    found = linprog(np.append(np.zeros(p + 1), -1.0), A_ub=A, b_ub=np.zeros(n), bounds=bounds, method="highs")
    if found.x is None:
        raise NotConverged(f"the linear program of separability failed: {found.message}.")
    return bool(found.x[-1] > 1e-7)


def train_jointly(label: Array, tokens: Array, protocol: Protocol) -> tuple[Array, Readout]:
    """Minimise the mean loss + (ridge/2)|w|^2 + (ridge_query/2)|q|^2 over q, w and b, from zero weights.

    Gradient descent whose step grows while the objective decreases and is halved otherwise (Armijo). At the origin
    the gradient of the query vanishes, so that the first step is the one of the protocol: readout first, then query.
    """
    dim = tokens.shape[2]
    q, w, b = np.zeros(dim), np.zeros(dim), 0.0
    rate = 1.0
    value, g_q, g_w, g_b = _objective(label, tokens, protocol, q, w, b)
    for _ in range(MAX_DESCENT_STEPS):
        slope = float(g_q @ g_q + g_w @ g_w + g_b * g_b)
        while rate > 1e-12:
            trial = (q - rate * g_q, w - rate * g_w, b - rate * g_b)
            new = _objective(label, tokens, protocol, *trial)
            if new[0] <= value - 1e-4 * rate * slope:
                break
            rate *= 0.5
        else:
            break
        (q, w, b), fall = trial, value - new[0]
        value, g_q, g_w, g_b = new
        rate *= 1.5
        if fall < MIN_RELATIVE_DECREASE * value:
            break
    residual = float(np.sqrt(g_q @ g_q + g_w @ g_w + g_b * g_b))
    return q, Readout(w, b, residual)


def _objective(
    label: Array, tokens: Array, protocol: Protocol, q: Array, w: Array, b: float
) -> tuple[float, Array, Array, float]:
    """Return the objective and its gradients in q, w and b.

    dL/dq = (beta/n) sum_i h_i X_i' (diag(att) - att att') X_i w.
    """
    n, loss, beta = len(label), protocol.loss, protocol.beta
    att, scores = softmax(beta * (tokens @ q)), tokens @ w
    attended = np.einsum("nl,nl->n", att, scores)
    margin = label * (attended + b)
    h = label * loss.derivative(margin) / n
    penalty = protocol.ridge * (w @ w) + protocol.ridge_query * (q @ q)
    value = float(loss.value(margin).mean() + 0.5 * penalty)
    flat = tokens.reshape(-1, tokens.shape[2])
    g_w = (h[:, None] * att).ravel() @ flat + protocol.ridge * w
    g_q = beta * ((h[:, None] * att * (scores - attended[:, None])).ravel() @ flat) + protocol.ridge_query * q
    return value, g_q, g_w, float(h.sum())
