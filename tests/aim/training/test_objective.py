"""Training objective: gradients against finite differences, equalities between parametrisations, and the minimisers."""

from itertools import product

import numpy as np
import pytest

from onehead.aim.losses import LOSSES, CrossEntropy, Squared
from onehead.aim.task import Task
from onehead.aim.training.data import Samples, Tokens
from onehead.aim.training.logits import Rows, map_gradient, map_logits
from onehead.aim.training.objective import Objective, OutputLoss
from onehead.aim.training.parametrisation import Direct, DirectUntied, Factorised, ThresholdedUntied, Untied
from onehead.errors import InvalidArgument
from onehead.numerics.minimise import adam, lbfgs, stationarity

DIM = 9
WEIGHTS = {
    "full": Factorised(DIM, DIM),
    "narrow": Factorised(DIM, 3),
    "wide": Factorised(DIM, 14),
    "two heads": Factorised(DIM, 6, heads=2),
    "untied": Untied(DIM, 5),
    "untied heads": Untied(DIM, 5, heads=3),
    "direct": Direct(DIM),
    "direct heads": Direct(DIM, heads=2),
    "direct untied": DirectUntied(DIM),
    "direct untied heads": DirectUntied(DIM, heads=2),
}
TIED = ("full", "narrow", "direct", "two heads")
UNTIED = {
    "narrow": Untied(DIM, 3),
    "full": Untied(DIM, DIM),
    "wide": Untied(DIM, 12),
    "heads": Untied(DIM, 4, heads=2),
    "direct untied": DirectUntied(DIM),
}
CASES = [("squared", "label"), ("cross-entropy", "label"), ("squared", "sequence")]


def data(tokens=3, count=40, dtype=np.float64, memory=4e9, **head):
    task = Task(tokens=tokens, noise=0.3, **head)
    return Samples(
        task=task,
        target=task.target.draw(DIM, np.random.default_rng(0), tied=task.tied),
        count=count,
        law=Tokens(),
        seed=np.random.SeedSequence(2),
        dtype=dtype,
        memory=memory,
    )


def objective(weights, loss="squared", output="label", samples=None, decay=0.02):
    samples = samples or data()
    output_loss = OutputLoss(loss=loss, beta=1.3, output=output, visible=samples.task.visible)
    return Objective(samples=samples, weights=weights, loss=output_loss, decay=decay)


class UserSquared(Squared):
    """The squared loss under another name, so that it is handled as a loss of the user."""

    name = "user squared"


class UserCrossEntropy(CrossEntropy):
    """Cross-entropy under another name, so that it is handled as a loss of the user."""

    name = "user cross-entropy"


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize(("loss", "output"), CASES)
def test_gradient_matches_finite_differences(name, loss, output):
    check_gradient(WEIGHTS[name], objective(WEIGHTS[name], loss, output))


@pytest.mark.parametrize("attention", ["tied", "self", "cross"])
@pytest.mark.parametrize("mask", ["none", "causal", "strict"])
@pytest.mark.parametrize("labels", ["soft", "hard"])
def test_gradient_matches_finite_differences_for_every_head(attention, mask, labels):
    samples = data(tokens=4, attention=attention, mask=mask, labels=labels)
    parametrisations = [WEIGHTS[name] for name in TIED] if attention == "tied" else UNTIED.values()
    losses = ["cross-entropy", UserCrossEntropy()] if labels == "hard" else ["squared", "cross-entropy", UserSquared()]
    for weights, loss in product(parametrisations, losses):
        if weights.heads == 1 or isinstance(loss, str):
            check_gradient(weights, objective(weights, loss, samples=samples))
    if labels == "soft":
        for weights in parametrisations:
            check_gradient(weights, objective(weights, "squared", "sequence", samples=samples))


def check_gradient(weights, function):
    rng = np.random.default_rng(1)
    theta, step = weights.start(rng), 1e-5
    _, gradient = function(theta)
    for _ in range(3):
        move = rng.standard_normal(weights.size)
        numeric = (function(theta + step * move)[0] - function(theta - step * move)[0]) / (2.0 * step)
        # central differences: rounding 1e-16/step and curvature step², both below 1e-9 here
        assert abs(numeric - gradient @ move) < 1e-8 * (1.0 + abs(numeric))


def test_a_loss_of_the_user_has_the_same_values():
    weights = WEIGHTS["full"]
    theta = weights.start(np.random.default_rng(1))
    one, other = objective(weights, "squared")(theta), objective(weights, UserSquared())(theta)
    assert one[0] == pytest.approx(other[0], rel=1e-12)
    np.testing.assert_allclose(one[1], other[1], atol=1e-14)
    assert objective(weights, LOSSES["squared"])(theta)[0] == pytest.approx(one[0], rel=1e-14)


