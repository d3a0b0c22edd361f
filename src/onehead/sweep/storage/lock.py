"""Path and lock of a store: it has one name and, at any time, one writer.

Written here and not taken from ``filelock``, which could replace 20 of these lines for 0.08 s of processor time at
every start: it has no lock that follows a renamed store, does not name the holder, and leaves its file behind.
"""

import errno
import os
import socket
import stat
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from onehead.atomic_io import is_reserved
from onehead.sweep.errors import BadStore, StoreFailed, unwritable_store

LOCK_OFFSET = 2**62  # byte of the store file that is locked, far beyond those that SQLite locks


def resolve_store(path: str | os.PathLike[str]) -> Path:
    """Path of a store, symbolic links followed; a file with several names is refused, as its lock goes by the name."""
    file = Path(path)
    try:
        real = file.resolve()
        file = file if real == file.absolute() else real  # keep the name as given for messages
        found = file.stat() if file.exists() else None
    except (OSError, RuntimeError, ValueError) as failure:
        raise unwritable_store(str(path), getattr(failure, "strerror", None) or "no such name") from None
    if is_reserved(real):
        raise BadStore(str(path), f"{str(path)!r} is the name of a journal or lock of the store beside it.")
    if found is None:
        return file
    if stat.S_ISDIR(found.st_mode):
        raise unwritable_store(str(path), "it is a folder")
    if not stat.S_ISREG(found.st_mode):
        raise BadStore(str(path), f"store must be a regular file; got {str(path)!r}, a device or a pipe.")
    if found.st_nlink > 1:
        raise BadStore(
            str(path),
            f"store must be a file with one name; got {str(path)!r}, which has {found.st_nlink} (hard links): its "
            f"journal "
            "would belong to one of them, so make a copy with cp and use that.",
        )
    return file


def store_files(path: str | os.PathLike[str]) -> list[Path]:
    """All files of a store: the database, its journals, its lock and its arrays."""
    file = Path(path).resolve()
    names = [file.with_name(file.name + ending) for ending in ("", "-wal", "-shm", "-journal", ".lock", ".arrays")]
    return [*names, *names[-1].glob("*")]


def is_in_place(file: Path, handle: int) -> bool:
    """Whether an open file still has this name: it was not renamed, removed or replaced."""
    try:
        return os.path.samestat(os.fstat(handle), file.lstat())
    except OSError:
        return False


def _lock_path(file: Path) -> Path:
    return file.with_name(file.name + ".lock")


def is_locked(file: Path) -> bool:
    """Whether a process holds the lock of a store; the lock is left as it is."""
    import fcntl

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


def _acquire_lock_file(handle: int) -> bool:
    """Try to lock the lock file; several times, because `is_locked` of another process may hold it for a moment."""
    import fcntl  # missing on some systems; only writing needs it

    for _ in range(5):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            time.sleep(0.05)
    return False


def _acquire_file_lock(handle: int) -> bool:
    """Try to lock the store file itself, where the system has locks that belong to an open file (Linux).

    The lock holds when the file is renamed meanwhile. It covers one byte that SQLite does not use. SQLite's own
    locks belong to the process and are lost when any handle of the file is closed, so this handle must be closed
    last.
    """
    import fcntl

    if not hasattr(fcntl, "F_OFD_SETLK"):
        return True
    request = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, LOCK_OFFSET, 1, 0)
    try:
        fcntl.fcntl(handle, fcntl.F_OFD_SETLK, request)
    except OSError as failure:
        return failure.errno not in (errno.EACCES, errno.EAGAIN)  # other errors: the file system has no such locks
    return True


@contextmanager
def write_lock(file: Path) -> Iterator[int]:
    """Context manager that locks ``FILE.lock`` and the store itself, and gives a handle of the store.

    Both locks are released if the process dies.
    """
    path = _lock_path(file)
    while True:
        try:
            # in a shared folder the name may be a symbolic link to a file of ours, which writing would empty
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        except OSError as failure:
            raise unwritable_store(str(file), str(failure.strerror)) from None
        if not _acquire_lock_file(handle):
            holder = os.read(handle, 200).decode(errors="replace").strip() or "another process"
            os.close(handle)
            raise _in_use_error(file, holder)
        if is_in_place(path, handle):
            break
        os.close(handle)  # the previous writer removed this file between our opening and locking it
    try:
        try:
            os.ftruncate(handle, 0)
            os.write(handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        except OSError as failure:
            raise StoreFailed(f"{file} cannot be used: {failure.strerror}.") from None
        with _file_lock(file) as store:
            yield store
    finally:
        if is_in_place(path, handle):  # else it may be the lock of another process
            with suppress(OSError):
                path.unlink()
        os.close(handle)


@contextmanager
def _file_lock(file: Path) -> Iterator[int]:
    """Context manager that locks the store file itself, creating it if needed, and gives a handle of it."""
    _refuse_orphaned_journal(file)
    try:
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except OSError as failure:
        raise unwritable_store(str(file), str(failure.strerror)) from None
    try:
        resolve_store(file)  # again, now that the lock is held: a second name may have been added meanwhile
        if not _acquire_file_lock(handle):
            raise _in_use_error(file, "a process that knows it by another name")
        yield handle
    finally:
        os.close(handle)


def _refuse_orphaned_journal(file: Path) -> None:
    """Refuse a journal without its store, which was renamed or removed: SQLite would delete it with a new store."""
    journal = file.with_name(file.name + "-wal")
    with suppress(FileNotFoundError):
        if journal.stat().st_size and not (file.exists() and file.stat().st_size):
            raise BadStore(
                str(file),
                f"{journal} is the journal of a store that is no longer called {file.name}; give both the same name "
                "again, or use another store.",
            )


def _in_use_error(file: Path, holder: str) -> BadStore:
    return BadStore(str(file), f"{file} is in use by another sweep ({holder}); wait for it or use another store.")
