"""Making of figures: the list, the files of one figure, a second call that computes nothing, refusals, interruption."""

import csv
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from onehead import aim
from onehead.errors import InvalidArgument
from onehead.figures import NAMES, figure_named, figures, make
from onehead.figures.registry import total_minutes
from onehead.sweep import Store

CHEAP = "sparse-alignment"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def program(onehead, monkeypatch):
    """Function that runs ``onehead figures`` in this process, in a folder if there is one."""

    def call(*arguments, cwd=None):
        if cwd is not None:
            monkeypatch.chdir(cwd)
        return onehead("figures", *arguments)

    return call


def test_the_list_names_every_figure_with_its_time(program):
    done = program("list", "--json")
    assert done.returncode == 0
    rows = json.loads(done.stdout)
    assert [row["name"] for row in rows] == list(NAMES)
    assert all(row["title"] and row["seconds_quick"] > 0.0 for row in rows)
    assert sum(row["seconds_quick"] for row in rows) < 600.0  # the promise of --quick
    shown = program("list")
    assert shown.returncode == 0 and all(name in shown.stdout for name in NAMES)


def test_every_figure_is_found_by_name_and_has_a_source():
    for figure in figures():
        assert figure_named(figure.name) is figure
        assert figure.source.startswith({"aim": "arXiv 2509.24914", "sparse": "arXiv 2509.25153", "own": "onehead"}[
            figure.name.split("-")[0]
        ])  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Folder and result of making one fast figure with training."""
    folder = tmp_path_factory.mktemp("figures")
    return folder, make([CHEAP], folder, quick=True, workers=1)[0]


def test_a_figure_has_four_files(made):
    one = made[1]
    assert {path.name for path in one.paths} == {f"{CHEAP}{ending}" for ending in (".png", ".pdf", ".csv", ".json")}
    assert all(path.stat().st_size > 500 for path in one.paths)
    assert not one.failed


def test_the_picture_has_the_colours_of_theory_and_training(made):
    from matplotlib.image import imread

    pixels = (255 * imread(made[0] / f"{CHEAP}.png")[:, :, :3]).round().astype(int)
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 100
    for colour in ((0x1F, 0x4E, 0x9C), (0xD1, 0x64, 0x1D)):  # theory and training
        assert np.any(np.all(pixels == colour, axis=2))


def test_the_data_file_contains_what_is_drawn(made):
    with (made[0] / f"{CHEAP}.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {"series", "alpha0", "cos_query", "cos_query_err"} <= set(rows[0])
    assert "finished_at" not in rows[0] and "duration" not in rows[0]
    assert {row["series"] for row in rows} == {"theory", "theory at measured points", "trained"}
    trained = [row for row in rows if row["series"] == "trained"]
    assert len(trained) == 7 and all(0.0 < float(row["cos_query"]) < 1.0 for row in trained)


def test_the_note_contains_parameters_versions_and_agreement(made):
    note = json.loads((made[0] / f"{CHEAP}.json").read_text())
    assert {"name", "title", "source", "caption", "version", "numerical_version", "sweeps", "agreement"} <= set(note)
    assert note["sweeps"]["trained"]["fixed"]["strength"] == 6.0
    found = note["agreement"]
    assert found["pairs"] == 7
    # the largest of seven deviations stays below the bound of pure noise, or finite size explains it
    assert abs(found["worst"]) < found["bound"] or found["open"] == 0


def test_a_second_call_computes_nothing_and_writes_the_same_bytes(made):
    folder, one = made
    before = {path: path.read_bytes() for path in one.paths}
    with Store.reading(folder / "figures.sqlite") as store:
        stored = store.stored()
    reported = []
    make([CHEAP], folder, quick=True, workers=1, progress=lambda *step: reported.append(step))
    # each sweep reports once, at its start, that no point is missing
    assert [counts.missing for _, _, counts in reported] == [0] * len({sweep for _, sweep, _ in reported}) != []
    with Store.reading(folder / "figures.sqlite") as store:
        assert store.stored() == stored
    assert {path: path.read_bytes() for path in one.paths} == before


def test_with_theory_alone_nothing_is_trained(tmp_path):
    names = [CHEAP, "own-length"]
    for one in make(names, tmp_path, quick=True, theory=True, workers=1):
        note = json.loads((tmp_path / f"{one.name}.json").read_text())
        assert note["training"] is False and note["agreement"] is None
        assert not any("train" in sweep["call"] for sweep in note["sweeps"].values())
    with Store.reading(tmp_path / "figures.sqlite") as store:
        assert not any(row["kind"] == "measurement" for row in store.rows())


def test_the_command_makes_a_figure_and_prints_json(tmp_path, program):
    done = program("make", CHEAP, "--quick", "--theory", "--out", str(tmp_path / "new"), "--json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    assert row["name"] == CHEAP and row["failed"] == 0
    assert all(Path(path).is_file() for path in row["paths"])
    assert CHEAP in done.stderr  # progress is printed to stderr


@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        (("make", "no-such-figure", "--out", "out"), ("no-such-figure", "aim-rates")),
        (("make", "--out", "out"), ("all or one of",)),
        (("make", CHEAP), ("--out",)),
        (("make", CHEAP, "--out", "out", "--checkpoint", "nowhere"), ("--checkpoint", "nowhere")),
    ],
)
def test_an_invalid_argument_is_refused_in_one_sentence(arguments, messages, tmp_path, program):
    done = program(*arguments, cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert all(text in done.stderr for text in messages)
    assert not (tmp_path / "out").exists()


def test_an_output_folder_that_is_a_file_is_refused(tmp_path, program):
    (tmp_path / "out").write_text("")
    done = program("make", CHEAP, "--out", "out", cwd=tmp_path)
    assert done.returncode == 2 and "--out" in done.stderr


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_an_interruption_keeps_finished_points_and_leaves_no_process(tmp_path):
    command = [
        sys.executable,
        "-m",
        "onehead",
        "figures",
        "make",
        "aim-rank",
        "--quick",
        "--theory",
        "--out",
        str(tmp_path),
    ]
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    store = tmp_path / "figures.sqlite"
    deadline = time.monotonic() + 60.0
    while time.monotonic() < deadline and not _stored(store):
        time.sleep(0.2)
    finished = _stored(store)
    assert finished > 0
    family = _family(running.pid)
    running.send_signal(signal.SIGINT)
    _, message = running.communicate(timeout=30)
    assert running.returncode == 130
    assert "interrupted" in message and len(message.splitlines()) == 1
    assert _stored(store) >= finished
    deadline = time.monotonic() + 10.0
    while family & set(_parents()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not family & set(_parents())  # its workers are gone with it


def _parents():
    """Return the parent of each running process; zombies are left out."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state != "Z":
            found[int(stat.parent.name)] = int(parent)
    return found


