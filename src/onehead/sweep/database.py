"""The file of a store: opened, checked and locked; everything that may be wrong with it has its sentence here."""

import os
import socket
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from onehead.sweep.failures import BadStore, StoreFailed

__all__ = ["damaged", "locked", "locked_now", "open_for_reading", "open_for_writing", "prepared", "sentences"]

SCHEMA_VERSION = 1
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
APPLICATION = 0x0EAD5EE9  # marks the file as ours, so that another program's database is not mistaken for a store

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


@contextmanager
def _closed_on_failure(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Hand over a connection; close it if what follows fails."""
    try:
        yield connection
    except BaseException:
        connection.close()
        raise


def _code(failure: sqlite3.Error) -> int:
    """What SQLite found, without its details."""
    return int(getattr(failure, "sqlite_errorcode", 0)) & 0xFF


def damaged(name: str) -> BadStore:
    """What is said of a file that no store of ours would leave."""
    return BadStore(name, f"{name} is damaged or is not a store of sweeps; keep it aside and start a new one.")


def open_for_writing(file: Path) -> sqlite3.Connection:
    """Open or create the file; everything that may be wrong with it is said here."""
    name = str(file)
    try:
        with _closed_on_failure(sqlite3.connect(name, timeout=30.0, isolation_level="IMMEDIATE")) as connection:
            prepared(connection, name)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            return connection
    except sqlite3.DatabaseError as failure:
        if _code(failure) in DAMAGED:
            raise damaged(name) from None
        if _code(failure) == sqlite3.SQLITE_FULL:
            raise StoreFailed(f"{name} cannot be created: the disk is full.") from None
        raise _not_writable(name, str(failure)) from None


def _not_writable(name: str, reason: str) -> BadStore:
    return BadStore(name, f"store must be a file in a folder that can be written; got {name!r} ({reason}).")


def prepared(connection: sqlite3.Connection, name: str) -> sqlite3.Connection:
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


def open_for_reading(file: Path) -> sqlite3.Connection:
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
    if _code(last) in DAMAGED:
        raise damaged(name)
    raise BadStore(name, f"{name} cannot be read: {last}.")


def _lock_path(file: Path) -> Path:
    return file.with_name(file.name + ".lock")


def locked_now(file: Path) -> bool:
    """Whether somebody holds the lock of a store; asking leaves it as it is."""
    import fcntl  # noqa: PLC0415

    try:
        handle = os.open(_lock_path(file), os.O_RDONLY | os.O_NOFOLLOW)
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
    """Take the lock; `locked_now` of another process may touch it for a moment, so one refusal is not the last word."""
    import fcntl  # noqa: PLC0415  (not on every system; only who writes needs it)

    for _ in range(5):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            time.sleep(0.05)
    return False


@contextmanager
def locked(file: Path) -> Iterator[None]:
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


@contextmanager
def sentences(name: str) -> Iterator[None]:
    """Turn what SQLite says while it works into a sentence; what was committed is kept."""
    try:
        yield
    except sqlite3.DatabaseError as failure:
        broken = _code(failure) == sqlite3.SQLITE_IOERR and isinstance(failure, sqlite3.OperationalError)
        if broken or _code(failure) == sqlite3.SQLITE_FULL:
            raise StoreFailed(
                f"{name} cannot grow ({failure}): the disk is full or broken; every point counted so far is kept, "
                "make room and run the same command again."
            ) from None
        if _code(failure) in DAMAGED:
            raise damaged(name) from None
        raise StoreFailed(f"{name} cannot be used: {failure}.") from None
