"""``aim scaling``, ``features``, ``phase-diagram``, and the target flags of every ``aim`` command."""

import json

import numpy as np
import pytest

from onehead.aim import Learner, PowerLaw, Task, predict


def test_scaling_keeps_the_order_of_the_samples(onehead, tmp_path):
    table, picture = tmp_path / "s.csv", tmp_path / "s.png"
    flags = ("--gamma", 0.75, "--dim", 60, "--samples", "1e5,2e3", "--weight-decay", "1/d")
    code, out, err = onehead("aim", "scaling", *flags, "--json", "--csv", table, "--plot", picture)
    rows = json.loads(out)
    assert code == 0
    assert [row["samples"] for row in rows] == [1e5, 2e3]
    point = predict(Task(target=PowerLaw(gamma=0.75, dim=60)), Learner(weight_decay=1 / 60, leading=0), 1e5 / 3600)
    assert rows[0]["excess_error"] == pytest.approx(point.excess_error, rel=1e-5)
    assert picture.read_bytes()[:4] == b"\x89PNG"
    assert len(table.read_text().splitlines()) == 3
    assert "wrote" in err
    code, out, _ = onehead("aim", "scaling", *flags)
    assert "underfitting" in out


def test_optimal_scaling_has_a_lower_error(onehead):
    flags = ("--dim", 40, "--samples", 2000, "--json")
    best, plain = (json.loads(onehead("aim", "scaling", *flags, *more)[1])[0] for more in (("--optimal",), ()))
    assert best["excess_error"] < plain["excess_error"]
    assert best["weight_decay"] != plain["weight_decay"]


def test_features_are_listed_in_order(onehead, tmp_path):
    picture = tmp_path / "f.svg"
    flags = ("--dim", 60, "--samples", "log:300:3e4:6", "--weight-decay", 1)
    code, out, _ = onehead("aim", "features", *flags, "--json", "--plot", picture)
    rows = json.loads(out)
    assert code == 0
    assert [row["feature"] for row in rows[:2]] == [1, 2]
    assert picture.read_text().lstrip().startswith("<?xml")
    assert "leave the noise" in onehead("aim", "features", *flags)[1]


def test_phase_diagram_has_a_row_for_every_cell(onehead, tmp_path):
    picture = tmp_path / "p.png"
    flags = ("--gamma", 1, "--dim", 50, "--log-n", "1:3:3", "--log-lambda", "-1,0", "--json", "--plot", picture)
    code, out, _ = onehead("aim", "phase-diagram", *flags)
    rows = json.loads(out)
    assert code == 0
    assert len(rows) == 6
    assert [(row["log_lambda"], row["log_n"]) for row in rows] == [(y, x) for y in (-1.0, 0.0) for x in (1.0, 2.0, 3.0)]
    assert picture.stat().st_size > 10_000


@pytest.mark.parametrize(
    "command",
    [
        ("predict", "--samples", 2000),
        ("curve", "--samples", "2000,4000"),
        ("thresholds",),
        ("spectrum", "--samples", 20000),
    ],
)
@pytest.mark.parametrize("target", ["power-law", "spikes", "atoms"])
def test_every_command_takes_every_target(onehead, tmp_path, command, target):
    file = tmp_path / "values.txt"
    file.write_text("# eigenvalues\n6, 3\n1.8 " + "0 " * 37)
    more = {"power-law": (), "spikes": ("--spikes", "6,3,1.8"), "atoms": ("--atoms", file)}[target]
    dim = () if target == "atoms" else ("--dim", 40)
    code, out, err = onehead("aim", *command, "--target", target, *more, *dim, "--json")
    assert (code, err) == (0, "")
    row = json.loads(out)
    if command[0] == "spectrum":
        assert row["outliers"]
        assert set(row["outliers"][0]) >= {"position", "overlap"}


