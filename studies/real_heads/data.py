"""Data of the study as small files of the documentation, from which tables and figures are made."""

import csv
import json
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from studies.real_heads.measure import Row, directions, final_heads, steps
from studies.real_heads.runs import MOST_TOKENS, WIDTH, Run

__all__ = ["Data", "collect", "load", "load_files", "save", "save_files"]

FILES = {"steps": "real-heads-steps.csv", "final": "real-heads.csv", "directions": "real-heads-directions.csv"}
THEORY = "real-heads-theory.json"
DIGITS = 4


class Data(NamedTuple):
    """Rows per step and head, per head at the end, and per direction of some runs; ``theory`` has the predictions."""

    steps: list[Row]
    final: list[Row]
    directions: list[Row]
    theory: dict[str, Any]


def collect(runs: Iterable[Run], store: Path) -> Data:
    """Measure finished runs; directions only of those with most tokens and a penalty."""
    found = Data([], [], [], {"python": platform.python_version()})
    for run in runs:
        found.steps.extend(steps(run, store))
        found.final.extend(final_heads(run, store))
        if run.penalty and (run.width, run.tokens) == (WIDTH, MOST_TOKENS):
            found.directions.extend(directions(run, store))
    return found


def save(data: Data, folder: Path) -> None:
    """Write the files."""
    save_files(data, folder, FILES, THEORY)


def load(folder: Path) -> Data:
    """Read the files."""
    return Data(*load_files(folder, FILES, THEORY))


def save_files(data: Any, folder: Path, tables: dict[str, str], theory: str) -> None:
    """Write the tables of a study, each to its file, and its predictions."""
    for name, file in tables.items():
        write_rows(folder / file, getattr(data, name))
    (folder / theory).write_text(json.dumps(data.theory) + "\n", encoding="utf-8")


def load_files(folder: Path, tables: dict[str, str], theory: str) -> list[Any]:
    """Read what `save_files` has written, in this order."""
    found: list[Any] = [read_rows(folder / file) for file in tables.values()]
    return [*found, json.loads((folder / theory).read_text(encoding="utf-8"))]


def write_rows(file: Path, rows: Sequence[Row]) -> None:
    """Write rows with the same columns as CSV, with numbers rounded to four digits."""
    with file.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(rows[0])
        writer.writerows([_format(value) for value in row.values()] for row in rows)


def read_rows(file: Path) -> list[Row]:
    """Read rows from CSV."""
    with file.open(newline="", encoding="utf-8") as given:
        return [{name: _parse(text) for name, text in row.items()} for row in csv.DictReader(given)]


def _format(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.{DIGITS}g}" if isinstance(value, float) else str(value)


def _parse(text: str) -> Any:
    """Return an integer, a float, a text, or None for an empty text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text or None
