"""Opening the SQLite file of a store after checking it; errors of SQLite become messages for the user here."""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from onehead.sweep.errors import BadStore, StoreFailed, damaged_store, unwritable_store
from onehead.sweep.storage.lock import is_locked
from onehead.sweep.storage.schema import add_hashes, create_tables, fingerprint, validate_store

# raised by SQLite, or by Python on its behalf, for bytes that SQLite would never have written
DAMAGE_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
READ_ERRORS = (sqlite3.Error, UnicodeDecodeError, OverflowError)
LOCK_SECONDS = 30.0  # time that one process waits for a lock of another


def in_memory() -> sqlite3.Connection:
    """Open a new store without a file."""
    connection = _configured(sqlite3.connect(":memory:"))
    create_tables(connection)
    return connection


def _connect(file: Path, mode: str) -> sqlite3.Connection:
    return _configured(
        sqlite3.connect(
            f"{file.absolute().as_uri()}?{mode}", uri=True, timeout=LOCK_SECONDS, isolation_level="IMMEDIATE"
        )
    )


def _configured(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Add the hash function to a connection, and forbid it to run code that a file contains."""
    connection.create_function("fingerprint", -1, fingerprint, deterministic=True)
    connection.execute("PRAGMA trusted_schema = 0")
    return connection


@contextmanager
def _closed_on_failure(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Context manager that closes a connection if the block raises."""
    try:
        yield connection
    except BaseException:
        connection.close()
        raise


def _error_code(failure: BaseException) -> int:
    """Primary result code of SQLite, without its extension."""
    return int(getattr(failure, "sqlite_errorcode", 0)) & 0xFF


# --- reading


@contextmanager
def open_for_reading(file: Path) -> Iterator[sqlite3.Connection]:
    """Check a store and open it for reading, also while a sweep writes to it."""
    with _open_checked(file, is_locked(file)) as (connection, version):
        if version == 0 or not connection.execute("SELECT count(*) FROM sweeps").fetchone()[0]:
            raise BadStore(str(file), f"{file} holds no sweep yet.")
        yield connection


@contextmanager
def _open_checked(file: Path, busy: bool) -> Iterator[tuple[sqlite3.Connection, int]]:
    """Check every page and row of a store; give a read-only connection to it, and its version.

    A store in use is read through SQLite's locks. A store at rest is read without locks or helper files. A store
    whose writer was killed is copied, and its journal is replayed in the copy.
    """
    name, journals, before = str(file), _journals(file), _file_stamp(file)
    try:
        with ExitStack() as stack:
            if busy:
                opened = _open_during_write(file)
            elif journals:
                copy = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="onehead-"))) / "copy"
                for source in (file, *journals):
                    shutil.copyfile(source, f"{copy}{source.name.removeprefix(file.name)}")
                opened = _connect(copy, "mode=rw")
            else:
                opened = _connect(file, "mode=ro&immutable=1")
            connection = stack.enter_context(closing(opened))
            connection.execute("PRAGMA query_only = 1")
            connection.execute("BEGIN")  # a consistent snapshot, although a sweep may be writing
            yield connection, validate_store(connection, name)
            if not busy and _file_stamp(file) != before:
                raise damaged_store(name)  # reported below as a change while reading
    except (BadStore, *READ_ERRORS) as failure:
        if not busy and _file_stamp(file) != before:
            raise StoreFailed(f"{name} was changed by a sweep while it was read; ask again.") from None
        if isinstance(failure, BadStore):
            raise
        if _error_code(failure) in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_BUSY):
            raise BadStore(name, f"{name} cannot be read: {failure}.") from None
        raise damaged_store(name) from None


def _journals(file: Path) -> list[Path]:
    """Journals of a store that are not empty."""
    journals = [file.with_name(file.name + ending) for ending in ("-wal", "-journal")]
    return [path for path in journals if path.exists() and path.stat().st_size]


def _file_stamp(file: Path) -> tuple[int, ...]:
    """Inode, size and time of modification, which tell whether a file has changed."""
    status = file.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _open_during_write(file: Path) -> sqlite3.Connection:
    """Open a store that another process writes, if possible with the right to remove its journal at the end."""
    try:
        with _closed_on_failure(_connect(file, "mode=rw")) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master")
            return connection
    except sqlite3.OperationalError:
        return _connect(file, "mode=ro")


# --- writing


def open_for_writing(file: Path) -> sqlite3.Connection:
    """Open or create a store whose lock is held; a damaged file is refused and left unchanged."""
    name = str(file)
    with _open_checked(file, busy=False) as (_, version):
        pass
    try:
        with _closed_on_failure(_connect(file, "mode=rw")) as connection:
            if version == 0:
                create_tables(connection)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            if version == 1:
                add_hashes(connection)
            return connection
    except sqlite3.Error as failure:
        if _error_code(failure) in DAMAGE_CODES:
            raise damaged_store(name) from None
        if _error_code(failure) == sqlite3.SQLITE_FULL:
            raise StoreFailed(f"{name} cannot be created: the disk is full.") from None
        raise unwritable_store(name, str(failure)) from None


def empty_journal(connection: sqlite3.Connection) -> None:
    """Move committed rows from the journal into the store itself, so that they follow its file wherever it goes.

    A process that reads at this moment may prevent it; the rows are moved with those of the next transaction then.
    """
    connection.execute("PRAGMA busy_timeout = 0")  # do not wait for readers
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.execute("PRAGMA busy_timeout = 30000")  # milliseconds, as LOCK_SECONDS


@contextmanager
def reopened(file: Path) -> Iterator[sqlite3.Connection]:
    """Context manager that checks a store by its name, as a process that opens it now would find it."""
    with closing(_connect(file, "mode=ro")) as connection:
        validate_store(connection, str(file))
        yield connection


def rescue(connection: sqlite3.Connection, file: Path) -> Path:
    """Copy a store whose file was removed to a new file, beside it or in the folder for temporary files."""
    folder = file.parent if file.parent.is_dir() else None
    handle, name = tempfile.mkstemp(prefix=f"{file.name}.rescued-", dir=folder)
    os.close(handle)
    with closing(sqlite3.connect(name)) as copy:
        connection.backup(copy)
    return Path(name)


@contextmanager
def translate_errors(name: str) -> Iterator[None]:
    """Context manager that turns errors of SQLite during a sweep into messages; committed points are kept."""
    try:
        yield
    except READ_ERRORS as failure:
        broken = _error_code(failure) == sqlite3.SQLITE_IOERR and isinstance(failure, sqlite3.OperationalError)
        if broken or _error_code(failure) == sqlite3.SQLITE_FULL:
            raise StoreFailed(
                f"{name} cannot grow ({failure}): the disk is full or broken; every point counted so far is kept, "
                "make room and run the same command again."
            ) from None
        if _error_code(failure) in DAMAGE_CODES or isinstance(failure, UnicodeDecodeError):
            raise damaged_store(name) from None
        raise StoreFailed(f"{name} cannot be used: {failure}.") from None
