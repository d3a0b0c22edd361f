"""Measured rows as JSON, as the tables of the documentation, and compared with those of an earlier run.

Every row keeps the run it belongs to, so that groups that are measured rarely keep their last numbers.
"""

import json
import os
import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from checks.tool import ROOT, table

from benchmarks.harness import Row

RESULTS = ROOT / "benchmarks" / "results.json"  # the numbers of the page, with which `make bench-compare` compares
SMALLEST_CHANGE = 0.2  # relative
UNREPEATED = 0.5  # relative spread assumed for a row that was measured once
TITLES = {
    "theory": "Theory",
    "shell": "From the shell, each in a fresh process",
    "training": "Training",
    "plain": "Against plain solvers",
    "growth": "Growth of cost",
    "figures": "Figures",
    "app": "Explorer, slider to picture",
    "weights": "Checkpoints",
}


def identity() -> dict[str, Any]:
    """Versions and cores; no date and no name of a machine."""
    found: dict[str, Any] = {"python": platform.python_version(), "cores": os.cpu_count()}
    found["threads"] = int(os.environ.get("ONEHEAD_THREADS", "0")) or os.cpu_count()
    for package in ("onehead", "numpy", "scipy", "numba", "scikit-learn"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def to_json(rows: Iterable[Row]) -> str:
    """One JSON object: the runs, and the rows with the number of their run."""
    runs: list[dict[str, Any]] = []
    lines = []
    for row in rows:
        if row.run not in runs:
            runs.append(row.run)
        lines.append({**asdict(replace(row, run={})), "run": runs.index(row.run)})
    return json.dumps({"runs": [_short(run) for run in runs], "rows": lines}, indent=1, ensure_ascii=False) + "\n"


def _short(run: dict[str, Any]) -> dict[str, Any]:
    """A run with its units as lowest, middle and highest."""
    units = sorted(run.get("unit_ms", ()))
    return run if len(units) <= 3 else {**run, "unit_ms": [units[0], units[len(units) // 2], units[-1]]}


def from_json(text: str) -> list[Row]:
    """Rows of a record."""
    record = json.loads(text)
    return [Row(**{**row, "run": record["runs"][row["run"]]}) for row in record["rows"]]


def read(path: Path) -> list[Row]:
    """Rows of a file, none if there is no such file."""
    return from_json(path.read_text()) if path.exists() else []


def merged(old: Iterable[Row], new: Iterable[Row], groups: Iterable[str]) -> list[Row]:
    """New rows, and the old ones of groups that were not measured this time."""
    new, groups = list(new), set(groups)
    return new + [row for row in old if row.group not in groups]


Cell = Callable[[Row], str]


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2g}" if value < 10.0 else f"{value:.0f}"


def _budget(row: Row) -> str:
    if not row.budget:
        return ""
    return f"{row.budget}: {'met' if row.verdict == 'met' else f'**{row.verdict}**'}"


def _found(row: Row) -> str:
    return "; ".join(part for part in (row.accuracy, row.note) if part)


MAIN: tuple[tuple[str, Cell], ...] = (
    ("work", lambda row: row.what),
    ("seconds", lambda row: _number(row.seconds)),
    ("units", lambda row: _number(row.units) + ("" if row.spread is None else f" ± {100.0 * row.spread:.0f} %")),
    ("of the processor", lambda row: _number(row.cpu_units)),
    ("budget", _budget),
    ("accuracy", _found),
)
FRESH: tuple[tuple[str, Cell], ...] = (
    ("in a process of its own", lambda row: row.what),
    ("cold, s", lambda row: _number(row.cold)),
    ("memory, MB", lambda row: "" if row.memory_mb is None else f"{row.memory_mb:.0f}"),
)


def markdown(rows: Iterable[Row]) -> str:
    """One heading per group, its table, a second one for rows with a process of their own, and the runs they come
    from.
    """
    rows = list(rows)
    parts = []
    for group, title in TITLES.items():
        here = [row for row in rows if row.group == group]
        fresh = [row for row in here if row.memory_mb is not None]
        runs = dict.fromkeys(f"*{sentence(row.run)}*" for row in here if row.run)
        if here:
            parts += [f"### {title}", _table(here, MAIN), *([_table(fresh, FRESH)] if fresh else []), "  \n".join(runs)]
    return "\n\n".join(parts) + "\n"


def _table(rows: Sequence[Row], wanted: Sequence[tuple[str, Cell]]) -> str:
    """A table; columns that would be empty are left out."""
    columns = [(name, cell) for name, cell in wanted if any(cell(row) for row in rows)]
    # a per cent sign should not stand alone on a line
    lines = [[cell(row).replace(" %", "\u00a0%") for _, cell in columns] for row in rows]
    return table([name for name, _ in columns], lines)


def sentence(run: dict[str, Any]) -> str:
    """Where and with what a run was measured."""
    units = run.get("unit_ms", [float("nan")])
    names = ("python", "onehead", "numpy", "scipy", "numba", "scikit-learn")
    versions = ", ".join(f"{name} {run[name]}" for name in names if run.get(name))
    return (
        f"One unit was {min(units):.0f} to {max(units):.0f} ms in this run; {run.get('threads')} of {run.get('cores')} "
        f"cores; {versions}."
    )


def noise(row: Row) -> float:
    """How far a row may be off: the spread of its repeats and the drift of its unit."""
    return (UNREPEATED if row.spread is None else row.spread) + row.drift


def changes(old: Iterable[Row], new: Iterable[Row]) -> dict[str, str]:
    """Rows of ours that moved by more than 20 % and by more than the noise of both runs, in units: name -> what
    happened.
    """
    before = {row.what: row for row in old if row.ours}
    found = {}
    for row in new:
        if row.what in before:
            start, band = before[row.what].units, max(SMALLEST_CHANGE, noise(before[row.what]) + noise(row))
            if max(row.units / start, start / row.units) - 1.0 > band:
                word = "slower" if row.units > start else "faster"
                found[row.what] = f"{word}: {row.what}: {start:.3g} -> {row.units:.3g} units (noise {band:.0%})"
    return found
