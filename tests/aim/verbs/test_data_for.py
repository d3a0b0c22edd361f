"""Samples that a test error needs: the inverse of the tuned learning curve."""

import json
from math import ceil, inf

import pytest

from onehead import aim
from onehead.errors import InvalidArgument

TASK, LEARNER = aim.Task(), aim.Learner()


@pytest.fixture(scope="module")
def found():
    return aim.data_for(TASK, LEARNER, 0.12, dim=50)


def test_the_error_is_reached_with_the_best_weight_decay(found):
    """By the global search of `tune`, which shares no step with the search for the sample ratio."""
    best = aim.tune(TASK, LEARNER, found.alpha)
    # the error changes by the excess error times the relative tolerance of α, 1e-4
    assert best.test_error == pytest.approx(0.12, abs=1e-5)
    assert found.weight_decay == pytest.approx(best.weight_decay, rel=0.01)  # the error is flat there
    assert found.own_test_error == pytest.approx(aim.predict(TASK, LEARNER, found.alpha).test_error, abs=1e-5)
    assert found.samples == ceil(found.alpha * 50**2)


def test_it_stands_next_to_the_best_possible_learner(found):
    assert found.best_possible_alpha == aim.data_for(TASK, 0.12) == aim.data_for(TASK, test_error=0.12)
    assert found.data_multiple == found.alpha / found.best_possible_alpha > 1.0
    assert "A test error of 0.12 needs n = " in found.explain()


def test_an_error_out_of_reach_is_reported():
    floor = aim.plateau(TASK).test_error
    found = aim.data_for(TASK, LEARNER, 0.99 * floor, dim=50)
    assert (found.alpha, found.samples, found.weight_decay) == (inf, None, None)
    assert found.status.startswith("out of reach") and found.floor == floor
    assert "No number of samples" in found.explain()
    assert (found.best_possible_alpha, found.status.endswith("; no learner reaches it")) == (inf, True)
    narrow = aim.Learner(width=0.25)  # a head that cannot represent the target
    floor = aim.plateau(TASK, narrow).test_error
    assert aim.data_for(TASK, narrow, 0.99 * floor).best_possible_alpha < inf


def test_a_large_error_needs_no_samples():
    found = aim.data_for(TASK, LEARNER, 1.0, dim=50)
    assert (found.alpha, found.samples) == (0.0, 0)


def test_the_dimension_of_a_target_gives_the_samples():
    task = aim.Task(aim.PowerLaw(gamma=0.75, dim=40))
    found = aim.data_for(task, aim.Learner(weight_decay=1.0, leading=0), 0.2)
    assert found.samples == ceil(found.alpha * 40**2)
    with pytest.raises(InvalidArgument, match="dim must be 40"):
        aim.data_for(task, LEARNER, 0.2, dim=41)


@pytest.mark.slow
def test_hard_labels_have_no_best_possible_learner():
    task = aim.Task(attention="cross", labels="hard", noise=0.0)
    found = aim.data_for(task, aim.Learner(weight_decay=0.5, loss="cross-entropy"), 0.15)
    assert found.best_possible_alpha is None and found.data_multiple is None and found.alpha > 0.0


@pytest.mark.slow
def test_the_command(onehead):
    row = json.loads(onehead("aim", "data", "--error", "0.12", "--dim", "50", "--json").stdout)
    assert row["samples"] == ceil(row["alpha"] * 50**2) and {"weight_decay", "best_possible_alpha"} <= set(row)
    beyond = json.loads(onehead("aim", "data", "--error", "0.01", "--json").stdout)
    assert beyond["alpha"] is None and beyond["status"].startswith("out of reach")
    assert onehead("aim", "data", "--error", "0").stderr.strip() == "onehead: --error must be a number > 0; got '0'."
