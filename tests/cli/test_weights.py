"""The command: rows, files and pictures; one line for what is wrong; memory that does not grow with the number of layers."""

import csv
import json
from functools import partial

import numpy as np
import pytest
from safetensors.numpy import save_file
from tests.support.checkpoints import attention_layers, entry, packed, training_steps
from tests.support.programs import python

from onehead.plot import head_pages, head_spectrum, survey_map
from onehead.weights import survey


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Two layers of three heads with 20 dimensions each, hidden 60; layer 1 has no key."""
    folder, rng = tmp_path_factory.mktemp("model"), np.random.default_rng(0)
    tensors = attention_layers(2, 60, rng)
    del tensors["encoder.layer.1.attention.self.key.weight"]
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", "num_attention_heads": 3}))
    return folder


@pytest.fixture
def onehead(onehead):
    return partial(onehead, "weights")


def test_json_has_a_row_for_every_head(onehead, model):
    code, out, _ = onehead(model, "--json")
    rows = json.loads(out)
    assert code == 0 and len(rows) == 6
    assert [(row["layer"], row["head"]) for row in rows] == [(layer, head) for layer in range(2) for head in range(3)]
    assert [row["status"] for row in rows] == ["ok"] * 3 + ["unsupported"] * 3
    assert all("no tensor" in row["reason"] for row in rows[3:])
    for row in rows[:3]:
        assert row["rank"] == pytest.approx(1 / 3) and row["zero_mass"] == pytest.approx(2 / 3)
        assert 0.0 <= row["symmetric_share"] <= 1.0 and len(row["singular_values"]) == 20
        assert row["kind"] == "measurement" and row["verdict"]
        assert {fit["law"] for fit in row["fits"]} == {"untied", "tied", "marchenko-pastur", "power-law", "noise"}
        assert row["fits"][0]["parameters"].keys() == row["fits"][0]["errors"].keys() - {"rank"}


def test_table_csv_and_pictures(onehead, model, tmp_path):
    table, folder = tmp_path / "rows.csv", tmp_path / "pictures"
    code, out, err = onehead(model / "model.safetensors", "--csv", table, "--plot", folder)
    assert code == 0 and "verdict" in out and "real tokens are not Gaussian" in err
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert (
        len(rows) == 6 and float(rows[0]["rank"]) == pytest.approx(1 / 3) and float(rows[0]["untied_spread_err"]) >= 0.0
    )
    names = sorted(path.name for path in folder.iterdir())
    assert names[:2] == ["heads-000.png", "map.png"] and len(names) == 5  # and a page for each of the three heads
    assert all(path.stat().st_size > 10_000 for path in folder.iterdir())


def test_ranges_and_no_fit(onehead, model):
    code, out, _ = onehead(model, "--layer", "0", "--head", "0:2:2", "--no-fit", "--json")
    rows = json.loads(out)
    assert code == 0 and [row["head"] for row in rows] == [0, 2] and rows[0]["fits"] == []


def test_the_command_takes_several_files(onehead, tmp_path):
    steps = training_steps(tmp_path)
    code, out, _ = onehead(*steps, "--no-fit", "--csv", tmp_path / "c.csv", "--plot", tmp_path / "pictures")
    assert code == 0 and "noise → features" in out and max(map(len, out.splitlines())) <= 100
    assert (tmp_path / "pictures" / "course.png").stat().st_size > 10_000
    assert (tmp_path / "c.csv").read_text().count("\n") == 1 + 3 * 6
    code, out, _ = onehead(*steps, "--no-fit", "--json")
    assert code == 0 and len(json.loads(out)) == 18 and json.loads(out)[0]["step"] == 0


@pytest.mark.parametrize(
    "words",
    [
        ["gone.safetensors"], ["{model}", "--layer", "2"], ["{model}", "--head", "3"], ["{model}", "--head", "x"],
        ["{model}", "--head", "0.5"], ["{model}", "--heads", "4"], ["{model}", "--layout", "nonsense"],
        ["{model}", "--heads", "0"], ["{model}/config.json"], ["{model}", "--csv", "/gone/x.csv"], ["{model}", "--plot", "/gone/x"], [],
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_exit_two(refused, model, words):
    refused(*(word.replace("{model}", str(model)) for word in words))


def test_a_file_that_is_read_is_not_written(refused, tmp_path):
    steps = training_steps(tmp_path)
    before = steps[0].read_bytes()
    refused(*steps, "--csv", steps[0])
    refused(steps[0], "--csv", steps[0])
    assert steps[0].read_bytes() == before


def test_nothing_is_loaded_that_unpickles(model):
    code = "import sys; from onehead.weights import survey; survey(sys.argv[1], fit=False); print('torch' in sys.modules, 'safetensors' in sys.modules)"
    assert python(code, model).split() == ["False", "False"]


def big(folder, layers, hidden=2048):
    """A file of empty matrices that takes no room on disk: float16, two per layer."""
    size = 2 * hidden**2
    names = [f"encoder.layer.{i}.attention.self.{side}.weight" for i in range(layers) for side in ("query", "key")]
    head = packed({n: entry(i * size, (i + 1) * size, (hidden, hidden), "F16") for i, n in enumerate(names)})
    path = folder / f"{layers}.safetensors"
    with path.open("wb") as file:
        file.write(head)
        file.truncate(len(head) + size * len(names))
    return path


def test_memory_is_bounded_by_one_layer(tmp_path):
    code = (
        "import resource, sys; from onehead.weights import survey;"
        "print(len(survey(sys.argv[1], heads=[0], head_count=16, fit=False)), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    peaks = {}
    for layers in (1, 40):  # 16 and 640 MB of weights
        rows, peak = python(code, big(tmp_path, layers)).split()
        assert int(rows) == layers
        peaks[layers] = int(peak) / 1024
    assert peaks[40] - peaks[1] < 40.0  # MB; a second layer in memory at a time is the most that may come


def test_pictures_take_reports_and_axes(model):
    heads = list(survey(model, layers=[0]))
    axes = head_spectrum(heads[0])
    assert "rank" in axes.get_xlabel() and len(axes.lines) >= 5
    pages = list(head_pages(heads))
    assert len(pages) == 1 and len(pages[0].figure.axes) == 3
    assert len(survey_map(heads).figure.axes) == 7  # four maps, three colour bars: words have a legend


def test_headings_are_whole_on_a_narrow_terminal(onehead, model, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = onehead(model / "model.safetensors", "--no-fit")
    heading = next(line for line in out.splitlines() if line.startswith("┃"))
    assert heading.replace("┃", " ").split() == ["layer", "head", "verdict", "evidence"]
