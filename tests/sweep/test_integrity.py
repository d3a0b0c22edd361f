"""A store is as it was written, or it is refused; looking at one leaves no trace."""

import os
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest
from checks.faults_processes import twice
from checks.faults_stores import made, trial
from tests.support.sweeps import swept

from onehead.sweep import Store
from onehead.sweep.failures import BadStore, StoreFailed
from onehead.sweep.lock import locked, resolved

GOLDEN = Path(__file__).parents[1] / "golden" / "store-1.1.0.db"


def everything(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def seen(store):
    with Store.reading(store) as opened:
        return list(opened.rows()), opened.counts(), opened.latest()


def test_damaged_stores_are_refused_untouched(tmp_path):
    """A sample of `make faults`, which does 600; ten of each kind."""
    (tmp_path / "whole").mkdir()
    (tmp_path / "trial").mkdir()
    made(tmp_path / "whole" / "s.db")
    rows = [trial(tmp_path / "whole" / "s.db", tmp_path / "trial", number, seed=1) for number in range(60)]
    for rule in ("wrong", "changed", "raised"):
        assert [row["done"] for row in rows if row[rule]] == []
    assert sum(row["end"] == "refused" for row in rows) > 40  # most damage matters


@pytest.mark.parametrize("table", ["points", "sweeps"])
def test_no_column_can_be_edited(tmp_path, store, table):
    swept("trivial", {"x": [1, 2, 3]}, store=store)
    whole, truth = store.read_bytes(), seen(store)
    with closing(sqlite3.connect(store)) as database:
        columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
    for column in columns:
        for value in ("other", 77, 0.25, b"\xff", None):
            store.write_bytes(whole)
            with closing(sqlite3.connect(store)) as database:
                try:
                    with database:
                        database.execute(f"UPDATE {table} SET {column} = ? WHERE id = 1", (value,))
                except sqlite3.IntegrityError:
                    continue
            untouched = store.read_bytes() == whole
            before = everything(tmp_path)
            if untouched or column == "id":  # the number of a row is nobody's business, that of a sweep is
                with suppress(BadStore):
                    assert seen(store) == truth
                continue
            for use in (seen, lambda store: swept("trivial", {"x": [1, 2, 3, 4]}, store=store)):
                with pytest.raises(BadStore, match="is damaged"):
                    use(store)
            assert everything(tmp_path) == before


def test_rows_that_are_gone_are_missed(tmp_path, store):
    swept("trivial", {"x": [1, 2, 3]}, store=store)
    with closing(sqlite3.connect(store)) as database, database:
        database.execute("DELETE FROM points WHERE id = 2")
    with pytest.raises(BadStore, match="is damaged"):
        seen(store)


def test_a_store_of_the_first_version_is_read_as_it_is_and_gets_hashes_when_it_is_written(tmp_path, store):
    shutil.copy(GOLDEN, store)
    rows = seen(store)[0]
    assert store.read_bytes() == GOLDEN.read_bytes() and list(tmp_path.iterdir()) == [store]
    swept("trivial", {"x": [1]}, store=store)
    assert seen(store)[0][: len(rows)] == rows
    with closing(sqlite3.connect(store)) as database, database:
        assert database.execute("PRAGMA user_version").fetchone() == (2,)
        assert database.execute("SELECT count(*) FROM points WHERE hash IS NULL").fetchone() == (0,)
        database.execute("UPDATE points SET results = replace(results, '0', '1') WHERE id = 1")
    with pytest.raises(BadStore, match="is damaged"):
        seen(store)


def test_a_store_whose_writer_was_killed_is_read_and_left_as_it_is(tmp_path, store):
    (tmp_path / "killed").mkdir()
    with Store.writing(store) as opened:
        number = opened.begin("tests.support.sweep_calls:trivial", [], retry=False)
        assert number == 1
        for path in tmp_path.glob("points.db*"):
            shutil.copy(path, tmp_path / "killed")
    copy = tmp_path / "killed" / "points.db"
    assert (tmp_path / "killed" / "points.db-wal").stat().st_size
    before = everything(tmp_path / "killed")
    assert seen(copy)[2][0] == 1  # what only the journal holds
    assert everything(tmp_path / "killed") == before
    swept("trivial", {"x": [1]}, store=copy)
    assert seen(copy)[2][0] == 2


def test_a_store_that_changes_while_it_is_read(store):
    swept("trivial", {"x": [1, 2]}, store=store)
    with pytest.raises(StoreFailed, match="was changed by a sweep while it was read; ask again"), Store.reading(store):
        swept("trivial", {"x": [1, 2, 3]}, store=store)


def test_a_store_brings_no_statements_along(store):
    swept("trivial", {"x": [1]}, store=store)
    with closing(sqlite3.connect(store)) as database, database:
        database.execute("CREATE TRIGGER t AFTER INSERT ON sweeps BEGIN DELETE FROM points; END")
    with pytest.raises(BadStore, match="is damaged"):
        swept("trivial", {"x": [2]}, store=store)


def test_damaged_arrays_are_noticed(tmp_path, store):
    table = swept("heavy", {"size": [100]}, seeds=1, store=store)
    (file,) = (tmp_path / "points.db.arrays").iterdir()
    whole = file.read_bytes()
    np.savez_compressed(file, table=np.zeros(100))
    for damage in (file.read_bytes(), whole[:50], b"", whole[:100] + b"\0" * 20 + whole[120:]):
        file.write_bytes(damage)
        with pytest.raises(BadStore, match=r"\.npz is damaged"):
            table.arrays(0)
    file.write_bytes(whole)
    assert len(table.arrays(0)["table"]) == 100


# --- one writer


def test_a_store_has_one_name(tmp_path, store):
    swept("trivial", {"x": [1]}, store=store)
    (tmp_path / "soft.db").symlink_to(store)
    assert len(swept("trivial", {"x": [1, 2]}, store=tmp_path / "soft.db")) == 2  # the same file: one point is there
    assert resolved(tmp_path / "soft.db") == store and (tmp_path / "soft.db").is_symlink()
    with Store.reading(tmp_path / "soft.db") as opened:
        assert opened.stored() == 2
    os.link(store, tmp_path / "hard.db")
    before = everything(tmp_path)
    for name in ("hard.db", "points.db", "soft.db"):
        with pytest.raises(
            BadStore, match=r"store must be a file with one name; got .*hard links.*make a copy with cp"
        ):
            swept("trivial", {"x": [1]}, store=tmp_path / name)
        with pytest.raises(BadStore, match="one name"), Store.reading(tmp_path / name):
            pass
    assert everything(tmp_path) == before
    os.mkfifo(tmp_path / "pipe")
    for name in (tmp_path / "pipe", "/dev/null"):
        with pytest.raises(BadStore, match="store must be a regular file"):
            swept("trivial", {"x": [1]}, store=name)


@pytest.mark.skipif(not hasattr(__import__("fcntl"), "F_OFD_SETLK"), reason="locks of Linux")
def test_a_store_that_was_renamed_is_still_in_use(tmp_path, store):
    with locked(store):
        store.rename(tmp_path / "renamed.db")
        with pytest.raises(BadStore, match="is in use by another sweep"):
            swept("trivial", {"x": [1]}, store=tmp_path / "renamed.db")


@pytest.mark.parametrize("number", [0, 1], ids=["symbolic", "hard"])
def test_two_runs_at_once_through_a_link(tmp_path, number):
    """Two real sweeps of different points: the second is refused, the first ends with every point."""
    assert twice(number, tmp_path)["fault"] == ""


def test_a_sweep_deletes_nothing_of_another(store):
    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        swept("sleep", {"x": list(range(60))}, fixed={"seconds": 0.02}, store=store, progress=stop)
    with Store.reading(store) as opened:
        first = opened.counts()
    assert first.total == 60 and first.missing > 0
    swept("trivial", {"x": [1]}, store=store)
    with Store.reading(store) as opened:
        assert opened.counts(1) == first and opened.counts().total == 1
    assert len(swept("sleep", {"x": list(range(60))}, fixed={"seconds": 0.0}, store=store)) == 60
