"""One frame for every answer: a command parses, calls, and hands over what it found; here it is shown as it was asked for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, Self

import click

from onehead.cli.main import INTERRUPTED
from onehead.cli.output import note, print_json, print_rows, print_table, save_figure, say, write_csv
from onehead.errors import InvalidArgument, SolveError
from onehead.files import check_file
from onehead.numerics.interrupts import presses
from onehead.results import Result

__all__ = ["Answer", "answered", "failed_of", "json_option", "noted_of"]

PICTURES = (".png", ".pdf", ".svg")
OUTPUTS = ("csv_file", "plot")
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
        values that a table writes in another way. Numbers that state an error are shown with it.
        """
        row, meanings = found.to_dict(), {**found.MEANINGS, **(said or {})}
        columns = {name: meaning for name, meaning in meanings.items() if meaning is not None}
        stated = {
            name: f"{row[name]:.6g} ± {row[f'{name}_err']:.1g}"
            for name in columns
            if isinstance(row.get(name), float) and row.get(f"{name}_err")
        }
        return cls(value=row, shown={**row, **stated, **(shown or {})}, columns=columns, **how)


def answered(*, csv_rows: bool = True, picture: bool = True) -> Callable[[Callable[..., Answer]], Any]:
    """Add ``--json``, ``--csv`` and ``--plot`` to a function that gives an `Answer`; files are checked before any work."""

    def decorate(function: Callable[..., Answer]) -> Any:
        @wraps(function)
        def call(*, as_json: bool, csv_file: str | None = None, plot: str | None = None, **flags: Any) -> None:
            check_outputs(csv_file, plot)
            before = presses()
            answer = function(**flags)
            report(answer, as_json=as_json, csv_file=csv_file, plot=plot, interrupted=presses() > before)

        result: Any = call
        if picture:
            result = click.option("--plot", metavar="FILE", help="Draw a picture (.png, .pdf or .svg).")(result)
        if csv_rows:
            result = click.option("--csv", "csv_file", metavar="FILE", help="Write the rows to a CSV file.")(result)
        return json_option(result)

    return decorate


def report(answer: Answer, *, as_json: bool, csv_file: str | None, plot: str | None, interrupted: bool = False) -> None:
    """Write, draw and print what was asked for.

    Of an answer that Ctrl-C cut short only finished rows are shown; they go into a file of another name, and nothing is drawn.
    """
    for text in answer.notes:
        note(f"note: {text}")
    if interrupted:
        _report_rest(answer, as_json, csv_file)
        raise click.exceptions.Exit(INTERRUPTED)
    if csv_file is not None:
        write_csv(csv_file, _rows(answer.value if answer.rows is None else answer.rows))
    if plot is not None and answer.draw is not None and (axes := answer.draw()) is not None:
        save_figure(plot, axes)
    _show(answer, as_json)
    if answer.failed:
        raise SolveError(answer.failed)


def _report_rest(answer: Answer, as_json: bool, csv_file: str | None) -> None:
    """What was finished before Ctrl-C; a file of an earlier run is not replaced by a part of this one."""
    rows = _finished(answer.value if answer.rows is None else answer.rows)
    whole = isinstance(answer.value, Mapping)  # one object says itself how far it came
    if rows or whole:
        shown = answer.shown if answer.shown is None or isinstance(answer.shown, Mapping) else _finished(answer.shown)
        _show(replace(answer, value=answer.value if whole else rows, shown=shown), as_json)
    told = f"{len(rows)} finished rows, no file was written"
    if rows and csv_file is not None:
        partial = Path(csv_file).with_suffix(f".partial{Path(csv_file).suffix}")
        write_csv(str(partial), rows)
        told = f"{len(rows)} finished rows are in {partial}, not in {csv_file}"
    note(f"onehead: interrupted; {told}.")


def _finished(value: Mapping[str, Any] | Rows) -> Rows:
    """Rows whose status does not say that Ctrl-C came first."""
    return [row for row in _rows(value) if "interrupted" not in str(row.get("status", ""))]


def _show(answer: Answer, as_json: bool) -> None:
    """Print on standard output."""
    if as_json:
        print_json(answer.value)
    elif answer.text:
        say(*answer.text.splitlines())
    else:
        _print(answer)
        for text in answer.warnings:
            note(f"note: {text}.")


def _print(answer: Answer) -> None:
    """A table with meanings for one object, with a line for each of many."""
    shown = answer.value if answer.shown is None else answer.shown
    if isinstance(shown, Mapping) and isinstance(answer.columns, Mapping):
        print_table([(key, shown.get(key), meaning) for key, meaning in answer.columns.items()], answer.title)
    else:
        print_rows(_rows(shown), list(answer.columns), answer.title)


def _rows(value: Mapping[str, Any] | Rows) -> Rows:
    return [value] if isinstance(value, Mapping) else value


def check_outputs(csv_file: str | None, plot: str | None) -> None:
    """Refuse files that cannot be written, or that the command reads, before any work is done."""
    said = click.get_current_context().params.items()
    words = [
        word
        for name, given in said
        if name not in OUTPUTS
        for word in (given if isinstance(given, tuple) else (given,))
    ]
    inputs = [file for word in words if isinstance(word, str) for file in _read_from(word)]
    if csv_file is not None:
        check_file("--csv", csv_file, never=inputs)
    if plot is not None:
        check_file("--plot", plot, endings=PICTURES, never=inputs)
    if csv_file is not None and plot is not None and Path(csv_file).resolve() == Path(plot).resolve():
        raise InvalidArgument("--plot", plot, "another file than that of --csv")


def _read_from(word: str) -> list[str | Path]:
    """The files that a word of the command line may stand for: itself, and the pieces of a checkpoint."""
    folder = Path(word).parent if word.endswith(".index.json") else Path(word)
    return [word, *folder.glob("*.safetensors"), *folder.glob("*.json")]


def noted_of(found: Any, what: str = "points") -> list[str]:
    """What a table of many results has no room for: how many of them carry a note, and the first one."""
    noted = [text for row in found.to_rows() for text in row.get("warnings", ())[:1]]
    if not noted:
        return []
    return [f"{len(noted)} of {len(found)} {what} carry a note, which --json holds; the first: {noted[0]}"]


def failed_of(found: Any, what: str = "points") -> str:
    """The sentence about the points of a result that failed, or nothing."""
    if not found.failures:
        return ""
    first = found.failures[0]
    reason = getattr(first, "reason", None) or first.status
    return f"{len(found.failures)} of {len(found)} {what} failed; the first: {reason}"
