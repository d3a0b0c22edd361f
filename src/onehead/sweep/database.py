"""The file of a store: locked, looked at before it is used, and opened; everything that may be wrong with it has its sentence here."""

import errno
import hashlib
import os
import shutil
import socket
import sqlite3
import stat
import struct
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from onehead.sweep.failures import BadStore, StoreFailed

__all__ = [
    "SEAL_POINTS",
    "SEAL_SWEEPS",
    "companions",
    "damaged",
    "fingerprint",
    "in_memory",
    "locked",
    "locked_now",
    "open_for_reading",
    "open_for_writing",
    "resolved",
    "sentences",
]

SCHEMA_VERSION = 2  # since 2: a hash in every row
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
HASHES = """
ALTER TABLE sweeps ADD COLUMN hash TEXT;
ALTER TABLE points ADD COLUMN hash TEXT;
"""

# what the hash of a row is made of; a store of version 1 gets its hashes when it is first written again
COLUMNS = {
    "sweeps": "id, call, total, started_at, host, process",
    "points": "key, sweep, position, call, parameters, seed, repeat, state, results, arrays, status, kind, residual, reason, "
    "duration, version, numerical_version, finished_at",
}
SEAL_SWEEPS = f"UPDATE sweeps SET hash = fingerprint({COLUMNS['sweeps']})"
SEAL_POINTS = f"UPDATE points SET hash = fingerprint({COLUMNS['points']})"
UNSEALED_SWEEPS = f"SELECT count(*) FROM sweeps WHERE hash IS NOT fingerprint({COLUMNS['sweeps']})"
UNSEALED_POINTS = f"SELECT count(*) FROM points NOT INDEXED WHERE hash IS NOT fingerprint({COLUMNS['points']})"
LATEST = """
SELECT total - (SELECT count(*) FROM points WHERE points.sweep = sweeps.id) FROM sweeps ORDER BY id DESC LIMIT 1
"""

# what SQLite, or Python on its behalf, raises when it meets bytes that it would never have written
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
BROKEN = (sqlite3.Error, UnicodeDecodeError, OverflowError)
PATIENCE = 30.0  # seconds that one process waits for another
BYTE = 2**62  # of the file, far beyond those that SQLite locks


def fingerprint(*values: Any) -> str:
    """The hash of a row.

    Examples
    --------
    >>> fingerprint("key", 1, 0.5, None), fingerprint("key", 1, 0.5, "None") == fingerprint("key", 1, 0.5, None)
    ('4441e68c73bf00da5284e1953f9c1a35', False)
    """
    return hashlib.blake2b(ascii(values).encode(), digest_size=16).hexdigest()


def in_memory() -> sqlite3.Connection:
    """A new store without a file."""
    connection = _ready(sqlite3.connect(":memory:"))
    new_store(connection)
    return connection


def _connected(file: Path, mode: str) -> sqlite3.Connection:
    return _ready(
        sqlite3.connect(f"{file.absolute().as_uri()}?{mode}", uri=True, timeout=PATIENCE, isolation_level="IMMEDIATE")
    )


def _ready(connection: sqlite3.Connection) -> sqlite3.Connection:
    """A connection that knows our hash, and runs nothing that a file brings along."""
    connection.create_function("fingerprint", -1, fingerprint, deterministic=True)
    connection.execute("PRAGMA trusted_schema = 0")
    return connection


