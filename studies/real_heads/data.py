"""Data of the study as small files of the documentation, from which tables and figures are made."""

import csv
import json
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from studies.real_heads.measure import Row, directions, final_heads, steps
from studies.real_heads.runs import MOST_TOKENS, WIDTH, Run
from studies.real_heads.theory import predictions

__all__ = ["Data", "collect", "load", "save"]

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
    found.theory.update(predictions(found.final))
    return found


def save(data: Data, folder: Path) -> None:
    """Write the files, with numbers rounded to four digits."""
    for name, file in FILES.items():
        rows: list[Row] = getattr(data, name)
        with (folder / file).open("w", newline="", encoding="utf-8") as out:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(rows[0])
            writer.writerows([_format(value) for value in row.values()] for row in rows)
    (folder / THEORY).write_text(json.dumps(data.theory) + "\n", encoding="utf-8")


def load(folder: Path) -> Data:
    """Read the files."""
    tables = []
    for file in FILES.values():
        with (folder / file).open(newline="", encoding="utf-8") as given:
            tables.append([{name: _parse(text) for name, text in row.items()} for row in csv.DictReader(given)])
    return Data(*tables, json.loads((folder / THEORY).read_text(encoding="utf-8")))


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
