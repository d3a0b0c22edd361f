"""The sampled head: at a large dimension it has the overlaps and the test error of the theory."""

import numpy as np
import pytest

from onehead import aim
from onehead.aim.training.data import Samples, Tokens, labels
from onehead.app import read_state
from onehead.app.views.head import VIEW, Law, sampled_map, scene

DIM = 400
HEADS = [
    ({}, 0.5),
    ({"weight_decay": "0.1", "kappa0": "0.2"}, 0.3),
    ({"param": "direct"}, 0.6),
    ({"beta": "2", "beta0": "1.5"}, 0.5),
    ({"width": "0.4"}, 0.5),
    ({"attention": "cross"}, 0.8),
    ({"attention": "cross", "param": "direct"}, 1.2),
    ({"attention": "self", "mask": "causal"}, 1.0),
]


def sample(parameters, alpha):
    """The prediction for a head, the random arrays, and a sample of its trained map at d = DIM."""
    state, wrong = read_state({"view": "head", "alpha": str(alpha), **parameters})
    assert wrong == {}
    point = aim.predict(state.task, state.learner, alpha)
    law = Law(point.spread, point.threshold, point.cut, point.slope, point.rank == 0.0)
    found = scene(state.task, DIM, 4)
    return point, found, sampled_map(state.task, state.learner, law, found.target, found.noise)


@pytest.mark.parametrize(("parameters", "alpha"), HEADS, ids=str)
def test_the_sampled_map_has_the_overlaps_of_the_theory(parameters, alpha):
    point, found, S = sample(parameters, alpha)
    # one matrix at d = 400: traces fluctuate by order 1/d, the norm of the target by 1/sqrt(kappa0) / d
    assert np.sum(S**2) / DIM == pytest.approx(point.q, rel=0.03)
    assert np.sum(S * found.target) / DIM == pytest.approx(point.m, rel=0.03)
    assert np.linalg.matrix_rank(S, tol=1e-9) / DIM == pytest.approx(point.rank, abs=0.02)


@pytest.mark.parametrize(("parameters", "alpha"), [HEADS[0], HEADS[5]], ids=str)
def test_the_sampled_head_has_the_test_error_of_the_theory(parameters, alpha):
    point, found, S = sample(parameters, alpha)
    samples = Samples(task=point.task, target=found.target, count=3000, law=Tokens(), seed=np.random.SeedSequence(3))
    errors = []
    for chunk in samples:
        guess = labels(S, chunk.tokens, point.learner.beta, None, keys=chunk.keys, visible=point.task.visible)
        errors.append(np.sum((guess - chunk.labels) ** 2, axis=(1, 2)))
    errors = np.concatenate(errors)
    error = float(errors.std() / np.sqrt(errors.size))
    assert (
        abs(errors.mean() - point.test_error) < 4.0 * error + 0.03 * point.test_error
    )  # sampling error, and fluctuations of one map at finite d


def test_an_empty_map_attends_to_all_tokens_equally():
    state, _ = read_state({"view": "head", "alpha": "0.02", "weight_decay": "0.3"})
    rows = VIEW.picture(state).rows
    assert all(row["learner"] == pytest.approx(1 / 8) for row in rows)
    assert max(row["teacher"] for row in rows) > 0.3


def test_a_causal_mask_hides_later_tokens():
    state, _ = read_state({"view": "head", "attention": "self", "mask": "causal", "alpha": "1"})
    rows = VIEW.picture(state).rows
    assert all(row["learner"] == row["teacher"] == 0.0 for row in rows if row["key"] > row["query"])
    assert sum(row["learner"] for row in rows) == pytest.approx(8.0)
