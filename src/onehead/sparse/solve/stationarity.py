"""Solver of the stationarity conditions: damped sweeps, Newton's method, and continuation in the ridge (S4.4)."""

import numpy as np

from onehead.errors import NotConverged
from onehead.sparse.losses import Array
from onehead.sparse.theory.order_parameters import Solution, Stationarity, System, penalties

TOLERANCE = 1e-9  # largest entry of the residual of a solution
NEWTON_STEPS = 40
SWEEPS = 60
FIRST_SWEEPS = 12  # sweeps of the first attempt, sufficient in nine cases out of ten
MAX_LOG_UNKNOWN = 40.0  # bound of |log rp| and |log chi|, beyond which an iterate counts as diverged


def solve_stationarity(equations: Stationarity, *, ridge: float, start: Array | None = None) -> Solution:
    """Solve the equations from a given start, else from a first guess, else by continuation in the ridge.

    Raises
    ------
    NotConverged
        If the residual stays above tolerance on every path.
    """
    evaluations, residual = 0, np.inf
    with np.errstate(all="ignore"):  # distant trial points may overflow; their residual rejects them
        if start is not None:
            u, residual, evaluations = newton_refine(equations.system(ridge), start)
        for first, count in ((ridge, FIRST_SWEEPS), (ridge, SWEEPS), (1.0, SWEEPS), (1e-3, SWEEPS)):
            if residual < TOLERANCE:
                break
            u, residual, more = _continue_in_ridge(equations, first, ridge, count)
            evaluations += more
    if not residual < TOLERANCE:
        raise NotConverged(
            f"the readout's equations stopped at a residual of {residual:.1e}; raise ridge or change alpha1.",
            residual=residual,
        )
    return Solution.from_unknowns(u, residual=residual, evaluations=evaluations)


def _continue_in_ridge(equations: Stationarity, first: float, last: float, count: int) -> tuple[Array, float, int]:
    """Solve at ridge ``first`` from a first guess and ``count`` sweeps, then continue the solution to ridge ``last``.

    Each step starts from the linear extrapolation of the last two solutions in log ridge; a step that fails is repeated
    at a third of its size.
    """
    u = _sweeps(equations, first, _first_guess(equations, first), count)
    u, residual, evaluations = newton_refine(equations.system(first), u)
    evaluations += count
    log_ridge, last_log_ridge = (
        np.log(first) if first != last else 0.0,
        np.log(max(last, 1e-12)) if first != last else 0.0,
    )
    step, slope = np.sign(last_log_ridge - log_ridge) * np.log(5.0), np.zeros_like(u)
    while log_ridge != last_log_ridge and residual < TOLERANCE and abs(step) > 1e-2:
        next_log_ridge = last_log_ridge if abs(last_log_ridge - log_ridge) <= abs(step) else log_ridge + step
        ridge = last if next_log_ridge == last_log_ridge else float(np.exp(next_log_ridge))
        new, new_residual, more = newton_refine(equations.system(ridge), u + slope * (next_log_ridge - log_ridge))
        evaluations += more
        if new_residual < TOLERANCE:
            slope, u, residual = (new - u) / (next_log_ridge - log_ridge), new, new_residual
            log_ridge, step = next_log_ridge, 1.5 * step
        else:
            step /= 3.0
    return u, residual if log_ridge == last_log_ridge else np.inf, evaluations


def _first_guess(equations: Stationarity, ridge: float) -> Array:
    """Return x = 0 except 0.1 on the signal and 2 pi - 1 on the bias, rp = 1, chi = 1/(alpha (lambda + l'' E tau^2)).

    Weights are in units of 1/sqrt(E tau^2), in which the equations do not depend on the scale of the features.
    """
    f = equations.features
    tau2 = f.average(f.noise**2)
    x = np.where(f.is_signal, 0.1 / np.sqrt(tau2), np.where(f.is_query, 0.0, f.average(f.label)))
    chi = 1.0 / (equations.alpha * (ridge + equations.curvature * tau2))
    return np.append(x, [-0.5 * np.log(tau2), np.log(chi)])