def test_pass_through_a_narrow_factor_equals_pass_through_the_map():
    weights = WEIGHTS["narrow"]
    function, theta = objective(weights), weights.start(np.random.default_rng(3))
    value, gradient = function(theta)
    total, gradients = function.data(weights.maps(theta))
    penalty, penalty_gradient = weights.penalty(theta)
    assert value == pytest.approx((total + 0.02 * penalty) / DIM**2, rel=1e-12)
    np.testing.assert_allclose(
        gradient, (weights.pull_back(theta, gradients) + 0.02 * penalty_gradient) / DIM**2, atol=1e-14
    )


def test_penalty_is_the_trace_of_the_map():
    for name in ("full", "narrow", "wide", "two heads"):
        weights = WEIGHTS[name]
        theta = weights.start(np.random.default_rng(0))
        trace = np.trace(weights.maps(theta), axis1=1, axis2=2).sum()
        assert weights.penalty(theta)[0] == pytest.approx(DIM * trace, rel=1e-12)
    S = WEIGHTS["direct"].maps(WEIGHTS["direct"].start(np.random.default_rng(0)))
    assert WEIGHTS["direct"].penalty(S.ravel())[0] == pytest.approx(DIM * np.sum(S * S), rel=1e-12)


def test_untied_with_equal_factors_equals_tied():
    tied, untied = Factorised(DIM, 5), Untied(DIM, 5)
    theta = tied.start(np.random.default_rng(0))
    both = np.concatenate([theta, theta])
    for loss, output in CASES:
        one, other = objective(tied, loss, output), objective(untied, loss, output)
        assert one(theta)[0] == pytest.approx(other(both)[0], rel=1e-12)


def test_equal_heads_equal_one_head():
    one, two = Factorised(DIM, 6), Factorised(DIM, 6, heads=2)
    theta = one.start(np.random.default_rng(0))
    for loss, output in CASES:
        a = objective(one, loss, output, decay=0.0)(theta)[0]
        b = objective(two, loss, output, decay=0.0)(np.concatenate([theta, theta]))[0]
        assert a == pytest.approx(b, rel=1e-12)


def test_sequence_loss_is_the_distance_of_sequences():
    samples, weights = data(count=20), WEIGHTS["direct"]
    S = weights.start(np.random.default_rng(0)).reshape(DIM, DIM)
    total = objective(weights, output="sequence", samples=samples, decay=0.0)(S.ravel())[0] * DIM**2
    (chunk,) = list(samples)
    p = np.exp(1.3 * map_logits(S, chunk.tokens))
    p /= p.sum(axis=-1, keepdims=True)
    gap = np.einsum("nab,bnd->and", p - chunk.labels, chunk.tokens)
    assert total == pytest.approx(np.sum(gap**2) / DIM, rel=1e-12)


def test_logits_and_map_gradient_are_adjoint():
    X = np.random.default_rng(0).standard_normal((3, 4, DIM))
    rng = np.random.default_rng(1)
    S, G = rng.standard_normal((DIM, DIM)), rng.standard_normal((4, 3, 3))
    assert np.sum(map_logits(S, X) * G) == pytest.approx(np.sum(map_gradient(G, X) * S), rel=1e-12)


@pytest.mark.parametrize("attention", ["tied", "cross"])
@pytest.mark.parametrize("mask", ["none", "causal", "strict", "0110/0101/0011/1000"])
def test_rows_are_logits_relative_to_the_first_with_the_same_gradient(attention, mask):
    samples = data(tokens=4, attention=attention, mask=mask)
    (chunk,) = samples
    columns, rng = samples.task.columns, np.random.default_rng(1)
    rows, S = Rows(chunk, samples.task.visible), rng.standard_normal((DIM, DIM))
    logits = map_logits(S, chunk.tokens, chunk.keys)
    attended = samples.task.visible & (np.array(columns)[:, None] > 1)
    np.testing.assert_allclose(rows.logits(S), np.where(attended, logits - logits[..., :1], 0.0), atol=1e-13)
    G = np.where(attended, rng.standard_normal(logits.shape), 0.0)
    G -= np.where(attended, G.sum(axis=-1, keepdims=True) / np.maximum(attended.sum(axis=-1), 1)[:, None], 0.0)
    np.testing.assert_allclose(rows.gradient(G), map_gradient(G, chunk.tokens, chunk.keys), atol=1e-12)


