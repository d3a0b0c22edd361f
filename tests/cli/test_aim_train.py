"""``aim train``, ``aim amp`` and ``aim compare``."""

import json

import click
import numpy as np
import pytest
from click.testing import CliRunner

from onehead.cli.main import cli
from onehead.errors import InvalidArgument


def call(*words):
    return CliRunner().invoke(cli, ["aim", *words], catch_exceptions=False, standalone_mode=False)


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