@contextmanager
def _closed_on_failure(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Hand over a connection; close it if what follows fails."""
    try:
        yield connection
    except BaseException:
        connection.close()
        raise


def _code(failure: BaseException) -> int:
    """What SQLite found, without its details."""
    return int(getattr(failure, "sqlite_errorcode", 0)) & 0xFF


def damaged(name: str) -> BadStore:
    """What is said of a file that no store of ours would leave."""
    return BadStore(name, f"{name} is damaged or is not a store of sweeps; keep it aside and start a new one.")


def _not_writable(name: str, reason: str) -> BadStore:
    return BadStore(name, f"store must be a file in a folder that can be written; got {name!r} ({reason}).")


# --- which file


def resolved(path: str | os.PathLike[str]) -> Path:
    """The file that a name stands for, links followed; it has one name, for its lock and its journal go by the name."""
    file = Path(path)
    try:
        real = file.resolve()
        file = file if real == file.absolute() else real  # in sentences the name as it was given
        found = file.stat()
    except FileNotFoundError:
        return file
    except (OSError, RuntimeError, ValueError) as failure:
        raise _not_writable(str(path), getattr(failure, "strerror", None) or "no such name") from None
    if stat.S_ISDIR(found.st_mode):
        raise _not_writable(str(path), "it is a folder")
    if not stat.S_ISREG(found.st_mode):
        raise BadStore(str(path), f"store must be a regular file; got {str(path)!r}, a device or a pipe.")
    if found.st_nlink > 1:
        raise BadStore(
            str(path),
            f"store must be a file with one name; got {str(path)!r}, which has {found.st_nlink} (hard links): its journal "
            "would belong to one of them, so make a copy with cp and use that.",
        )
    return file


def companions(path: str | os.PathLike[str]) -> list[Path]:
    """The files of a store: itself, journals, lock, arrays."""
    file = Path(path).resolve()
    beside = [file.with_name(file.name + ending) for ending in ("", "-wal", "-shm", "-journal", ".lock")]
    return [*beside, *file.with_name(file.name + ".arrays").glob("*")]


# --- what is in it


def new_store(connection: sqlite3.Connection) -> None:
    """Give a new file its tables."""
    connection.executescript(
        f"BEGIN IMMEDIATE; {SCHEMA} {HASHES} PRAGMA application_id = {APPLICATION}; "
        f"PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
    )


def _with_hashes(connection: sqlite3.Connection) -> None:
    """Make a store of version 1 one of this version, all or nothing."""
    connection.executescript(
        f"BEGIN IMMEDIATE; {HASHES} {SEAL_SWEEPS}; {SEAL_POINTS}; PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
    )


@cache
def _tables(version: int) -> dict[str, str]:
    """Tables and indexes that a store of some version has, as SQLite writes them down."""
    with closing(sqlite3.connect(":memory:")) as memory:
        memory.executescript(SCHEMA)
        if version > 1:
            memory.executescript(HASHES)
        return dict(memory.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall())


def _checked(connection: sqlite3.Connection, name: str) -> int:
    """The version of a store, every page and every row of which is as it was written; 0 of a file that holds nothing yet."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
    found = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    if found and owner != APPLICATION:
        raise BadStore(name, f"{name} is a database of another program, not a store of sweeps.")
    if version > SCHEMA_VERSION:
        raise BadStore(
            name,
            f"{name} was written by a newer onehead (store version {version}, this one reads up to {SCHEMA_VERSION}); "
            "upgrade onehead or use another file.",
        )
    if version <= 0 and not found:
        return 0
    known = {(table, sql) for _, table, sql in found}
    if (
        version <= 0
        or any(kind == "trigger" for kind, *_ in found)
        or not known >= set(_tables(version).items())
        or connection.execute("PRAGMA integrity_check(1)").fetchall() != [("ok",)]
        or (version > 1 and connection.execute(UNSEALED_SWEEPS).fetchone()[0])
        or (version > 1 and connection.execute(UNSEALED_POINTS).fetchone()[0])
        or any(lost for (lost,) in connection.execute(LATEST))
    ):
        raise damaged(name)
    return version


# --- reading


@contextmanager
def open_for_reading(file: Path) -> Iterator[sqlite3.Connection]:
    """Open a store that has been looked at; also while a sweep writes."""
    with _looked_at(file, locked_now(file)) as (connection, version):
        if version == 0:
            raise BadStore(str(file), f"{file} holds no sweep yet.")
        yield connection


@contextmanager
def _looked_at(file: Path, busy: bool) -> Iterator[tuple[sqlite3.Connection, int]]:
    """A store to read from, every page and row of which was checked, and its version; looking leaves no trace on it.

    A store in use is read as SQLite does. One at rest is read as it lies there, without locks and helper files; one whose
    writer was killed is copied, and its journal played back in the copy.
    """
    name, journals, before = str(file), _journals(file), _stamp(file)
    in_use = bool(busy and journals)
    try:
        with ExitStack() as stack:
            if in_use:
                opened = _beside_a_writer(file)
            elif journals:
                copy = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="onehead-"))) / "copy"
                for source in (file, *journals):
                    shutil.copyfile(source, f"{copy}{source.name.removeprefix(file.name)}")
                opened = _connected(copy, "mode=rw")
            else:
                opened = _connected(file, "mode=ro&immutable=1")
            connection = stack.enter_context(closing(opened))
            connection.execute("PRAGMA query_only = 1")
            connection.execute("BEGIN")  # everything read is of one moment, although a sweep may be writing
            yield connection, _checked(connection, name)
            if not in_use and _stamp(file) != before:
                raise damaged(name)  # perhaps not, see below: what was read may be of two moments
    except (BadStore, *BROKEN) as failure:
        if not in_use and _stamp(file) != before:
            raise StoreFailed(f"{name} was changed by a sweep while it was read; ask again.") from None
        if isinstance(failure, BadStore):
            raise
        if _code(failure) in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_BUSY):
            raise BadStore(name, f"{name} cannot be read: {failure}.") from None
        raise damaged(name) from None