def test_single_precision_is_close_to_double():
    weights = WEIGHTS["full"]
    theta = weights.start(np.random.default_rng(0))
    one, other = (objective(weights, samples=data(dtype=dtype))(theta) for dtype in (np.float64, np.float32))
    assert one[0] == pytest.approx(other[0], rel=1e-5)
    # sums of forty samples in single precision: a few times 1e-7 of the largest entry
    np.testing.assert_allclose(one[1], other[1], atol=2e-6 * np.abs(one[1]).max())


def test_resampled_tokens_give_the_same_bits():
    weights = WEIGHTS["full"]
    theta = weights.start(np.random.default_rng(0))
    one, other = (objective(weights, samples=data(count=60_000, memory=m))(theta) for m in (4e9, 1.0))
    assert one[0] == other[0]
    assert np.array_equal(one[1], other[1])


def test_the_entropy_of_the_labels_bounds_cross_entropy():
    function = objective(WEIGHTS["full"], "cross-entropy", decay=0.0)
    assert function.floor > 0.0
    assert objective(WEIGHTS["full"]).floor == 0.0
    found = lbfgs(function, WEIGHTS["full"].start(np.random.default_rng(0)), tolerance=1e-3, max_iterations=50)
    assert found.value > function.floor


def test_cross_entropy_is_finite_for_saturated_logits():
    loss = OutputLoss(loss="cross-entropy")
    value, gradient = loss(np.array([[[[2000.0, 0.0], [0.0, 2000.0]]]]), np.full((1, 2, 2), 0.5), None)
    assert value == pytest.approx(2000.0)
    assert np.isfinite(gradient).all()


def test_unsupported_combinations_are_refused():
    with pytest.raises(InvalidArgument, match="squared when the output is a sequence"):
        objective(WEIGHTS["full"], "cross-entropy", "sequence")
    with pytest.raises(InvalidArgument, match="with several heads"):
        objective(WEIGHTS["two heads"], UserSquared())


def test_minimisers_agree_and_report_how_they_ended():
    function, theta = objective(WEIGHTS["full"]), WEIGHTS["full"].start(np.random.default_rng(0))
    one = lbfgs(function, theta, tolerance=1e-6, max_iterations=2000)
    two = adam(function, theta, tolerance=1e-5, max_iterations=5000)
    assert one.status == two.status == "converged"
    assert one.value == pytest.approx(two.value, rel=1e-6)
    assert stationarity(one.theta, *function(one.theta)) <= 1e-6
    assert "after 3 iterations" in lbfgs(function, theta, tolerance=1e-9, max_iterations=3).status
    assert "after 3 iterations" in adam(function, theta, tolerance=1e-9, max_iterations=3).status


@pytest.mark.parametrize("search", [lbfgs, adam])
def test_interruption_returns_the_best_point(search):
    function, calls, values = objective(WEIGHTS["full"]), [], []

    def interrupted(theta):
        calls.append(1)
        if len(calls) == 12:
            raise KeyboardInterrupt
        values.append(function(theta)[0])
        return function(theta)

    theta = WEIGHTS["full"].start(np.random.default_rng(0))
    found = search(interrupted, theta, tolerance=1e-9, max_iterations=500)
    assert found.status.startswith("interrupted")
    assert found.value == min(values)
    assert function(found.theta)[0] == found.value

    def at_once(theta):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(at_once, theta, tolerance=1e-9, max_iterations=5)


@pytest.mark.parametrize("attention", ["tied", "self", "cross"])
@pytest.mark.parametrize("mask", ["none", "causal", "strict"])
def test_losses_of_every_head_match_a_plain_loop(attention, mask):
    samples = data(tokens=4, count=6, attention=attention, mask=mask)
    (chunk,) = samples
    weights = WEIGHTS["direct"] if attention == "tied" else UNTIED["direct untied"]
    S = weights.maps(weights.start(np.random.default_rng(0)))[0]
    squared = cross_entropy = 0.0
    for i, a in product(range(6), range(4)):
        length = {"none": 4, "causal": a + 1, "strict": a}[mask]
        if length < 2:  # the softmax of a single column is constant
            continue
        X = chunk.tokens[:, i]
        Y = X if chunk.keys is None else chunk.keys[:, i]
        own = np.trace(S) if attention != "cross" else 0.0
        h = np.array([X[a] @ S @ Y[b] - own * (a == b) for b in range(length)]) / np.sqrt(DIM)
        p, y = np.exp(1.3 * h) / np.exp(1.3 * h).sum(), chunk.labels[i, a, :length]
        squared += np.sum((p - y) ** 2)
        cross_entropy -= np.sum(y * np.log(p))
    for loss, wanted in (("squared", squared), ("cross-entropy", cross_entropy), (UserSquared(), squared)):
        value = objective(weights, loss, samples=samples, decay=0.0)(S.ravel())[0]
        assert value * DIM**2 == pytest.approx(wanted, rel=1e-12)


