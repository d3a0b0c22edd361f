"""The command line: keys, exit codes, one line for every wrong argument, files on request."""

import csv
import json
import subprocess
import sys

import pytest

POINT = {"alpha", "test_error", "test_error_clean", "train_loss", "rank", "q", "m", "sigma", "q_hat", "m_hat", "sigma_hat",
         "residual", "status", "kind"}  # fmt: skip


def test_predict(onehead):
    code, out, err = onehead("aim", "predict", "--alpha", 0.5, "--json")
    row = json.loads(out)
    assert code == 0
    assert err == ""
    assert set(row) >= POINT
    assert row["test_error"] == pytest.approx(0.13599, abs=1e-5)
    code, out, _ = onehead("aim", "predict", "--alpha", 0.5)
    assert code == 0
    assert "0.13599" in out
    code, out, _ = onehead("aim", "predict", "--alpha", 0.5, "--explain")
    assert "fresh sample" in out


def test_curve(onehead, tmp_path):
    table, picture = tmp_path / "c.csv", tmp_path / "c.png"
    code, out, err = onehead("aim", "curve", "--alphas", "1,0.5", "--json", "--csv", table, "--plot", picture)
    rows = json.loads(out)
    assert code == 0
    assert [row["alpha"] for row in rows] == [1.0, 0.5]
    assert set(rows[0]) >= POINT
    assert "wrote" in err
    with table.open() as file:
        assert [float(row["alpha"]) for row in csv.DictReader(file)] == [1.0, 0.5]
    assert picture.read_bytes()[:4] == b"\x89PNG"
    code, out, _ = onehead("aim", "curve", "--alphas", "log:0.5:1:2")
    assert "test_error" in out


def test_thresholds(onehead):
    code, out, _ = onehead("aim", "thresholds", "--json")
    row = json.loads(out)
    assert code == 0
    assert set(row) >= {"interpolation", "recovery", "bayes_optimal", "direct", "emergence", "peak_test_error"}
    assert row["recovery"] is None
    assert "noise" in row["status"]
    assert "interpolation" in onehead("aim", "thresholds", "--noise", 0)[1]


def test_spectrum(onehead, tmp_path):
    picture, table = tmp_path / "s.pdf", tmp_path / "s.csv"
    code, out, _ = onehead("aim", "spectrum", "--alpha", 4, "--json", "--plot", picture, "--csv", table)
    row = json.loads(out)
    assert code == 0
    assert set(row) >= {"zero_mass", "rank", "edges", "outliers", "x", "density", "mean", "second_moment"}
    assert len(row["x"]) == len(row["density"])
    assert len(row["edges"][0]) == 2
    assert picture.stat().st_size > 1000
    assert "zero_mass" in onehead("aim", "spectrum", "--alpha", 4, "--param", "direct", "--plot", tmp_path / "d.png")[1]


@pytest.mark.slow
def test_tune(onehead, tmp_path):
    code, out, _ = onehead(
        "aim", "tune", "--alpha", 1, "--json", "--plot", tmp_path / "t.svg", "--csv", tmp_path / "t.csv"
    )
    row = json.loads(out)
    assert code == 0
    assert set(row) >= {"weight_decay", "test_error"}
    assert row["weight_decay"] == pytest.approx(0.062, abs=0.002)
    assert (tmp_path / "t.svg").exists()


def test_limits_are_null_in_json(onehead):
    row = json.loads(onehead("aim", "predict", "--alpha", 0.1, "--weight-decay", "0+", "--json")[1])
    assert row["sigma"] is None
    assert row["m_hat"] is None
    assert row["status"].startswith("interpolating")


