"""Export of tidy rows to CSV and Parquet files."""

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import IO, Any

from onehead.atomic_io import atomic_file
from onehead.errors import InvalidArgument, MissingExtra
from onehead.results.formatting import load_pandas


def write_csv(path: str, rows: Iterable[dict[str, Any]]) -> int:
    """Write rows to a CSV file and return their number; short lists and dicts are written as JSON."""
    found = [_flat(row) for row in rows]
    with atomic_file(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        csv_rows(file, found)
    return len(found)


def csv_rows(file: IO[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as CSV; columns are the keys in the order in which they first appear."""
    writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
    writer.writeheader()
    writer.writerows(rows)


def select_columns(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    """Rows with these columns only, in this order; None where a row lacks one.

    Examples
    --------
    >>> select_columns([{"alpha": 0.5, "noise": 0.1, "rank": 0.6}], ["rank", "alpha"])
    [{'rank': 0.6, 'alpha': 0.5}]
    """
    known = list(dict.fromkeys(name for row in rows for name in row))
    for name in names:
        if rows and name not in known:
            raise InvalidArgument("columns", name, f"names of columns: {', '.join(known)}", known)
    return [{name: row.get(name) for name in names} for row in rows]


def write_parquet(path: str, rows: Iterable[dict[str, Any]]) -> int:
    """Write rows to a Parquet file and return their number."""
    try:
        import_module("pyarrow")  # large, so only imported when it is needed
    except ImportError:
        raise MissingExtra("pyarrow", "cluster") from None
    found = [_flat(row) for row in rows]
    with atomic_file(path) as part:
        load_pandas().DataFrame(found).to_parquet(part, index=False)
    return len(found)


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """Row with lists and dicts written as JSON."""
    return {key: json.dumps(value) if isinstance(value, (dict, list)) else value for key, value in row.items()}
