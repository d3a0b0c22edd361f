"""Derivatives of all numbers of a prediction with respect to a parameter, by the implicit function theorem.

With y = F(y; θ) at the solution, dy/dθ = (1 - F')^-1 ∂F/∂θ, where F' is known from the solve. Newton steps with this
linear system lead to two neighbouring points; the equations are not solved again.
"""

from dataclasses import fields

import numpy as np

from onehead.aim.solve.certificate import Numbers
from onehead.aim.task import Learner, Task
from onehead.aim.theory.build import build_state_evolution
from onehead.aim.verbs.implicit_derivatives import has_accurate_jacobian
from onehead.aim.verbs.predict import Prediction, finish_prediction, overlaps_of, predict
from onehead.errors import InvalidArgument

SENSITIVITY_PARAMETERS = ("alpha", "weight_decay", "noise", "beta", "beta0")
RELATIVE_STEP = 1e-3  # of the parameter, in central differences: their relative error is about its square
NEWTON_STEPS = 3  # with the Jacobian of the solve; the first is the linear response, the others correct its errors
SOLVE_STEP = 2e-2  # where the equations are solved again on both sides


def sensitivity(point: Prediction, parameter: str) -> dict[str, float]:
    """Derivatives of the numbers of a prediction by one parameter; see `Prediction.sensitivity`."""
    if parameter not in SENSITIVITY_PARAMETERS:
        raise InvalidArgument("parameter", parameter, " or ".join(SENSITIVITY_PARAMETERS), SENSITIVITY_PARAMETERS)
    value = _value(point, parameter)
    if value == 0.0:
        raise InvalidArgument(parameter, "0+" if parameter == "weight_decay" else 0.0, "> 0 for a derivative by it")
    problem = point.equations
    if point.rank > 0.0 and not problem.directions.count and has_accurate_jacobian(point, problem):
        return _by_linear_system(point, parameter, value)
    sides = [
        predict(*_changed(point, parameter, value * (1.0 + sign * SOLVE_STEP)), near=point) for sign in (-1.0, 1.0)
    ]
    return _differences(sides[0], sides[1], 2.0 * SOLVE_STEP * value)


def _value(point: Prediction, parameter: str) -> float:
    """Value of a parameter at the point."""
    if parameter == "alpha":
        return point.alpha
    if parameter == "weight_decay":
        return point.learner.decay
    return float(getattr(point.task if parameter in ("noise", "beta0") else point.learner, parameter))


def _changed(point: Prediction, parameter: str, value: float) -> tuple[Task, Learner, float]:
    """Task, learner and sample ratio with another value of one parameter."""
    task, learner, alpha = point.task, point.learner, point.alpha
    if parameter == "alpha":
        return task, learner, value
    if parameter in ("noise", "beta0"):
        return task.changed(**{parameter: value}), learner, alpha
    return task, learner.changed(**{parameter: value}), alpha


def _by_linear_system(point: Prediction, parameter: str, value: float) -> dict[str, float]:
    """Derivatives along the solution curve, whose direction the Jacobian of the solve gives."""
    overlaps = overlaps_of(point.equations, point)
    assert overlaps is not None
    assert point.jacobian is not None
    y, step = overlaps.coordinates, RELATIVE_STEP * value
    level = point.equations.output.geometry.levels[-1]  # the finest default one; both sides have the same points
    system = np.eye(len(y)) - np.asarray(point.jacobian)
    sides = []
    for sign in (-1.0, 1.0):
        task, learner, alpha = _changed(point, parameter, value + sign * step)
        evolution, at = build_state_evolution(task, learner), y
        for _ in range(NEWTON_STEPS):
            image = evolution.step(evolution.zero.at(at), alpha, level=level)[1].coordinates
            at = at + np.linalg.solve(system, image - at)
        averages = evolution.output.averages(*evolution.zero.at(at).state, level=level)
        hats, overlaps = evolution.step(evolution.zero.at(at), alpha, level=level)
        train = alpha * averages.loss + evolution.input.penalty(overlaps)
        numbers = Numbers(overlaps, hats, train, point.certificate)
        sides.append(finish_prediction(task, learner, evolution, alpha, numbers))
    return _differences(sides[0], sides[1], 2.0 * step)


def _differences(low: Prediction, high: Prediction, distance: float) -> dict[str, float]:
    """Differences of all finite numbers of two predictions over the distance of the parameter."""
    found = {}
    for name in (field.name for field in fields(low)):
        values = getattr(low, name), getattr(high, name)
        if name != "alpha" and all(isinstance(value, float) and np.isfinite(value) for value in values):
            found[name] = (values[1] - values[0]) / distance
    return found
