"""The store: one SQLite file, one writer, nothing acknowledged that is not on disk.

A point is a row: ``missing`` when a sweep asks for it, then ``done`` or ``failed``. Rows are written in transactions with
``synchronous=FULL`` in write-ahead mode, and a caller counts a point only after its transaction is committed; killing
the process at any moment therefore loses no counted point, and writing the same point twice changes nothing.
"""

import json
import os
import socket
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from onehead import __version__
from onehead.errors import InvalidArgument
from onehead.sweep.arrays import Arrays
from onehead.sweep.calls import call_named
from onehead.sweep.database import damaged, locked, locked_now, open_for_reading, open_for_writing, prepared, sentences
from onehead.sweep.failures import BadStore
from onehead.sweep.keys import Point
from onehead.sweep.solve import Outcome
from onehead.sweep.table import Table
from onehead.sweep.version import NUMERICAL

__all__ = ["Counts", "Store"]

BATCH = 1000
DEEPEST = 20  # levels of a row

REGISTER = """
INSERT INTO points (key, sweep, position, call, parameters, seed, repeat, state)
VALUES (?, ?, ?, ?, ?, ?, ?, 'missing')
ON CONFLICT (key) DO UPDATE SET sweep = excluded.sweep, position = excluded.position, parameters = excluded.parameters
WHERE points.sweep <> excluded.sweep
"""

CERTIFICATE = ("state", "status", "kind", "residual", "reason", "arrays")
ORIGIN = ("duration", "version", "numerical_version", "finished_at")
SAVE = f"""
UPDATE points SET results = :results, {", ".join(f"{name} = :{name}" for name in (*CERTIFICATE, *ORIGIN))}
WHERE key = :key AND state <> 'done'
"""

# of a row as people read it, in this order; parameters stand after the call, results after the repeat
COLUMNS = ("key", "call", "parameters", "seed", "repeat", "results", *CERTIFICATE, *ORIGIN)
READ = f"SELECT {', '.join(COLUMNS)} FROM points WHERE {{}} state <> 'missing' ORDER BY sweep, position"
READ_ALL, READ_SWEEP = READ.format(""), READ.format("sweep = ? AND")
HIDDEN = ("key", "call", "seed", "repeat", *CERTIFICATE)  # a result never hides one of these


@dataclass(frozen=True, kw_only=True)
class Counts:
    """How far a sweep is."""

    done: int
    failed: int
    missing: int

    @property
    def total(self) -> int:
        """All points."""
        return self.done + self.failed + self.missing


