"""The joint minimum: published figures, the inner problem, the certificate, and training to the minimum."""

import numpy as np
import pytest
from scipy.optimize import minimize
from tests.support.refusals import refusal

from onehead.errors import NotConverged, SolveError
from onehead.sparse import Protocol, Task, bayes, compare, draw, joint, predict, train
from onehead.sparse.losses import LOSSES
from onehead.sparse.solve import joint_minimum as solver
from onehead.sparse.theory.joint.joint_minimum import JointMinimum, JointPoint, _invert
from onehead.sparse.training.minimise import _objective
from onehead.sparse.verbs import joint as module

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


def test_minimum_at_small_ridges_is_that_of_an_independent_implementation():
    """Neither stable nor unique: the numbers are good to a few percent there, and the kind says so."""
    found = joint(STRONG, PLAN.changed(ridge=0.01, ridge_query=0.01), log2_points=8)
    assert found.certificate.kind == "heuristic"
    figures = (1.066, 2.166, 1.411, 2.422, -5.14, 0.0177, 0.0570, 0.0431)
    names = ("overlap_query", "overlap_readout", "norm_query", "norm_readout", "bias", "train_loss", "objective")
    for name, expected in zip((*names, "test_error"), figures, strict=True):
        assert getattr(found, name) == pytest.approx(expected, rel=0.05), name


# A weak signal in a long sequence and a large ridge of the readout: the query stays small, or finds the signal.
TRANSITION = Task(length=27, strength=4.85, positive_rate=0.219)


def _coexistence(ridge_query):
    return Protocol(alpha0=0.79, alpha1=0.79, beta=1.0, ridge=2.05, ridge_query=ridge_query, loss="square")


def test_two_stable_minima_are_both_found_and_training_reaches_either():
    found = joint(TRANSITION, _coexistence(0.4), log2_points=6)
    assert (found.certificate.kind, found.reached_from) == ("claim", "the signal")
    (other,) = found.other_solutions
    assert found.trained is other
    assert other.reached_from == "small weights"
    assert other.objective > found.objective
    assert "another minimum is reached from small weights" in found.certificate.warnings[0]
    assert found.to_dict()["other_solutions"][0]["cos_query"] == other.cos_query
    dim, plan = 200, _coexistence(0.4)
    for start, expected in ((0.0, other.cos_query), (0.6, found.cos_query)):
        sample = draw(TRANSITION, 1, samples=round(1.58 * dim), dim=dim)
        # the query has length 0.04 and 0.6; cosines of a run of this dimension vary by about 0.05
        q = _descend_to_minimum(sample, plan, start * sample.signal)
        assert abs(q @ sample.signal / np.linalg.norm(q) - expected) < 0.15
        assert (np.linalg.norm(q) > 0.3) == (start > 0.0)


def _descend_to_minimum(sample, plan, query):
    """Query at the minimum that L-BFGS reaches from a given query."""
    dim = len(query)

    def value_and_gradient(x):
        value, *gradients = _objective(sample.label, sample.tokens, plan, x[:dim], x[dim:-1], x[-1])
        return value, np.concatenate([np.atleast_1d(part) for part in gradients])

    start = np.concatenate([query, 0.4 * query, [0.0]]) + 1e-3 * np.sin(np.arange(2 * dim + 1))
    return minimize(value_and_gradient, start, jac=True, method="L-BFGS-B").x[:dim]


def test_a_saddle_between_two_minima_is_no_solution():
    """At a larger ridge the aligned minimum is gone; the equations still have a saddle at an overlap of 0.34."""
    equations = JointMinimum(TRANSITION, LOSSES["square"], 6, [0])
    problem = solver.RidgeProblem(1.58, 0.48, 2.05)
    near_saddle = JointPoint(
        np.array([0.334, 0.138]), np.diag([0.018, 0.0053]), np.array([[1.3, 0.1], [0.1, 0.31]]), -0.64
    )
    with pytest.raises(SolveError):
        solver.solve_joint_minimum(equations, problem, near_saddle)
    equations.fields = None
    (only,) = solver.find_minima(equations, problem)
    assert only.point.overlap[0] < 0.05


def test_a_minimum_that_direct_iteration_misses_is_continued_from_larger_ridges():
    task = Task(length=6, signal_tokens=1, strength=3.97, positive_rate=0.47)
    problem = solver.RidgeProblem(0.5, 0.0119, 0.00339)
    equations = JointMinimum(task, LOSSES["logistic"], 5, [0])
    found = solver._continue(equations, problem)
    assert found.residual < solver.TOLERANCE
    again = solver.solve_joint_minimum(equations, problem, found.point)
    assert not again.differs(found)
    assert again.evaluations == 1


def test_equations_that_do_not_converge_say_how_far_they_were_followed(monkeypatch):
    monkeypatch.setattr(solver, "MAX_EVALUATIONS", 3)
    with pytest.raises(NotConverged, match="was not found") as caught:
        joint(Task(length=3), PLAN, log2_points=4)
    assert caught.value.residual > solver.TOLERANCE
    last = solver.solve_joint_minimum

    def stops(equations, problem, start, name=""):
        if problem.ridge < 0.3:
            raise NotConverged("stopped", residual=1.0)
        monkeypatch.setattr(solver, "MAX_EVALUATIONS", 120)
        return last(equations, problem, start, name)

    monkeypatch.setattr(solver, "solve_joint_minimum", stops)
    with pytest.raises(NotConverged, match=r"down to ridge_query = 0\.3.*, ridge = 0\.3.*it is stable"):
        joint(Task(length=3), PLAN, log2_points=4)


def test_a_set_of_points_without_a_solution_is_replaced(monkeypatch):
    """A sample that lies where one of its two inner minima ends has infinite derivatives."""
    solve = module.solve_from_neighbour

    def fails_on_the_second_set(equations, problem, near):
        if equations.seed == [1]:
            raise NotConverged("stopped", residual=1e-3)
        return solve(equations, problem, near)

    monkeypatch.setattr(module, "solve_from_neighbour", fails_on_the_second_set)
    found = joint(Task(length=3), PLAN, log2_points=5)
    assert found.certificate.kind == "heuristic"
    assert "replaced by another" in found.certificate.warnings[-1]


def test_training_is_compared_with_the_joint_minimum():
    task = Task(length=3)
    table = compare(task, PLAN, dims=[40], trials=2, mode="joint")
    expected = joint(task, PLAN)
    assert table.to_rows()[0]["train_loss_theory"] == expected.train_loss
    assert refusal(compare, STRONG, PLAN.changed(ridge_query=0.0), dims=[40], mode="joint").name == "ridge_query"


def test_best_possible_learner_is_better():
    assert bayes(STRONG, 2.0).test_error < joint(STRONG, PLAN, log2_points=6).test_error


def test_what_the_equations_do_not_cover_is_refused():
    assert refusal(joint, STRONG, PLAN.changed(ridge=0.0)).name == "ridge"
    assert refusal(joint, STRONG, PLAN.changed(ridge_query=0.0)).name == "ridge_query"
    assert refusal(joint, STRONG, PLAN.changed(loss="squared-hinge")).name == "loss"
    assert refusal(joint, Task(length=201), PLAN).name == "length"
    assert refusal(joint, STRONG, PLAN.changed(cos_query=0.5, sharpness=1.0)).name == "cos_query"
    assert refusal(joint, STRONG, PLAN, log2_points=3).name == "log2_points"
