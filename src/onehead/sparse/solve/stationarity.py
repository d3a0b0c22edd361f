"""Solve the equations of the order parameters: damped sweeps, Newton, and following the solution along the ridge."""

import numpy as np

from onehead.errors import NotConverged
from onehead.sparse.equations.order import Solution, Stationarity, System, penalties
from onehead.sparse.losses import Array

__all__ = ["TOLERANCE", "newton_step", "polish", "solve_stationarity"]

TOLERANCE = 1e-9  # of the undamped residual
NEWTON_STEPS = 40
SWEEPS = 60
FEW_SWEEPS = 12  # enough nine times out of ten
LARGEST = 40.0  # of |log rp| and |log chi|: beyond it the iterate has run away


def solve_stationarity(equations: Stationarity, *, ridge: float, start: Array | None = None) -> Solution:
    """Solve the equations: from a known start, else from scratch, else following the solution along the ridge.

    Raises
    ------
    NotConverged
        When the residual stays above tolerance on every path.
    """
    evaluations, residual = 0, np.inf
    with np.errstate(all="ignore"):  # far trial points overflow; they are refused for their residual
        if start is not None:
            u, residual, evaluations = polish(equations.system(ridge), start)
        for first, count in ((ridge, FEW_SWEEPS), (ridge, SWEEPS), (1.0, SWEEPS), (1e-3, SWEEPS)):
            if residual < TOLERANCE:
                break
            u, residual, more = _follow(equations, first, ridge, count)
            evaluations += more
    if not residual < TOLERANCE:
        raise NotConverged(
            f"the readout's equations stopped at a residual of {residual:.1e}; raise ridge or change alpha1.",
            residual=residual,
        )
    return Solution.at(u, residual=residual, evaluations=evaluations)


def _follow(equations: Stationarity, first: float, last: float, count: int) -> tuple[Array, float, int]:
    """Solve from scratch at ridge ``first`` after ``count`` sweeps, then follow the solution to ``last``.

    The start of each step is a straight line in log ridge through the two solutions before; a step that fails
    is tried again at a third of its size.
    """
    u = _sweeps(equations, first, _first_guess(equations, first), count)
    u, residual, evaluations = polish(equations.system(first), u)
    evaluations += count
    here, goal = np.log(first) if first != last else 0.0, np.log(max(last, 1e-12)) if first != last else 0.0
    step, slope = np.sign(goal - here) * np.log(5.0), np.zeros_like(u)
    while here != goal and residual < TOLERANCE and abs(step) > 1e-2:
        there = goal if abs(goal - here) <= abs(step) else here + step
        ridge = last if there == goal else float(np.exp(there))
        new, new_residual, more = polish(equations.system(ridge), u + slope * (there - here))
        evaluations += more
        if new_residual < TOLERANCE:
            slope, u, residual = (new - u) / (there - here), new, new_residual
            here, step = there, 1.5 * step
        else:
            step /= 3.0
    return u, residual if here == goal else np.inf, evaluations


def _first_guess(equations: Stationarity, ridge: float) -> Array:
    """x = 0 but .1 on the signal and 2 pi - 1 on the bias, rp = 1, chi = 1/(alpha (lambda + l'' E tau^2)).

    Weights are in units of 1/sqrt(E tau^2), in which the equations do not know the scale of the features.
    """
    f = equations.features
    tau2 = f.average(f.noise**2)
    x = np.where(f.is_signal, 0.1 / np.sqrt(tau2), np.where(f.is_query, 0.0, f.average(f.label)))
    chi = 1.0 / (equations.alpha * (ridge + equations.curvature * tau2))
    return np.append(x, [-0.5 * np.log(tau2), np.log(chi)])


def _sweeps(equations: Stationarity, ridge: float, start: Array, count: int) -> Array:
    """Damped sweeps of u = (x, log rp, log chi): Newton in query and bias, .6 of the way in the rest."""
    f, alpha = equations.features, equations.alpha
    free = ~f.is_signal
    D_free = np.ascontiguousarray(f.design[:, free])
    most = np.where(f.is_query, 1.0 / np.sqrt(f.average(f.noise**2)), 1.0)[free]
    x, rp, chi = start[:-2].copy(), float(np.exp(start[-2])), float(np.exp(start[-1]))
    for _ in range(count):
        at = equations.averages(x, rp, chi)
        force = f.moments(at.h)
        penalty = penalties(f, query=ridge, signal=1.0 / (alpha * chi))
        bend = f.gram(D_free, at.slope, D_free) + np.diag(penalty[free] + 1e-12)
        x[free] -= 0.7 * np.clip(np.linalg.solve(bend, (force + penalty * x)[free]), -most, most)
        x[f.is_signal] += 0.6 * (-alpha * chi * force[f.is_signal] - x[f.is_signal])
        rp += 0.6 * (np.sqrt(alpha * chi**2 * f.average(f.noise**2 * at.h2)) + 1e-12 - rp)
        new = 1.0 / (alpha * (ridge + f.average(f.noise**2 * at.slope)) + 1e-12)
        chi *= float(np.exp(0.6 * np.clip(np.log(new / chi), -1.0, 1.0)))
    return np.append(x, [np.log(rp), np.log(chi)])


def polish(system: System, start: Array) -> tuple[Array, float, int]:
    """Newton steps, halved until the residual falls; Powell's hybrid method where they stall.

    ``system`` gives residuals and Jacobian at u = (x, log rp, log chi). Returns the point, its undamped
    residual (largest entry) and the number of evaluations.
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
            if np.max(np.abs(trial[-2:])) < LARGEST:
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
        u, size, more = _hybrid(system, u, size)
        evaluations += more
    return u, size, evaluations


def newton_step(jacobian: Array, residual: Array) -> Array:
    """Solve for the step; least squares when the Jacobian is singular to rounding."""
    try:
        return np.asarray(np.linalg.solve(jacobian, residual))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(jacobian, residual, rcond=1e-12)[0])


def _hybrid(system: System, start: Array, size: float) -> tuple[Array, float, int]:
    """Powell's hybrid method from where Newton stopped; keeps the better of the two."""
    from scipy.optimize import root  # noqa: PLC0415  (scipy.optimize is loaded when first needed)

    def inside(u: Array) -> Array:
        return np.append(u[:-2], np.clip(u[-2:], -LARGEST, LARGEST))

    settings = {"xtol": 1e-13, "maxfev": 300}
    found = root(lambda u: system(inside(u)), start, jac=True, method="hybr", options=settings)  # type: ignore[call-overload]
    u = inside(np.asarray(found.x))
    residual = float(np.max(np.abs(system(u)[0])))
    if not np.isfinite(size):
        size = np.inf
    return (u, residual, int(found.nfev)) if residual < size else (start, size, int(found.nfev))
