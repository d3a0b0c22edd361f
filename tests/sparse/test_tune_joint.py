"""Tuning of reused data and of joint descent: better than given protocols, never better than the best possible."""

import pytest
from tests.support.refusals import refusal

import onehead.sparse.verbs.tune_joint as module
from onehead.sparse import Protocol, Task, bayes, descend, predict, train, tune_joint

GIVEN = Protocol(beta=1.0, eta_w=0.5, eta_b=3.0, ridge=0.1, ridge_query=0.03)


def test_reused_data_are_tuned():
    """A coarse search of an independent implementation reached 0.0266 at alpha = 2."""
    found = tune_joint(Task(), Protocol(), "reuse", alpha=2.0, bayes=True)
    assert found.test_error < 0.0266 + 3.0 * found.errors["test_error"]
    assert found.test_error == predict(Task(), found.tuned).test_error
    assert found.ridge <= 1.0
    assert found.bayes_test_error < found.test_error
    assert 2.5 < found.data_multiple < 4.0
    assert found.best_step is None


def test_joint_descent_is_tuned(monkeypatch):
    """A few evaluations are enough to be no worse than the best start; the bias varies as at finite dimension."""
    monkeypatch.setattr(module, "SEARCH_POINTS", 8)
    found = tune_joint(Task(), Protocol(), "descend", alpha=1.0, steps=10)
    given = descend(Task(), GIVEN.with_alpha(1.0), steps=10)
    assert bayes(Task(), 1.0).test_error < found.test_error < given.test_error + 3.0 * given.errors["test_error"]
    assert found.best_step == descend(Task(), found.tuned, steps=10).best_step
    # a readout whose logits are far above the spread of the bias between samples
    assert descend(Task(), found.tuned, steps=10).norm_readout > 0.3


@pytest.mark.slow
def test_recommended_rates_and_step_hold_in_training():
    """At the dimension for which rates are chosen: the error of trained weights, and that of stopping elsewhere."""
    found = tune_joint(Task(), Protocol(), "descend", alpha=2.0, steps=12)
    dim, trials = module.REFERENCE_DIM, 6
    runs = {
        step: train(Task(), found.tuned, mode="joint", steps=step, dim=dim, trials=trials, seed=3)
        for step in (found.best_step - 3, found.best_step)
    }
    stopped = runs[found.best_step]
    # the bias varies between samples, which adds about 0.08/d to an error that is convex in it, doubled to be safe
    excess = 0.16 / dim
    assert -0.001 < stopped.test_error - found.test_error < excess + 3.5 * stopped.test_error_err
    assert stopped.cos_query == pytest.approx(found.cos_query, abs=4.0 * stopped.cos_query_err + 10.0 / dim)
    assert stopped.test_error < runs[found.best_step - 3].test_error


def test_searches_report_progress(monkeypatch):
    monkeypatch.setattr(module, "SEARCH_POINTS", 18)
    calls = []
    tune_joint(Task(), Protocol(), "reuse", progress=lambda: calls.append(1))
    assert 16 < len(calls) <= 20


@pytest.mark.parametrize(
    ("procedure", "options", "name"),
    [("split", {}, "procedure"), ("reuse", {"alpha": 0.0}, "alpha"), ("descend", {"steps": 1}, "steps")],
)
def test_invalid_arguments_are_refused(procedure, options, name):
    assert refusal(tune_joint, Task(), Protocol(), procedure, **options).name == name
