"""Figures from the shell: the list, one figure end to end, a second call that computes nothing, refusals."""

import csv
import json
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.support.programs import program

from onehead.errors import InvalidArgument
from onehead.figures import NAMES, figure_named, figures, make
from onehead.sweep import Store

CHEAP = "sparse-alignment"


program = partial(program, "figures")


def test_the_list_names_every_figure_with_its_time():
    done = program("list", "--json")
    assert done.returncode == 0
    rows = json.loads(done.stdout)
    assert [row["name"] for row in rows] == list(NAMES)
    assert all(row["title"] and row["seconds_quick"] > 0.0 for row in rows)
    assert sum(row["seconds_quick"] for row in rows) < 600.0  # the promise of --quick
    shown = program("list")
    assert shown.returncode == 0 and all(name in shown.stdout for name in NAMES)


def test_every_figure_is_named_as_its_module_and_says_where_it_comes_from():
    for figure in figures():
        assert figure_named(figure.name) is figure
        assert figure.source.startswith({"aim": "arXiv 2509.24914", "sparse": "arXiv 2509.25153", "own": "onehead"}[
            figure.name.split("-")[0]
        ])  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """One cheap figure with training."""
    folder = tmp_path_factory.mktemp("figures")
    return folder, make([CHEAP], folder, quick=True, workers=1)[0]


def test_a_figure_leaves_four_files(made):
    one = made[1]
    assert {path.name for path in one.paths} == {f"{CHEAP}{ending}" for ending in (".png", ".pdf", ".csv", ".json")}
    assert all(path.stat().st_size > 500 for path in one.paths)
    assert not one.failed


def test_the_picture_is_not_empty_and_has_both_colours(made):
    from matplotlib.image import imread

    pixels = (255 * imread(made[0] / f"{CHEAP}.png")[:, :, :3]).round().astype(int)
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 100
    for colour in ((0x1F, 0x4E, 0x9C), (0xD1, 0x64, 0x1D)):  # theory and training
        assert np.any(np.all(pixels == colour, axis=2))


def test_the_data_hold_what_is_drawn(made):
    with (made[0] / f"{CHEAP}.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {"series", "alpha0", "cos_query", "cos_query_err"} <= set(rows[0])
    assert "finished_at" not in rows[0] and "duration" not in rows[0]
    assert {row["series"] for row in rows} == {"theory", "theory at measured points", "trained"}
    trained = [row for row in rows if row["series"] == "trained"]
    assert len(trained) == 7 and all(0.0 < float(row["cos_query"]) < 1.0 for row in trained)


def test_the_note_has_parameters_versions_and_the_worst_deviation(made):
    note = json.loads((made[0] / f"{CHEAP}.json").read_text())
    assert {"name", "title", "source", "caption", "version", "numerical_version", "sweeps", "agreement"} <= set(note)
    assert note["sweeps"]["trained"]["fixed"]["strength"] == 6.0
    found = note["agreement"]
    assert found["pairs"] == 7
    # a sound theory: the largest of seven deviations stays below the bound of pure noise, finite size aside
    assert abs(found["worst"]) < found["bound"] or found["open"] == 0


def test_a_second_call_computes_nothing_and_writes_the_same_bytes(made):
    folder, one = made
    before = {path: path.read_bytes() for path in one.paths}
    with Store.reading(folder / "figures.sqlite") as store:
        stored = store.stored()
    told = []
    make([CHEAP], folder, quick=True, workers=1, progress=lambda *step: told.append(step))
    # each sweep tells once, at its start, that everything is there
    assert [counts.missing for _, _, counts in told] == [0] * len({sweep for _, sweep, _ in told}) != []
    with Store.reading(folder / "figures.sqlite") as store:
        assert store.stored() == stored
    assert {path: path.read_bytes() for path in one.paths} == before


def test_theory_alone_trains_nothing(tmp_path):
    names = [CHEAP, "own-length"]
    for one in make(names, tmp_path, quick=True, theory=True, workers=1):
        note = json.loads((tmp_path / f"{one.name}.json").read_text())
        assert note["training"] is False and note["agreement"] is None
        assert not any("train" in sweep["call"] for sweep in note["sweeps"].values())
    with Store.reading(tmp_path / "figures.sqlite") as store:
        assert not any(row["kind"] == "measurement" for row in store.rows())


def test_the_shell_makes_a_figure_with_processes_and_prints_json(tmp_path):
    done = program("make", CHEAP, "--quick", "--theory", "--out", str(tmp_path / "new"), "--json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    assert row["name"] == CHEAP and row["failed"] == 0
    assert all(Path(path).is_file() for path in row["paths"])
    assert CHEAP in done.stderr  # progress is told there


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("make", "no-such-figure", "--out", "out"), ("no-such-figure", "aim-rates")),
        (("make", "--out", "out"), ("all or one of",)),
        (("make", CHEAP), ("--out",)),
        (("make", CHEAP, "--out", "out", "--checkpoint", "nowhere"), ("--checkpoint", "nowhere")),
    ],
)
def test_a_bad_argument_is_one_sentence(arguments, words, tmp_path):
    done = program(*arguments, cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert all(word in done.stderr for word in words)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "out").write_text("")
    done = program("make", CHEAP, "--out", "out", cwd=tmp_path)
    assert done.returncode == 2 and "--out" in done.stderr


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_an_interruption_keeps_what_is_finished_and_leaves_no_process(tmp_path):
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
    kept = _stored(store)
    assert kept > 0
    family = _family(running.pid)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=30)
    assert running.returncode == 130
    assert "interrupted" in said and len(said.splitlines()) == 1
    assert _stored(store) >= kept
    deadline = time.monotonic() + 10.0
    while family & set(_parents()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not family & set(_parents())  # its workers are gone with it


def _parents():
    """Who started each process that runs; one that ended and was not yet collected does not."""
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
    """A process and those that it started."""
    return {process} | {child for child, parent in _parents().items() if parent == process}


def _stored(path):
    if not path.is_file():
        return 0
    try:
        with Store.reading(path) as store:
            return store.stored()
    except Exception:
        return 0  # it is being created


def test_names_are_checked_before_anything_is_made(tmp_path):
    with pytest.raises(InvalidArgument, match="figure must be all or one of"):
        make([CHEAP, "nothing"], tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_figure_that_lacks_its_numbers_says_which(tmp_path, monkeypatch):
    from onehead.errors import NotConverged, SolveError
    from onehead.figures import calls

    def fails(words, seed):
        raise NotConverged("it did not converge.")

    monkeypatch.setattr(calls, "counting", fails)
    monkeypatch.setattr(calls, "scaling_point", fails)
    from onehead.sweep.calls import _own

    _own.cache_clear()
    try:
        with pytest.raises(
            SolveError, match=r"aim-decomposition cannot be drawn: \d+ points failed, the first: it did not"
        ):
            make(["aim-decomposition"], tmp_path, quick=True, theory=True, workers=1)
    finally:
        _own.cache_clear()