def test_atoms_from_an_array_file(onehead, tmp_path):
    np.save(tmp_path / "a.npy", np.array([3.0, 1.0, 0.0, 0.0]))
    code, out, _ = onehead("aim", "predict", "--target", "atoms", "--atoms", tmp_path / "a.npy", "--alpha", 2, "--json")
    assert code == 0
    assert json.loads(out)["task"]["target"]["eigenvalues"] == [3.0, 1.0, 0.0, 0.0]


def test_train_takes_the_dimension_of_its_target(onehead):
    flags = ("--dim", 20, "--target", "power-law", "--samples", 200, "--weight-decay", "1/d", "--seeds", 1, "--json")
    code, out, _ = onehead("aim", "train", *flags)
    assert code == 0
    assert json.loads(out)["alpha"] == 0.5


def test_a_text_file_without_numbers_is_refused(onehead, tmp_path):
    file = tmp_path / "x.txt"
    file.write_text("one two")
    code, _, err = onehead("aim", "predict", "--alpha", 1, "--target", "atoms", "--atoms", file)
    assert code == 2
    assert "a .npy file of numbers, or a text file of numbers" in err


@pytest.mark.parametrize("name", ["causal", "strict"])
def test_the_matrix_of_a_named_mask_in_a_file_gives_its_numbers(onehead, tmp_path, name):
    matrix = np.tri(4, k=-(name == "strict"), dtype=bool)
    np.save(tmp_path / "mask.npy", matrix)
    np.savetxt(tmp_path / "mask.csv", matrix, fmt="%d", delimiter=", ", header="rows attend to columns")
    (tmp_path / "mask.txt").write_text(
        "\ufeff" + "\n\n".join("".join("01"[int(seen)] for seen in row) for row in matrix)
    )
    command = ("aim", "predict", "--alpha", 1, "--attention", "cross", "--json")
    expected = onehead(*command, "--mask", name, "--tokens", 4)
    for file in ("mask.npy", "mask.csv", "mask.txt"):
        assert onehead(*command, "--mask-file", tmp_path / file) == expected


def test_a_mask_of_ones_own_in_the_shell(onehead, tmp_path):
    file = tmp_path / "window.txt"
    file.write_text("100\n110\n011")
    flags = ("--attention", "self", "--mask-file", file, "--weight-decay", 0.05, "--json")
    code, out, _ = onehead("aim", "predict", "--alpha", 1, *flags)
    assert code == 0
    found = json.loads(out)
    assert (found["task"]["mask"], found["task"]["tokens"]) == ("100/110/011", 3)
    assert found["test_error"] == predict(Task.read(found["task"]), Learner(weight_decay=0.05), 1.0).test_error
    code, out, _ = onehead("aim", "train", "--alpha", 1, "--dim", 12, "--seeds", 1, *flags)
    assert code == 0
    assert json.loads(out)["task"]["mask"] == "100/110/011"


@pytest.mark.parametrize(
    ("text", "flags", "part"),
    [
        ("110\n111\n011", (), "no two tokens attend to each other"),
        ("100\n110", (), "a square matrix of zeros and ones"),
        ("100\n120\n001", (), "a square matrix of zeros and ones"),
        ("", (), "a square matrix of zeros and ones"),
        ("10\n01", (), "two ones in a row"),
        ("100\n110\n011", ("--tokens", 4), "left out, or 3, the size of the mask"),
        ("100\n110\n011", ("--mask", "causal"), "give only one of --mask and --mask-file"),
        ("1" * 10_000_001, (), "limit for such a file is 10,000,000"),
    ],
)
def test_a_mask_without_a_theory_is_refused_in_one_line(refused, tmp_path, text, flags, part):
    file = tmp_path / "mask.txt"
    file.write_text(text)
    line = refused("aim", "predict", "--alpha", 1, "--attention", "self", "--mask-file", file, *flags)
    assert part in line
    assert "--mask-file" in line or "--tokens" in line
