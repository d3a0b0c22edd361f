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
from contextlib import closing
from pathlib import Path

import pytest
from tests.support.folders import read_only_folder, small_disk
from tests.support.sweeps import run_sweep

from onehead.sweep import Inline, Spec, Store, drive
from onehead.sweep.errors import BadStore, PointsMissing, StoreFailed

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


def rename(store):
    store.rename(store.with_name("renamed.db"))


def replace(store):
    run_sweep("trivial", {"x": [7]}, store=store.with_name("other.db"))
    store.with_name("other.db").replace(store)


def rename_folder(store):
    store.parent.rename(store.parent.with_name("renamed"))


def remove_folder(store):
    shutil.rmtree(store.parent)


def overwrite(store):
    """Copy another store over the file, which keeps its inode."""
    run_sweep("trivial", {"x": [7]}, store=store.with_name("other.db"))
    shutil.copyfile(store.with_name("other.db"), store)


DISTURBANCES = (rename, Path.unlink, replace, rename_folder, remove_folder)


@pytest.mark.parametrize("moment", ["before the first point", "in the middle", "after the last point"])
@pytest.mark.parametrize("disturb", DISTURBANCES, ids=lambda function: function.__name__)
def test_a_store_that_loses_its_name_ends_the_sweep_and_keeps_every_point(tmp_path, monkeypatch, disturb, moment):
    (tmp_path / "folder").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    store, done = tmp_path / "folder" / "points.db", []
    spec = Spec(call="tests.support.sweep_calls:trivial", axes={"x": list(range(40))}, own=True)
    when = {"before the first point": 0, "in the middle": 20, "after the last point": 40}[moment]

    def progress(counts):
        done.append(counts.done)
        if counts.done >= when and when not in done[:-1] and not disturbed:
            disturbed.append(True)
            disturb(store)

    disturbed, executor = [], OneByOne()
    with (
        pytest.raises(
            StoreFailed, match=r"points.db was (renamed|removed) or replaced .*; every finished point is kept"
        ),
        Store.writing(store) as opened,
    ):
        drive(spec, opened, executor, progress=progress)
    assert disturbed
    kept = [path for path in tmp_path.rglob("*.db*") if path.name.startswith(("renamed", "points.db"))]
    kept = [path for path in kept if not path.name.endswith(("-wal", "-shm", ".lock"))]
    counts = []
    for path in kept:
        with Store.reading(path) as opened:
            counts += [opened.stored()] if opened.latest()[1]["total"] == 40 else []
    assert counts == [min(max(done) + 1, 40)]  # the last batch was written before the loss was noticed


class OneByOne(Inline):
    """Executor that hands over every point by itself."""

    def run(self, call, points):
        for outcomes in super().run(call, points):
            for outcome in outcomes:
                yield [outcome]


def test_a_store_that_is_overwritten_in_place_is_not_called_complete(store):
    spec = Spec(call="tests.support.sweep_calls:trivial", axes={"x": list(range(40))}, own=True)
    with pytest.raises((BadStore, StoreFailed, PointsMissing)), Store.writing(store) as opened:
        drive(spec, opened, OneByOne(), progress=lambda counts: counts.done == 20 and overwrite(store))


def test_arrays_that_disappear_during_a_sweep_are_noticed(store):
    spec = Spec(call="tests.support.sweep_calls:heavy", axes={"size": [10, 20, 30], "pause": [0.0]}, seeds=1, own=True)
    folder = store.with_name("points.db.arrays")

    def progress(counts):
        if counts.done == 2:
            folder.rename(folder.with_name("elsewhere"))

    with (
        pytest.raises(StoreFailed, match=r"2 files are missing from .*points.db.arrays"),
        Store.writing(store) as opened,
    ):
        drive(spec, opened, OneByOne(), progress=progress)


def test_counted_points_are_in_the_file_itself_and_not_in_its_journal(tmp_path, store):
    """The file alone is copied after every batch, as a rename without its journal would leave it."""
    spec, seen = Spec(call="tests.support.sweep_calls:trivial", axes={"x": list(range(20))}, own=True), []

    def progress(counts):
        shutil.copyfile(store, tmp_path / "copy.db")
        with Store.reading(tmp_path / "copy.db") as copied:
            seen.append((copied.counts().done, counts.done))

    with Store.writing(store) as opened:
        drive(spec, opened, OneByOne(), progress=progress)
    assert seen == [(count, count) for count in range(21)]


def test_a_journal_without_its_store_is_refused_and_left_unchanged(store):
    run_sweep("trivial", {"x": [1]}, store=store)
    with closing(sqlite3.connect(store)) as writer, closing(sqlite3.connect(store)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM points").fetchall()
        writer.execute("UPDATE points SET residual = 1.0")
        writer.commit()
        journal = store.with_name("points.db-wal")
        content = journal.read_bytes()
        store.rename(store.with_name("renamed.db"))
        for _ in range(2):
            with pytest.raises(BadStore, match=r"points.db-wal is the journal of a store that is no longer called"):
                run_sweep("trivial", {"x": [1, 2]}, store=store)
        assert len(content) > 4096 and journal.read_bytes() == content and not store.exists()


@pytest.mark.slow
def test_a_damaged_journal_of_a_killed_sweep_loses_no_acknowledged_point(tmp_path):
    rng, fewer = random.Random(5), 0
    for trial in range(3):
        (folder := tmp_path / str(trial)).mkdir()
        acknowledged = killed(driver(folder / "points.db", "inline", 3000, 0.0), wait_for=2, delay=rng.uniform(0, 0.2))
        journal = folder / "points.db-wal"
        for _ in range(20):
            (copy := folder / "copy").mkdir(exist_ok=True)
            for path in folder.glob("points.db*"):
                shutil.copyfile(path, copy / path.name) if path.is_file() else None
            if journal.exists() and journal.stat().st_size:
                content = bytearray(journal.read_bytes())
                content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
                (copy / journal.name).write_bytes(content)
            fewer += len(rows_of(copy / "points.db")) < acknowledged
    assert fewer == 0


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
        (folder / "ballast").write_bytes(bytes(4_700_000))
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
