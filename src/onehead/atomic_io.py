"""Safe reading (type and size are checked first) and atomic writing of files.

Atomic writing takes 40 lines, because a replaced file keeps its owner, its mode and its symbolic link,
which ``os.replace`` alone would lose.
"""

import os
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from onehead.errors import InvalidArgument, NotWritten

Name = str | os.PathLike[str]
Refuse = Callable[[str], Exception]  # makes an exception from what is wrong with a file

# first bytes of an SQLite database and of its journals, which are never replaced by an output file
DATABASE_SIGNATURES = (b"SQLite format 3\x00", b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83", b"\xd9\xd5\x05\xf9")
RESERVED_ENDINGS = ("-wal", "-shm", "-journal", ".lock")  # of the journals and the lock of a store
TEMPORARY_SUFFIX = ".part"  # of a file that is not complete yet


def check_file(argument: str, path: Name, *, endings: Sequence[str] = (), never: Sequence[Name] = ()) -> Path:
    """Check that an output file can be written, before the work begins.

    Parameters
    ----------
    argument : str
        Name of the argument in error messages, for example "--csv".
    path : path
        A new name in a writable folder, or an existing regular file, which will be replaced.
    endings : sequence of str
        Allowed endings of the name; any if none is given.
    never : sequence of path
        Files that must not be replaced, under this or any other name.

    Returns
    -------
    Path
        The file itself, symbolic links followed.

    Raises
    ------
    InvalidArgument
        If the file cannot be written.

    Examples
    --------
    >>> check_file("--csv", "/nowhere/curve.csv")
    Traceback (most recent call last):
    ...
    onehead.errors.InvalidArgument: --csv must be in a folder that exists; got '/nowhere/curve.csv'.
    """

    def refused(allowed: str) -> InvalidArgument:
        return InvalidArgument(argument, os.fspath(path), allowed)

    if endings and Path(path).suffix.lower() not in endings:
        raise refused(f"a file name that ends in {', '.join(endings)}")
    try:
        target = Path(path).resolve()
        found, folder = _status(target), target.parent.is_dir()
        unreachable = target.is_symlink()  # a loop of links, for which Python 3.13 and later raise nothing
    except (OSError, RuntimeError, ValueError):  # a loop of links, a name with a zero byte, a folder without access
        unreachable = True
    if unreachable:
        raise refused("a path that can be resolved")
    if not folder:
        raise refused("in a folder that exists")
    if is_reserved(target):
        raise refused("a name other than those of the journals and the lock of a store")
    if found is None:
        if not _has_access(target.parent, os.W_OK | os.X_OK):
            raise refused("in a folder that can be written")
        return target
    if not stat.S_ISREG(found.st_mode):
        raise refused("a regular file or a new name (not a folder, device or pipe)")
    if not _has_access(target.parent, os.W_OK | os.X_OK) or not _has_access(target, os.W_OK):
        raise refused("a file that can be written, in a folder that can be written")
    if _is_database(target) or any(_same_file(target, other) for other in never):
        raise refused("a file other than a store or an input file")
    return target


def _has_access(path: Path, rights: int) -> bool:
    """Whether this process has these access rights, by its effective user."""
    return os.access(path, rights, effective_ids=os.access in os.supports_effective_ids)


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _is_database(path: Path) -> bool:
    """Whether a file is a database, or the journal of one."""
    try:
        with path.open("rb") as file:
            return file.read(16).startswith(DATABASE_SIGNATURES)
    except OSError:
        return False  # it may be writable without being readable


def is_reserved(path: Path) -> bool:
    """Whether a name is that of a journal or lock of a database in the same folder; SQLite deletes such files."""
    owners = [path.name.removesuffix(end) for end in RESERVED_ENDINGS if path.name.endswith(end)]
    return any(name and _is_database(path.with_name(name)) for name in owners)


def _same_file(path: Path, other: Name) -> bool:
    """Whether two names refer to one file, by symbolic or hard links."""
    with suppress(OSError, ValueError):
        return path.samefile(other)
    return False


def check_folder(argument: str, path: Name) -> Path:
    """Check that an output folder is writable or can be created, and return it; raise `InvalidArgument` otherwise."""
    folder = Path(path)
    try:
        nearest = folder.resolve()
        while _status(nearest) is None:
            nearest = nearest.parent
        is_folder = nearest.is_dir()
    except (OSError, RuntimeError, ValueError):
        is_folder = False
    if not is_folder:
        raise InvalidArgument(argument, os.fspath(path), "a folder, or the name of a new one")
    if not _has_access(nearest, os.W_OK | os.X_OK):
        raise InvalidArgument(argument, os.fspath(path), "a folder that can be written")
    return folder


@contextmanager
def atomic_file(path: Name, argument: str = "file") -> Iterator[Path]:
    """Yield a temporary file in the same folder, which replaces the target in one step at the end of the block.

    Links are followed, and a file that is replaced keeps its mode. If the block fails (an error, a full disk, Ctrl-C),
    the temporary file is deleted and the old content stays.
    """
    target = check_file(argument, path)
    part = target.with_name(f".{secrets.token_hex(8)}{TEMPORARY_SUFFIX}")
    try:
        try:
            before = _status(target)
            os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if before is None else 0o600))
            yield part
            if before is not None:
                with suppress(OSError):  # only root can change the owner
                    os.chown(part, before.st_uid, before.st_gid)
                part.chmod(stat.S_IMODE(before.st_mode))
            _flush(part)
            part.replace(target)
            with suppress(OSError):  # not every file system has folders to flush
                _flush(target.parent)
        finally:
            part.unlink(missing_ok=True)
    except OSError as failure:
        if isinstance(failure, NotWritten):
            raise
        raise NotWritten(os.fspath(path), failure.strerror or str(failure)) from None


def _flush(path: Path) -> None:
    """Wait until the content of a file, or the entries of a folder, are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_atomically(path: Name, content: str | bytes, argument: str = "file") -> None:
    """Write text (UTF-8) or bytes to a file, atomically.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(f"{folder}/note.txt", "α = 1")
    ...     Path(f"{folder}/note.txt").read_text(encoding="utf-8")
    'α = 1'
    """
    with atomic_file(path, argument) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)


def checked_size(path: Path, limit: int | None, refuse: Refuse) -> int:
    """Return the size of a regular file in bytes; refuse a folder, pipe, device or larger file without opening it.

    Examples
    --------
    >>> checked_size(Path("/dev/zero"), None, ValueError)
    Traceback (most recent call last):
        ...
    ValueError: it is not a regular file
    """
    try:
        status = path.stat()
    except (OSError, ValueError) as failure:  # a name with a zero byte is a ValueError
        raise refuse(getattr(failure, "strerror", None) or "it is not a valid file name") from None
    if not stat.S_ISREG(status.st_mode):
        raise refuse("it is not a regular file")
    if limit is not None and status.st_size > limit:
        raise refuse(f"it has {status.st_size:,} bytes; the limit for such a file is {limit:,}")
    return status.st_size


def read_file(path: Path, limit: int, refuse: Refuse) -> bytes:
    """Return the content of a regular file of at most ``limit`` bytes."""
    checked_size(path, limit, refuse)
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # it may have been replaced by a pipe
        with open(handle, "rb") as file:
            content = file.read(limit + 1)
    except OSError as failure:
        raise refuse(failure.strerror or "it cannot be read") from None
    if len(content) > limit:
        raise refuse(f"it has more than {limit:,} bytes, the limit for such a file")
    return content
