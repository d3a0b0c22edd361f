"""Tidy rows to CSV and Parquet files."""

import csv
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from onehead.errors import InvalidArgument, MissingExtra

__all__ = ["put_csv", "write_csv", "write_parquet"]


def write_csv(path: str, rows: Iterable[dict[str, Any]]) -> int:
    """Write rows to a CSV file and return their number; short lists are written as JSON."""
    with _whole_file(path) as temporary, Path(temporary).open("w", newline="") as file:
        return put_csv(file, rows)


def put_csv(file: IO[str], rows: Iterable[dict[str, Any]]) -> int:
    """Write rows to an open file as CSV and return their number; columns in the order in which they first appear."""
    found = [_flat(row) for row in rows]
    writer = csv.DictWriter(file, list(dict.fromkeys(name for row in found for name in row)))
    writer.writeheader()
    writer.writerows(found)
    return len(found)


def write_parquet(path: str, rows: Iterable[dict[str, Any]]) -> int:
    """Write rows to a Parquet file and return their number."""
    try:
        import_module("pyarrow")  # large; only who asks for Parquet pays
    except ImportError:
        raise MissingExtra("pyarrow", "cluster") from None
    import pandas as pd  # noqa: PLC0415

    found = [_flat(row) for row in rows]
    with _whole_file(path) as temporary:
        pd.DataFrame(found).to_parquet(temporary, index=False)
    return len(found)


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    return {key: json.dumps(value) if isinstance(value, (dict, list)) else value for key, value in row.items()}


@contextmanager
def _whole_file(path: str) -> Iterator[str]:
    """Write under another name, then rename: a file that exists is complete."""
    target = Path(path)
    if not target.resolve().parent.is_dir():
        raise InvalidArgument("file", path, "in a folder that exists")
    handle, temporary = tempfile.mkstemp(dir=target.resolve().parent, suffix=".part")
    os.close(handle)
    try:
        yield temporary
        Path(temporary).replace(target)
        target.chmod(0o666 & ~_umask())
    finally:
        Path(temporary).unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
