"""Training of several heads that add to one output: loss, gradients, targets, and runs against the prediction."""

import numpy as np
import pytest

from onehead import aim
from onehead.aim import Learner, Method, Task
from onehead.aim.training.data import Samples, Tokens, softmax_rows
from onehead.aim.training.layer import LayerLoss, draw_targets, matched, value_gram
from onehead.aim.training.objective import Objective, OutputLoss
from onehead.aim.training.parametrisation import DirectUntied, Untied
from onehead.aim.training.settings import Variant
from onehead.errors import InvalidArgument

DIM, DECAY = 9, 0.05
QUICK = Method(starts=1, test_samples=4000)


def samples(task, count=40, dim=DIM):
    target = draw_targets(task, dim, np.random.default_rng(0))
    return Samples(task=task, target=target, count=count, law=Tokens(), seed=np.random.SeedSequence(2))


def objective(task, weights, *, value_decay=None, beta=1.3, data=None):
    loss = LayerLoss(value_gram=value_gram(task), beta=beta, value_decay=value_decay)
    return Objective(samples=data or samples(task), weights=weights, loss=loss, decay=DECAY)


def layer(heads, sharing, tokens=2):
    return Task(attention="cross", heads=heads, sharing=sharing, tokens=tokens)


@pytest.mark.parametrize("value_decay", [None, 0.03])
@pytest.mark.parametrize(("heads", "sharing", "tokens"), [(2, 0.6, 2), (3, -0.3, 3), (4, 0.9, 2)])
@pytest.mark.parametrize("kind", ["factorised", "narrow", "direct"])
def test_gradient_matches_finite_differences(value_decay, heads, sharing, tokens, kind):
    made = {"factorised": Untied(DIM, DIM, heads), "narrow": Untied(DIM, 4, heads), "direct": DirectUntied(DIM, heads)}
    weights, rng, step = made[kind], np.random.default_rng(1), 1e-5
    function = objective(layer(heads, sharing, tokens), weights, value_decay=value_decay)
    theta = weights.start(rng)
    _, gradient = function(theta)
    for _ in range(3):
        move = rng.standard_normal(weights.size)
        numeric = (function(theta + step * move)[0] - function(theta - step * move)[0]) / (2.0 * step)
        # central differences: rounding 1e-16/step and curvature step², both below 1e-9 here
        assert abs(numeric - gradient @ move) < 1e-8 * (1.0 + abs(numeric))


def test_heads_without_shared_values_add_their_objectives():
    task, weights, one = layer(3, 0.0), Untied(DIM, DIM, 3), Untied(DIM, DIM)
    data = samples(task)
    theta = weights.start(np.random.default_rng(1))
    parts = theta.reshape(2, 3, -1)
    total = 0.0
    for h in range(3):
        total_of = OutputLoss(loss="squared", beta=1.3)
        own = Untied(DIM, DIM)
        maps = own.maps(parts[:, h].ravel())
        for chunk in data:
            rows = next(iter(Objective(samples=data, weights=one, loss=total_of, decay=DECAY).rows()))
            total += total_of(rows.logits(maps[0])[None], chunk.labels[h], None)[0] / DIM**2
        total += DECAY * own.penalty(parts[:, h].ravel())[0] / DIM**2
    assert objective(task, weights, data=data)(theta)[0] == pytest.approx(total, rel=1e-12)


