"""The comparison table, its extrapolation, and the pictures."""

import json

import numpy as np
import pytest

from onehead import plot as pictures
from onehead.aim import Learner, MarchenkoPastur, Task, curve, predict, spectrum
from onehead.aim.training.amp import amp
from onehead.aim.training.compare import compare
from onehead.aim.training.settings import Method
from onehead.aim.training.train import train
from onehead.plot import learning_curve, save
from onehead.results.replicates import extrapolate

QUICK = Method(starts=1, test_samples=2000)


@pytest.fixture(scope="module")
def table():
    return compare(Task(), Learner(), [0.5, 1.0], dims=[20, 30, 40], seeds=[4, 3, 2], method=QUICK)


def test_table_has_a_row_per_dimension_and_a_limit(table):
    rows = table.to_rows()
    assert [row["dim"] for row in rows] == [20, 30, 40, None] * 2
    for row in rows:
        assert row["test_error_z"] == pytest.approx(
            (row["test_error"] - row["test_error_theory"]) / row["test_error_err"]
        )
    assert len(table.to_frame()) == 8
    json.dumps(table.to_dict(), allow_nan=False)


def test_extrapolation_is_exact_on_a_line(table):
    class Fake:
        _SPREAD_EXPONENT = 1.0

        def __init__(self, dim):
            self.dim, self.repeats, self.test_error = dim, 4, 0.1 + 3.0 / dim
            self.spread = {"test_error_std": 0.5 / dim}

    found = extrapolate("test_error", [Fake(dim) for dim in (50, 100, 200)], 0.1)
    assert found.value == pytest.approx(0.1)
    assert found.slope == pytest.approx(3.0)
    assert found.z == pytest.approx(0.0, abs=1e-9)
    # with std 0.5/d and four seeds the design gives the error of the intercept in closed form
    d = np.array([50.0, 100.0, 200.0])
    design = np.stack([np.ones(3), 1.0 / d], axis=1) * (d / 0.25)[:, None]
    assert found.standard_error == pytest.approx(np.sqrt(np.linalg.inv(design.T @ design)[0, 0]))


def test_every_run_is_compared_with_the_prediction_for_its_integer_sizes():
    """Samples, rows of the factor and of the target are integers: at d = 10, .33 is three rows and 33 samples."""
    task, learner = Task(target=MarchenkoPastur(kappa0=0.33)), Learner(width=0.33, weight_decay=0.05)
    point = compare(task, learner, [0.333], dims=[10, 15], seeds=2, method=QUICK).points[0]
    for run, theory, (kappa0, width, count) in zip(
        point.runs, point.beside, [(0.3, 0.3, 33), (1 / 3, 1 / 3, 75)], strict=True
    ):
        own = predict(Task(target=MarchenkoPastur(kappa0=kappa0)), learner.changed(width=width), count / run.dim**2)
        assert (run.samples, run.trained_width, run.trained_kappa0) == (count, width, kappa0)
        assert theory.test_error == own.test_error
        assert predict(*run.trained).test_error == own.test_error
    row, last = point.rows()[0], point.rows()[-1]
    assert row["test_error_theory"] == point.beside[0].test_error
    assert row["test_error_theory"] != pytest.approx(point.prediction.test_error, rel=1e-3)
    assert last["test_error_theory"] == point.prediction.test_error  # the limit of what was asked for


def test_extrapolation_corrects_for_the_rounding_of_sizes():
    class Fake:
        _SPREAD_EXPONENT, repeats, spread = 1.0, 4, {"test_error_std": 0.01}

        def __init__(self, dim, rounding):
            self.dim, self.test_error = dim, 0.1 + 3.0 / dim + rounding

    rounding_errors = (0.02, -0.01, 0.005)
    runs = [Fake(dim, rounding) for dim, rounding in zip((50, 100, 200), rounding_errors, strict=True)]
    found = extrapolate("test_error", runs, 0.1, [0.1 + rounding for rounding in rounding_errors])
    assert (found.value, found.slope) == pytest.approx((0.1, 3.0))


def test_the_finite_size_allowance_grows_with_few_samples():
    """(3 + 1/(α J_T))/d: 20 % at α = .03 and d = 100, where q was measured 15 % off; 4 % at α = .5 (1.8)."""
    runs = [
        train(Task(tokens=t), Learner(), dim=20, alpha=a, method=QUICK) for t, a in ((2, 0.5), (2, 0.05), (3, 0.02))
    ]
    assert [20 * run.finite_size for run in runs] == pytest.approx([4.0, 13.0, 13.0])


def test_hard_labels_are_compared_by_zero_one_error_and_cross_entropy():
    task = Task(attention="cross", mask="causal", tokens=3, labels="hard")
    learner = Learner(weight_decay=0.1, loss="cross-entropy")
    table = compare(task, learner, [1.0], dims=[16, 24], seeds=3, method=QUICK)
    rows = table.to_rows()
    assert [row["dim"] for row in rows] == [16, 24, None]
    assert all(f"{name}_z" in row for row in rows for name in ("zero_one_error", "test_cross_entropy", "q"))
    assert table.setting == "gaussian tokens, untied query and key, 1 head"


@pytest.mark.slow
def test_extrapolated_training_agrees_with_theory():
    found = compare(Task(), Learner(), [0.5], dims=[40, 60, 90], seeds=[10, 8, 6], method=Method(test_samples=20_000))
    for limit in found.points[0].limits:
        if limit.quantity in ("test_error", "test_error_clean", "train_loss", "q", "m"):
            # three standard errors; 1/d² terms are below 1e-3 of the value at these sizes
            assert abs(limit.value - limit.predicted) < 3.0 * limit.standard_error + 1e-3 * limit.predicted


def test_pictures_of_training_are_drawn(table, tmp_path):
    theory = predict(Task(), Learner(), 0.5)
    run = train(Task(), Learner(), dim=30, alpha=0.5, seeds=2, method=QUICK)
    axes = learning_curve(curve(Task(), Learner(), [0.4, 0.5, 0.6]))
    drawn = {
        "points": pictures.training_points([run], ax=axes),
        "alone": pictures.training_points([run]),
        "spectrum": pictures.trained_spectrum(run, spectrum(theory)),
        "amp": pictures.message_passing(amp(Task(), Learner(), dim=20, alpha=1.0, iterations=4)),
        "compare": pictures.comparison(table),
    }
    for name, picture in drawn.items():
        save(picture, str(tmp_path / f"{name}.png"))
        assert (tmp_path / f"{name}.png").stat().st_size > 5000
        assert picture.get_legend() is not None
