"""Files of others: their kind and size are looked at before anything is read."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

__all__ = ["read_file", "size_of"]

Refuse = Callable[[str], Exception]  # makes an error of what is wrong with a file


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
