"""One frame for every answer: a command parses, calls, and hands over what it found; here it is shown as it was asked for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Self

import click

from onehead.cli.output import note, print_json, print_rows, print_table, save_figure, say, write_csv
from onehead.errors import InvalidArgument, SolveError
from onehead.results import Result

__all__ = ["Answer", "answered", "check_parent", "failed_of", "json_option"]

PICTURES = (".png", ".pdf", ".svg")
Rows = Sequence[Mapping[str, Any]]

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a command found, and how it is shown.

    Parameters
    ----------
    value : dict or list of dict
        What ``--json`` prints.
    columns : dict of str or list of str
        Keys of the table; with the meaning of each for a table of one object.
    title : str
        Above the table.
    shown : dict or list of dict, optional
        What the table shows, where it is not the value.
    rows : list of dict, optional
        What ``--csv`` writes, where it is not the value.
    draw : callable, optional
        Makes the axes of ``--plot``; called only when they are asked for. It returns None, and says why, if it cannot.
    text : str
        Printed in place of the table.
    notes : list of str
        For standard error, whatever is printed.
    warnings : list of str
        For standard error, below a table; JSON holds them itself.
    failed : str
        What went wrong with a part of it: the command ends with this sentence after everything is shown.
    """

    value: Mapping[str, Any] | Rows
    columns: Mapping[str, str] | Sequence[str]
    title: str = ""
    shown: Mapping[str, Any] | Rows | None = None
    rows: Rows | None = None
    draw: Callable[[], Any] | None = None
    text: str = ""
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    failed: str = ""

    @classmethod
    def of(
        cls,
        found: Result,
        said: Mapping[str, str | None] | None = None,
        *,
        shown: Mapping[str, Any] | None = None,
        **how: Any,
    ) -> Self:
        """The answer that one result is: its numbers and what they mean.

        ``said`` are meanings beyond those of the result, or in their place, none for a number to leave out; ``shown`` are
        values that a table writes in another way.
        """
        row, meanings = found.to_dict(), {**found.MEANINGS, **(said or {})}
        columns = {name: meaning for name, meaning in meanings.items() if meaning is not None}
        return cls(value=row, shown={**row, **(shown or {})}, columns=columns, **how)


def answered(*, csv_rows: bool = True, picture: bool = True) -> Callable[[Callable[..., Answer]], Any]:
    """Add ``--json``, ``--csv`` and ``--plot`` to a function that gives an `Answer`; files are checked before any work."""

    def decorate(function: Callable[..., Answer]) -> Any:
        @wraps(function)
        def call(*, as_json: bool, csv_file: str | None = None, plot: str | None = None, **flags: Any) -> None:
            check_parent("--csv", csv_file)
            check_picture(plot)
            report(function(**flags), as_json=as_json, csv_file=csv_file, plot=plot)

        result: Any = call
        if picture:
            result = click.option("--plot", metavar="FILE", help="Draw a picture (.png, .pdf or .svg).")(result)
        if csv_rows:
            result = click.option("--csv", "csv_file", metavar="FILE", help="Write the rows to a CSV file.")(result)
        return json_option(result)

    return decorate


def report(answer: Answer, *, as_json: bool, csv_file: str | None, plot: str | None) -> None:
    """Write, draw and print what was asked for."""
    for text in answer.notes:
        note(f"note: {text}")
    if csv_file is not None:
        write_csv(csv_file, _rows(answer.value if answer.rows is None else answer.rows))
    if plot is not None and answer.draw is not None and (axes := answer.draw()) is not None:
        save_figure(plot, axes)
    if as_json:
        print_json(answer.value)
    elif answer.text:
        say(*answer.text.splitlines())
    else:
        _print(answer)
        for text in answer.warnings:
            note(f"note: {text}.")
    if answer.failed:
        raise SolveError(answer.failed)


def _print(answer: Answer) -> None:
    """A table with meanings for one object, with a line for each of many."""
    shown = answer.value if answer.shown is None else answer.shown
    if isinstance(shown, Mapping) and isinstance(answer.columns, Mapping):
        print_table([(key, shown.get(key), meaning) for key, meaning in answer.columns.items()], answer.title)
    else:
        print_rows(_rows(shown), list(answer.columns), answer.title)


def _rows(value: Mapping[str, Any] | Rows) -> Rows:
    return [value] if isinstance(value, Mapping) else value


def check_parent(flag: str, path: str | None) -> None:
    """Refuse a place that does not exist before any work is done."""
    if path is not None and not Path(path).resolve().parent.is_dir():
        raise InvalidArgument(flag, path, "in a folder that exists")


def check_picture(path: str | None) -> None:
    """Refuse a picture format before any work is done."""
    if path is not None and Path(path).suffix.lower() not in PICTURES:
        raise InvalidArgument("--plot", path, f"a file name that ends in {', '.join(PICTURES)}")
    check_parent("--plot", path)


def failed_of(found: Any, what: str = "points") -> str:
    """The sentence about the points of a result that failed, or nothing."""
    if not found.failures:
        return ""
    first = found.failures[0]
    reason = getattr(first, "reason", None) or first.status
    return f"{len(found.failures)} of {len(found)} {what} failed; the first: {reason}"
