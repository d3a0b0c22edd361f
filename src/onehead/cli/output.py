"""What a command prints: one JSON value on standard output, or a table; progress on standard error."""

import csv
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from onehead.cli.text import clean
from onehead.errors import InvalidArgument
from onehead.results import plain

__all__ = [
    "check_picture",
    "console",
    "note",
    "output_options",
    "print_json",
    "print_rows",
    "print_table",
    "progress",
    "save_figure",
    "working",
    "write_csv",
]

PICTURES = (".png", ".pdf", ".svg")


def output_options(*, csv_rows: bool = True, picture: bool = True) -> Callable[[Any], Any]:
    """The flags of every command that answers with numbers."""

    def decorate(function: Any) -> Any:
        if picture:
            function = click.option("--plot", metavar="FILE", help="Draw a picture (.png, .pdf or .svg).")(function)
        if csv_rows:
            function = click.option("--csv", "csv_file", metavar="FILE", help="Write the rows to a CSV file.")(function)
        return click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")(function)

    return decorate


def print_json(value: Any) -> None:
    """Print one JSON value on standard output."""
    click.echo(json.dumps(plain(value), allow_nan=False))


def print_rows(rows: Sequence[dict[str, Any]], columns: Sequence[str], title: str = "") -> None:
    """Print a table with one line per row."""
    from rich.table import Table
    from rich.text import Text  # cells are text of others at times: never markup

    table = Table(title=Text(clean(title)) if title else None, title_justify="left", header_style="bold")
    for column in columns:
        table.add_column(Text(clean(column)), justify="right" if column != "status" else "left")
    for row in rows:
        table.add_row(*(Text(show(row.get(column))) for column in columns))
    console(stderr=False).print(table)


def print_table(pairs: Sequence[tuple[str, Any, str]], title: str = "") -> None:
    """Print name, value and a plain-word meaning, one per line."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(clean(title)) if title else None, title_justify="left", header_style="bold")
    table.add_column("")
    table.add_column("value", justify="right")
    table.add_column("meaning")
    for name, value, meaning in pairs:
        table.add_row(Text(name), Text(show(value)), Text(clean(meaning)))
    console(stderr=False).print(table)


def show(value: Any) -> str:
    """A value as a person would write it."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return clean(str(value))


def note(text: str) -> None:
    """Say something on standard error."""
    click.echo(clean(text), err=True)


def write_csv(path: str, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows to a CSV file; columns are the keys in the order in which they first appear."""
    flat = [{k: v for k, v in plain(row).items() if not isinstance(v, (dict, list))} for row in rows]
    columns = list(dict.fromkeys(key for row in flat for key in row))
    with Path(path).open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(flat)
    note(f"wrote {path}")


def check_picture(path: str | None) -> None:
    """Refuse a picture format before any work is done."""
    if path is not None and Path(path).suffix.lower() not in PICTURES:
        raise InvalidArgument("--plot", path, f"a file name that ends in {', '.join(PICTURES)}")
    if path is not None and not Path(path).resolve().parent.is_dir():
        raise InvalidArgument("--plot", path, "a file in a folder that exists")


def save_figure(path: str, draw: Callable[[], Any]) -> None:
    """Draw on a fresh figure and save it."""
    from onehead import plot

    plot.save(draw(), path)
    note(f"wrote {path}")


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[], None]]:
    """A progress bar on standard error with a rate and the time left; gives a function to call at each step."""
    if not sys.stderr.isatty():  # nobody watches; older versions of rich would print an empty line
        yield lambda: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda: bar.advance(task)


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
