"""The drawn head: at a large dimension its map has the overlaps of the theory, and its attention the theory's test error."""

import numpy as np
import pytest

from onehead import aim
from onehead.aim.training.data import Samples, Tokens, labels
from onehead.app import read_state
from onehead.app.views.head import VIEW, Law, drawn_map, scene

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


def drawn(words, alpha):
    state, wrong = read_state({"view": "head", "alpha": str(alpha), **words})
    assert wrong == {}
    point = aim.predict(state.task, state.learner, alpha)
    law = Law(point.spread, point.threshold, point.cut, point.slope, point.rank == 0.0)
    found = scene(state.task, DIM, 4)
    return point, found, drawn_map(state.task, state.learner, law, found.target, found.noise)


@pytest.mark.parametrize(("words", "alpha"), HEADS, ids=str)
def test_the_drawn_map_has_the_overlaps_of_the_theory(words, alpha):
    point, found, S = drawn(words, alpha)
    # of one matrix of d = 400: fluctuations of traces are of the order 1/d, and of the target's norm 1/sqrt(kappa0) / d
    assert np.sum(S**2) / DIM == pytest.approx(point.q, rel=0.03)
    assert np.sum(S * found.target) / DIM == pytest.approx(point.m, rel=0.03)
    assert np.linalg.matrix_rank(S, tol=1e-9) / DIM == pytest.approx(point.rank, abs=0.02)


@pytest.mark.parametrize(("words", "alpha"), [HEADS[0], HEADS[5]], ids=str)
def test_the_drawn_head_errs_as_the_theory_says(words, alpha):
    point, found, S = drawn(words, alpha)
    samples = Samples(task=point.task, target=found.target, count=3000, law=Tokens(), seed=np.random.SeedSequence(3))
    errors = []
    for chunk in samples:
        guess = labels(S, chunk.tokens, point.learner.beta, None, keys=chunk.keys, columns=point.task.columns)
        errors.append(np.sum((guess - chunk.labels) ** 2, axis=(1, 2)))
    errors = np.concatenate(errors)
    error = float(errors.std() / np.sqrt(errors.size))
    assert (
        abs(errors.mean() - point.test_error) < 4.0 * error + 0.03 * point.test_error
    )  # sampling, and one map of finite d


def test_nothing_learned_attends_to_all_alike():
    state, _ = read_state({"view": "head", "alpha": "0.02", "weight_decay": "0.3"})
    rows = VIEW.picture(state).rows
    assert all(row["learner"] == pytest.approx(1 / 8) for row in rows)
    assert max(row["teacher"] for row in rows) > 0.3


def test_a_mask_hides_what_comes_after():
    state, _ = read_state({"view": "head", "attention": "self", "mask": "causal", "alpha": "1"})
    rows = VIEW.picture(state).rows
    assert all(row["learner"] == row["teacher"] == 0.0 for row in rows if row["key"] > row["query"])
    assert sum(row["learner"] for row in rows) == pytest.approx(8.0)
