"""Killed processes, damaged stores and full disks: no acknowledged point is lost or duplicated, and errors have a
message.
"""

import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tests.support.folders import read_only_folder
from tests.support.sweeps import run_sweep

from onehead.sweep import Store
from onehead.sweep.errors import BadStore, StoreFailed

ROOT = Path(__file__).parents[2]
KILLS = 10  # `make faults` does a hundred


def driver(store, on, points, seconds, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.sweep_driver", str(store), on, str(points), str(seconds)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )


def killed(process, wait_for, delay):
    """Kill a driver a moment after it printed ``wait_for`` lines; return the number of points it last acknowledged."""
    printed = []
    for line in process.stdout:
        printed.append(line.strip())
        if len(printed) > wait_for:
            break
    time.sleep(delay)
    process.kill()
    printed += [line.strip() for line in process.stdout if line.endswith("\n")]
    process.stdout.close()
    process.wait()
    return max((int(line) for line in printed if line.isdigit()), default=0)


def rows_of(store):
    """Result and time of every finished point of a store, by key."""
    if not store.exists():
        return {}
    try:
        with Store.reading(store) as opened:
            return {row["key"]: (row["square"], row["finished_at"]) for row in opened.rows()}
    except BadStore as failure:
        if "holds no sweep yet" not in str(failure):
            raise
        return {}


@pytest.mark.slow
def test_kill_the_driver_ten_times(store):
    rng = random.Random(6)
    before, acknowledged, lost, changed = {}, 0, 0, 0
    for kill in range(KILLS):
        process = driver(store, "local" if kill % 4 == 0 else "inline", 3000, 0.002)
        # while the store is opened and points are registered, and while points are solved
        count = killed(process, wait_for=rng.choice((0, 0, 1, 2)), delay=rng.uniform(0.0, 0.4))
        after = rows_of(store)
        lost += len(set(before) - set(after)) + max(0, count - len(after))
        changed += sum(after[key] != row for key, row in before.items() if key in after)
        acknowledged, before = max(acknowledged, count), after
    assert 100 < len(before) < 3000  # killed before all points were solved
    finish = driver(store, "local", 3000, 0.002)
    assert finish.communicate(timeout=60)[0].split()[-1] == "3000"
    after = rows_of(store)
    lost += len(set(before) - set(after))
    with closing(sqlite3.connect(store)) as db, db:
        (intact,) = db.execute("PRAGMA integrity_check").fetchone()
        wanted = db.execute(
            "SELECT count(*), count(DISTINCT key) FROM points WHERE parameters LIKE '%0.002%'"
        ).fetchone()
    db.close()
    print(  # noqa: T201
        f"driver killed {KILLS} times: {acknowledged} acknowledged before the last, {lost} lost, {changed} solved "
        f"again, "
        f"{wanted[0] - wanted[1]} duplicated, {wanted[1]} of 3000 in the end"
    )
    assert (lost, changed, intact, wanted) == (0, 0, "ok", (3000, 3000))


def test_workers_of_a_killed_driver_end_by_themselves(store):
    import psutil

    process = driver(store, "local", 40, 0.5)
    for _ in range(3):
        process.stdout.readline()
    workers = psutil.Process(process.pid).children()
    assert len(workers) == 2
    process.kill()
    process.wait()
    process.stdout.close()
    gone, alive = psutil.wait_procs(workers, timeout=5)
    print(f"{len(gone)} of {len(workers)} workers ended after their driver was killed")  # noqa: T201
    assert not alive


def test_a_worker_killed_while_it_solves_a_chunk_loses_nothing(tmp_path, store):
    settings = {"fixed": {"folder": str(tmp_path)}, "store": store, "on": "local", "workers": 2}
    table = run_sweep("deadly_once", {"x": list(range(400))}, **settings)
    deaths = len(list(tmp_path.glob("dead-*")))
    print(f"{deaths} workers killed in the middle of a chunk: {len(table)} of 400 rows, {len(table.failed)} failed")  # noqa: T201
    assert deaths == 5 and not table.failed
    assert table.column("square").tolist() == [x * x for x in range(400)]


def test_a_point_that_kills_every_worker_fails_alone(tmp_path):
    table = run_sweep("deadly", {"x": list(range(60))}, fixed={"victim": 17}, on="local", workers=2)
    (failed,) = table.failed
    assert failed["x"] == 17
    assert failed["reason"] == (
        "its worker process died 3 times while nothing else ran, killed by SIGKILL, perhaps for lack of memory"
    )
    assert len(table) == 60 and sum(row["state"] == "done" for row in table) == 59


def test_workers_that_do_not_start_end_the_sweep_with_a_message(monkeypatch):
    from onehead.sweep.errors import WorkersLost

    monkeypatch.setattr("onehead.sweep.executors.local.sys.executable", shutil.which("false"))
    with pytest.raises(WorkersLost, match=r"worker processes do not start \(exit code 1\)"):
        run_sweep("trivial", {"x": [1, 2, 3]}, on="local", workers=2)


def test_a_second_run_on_one_store_is_refused(tmp_path, store):
    first = driver(store, "inline", 40, 0.05)
    try:
        for _ in range(2):
            first.stdout.readline()
        with pytest.raises(BadStore, match=rf"is in use by another sweep \(process {first.pid} on .*\); wait for it"):
            run_sweep("trivial", {"x": [1]}, store=store)
        with Store.reading(store) as opened:
            assert opened.running() and opened.counts().total == 40
    finally:
        first.communicate(timeout=30)
    with Store.reading(store) as opened:
        assert opened.counts().done == 40 and not opened.running()
    assert not (tmp_path / "points.db.lock").exists()


def test_a_store_from_a_newer_version_is_refused(store):
    run_sweep("trivial", {"x": [1]}, store=store)
    with closing(sqlite3.connect(store)) as db, db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    before = store.read_bytes()
    for use in (Store.writing, Store.reading):
        with (
            pytest.raises(BadStore, match=r"written by a newer onehead \(store version 99, this one reads up to 2\)"),
            use(store),
        ):
            pass
    assert store.read_bytes() == before


def test_a_damaged_store_is_refused_and_left_unchanged(tmp_path, store):
    run_sweep("trivial", {"x": list(range(2000))}, store=store)
    intact = store.read_bytes()
    damages = {
        "noise": os.urandom(len(intact)),
        "text": b"alpha,test_error\n" * 1000,
        "hole": intact[:8192] + os.urandom(len(intact) - 8192),
        "cut": intact[: len(intact) // 3],
    }
    for name, damage in damages.items():
        store.write_bytes(damage)
        with pytest.raises(BadStore, match="is damaged or is not a store of sweeps; keep it aside"):
            run_sweep("trivial", {"x": list(range(2000))}, store=store)
        with pytest.raises(BadStore, match="is damaged"), Store.reading(store) as opened:
            list(opened.rows())
        assert store.read_bytes()[:1000] == damage[:1000], name  # the file is unchanged
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as db, db:
        db.execute("CREATE TABLE songs (title TEXT)")
    db.close()
    with pytest.raises(BadStore, match="is a database of another program"):
        run_sweep("trivial", {"x": [1]}, store=other)
    print(f"{len(damages)} kinds of damage and a foreign database refused, files left as they were")  # noqa: T201


def test_a_store_in_a_read_only_folder_is_refused_for_writing(tmp_path):
    with (
        read_only_folder() as folder,
        pytest.raises(
            BadStore, match=r"store must be a file in a folder that can be written; got .* \(Permission denied\)"
        ),
    ):
        run_sweep("trivial", {"x": [1]}, store=folder / "points.db")
    for path in (tmp_path / "file" / "points.db", tmp_path / "none" / "points.db", tmp_path):
        (tmp_path / "file").touch()
        with pytest.raises(BadStore, match="store must be a file in a folder that can be written"):
            run_sweep("trivial", {"x": [1]}, store=path)


def test_a_store_at_rest_in_a_read_only_folder_can_be_read(store):
    run_sweep("trivial", {"x": [1, 2]}, store=store)
    with read_only_folder(store) as folder, Store.reading(folder / "points.db") as opened:
        assert opened.counts().done == 2 and len(list(opened.rows())) == 2


@contextmanager
def small_disk(size):
    """Mount a file system of a given size."""
    folder = tempfile.mkdtemp()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True, check=False
    )
    try:
        if mounted.returncode != 0:
            pytest.skip("no right to mount a small file system")
        yield Path(folder)
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", folder], check=True)
        Path(folder).rmdir()


def fill(store, call, axes, **settings):
    """Run until the disk is full; return the number of acknowledged points and the counts of the store."""
    acknowledged = []
    with pytest.raises(StoreFailed, match=r"(full|cannot take another array).*every point counted so far is kept"):
        run_sweep(call, axes, store=store, progress=lambda: acknowledged.append(1), **settings)
    with Store.reading(store) as opened:
        return len(acknowledged), opened.counts()


def test_a_full_disk_keeps_acknowledged_points():
    with small_disk("6m") as folder:
        store = folder / "points.db"
        axes = {"x": list(range(400)), "text": ["x" * 400]}
        run_sweep("trivial", {"x": [0], "text": ["x" * 400]}, store=store)
        (folder / "ballast").write_bytes(bytes(5_400_000))
        acknowledged, counts = fill(store, "wide", axes)
        (folder / "ballast").unlink()
        table = run_sweep("wide", axes, store=store)
        print(  # noqa: T201
            f"disk full: {acknowledged} acknowledged, {counts.done} kept, {len(table)} of 400 after making room"
        )
        assert counts.done >= acknowledged > 0 and counts.done < 400
        assert len(table) == 400 and not table.failed


def test_a_disk_that_fills_with_arrays_keeps_acknowledged_points():
    with small_disk("1500k") as folder:
        axes = {"size": [20_000], "pause": [0.1]}
        acknowledged, counts = fill(folder / "points.db", "heavy", axes, seeds=30)
        print(f"disk full for arrays: {acknowledged} acknowledged, {counts.done} kept, {counts.missing} missing")  # noqa: T201
        assert counts.done >= acknowledged > 0 and counts.missing > 0
        assert not list((folder / "points.db.arrays").glob("*.part"))


def test_a_file_size_limit_keeps_acknowledged_points(store):
    """The system refuses files beyond a size; this needs no right to mount a small disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    acknowledged = []
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (700_000, hard))
        with pytest.raises(
            StoreFailed, match=r"cannot grow .*: the disk is full or broken; every point counted so far"
        ):
            run_sweep("wide", {"x": list(range(500))}, store=store, progress=lambda: acknowledged.append(1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    with Store.reading(store) as opened:
        kept = opened.counts().done
    table = run_sweep("wide", {"x": list(range(500))}, store=store)
    print(f"file limit: {len(acknowledged)} acknowledged, {kept} kept, {len(table)} of 500 afterwards")  # noqa: T201
    assert kept >= len(acknowledged) > 0 and len(table) == 500
