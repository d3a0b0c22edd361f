"""What was measured, as JSON: rows, each with the run it belongs to, so that slow groups keep their last numbers."""

import json
import os
import platform
from collections.abc import Iterable
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT, Row

RESULTS = ROOT / "benchmarks" / "results.json"  # behind the page
BASELINE = ROOT / "benchmarks" / "baseline.json"  # what `make bench-compare` compares with


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
    table = []
    for row in rows:
        if row.run not in runs:
            runs.append(row.run)
        table.append({**asdict(replace(row, run={})), "run": runs.index(row.run)})
    return json.dumps({"runs": [_short(run) for run in runs], "rows": table}, indent=1, ensure_ascii=False) + "\n"


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
