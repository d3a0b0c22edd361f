"""The store: one SQLite file, one writer, nothing acknowledged that is not on disk.

A point is a row: ``missing`` when a sweep asks for it, then ``done`` or ``failed``. Rows are written in transactions with
``synchronous=FULL`` in write-ahead mode, and a caller counts a point only after its transaction is committed; killing
the process at any moment therefore loses no counted point, and writing the same point twice changes nothing.
"""

import json
import os
import socket
import sqlite3
import time
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
from onehead.sweep.failures import BadStore, StoreFailed
from onehead.sweep.points import Point
from onehead.sweep.solve import Outcome
from onehead.sweep.version import NUMERICAL

__all__ = ["SCHEMA_VERSION", "Counts", "Store"]

SCHEMA_VERSION = 1
APPLICATION = 0x0EAD5EE9  # marks the file as ours, so that another program's database is not mistaken for a store
BATCH = 1000
DEEPEST = 20  # levels of a row

SCHEMA = """
CREATE TABLE sweeps (
    id INTEGER PRIMARY KEY, call TEXT NOT NULL, total INTEGER NOT NULL, started_at TEXT NOT NULL,
    host TEXT NOT NULL, process INTEGER NOT NULL
);
CREATE TABLE points (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, sweep INTEGER NOT NULL, position INTEGER NOT NULL,
    call TEXT NOT NULL, parameters TEXT NOT NULL, seed INTEGER, repeat INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('missing', 'done', 'failed')),
    results TEXT, arrays TEXT, status TEXT, kind TEXT, residual REAL, reason TEXT, duration REAL,
    version TEXT, numerical_version TEXT, finished_at TEXT
);
CREATE INDEX by_position ON points (sweep, position);
CREATE INDEX by_state ON points (sweep, state);
"""

REGISTER = """
INSERT INTO points (key, sweep, position, call, parameters, seed, repeat, state)
VALUES (?, ?, ?, ?, ?, ?, ?, 'missing')
ON CONFLICT (key) DO UPDATE SET sweep = excluded.sweep, position = excluded.position, parameters = excluded.parameters
WHERE points.sweep <> excluded.sweep
"""

