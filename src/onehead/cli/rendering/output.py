"""Printing of tables and JSON on standard output, writing of files, and progress on standard error."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from onehead.atomic_io import atomic_file
from onehead.cli.rendering.terminal import note, print_lines
from onehead.numerics.interrupts import raise_if_interrupted
from onehead.results import plain
from onehead.sanitize import visible
from onehead.sweep.export import csv_rows

if TYPE_CHECKING:
    from onehead.sweep import Counts


LEFT_ALIGNED = ("status", "evidence")  # columns of text


def print_json(value: Any) -> None:
    """Print one JSON value on standard output."""
    print_lines(json.dumps(plain(value), allow_nan=False))


def print_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], title: str = "") -> None:
    """Print a table with one line per row."""
    headers = [(column, column not in LEFT_ALIGNED) for column in columns]
    _print([[row.get(column) for column in columns] for row in rows], headers, title)


def print_table(pairs: Sequence[tuple[str, Any, str]], title: str = "") -> None:
    """Print a table with the name, the value and the meaning of one quantity per line."""
    _print(pairs, [("", False), ("value", True), ("meaning", False)], title)


def _print(lines: Sequence[Sequence[Any]], headers: Sequence[tuple[str, bool]], title: str) -> None:
    """Print a table on standard output; each header has a text and whether its column is aligned to the right."""
    from rich.table import Table
    from rich.text import Text  # cells may hold text of others, which must not be read as markup

    table = Table(title=Text(visible(title)) if title else None, title_justify="left", header_style="bold")
    for header, right in headers:
        table.add_column(Text(visible(header)), justify="right" if right else "left")
    for cells in lines:
        table.add_row(*(Text(format_value(cell)) for cell in cells))
    console(stderr=False).print(table)


def format_value(value: Any) -> str:
    """Value as text for a table; a dash for None."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return visible(str(value))


def write_csv(path: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the rows to a CSV file, without nested values."""
    flat = [{k: v for k, v in plain(dict(row)).items() if not isinstance(v, (dict, list))} for row in rows]
    with atomic_file(path, "--csv") as part, part.open("w", newline="", encoding="utf-8") as file:
        csv_rows(file, flat)
    note(f"wrote {path}")


def save_figure(path: str, axes: Any) -> None:
    """Write the figure to which the axes belong."""
    from onehead import plot

    plot.save(axes, path)
    note(f"wrote {path}")


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[], None]]:
    """Progress bar on standard error with the time left; gives a function to call at each step.

    Each step also raises a Ctrl-C that compiled code has swallowed.
    """
    if not sys.stderr.isatty():  # not a terminal; older versions of rich would print an empty line
        yield raise_if_interrupted
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)

        def step() -> None:
            bar.advance(task)
            raise_if_interrupted()

        yield step


@contextmanager
def sweep_progress() -> Iterator[tuple[Callable[[str, "Counts"], None], Callable[[str], None]]]:
    """Progress bar with points, rate, time left and failures of a running sweep.

    Gives two functions: the first updates the bar with the title and the counts of a sweep, the second prints a
    line above it.
    """
    if not sys.stderr.isatty():
        yield (lambda title, counts: None), note
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"))
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, rate="")
        started: dict[str, tuple[float, int]] = {}  # time and number of finished points at which each sweep started

        def update(title: str, counts: "Counts") -> None:
            finished, now = counts.done + counts.failed, time.monotonic()
            since, before = started.setdefault(title, (now, finished))
            speed = (finished - before) / max(now - since, 1e-3)
            rate = f"{speed:.3g}/s, {format_duration(counts.missing / speed)} left" if speed else ""
            rate += f", {counts.failed} failed" if counts.failed else ""
            bar.update(task, description=title, total=counts.total, completed=finished, rate=rate)

        yield update, lambda line: bar.console.print(visible(line), markup=False, highlight=False)


def format_duration(seconds: float) -> str:
    """Duration with a unit that suits it, such as "3.5 minutes"."""
    for name, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2.0 * length:
            return f"{seconds / length:.3g} {name}"
    return f"{seconds:.2g} seconds"


@contextmanager
def spinner(title: str) -> Iterator[None]:
    """Spinner on standard error while one long step runs."""
    if not sys.stderr.isatty():
        yield
        return
    with console(stderr=True).status(title):
        yield


def console(*, stderr: bool) -> Any:
    """Rich console on standard error or standard output."""
    from rich.console import Console

    # a pipe has no width, so take one at which no number is cut
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else 240, soft_wrap=False)
