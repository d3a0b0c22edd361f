"""Derivatives of all numbers of a prediction with respect to a parameter, by the implicit function theorem.

With y = F(y; θ) at the solution, dy/dθ = (1 - F')^-1 ∂F/∂θ, where F' is known from the solve. Newton steps with this
linear system lead to two neighbouring points; the equations are not solved again.
"""

from dataclasses import fields

import numpy as np

from onehead.aim.flat_parameters import PARAMETERS, changed_problem, parameters_from_problem
from onehead.aim.solve.certificate import Numbers
from onehead.aim.task import Learner, Ratio, Task
from onehead.aim.theory.build import build_state_evolution
from onehead.aim.verbs.implicit_derivatives import has_accurate_jacobian
from onehead.aim.verbs.predict import Prediction, finish_prediction, overlaps_of, predict
from onehead.errors import InvalidArgument
from onehead.fields import Parameter, parameters_of

DECLARED = {**parameters_of(Ratio), **PARAMETERS}
SENSITIVITY_PARAMETERS = (
    "alpha", "weight_decay", "noise", "beta", "beta0", "kappa0", "gamma", "width", "kurtosis", "unasked", "fluctuation",
    "sharing", "value_decay",
)  # fmt: skip
# steps in central differences, in units of the parameter or, if it is smaller, of its distance to a bound: their
# relative error is about the square
RELATIVE_STEP = 1e-3
NEWTON_STEPS = 3  # with the Jacobian of the solve; the first is the linear response, the others correct its errors
SOLVE_STEP = 2e-2  # where the equations are solved again on both sides


def sensitivity_parameters(point: Prediction) -> tuple[str, ...]:
    """Continuous parameters on which a prediction depends, and which lie inside their bounds.

    Examples
    --------
    >>> from onehead.aim import Learner, Task, predict
    >>> sensitivity_parameters(predict(Task(noise=0.0), Learner(), 0.5))
    ('alpha', 'weight_decay', 'beta', 'beta0', 'kappa0')
    """
    values = _values(point)
    without = {
        "width": point.learner.width >= 1.0,
        "kurtosis": not point.task.depends_on_kurtosis,
        "fluctuation": not point.task.unasked,
    }
    return tuple(
        name
        for name in SENSITIVITY_PARAMETERS
        if values.get(name) is not None and _room(values[name], DECLARED[name]) > 0.0 and not without.get(name)
    )


def sensitivity(point: Prediction, parameter: str) -> dict[str, float]:
    """Derivatives of the numbers of a prediction by one parameter; see `Prediction.sensitivity`."""
    if parameter not in SENSITIVITY_PARAMETERS:
        raise InvalidArgument("parameter", parameter, " or ".join(SENSITIVITY_PARAMETERS), SENSITIVITY_PARAMETERS)
    value, declared = _values(point).get(parameter), DECLARED[parameter]
    if value is None:
        raise InvalidArgument("parameter", parameter, "one that this task and learner have")
    room = _room(value, declared)
    if value == 0.0:
        allowed = "different from 0" if _bound(declared, "g") < 0.0 else "> 0"
        raise InvalidArgument(
            parameter, "0+" if parameter == "weight_decay" else 0.0, f"{allowed} for a derivative by it"
        )
    if room <= 0.0:
        raise InvalidArgument(parameter, value, "inside its bounds for a derivative by it")
    problem = point.equations
    if point.rank > 0.0 and not problem.directions.count and has_accurate_jacobian(point, problem):
        return _by_linear_system(point, parameter, value, RELATIVE_STEP * room)
    step = SOLVE_STEP * room
    sides = [predict(*_changed(point, parameter, value + sign * step), near=point) for sign in (-1.0, 1.0)]
    return _differences(sides[0], sides[1], 2.0 * step)


def _values(point: Prediction) -> dict[str, float | None]:
    """Values of the parameters at the point, by flat name."""
    values = parameters_from_problem(point.task, point.learner)
    return values | {"alpha": point.alpha, "weight_decay": point.learner.decay}


def _bound(declared: Parameter, direction: str) -> float:
    """Lower ("g") or upper ("l") bound of a parameter."""
    infinite = np.inf if direction == "l" else -np.inf
    return declared.bounds.get(f"{direction}t", declared.bounds.get(f"{direction}e", infinite))


def _room(value: float | None, declared: Parameter) -> float:
    """Size of a parameter or, if it is smaller, the distance to one of its bounds."""
    return 0.0 if value is None else min(abs(value), value - _bound(declared, "g"), _bound(declared, "l") - value)


def _changed(point: Prediction, parameter: str, value: float) -> tuple[Task, Learner, float]:
    """Task, learner and sample ratio with another value of one parameter."""
    if parameter == "alpha":
        return point.task, point.learner, value
    return *changed_problem(point.task, point.learner, {parameter: value}), point.alpha


def _by_linear_system(point: Prediction, parameter: str, value: float, step: float) -> dict[str, float]:
    """Derivatives along the solution curve, whose direction the Jacobian of the solve gives."""
    overlaps = overlaps_of(point.equations, point)
    assert overlaps is not None
    assert point.jacobian is not None
    y = overlaps.coordinates
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
