"""The name of a store and its lock: one file, one name, one writer."""

import errno
import os
import socket
import stat
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from onehead.sweep.failures import BadStore, StoreFailed, not_writable

__all__ = ["companions", "locked", "locked_now", "resolved"]

BYTE = 2**62  # of the file, far beyond those that SQLite locks


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
        raise not_writable(str(path), getattr(failure, "strerror", None) or "no such name") from None
    if stat.S_ISDIR(found.st_mode):
        raise not_writable(str(path), "it is a folder")
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
            raise not_writable(str(file), str(failure.strerror)) from None
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
        raise not_writable(str(file), str(failure.strerror)) from None
    try:
        resolved(file)  # again, now that nobody else can be at it: a second name may have come meanwhile
        if not _take_file(itself):
            raise _in_use(file, "a process that knows it by another name")
        yield
    finally:
        os.close(itself)


def _in_use(file: Path, holder: str) -> BadStore:
    return BadStore(str(file), f"{file} is in use by another sweep ({holder}); wait for it or use another store.")
