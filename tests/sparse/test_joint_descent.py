"""Joint descent: forces and Hessians, order parameters against published figures and against training on tokens."""

import numpy as np
import pytest
from tests.support.refusals import refusal

from onehead.errors import Diverged
from onehead.sparse import Protocol, Task, align, bayes, descend, train
from onehead.sparse.losses import LOSSES
from onehead.sparse.solve.descent import STEP_QUANTITIES, Plan, solve_trajectory
from onehead.sparse.solve.joint_error import joint_test_error
from onehead.sparse.theory.joint.attention_forces import JointWeights, block_trace, forces, semidefinite_root, slopes
from onehead.sparse.theory.joint.descent_kernels import _hessian_product
from onehead.sparse.theory.joint.descent_rates import rates_of
from onehead.sparse.theory.joint.descent_samples import descent_sample
from onehead.sparse.theory.joint.same_data import same_data_states
from onehead.sparse.training.joint_descent import descent_run

STRONG = Task(length=10, signal_tokens=1, strength=5.0, positive_rate=0.5)
RARE = Task(length=6, signal_tokens=2, strength=3.0, positive_rate=0.3)
EARLY = Protocol(alpha0=1.0, alpha1=1.0, beta=1.0, eta_q=1.0, eta_w=0.5, eta_b=3.0, ridge=0.1, ridge_query=0.03)


def test_forces_are_minus_the_gradient_and_the_hessian_is_its_derivative():
    """Central differences of the loss of one sample by its fields."""
    rng = np.random.default_rng(0)
    length, label, bias, loss = 5, np.array([-1.0]), 0.3, LOSSES["logistic"]
    fields = rng.standard_normal((2, length))

    def attention(fields):
        att = np.exp(fields[0] - fields[0].max())
        att /= att.sum()
        ubar = att @ fields[1]
        return att, fields[1] - ubar, ubar

    def value(fields):
        return float(loss.value(label * (attention(fields)[2] + bias))[0])

    def force(fields):
        att, deviation, ubar = attention(fields)
        return forces(att[None], deviation[None], slopes(loss, label, np.array([ubar + bias])).h)[0]

    def difference(function, direction, step=1e-5):
        return (function(fields + step * direction) - function(fields - step * direction)) / (2.0 * step)

    units = np.eye(2 * length).reshape(-1, 2, length)
    gradient = np.array([difference(value, unit) for unit in units]).reshape(2, length)
    assert force(fields) == pytest.approx(-gradient, abs=1e-9)  # rounding over the step
    att, deviation, ubar = attention(fields)
    _, h, c = slopes(loss, label, np.array([ubar + bias]))
    direction, out = rng.standard_normal((2, length)), np.empty((2, length))
    _hessian_product(att, deviation, h[0], c[0], direction, out)
    assert out == pytest.approx(difference(force, direction), abs=1e-9)
    trace = np.zeros((2, 2))
    for component in range(2):
        for token in range(length):
            unit = units[component * length + token]
            _hessian_product(att, deviation, h[0], c[0], unit, out)
            trace[:, component] -= out[:, token]
    assert block_trace(att[None], deviation[None], h, c)[0] == pytest.approx(trace)


def test_root_of_a_singular_covariance():
    """A vector that is zero, or a multiple of an earlier one, adds a zero pivot."""
    rows = np.array([[0.0, 0.0], [1.0, 2.0], [2.0, 4.0], [1.0, 0.0]])
    gram = rows @ rows.T
    root = semidefinite_root(gram)
    assert root @ root.T == pytest.approx(gram)
    assert root[0, 0] == root[2, 2] == 0.0
    assert semidefinite_root(gram, semidefinite_root(gram[:2, :2])) == pytest.approx(root)


def test_test_error_of_given_weights_is_that_of_sampled_sequences():
    """Order parameters against two random weight vectors applied to sampled fields."""
    rng = np.random.default_rng(3)
    overlap, gram, bias = np.array([0.8, 0.7]), np.array([[0.9, 0.6], [0.6, 0.8]]), -1.2
    root = np.linalg.cholesky(gram)
    samples = 200_000
    label = np.where(rng.random(samples) < 0.5, 1.0, -1.0)
    fields = np.einsum("ij,njl->nil", root, rng.standard_normal((samples, 2, 10)))
    fields[label > 0.0, :, 0] += 5.0 * overlap
    att = np.exp(fields[:, 0])
    att /= att.sum(axis=1, keepdims=True)
    wrong = np.mean(label * ((att * fields[:, 1]).sum(axis=1) + bias) < 0.0)
    predicted = joint_test_error(STRONG, JointWeights(overlap, gram, bias))
    # standard error of a share of about 0.04, and the quadrature error of 2^12 points
    assert abs(wrong - predicted) < 4.0 * np.sqrt(predicted / samples) + 5e-4


