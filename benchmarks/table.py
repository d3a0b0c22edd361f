"""The table of the documentation, one part per group."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from benchmarks.groups import MODULES
from benchmarks.harness import ROOT, Row

PAGE = ROOT / "docs" / "assets" / "benchmarks.md"
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
    ("budget", _budget),
    ("accuracy", _found),
)
FRESH: tuple[tuple[str, Cell], ...] = (
    ("in a process of its own", lambda row: row.what),
    ("cold, s", lambda row: _number(row.cold)),
    ("memory, MB", lambda row: "" if row.memory_mb is None else f"{row.memory_mb:.0f}"),
)


def markdown(rows: Iterable[Row]) -> str:
    """One heading per group, its table, a second one for rows with a process of their own, and the run they come from."""
    rows = list(rows)
    parts = []
    for group in MODULES:
        here = [row for row in rows if row.group == group]
        fresh = [row for row in here if row.memory_mb is not None]
        if here:
            parts += [
                f"### {TITLES[group]}",
                _lines(here, MAIN),
                *([_lines(fresh, FRESH)] if fresh else []),
                _run(here),
            ]
    return "\n\n".join(parts) + "\n"


def _lines(rows: Sequence[Row], wanted: Sequence[tuple[str, Cell]]) -> str:
    """A table; columns that would be empty are left out."""
    columns = [(name, cell) for name, cell in wanted if any(cell(row) for row in rows)]
    lines = [[name for name, _ in columns], ["---"] * len(columns)]
    # a bar would end the cell, and a per cent sign should not stand alone on a line
    lines += [[cell(row).replace("|", "\\|").replace(" %", "\u00a0%") for _, cell in columns] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _run(rows: Sequence[Row]) -> str:
    """One sentence per run that these rows come from."""
    runs: list[dict[str, Any]] = []
    for row in rows:
        if row.run and row.run not in runs:
            runs.append(row.run)
    return "  \n".join(f"*{sentence(run)}*" for run in runs)


def sentence(run: dict[str, Any]) -> str:
    """Where and with what a run was measured."""
    units = run.get("unit_ms", [float("nan")])
    names = ("python", "onehead", "numpy", "scipy", "numba", "scikit-learn")
    versions = ", ".join(f"{name} {run[name]}" for name in names if run.get(name))
    return (
        f"One unit was {min(units):.0f} to {max(units):.0f} ms in this run; {run.get('threads')} of {run.get('cores')} "
        f"cores; {versions}."
    )
