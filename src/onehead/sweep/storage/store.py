"""The store of a sweep: one SQLite file with one writer; a point counts as finished only when it is on disk.

A point is a row: ``missing`` when a sweep asks for it, then ``done`` or ``failed``. Rows are written in
transactions with ``synchronous=FULL`` in write-ahead mode. A caller counts a point only after its transaction is
committed and moved from the journal into the file, and the file still has its name; killing the process at any moment,
or renaming the file, therefore loses no counted point, and writing the same point twice changes nothing.
"""

import json
import os
import socket
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from onehead import __version__
from onehead.errors import InvalidArgument
from onehead.sweep.errors import BadStore, StoreFailed, damaged_store
from onehead.sweep.registry import call_named
from onehead.sweep.solve import Outcome
from onehead.sweep.storage.arrays import Arrays
from onehead.sweep.storage.database import (
    empty_journal,
    in_memory,
    open_for_reading,
    open_for_writing,
    reopened,
    rescue,
    translate_errors,
)
from onehead.sweep.storage.keys import Point
from onehead.sweep.storage.lock import is_in_place, is_locked, resolve_store, write_lock
from onehead.sweep.storage.schema import SET_POINT_HASHES, SET_SWEEP_HASHES
from onehead.sweep.storage.version import NUMERICAL
from onehead.sweep.table import Table

READ_BATCH = 1000  # rows fetched at a time
MAX_NESTING = 20  # levels of lists and dicts in a row

REGISTER = """
INSERT INTO points (key, sweep, position, call, parameters, seed, repeat, state)
VALUES (?, ?, ?, ?, ?, ?, ?, 'missing')
ON CONFLICT (key) DO UPDATE SET sweep = excluded.sweep, position = excluded.position, parameters = excluded.parameters
WHERE points.sweep <> excluded.sweep
"""

CERTIFICATE_COLUMNS = ("state", "status", "kind", "residual", "reason", "arrays")
ORIGIN_COLUMNS = ("duration", "version", "numerical_version", "finished_at")
SAVED = ", ".join(f"{name} = :{name}" for name in ("results", *CERTIFICATE_COLUMNS, *ORIGIN_COLUMNS))
SAVE = f"UPDATE points SET {SAVED} WHERE key = :key AND state <> 'done'"

# each row gets its hash in the transaction that writes it
SET_POINT_HASH, SET_HASHES_OF_SWEEP = f"{SET_POINT_HASHES} WHERE key = ?", f"{SET_POINT_HASHES} WHERE sweep = ?"
SET_SWEEP_HASH = f"{SET_SWEEP_HASHES} WHERE id = ?"

