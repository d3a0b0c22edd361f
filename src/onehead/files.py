"""Files: those of others are looked at before they are read, and what onehead writes before the work begins; it is there whole, or not."""

import os
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from onehead.errors import InvalidArgument, NotWritten

__all__ = ["Name", "check_file", "check_folder", "read_file", "size_of", "whole_file", "write_whole"]

Name = str | os.PathLike[str]
Refuse = Callable[[str], Exception]  # makes an error of what is wrong with a file

# how a database and its journal begin: whoever names one as an output has mistaken a flag
DATABASES = (b"SQLite format 3\x00", b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83", b"\xd9\xd5\x05\xf9")
PART = ".part"  # how the name of a file ends that is not whole yet


def check_file(argument: str, path: Name, *, endings: Sequence[str] = (), never: Sequence[Name] = ()) -> Path:
    """The file that a name stands for, links followed, if it may be written; refused in one sentence otherwise.

    Parameters
    ----------
    argument : str
        What the sentence calls it, for example "--csv".
    path : path
        A new name in a folder that can be written, or a regular file, which is then replaced.
    endings : sequence of str
        Allowed endings of the name; any if none is given.
    never : sequence of path
        Files that are read, or kept, and must not be replaced under any name.

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
        unreachable = target.is_symlink()  # links in a circle, of which Python 3.13 and later do not complain
    except (OSError, RuntimeError, ValueError):  # the same, a name with a zero byte, a folder that is closed to us
        unreachable = True
    if unreachable:
        raise refused("the name of a file that can be reached")
    if not folder:
        raise refused("in a folder that exists")
    if found is None:
        if not _may(target.parent, os.W_OK | os.X_OK):
            raise refused("in a folder that can be written")
        return target
    if not stat.S_ISREG(found.st_mode):
        raise refused("a regular file or a new name, no folder, device or pipe")
    if not _may(target.parent, os.W_OK | os.X_OK) or not _may(target, os.W_OK):
        raise refused("a file that can be written, in a folder that can be written")
    if _database(target) or any(_same(target, other) for other in never):
        raise refused("another file than a store or one that is read")
    return target


def _may(path: Path, what: int) -> bool:
    """Whether this process has some rights, as whoever it acts for."""
    return os.access(path, what, effective_ids=os.access in os.supports_effective_ids)


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _database(path: Path) -> bool:
    """Whether a file is a database, or the journal of one."""
    try:
        with path.open("rb") as file:
            return file.read(16).startswith(DATABASES)
    except OSError:
        return False  # who may write and not read


def _same(path: Path, other: Name) -> bool:
    """Whether two names stand for one file, by symbolic links or by hard ones."""
    with suppress(OSError, ValueError):
        return path.samefile(other)
    return False


def check_folder(argument: str, path: Name) -> Path:
    """A folder to write into, if it is there and can be written, or can be made; refused in one sentence otherwise."""
    folder = Path(path)
    try:
        nearest = folder.resolve()
        while _status(nearest) is None:
            nearest = nearest.parent
        good = nearest.is_dir()
    except (OSError, RuntimeError, ValueError):
        good = False
    if not good:
        raise InvalidArgument(argument, os.fspath(path), "a folder, or the name of a new one")
    if not _may(nearest, os.W_OK | os.X_OK):
        raise InvalidArgument(argument, os.fspath(path), "a folder that can be written")
    return folder


@contextmanager
def whole_file(path: Name, argument: str = "file") -> Iterator[Path]:
    """Give another name in the same folder to write under; at the end it takes the place of the file, in one step.

    Links are followed, and a file that is replaced keeps its mode. Whatever happens in between (an error, a full disk,
    Ctrl-C), the old content stays and the other name is gone.
    """
    target = check_file(argument, path)
    part = target.with_name(f".{secrets.token_hex(8)}{PART}")
    try:
        try:
            before = _status(target)
            os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if before is None else 0o600))
            yield part
            if before is not None:
                with suppress(OSError):  # only root can give a file away
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
    """What was written under a name is on disk when this returns."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_whole(path: Name, content: str | bytes, argument: str = "file") -> None:
    """Write text (UTF-8) or bytes.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(f"{folder}/note.txt", "α = 1")
    ...     Path(f"{folder}/note.txt").read_text(encoding="utf-8")
    'α = 1'
    """
    with whole_file(path, argument) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)


def size_of(path: Path, limit: int | None, refuse: Refuse) -> int:
    """Bytes of a regular file; a folder, a pipe, a device or a file above the limit is refused before it is opened.

    Examples
    --------
    >>> size_of(Path("/dev/zero"), None, ValueError)
    Traceback (most recent call last):
        ...
    ValueError: it is not a regular file
    """
    try:
        status = path.stat()
    except (OSError, ValueError) as failure:  # a name with a zero byte is a ValueError
        raise refuse(getattr(failure, "strerror", None) or "no file can have this name") from None
    if not stat.S_ISREG(status.st_mode):
        raise refuse("it is not a regular file")
    if limit is not None and status.st_size > limit:
        raise refuse(f"it has {status.st_size:,} bytes, more than the {limit:,} that are read of such a file")
    return status.st_size


def read_file(path: Path, limit: int, refuse: Refuse) -> bytes:
    """The content of a regular file of at most ``limit`` bytes."""
    size_of(path, limit, refuse)
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # should it have become a pipe meanwhile
        with open(handle, "rb") as file:
            content = file.read(limit + 1)
    except OSError as failure:
        raise refuse(failure.strerror or "it cannot be read") from None
    if len(content) > limit:
        raise refuse(f"it has more than the {limit:,} bytes that are read of such a file")
    return content
