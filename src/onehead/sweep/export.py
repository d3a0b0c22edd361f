"""Files that are whole as soon as they exist, and tidy rows in them: CSV and Parquet."""

import csv
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from onehead.errors import InvalidArgument, MissingExtra

__all__ = ["csv_rows", "whole_file", "write_csv", "write_parquet"]


def write_csv(path: str, rows: Iterable[dict[str, Any]]) -> int:
    """Write rows to a CSV file and return their number; short lists are written as JSON."""
    found = [_flat(row) for row in rows]
    with _exported(path) as temporary, temporary.open("w", newline="") as file:
        csv_rows(file, found)
    return len(found)


def csv_rows(file: IO[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as CSV; columns are the keys in the order in which they first appear."""
    writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
    writer.writeheader()
    writer.writerows(rows)


def write_parquet(path: str, rows: Iterable[dict[str, Any]]) -> int:
    """Write rows to a Parquet file and return their number."""
    try:
        import_module("pyarrow")  # large; only who asks for Parquet pays
    except ImportError:
        raise MissingExtra("pyarrow", "cluster") from None
    import pandas as pd  # noqa: PLC0415

    found = [_flat(row) for row in rows]
    with _exported(path) as temporary:
        pd.DataFrame(found).to_parquet(temporary, index=False)
    return len(found)


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    return {key: json.dumps(value) if isinstance(value, (dict, list)) else value for key, value in row.items()}


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Write under another name, then rename: a file that exists is complete."""
    handle, name = tempfile.mkstemp(dir=path.resolve().parent, suffix=".part")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _exported(path: str) -> Iterator[Path]:
    """A file for others to read."""
    target = Path(path)
    if not target.resolve().parent.is_dir():
        raise InvalidArgument("file", path, "in a folder that exists")
    with whole_file(target) as temporary:
        yield temporary
    target.chmod(0o666 & ~_umask())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