def _sweeps(equations: Stationarity, ridge: float, start: Array, count: int) -> Array:
    """Apply damped sweeps to u = (x, log rp, log chi): Newton steps in query and bias, damping 0.6 in the others."""
    f, alpha = equations.features, equations.alpha
    free = ~f.is_signal
    D_free = np.ascontiguousarray(f.design[:, free])
    max_step = np.where(f.is_query, 1.0 / np.sqrt(f.average(f.noise**2)), 1.0)[free]
    x, rp, chi = start[:-2].copy(), float(np.exp(start[-2])), float(np.exp(start[-1]))
    for _ in range(count):
        averages = equations.averages(x, rp, chi)
        force = f.moments(averages.h)
        penalty = penalties(f, query=ridge, signal=1.0 / (alpha * chi))
        hessian = f.gram(D_free, averages.slope, D_free) + np.diag(penalty[free] + 1e-12)
        x[free] -= 0.7 * np.clip(np.linalg.solve(hessian, (force + penalty * x)[free]), -max_step, max_step)
        x[f.is_signal] += 0.6 * (-alpha * chi * force[f.is_signal] - x[f.is_signal])
        rp += 0.6 * (np.sqrt(alpha * chi**2 * f.average(f.noise**2 * averages.h2)) + 1e-12 - rp)
        new = 1.0 / (alpha * (ridge + f.average(f.noise**2 * averages.slope)) + 1e-12)
        chi *= float(np.exp(0.6 * np.clip(np.log(new / chi), -1.0, 1.0)))
    return np.append(x, [np.log(rp), np.log(chi)])


def newton_refine(system: System, start: Array) -> tuple[Array, float, int]:
    """Apply Newton steps, halved until the residual falls; then Powell's hybrid method if they stall.

    ``system`` returns residuals and Jacobian at u = (x, log rp, log chi). Returns the last point, the largest entry of
    its residual and the number of evaluations.
    """
    u = start
    residual, jacobian = system(u)
    evaluations = 1
    for _ in range(NEWTON_STEPS):
        if np.max(np.abs(residual)) < TOLERANCE or not np.isfinite(jacobian).all():
            break
        step = newton_step(jacobian, residual)
        length = min(1.0, 2.0 / max(float(np.max(np.abs(step[-2:]))), 1e-300))
        while length > 1e-3:
            trial = u - length * step
            if np.max(np.abs(trial[-2:])) < MAX_LOG_UNKNOWN:
                new, new_jacobian = system(trial)
                evaluations += 1
                if np.linalg.norm(new) < (1.0 - 0.1 * length) * np.linalg.norm(residual):
                    break
            length *= 0.5
        else:
            break
        u, residual, jacobian = trial, new, new_jacobian
    size = float(np.max(np.abs(residual)))
    if not size < TOLERANCE:
        u, size, more = _powell_hybrid(system, u, size)
        evaluations += more
    return u, size, evaluations


def newton_step(jacobian: Array, residual: Array) -> Array:
    """Return the Newton step, by least squares if the Jacobian is singular to rounding."""
    try:
        return np.asarray(np.linalg.solve(jacobian, residual))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(jacobian, residual, rcond=1e-12)[0])


def _powell_hybrid(system: System, start: Array, size: float) -> tuple[Array, float, int]:
    """Apply Powell's hybrid method from the last Newton point; return the better of the two points."""
    from scipy.optimize import root  # scipy.optimize is loaded when first needed

    def clipped(u: Array) -> Array:
        return np.append(u[:-2], np.clip(u[-2:], -MAX_LOG_UNKNOWN, MAX_LOG_UNKNOWN))

    settings = {"xtol": 1e-13, "maxfev": 300}
    found = root(lambda u: system(clipped(u)), start, jac=True, method="hybr", options=settings)  # type: ignore[call-overload]
    u = clipped(np.asarray(found.x))
    residual = float(np.max(np.abs(system(u)[0])))
    if not np.isfinite(size):
        size = np.inf
    return (u, residual, int(found.nfev)) if residual < size else (start, size, int(found.nfev))
