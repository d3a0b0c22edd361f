"""Training with tokens that have a mean, and its agreement with theory."""

import numpy as np
import pytest

from onehead.aim import Learner, MarchenkoPastur, Method, Task, amp, predict, train
from onehead.aim.training.data import Samples, Tokens, labels, mean_length, unasked_direction, with_unasked_row
from onehead.aim.training.objective import Objective, OutputLoss
from onehead.aim.training.parametrisation import parametrisation
from onehead.errors import InvalidArgument

QUICK = Method(starts=1, test_samples=4000)
CROSS = Task(attention="cross", unasked=0.6, token_mean=0.5)


def samples(task, dim=6, count=40):
    rng = np.random.default_rng(0)
    target = rng.standard_normal((dim, dim)) / np.sqrt(dim)
    target = with_unasked_row(task, target + target.T if task.tied else target)
    return Samples(task=task, target=target, count=count, law=Tokens(), seed=np.random.SeedSequence(1))


@pytest.mark.parametrize("task", [CROSS, Task(unasked=0.6), CROSS.changed(attention="self", mask="strict", tokens=3)])
def test_the_mean_gives_the_target_its_unasked_variance(task):
    """G = |S*'μ|²/d, for any head; queries have the mean μ, and keys of cross-attention have none."""
    data = samples(task, dim=8, count=4000)
    mean = mean_length(task, data.target) * unasked_direction(8)
    assert np.sum((data.target.T @ mean) ** 2) / 8 == pytest.approx(task.unasked_variance, rel=1e-12)
    chunks = list(data)
    found = np.concatenate([chunk.tokens.reshape(-1, 8) for chunk in chunks])
    assert np.abs(found.mean(axis=0) - mean).max() < 5.0 / np.sqrt(len(found))
    if task.attention == "cross":
        keys = np.concatenate([chunk.keys.reshape(-1, 8) for chunk in chunks])
        assert np.abs(keys.mean(axis=0)).max() < 5.0 / np.sqrt(len(keys))


def test_sizes_of_a_fluctuating_mean_differ_between_queries():
    """Second moment M d along the mean, of which a share is its square; all other directions have none of it."""
    task = CROSS.changed(fluctuation=0.7)
    tokens = np.concatenate([chunk.tokens.reshape(-1, 8) for chunk in samples(task, dim=8, count=20_000)])
    along = tokens[:, -1]
    # standard errors of moments of 40,000 normals of variance 1 + 0.7 M d = 3.8 around 1.1
    assert along.mean() == pytest.approx(np.sqrt(0.3 * 0.5 * 8), abs=0.05)
    assert along.var() == pytest.approx(1.0 + 0.7 * 0.5 * 8, abs=0.13)
    assert np.abs(tokens[:, :-1].var(axis=0) - 1.0).max() < 0.04


@pytest.mark.parametrize("loss", ["squared", "cross-entropy"])
@pytest.mark.parametrize("mask", ["none", "causal"])
def test_a_mean_of_the_keys_changes_nothing(mask, loss):
    """Labels, losses and gradients differ by rounding only (D1.1)."""
    task = CROSS.changed(tokens=3, mask=mask)
    data = samples(task)
    weights = parametrisation("direct", tied=False, dim=6, width=1.0, heads=1)
    objective = Objective(samples=data, weights=weights, loss=OutputLoss(loss=loss, visible=task.visible), decay=0.1)
    theta = np.random.default_rng(2).standard_normal(weights.size)
    value, gradient = objective(theta)
    for i, chunk in list(data._stored.items()):
        moved = chunk.keys + 3.0
        again = labels(data.target, chunk.tokens, 1.0, None, keys=moved, visible=task.visible)
        assert np.abs(again - chunk.clean).max() < 1e-12
        data._stored[i] = chunk._replace(keys=moved)
    other = Objective(samples=data, weights=weights, loss=objective.loss, decay=0.1)
    assert other(theta)[0] == pytest.approx(value, rel=1e-12)
    assert other(theta)[1] == pytest.approx(gradient, rel=1e-9, abs=1e-12 * np.abs(gradient).max())


@pytest.mark.parametrize("task", [CROSS, Task(unasked=0.5, tokens=3), CROSS.changed(attention="self", tokens=3)])
def test_gradients_with_a_mean_are_those_of_the_objective(task):
    data = samples(task)
    weights = parametrisation("factorised", tied=task.tied, dim=6, width=1.0, heads=1)
    objective = Objective(samples=data, weights=weights, loss=OutputLoss(loss="squared"), decay=0.1)
    rng = np.random.default_rng(3)
    theta, along = rng.standard_normal((2, weights.size))
    step = 1e-5
    slope = (objective(theta + step * along)[0] - objective(theta - step * along)[0]) / (2.0 * step)
    assert objective(theta)[1] @ along == pytest.approx(slope, rel=1e-6)


# deviations at small d fall as 1/d; |S|² and |S'S*| of a target of its own vary by about 2/d between seeds
@pytest.mark.parametrize(
    ("changes", "learner", "alpha"),
    [
        ({}, Learner(weight_decay=0.05), 1.0),
        ({"labels": "hard"}, Learner(weight_decay=0.1, loss="cross-entropy"), 2.0),
        ({"tokens": 3, "mask": "causal"}, Learner(weight_decay=0.05, loss="cross-entropy"), 1.0),
        ({}, Learner(weight_decay=0.05, param="direct"), 1.0),
        ({"fluctuation": 1.0}, Learner(weight_decay=0.05), 1.0),
        ({"fluctuation": 0.4, "labels": "hard"}, Learner(weight_decay=0.1, loss="cross-entropy"), 2.0),
        ({"attention": "self"}, Learner(weight_decay=0.05), 1.0),
        ({"attention": "self", "mask": "causal", "tokens": 3}, Learner(weight_decay=0.05), 1.0),
        ({"attention": "tied", "target": MarchenkoPastur(), "token_mean": 1.0}, Learner(weight_decay=0.05), 1.0),
    ],
)
def test_trained_heads_agree_with_theory(changes, learner, alpha):
    run = train(CROSS.changed(**changes), learner, dim=30, alpha=alpha, seeds=3, method=QUICK)
    found = {one.quantity: one.verdict for one in run.against(predict(*run.trained))}
    assert set(found) >= {"unasked_scale", "unasked_share", "q", "m", "test_error"}
    assert not [name for name, verdict in found.items() if verdict.startswith("differs")], found


def test_the_unasked_part_is_reported_where_tokens_have_a_mean():
    with_mean = train(CROSS, Learner(weight_decay=0.5), dim=12, alpha=1.0, seeds=1, method=QUICK)
    without = train(CROSS.changed(unasked=0.0), Learner(weight_decay=0.5), dim=12, alpha=1.0, seeds=1, method=QUICK)
    assert 0.0 < with_mean.unasked_share <= 1.0
    assert (without.unasked_scale, without.unasked_share) == (None, None)
    assert "unasked_scale_err" not in without.to_dict()


def test_what_has_no_theory_is_refused():
    with pytest.raises(InvalidArgument, match="token_mean must be 1 for a tied head"):
        train(Task(unasked=0.5, token_mean=2.0), Learner(), dim=10, alpha=1.0)
    with pytest.raises(InvalidArgument, match="optimiser must be lbfgs or adam for tokens with a mean or a covariance"):
        train(CROSS, Learner(), dim=10, alpha=1.0, method=Method(optimiser="amp"))
    with pytest.raises(InvalidArgument, match="fluctuation must be 0 for amp"):
        amp(CROSS.changed(fluctuation=0.5), Learner(), dim=10, alpha=1.0)
