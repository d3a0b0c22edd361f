"""A store that is not as it was written is refused; reading one leaves no trace; a store has one writer."""

import os
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest
from checks.faults_processes import twice
from checks.faults_stores import made, trial
from tests.support.sweeps import run_sweep

from onehead.sweep import Store
from onehead.sweep.errors import BadStore, StoreFailed
from onehead.sweep.storage.lock import resolve_store, write_lock

GOLDEN = Path(__file__).parents[1] / "golden" / "store-1.1.0.db"


def contents(folder):
    """Bytes of all files of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def read(store):
    """Rows, counts and latest sweep of a store."""
    with Store.reading(store) as opened:
        return list(opened.rows()), opened.counts(), opened.latest()


def test_damaged_stores_are_refused_untouched(tmp_path):
    """Ten damaged stores of each kind; `make faults` does 600."""
    (tmp_path / "whole").mkdir()
    (tmp_path / "trial").mkdir()
    made(tmp_path / "whole" / "s.db")
    rows = [trial(tmp_path / "whole" / "s.db", tmp_path / "trial", number, seed=1) for number in range(60)]
    for rule in ("wrong", "changed", "raised"):
        assert [row["done"] for row in rows if row[rule]] == []
    assert sum(row["end"] == "refused" for row in rows) > 40  # some damage lies in bytes without meaning


@pytest.mark.parametrize("table", ["points", "sweeps"])
def test_an_edited_column_is_noticed(tmp_path, store, table):
    run_sweep("trivial", {"x": [1, 2, 3]}, store=store)
    intact, original = store.read_bytes(), read(store)
    with closing(sqlite3.connect(store)) as database:
        columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
    for column in columns:
        for value in ("other", 77, 0.25, b"\xff", None):
            store.write_bytes(intact)
            with closing(sqlite3.connect(store)) as database:
                try:
                    with database:
                        database.execute(f"UPDATE {table} SET {column} = ? WHERE id = 1", (value,))
                except sqlite3.IntegrityError:
                    continue
            untouched = store.read_bytes() == intact
            before = contents(tmp_path)
            if untouched or column == "id":  # the id of a row carries no information, that of a sweep does
                with suppress(BadStore):
                    assert read(store) == original
                continue
            for use in (read, lambda store: run_sweep("trivial", {"x": [1, 2, 3, 4]}, store=store)):
                with pytest.raises(BadStore, match="is damaged"):
                    use(store)
            assert contents(tmp_path) == before


def test_deleted_rows_are_noticed(tmp_path, store):
    run_sweep("trivial", {"x": [1, 2, 3]}, store=store)
    with closing(sqlite3.connect(store)) as database, database:
        database.execute("DELETE FROM points WHERE id = 2")
    with pytest.raises(BadStore, match="is damaged"):
        read(store)


def test_a_store_of_version_one_is_read_unchanged_and_gets_hashes_when_it_is_written(tmp_path, store):
    shutil.copy(GOLDEN, store)
    rows = read(store)[0]
    assert store.read_bytes() == GOLDEN.read_bytes() and list(tmp_path.iterdir()) == [store]
    run_sweep("trivial", {"x": [1]}, store=store)
    assert read(store)[0][: len(rows)] == rows
    with closing(sqlite3.connect(store)) as database, database:
        assert database.execute("PRAGMA user_version").fetchone() == (2,)
        assert database.execute("SELECT count(*) FROM points WHERE hash IS NULL").fetchone() == (0,)
        database.execute("UPDATE points SET results = replace(results, '0', '1') WHERE id = 1")
    with pytest.raises(BadStore, match="is damaged"):
        read(store)


def test_a_store_whose_writer_was_killed_is_read_unchanged(tmp_path, store):
    (tmp_path / "killed").mkdir()
    with Store.writing(store) as opened, closing(sqlite3.connect(store)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM points").fetchall()  # keeps what follows in the journal
        number = opened.begin("tests.support.sweep_calls:trivial", [], retry=False)
        assert number == 1
        for path in tmp_path.glob("points.db*"):
            shutil.copy(path, tmp_path / "killed")
    copy = tmp_path / "killed" / "points.db"
    assert (tmp_path / "killed" / "points.db-wal").stat().st_size
    before = contents(tmp_path / "killed")
    assert read(copy)[2][0] == 1  # contained only in the journal
    assert contents(tmp_path / "killed") == before
    run_sweep("trivial", {"x": [1]}, store=copy)
    assert read(copy)[2][0] == 2


def test_a_store_that_changes_while_it_is_read_is_reported(store):
    run_sweep("trivial", {"x": [1, 2]}, store=store)
    with pytest.raises(StoreFailed, match="was changed by a sweep while it was read; ask again"), Store.reading(store):
        run_sweep("trivial", {"x": [1, 2, 3]}, store=store)


def test_a_store_with_a_trigger_is_refused(store):
    run_sweep("trivial", {"x": [1]}, store=store)
    with closing(sqlite3.connect(store)) as database, database:
        database.execute("CREATE TRIGGER t AFTER INSERT ON sweeps BEGIN DELETE FROM points; END")
    with pytest.raises(BadStore, match="is damaged"):
        run_sweep("trivial", {"x": [2]}, store=store)


def test_damaged_arrays_are_noticed(tmp_path, store):
    table = run_sweep("heavy", {"size": [100]}, seeds=1, store=store)
    (file,) = (tmp_path / "points.db.arrays").iterdir()
    intact = file.read_bytes()
    np.savez_compressed(file, table=np.zeros(100))
    for damage in (file.read_bytes(), intact[:50], b"", intact[:100] + b"\0" * 20 + intact[120:]):
        file.write_bytes(damage)
        with pytest.raises(BadStore, match=r"\.npz is damaged"):
            table.arrays(0)
    file.write_bytes(intact)
    assert len(table.arrays(0)["table"]) == 100


# --- one writer


def test_a_store_with_several_names_is_refused(tmp_path, store):
    run_sweep("trivial", {"x": [1]}, store=store)
    (tmp_path / "soft.db").symlink_to(store)
    assert (
        len(run_sweep("trivial", {"x": [1, 2]}, store=tmp_path / "soft.db")) == 2
    )  # the same file, which holds one of the points
    assert resolve_store(tmp_path / "soft.db") == store and (tmp_path / "soft.db").is_symlink()
    with Store.reading(tmp_path / "soft.db") as opened:
        assert opened.stored() == 2
    os.link(store, tmp_path / "hard.db")
    before = contents(tmp_path)
    for name in ("hard.db", "points.db", "soft.db"):
        with pytest.raises(
            BadStore, match=r"store must be a file with one name; got .*hard links.*make a copy with cp"
        ):
            run_sweep("trivial", {"x": [1]}, store=tmp_path / name)
        with pytest.raises(BadStore, match="one name"), Store.reading(tmp_path / name):
            pass
    assert contents(tmp_path) == before
    os.mkfifo(tmp_path / "pipe")
    for name in (tmp_path / "pipe", "/dev/null"):
        with pytest.raises(BadStore, match="store must be a regular file"):
            run_sweep("trivial", {"x": [1]}, store=name)


@pytest.mark.skipif(not hasattr(__import__("fcntl"), "F_OFD_SETLK"), reason="needs locks of Linux")
def test_a_store_that_was_renamed_is_still_in_use(tmp_path, store):
    with write_lock(store):
        store.rename(tmp_path / "renamed.db")
        with pytest.raises(BadStore, match="is in use by another sweep"):
            run_sweep("trivial", {"x": [1]}, store=tmp_path / "renamed.db")


@pytest.mark.parametrize("number", [0, 1], ids=["symbolic", "hard"])
def test_a_second_run_through_a_link_is_refused(tmp_path, number):
    """Two real sweeps of different points: the second is refused, the first ends with every point."""
    assert twice(number, tmp_path)["fault"] == ""


def test_a_sweep_does_not_change_the_points_of_another(store):
    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_sweep("sleep", {"x": list(range(60))}, fixed={"seconds": 0.02}, store=store, progress=stop)
    with Store.reading(store) as opened:
        first = opened.counts()
    assert first.total == 60 and first.missing > 0
    run_sweep("trivial", {"x": [1]}, store=store)
    with Store.reading(store) as opened:
        assert opened.counts(1) == first and opened.counts().total == 1
    assert len(run_sweep("sleep", {"x": list(range(60))}, fixed={"seconds": 0.0}, store=store)) == 60