# columns in the order of an exported row; the parameters follow the call, the results follow the repeat
COLUMNS = ("key", "call", "parameters", "seed", "repeat", "results", *CERTIFICATE_COLUMNS, *ORIGIN_COLUMNS)
READ = f"SELECT {', '.join(COLUMNS)} FROM points WHERE {{}} state <> 'missing' ORDER BY sweep, position"
READ_ALL, READ_SWEEP = READ.format(""), READ.format("sweep = ? AND")
RESERVED_COLUMNS = (
    "key",
    "call",
    "seed",
    "repeat",
    *CERTIFICATE_COLUMNS,
)  # a result with one of these names is dropped


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Number of points of a sweep that are done, failed and missing.

    Examples
    --------
    >>> from onehead.sweep import Counts
    >>> counts = Counts(done=7, failed=1, missing=2)
    >>> counts.finished, counts.total
    (8, 10)
    """

    done: int
    failed: int
    missing: int

    @property
    def finished(self) -> int:
        """Number of points that are done or failed."""
        return self.done + self.failed

    @property
    def total(self) -> int:
        """Number of all points."""
        return self.finished + self.missing


class Store:
    """Points and their results in one file, or in memory when there is no path.

    Use `Store.writing` to run a sweep and `Store.reading` to look at one, also while it runs.

    Parameters
    ----------
    connection : sqlite3.Connection
        Connection to the database.
    path : Path or None
        File of the store; None for a store in memory.
    handle : int, optional
        Open file descriptor of a store that is written.

    Examples
    --------
    >>> from onehead.sweep import Inline, Spec, Store, drive
    >>> with Store.writing(None) as store:
    ...     number = drive(Spec(call="sparse.align", axes={"alpha0": [1.0]}), store, Inline())
    ...     [row["state"] for row in store.rows(number)]
    ['done']
    """

    def __init__(self, connection: sqlite3.Connection, path: Path | None, handle: int | None = None) -> None:
        self._connection, self.path, self._handle = connection, path, handle
        self.arrays = Arrays(None if path is None else path.with_name(path.name + ".arrays"))

    @classmethod
    @contextmanager
    def writing(cls, path: str | os.PathLike[str] | None) -> Iterator["Store"]:
        """Context manager that opens or creates a store for writing; refused while another process writes."""
        if path is None:
            with closing(in_memory()) as memory:
                yield cls(memory, None)
            return
        file = resolve_store(path)
        with write_lock(file) as handle:
            store = cls(open_for_writing(file), file, handle)
            try:
                with translate_errors(str(file)):
                    yield store
            finally:
                with suppress(sqlite3.Error):
                    store._connection.close()

    @classmethod
    @contextmanager
    def reading(cls, path: str | os.PathLike[str]) -> Iterator["Store"]:
        """Context manager that checks a store and opens it for reading, also while a sweep writes to it."""
        file = resolve_store(path)
        if not file.is_file():
            raise BadStore(str(path), f"store must be a file that exists; got {str(path)!r}.")
        with open_for_reading(file) as connection:
            yield cls(connection, file)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Context manager for one transaction; at its end the rows are in the file that has the name of the store."""
        with self._connection as connection:
            yield connection
        if self.path is not None:
            empty_journal(connection)
            self._check_in_place(self.path)

    def _check_in_place(self, path: Path) -> None:
        """Raise `StoreFailed` if the file of the store was renamed, removed or replaced; finished points are kept."""
        if self._handle is None or is_in_place(path, self._handle):
            return
        if os.fstat(self._handle).st_nlink:
            what, kept = "renamed or replaced", "in the file that was renamed; run the same command with its new name"
        else:
            what, kept = "removed or replaced", f"in {rescue(self._connection, path)}"
        raise StoreFailed(f"{path} was {what} while the sweep ran; every finished point is kept {kept}.")

    def verify(self, sweep: int) -> Counts:
        """Counts of a sweep as a process that opens the store by its name now would find them.

        Raises
        ------
        StoreFailed
            If the file was renamed, removed or replaced, or arrays are missing from their folder.
        BadStore
            If its content was changed by another program.
        """
        if self.path is None:
            return self.counts(sweep)
        self._check_in_place(self.path)
        with reopened(self.path) as connection:
            found = Store(connection, self.path)
            names = connection.execute("SELECT arrays FROM points WHERE sweep = ? AND arrays IS NOT NULL", (sweep,))
            lost = self.arrays.missing(name for (name,) in names)
            if lost:
                raise StoreFailed(
                    f"{lost} files are missing from {self.arrays.folder}, which was changed while the sweep ran; put "
                    "them back, or solve the points again in another store."
                )
            counts = found.counts(sweep)
        self._check_in_place(self.path)  # again, as reading a large store takes some time
        return counts

    def begin(self, call: str, points: Iterable[Point], *, retry: bool) -> int:
        """Register the points of a sweep in one transaction and return the number of the sweep.

        Points that are done stay done; with ``retry`` failed points become missing again. Missing points of an
        earlier sweep belong to it until a later sweep asks for them.
        """
        with self._transaction() as db:
            cursor = db.execute(
                "INSERT INTO sweeps (call, total, started_at, host, process) VALUES (?, 0, ?, ?, ?)",
                (call, _now(), socket.gethostname(), os.getpid()),
            )
            sweep = int(cursor.lastrowid or 0)
            db.executemany(
                REGISTER,
                (
                    (point.key, sweep, position, call, json.dumps(point.parameters), point.seed, point.repeat)
                    for position, point in enumerate(points)
                ),
            )
            if retry:
                db.execute("UPDATE points SET state = 'missing' WHERE sweep = ? AND state = 'failed'", (sweep,))
            db.execute(
                "UPDATE sweeps SET total = (SELECT count(*) FROM points WHERE sweep = :id) WHERE id = :id",
                {"id": sweep},
            )
            db.execute(SET_HASHES_OF_SWEEP, (sweep,))
            db.execute(SET_SWEEP_HASH, (sweep,))
        return sweep

    def missing(self, sweep: int) -> Iterator[Point]:
        """Iterate over the missing points of a sweep in order, a thousand at a time."""
        position = -1
        while True:
            rows = self._connection.execute(
                "SELECT position, key, parameters, seed, repeat FROM points WHERE sweep = ? AND position > ? "
                "AND state = 'missing' ORDER BY position LIMIT ?",
                (sweep, position, READ_BATCH),
            ).fetchall()
            if not rows:
                return
            for _, key, parameters, seed, repeat in rows:
                yield Point(key, _json_object(parameters, str(self.path)), seed, repeat)
            position = rows[-1][0]

    def save(self, outcomes: Sequence[Outcome]) -> None:
        """Write outcomes in one transaction; when this returns they are on disk."""
        origin = {"version": __version__, "numerical_version": NUMERICAL, "finished_at": _now()}
        rows = [
            {
                **outcome._asdict(),
                "state": "done" if outcome.reason is None else "failed",
                "arrays": self.arrays.put(outcome.arrays) if outcome.arrays else None,
                **origin,
            }
            for outcome in outcomes
        ]
        with self._transaction() as db:
            db.executemany(SAVE, rows)
            db.executemany(SET_POINT_HASH, [(outcome.key,) for outcome in outcomes])

    def counts(self, sweep: int | None = None) -> Counts:
        """Number of points of a sweep that are done, failed and missing; of the latest sweep if none is given."""
        sweep = self.latest()[0] if sweep is None else sweep
        found = dict(
            self._connection.execute(
                "SELECT state, count(*) FROM points WHERE sweep = ? GROUP BY state", (sweep,)
            ).fetchall()
        )
        return Counts(**{name: found.get(name, 0) for name in ("done", "failed", "missing")})

    def latest(self) -> tuple[int, dict[str, Any]]:
        """Number and description of the latest sweep."""
        row = self._connection.execute(
            "SELECT id, call, total, started_at, host, process FROM sweeps ORDER BY id DESC LIMIT 1"
        ).fetchone()
        if row is None:
            return 0, {}
        return int(row[0]), dict(zip(("call", "total", "started_at", "host", "process"), row[1:], strict=True))

    def stored(self) -> int:
        """Number of finished points of all sweeps."""
        return int(self._connection.execute("SELECT count(*) FROM points WHERE state <> 'missing'").fetchone()[0])

    def running(self) -> bool:
        """Whether a process is writing to the store now."""
        assert self.path is not None
        return is_locked(self.path)

    def rows(self, sweep: int | None = None) -> Iterator[dict[str, Any]]:
        """Iterate over the finished points as tidy rows: of one sweep in its order, or of all sweeps."""
        execute = self._connection.execute
        cursor = execute(READ_ALL) if sweep is None else execute(READ_SWEEP, (sweep,))
        for row in cursor:
            tidy = _tidy(dict(zip(COLUMNS, row, strict=True)), str(self.path))
            if tidy["arrays"] is not None and self.path is not None:
                tidy["arrays"] = f"{self.path.name}.arrays/{tidy['arrays']}.npz"
            yield tidy

    def table(self, sweep: int) -> Table:
        """Rows of a sweep as a `Table`."""
        return Table(list(self.rows(sweep)), self.arrays.get)


