"""The command line beyond its JSON, which the golden file holds: words, exit codes, files on request."""

import csv
import json

import pytest
from tests.support.programs import program


def test_predict(onehead):
    code, out, err = onehead("aim", "predict", "--alpha", 0.5, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["test_error"] == pytest.approx(0.13599, abs=1e-5)
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
    assert "wrote" in err
    with table.open() as file:
        assert [float(row["alpha"]) for row in csv.DictReader(file)] == [1.0, 0.5]
    assert picture.read_bytes()[:4] == b"\x89PNG"
    code, out, _ = onehead("aim", "curve", "--alphas", "log:0.5:1:2")
    assert "test_error" in out


def test_a_curve_says_how_many_of_its_points_carry_a_note(onehead):
    words = ("aim", "curve", "--attention", "self", "--mask", "causal", "--weight-decay", 0.3, "--alphas", "0.05,2,3")
    code, _, err = onehead(*words)  # the map is zero at the first
    assert code == 0
    note = "note: 2 of 3 points carry a note, which --json holds; the first: the two sectors of self-attention"
    assert note in " ".join(err.split())
    rows = json.loads(onehead(*words, "--json")[1])
    assert ["the two sectors" in " ".join(row["warnings"]) for row in rows] == [False, True, True]
    assert "carry a note" not in onehead("aim", "curve", "--alphas", "0.5,1")[2]


def test_thresholds(onehead):
    code, out, _ = onehead("aim", "thresholds", "--noise", 0)
    assert code == 0
    assert "interpolation" in out


def test_spectrum(onehead, tmp_path):
    picture, table = tmp_path / "s.pdf", tmp_path / "s.csv"
    code, _, _ = onehead("aim", "spectrum", "--alpha", 4, "--json", "--plot", picture, "--csv", table)
    assert code == 0
    assert picture.stat().st_size > 1000
    assert "zero_mass" in onehead("aim", "spectrum", "--alpha", 4, "--param", "direct", "--plot", tmp_path / "d.png")[1]


@pytest.mark.slow
def test_tune(onehead, tmp_path):
    code, out, _ = onehead(
        "aim", "tune", "--alpha", 1, "--json", "--plot", tmp_path / "t.svg", "--csv", tmp_path / "t.csv"
    )
    row = json.loads(out)
    assert code == 0
    assert row["weight_decay"] == pytest.approx(0.062, abs=0.002)
    assert (tmp_path / "t.svg").exists()


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


@pytest.mark.parametrize("words", [["aim", "curve", "-h"], ["--version"]])
def test_help(onehead, words):
    code, out, err = onehead(*words)
    assert code == 0
    assert err == ""
    assert "onehead" in out.lower()


def test_the_program_is_installed():
    assert program("--version").stdout.startswith("onehead ")


def test_demo(onehead, tmp_path):
    code, out, _ = onehead("demo", "--out", tmp_path, "--json")
    paths = json.loads(out)
    assert code == 0
    for path in paths.values():
        with open(path, "rb") as file:
            assert file.read(4) == b"\x89PNG"
