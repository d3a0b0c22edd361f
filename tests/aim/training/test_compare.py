"""The comparison table, its extrapolation, and the pictures."""

import json

import numpy as np
import pytest

from onehead import plot as pictures
from onehead.aim import Learner, Task, curve, predict, spectrum
from onehead.aim.training.amp import amp
from onehead.aim.training.compare import compare
from onehead.aim.training.settings import Method
from onehead.aim.training.train import train
from onehead.measured import extrapolate
from onehead.plot import learning_curve, save

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
        _FALL = 1.0

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


@pytest.mark.slow
def test_extrapolated_training_meets_theory():
    found = compare(Task(), Learner(), [0.5], dims=[40, 60, 90], seeds=[10, 8, 6], method=Method(test_samples=20_000))
    for limit in found.points[0].limits:
        if limit.quantity in ("test_error", "test_error_clean", "train_loss", "q", "m"):
            # three standard errors; 1/d² terms are below 1e-3 of the value at these sizes
            assert abs(limit.value - limit.predicted) < 3.0 * limit.standard_error + 1e-3 * limit.predicted


def test_pictures_draw(table, tmp_path):
    theory = predict(Task(), Learner(), 0.5)
    run = train(Task(), Learner(), dim=30, alpha=0.5, seeds=2, method=QUICK)
    axes = learning_curve(curve(Task(), Learner(), [0.4, 0.5, 0.6]))
    drawn = {
        "points": pictures.training_points([run], axes=axes),
        "alone": pictures.training_points([run]),
        "spectrum": pictures.trained_spectrum(run, spectrum(theory)),
        "amp": pictures.message_passing(amp(Task(), Learner(), dim=20, alpha=1.0, iterations=4)),
        "compare": pictures.comparison(table),
    }
    for name, picture in drawn.items():
        save(picture, str(tmp_path / f"{name}.png"))
        assert (tmp_path / f"{name}.png").stat().st_size > 5000
        assert picture.get_legend() is not None