def test_the_loss_is_that_of_outputs_with_explicit_values():
    """|sum_h V_h (A_h - y_h) X|²/d is r'Gr up to terms of order 1/sqrt(d) per sample, which average out (M1)."""
    dim, task, rng = 200, layer(2, 0.6, tokens=3), np.random.default_rng(4)
    data = samples(task, 400, dim)
    maps = draw_targets(task, dim, rng)
    root = np.linalg.cholesky(value_gram(task))
    V = np.einsum("hk,kab->hab", root, rng.standard_normal((2, dim, dim))) / np.sqrt(dim)
    explicit = []
    for chunk in data:
        A = [softmax_rows(np.einsum("and,de,bne->nab", chunk.tokens, S, chunk.keys) / np.sqrt(dim)) for S in maps]
        outputs = sum(np.einsum("nab,bnd->nad", A[h] - chunk.labels[h], chunk.keys) @ V[h].T for h in range(2))
        explicit.extend((outputs**2).sum(axis=(1, 2)) / dim)
    loss = LayerLoss(value_gram=value_gram(task))
    weights = DirectUntied(dim, 2)
    total = Objective(samples=data, weights=weights, loss=loss, decay=DECAY).data(maps)[0] / 400
    # relative scatter of one sample and of the values, both about 1/sqrt(d): 2 % after 400 samples with one draw of V
    assert np.mean(explicit) == pytest.approx(total, rel=0.03)


