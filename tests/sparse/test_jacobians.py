"""Jacobians and gradients of the sparse theory compared with finite differences, and the steps of Newton's method.

Newton's method converges with a wrong Jacobian in more steps, so that every Jacobian is compared with differences here.
"""

import sys

import numpy as np
import pytest

from onehead.sparse import Logistic, Protocol, Square, SquaredHinge, Task, predict
from onehead.sparse.solve import hinge
from onehead.sparse.solve.hinge import first_order_cost
from onehead.sparse.solve.proximal import _averages, _system
from onehead.sparse.solve.separability import _violation
from onehead.sparse.solve.stationarity import _first_guess, _sweeps, newton_refine
from onehead.sparse.theory.features import attention_features
from onehead.sparse.theory.order_parameters import Stationarity

TASK = Task(length=5, signal_tokens=2, strength=2.5, positive_rate=0.35)
FEATURES = attention_features(TASK, cos_query=0.6, sharpness=1.2, log2_points=9, seed=0)
POINTS = np.array([[0.4, 0.7, -0.3, 0.2, -0.5], [-0.2, 1.3, 0.1, -0.6, 0.4], [0.0, 0.3, 0.5, 0.1, 1.2]])


def slopes(function, x, step=1e-5):
    """Central differences of a function, one column for each coordinate."""
    moves = step * np.eye(len(x))
    return np.transpose([(function(x + move) - function(x - move)) / (2.0 * step) for move in moves])


def assert_jacobian(make, u):
    """Central differences: the error is step^2 of the third derivative, and rounding over the step, both below 1e-8.

    The rows of x are divided by rms(h), and the Jacobian leaves out the change of rms, which multiplies the residual;
    1/rms follows from the effect of the ridge on the row of the query.
    """

    def log_rms(u):
        return float(np.log(0.5 * u[0] / (make(0.53)(u)[0][0] - make(0.03)(u)[0][0])))

    residual, jacobian = make(0.03)(u)
    slope = slopes(lambda u: make(0.03)(u)[0], u)
    slope[:3] += np.outer(residual[:3], slopes(log_rms, u))
    assert slope == pytest.approx(jacobian, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("u", POINTS[:2])
def test_hinge_jacobian(u):
    assert_jacobian(lambda ridge: hinge._system(FEATURES, alpha=2.0, ridge=ridge), u)


@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge(), Square()])
@pytest.mark.parametrize("u", POINTS[:2])
def test_proximal_jacobian(u, loss):
    assert_jacobian(lambda ridge: _system(FEATURES, loss, alpha=2.0, ridge=ridge), u)


def test_hard_margin_jacobian(monkeypatch):
    calls = []

    def catch(system, start):
        calls.append((system, start))
        return newton_refine(system, start)

    monkeypatch.setattr(hinge, "newton_refine", catch)
    solution = hinge.solve_hard_margin(FEATURES, alpha=0.8)
    system, _ = calls[0]
    u = np.append(solution.x, [np.log(solution.rp), -1.0])
    found, _, evaluations = newton_refine(system, u)
    # at the solution the residual vanishes, and with it the change of the scale that the rows of x are divided by
    residual, jacobian = system(found)
    assert np.abs(residual).max() < 1e-9
    assert slopes(lambda u: system(u)[0], found) == pytest.approx(jacobian, rel=1e-5, abs=1e-6)
    assert evaluations <= 15


@pytest.mark.parametrize("x", POINTS[:, :3])
def test_gradients_of_the_collapse_cost_and_the_violation(x):
    for function in (lambda x: first_order_cost(FEATURES, x, alpha=2.0), lambda x: _violation(FEATURES, x)):
        # the inner maximum of the first is found to 1e-10, which the envelope theorem squares
        assert slopes(lambda x, f=function: f(x)[0], x) == pytest.approx(function(x)[1], rel=1e-6, abs=1e-7)


def test_newton_from_the_sweeps_needs_few_steps():
    """Quadratic convergence: from an error of about a per cent five full steps reach 1e-9."""
    loss = Logistic()
    equations = Stationarity(
        features=FEATURES,
        alpha=2.0,
        averages=lambda x, rp, chi: _averages(FEATURES, loss, x, rp, chi),
        system=lambda ridge: _system(FEATURES, loss, alpha=2.0, ridge=ridge),
        curvature=0.25,
    )
    near = _sweeps(equations, 0.1, _first_guess(equations, 0.1), 40)
    exact, residual, evaluations = newton_refine(equations.system(0.1), near)
    assert residual < 1e-9
    assert evaluations <= 6
    assert near == pytest.approx(exact, abs=0.02)  # damped by 0.6 per sweep, forty of them


def test_points_are_doubled_only_until_the_accuracy_is_met(monkeypatch):
    """One sample for a modest accuracy, larger ones for a higher one."""
    theory, sizes = sys.modules["onehead.sparse.verbs.predict"], []
    make = theory.attention_features

    def counted(task, *, log2_points, **rest):
        sizes.append(log2_points)
        return make(task, log2_points=log2_points, **rest)

    monkeypatch.setattr(theory, "attention_features", counted)
    protocol = Protocol(cos_query=0.6, sharpness=1.2, alpha1=2.0, ridge=0.05, loss="square")
    modest = predict(TASK, protocol, accuracy=1e-2)
    assert len(sizes) == 1
    assert modest.certificate.quadrature_error <= 1e-2
    sizes.clear()
    strict = predict(TASK, protocol, accuracy=2e-6)
    assert sizes == list(range(sizes[0], sizes[-1] + 1))
    assert len(sizes) > 1
    assert strict.certificate.quadrature_error < modest.certificate.quadrature_error
