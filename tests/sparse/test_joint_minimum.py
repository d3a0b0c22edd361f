"""The joint minimum: published figures, the inner problem, the certificate, and training to the minimum."""

import numpy as np
import pytest
from tests.support.refusals import refusal

from onehead.errors import NotConverged
from onehead.sparse import Protocol, Task, bayes, joint, predict, train
from onehead.sparse.losses import LOSSES
from onehead.sparse.solve import joint_minimum as solver
from onehead.sparse.theory.joint.joint_minimum import JointMinimum, JointPoint, _invert

STRONG = Task(length=10, signal_tokens=1, strength=5.0, positive_rate=0.5)
PLAN = Protocol(alpha0=1.0, alpha1=1.0, beta=1.0, ridge=0.1, ridge_query=0.1)
POINT = JointPoint(
    np.array([0.8, 1.2]), np.array([[0.14, 0.1], [0.1, 0.2]]), np.array([[3.8, -1.4], [-1.4, 4.6]]), -3.0
)

ORDER = (
    "overlap_query", "overlap_readout", "norm_query", "norm_readout", "query_readout", "bias", "train_loss",
    "train_error", "test_error", "objective", "stability",
)  # fmt: skip
# task, protocol, figures of an independent implementation (3 x 2^11 points) in the order of ORDER, standard errors
FIGURES = {
    "logistic": (
        STRONG, PLAN,
        (0.8485, 1.2839, 0.9269, 1.3497, 1.151, -3.112, 0.1105, 0.0035, 0.0416, 0.2445, 0.148),
        (7e-4, 9e-4, 5e-4, 9e-4, 2e-3, 2e-3, 1e-4, 3e-4, 1e-4, 1e-4, 1e-3),
    ),
    "square": (
        STRONG, PLAN.changed(ridge_query=0.3, loss="square"),
        (0.3827, 0.7036, 0.4766, 0.8716, 0.2741, -0.9690, 0.0565, 0.0041, 0.0816, 0.1285, 0.286),
        (2e-4, 1e-4, 4e-4, 3e-4, 3e-4, 3e-4, 1e-4, 7e-4, 1e-4, 1e-4, 1e-3),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FIGURES)
def test_order_parameters_are_those_of_an_independent_implementation(name):
    task, protocol, figures, errors = FIGURES[name]
    found = joint(task, protocol, log2_points=8)
    assert (found.certificate.kind, found.switching) == ("claim", 0.0)
    for quantity, expected, error in zip(ORDER, figures, errors, strict=True):
        # four point sets: standard errors (stated with a factor of 1.5) with three degrees of freedom
        assert abs(getattr(found, quantity) - expected) < 4.0 * np.hypot(error, found.errors[quantity]), quantity


def test_inner_problem_is_at_its_minimum_and_its_inverse_is_exact():
    equations = JointMinimum(Task(length=3), LOSSES["logistic"], 4, [0])
    z, inverse_v = equations.means(POINT), np.linalg.inv(POINT.susceptibility)
    r, state = equations._minimise(z, z, inverse_v, POINT.bias)
    rng = np.random.default_rng(1)
    for size in (1e-3, 0.1):
        moved = equations._state(r + size * rng.standard_normal(r.shape), z, inverse_v, POINT.bias)
        assert np.all(moved.objective > state.objective)
    vector, step = rng.standard_normal(r.shape), 1e-5

    def gradient(r):
        state = equations._state(r, z, inverse_v, POINT.bias)
        p = np.stack([state.att * state.deviation, state.att], axis=2)
        return state.h[:, None, None] * p + (r - z) @ inverse_v

    hessian_times = (gradient(r + step * vector) - gradient(r - step * vector)) / (2.0 * step)
    assert _invert(state, inverse_v).apply(hessian_times) == pytest.approx(vector, abs=1e-7)  # rounding over the step


def test_derivatives_of_the_averages():
    """The curvature K and the Newton matrix are derivatives of averages, by central differences in m and b."""
    equations = JointMinimum(Task(length=4), LOSSES["logistic"], 5, [0])
    found = equations.averages(POINT)
    inverse_v, step = np.linalg.inv(POINT.susceptibility), 1e-5
    z = equations.means(POINT)

    def forces(z, bias):
        r, state = equations._minimise(z, z, inverse_v, bias)
        return (r - z) @ inverse_v, state.h

    shift = equations.task.strength * equations.signal[:, :, None]
    for k, direction in enumerate(np.eye(2)):
        up, down = (forces(z + sign * step * shift * direction, POINT.bias) for sign in (1.0, -1.0))
        drift = [np.einsum("n,nli->i", equations.weight, shift * g) for g, _ in (up, down)]
        assert found.newton[:2, k] == pytest.approx(-(drift[0] - drift[1]) / (2.0 * step), abs=1e-6)
        slope = [equations.weight @ h for _, h in (up, down)]
        assert found.newton[2, k] == pytest.approx((slope[0] - slope[1]) / (2.0 * step), abs=1e-6)
    slope = [equations.weight @ forces(z, POINT.bias + sign * step)[1] for sign in (1.0, -1.0)]
    assert found.newton[2, 2] == pytest.approx((slope[0] - slope[1]) / (2.0 * step), abs=1e-6)
    trace = np.zeros((2, 2))
    for token in range(4):
        for k in range(2):
            moved = np.zeros_like(z)
            moved[:, token, k] = step
            g = [forces(z + sign * moved, POINT.bias)[0][:, token] for sign in (1.0, -1.0)]
            trace[:, k] -= equations.weight @ (g[0] - g[1]) / (2.0 * step)
    assert found.curvature == pytest.approx(trace, abs=1e-6)


def test_heavy_query_ridge_gives_the_pooled_model():
    found = joint(STRONG, PLAN.changed(ridge_query=3e4), log2_points=7)
    pooled = predict(STRONG, PLAN.changed(ridge_query=0.0), model="pooled")
    assert abs(found.test_error - pooled.test_error) < 3.0 * found.errors["test_error"] + 1e-4
    assert found.train_loss == pytest.approx(pooled.train_loss, abs=1e-3)


def test_training_reaches_the_minimum():
    """Descents to the minimum at d = 150; norms have finite-size biases of order 1/d."""
    found = joint(STRONG, PLAN, log2_points=8)
    runs = train(STRONG, PLAN, dim=150, trials=4, mode="joint")
    for name in ("train_loss", "cos_query", "sharpness"):
        error = runs.spread[f"{name}_err"]
        assert abs(getattr(runs, name) - getattr(found, name)) < 5.0 * error + 3.0 / 150, name


def test_small_ridges_have_several_minima():
    found = joint(STRONG, PLAN.changed(ridge=0.03, ridge_query=0.03), log2_points=8)
    assert found.stability > 1.0 or found.switching > 0.0
    assert found.certificate.kind == "heuristic"
    assert "several minima" in found.certificate.status
    assert "several minima" in found.certificate.warnings[0]


def test_equations_that_do_not_converge_give_no_prediction(monkeypatch):
    monkeypatch.setattr(solver, "MAX_SWEEPS", 3)
    with pytest.raises(NotConverged, match="several minima compete") as caught:
        joint(STRONG, PLAN, log2_points=4)
    assert caught.value.residual > solver.TOLERANCE


def test_best_possible_learner_is_better():
    assert bayes(STRONG, 2.0).test_error < joint(STRONG, PLAN, log2_points=6).test_error


def test_what_the_equations_do_not_cover_is_refused():
    assert refusal(joint, STRONG, PLAN.changed(ridge=0.0)).name == "ridge"
    assert refusal(joint, STRONG, PLAN.changed(ridge_query=0.0)).name == "ridge_query"
    assert refusal(joint, STRONG, PLAN.changed(loss="squared-hinge")).name == "loss"
    assert refusal(joint, Task(length=201), PLAN).name == "length"
    assert refusal(joint, STRONG, PLAN.changed(cos_query=0.5, sharpness=1.0)).name == "cos_query"
    assert refusal(joint, STRONG, PLAN, log2_points=3).name == "log2_points"