def _tidy(row: dict[str, Any], name: str) -> dict[str, Any]:
    """Columns of an exported row: key and call, parameters, seed, results, certificate, origin."""
    given, results = _json_object(row.pop("parameters"), name), row.pop("results")
    with suppress(InvalidArgument):  # a function of the user, or a call of another version
        given = call_named(row["call"]).columns(given)
    found = _json_object(results, name) if results else {}
    return {
        **{column: row.pop(column) for column in ("key", "call")},
        **given,
        **{column: row.pop(column) for column in ("seed", "repeat")},
        **{column: value for column, value in found.items() if column not in RESERVED_COLUMNS},
        **row,
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _json_object(text: Any, name: str) -> dict[str, Any]:
    """Read a JSON object of a row; anything else means that the file is damaged or foreign."""
    try:
        found = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        raise damaged_store(name) from None
    if not isinstance(found, dict) or _nested_too_deeply(found):
        raise damaged_store(name)
    return found


def _nested_too_deeply(value: Any) -> bool:
    """Whether a value is nested too deeply for a row; without recursion, which could exhaust the stack."""
    level, depth = [value], 0
    while level and depth < MAX_NESTING:
        inner = (item.values() if isinstance(item, dict) else item for item in level if isinstance(item, (dict, list)))
        level, depth = [item for items in inner for item in items], depth + 1
    return bool(level)
