"""The comparison table, its extrapolation, the pictures, and the three commands."""

import json

import click
import numpy as np
import pytest
from click.testing import CliRunner

from onehead.aim import Learner, Task, curve, predict, spectrum
from onehead.aim.training.amp import amp
from onehead.aim.training.compare import compare
from onehead.aim.training.results import Method
from onehead.aim.training.train import train
from onehead.cli import aim_train
from onehead.errors import InvalidArgument
from onehead.measured import extrapolate
from onehead.plot import learning_curve, save
from onehead.plot import training as pictures

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


def test_compare_refuses_bad_input():
    for arguments in ({"alphas": []}, {"alphas": [1.0], "seeds": [1]}, {"alphas": [1.0], "dims": []}):
        with pytest.raises(InvalidArgument):
            compare(Task(), Learner(), **arguments)


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


def group():
    commands = click.Group("aim")
    for command in (aim_train.train, aim_train.amp, aim_train.compare):
        commands.add_command(command)
    return commands


def call(*words):
    return CliRunner().invoke(group(), list(words), catch_exceptions=False, standalone_mode=False)


SMALL = ("--dim", "20", "--alpha", "1")


def test_train_command(tmp_path):
    answer = call(
        "train", *SMALL, "--seeds", "2", "--json", "--csv", str(tmp_path / "r.csv"), "--plot", str(tmp_path / "p.png")
    )
    row = json.loads(answer.stdout)
    for key in [
        "test_error",
        "test_error_std",
        "test_error_err",
        "test_error_clean",
        "train_loss",
        "train_loss_std",
        "rank",
        "q",
        "m",
        "seconds",
        "status",
    ]:
        assert key in row
    assert {item["quantity"] for item in row["agreement"]} >= {"test_error", "rank"}
    assert len((tmp_path / "r.csv").read_text().splitlines()) == 3
    assert (tmp_path / "p.png").exists()
    text = call("train", *SMALL, "--seeds", "2", "--untied", "--heads", "2", "--token-law", "sphere").stdout
    assert "verdict" in text
    assert "untied" in text


def test_train_command_with_rows_of_a_file(tmp_path):
    path = tmp_path / "tokens.npy"
    np.save(path, np.random.default_rng(0).standard_normal((300, 20)))
    answer = call("train", *SMALL, "--seeds", "1", "--token-law", str(path), "--float32", "--json")
    assert json.loads(answer.stdout)["setting"].startswith("rows tokens")
    np.save(path, np.full((300, 20), np.nan))
    with pytest.raises(InvalidArgument, match="finite"):
        call("train", *SMALL, "--token-law", str(path))
    for bad in ("nowhere.npy", "cauchy"):
        with pytest.raises(InvalidArgument, match=r"--token-law must be gaussian.*or a \.npy file"):
            call("train", *SMALL, "--token-law", bad)
    path.write_bytes(b"not an array")
    with pytest.raises(InvalidArgument, match="npy file of numbers"):
        call("train", *SMALL, "--token-law", str(path))


def test_amp_command(tmp_path):
    answer = call("amp", *SMALL, "--iterations", "4", "--json", "--plot", str(tmp_path / "p.png"))
    rows = json.loads(answer.stdout)
    assert len(rows) == 5
    assert {"q", "m", "sigma", "q_theory", "m_theory", "sigma_theory"} <= set(rows[0])
    assert "q_theory" in call("amp", *SMALL, "--iterations", "2", "--csv", str(tmp_path / "r.csv")).stdout


def test_compare_command(tmp_path):
    words = ("compare", "--alphas", "1,2", "--dims", "16,20", "--seeds", "2")
    rows = json.loads(call(*words, "--json", "--csv", str(tmp_path / "r.csv")).stdout)
    assert [row["dim"] for row in rows] == [16, 20, None] * 2
    assert "∞" in call(*words, "--plot", str(tmp_path / "p.png")).stdout
    with pytest.raises(click.BadParameter, match="comma list"):
        call("compare", "--alphas", "1", "--dims", "a,b")
