"""Whatever dies: no acknowledged point is lost, none is there twice, and a sentence says what happened."""

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
from tests.support.folders import folder_that_cannot_be_written
from tests.support.sweeps import swept

from onehead.sweep import Store
from onehead.sweep.failures import BadStore, StoreFailed

ROOT = Path(__file__).parents[2]
KILLS = 10  # `make faults` has a hundred


def driver(store, on, points, seconds, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.sweep_driver", str(store), on, str(points), str(seconds)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )


def killed(process, wait_for, delay):
    """Kill a driver a moment after it said something; gives the number of points it last called its own."""
    said = []
    for line in process.stdout:
        said.append(line.strip())
        if len(said) > wait_for:
            break
    time.sleep(delay)
    process.kill()
    said += [line.strip() for line in process.stdout if line.endswith("\n")]
    process.stdout.close()
    process.wait()
    return max((int(word) for word in said if word.isdigit()), default=0)


def rows_of(store):
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
    chance = random.Random(6)
    before, acknowledged, lost, changed = {}, 0, 0, 0
    for kill in range(KILLS):
        process = driver(store, "local" if kill % 4 == 0 else "inline", 3000, 0.002)
        # at the start (opening, registering), and in the middle of the work
        count = killed(process, wait_for=chance.choice((0, 0, 1, 2)), delay=chance.uniform(0.0, 0.4))
        after = rows_of(store)
        lost += len(set(before) - set(after)) + max(0, count - len(after))
        changed += sum(after[key] != row for key, row in before.items() if key in after)
        acknowledged, before = max(acknowledged, count), after
    assert 100 < len(before) < 3000  # it was killed while there was work to do
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
        f"driver killed {KILLS} times: {acknowledged} acknowledged before the last, {lost} lost, {changed} solved again, "
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


def test_a_worker_killed_in_the_middle(tmp_path, store):
    words = {"fixed": {"folder": str(tmp_path)}, "store": store, "on": "local", "workers": 2}
    table = swept("deadly_once", {"x": list(range(400))}, **words)
    deaths = len(list(tmp_path.glob("dead-*")))
    print(f"{deaths} workers killed in the middle of a chunk: {len(table)} of 400 rows, {len(table.failed)} failed")  # noqa: T201
    assert deaths == 5 and not table.failed
    assert table.column("square").tolist() == [x * x for x in range(400)]


def test_a_point_that_kills_every_worker_fails_alone(tmp_path):
    table = swept("deadly", {"x": list(range(60))}, fixed={"victim": 17}, on="local", workers=2)
    (failed,) = table.failed
    assert failed["x"] == 17
    assert failed["reason"] == (
        "its worker process died 3 times while nothing else ran, killed by SIGKILL, perhaps for lack of memory"
    )
    assert len(table) == 60 and sum(row["state"] == "done" for row in table) == 59


def test_workers_that_do_not_start(monkeypatch):
    from onehead.sweep.failures import WorkersLost

    monkeypatch.setattr("onehead.sweep.executors.local.sys.executable", shutil.which("false"))
    with pytest.raises(WorkersLost, match=r"worker processes do not start \(exit code 1\)"):
        swept("trivial", {"x": [1, 2, 3]}, on="local", workers=2)


def test_two_runs_at_once_are_refused(tmp_path, store):
    first = driver(store, "inline", 40, 0.05)
    try:
        for _ in range(2):
            first.stdout.readline()
        with pytest.raises(BadStore, match=rf"is in use by another sweep \(process {first.pid} on .*\); wait for it"):
            swept("trivial", {"x": [1]}, store=store)
        with Store.reading(store) as opened:
            assert opened.running() and opened.counts().total == 40
    finally:
        first.communicate(timeout=30)
    with Store.reading(store) as opened:
        assert opened.counts().done == 40 and not opened.running()
    assert not (tmp_path / "points.db.lock").exists()


def test_a_store_from_a_newer_version(store):
    swept("trivial", {"x": [1]}, store=store)
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


def test_a_damaged_store(tmp_path, store):
    swept("trivial", {"x": list(range(2000))}, store=store)
    whole = store.read_bytes()
    damages = {
        "noise": os.urandom(len(whole)),
        "text": b"alpha,test_error\n" * 1000,
        "hole": whole[:8192] + os.urandom(len(whole) - 8192),
        "cut": whole[: len(whole) // 3],
    }
    for name, damage in damages.items():
        store.write_bytes(damage)
        with pytest.raises(BadStore, match="is damaged or is not a store of sweeps; keep it aside"):
            swept("trivial", {"x": list(range(2000))}, store=store)
        with pytest.raises(BadStore, match="is damaged"), Store.reading(store) as opened:
            list(opened.rows())
        assert store.read_bytes()[:1000] == damage[:1000], name  # what was there is left as it was
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as db, db:
        db.execute("CREATE TABLE songs (title TEXT)")
    db.close()
    with pytest.raises(BadStore, match="is a database of another program"):
        swept("trivial", {"x": [1]}, store=other)
    print(f"{len(damages)} kinds of damage and a foreign database refused, files left as they were")  # noqa: T201


def test_a_read_only_folder(tmp_path):
    with (
        folder_that_cannot_be_written() as folder,
        pytest.raises(
            BadStore, match=r"store must be a file in a folder that can be written; got .* \(Permission denied\)"
        ),
    ):
        swept("trivial", {"x": [1]}, store=folder / "points.db")
    for path in (tmp_path / "file" / "points.db", tmp_path / "none" / "points.db", tmp_path):
        (tmp_path / "file").touch()
        with pytest.raises(BadStore, match="store must be a file in a folder that can be written"):
            swept("trivial", {"x": [1]}, store=path)


def test_a_store_at_rest_in_a_read_only_folder_can_be_read(store):
    swept("trivial", {"x": [1, 2]}, store=store)
    with folder_that_cannot_be_written(store) as folder, Store.reading(folder / "points.db") as opened:
        assert opened.counts().done == 2 and len(list(opened.rows())) == 2


@contextmanager
def small_disk(size):
    """A file system that is soon full."""
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


def fill(store, call, axes, **words):
    """Run until the disk is full, then with more room; gives the points acknowledged and kept."""
    acknowledged = []
    with pytest.raises(StoreFailed, match=r"(full|cannot take another array).*every point counted so far is kept"):
        swept(call, axes, store=store, progress=lambda: acknowledged.append(1), **words)
    with Store.reading(store) as opened:
        return len(acknowledged), opened.counts()


def test_disk_full_in_the_middle():
    with small_disk("6m") as folder:
        store = folder / "points.db"
        axes = {"x": list(range(400)), "text": ["x" * 400]}
        swept("trivial", {"x": [0], "text": ["x" * 400]}, store=store)
        (folder / "ballast").write_bytes(bytes(5_400_000))
        acknowledged, counts = fill(store, "wide", axes)
        (folder / "ballast").unlink()
        table = swept("wide", axes, store=store)
        print(  # noqa: T201
            f"disk full: {acknowledged} acknowledged, {counts.done} kept, {len(table)} of 400 after making room"
        )
        assert counts.done >= acknowledged > 0 and counts.done < 400
        assert len(table) == 400 and not table.failed


def test_disk_full_while_writing_arrays():
    with small_disk("1500k") as folder:
        axes = {"size": [20_000], "pause": [0.1]}
        acknowledged, counts = fill(folder / "points.db", "heavy", axes, seeds=30)
        print(f"disk full for arrays: {acknowledged} acknowledged, {counts.done} kept, {counts.missing} missing")  # noqa: T201
        assert counts.done >= acknowledged > 0 and counts.missing > 0
        assert not list((folder / "points.db.arrays").glob("*.part"))


def test_a_file_that_may_not_grow(store):
    """The same without the right to mount: the system refuses files beyond a size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    acknowledged = []
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (700_000, hard))
        with pytest.raises(
            StoreFailed, match=r"cannot grow .*: the disk is full or broken; every point counted so far"
        ):
            swept("wide", {"x": list(range(500))}, store=store, progress=lambda: acknowledged.append(1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    with Store.reading(store) as opened:
        kept = opened.counts().done
    table = swept("wide", {"x": list(range(500))}, store=store)
    print(f"file limit: {len(acknowledged)} acknowledged, {kept} kept, {len(table)} of 500 afterwards")  # noqa: T201
    assert kept >= len(acknowledged) > 0 and len(table) == 500
