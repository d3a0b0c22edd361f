"""Comparisons of theory and training, and the result classes that aim and sparse share."""

import json
from dataclasses import replace

import numpy as np
import pytest

from onehead import aim, sparse
from onehead.results.replicates import Measured, TheoryComparison

PLAN = sparse.Protocol(alpha0=1.5, alpha1=1.5, beta=5.0, ridge=0.1, loss="square")


@pytest.fixture(scope="module")
def table():
    return sparse.compare(sparse.Task(length=5), PLAN, [2.0, 3.0], dims=[60, 100], trials=[6, 4])


def test_a_comparison_has_a_row_per_dimension_and_a_limit(table):
    rows = table.to_rows()
    assert [row["dim"] for row in rows] == [60, 100, None] * 2
    assert [row["trials"] for row in rows[:3]] == [6, 4, 10]
    for row in rows:
        for name in ("test_error", "train_loss", "cos_query"):
            away = (row[name] - row[f"{name}_theory"]) / row[f"{name}_err"]
            assert row[f"{name}_z"] == pytest.approx(away)
            assert abs(away) < 5.0  # six repeats: t distribution
    assert len(table.to_frame()) == 6
    assert (
        repr(table)
        == "Comparison(4 measurements, 0 off by more than noise, setting='attention model, reduced samples')"
    )
    json.dumps(table.to_dict(), allow_nan=False)


def test_sample_ratios_are_split_as_in_the_protocol(table):
    own = sparse.compare(sparse.Task(length=5), PLAN, dims=[60], trials=6)
    assert own.points[0].alpha == 3.0
    assert own.points[0].runs[0].protocol == PLAN
    assert table.points[0].runs[0].protocol.alpha0 == pytest.approx(1.0)
    assert table.points[1].runs[0].test_error == own.points[0].runs[0].test_error  # the same instances


def test_aim_and_sparse_share_the_result_classes(table):
    assert isinstance(table, TheoryComparison) and issubclass(aim.Comparison, TheoryComparison)
    assert issubclass(sparse.TrainingResult, Measured) and issubclass(aim.TrainingResult, Measured)
    runs = table.points[0].runs[0]
    values = [run.test_error for run in runs.runs]
    assert runs.test_error == pytest.approx(np.mean(values)) and runs.trial_errors == tuple(values)
    assert runs.test_error_std == runs.spread["test_error_std"] == pytest.approx(np.std(values, ddof=1))
    assert runs.errors["test_error"] == runs.test_error_err == pytest.approx(runs.test_error_std / np.sqrt(6))
    assert f"± {runs.test_error_err:.2g}" in repr(runs)
    with pytest.raises(AttributeError, match="colour_std"):
        _ = runs.colour_std


def test_the_limit_weighs_dimensions_by_their_spread(table):
    """The spread of a trial falls as 1/sqrt(d): two dimensions give the error of the intercept in closed form."""
    limit = table.points[0].limits[0]
    (a, n), (b, m) = ((run.dim, run.trials) for run in table.points[0].runs)
    stds = [run.spread["test_error_std"] for run in table.points[0].runs]
    pooled = ((n - 1) * stds[0] ** 2 * a + (m - 1) * stds[1] ** 2 * b) / (n + m - 2)
    # the line through two means: intercept (b y_b - a y_a) / (b - a), each mean with variance pooled / (d trials)
    variance = (b**2 * pooled / (b * m) + a**2 * pooled / (a * n)) / (b - a) ** 2
    assert limit.standard_error == pytest.approx(np.sqrt(variance))


def test_one_trial_has_no_spread():
    runs = sparse.train(sparse.Task(), PLAN, dim=40, trials=1)
    assert runs.to_dict()["test_error_std"] is None
    (first, *_) = runs.against(sparse.predict(sparse.Task(), PLAN))
    assert first.verdict == "unknown: one trial has no standard error"


def test_a_loss_that_is_zero_agrees_with_one_of_1e_67():
    plan = sparse.Protocol(alpha0=1.0, alpha1=1.5, beta=3.0, ridge=1e-2, loss="hinge")
    runs = sparse.train(sparse.Task(), plan, dim=40, trials=2)
    nothing = replace(runs, train_loss=0.0, spread={**runs.spread, "train_loss_std": 0.0, "train_loss_err": 0.0})
    theory = sparse.predict(sparse.Task(), plan, accuracy=1e-2)
    for loss, z, verdict in ((1e-67, 0.0, "agrees within noise"), (0.1, np.nan, "differs by more than noise")):
        item = nothing.against(replace(theory, train_loss=loss))[1]
        assert item.z == pytest.approx(z, nan_ok=True) and item.verdict == verdict


def test_a_fixed_query_is_not_compared():
    given = PLAN.changed(cos_query=0.8, sharpness=2.0)
    names = [item.quantity for item in sparse.train(sparse.Task(), given, dim=40, trials=2).against(
        sparse.predict(sparse.Task(), given))]  # fmt: skip
    assert names == ["test_error", "train_loss"]
    row = sparse.train(sparse.Task(), PLAN, model="pooled", dim=40, trials=2).to_dict()
    assert row["cos_query"] is row["cos_query_std"] is row["cos_query_err"] is None
