"""``onehead sweep`` from the shell: refusals in one line, exit codes, files, Ctrl-C."""

import csv
import json
import os
import pty
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from functools import partial

import pytest
from tests.support.programs import program

from onehead.sweep import Store

SPEC = """\
call = "sparse.align"
[fixed]
strength = 4.0
[grid]
alpha0 = "log:0.5:8:6"
eta_b = [0.5, 1.0, 2.0, 4.0]
"""


@pytest.fixture
def onehead(onehead):
    """Run a ``sweep`` command."""
    return partial(onehead, "sweep")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Working folder with a sweep file."""
    (tmp_path / "spec.toml").write_text(SPEC)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_example_check_run_status_and_export_of_one_sweep(onehead, folder):
    text = onehead("example").stdout
    (folder / "example.toml").write_text(text)
    assert onehead("example", "learning-curve").stdout == text
    checked = json.loads(onehead("check", "spec.toml", "--json").stdout)
    assert checked["points"] == 24 and checked["call"] == "sparse.align" and checked["seconds_inline"] > 0.0
    assert "24 points of sparse.align" in onehead("check", "spec.toml").stdout

    found = onehead("run", "spec.toml", "--store", "points.db", "--json")
    assert json.loads(found.stdout) == {"done": 24, "failed": 0, "missing": 0} and found.stderr == ""
    again = onehead("run", "spec.toml", "--store", "points.db", "--on", "local", "--workers", "1")
    assert again.stdout == "done 24, failed 0, missing 0\n"

    status = json.loads(onehead("status", "--store", "points.db", "--json").stdout)
    assert (status["done"], status["failed"], status["missing"], status["running"]) == (24, 0, 0, False)
    assert "not running" in onehead("status", "--store", "points.db").stdout

    rows = json.loads(onehead("export", "--store", "points.db", "--json").stdout)
    assert len(rows) == 24
    wanted = "key call strength alpha0 cos_query status kind residual version numerical_version duration finished_at"
    assert all(set(wanted.split()) <= set(row) for row in rows)
    assert onehead("export", "--store", "points.db", "--csv", "rows.csv").stdout == ""
    with (folder / "rows.csv").open() as file:
        assert [float(row["cos_query"]) for row in csv.DictReader(file)] == [row["cos_query"] for row in rows]
    assert "aligned" in onehead("export", "--store", "points.db").stdout
    assert sorted(path.name for path in folder.iterdir()) == ["example.toml", "points.db", "rows.csv", "spec.toml"]


def test_parquet_holds_the_same_rows(onehead, folder):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    onehead("run", "spec.toml", "--store", "points.db")
    onehead("export", "--store", "points.db", "--parquet", "rows.parquet")
    rows = json.loads(onehead("export", "--store", "points.db", "--json").stdout)
    frame = pandas.read_parquet(folder / "rows.parquet")
    assert list(frame["cos_query"]) == [row["cos_query"] for row in rows] and "finished_at" in frame


def test_mistakes_are_refused_in_one_line(onehead, refused, folder):
    store = ("--store", "points.db")
    (folder / "bad.toml").write_text('call = "aim.predict"\n[grid]\nalpha = 1\nnoise = -1\n')
    assert "bad.toml, line 4: noise must be a number >= 0" in refused("run", "bad.toml", *store)
    assert "bad.toml, line 4" in refused("check", "bad.toml")
    missing = "Cannot read none.toml: no such file (`onehead sweep example > none.toml` writes one)."
    assert missing in refused("run", "none.toml", *store)
    assert "example must be one of learning-curve" in refused("example", "nothing")
    assert "store must be a file that exists" in refused("status", "--store", "none.db")
    assert "store must be a file that exists" in refused("export", "--store", "none.db")
    assert "is damaged or is not a store" in refused("status", "--store", "spec.toml")
    assert "is damaged or is not a store" in refused("run", "spec.toml", "--store", "spec.toml")
    assert "address must be given with dask" in refused("run", "spec.toml", *store, "--on", "dask")
    assert "--on must be inline or local or dask" in refused("run", "spec.toml", *store, "--on", "moon")
    assert "memory must be a size such as 4GB" in refused(
        "run", "spec.toml", *store, "--on", "slurm", "--memory", "lots"
    )
    assert "in a folder that can be written" in refused("run", "spec.toml", "--store", "no/where.db")
    onehead("run", "spec.toml", *store)
    assert "in a folder that exists" in refused("export", *store, "--csv", "no/where.csv")
    with closing(sqlite3.connect(folder / "points.db")) as db, db:
        db.execute("PRAGMA user_version = 7")
    db.close()
    assert "written by a newer onehead" in refused("run", "spec.toml", *store)


def test_failed_points_are_reported_and_kept(onehead, refused, folder):
    (folder / "failing.toml").write_text(
        'call = "aim.train"\n[fixed]\ndim = 10\nweight_decay = "0+"\n[grid]\nalpha = [0.5, 1.0]\n'
    )
    found = onehead("run", "failing.toml", "--store", "points.db", "--json")
    assert found.returncode == 0 and json.loads(found.stdout) == {"done": 0, "failed": 2, "missing": 0}
    assert "2 points failed, the first: weight_decay must be a number > 0 to train with" in found.stderr
    (folder / "one.toml").write_text('call = "aim.train"\n[fixed]\ndim = 10\nweight_decay = "0+"\nalpha = 0.5\n')
    assert "note: 1 point failed, the first: weight_decay" in onehead("run", "one.toml", "--store", "one.db").stderr
    rows = json.loads(onehead("export", "--store", "points.db", "--json").stdout)
    assert [row["state"] for row in rows] == ["failed", "failed"] and "weight_decay" in rows[0]["reason"]
    stopped = refused("run", "failing.toml", "--store", "points.db", "--retry", "--on-error", "stop", code=1)
    assert "stopped at the first failed point: weight_decay must be" in stopped


def test_the_job_script_is_printed_without_slurm(folder):
    pytest.importorskip("dask_jobqueue")
    found = program(
        *("sweep", "run", "spec.toml", "--store", "points.db", "--on", "slurm", "--dry-run", "--partition", "compute"),
        *("--time", "02:00:00", "--cores", "4", "--memory", "8GB", "--jobs", "3"),
    )
    assert found.returncode == 0 and found.stderr == ""
    for line in ("#SBATCH -p compute", "#SBATCH -t 02:00:00", "#SBATCH --cpus-per-task=4", "export ONEHEAD_THREADS=1"):
        assert line in found.stdout
    assert "--nworkers 4" in found.stdout and "--nthreads 1" in found.stdout
    (folder / "cluster.toml").write_text(program("sweep", "example", "cluster").stdout)
    found = program("sweep", "run", "cluster.toml", "--store", "points.db", "--dry-run")
    assert "#SBATCH --cpus-per-task=16" in found.stdout and not (folder / "points.db").exists()


def start_long_run(folder):
    """Start a run of about two minutes on a terminal; return its process and the terminal."""
    (folder / "long.toml").write_text('call = "aim.predict"\n[grid]\nalpha = "0.3:2:1000"\n')
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "onehead", "sweep", "run", "long.toml", "--store", "points.db", "--json"],
        stdout=subprocess.PIPE,
        stderr=theirs,
        cwd=folder,
    )
    os.close(theirs)
    return process, ours


def printed_on(terminal):
    """Everything printed on a terminal until it is closed."""
    text = b""
    try:
        while piece := os.read(terminal, 4096):
            text += piece
    except OSError:  # closed at the other end
        pass
    os.close(terminal)
    return text.decode()


def test_ctrl_c_keeps_finished_points(onehead, folder):
    process, terminal = start_long_run(folder)
    for _ in range(300):
        status = onehead("status", "--store", "points.db", "--json")
        if status.returncode == 0 and json.loads(status.stdout)["done"] >= 3:
            break
        time.sleep(0.1)
    running = json.loads(status.stdout)
    assert running["running"] and running["done"] + running["missing"] == 1000 and running["process"] == process.pid
    process.send_signal(signal.SIGINT)
    screen = printed_on(terminal)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 130 and out == b""
    assert "points are kept in points.db; run the same command to go on." in screen
    assert "aim.predict" in screen and "/1000" in screen and "/s, " in screen and " left" in screen  # the bar
    after = json.loads(onehead("status", "--store", "points.db", "--json").stdout)
    assert after["done"] >= running["done"] and not after["running"]
    kept = int(screen.split("interrupted; ")[1].split()[0])
    assert kept == after["done"]


def test_exported_columns_are_those_asked_for(onehead, refused, folder):
    onehead("run", "spec.toml", "--store", "s.db")
    command = ("export", "--store", "s.db", "--columns", "cos_query, alpha0")
    onehead(*command, "--csv", "o.csv")
    assert (folder / "o.csv").read_text().splitlines()[0] == "cos_query,alpha0"
    assert [list(row) for row in json.loads(onehead(*command, "--json").stdout)] == [["cos_query", "alpha0"]] * 24
    assert "cos_query" in onehead(*command).stdout
    line = refused("export", "--store", "s.db", "--columns", "alpah0")
    assert "columns must be names of columns: key, call" in line and "alpha0" in line


def test_output_files_may_not_have_the_names_of_journals(onehead, refused, folder):
    onehead("run", "spec.toml", "--store", "s.db")
    for ending in ("-wal", "-journal", "-shm", ".lock"):
        line = refused("export", "--store", "s.db", "--csv", f"s.db{ending}")
        assert "--csv must be a name other than those of the journals and the lock of a store" in line
        line = refused("run", "spec.toml", "--store", f"s.db{ending}")
        assert "is the name of a journal or lock of the store beside it" in line


def test_the_estimate_uses_the_workers_of_the_file(onehead, folder):
    (folder / "spec.toml").write_text(SPEC + "[run]\nworkers = 1\n")
    found = json.loads(onehead("check", "spec.toml", "--json").stdout)
    assert found["workers"] == 1 and found["seconds_local"] == found["seconds_inline"]
    assert "on 1 local process:" in onehead("check", "spec.toml").stdout


def test_dask_without_an_address_says_what_to_do(refused, folder):
    line = refused("run", "spec.toml", "--store", "s.db", "--on", "dask")
    assert "dask scheduler and dask worker start one" in line and "local uses all cores of this machine" in line


def test_status_of_a_store_that_was_killed_before_its_first_sweep(refused, folder):
    with Store.writing(folder / "s.db"):
        pass
    for verb in ("status", "export"):
        assert refused(verb, "--store", "s.db") == "onehead: s.db holds no sweep yet.\n"