def _family(process):
    """Return a process and its children."""
    return {process} | {child for child, parent in _parents().items() if parent == process}


def _stored(path):
    """Return the number of stored points, 0 while the store is being created."""
    if not path.is_file():
        return 0
    try:
        with Store.reading(path) as store:
            return store.stored()
    except Exception:
        return 0


def test_names_are_checked_before_the_folder_is_created(tmp_path):
    with pytest.raises(InvalidArgument, match="figure must be all or one of"):
        make([CHEAP, "nothing"], tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_figure_whose_points_failed_reports_the_first_reason(tmp_path, monkeypatch):
    from onehead.errors import NotConverged, SolveError
    from onehead.figures import sweep_calls as calls

    def fails(parameters, seed):
        raise NotConverged("it did not converge.")

    monkeypatch.setattr(calls, "counting", fails)
    monkeypatch.setattr(calls, "scaling_point", fails)
    from onehead.sweep.registry import _import_call

    _import_call.cache_clear()
    try:
        with pytest.raises(
            SolveError, match=r"aim-decomposition cannot be drawn: \d+ points failed, the first: it did not"
        ):
            make(["aim-decomposition"], tmp_path, quick=True, theory=True, workers=1)
    finally:
        _import_call.cache_clear()


def test_parameters_of_a_figure_can_be_changed(tmp_path):
    made = make(["aim-thresholds"], tmp_path, quick=True, theory=True, workers=1)[0]
    before = json.loads(made.paths[3].read_text())
    changed = make(["aim-thresholds"], tmp_path, quick=True, theory=True, workers=1, changes={"tokens": 3})[0]
    after = json.loads(changed.paths[3].read_text())
    assert "changed" not in before and after["changed"] == {"tokens": 3}
    assert all(sweep["fixed"]["tokens"] == 3 for sweep in after["sweeps"].values())
    assert changed.paths[0].name == "aim-thresholds,tokens=3.png" and made.paths[0].exists()
    row = next(csv.DictReader(changed.paths[2].read_text().splitlines()))
    task = aim.Task(aim.MarchenkoPastur(float(row["kappa0"])), tokens=3, noise=float(row["noise"]))
    assert float(row["interpolation"]) == pytest.approx(aim.thresholds(task).interpolation, rel=1e-9)


def test_parameters_that_a_figure_varies_or_does_not_have_are_refused(tmp_path):
    with pytest.raises(InvalidArgument, match="kappa0 is on an axis"):
        make(["aim-thresholds"], tmp_path, quick=True, theory=True, workers=1, changes={"kappa0": 0.2})
    with pytest.raises(InvalidArgument, match="none of its sweeps has length"):
        make(["aim-thresholds"], tmp_path, quick=True, theory=True, workers=1, changes={"length": 4})


def test_the_flag_has_the_checks_of_other_flags(tmp_path, program):
    def refused(*settings):
        return program("make", "aim-learning-curve", "--quick", "--out", str(tmp_path), *settings)

    wrong = refused("--set", "noise=-1")
    assert wrong.returncode == 2 and wrong.stderr.strip().startswith("onehead: --set noise must be a number >= 0")
    unknown = refused("--set", "kapa0=0.2")
    assert unknown.returncode == 2 and "did you mean kappa0=0.2" in unknown.stderr


def test_times_are_stated_once(program):
    """The page of the gallery and the list have the sums of the registry; flags and other pages state none."""
    quick, full = total_minutes(quick=True), total_minutes(quick=False)
    assert f"On two cores {quick} minutes in all with --quick, {full} without." in program("list").stdout
    page = " ".join((ROOT / "docs" / "gallery.md").read_text().split())
    assert f"{full} minutes in all on two cores" in page and f"all figures take {quick} minutes" in page
    assert "minutes" not in program("make", "--help").stdout