def test_learnt_values_are_least_squares_values():
    task, data = layer(3, 0.4), samples(layer(3, 0.4))
    maps = draw_targets(task, DIM, np.random.default_rng(5))
    loss = LayerLoss(value_gram=value_gram(task), value_decay=1e-12)
    function = Objective(samples=data, weights=DirectUntied(DIM, 3), loss=loss, decay=DECAY)
    found = loss.values(function.rows, maps)
    (chunk,) = data
    A = np.array([softmax_rows(np.einsum("and,de,bne->nab", chunk.tokens, S, chunk.keys) / 3.0) for S in maps])
    wanted = np.linalg.lstsq(A.reshape(3, -1).T, chunk.labels.reshape(3, -1).T, rcond=None)[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_heads_are_put_into_the_order_of_their_targets():
    order = [2, 0, 1]
    values, maps = np.eye(3)[order] + 0.1, np.arange(3.0)[order][:, None, None]
    ordered, B = matched(maps, values)
    np.testing.assert_array_equal(ordered.ravel(), [0.0, 1.0, 2.0])
    np.testing.assert_allclose(np.diag(B), 1.1)


@pytest.mark.parametrize("heads", [2, 4])
def test_targets_keep_their_singular_values_and_hardly_overlap(heads):
    task, dim = layer(heads, 0.5), 40
    maps = draw_targets(task, dim, np.random.default_rng(7))
    overlaps = np.einsum("hab,kab->hk", maps, maps) / dim
    assert np.abs(overlaps[~np.eye(heads, dtype=bool)]).max() < 2e-3  # 1/d = 0.025 without the choice of signs
    rng = np.random.default_rng(7)
    for S in maps:
        drawn = np.linalg.svd(task.target.draw(dim, rng, tied=False), compute_uv=False)
        np.testing.assert_allclose(np.linalg.svd(S, compute_uv=False), drawn, atol=1e-12)


@pytest.mark.parametrize(
    ("task", "learner", "alpha"),
    [
        (layer(2, 0.5), Learner(weight_decay=0.05), 1.0),
        (layer(2, 0.8), Learner(weight_decay=0.05, param="direct"), 1.0),
        (layer(3, 0.4), Learner(weight_decay=0.1, values="learnt", value_decay=0.03), 1.0),
        (layer(2, 0.5, tokens=3), Learner(weight_decay=0.03), 0.5),
        (layer(1, 0.0), Learner(weight_decay=0.05, values="learnt", value_decay=0.2), 1.0),
    ],
    ids=["factorised", "direct", "learnt", "three tokens", "one head"],
)
def test_training_agrees_with_the_prediction(task, learner, alpha):
    dim = 30
    result = aim.train(task, learner, dim=dim, alpha=alpha, seeds=3, method=QUICK)
    theory = aim.predict(task, learner, alpha)
    assert result.status.startswith("converged")
    assert result.value_scale == pytest.approx(theory.value_scale, rel=3.0 / dim)
    for item in result.against(theory):
        # standard errors of three seeds are themselves uncertain by half; plus the bias of 3/d. Overlaps between heads
        # are small numbers, whose bias is of the order of 1/d
        small = 1.0 / dim if item.quantity in ("q_cross", "m_cross", "rank") else 0.0
        allowed = 5.0 * item.standard_error + 4.0 / dim * abs(item.predicted) + small
        assert abs(item.difference) < allowed, item


def test_a_run_has_the_overlaps_of_all_heads():
    result = aim.train(layer(3, 0.5), Learner(weight_decay=0.05), dim=16, alpha=1.0, seeds=2, method=QUICK)
    run = result.runs[0]
    assert run.map.shape == run.target.shape == (3, 16, 16) and run.eigenvalues.shape == (48,)
    q, m = (np.array(run.head_overlaps[name]) for name in ("q", "m"))
    np.testing.assert_allclose(q, np.einsum("hab,kab->hk", run.map, run.map) / 16)
    assert run.m == pytest.approx(np.trace(m) / 3) and run.q == pytest.approx(np.trace(q) / 3)
    assert run.m_cross == pytest.approx((m.sum() - np.trace(m)) / 6)
    assert run.value_scale == (1.0, 1.0) and "3 heads" in result.setting
    assert result.q_cross == pytest.approx(np.mean([one.q_cross for one in result.runs]))


def test_informed_and_random_starts_meet():
    """No random start was stuck at this overlap (M6)."""
    method = Method(starts=1, start="both", test_samples=2000, tolerance=1e-4)
    result = aim.train(layer(2, 0.6), Learner(weight_decay=0.05), dim=20, alpha=1.0, seeds=2, method=method)
    random, informed = result.solutions
    assert random.train_loss == pytest.approx(informed.train_loss, rel=1e-4)


def test_targets_of_the_user():
    task, maps = layer(2, 0.5), np.random.default_rng(0).standard_normal((2, 12, 12)) / np.sqrt(12)
    result = aim.train(task, Learner(), dim=12, alpha=1.0, seeds=1, method=QUICK, target_map=maps)
    np.testing.assert_array_equal(result.runs[0].target, maps)
    with pytest.raises(InvalidArgument, match=r"an array of shape \(2, 12, 12\)"):
        aim.train(task, Learner(), dim=12, alpha=1.0, target_map=maps[0])
    with pytest.raises(InvalidArgument, match="finite"):
        aim.train(task, Learner(), dim=12, alpha=1.0, target_map=np.full_like(maps, np.nan))


@pytest.mark.parametrize(
    ("learner", "variant", "method", "said"),
    [
        ({"loss": "cross-entropy"}, {}, {}, "loss must be squared"),
        ({}, {"heads": 2}, {}, "averaged_heads must be 1 where heads add to one output"),
        ({}, {"output": "sequence"}, {}, "output must be label where heads add to one output"),
        ({}, {}, {"optimiser": "amp"}, "optimiser must be lbfgs or adam"),
        ({"weight_decay": "0+"}, {}, {}, "weight_decay must be a number > 0"),
    ],
)
def test_what_is_not_trained_is_refused(learner, variant, method, said):
    with pytest.raises(InvalidArgument, match=said):
        aim.train(
            layer(2, 0.5), Learner(**learner), dim=10, alpha=1.0, variant=Variant(**variant), method=Method(**method)
        )


def test_learnt_values_of_a_head_without_theory_are_refused():
    with pytest.raises(InvalidArgument, match="values must be fixed unless attention is cross"):
        aim.train(Task(attention="self"), Learner(values="learnt"), dim=10, alpha=1.0)


def test_compare_lays_the_theory_beside_runs():
    table = aim.compare(layer(2, 0.5), Learner(weight_decay=0.05), [1.0], [16, 20], 2, method=QUICK)
    rows = table.to_rows()
    assert [row["dim"] for row in rows] == [16, 20, None]
    assert {"q_cross", "q_cross_theory", "q_cross_err", "m_cross_z", "head_error_theory"} <= set(rows[0])