def numbers(found):
    return np.array(
        [
            found.overlap_query,
            found.overlap_readout,
            found.norm_query,
            found.norm_readout,
            found.query_readout,
            found.bias,
            found.train_loss,
            found.train_error,
            found.test_error,
        ]
    )


ORDER = (
    "overlap_query", "overlap_readout", "norm_query", "norm_readout", "query_readout", "bias", "train_loss",
    "train_error", "test_error",
)  # fmt: skip

# task, protocol, arguments, step, figures of an independent implementation in the order of ORDER, their standard errors
FIGURES = {
    "same data, logistic": (
        STRONG, EARLY, {}, 10,
        (0.84075, 0.76807, 0.90742, 0.84705, 0.61901, -1.48151, 0.23105, 0.0074, 0.02511),
        (42e-5, 13e-5, 42e-5, 13e-5, 43e-5, 10e-5, 4e-5, 2e-4, 1e-4),
    ),
    "same data, rare positives": (
        RARE, EARLY.changed(alpha0=0.5, alpha1=0.5, eta_q=2.0, eta_w=2.0, eta_b=2.0, ridge=0.01, ridge_query=0.01),
        {}, 8,
        (0.4135, 1.3413, 1.2008, 2.0872, -0.419, -1.3203, 0.0735, 0.0, 0.1555),
        (14e-4, 8e-4, 22e-4, 19e-4, 8e-3, 5e-4, 1e-4, 1e-4, 3e-4),
    ),
    "same data, square": (
        STRONG, EARLY.changed(loss="square", eta_q=0.3, eta_w=0.3, eta_b=0.3, ridge=0.05, ridge_query=0.0), {}, 8,
        (0.3487, 0.4495, 0.3893, 0.5893, 0.1257, -0.3, 0.1738, 0.029, 0.1007),
        (2e-4, 2e-4, 2e-4, 1e-4, 2e-4, 1e-4, 6e-4, 2e-3, 1e-4),
    ),
    "fresh batches, logistic": (
        STRONG, EARLY.changed(eta_w=1.0, eta_b=2.0, ridge=0.0, ridge_query=0.0), {"batch": "fresh"}, 12,
        (0.9050, 1.1578, 1.0800, 1.3400, 0.8247, -1.9651, None, None, 0.02864),
        (9e-4, 2e-4, 11e-4, 2e-4, 10e-4, 2e-4, None, None, 1e-4),
    ),
    "fresh batches, square": (
        RARE, EARLY.changed(loss="square", eta_q=0.3, eta_w=0.3, eta_b=0.3, ridge=0.0, ridge_query=0.0),
        {"batch": "fresh", "batch_ratio": 0.25}, 20,
        (0.3958, 0.7223, 0.6228, 0.8771, 0.2278, -0.9208, None, None, 0.0783),
        (11e-4, 3e-4, 5e-4, 4e-4, 7e-4, 3e-4, None, None, 1e-4),
    ),
    "one-pass SGD": (
        STRONG, EARLY.changed(alpha0=2.0, alpha1=2.0, eta_q=2.0, eta_w=2.0, eta_b=4.0, ridge=0.0, ridge_query=0.0),
        {"batch": "one-pass"}, 4,
        (0.7964, 0.9672, 0.9068, 1.1091, 0.6655, -1.427, None, None, 0.0328),
        (5e-4, 5e-4, 5e-4, 5e-4, 5e-4, 5e-4, None, None, 2e-4),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FIGURES)
def test_order_parameters_are_those_of_an_independent_implementation(name):
    task, protocol, options, step, figures, spread = FIGURES[name]
    found = descend(task, protocol, steps=step, **options).after(step)
    for quantity, value, expected, error in zip(ORDER, numbers(found), figures, spread, strict=True):
        if expected is not None:
            # three times both standard errors; ours are stated with a factor of 1.5
            assert abs(value - expected) < 3.0 * np.hypot(error, found.errors[quantity]), quantity


def test_first_step_is_known_exactly():
    """<w, xi> = eta_w c0 pi theta R/L, |w|^2 adds (eta_w c0)^2/(alpha_b L), and the bias stays at zero at pi = 1/2."""
    plan = EARLY.changed(eta_w=1.0, eta_b=2.0, ridge=0.0, ridge_query=0.0)
    found = descend(STRONG, plan, steps=1, batch="fresh", batch_ratio=0.5)
    assert (found.overlap_readout, found.norm_readout**2) == pytest.approx((0.125, 0.065625))
    assert (found.norm_query, found.bias) == pytest.approx((0.0, 0.0), abs=1e-12)


@pytest.mark.parametrize("loss", ["logistic", "square"])
def test_two_steps_are_a_schedule(loss):
    """Readout first, then query, is the protocol of `align`."""
    plan = Protocol(alpha0=1.0, alpha1=1.0, beta=1.0, loss=loss)
    steps = align(STRONG, plan.changed(alpha0=2.0))
    found = descend(STRONG, plan.changed(ridge=0.0), steps=2, schedule=[(0.0, 0.5, 0.5), (1.0, 0.0, 0.0)]).after(2)
    exact = (steps.overlap_query, steps.norm_query, steps.query_readout)
    for value, name, expected in zip(
        (found.overlap_query, found.norm_query, found.query_readout),
        ("overlap_query", "norm_query", "query_readout"),
        exact,
        strict=True,
    ):
        assert abs(value - expected) < 3.0 * found.errors[name] + 1e-6


def test_temperature_enters_through_rate_and_ridge():
    """beta = 2 with a quarter of the query rate and four times its ridge is beta = 1 with a query twice as long."""
    found = descend(STRONG, EARLY, steps=5)
    scaled = descend(STRONG, EARLY.changed(beta=2.0, eta_q=0.25, ridge_query=0.12), steps=5)
    assert scaled.test_error == pytest.approx(found.test_error)
    assert scaled.sharpness == pytest.approx(found.sharpness)
    assert 2.0 * scaled.norm_query == pytest.approx(found.norm_query)


@pytest.mark.parametrize(
    ("task", "protocol", "plan", "dim", "trials"),
    [
        (STRONG, EARLY, Plan(9), 400, 4),
        (RARE, EARLY.changed(alpha0=0.5, alpha1=0.5, eta_q=2.0, eta_w=2.0, eta_b=2.0), Plan(6), 500, 6),
        (STRONG, EARLY.changed(loss="square", eta_q=0.3, eta_w=0.3, eta_b=0.3), Plan(8), 400, 4),
        (STRONG, EARLY.changed(loss="squared-hinge", eta_q=0.4, eta_w=0.3, eta_b=1.0), Plan(8), 400, 4),
        (STRONG, EARLY, Plan(6, schedule=[(0.0, 1.0, 4.0), (4.0, 0.0, 1.0), (1.0, 0.5, 2.0)]), 400, 4),
        (STRONG, EARLY.changed(eta_w=1.0, eta_b=2.0), Plan(6, "fresh", 0.5), 400, 4),
        (STRONG, EARLY.changed(eta_q=2.0, eta_w=2.0, eta_b=4.0), Plan(2, "one-pass"), 400, 4),
    ],
    ids=["logistic", "rare positives", "square", "squared hinge", "schedule", "fresh batches", "one-pass SGD"],
)
def test_theory_agrees_with_training_on_tokens(task, protocol, plan, dim, trials):
    theory = descend(task, protocol, **plan._asdict()).after(plan.steps)
    runs = np.array(
        [list(descent_run(task, protocol, plan, dim, np.random.default_rng([5, trial])))[-1] for trial in range(trials)]
    )
    for name in ("train_loss", "cos_query", "norm_query", "norm_readout", "bias"):
        column = runs[:, STEP_QUANTITIES.index(name)]
        error = column.std(ddof=1) / np.sqrt(trials)
        predicted = getattr(theory, name)
        # Student's law with 3 degrees of freedom exceeds 6 standard errors once in a hundred; finite size adds O(1/d)
        assert abs(column.mean() - predicted) < 6.0 * error + 10.0 / dim * abs(predicted), name


def test_random_initial_weights_have_a_memory():
    """Initial weights of length 1/2, orthogonal to the signal; figures of an independent implementation."""
    sample = descent_sample(10, 7, 11, [0])
    states = list(same_data_states(STRONG, EARLY.loss, rates_of(EARLY, 6), 2.0, sample, initial=0.25 * np.eye(2)))
    # training at d = 400: 0.6118(119) and 0.7951(52)
    assert states[6].weights.overlap[0] == pytest.approx(0.6123, abs=0.006)
    assert np.sqrt(states[6].weights.gram[0, 0]) == pytest.approx(0.7948, abs=0.006)


def test_stopping_early_is_better_than_going_on():
    found = descend(STRONG, EARLY, steps=16)
    assert found.best_step == 9
    assert found.last_test_error > 1.15 * found.test_error
    assert found.steps[-1].cos_query < found.cos_query  # the query is overfitted
    assert found.steps[-1].train_loss < found.train_loss
    assert "stop in time" in " ".join(found.explain().split())


def test_stated_errors_of_the_test_error_hold():
    """The test error at the found weights, on many more points than the descent takes."""
    task = Task(length=10, strength=3.0)
    found = descend(task, EARLY.with_alpha(4.0), steps=7).after(7)
    gram = np.array([[found.norm_query**2, found.query_readout], [found.query_readout, found.norm_readout**2]])
    weights = JointWeights(np.array([found.overlap_query, found.overlap_readout]), gram, found.bias)
    expected = np.mean([joint_test_error(task, weights, log2_points=14, seed=seed) for seed in (21, 22, 23)])
    assert abs(found.test_error - expected) < 2.0 * found.errors["test_error"]


def test_stated_errors_hold_at_large_rates():
    """Derivatives through many steps have long tails there; four times the points are the reference."""
    protocol = EARLY.changed(alpha0=0.5, alpha1=0.5, eta_q=2.0, eta_w=2.0, eta_b=2.0, ridge=0.01, ridge_query=0.01)
    coarse, fine = (solve_trajectory(RARE, protocol, Plan(8), points) for points in (9, 11))
    for step in range(1, 8):  # the first step is exact
        for name in ("test_error", "train_loss", "cos_query", "cos_readout", "norm_query", "norm_readout", "bias"):
            column = STEP_QUANTITIES.index(name)
            gap = abs(coarse.means[step, column] - fine.means[step, column])
            error = np.hypot(coarse.errors[step, column], fine.errors[step, column])
            assert gap < 3.0 * error + 1e-9, (step, name)


def test_best_possible_learner_is_better_than_every_step():
    for alpha in (0.5, 2.0):
        found = descend(STRONG, EARLY.with_alpha(alpha), steps=12)
        assert bayes(STRONG, alpha).test_error < found.test_error


def test_rates_that_are_too_large_are_reported():
    found = descend(STRONG, EARLY.changed(eta_q=1.0, eta_w=1.0, eta_b=1.0, loss="square"), steps=12)
    assert found.unstable_step is not None
    assert found.certificate.status == f"unstable from step {found.unstable_step} on"
    assert any("training loss rises" in text for text in found.certificate.warnings)
    assert all(np.isfinite(step.test_error) for step in found.steps)
    with pytest.raises(Diverged, match="lower the rates"):
        descend(STRONG, EARLY.changed(eta_w=1e12), steps=1)


def test_training_takes_the_same_steps():
    """`train` in joint mode with steps is compared with `descend` of the same protocol."""
    runs = train(STRONG, EARLY, dim=300, trials=4, mode="joint", steps=9)
    found = descend(STRONG, EARLY, steps=9)
    assert {item.quantity: item.verdict for item in runs.against(found)}["test_error"].startswith("agrees")
    assert runs.steps == 9


def test_accuracy_is_met():
    coarse, fine = descend(STRONG, EARLY, steps=4), descend(STRONG, EARLY, steps=4, accuracy=5e-4)
    assert fine.errors["test_error"] <= 5e-4 * fine.test_error
    assert abs(fine.test_error - coarse.test_error) < 3.0 * coarse.errors["test_error"]


def test_progress_is_reported_after_every_step():
    calls = []
    descend(STRONG, EARLY, steps=3, progress=lambda: calls.append(1))
    assert len(calls) == 3 * 8


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"steps": 0}, "steps"),
        ({"steps": 201}, "steps"),
        ({"batch": "other"}, "batch"),
        ({"batch_ratio": 0.0}, "batch_ratio"),
        ({"batch_ratio": 0.25}, "batch_ratio"),
        ({"batch_ratio": 0.25, "batch": "one-pass"}, "batch_ratio"),
        ({"schedule": [(1.0, 2.0)]}, "schedule"),
        ({"schedule": [(1.0, -2.0, 1.0)]}, "schedule"),
        ({"schedule": "fast"}, "schedule"),
        ({"schedule": [(1.0, 1.0, 1.0)], "batch": "one-pass"}, "schedule"),
        ({"accuracy": 0.0}, "accuracy"),
    ],
)
def test_invalid_plans_are_refused(options, name):
    assert refusal(descend, STRONG, EARLY, **options).name == name


def test_what_the_theory_does_not_cover_is_refused():
    assert refusal(descend, STRONG, EARLY.changed(loss="hinge")).name == "loss"
    assert refusal(descend, STRONG, EARLY.changed(cos_query=0.5, sharpness=1.0)).name == "cos_query"
    assert refusal(descend, Task(length=10**6), EARLY).name == "length"
    assert refusal(align, STRONG, EARLY).name == "ridge_query"
    assert refusal(train, STRONG, EARLY, dim=30, trials=1).name == "ridge_query"
    assert refusal(train, STRONG, Protocol(), dim=30, trials=1, steps=2).name == "steps"
    assert refusal(descend(STRONG, EARLY, steps=2).after, 3).name == "step"