def _journals(file: Path) -> list[Path]:
    """Journals of a store that hold something."""
    beside = [file.with_name(file.name + ending) for ending in ("-wal", "-journal")]
    return [path for path in beside if path.exists() and path.stat().st_size]


def _stamp(file: Path) -> tuple[int, ...]:
    """Changes when a file does."""
    found = file.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _beside_a_writer(file: Path) -> sqlite3.Connection:
    """As SQLite does; who may write as well clears away the journal if the writer ends first."""
    try:
        with _closed_on_failure(_connected(file, "mode=rw")) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master")
            return connection
    except sqlite3.OperationalError:
        return _connected(file, "mode=ro")


# --- writing


def open_for_writing(file: Path) -> sqlite3.Connection:
    """Open or create the file, whose lock is held; what it holds is looked at first, and left alone if it is damaged."""
    name = str(file)
    with _looked_at(file, busy=False) as (_, version):
        pass
    try:
        with _closed_on_failure(_connected(file, "mode=rw")) as connection:
            if version == 0:
                new_store(connection)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            if version == 1:
                _with_hashes(connection)
            return connection
    except sqlite3.Error as failure:
        if _code(failure) in DAMAGED:
            raise damaged(name) from None
        if _code(failure) == sqlite3.SQLITE_FULL:
            raise StoreFailed(f"{name} cannot be created: the disk is full.") from None
        raise _not_writable(name, str(failure)) from None


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


def _take_file(handle: int) -> bool:
    """Take a lock on the file itself, where the system has locks that belong to an open file (Linux).

    It holds when the file is given another name meanwhile. One byte is locked that SQLite does not use, and SQLite's own
    locks belong to the process: they are lost when a handle is closed, so this one must be the last.
    """
    import fcntl  # noqa: PLC0415

    if not hasattr(fcntl, "F_OFD_SETLK"):
        return True
    wish = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, BYTE, 1, 0)
    try:
        fcntl.fcntl(handle, fcntl.F_OFD_SETLK, wish)
    except OSError as failure:
        return failure.errno not in (errno.EACCES, errno.EAGAIN)  # a file system without them
    return True


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold ``FILE.lock``, and the file itself, for as long as this process writes; the system lets go when the process dies."""
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
            raise _in_use(file, holder)
        try:
            if os.path.samestat(os.fstat(handle), path.stat()):
                break
        except FileNotFoundError:
            pass
        os.close(handle)  # the one before us removed this file between our opening and locking it
    try:
        try:
            os.ftruncate(handle, 0)
            os.write(handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        except OSError as failure:
            raise StoreFailed(f"{file} cannot be used: {failure.strerror}.") from None
        with _held(file):
            yield
    finally:
        with suppress(OSError):
            path.unlink()
        os.close(handle)


@contextmanager
def _held(file: Path) -> Iterator[None]:
    """Hold the file itself, which is made if it is not there."""
    try:
        itself = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except OSError as failure:
        raise _not_writable(str(file), str(failure.strerror)) from None
    try:
        resolved(file)  # again, now that nobody else can be at it: a second name may have come meanwhile
        if not _take_file(itself):
            raise _in_use(file, "a process that knows it by another name")
        yield
    finally:
        os.close(itself)


def _in_use(file: Path, holder: str) -> BadStore:
    return BadStore(str(file), f"{file} is in use by another sweep ({holder}); wait for it or use another store.")


@contextmanager
def sentences(name: str) -> Iterator[None]:
    """Turn what SQLite says while it works into a sentence; what was committed is kept."""
    try:
        yield
    except BROKEN as failure:
        broken = _code(failure) == sqlite3.SQLITE_IOERR and isinstance(failure, sqlite3.OperationalError)
        if broken or _code(failure) == sqlite3.SQLITE_FULL:
            raise StoreFailed(
                f"{name} cannot grow ({failure}): the disk is full or broken; every point counted so far is kept, "
                "make room and run the same command again."
            ) from None
        if _code(failure) in DAMAGED or isinstance(failure, UnicodeDecodeError):
            raise damaged(name) from None
        raise StoreFailed(f"{name} cannot be used: {failure}.") from None