class Store:
    """Points and their answers in one file, or in memory when there is no path.

    Use `Store.writing` to run a sweep and `Store.reading` to look at one, also while it runs.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path | None) -> None:
        self._connection, self.path = connection, path
        self.arrays = Arrays(None if path is None else path.with_name(path.name + ".arrays"))

    @classmethod
    @contextmanager
    def writing(cls, path: str | os.PathLike[str] | None) -> Iterator["Store"]:
        """Open for writing, creating the file if needed; refused while another process writes."""
        if path is None:
            store = cls(prepared(sqlite3.connect(":memory:"), "memory"), None)
            try:
                yield store
            finally:
                store._connection.close()
            return
        file = Path(path)
        if not file.name:  # a folder such as / or .
            raise BadStore(str(path), f"store must be a file in a folder that can be written; got {str(path)!r}.")
        with locked(file):
            store = cls(open_for_writing(file), file)
            try:
                with sentences(str(file)):
                    yield store
            finally:
                with suppress(sqlite3.Error):
                    store._connection.close()

    @classmethod
    @contextmanager
    def reading(cls, path: str | os.PathLike[str]) -> Iterator["Store"]:
        """Open for reading; safe while a sweep writes."""
        file = Path(path)
        if not file.is_file():
            raise BadStore(str(path), f"store must be a file that exists; got {str(path)!r}.")
        store = cls(open_for_reading(file), file)
        try:
            with sentences(str(file)):
                yield store
        finally:
            store._connection.close()

    def begin(self, call: str, points: Iterable[Point], *, retry: bool) -> int:
        """Register the points of a sweep, all or none, and return its number; what is done stays done.

        Points that an earlier sweep asked for and never got are forgotten; with ``retry`` failed points are missing again.
        """
        with self._connection as db:
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
            db.execute("DELETE FROM points WHERE sweep <> ? AND state = 'missing'", (sweep,))
            if retry:
                db.execute("UPDATE points SET state = 'missing' WHERE sweep = ? AND state = 'failed'", (sweep,))
            db.execute(
                "UPDATE sweeps SET total = (SELECT count(*) FROM points WHERE sweep = :id) WHERE id = :id",
                {"id": sweep},
            )
        return sweep

    def missing(self, sweep: int) -> Iterator[Point]:
        """Points of a sweep without an answer, in order, read a thousand at a time."""
        position = -1
        while True:
            rows = self._connection.execute(
                "SELECT position, key, parameters, seed, repeat FROM points WHERE sweep = ? AND position > ? "
                "AND state = 'missing' ORDER BY position LIMIT ?",
                (sweep, position, BATCH),
            ).fetchall()
            if not rows:
                return
            for _, key, parameters, seed, repeat in rows:
                yield Point(key, _object(parameters, str(self.path)), seed, repeat)
            position = rows[-1][0]

    def save(self, outcomes: Sequence[Outcome]) -> None:
        """Write answers in one transaction; when this returns they are on disk."""
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
        with self._connection as db:
            db.executemany(SAVE, rows)

    def counts(self, sweep: int | None = None) -> Counts:
        """Points done, failed and missing of a sweep, the latest if none is named."""
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
        """Rows with an answer, of all sweeps."""
        return int(self._connection.execute("SELECT count(*) FROM points WHERE state <> 'missing'").fetchone()[0])

    def running(self) -> bool:
        """Whether a process is writing to the store now."""
        assert self.path is not None
        return locked_now(self.path)

    def rows(self, sweep: int | None = None) -> Iterator[dict[str, Any]]:
        """One tidy row per point with an answer: of one sweep in its order, or of the whole store."""
        execute = self._connection.execute
        cursor = execute(READ_ALL) if sweep is None else execute(READ_SWEEP, (sweep,))
        for row in cursor:
            tidy = _tidy(dict(zip(COLUMNS, row, strict=True)), str(self.path))
            if tidy["arrays"] is not None and self.path is not None:
                tidy["arrays"] = f"{self.path.name}.arrays/{tidy['arrays']}.npz"
            yield tidy

    def table(self, sweep: int) -> Table:
        """The rows of a sweep as a table."""
        return Table(list(self.rows(sweep)), self.arrays.get)


def _tidy(row: dict[str, Any], name: str) -> dict[str, Any]:
    """The columns of a row: address, parameters, results, certificate, origin."""
    given, results = _object(row.pop("parameters"), name), row.pop("results")
    with suppress(InvalidArgument):  # a call of someone's own, or of another version
        given = call_named(row["call"]).columns(given)
    found = _object(results, name) if results else {}
    return {
        **{column: row.pop(column) for column in ("key", "call")},
        **given,
        **{column: row.pop(column) for column in ("seed", "repeat")},
        **{column: value for column, value in found.items() if column not in HIDDEN},
        **row,
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _object(text: Any, name: str) -> dict[str, Any]:
    """A JSON object of a row; anything else means that the file is damaged or was made by someone else."""
    try:
        found = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        raise damaged(name) from None
    if not isinstance(found, dict) or _deep(found):
        raise damaged(name)
    return found


def _deep(value: Any) -> bool:
    """Whether something is nested more deeply than a row ever is; level by level, because nesting may exceed the stack."""
    level, depth = [value], 0
    while level and depth < DEEPEST:
        inner = (item.values() if isinstance(item, dict) else item for item in level if isinstance(item, (dict, list)))
        level, depth = [item for items in inner for item in items], depth + 1
    return bool(level)
