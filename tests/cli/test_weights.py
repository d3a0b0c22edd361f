"""``onehead weights``: rows, files and pictures; refusals in one line; memory independent of the number of layers."""

import csv
import json
from functools import partial

import numpy as np
import pytest
from safetensors.numpy import save_file
from tests.support.checkpoints import attention_layers, header_with_data, tensor_entry, training_steps
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
    """Run a ``weights`` command."""
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


def test_table_csv_and_pictures_are_written(onehead, model, tmp_path):
    table, folder = tmp_path / "rows.csv", tmp_path / "pictures"
    code, out, err = onehead(model / "model.safetensors", "--csv", table, "--plot", folder)
    assert code == 0 and "verdict" in out and "real tokens are not Gaussian" in err
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert (
        len(rows) == 6 and float(rows[0]["rank"]) == pytest.approx(1 / 3) and float(rows[0]["untied_spread_err"]) >= 0.0
    )
    names = sorted(path.name for path in folder.iterdir())
    assert names[:2] == ["heads-000.png", "map.png"] and len(names) == 5  # the rest are pages of the three heads
    assert all(path.stat().st_size > 10_000 for path in folder.iterdir())


def test_layers_and_heads_are_selected_by_ranges(onehead, model):
    code, out, _ = onehead(model, "--layer", "0", "--head", "0:2:2", "--no-fit", "--json")
    rows = json.loads(out)
    assert code == 0 and [row["head"] for row in rows] == [0, 2] and rows[0]["fits"] == []


def test_several_checkpoints_are_compared(onehead, tmp_path):
    steps = training_steps(tmp_path)
    code, out, _ = onehead(*steps, "--no-fit", "--csv", tmp_path / "c.csv", "--plot", tmp_path / "pictures")
    assert code == 0 and "noise → features" in out and max(map(len, out.splitlines())) <= 100
    assert (tmp_path / "pictures" / "course.png").stat().st_size > 10_000
    assert (tmp_path / "c.csv").read_text().count("\n") == 1 + 3 * 6
    code, out, _ = onehead(*steps, "--no-fit", "--json")
    assert code == 0 and len(json.loads(out)) == 18 and json.loads(out)[0]["step"] == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["gone.safetensors"], ["{model}", "--layer", "2"], ["{model}", "--head", "3"], ["{model}", "--head", "x"],
        ["{model}", "--head", "0.5"], ["{model}", "--heads", "4"], ["{model}", "--layout", "nonsense"],
        ["{model}", "--heads", "0"], ["{model}/config.json"], ["{model}", "--csv", "/gone/x.csv"], ["{model}", "--plot", "/gone/x"], [],
    ],
)  # fmt: skip
def test_bad_input_is_refused_in_one_line(refused, model, arguments):
    refused(*(argument.replace("{model}", str(model)) for argument in arguments))


def test_the_input_is_not_replaced(refused, tmp_path):
    steps = training_steps(tmp_path)
    before = steps[0].read_bytes()
    refused(*steps, "--csv", steps[0])
    refused(steps[0], "--csv", steps[0])
    assert steps[0].read_bytes() == before


def test_no_library_that_unpickles_is_loaded(model):
    code = "import sys; from onehead.weights import survey; survey(sys.argv[1], fit=False); print('torch' in sys.modules, 'safetensors' in sys.modules)"
    assert python(code, model).split() == ["False", "False"]


def sparse_checkpoint(folder, layers, hidden=2048):
    """Write a sparse file of zero matrices, which takes no space on disk: float16, two per layer."""
    size = 2 * hidden**2
    names = [f"encoder.layer.{i}.attention.self.{side}.weight" for i in range(layers) for side in ("query", "key")]
    head = header_with_data(
        {n: tensor_entry(i * size, (i + 1) * size, (hidden, hidden), "F16") for i, n in enumerate(names)}
    )
    path = folder / f"{layers}.safetensors"
    with path.open("wb") as file:
        file.write(head)
        file.truncate(len(head) + size * len(names))
    return path


def test_memory_is_bounded_by_one_layer(tmp_path):
    code = (
        "import resource, sys; from onehead.weights import survey;"
        "print(len(survey(sys.argv[1], heads=[0], head_count=16, fit=False)), "
        "resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    peaks = {}
    for layers in (1, 40):  # 16 and 640 MB of weights
        rows, peak = python(code, sparse_checkpoint(tmp_path, layers)).split()
        assert int(rows) == layers
        peaks[layers] = int(peak) / 1024
    assert peaks[40] - peaks[1] < 40.0  # MB: at most one more layer at a time


def test_pictures_are_drawn_from_reports(model):
    heads = list(survey(model, layers=[0]))
    axes = head_spectrum(heads[0])
    assert "rank" in axes.get_xlabel() and len(axes.lines) >= 5
    pages = list(head_pages(heads))
    assert len(pages) == 1 and len(pages[0].figure.axes) == 3
    assert len(survey_map(heads).figure.axes) == 7  # four maps, three colour bars; the map of verdicts has a legend


def test_headings_are_not_cut_on_a_narrow_terminal(onehead, model, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = onehead(model / "model.safetensors", "--no-fit")
    heading = next(line for line in out.splitlines() if line.startswith("┃"))
    assert heading.replace("┃", " ").split() == ["layer", "head", "verdict", "evidence", "advice"]


def test_a_file_without_a_measurable_head_is_a_failure(onehead, tmp_path):
    save_file({"h.0.attn.c_attn.weight": np.zeros((4, 12), dtype=np.float32)}, tmp_path / "model.safetensors")
    for extra in ((), ("--json",)):
        code, out, err = onehead(tmp_path, "--heads", "2", "--no-fit", *extra)
        assert code == 1 and "empty" in out and "no head could be measured" in err


def test_tensors_that_look_like_attention_are_listed(onehead, model, tmp_path):
    code, out, _ = onehead(model, "--list", "--json")
    rows = json.loads(out)
    assert code == 0 and [row["layout"] for row in rows] == ["", "bert"]
    assert rows[1]["tensor"] == "encoder.layer.{layer}.attention.self.query.weight" and rows[1]["shape"] == [60, 60]
    assert "bert" in onehead(model, "--list")[1]
    save_file({"mlp.weight": np.ones((3, 3), dtype=np.float32)}, tmp_path / "model.safetensors")
    code, _, err = onehead(tmp_path, "--list")
    assert code == 1 and "none of the 1 tensors looks like attention" in err
