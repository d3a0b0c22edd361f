"""Derivatives of a prediction by its parameters, compared with predictions at neighbouring values."""

import json

import pytest

from onehead import aim
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


def test_the_slope_vanishes_at_the_best_weight_decay():
    best = aim.tune(aim.Task(), aim.Learner(), 0.5)
    slope = best.point.sensitivity("weight_decay")["test_error"] * best.weight_decay
    assert abs(slope) < 1e-3 * best.test_error  # log λ is found to 1e-3 where the curvature is about the error


def test_parameters_without_a_derivative_are_refused():
    point = aim.predict(aim.Task(noise=0.0), aim.Learner(weight_decay=0.1), 0.5)
    with pytest.raises(InvalidArgument, match="noise must be > 0 for a derivative by it"):
        point.sensitivity("noise")
    with pytest.raises(InvalidArgument, match=r"did you mean weight_decay\?"):
        point.sensitivity("weightdecay")


@pytest.mark.slow
def test_the_command_adds_derivatives(onehead):
    row = json.loads(onehead("aim", "predict", "--alpha", "0.5", "--sensitivity", "--json").stdout)
    assert set(row["sensitivity"]) == {"alpha", "weight_decay", "noise", "beta", "beta0"}
    slopes = aim.predict(aim.Task(), aim.Learner(), 0.5).sensitivity("alpha")
    assert row["sensitivity"]["alpha"]["test_error"] == pytest.approx(slopes["test_error"], rel=1e-6)
    assert "test_error by alpha" in onehead("aim", "predict", "--alpha", "0.5", "--sensitivity").stdout
    clean = json.loads(onehead("aim", "predict", "--alpha", "0.5", "--noise", "0", "--sensitivity", "--json").stdout)
    assert "noise" not in clean["sensitivity"]
