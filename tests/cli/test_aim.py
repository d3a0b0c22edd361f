"""``onehead aim``: tables, explanations, exit codes and files; the golden file checks the JSON."""

import csv
import json

import numpy as np
import pytest
from tests.support.programs import program

from onehead.cli import demo


def test_predict_prints_json_a_table_or_an_explanation(onehead):
    code, out, err = onehead("aim", "predict", "--alpha", 0.5, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["test_error"] == pytest.approx(0.13599, abs=1e-5)
    code, out, _ = onehead("aim", "predict", "--alpha", 0.5)
    assert code == 0
    assert "0.13599" in out
    code, out, _ = onehead("aim", "predict", "--alpha", 0.5, "--explain")
    assert "fresh sample" in out


def test_curve_writes_a_table_and_a_picture(onehead, tmp_path):
    table, picture = tmp_path / "c.csv", tmp_path / "c.png"
    code, out, err = onehead("aim", "curve", "--alphas", "1,0.5", "--json", "--csv", table, "--plot", picture)
    rows = json.loads(out)
    assert code == 0
    assert [row["alpha"] for row in rows] == [1.0, 0.5]
    assert "wrote" in err
    with table.open() as file:
        assert [float(row["alpha"]) for row in csv.DictReader(file)] == [1.0, 0.5]
    assert picture.read_bytes()[:4] == b"\x89PNG"
    code, out, _ = onehead("aim", "curve", "--alphas", "log:0.5:1:2")
    assert "test_error" in out


def test_a_curve_counts_the_points_with_a_note(onehead):
    command = ("aim", "curve", "--attention", "self", "--mask", "causal", "--weight-decay", 0.3, "--alphas", "0.05,2,3")
    code, _, err = onehead(*command)  # the map is zero at the first point, which has no note
    assert code == 0
    note = "note: 2 of 3 points carry a note, which --json holds; the first: the two sectors of self-attention"
    assert note in " ".join(err.split())
    rows = json.loads(onehead(*command, "--json")[1])
    assert ["the two sectors" in " ".join(row["warnings"]) for row in rows] == [False, True, True]
    assert "carry a note" not in onehead("aim", "curve", "--alphas", "0.5,1")[2]


def test_thresholds_report_what_is_learned_from_samples_over_d(onehead):
    head = ("--attention", "cross", "--unasked", 0.5, "--loss", "cross-entropy", "--weight-decay", 0.5)
    code, out, _ = onehead("aim", "thresholds", *head, "--samples-per-dim", "0.1,4", "--json")
    few, many = json.loads(out)["unasked_curve"]
    assert (code, few["unasked_scale"], many["samples_per_dim"]) == (0, 0.0, 4.0)
    assert 0.4 < many["unasked_scale"] < 0.6
    assert many["unasked_scale_err"] > 0.0
    code, out, _ = onehead("aim", "thresholds", *head, "--samples-per-dim", "4")
    assert code == 0
    assert f"{many['unasked_scale']:.5g}" in out
    code, _, err = onehead("aim", "thresholds", "--samples-per-dim", "4")
    assert code == 2
    assert "unasked must be above 0" in err.replace("--", "")


def test_thresholds_that_are_not_known_have_a_dash(onehead):
    code, out, _ = onehead("aim", "thresholds", "--noise", 0)
    assert code == 0
    assert "interpolation" in out
    separability = next(line for line in out.splitlines() if "separability" in line)
    assert separability.split("│")[2].strip() == "-"  # known for other heads only


def test_spectrum_writes_a_picture_and_a_table(onehead, tmp_path):
    picture, table = tmp_path / "s.pdf", tmp_path / "s.csv"
    code, _, _ = onehead("aim", "spectrum", "--alpha", 4, "--json", "--plot", picture, "--csv", table)
    assert code == 0
    assert picture.stat().st_size > 1000
    assert "zero_mass" in onehead("aim", "spectrum", "--alpha", 4, "--param", "direct", "--plot", tmp_path / "d.png")[1]


@pytest.mark.slow
def test_tune_finds_the_best_weight_decay(onehead, tmp_path):
    code, out, _ = onehead(
        "aim", "tune", "--alpha", 1, "--json", "--plot", tmp_path / "t.svg", "--csv", tmp_path / "t.csv"
    )
    row = json.loads(out)
    assert code == 0
    assert row["weight_decay"] == pytest.approx(0.062, abs=0.002)
    assert (tmp_path / "t.svg").exists()


def test_a_failed_solve_exits_with_one(onehead, monkeypatch):
    import onehead.aim as module
    from onehead.errors import NotConverged

    def fail(*_, **__):
        raise NotConverged("the residual stopped at 1e-3.")

    monkeypatch.setattr(module, "predict", fail)
    code, out, err = onehead("aim", "predict", "--alpha", "1")
    assert (code, out) == (1, "")
    assert err == "onehead: the residual stopped at 1e-3.\n"


def test_ctrl_c_prints_one_line(onehead, monkeypatch):
    import onehead.aim as module

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "predict", stop)
    code, _, err = onehead("aim", "predict", "--alpha", "1")
    assert code == 130
    assert "interrupted" in err


@pytest.mark.parametrize("arguments", [["aim", "curve", "-h"], ["--version"]])
def test_help_and_version_go_to_standard_output(onehead, arguments):
    code, out, err = onehead(*arguments)
    assert code == 0
    assert err == ""
    assert "onehead" in out.lower()


def test_the_program_is_installed():
    assert program("--version").stdout.startswith("onehead ")


def test_demo_writes_its_pictures(onehead, tmp_path, monkeypatch):
    """With fewer points and smaller heads, which take seconds in place of half a minute."""
    for name, value in {
        "CURVE": np.geomspace(0.05, 2.0, 9),
        "ALPHAS": (0.4, 1.4),
        "DIM": 20,
        "SPECTRUM_DIM": 30,
    }.items():
        monkeypatch.setattr(demo, name, value)
    code, out, _ = onehead("demo", "--out", tmp_path, "--json")
    paths = json.loads(out)
    assert code == 0
    for path in paths.values():
        with open(path, "rb") as file:
            assert file.read(4) == b"\x89PNG"