def test_output_sequences_of_cross_attention_are_mixtures_of_keys():
    samples, weights = data(count=20, attention="cross", mask="causal"), UNTIED["direct untied"]
    S = weights.start(np.random.default_rng(0)).reshape(DIM, DIM)
    total = objective(weights, output="sequence", samples=samples, decay=0.0)(S.ravel())[0] * DIM**2
    (chunk,) = samples
    p = np.exp(1.3 * map_logits(S, chunk.tokens, chunk.keys)) * np.tri(3)
    p /= p.sum(axis=-1, keepdims=True)
    gap = np.einsum("nab,bnd->and", p - chunk.labels, chunk.keys)
    assert total == pytest.approx(np.sum(gap**2) / DIM, rel=1e-12)


def test_cross_logits_and_map_gradient_are_adjoint():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((2, 3, 4, DIM))
    S, G = rng.standard_normal((DIM, DIM)), rng.standard_normal((4, 3, 3))
    assert np.sum(map_logits(S, X, Y) * G) == pytest.approx(np.sum(map_gradient(G, X, Y) * S), rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("loss", ["squared", "cross-entropy"])
def test_masked_columns_do_not_count_even_with_saturated_logits(loss, dtype):
    logits = np.array([[[[9.0, 1e4, 0.0], [2000.0, 0.0, 1e4], [0.0, 0.0, 1e4]]]] * 2, dtype=dtype)
    y = np.array([[[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.5, 0.5, 0.0]]], dtype=dtype)
    value, gradient = OutputLoss(loss=loss, visible=np.tri(3, k=-1) > 0.0)(logits, y, None)
    # only the last row has two columns, and its label is fitted exactly
    assert value == pytest.approx(0.0 if loss == "squared" else np.log(2.0), rel=1e-6)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-7)


def test_weights_of_a_map_reproduce_it():
    S = np.random.default_rng(0).standard_normal((DIM, DIM))
    for kind in (Untied, ThresholdedUntied, DirectUntied):
        weights, theta = kind.of_map(S)
        np.testing.assert_allclose(weights.maps(theta)[0], S, atol=1e-13)
        norm = np.sum(S * S) if kind is DirectUntied else np.linalg.norm(S, "nuc")
        assert weights.penalty(theta)[0] == pytest.approx(DIM * norm, rel=1e-12)


@pytest.mark.parametrize("weights", [Factorised(DIM, DIM), Untied(DIM, 5, heads=2)])
def test_the_preconditioner_divides_by_the_gram_matrix_of_the_other_factor(weights):
    rng = np.random.default_rng(4)
    theta, move = weights.start(rng), rng.standard_normal(weights.size)
    shape = (-1, weights.width, DIM)
    factors = theta.reshape(shape)
    if isinstance(weights, Untied):  # the curvature along queries comes from keys, and vice versa
        factors = np.roll(factors, weights.heads, axis=0)
    preconditioned = weights.curvature(theta)(move).reshape(shape)
    for factor, solved, original in zip(factors, preconditioned, move.reshape(shape), strict=True):
        gram = factor @ factor.T
        gram = gram / np.mean(np.diag(gram)) + 0.3 * np.eye(len(gram))
        np.testing.assert_allclose(gram @ solved, original, atol=1e-12)


def test_a_search_in_single_precision_leaves_one_pass_in_double_and_a_preconditioner_saves_passes():
    weights, passes = WEIGHTS["full"], {"double": 0}
    exact, single = objective(weights), objective(weights, samples=data().in_single_precision())
    theta = weights.start(np.random.default_rng(0))

    def counted(theta):
        passes["double"] += 1
        return exact(theta)

    limits = {"tolerance": 1e-3, "max_iterations": 500}
    plain = lbfgs(exact, theta, **limits)
    found = lbfgs(counted, theta, low_precision=single, curvature=weights.curvature, **limits)
    assert passes["double"] == 1
    assert found.status == "converged" and found.stationarity <= 1e-3
    assert found.evaluations < plain.evaluations
    # stationarity 1e-3 leaves about its square of the objective, times a condition number
    assert found.value == pytest.approx(plain.value, rel=1e-4)