SAVE = """
UPDATE points SET state = ?, results = ?, arrays = ?, status = ?, kind = ?, residual = ?, reason = ?, duration = ?,
    version = ?, numerical_version = ?, finished_at = ?
WHERE key = ? AND state <> 'done'
"""


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
            store = cls(_prepared(sqlite3.connect(":memory:"), "memory"), None)
            try:
                yield store
            finally:
                store._connection.close()
            return
        file = Path(path)
        with _locked(file):
            store = cls(_open_for_writing(file), file)
            try:
                with store._sentences():
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
        store = cls(_open_for_reading(file), file)
        try:
            with store._sentences():
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
        now = _now()
        rows = [
            (
                "done" if outcome.reason is None else "failed",
                outcome.results,
                self.arrays.put(outcome.arrays) if outcome.arrays else None,
                outcome.status,
                outcome.kind,
                outcome.residual,
                outcome.reason,
                outcome.duration,
                __version__,
                NUMERICAL,
                now,
                outcome.key,
            )
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
        return _held(_lock_path(self.path))

    def rows(self, sweep: int | None = None) -> Iterator[dict[str, Any]]:
        """One tidy row per point with an answer: of one sweep in its order, or of the whole store."""
        where, values = ("sweep = ? AND ", (sweep,)) if sweep is not None else ("", ())
        cursor = self._connection.execute(
            "SELECT key, call, parameters, seed, repeat, state, results, arrays, status, kind, residual, reason, "
            f"duration, version, numerical_version, finished_at FROM points WHERE {where}state <> 'missing' "
            "ORDER BY sweep, position",
            values,
        )
        for row in cursor:
            tidy = _tidy(row, str(self.path))
            if tidy["arrays"] is not None and self.path is not None:
                tidy["arrays"] = f"{self.path.name}.arrays/{tidy['arrays']}.npz"
            yield tidy

    @contextmanager
    def _sentences(self) -> Iterator[None]:
        """Turn what SQLite says while it works into a sentence; what was committed is kept."""
        name = str(self.path)
        try:
            yield
        except sqlite3.DatabaseError as failure:
            code = getattr(failure, "sqlite_errorcode", 0) & 0xFF
            if code == sqlite3.SQLITE_FULL or (
                code == sqlite3.SQLITE_IOERR and isinstance(failure, sqlite3.OperationalError)
            ):
                raise StoreFailed(
                    f"{name} cannot grow ({failure}): the disk is full or broken; every point counted so far is kept, "
                    "make room and run the same command again."
                ) from None
            if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise _damaged(name) from None
            raise StoreFailed(f"{name} cannot be used: {failure}.") from None


def _tidy(row: tuple[Any, ...], name: str) -> dict[str, Any]:
    """The columns of a row: address, parameters, results, certificate, origin."""
    key, call, parameters, seed, repeat, state, results, arrays, status, kind, residual, reason, *origin = row
    given = _object(parameters, name)
    with suppress(InvalidArgument):  # a call of someone's own, or of another version
        given = call_named(call).columns(given)
    duration, version, numerical, finished = origin
    found = _object(results, name) if results else {}
    # a result never hides a column of the store
    own = ("key", "call", "seed", "repeat", "state", "status", "kind", "residual", "reason", "arrays")
    return {
        "key": key,
        "call": call,
        **given,
        "seed": seed,
        "repeat": repeat,
        **{column: value for column, value in found.items() if column not in own},
        "state": state,
        "status": status,
        "kind": kind,
        "residual": residual,
        "reason": reason,
        "arrays": arrays,
        "duration": duration,
        "version": version,
        "numerical_version": numerical,
        "finished_at": finished,
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _object(text: Any, name: str) -> dict[str, Any]:
    """A JSON object of a row; anything else means that the file is damaged or was made by someone else."""
    try:
        found = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        raise _damaged(name) from None
    if not isinstance(found, dict) or _deep(found):
        raise _damaged(name)
    return found


def _deep(value: Any) -> bool:
    """Whether something is nested more deeply than a row ever is; level by level, because nesting may exceed the stack."""
    level, depth = [value], 0
    while level and depth < DEEPEST:
        inner = (item.values() if isinstance(item, dict) else item for item in level if isinstance(item, (dict, list)))
        level, depth = [item for items in inner for item in items], depth + 1
    return bool(level)


@contextmanager
def _closed_on_failure(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Hand over a connection; close it if what follows fails."""
    try:
        yield connection
    except BaseException:
        connection.close()
        raise


def _damaged(name: str) -> BadStore:
    return BadStore(name, f"{name} is damaged or is not a store of sweeps; keep it aside and start a new one.")


def _open_for_writing(file: Path) -> sqlite3.Connection:
    """Open or create the file; everything that may be wrong with it is said here."""
    name = str(file)
    try:
        with _closed_on_failure(sqlite3.connect(name, timeout=30.0, isolation_level="IMMEDIATE")) as connection:
            prepared = _prepared(connection, name)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            return prepared
    except sqlite3.DatabaseError as failure:
        code = getattr(failure, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise _damaged(name) from None
        if code == sqlite3.SQLITE_FULL:
            raise StoreFailed(f"{name} cannot be created: the disk is full.") from None
        raise _not_writable(name, str(failure)) from None


def _not_writable(name: str, reason: str) -> BadStore:
    return BadStore(name, f"store must be a file in a folder that can be written; got {name!r} ({reason}).")


def _prepared(connection: sqlite3.Connection, name: str) -> sqlite3.Connection:
    """Check that the file is ours and not too new; give a new one its tables."""
    version = _checked_version(connection, name)
    if version == 0:
        connection.executescript(
            f"BEGIN IMMEDIATE; {SCHEMA} PRAGMA application_id = {APPLICATION}; "
            f"PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
        )
    return connection


def _checked_version(connection: sqlite3.Connection, name: str) -> int:
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
    tables = int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    if tables and owner != APPLICATION:
        raise BadStore(name, f"{name} is a database of another program, not a store of sweeps.")
    if version > SCHEMA_VERSION:
        raise BadStore(
            name,
            f"{name} was written by a newer onehead (store version {version}, this one reads up to {SCHEMA_VERSION}); "
            "upgrade onehead or use another file.",
        )
    return version


def _open_for_reading(file: Path) -> sqlite3.Connection:
    """Open without writing; SQLite's helper files are tidied up where that is allowed."""
    name = str(file)
    modes = ["mode=rw", "mode=ro"]
    if not file.with_name(file.name + "-wal").exists():
        modes.append("mode=ro&immutable=1")  # at rest in a folder that cannot be written: no place for shared memory
    for mode in modes:
        try:
            opened = sqlite3.connect(f"{file.resolve().as_uri()}?{mode}", uri=True, timeout=30.0)
            with _closed_on_failure(opened) as connection:
                connection.execute("PRAGMA query_only = 1")
                connection.execute("BEGIN")  # everything read is of one moment, although a sweep may be writing
                if _checked_version(connection, name) == 0:
                    raise BadStore(name, f"{name} holds no sweep yet.")
                return connection
        except sqlite3.DatabaseError as failure:
            last = failure
    if getattr(last, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        raise _damaged(name)
    raise BadStore(name, f"{name} cannot be read: {last}.")


def _lock_path(file: Path) -> Path:
    return file.with_name(file.name + ".lock")


def _held(path: Path) -> bool:
    """Whether somebody holds the lock; asking leaves it as it is."""
    import fcntl  # noqa: PLC0415

    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def _take(handle: int) -> bool:
    """Take the lock; `_held` of another process may touch it for a moment, so one refusal is not the last word."""
    import fcntl  # noqa: PLC0415  (not on every system; only who writes needs it)

    for _ in range(5):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            time.sleep(0.05)
    return False


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Hold ``FILE.lock`` for as long as this process writes; the system lets go of it when the process dies."""
    path = _lock_path(file)
    while True:
        try:
            # in a folder of others the name may be a link to a file of ours, which writing would empty
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        except OSError as failure:
            raise _not_writable(str(file), str(failure.strerror)) from None
        if not _take(handle):
            holder = os.read(handle, 200).decode(errors="replace").strip() or "another process"
            os.close(handle)
            raise BadStore(
                str(file), f"{file} is in use by another sweep ({holder}); wait for it or use another store."
            )
        try:
            if os.path.samestat(os.fstat(handle), path.stat()):
                break
        except FileNotFoundError:
            pass
        os.close(handle)  # the one before us removed this file between our opening and locking it
    try:
        os.ftruncate(handle, 0)
        os.write(handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
    except OSError as failure:
        os.close(handle)
        raise StoreFailed(f"{file} cannot be used: {failure.strerror}.") from None
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        os.close(handle)