@pytest.mark.parametrize(
    ("words", "name", "allowed"),
    [
        (["aim", "predict", "--alpha", "-1"], "--alpha", "> 0"),
        (["aim", "predict", "--alpha", "0"], "--alpha", "> 0"),
        (["aim", "predict", "--alpha", "nan"], "--alpha", "a number"),
        (["aim", "predict", "--alpha", "inf"], "--alpha", "a number"),
        (["aim", "predict", "--alpha", "many"], "--alpha", "a number"),
        (["aim", "predict"], "--alpha", "must be given"),
        (["aim", "predict", "--alpha"], "--alpha", "argument"),
        (["aim", "predict", "--alpha", "1", "--kappa0", "0"], "--kappa0", ">="),
        (["aim", "predict", "--alpha", "1", "--noise", "-1"], "--noise", ">= 0"),
        (["aim", "predict", "--alpha", "1", "--tokens", "1"], "--tokens", "2"),
        (["aim", "predict", "--alpha", "1", "--tokens", "17"], "--tokens", "16"),
        (["aim", "predict", "--alpha", "1", "--tokens", "2.5"], "--tokens", "integer"),
        (["aim", "predict", "--alpha", "1", "--beta", "0"], "--beta", ">= 1e-06"),
        (["aim", "predict", "--alpha", "1", "--beta0", "-2"], "--beta0", ">= 1e-06"),
        (["aim", "predict", "--alpha", "1", "--weight-decay", "0"], "--weight-decay", "0+"),
        (["aim", "predict", "--alpha", "1", "--weight-decay", "-0.1"], "--weight-decay", "0+"),
        (["aim", "predict", "--alpha", "1", "--loss", "hinge"], "--loss", "squared or cross-entropy"),
        (["aim", "predict", "--alpha", "1", "--width", "0"], "--width", "> 0"),
        (["aim", "predict", "--alpha", "1", "--param", "tied"], "--param", "factorised or direct"),
        (["aim", "predict", "--alpha", "1", "--branch", "both"], "--branch", "label or global"),
        (["aim", "predict", "--alpha", "1", "--target", "gauss"], "--target", "mp"),
        (["aim", "predict", "--alpha", "1", "--lambda", "1"], "--lambda", "--weight-decay"),
        (["aim", "predict", "--alpha", "1", "extra"], "extra", ""),
        (["aim", "curve", "--alphas", "1:2"], "--alphas", "start:stop:count"),
        (["aim", "curve", "--alphas", "0:2:5"], "--alphas", "> 0"),
        (["aim", "curve", "--alphas", "log:1:2"], "--alphas", "log:start:stop:count"),
        (["aim", "curve", "--alphas", "1:2:0"], "--alphas", "count"),
        (["aim", "curve", "--alphas", "1:2:1000000"], "--alphas", "100000"),
        (["aim", "curve", "--alphas", "1,x"], "--alphas", "comma list"),
        (["aim", "curve", "--alphas", ""], "--alphas", "comma list"),
        (["aim", "curve", "--alphas", "1", "--plot", "x.gif"], "--plot", ".png"),
        (["aim", "curve", "--alphas", "1", "--plot", "no/such/folder/x.png"], "--plot", "exists"),
        (["aim", "curve", "--alphas", "1", "--csv", "no/such/folder/x.csv"], "no/such/folder", ""),
        (["aim", "thresholds", "--alpha", "1"], "--alpha", "allowed"),
        (["aim", "nonsense"], "nonsense", "predict"),
        (["nonsense"], "nonsense", "aim"),
    ],
)
def test_wrong_arguments_get_one_line(onehead, words, name, allowed):
    code, out, err = onehead(*words)
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1
    assert name in err
    assert allowed in err
    assert "Traceback" not in err


def test_a_failed_solve_exits_with_one(onehead, monkeypatch):
    import onehead.aim as room
    from onehead.errors import NotConverged

    def fail(*_, **__):
        raise NotConverged("the residual stopped at 1e-3.")

    monkeypatch.setattr(room, "predict", fail)
    code, out, err = onehead("aim", "predict", "--alpha", "1")
    assert (code, out) == (1, "")
    assert err == "onehead: the residual stopped at 1e-3.\n"


def test_interrupt_is_one_line(onehead, monkeypatch):
    import onehead.aim as room

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(room, "predict", stop)
    code, _, err = onehead("aim", "predict", "--alpha", "1")
    assert code == 130
    assert "interrupted" in err


@pytest.mark.parametrize("words", [["--help"], ["aim", "--help"], ["aim", "curve", "-h"], ["--version"]])
def test_help(onehead, words):
    code, out, err = onehead(*words)
    assert code == 0
    assert err == ""
    assert "onehead" in out.lower()


def test_the_program_is_installed():
    done = subprocess.run([sys.executable, "-m", "onehead", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("onehead ")


def test_demo(onehead, tmp_path):
    code, out, _ = onehead("demo", "--out", tmp_path, "--json")
    paths = json.loads(out)
    assert code == 0
    for path in paths.values():
        with open(path, "rb") as file:
            assert file.read(4) == b"\x89PNG"
