"""Derivatives of a prediction by its parameters, compared with predictions at neighbouring values."""

import json

import pytest

from onehead import aim
from onehead.aim.flat_parameters import changed_problem, parameters_from_problem
from onehead.aim.verbs.sensitivity import sensitivity_parameters
from onehead.errors import InvalidArgument

HEADS = {
    "tied": (aim.Task(), aim.Learner(weight_decay=0.03), 0.5),
    "cross": (aim.Task(noise=0.2, beta0=1.5, attention="cross"), aim.Learner(weight_decay=0.1, beta=1.2), 1.0),
    "direct": (aim.Task(noise=0.3), aim.Learner(weight_decay=0.1, param="direct"), 0.8),
    "two sectors": (aim.Task(attention="self", mask="causal"), aim.Learner(weight_decay=0.2), 2.0),
}
NUMBERS = ("test_error", "test_error_clean", "train_loss", "rank", "q", "m", "sigma", "q_hat", "m_hat", "sigma_hat")
STEP = 0.02  # relative change of the parameter in the differences, whose error is about its square


def solved_again(head, parameter, factor):
    """Prediction with one parameter multiplied by a factor."""
    task, learner, alpha = head
    if parameter == "alpha":
        return aim.predict(task, learner, alpha * factor)
    if parameter in ("noise", "beta0"):
        return aim.predict(task.changed(**{parameter: getattr(task, parameter) * factor}), learner, alpha)
    return aim.predict(task, learner.changed(**{parameter: getattr(learner, parameter) * factor}), alpha)


@pytest.mark.parametrize("parameter", ["alpha", "weight_decay", "noise", "beta", "beta0"])
@pytest.mark.parametrize("head", ["tied", "cross", "direct"])
def test_derivatives_agree_with_differences_of_solutions(head, parameter):
    task, learner, alpha = HEADS[head]
    values = {"alpha": alpha, "noise": task.noise, "beta0": task.beta0} | {
        name: getattr(learner, name) for name in ("weight_decay", "beta")
    }
    slopes = aim.predict(task, learner, alpha).sensitivity(parameter)
    low, high = (solved_again(HEADS[head], parameter, factor) for factor in (1.0 - STEP, 1.0 + STEP))
    distance = 2.0 * STEP * values[parameter]
    for name in NUMBERS:
        difference = (getattr(high, name) - getattr(low, name)) / distance
        errors = (high.errors.get(name, 0.0) + low.errors.get(name, 0.0)) / distance
        scale = abs(getattr(high, name) / values[parameter])  # of a derivative
        # truncation of the differences, twice the error of each solution
        assert slopes[name] == pytest.approx(difference, abs=2.0 * errors + 4.0 * STEP**2 * scale), name


def test_heads_without_a_jacobian_are_solved_again():
    head = HEADS["two sectors"]
    point = aim.predict(*head)
    assert point.jacobian is None
    low, high = (solved_again(head, "alpha", factor) for factor in (0.98, 1.02))
    slope = (high.test_error - low.test_error) / (0.04 * head[2])
    assert point.sensitivity("alpha")["test_error"] == pytest.approx(slope, rel=0.02)


SEVERAL = aim.Task(attention="cross", heads=2, sharing=0.5)


@pytest.mark.parametrize(
    ("parameter", "task", "learner", "alpha"),
    [
        ("kappa0", aim.Task(), aim.Learner(weight_decay=0.03), 0.5),
        ("kappa0", aim.Task(attention="cross"), aim.Learner(weight_decay=0.05), 1.0),
        ("gamma", aim.Task(target=aim.PowerLaw(gamma=0.75, dim=40)), aim.Learner(weight_decay=0.05, leading=0), 0.5),
        ("width", aim.Task(), aim.Learner(width=0.4), 0.5),
        ("kurtosis", aim.Task(kurtosis=2.0), aim.Learner(), 0.5),
        ("unasked", aim.Task(attention="cross", unasked=0.9), aim.Learner(weight_decay=0.05), 1.0),
        ("fluctuation", aim.Task(attention="cross", unasked=0.5, fluctuation=0.7), aim.Learner(weight_decay=0.05), 1.0),
        ("sharing", SEVERAL, aim.Learner(weight_decay=0.05), 1.0),
        ("value_decay", SEVERAL, aim.Learner(weight_decay=0.05, values="learnt", value_decay=0.03), 1.0),
    ],
)
def test_every_continuous_parameter_has_a_derivative(parameter, task, learner, alpha):
    point = aim.predict(task, learner, alpha)
    assert parameter in sensitivity_parameters(point)
    slopes = point.sensitivity(parameter)
    value = parameters_from_problem(task, learner)[parameter]
    step = 0.01 * min(value, 1.0 - value if parameter == "unasked" else value)
    low, high = (
        aim.predict(*changed_problem(task, learner, {parameter: value + sign * step}), alpha) for sign in (-1.0, 1.0)
    )
    for name in ("test_error", "rank", "q"):
        difference = (getattr(high, name) - getattr(low, name)) / (2.0 * step)
        errors = (high.errors.get(name, 0.0) + low.errors.get(name, 0.0)) / (2.0 * step)
        scale = abs(getattr(high, name) / value)  # of a derivative
        # truncation of both differences, whose steps are at most 2 % of the parameter; error of each solution
        assert slopes[name] == pytest.approx(difference, abs=2.0 * errors + 4.0 * STEP**2 * scale, rel=0.01), name


def test_the_slope_vanishes_at_the_best_weight_decay():
    best = aim.tune(aim.Task(), aim.Learner(), 0.5)
    slope = best.point.sensitivity("weight_decay")["test_error"] * best.weight_decay
    assert abs(slope) < 1e-3 * best.test_error  # log λ is found to 1e-3 where the curvature is about the error


def test_parameters_without_a_derivative_are_refused():
    point = aim.predict(aim.Task(noise=0.0), aim.Learner(weight_decay=0.1), 0.5)
    with pytest.raises(InvalidArgument, match="noise must be > 0 for a derivative by it"):
        point.sensitivity("noise")
    with pytest.raises(InvalidArgument, match="parameter must be one that this task and learner have; got 'gamma'"):
        point.sensitivity("gamma")
    edge = aim.predict(aim.Task(attention="cross", heads=2, sharing=0.95), aim.Learner(weight_decay=0.1), 1.0)
    with pytest.raises(InvalidArgument, match=r"sharing must be inside its bounds for a derivative by it; got 0\.95"):
        edge.sensitivity("sharing")
    assert "sharing" not in sensitivity_parameters(edge) and "kappa0" in sensitivity_parameters(edge)
    with pytest.raises(InvalidArgument, match=r"did you mean weight_decay\?"):
        point.sensitivity("weightdecay")


@pytest.mark.slow
def test_the_command_adds_derivatives(onehead):
    row = json.loads(onehead("aim", "predict", "--alpha", "0.5", "--sensitivity", "--json").stdout)
    assert set(row["sensitivity"]) == {"alpha", "weight_decay", "noise", "beta", "beta0", "kappa0"}
    slopes = aim.predict(aim.Task(), aim.Learner(), 0.5).sensitivity("alpha")
    assert row["sensitivity"]["alpha"]["test_error"] == pytest.approx(slopes["test_error"], rel=1e-6)
    assert "test_error by alpha" in onehead("aim", "predict", "--alpha", "0.5", "--sensitivity").stdout
    clean = json.loads(onehead("aim", "predict", "--alpha", "0.5", "--noise", "0", "--sensitivity", "--json").stdout)
    assert "noise" not in clean["sensitivity"]
