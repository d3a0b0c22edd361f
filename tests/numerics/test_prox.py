"""The batched Newton prox against closed forms, against scipy, and on hard points."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize
from tests.support.proximal_points import prox

from onehead.aim.logits.geometry import tied_geometry
from onehead.aim.losses import CrossEntropy, Squared
from onehead.errors import NotConverged
from onehead.numerics.cholesky import factorise, saddle_free, saddle_free_pair, solve_factored
from onehead.numerics.newton import KICK, LONGEST
from onehead.numerics.prox import compile_row


@compile_row
def parabola(x, label, gradient, hessian):
    total = 0.0
    for i in range(x.shape[0]):
        gradient[i] = x[i] - label[i]
        total += 0.5 * gradient[i] ** 2
        for j in range(x.shape[0]):
            hessian[i, j] = 1.0 if i == j else 0.0
    return total


@compile_row
def stuck(x, label, gradient, hessian):
    gradient[0], hessian[0, 0] = 1.0, 1.0  # a slope that never vanishes: not the derivative of the value
    return 0.0


def test_quadratic_loss_has_a_closed_form():
    rng = np.random.default_rng(0)
    n, step = 3, 0.7
    root = rng.normal(size=(n, n))
    metric = root @ root.T + np.eye(n)
    centre, label = rng.normal(size=(50, n)), rng.normal(size=(50, 1, n))
    found = prox(parabola, np.arange(n)[None, :], metric, step, centre, label, np.zeros((50, n)))
    exact = np.linalg.solve(metric / step + np.eye(n), (centre @ metric / step + label[:, 0]).T).T
    assert np.allclose(found.u, exact, atol=1e-12)
    assert found.gradient_norm.max() < 1e-9


@pytest.mark.parametrize("tokens", [2, 3, 4])
@pytest.mark.parametrize("channel", [Squared(), CrossEntropy()])
@pytest.mark.parametrize("step", [0.3, 5.0, 300.0])
def test_against_scipy_from_the_same_start(tokens, channel, step):
    shape = tied_geometry(tokens).blocks[0]
    rng = np.random.default_rng(tokens)
    target, centre = rng.normal(size=(2, 6, shape.dim)) * 1.5
    label = np.empty((6, tokens, tokens))
    for i, u in enumerate(target):
        logits = np.where(shape.select >= 0, u[shape.select], 0.0)
        label[i] = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    found = prox(channel.compiled, shape.select, shape.metric, step, centre, label, target)

    def objective(u, i):
        gradient, hessian = np.empty(tokens), np.empty((tokens, tokens))
        logits = np.where(shape.select >= 0, u[shape.select], 0.0)
        loss = sum(channel.compiled(logits[a].copy(), label[i, a], gradient, hessian) for a in range(tokens))
        return loss + 0.5 * (u - centre[i]) @ shape.metric @ (u - centre[i]) / step

    for i in range(6):
        reference = optimize.minimize(objective, found.u[i], args=(i,), method="Nelder-Mead", options={"fatol": 1e-15})
        # a local minimum: nothing nearby is lower than rounding
        assert found.value[i] <= reference.fun + 1e-10
        assert found.value[i] == pytest.approx(objective(found.u[i], i), rel=1e-12)
        assert found.value[i] <= objective(target[i], i) + 1e-12


def test_badly_scaled_points_converge():
    # labels saturated to 1e-6: the curvature of one coordinate is a millionth of the other's
    shape = tied_geometry(2).blocks[0]
    rng = np.random.default_rng(1)
    target = np.column_stack([rng.normal(size=400), rng.uniform(4.0, 9.0, 400)])
    centre = target + rng.normal(size=(400, 2)) * 4.0
    label = np.empty((400, 2, 2))
    label[:, 0, 0] = 1.0 / (1.0 + np.exp(-target[:, 0]))
    label[:, 1, 1] = 1.0 / (1.0 + np.exp(-target[:, 1]))
    label[:, 0, 1], label[:, 1, 0] = 1.0 - label[:, 0, 0], 1.0 - label[:, 1, 1]
    found = prox(Squared().compiled, shape.select, shape.metric, 1e5, centre, label, target)
    assert found.gradient_norm.max() < 1e-6


def test_a_point_that_does_not_converge_is_named():
    with pytest.raises(NotConverged, match="point 0"):
        prox(
            stuck, np.zeros((1, 1), dtype=int), np.eye(1), 1.0, np.zeros((2, 1)), np.zeros((2, 1, 1)), np.zeros((2, 1))
        )


number = st.floats(-3.0, 3.0)


@given(st.floats(-4.0, 0.5), number, st.floats(-4.0, 0.5), number, number)
def test_the_step_off_a_saddle_is_the_same_in_two_codes_and_goes_downhill(h0, off, h1, g0, g1):
    """One code takes eigenvectors from LAPACK, the other writes them down for two coordinates."""
    hessian, gradient, move = np.array([[h0, off], [off, h1]]), np.array([g0, g1]), np.empty(2)
    values = np.linalg.eigvalsh(hessian)
    # where the eigenvalues or the slopes nearly vanish the direction itself is undetermined
    if values[1] - values[0] < 1e-3 or np.abs(values).min() < 1e-6 or np.abs(gradient).max() < 1e-3:
        return
    saddle_free(hessian, gradient, move)
    pair = np.array(saddle_free_pair(h0, off, h1, g0, g1))
    along = gradient @ np.linalg.eigh(hessian)[1]
    if np.abs(along).min() > 1e-6:
        assert pair == pytest.approx(move, rel=1e-6, abs=1e-9)
    assert gradient @ pair <= 1e-12
    assert np.abs(pair).max() <= LONGEST * (1.0 + 1e-12)


def test_the_step_off_a_saddle_in_its_own_axes():
    """With a diagonal Hessian: every coordinate moves by slope over size of curvature, the lowest by KICK at least."""
    move = np.empty(3)
    saddle_free(np.diag([-2.0, 1.0, 4.0]), np.array([1.0, 1.0, 1.0]), move)
    assert move == pytest.approx([-0.5, -1.0, -0.25])
    saddle_free(np.diag([-2.0, 1.0, 4.0]), np.array([1e-9, 1.0, 0.0]), move)
    assert move == pytest.approx([-KICK, -1.0, 0.0])
    saddle_free(np.diag([-2.0, 1.0, 4.0]), np.array([0.0, 200.0, 100.0]), move)
    assert move == pytest.approx(np.array([KICK, -200.0, -25.0]) * LONGEST / 200.0)
    assert saddle_free_pair(-2.0, 0.0, 1.0, 1.0, 1.0) == pytest.approx([-0.5, -1.0])
    assert saddle_free_pair(1.0, 0.0, -2.0, 1.0, -1e-9) == pytest.approx([-1.0, KICK])
    assert np.abs(saddle_free_pair(-1.0, 0.0, 1.0, -100.0, 50.0)) == pytest.approx([LONGEST, LONGEST / 2.0])
    # a multiple of the identity has no axes of its own
    assert saddle_free_pair(-2.0, 0.0, -2.0, 1.0, 3.0) == pytest.approx([-0.5, -1.5])


def test_factors_solve_and_refuse_what_is_not_positive():
    rng = np.random.default_rng(3)
    root = rng.normal(size=(5, 5))
    matrix, factor = root @ root.T + np.eye(5), np.empty((5, 5))
    assert factorise(matrix, factor)
    x = np.arange(1.0, 6.0)
    solve_factored(factor, x)
    assert matrix @ x == pytest.approx(np.arange(1.0, 6.0), rel=1e-10)
    assert not factorise(np.diag([1.0, 2.0, -1.0]), np.empty((3, 3)))
    assert not factorise(np.array([[1.0, 1.0], [1.0, 1.0 + 1e-9]]), np.empty((2, 2)))
