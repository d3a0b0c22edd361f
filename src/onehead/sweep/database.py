"""The file of a store, looked at before it is used, and opened; what SQLite says becomes a sentence here."""

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from onehead.sweep.failures import BadStore, StoreFailed, damaged, not_writable
from onehead.sweep.lock import locked_now
from onehead.sweep.schema import checked, fingerprint, new_store, with_hashes

__all__ = ["in_memory", "open_for_reading", "open_for_writing", "sentences"]

# what SQLite, or Python on its behalf, raises when it meets bytes that it would never have written
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
BROKEN = (sqlite3.Error, UnicodeDecodeError, OverflowError)
PATIENCE = 30.0  # seconds that one process waits for another


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
            yield connection, checked(connection, name)
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
                with_hashes(connection)
            return connection
    except sqlite3.Error as failure:
        if _code(failure) in DAMAGED:
            raise damaged(name) from None
        if _code(failure) == sqlite3.SQLITE_FULL:
            raise StoreFailed(f"{name} cannot be created: the disk is full.") from None
        raise not_writable(name, str(failure)) from None


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
