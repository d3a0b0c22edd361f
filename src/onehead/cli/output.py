"""What a command prints: one JSON value on standard output, or a table; progress on standard error."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from onehead.cli.terminal import note, say
from onehead.files import whole_file
from onehead.numerics.interrupts import check
from onehead.results import plain
from onehead.sweep.export import csv_rows
from onehead.text import visible

if TYPE_CHECKING:
    from onehead.sweep import Counts

__all__ = [
    "bar",
    "note",
    "print_json",
    "print_rows",
    "print_table",
    "progress",
    "save_figure",
    "say",
    "span",
    "working",
    "write_csv",
]


LEFT = ("status", "evidence")  # columns of sentences, which begin at the left


def print_json(value: Any) -> None:
    """Print one JSON value on standard output."""
    say(json.dumps(plain(value), allow_nan=False))


def print_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], title: str = "") -> None:
    """Print a table with one line per row."""
    headers = [(column, column not in LEFT) for column in columns]
    _print([[row.get(column) for column in columns] for row in rows], headers, title)


def print_table(pairs: Sequence[tuple[str, Any, str]], title: str = "") -> None:
    """Print name, value and a plain-word meaning, one per line."""
    _print(pairs, [("", False), ("value", True), ("meaning", False)], title)


def _print(lines: Sequence[Sequence[Any]], headers: Sequence[tuple[str, bool]], title: str) -> None:
    """A table on standard output; headers say which columns stand to the right."""
    from rich.table import Table
    from rich.text import Text  # cells are text of others at times: never markup

    table = Table(title=Text(visible(title)) if title else None, title_justify="left", header_style="bold")
    for header, right in headers:
        table.add_column(Text(visible(header)), justify="right" if right else "left")
    for cells in lines:
        table.add_row(*(Text(show(cell)) for cell in cells))
    console(stderr=False).print(table)


def show(value: Any) -> str:
    """A value as a person would write it."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return visible(str(value))


def write_csv(path: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the numbers and words of rows to a CSV file."""
    flat = [{k: v for k, v in plain(dict(row)).items() if not isinstance(v, (dict, list))} for row in rows]
    with whole_file(path, "--csv") as part, part.open("w", newline="", encoding="utf-8") as file:
        csv_rows(file, flat)
    note(f"wrote {path}")


def save_figure(path: str, axes: Any) -> None:
    """Write the figure of some axes."""
    from onehead import plot

    plot.save(axes, path)
    note(f"wrote {path}")


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[], None]]:
    """A progress bar on standard error with a rate and the time left; gives a function to call at each step.

    Each step also hears a Ctrl-C that compiled code has swallowed.
    """
    if not sys.stderr.isatty():  # nobody watches; older versions of rich would print an empty line
        yield check
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)

        def step() -> None:
            bar.advance(task)
            check()

        yield step


@contextmanager
def bar() -> Iterator[tuple[Callable[[str, "Counts"], None], Callable[[str], None]]]:
    """Points, rate, time left and failures of the sweep under way, for ``sweep run`` and ``figures make``.

    Gives two functions: one takes the title and the counts of a sweep, the other a line to keep above the bar.
    """
    if not sys.stderr.isatty():  # nobody watches
        yield (lambda title, counts: None), note
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[told]}"))
    with Progress(*columns, console=console(stderr=True), transient=True) as shown:
        task = shown.add_task("", total=None, told="")
        begun: dict[str, tuple[float, int]] = {}  # when each sweep began here, and with how many finished points

        def show_counts(title: str, counts: "Counts") -> None:
            finished, now = counts.done + counts.failed, time.monotonic()
            since, before = begun.setdefault(title, (now, finished))
            rate = (finished - before) / max(now - since, 1e-3)
            told = f"{rate:.3g}/s, {span(counts.missing / rate)} left" if rate else ""
            told += f", {counts.failed} failed" if counts.failed else ""
            shown.update(task, description=title, total=counts.total, completed=finished, told=told)

        yield show_counts, lambda line: shown.console.print(visible(line), markup=False, highlight=False)


def span(seconds: float) -> str:
    """A time as a person would say it."""
    for name, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2.0 * length:
            return f"{seconds / length:.3g} {name}"
    return f"{seconds:.2g} seconds"


@contextmanager
def working(title: str) -> Iterator[None]:
    """A spinner on standard error while one long step is under way."""
    if not sys.stderr.isatty():
        yield
        return
    with console(stderr=True).status(title):
        yield


def console(*, stderr: bool) -> Any:
    """A rich console on one of the two streams."""
    from rich.console import Console

    # a pipe has no width: leave room for every column instead of cutting numbers
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else 240, soft_wrap=False)
