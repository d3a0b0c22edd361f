"""Certificates: every figure of a certificate that is out of range becomes a warning."""

from dataclasses import fields, replace

import numpy as np
import pytest

from onehead.aim import Learner, Task, predict
from onehead.aim.solve import certificate as module
from onehead.aim.solve.certificate import AimCertificate, numbers_at
from onehead.aim.solve.solver import solve
from onehead.aim.theory.build import build_state_evolution

ALPHA = 0.5
PROBLEM = build_state_evolution(Task(), Learner(weight_decay=0.1))
# figures of a certificate that say how good a solution is, with the change that puts each out of range
FIGURES = ("residual", "errors", "quadrature_error", "train_loss_gap", "stein_gap", "switch_mass", "replicon")
NOT_FIGURES = {"status", "kind", "evaluations", "warnings"}


@pytest.fixture(scope="module")
def solution():
    return solve(PROBLEM, ALPHA)


def warnings_of(solution, monkeypatch):
    """Warnings of the numbers made of a solution."""
    monkeypatch.setattr(module, "_solve", lambda *_: module._solved(PROBLEM, solution))
    return numbers_at(PROBLEM, ALPHA).certificate


def test_every_figure_is_tested_here():
    assert {field.name for field in fields(AimCertificate)} == {*FIGURES, *NOT_FIGURES}


def test_a_good_solution_has_no_warning(solution, monkeypatch):
    found = warnings_of(solution, monkeypatch)
    assert found.clean
    assert found.replicon < 1.0


def test_a_residual_out_of_range(solution, monkeypatch):
    found = warnings_of(replace(solution, residual=1e-4), monkeypatch)
    assert any("residual of the equations is 1.0e-04" in warning for warning in found.warnings)
    assert not warnings_of(replace(solution, residual=np.nan), monkeypatch).clean


def test_an_error_of_the_test_error_out_of_range(solution, monkeypatch):
    estimate = solution.error_estimate
    overlaps = estimate.found.overlaps
    other = estimate.found._replace(overlaps=replace(overlaps, q_sectors=(1.01 * overlaps.q,)))
    found = warnings_of(replace(solution, error_estimate=estimate.with_alternative(other)), monkeypatch)
    assert found.quadrature_error == found.errors["test_error"]
    assert any("numerical error of the test error" in warning for warning in found.warnings)


def test_a_gap_of_the_training_loss_out_of_range(solution, monkeypatch):
    hats = replace(solution.hats, q_sectors=tuple(1.01 * np.array(solution.hats.q_sectors)))
    found = warnings_of(replace(solution, hats=hats), monkeypatch)
    assert found.train_loss_gap > module.MAXIMUM_TRAIN_LOSS_GAP
    assert any("the two forms of the training loss differ" in warning for warning in found.warnings)


def test_a_stein_gap_out_of_range(solution, monkeypatch):
    output = type(PROBLEM.output)
    exact = output.hats_of

    def shifted(self, *args, derivative=True):
        hats = exact(self, *args, derivative=derivative)
        return hats if derivative else hats.times(1.1)

    monkeypatch.setattr(output, "hats_of", shifted)
    found = warnings_of(solution, monkeypatch)
    assert any("two forms of Sigmahat differ by 1.0e-01" in warning for warning in found.warnings)


def test_a_switch_mass_out_of_range(solution, monkeypatch):
    found = warnings_of(replace(solution, switch_mass=0.1, single_minimum=False), monkeypatch)
    assert any("10.0% of the samples" in warning for warning in found.warnings)
    assert found.kind == "heuristic"


def test_a_replicon_out_of_range(solution, monkeypatch):
    channel = type(PROBLEM.channel_at(solution.overlaps))
    exact = channel.replicon
    monkeypatch.setattr(channel, "replicon", lambda self, *args: 100.0 * exact(self, *args))
    found = warnings_of(solution, monkeypatch)
    assert found.replicon >= 1.0
    assert any("replicon is not below one" in warning for warning in found.warnings)
    assert found.kind == "heuristic"


def test_predictions_of_the_default_task_are_clean():
    assert predict(Task(), Learner(weight_decay=0.1), ALPHA).certificate.clean


@pytest.mark.parametrize(
    ("task", "text"),
    [(Task(attention="cross", tokens=64), "11.4% of the rows"), (Task(), "72.0% of the samples")],
)
def test_a_share_of_rows_is_not_above_one(task, text):
    """Of 64 rows 7.3 have a lower minimum; the rows of two tokens that share their logit count as one sample."""
    problem = build_state_evolution(task, Learner())
    switch = 7.3 if task.tokens == 64 else 0.72
    _, _, warnings = module._judged(problem, 0.5, switch, None)
    assert warnings[0].startswith(f"for {text} the output layer")
