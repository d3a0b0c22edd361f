"""Rendering of what a command found: as a table, JSON, a CSV file, a picture, or an explanation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, Self

import click

from onehead.atomic_io import check_file
from onehead.cli.main import INTERRUPTED
from onehead.cli.rendering.output import print_json, print_rows, print_table, save_figure, write_csv
from onehead.cli.rendering.terminal import note, print_lines
from onehead.errors import InvalidArgument, SolveError
from onehead.numerics.interrupts import interrupt_count
from onehead.results import Result

PICTURE_ENDINGS = (".png", ".pdf", ".svg")
OUTPUT_FLAGS = ("csv_file", "plot")
Rows = Sequence[Mapping[str, Any]]

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")


@dataclass(frozen=True, kw_only=True)
class CommandResult:
    """What a command found, in the forms in which it can be rendered.

    Parameters
    ----------
    value : dict or list of dict
        What ``--json`` prints.
    columns : dict of str or list of str
        Keys of the table; for a table of one object, with the meaning of each.
    title : str
        Title of the table.
    table : dict or list of dict, optional
        What the table shows, if it is not ``value``.
    rows : list of dict, optional
        What ``--csv`` writes, if it is not ``value``.
    draw : callable, optional
        Returns the axes of ``--plot``; called only if the flag is given. It prints why and returns None if it
        cannot draw.
    text : str
        Printed in place of the table.
    notes : list of str
        Printed on standard error in any case.
    warnings : list of str
        Printed on standard error below a table; JSON contains them already.
    failure : str
        Describes a part that failed; the command raises it as an error after everything else is rendered.
    """

    value: Mapping[str, Any] | Rows
    columns: Mapping[str, str] | Sequence[str]
    title: str = ""
    table: Mapping[str, Any] | Rows | None = None
    rows: Rows | None = None
    draw: Callable[[], Any] | None = None
    text: str = ""
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    failure: str = ""

    @classmethod
    def of(
        cls,
        result: Result,
        meanings: Mapping[str, str | None] | None = None,
        *,
        table: Mapping[str, Any] | None = None,
        explain: bool = False,
        kind: bool = False,
        **attributes: Any,
    ) -> Self:
        """Command result of one result of the library: its numbers, with their errors, and their meanings.

        ``meanings`` adds to those of the result or replaces them; None leaves a number out. ``table`` replaces
        values in the table. ``explain`` prints the explanation in its place. ``kind`` adds the status with the kind of
        truth as its meaning. Warnings are those of the certificate unless they are given.
        """
        status = {"status": f"kind of truth: {result.kind}"} if kind else {}
        row, all_meanings = result.to_dict(), {**result.shown_meanings, **(meanings or {}), **status}
        columns = {name: meaning for name, meaning in all_meanings.items() if meaning is not None}
        with_errors = {
            name: f"{row[name]:.6g} ± {row[f'{name}_err']:.1g}"
            for name in columns
            if isinstance(row.get(name), float) and row.get(f"{name}_err")
        }
        texts = {"text": result.explain() if explain else "", "warnings": row.get("warnings") or ()}
        shown = {**row, **with_errors, **(table or {})}
        return cls(value=row, table=shown, columns=columns, **{**texts, **attributes})

    @classmethod
    def of_points(cls, result: Any, columns: Sequence[str], *, item: str = "points", **attributes: Any) -> Self:
        """Command result of a curve or a map, with a summary of the warnings and failures of its points."""
        return cls(
            value=result.to_rows(),
            columns=columns,
            warnings=_summarise_warnings(result, item),
            failure=summarise_failures(result, item),
            **attributes,
        )


def output_options(*, csv_rows: bool = True, picture: bool = True) -> Callable[[Callable[..., CommandResult]], Any]:
    """Add ``--json``, ``--csv`` and ``--plot`` to a function that returns a `CommandResult`.

    Output files are checked before the function is called.
    """

    def decorate(function: Callable[..., CommandResult]) -> Any:
        @wraps(function)
        def call(*, as_json: bool, csv_file: str | None = None, plot: str | None = None, **flags: Any) -> None:
            check_outputs(csv_file, plot)
            before = interrupt_count()
            result = function(**flags)
            render(result, as_json=as_json, csv_file=csv_file, plot=plot, interrupted=interrupt_count() > before)

        decorated: Any = call
        if picture:
            decorated = click.option("--plot", metavar="FILE", help="Draw a picture (.png, .pdf or .svg).")(decorated)
        if csv_rows:
            decorated = click.option("--csv", "csv_file", metavar="FILE", help="Write the rows to a CSV file.")(
                decorated
            )
        return json_option(decorated)

    return decorate


def render(
    result: CommandResult, *, as_json: bool, csv_file: str | None, plot: str | None, interrupted: bool = False
) -> None:
    """Write, draw and print what the flags ask for.

    After Ctrl-C only finished rows are printed; they are written to a file of another name, and nothing is drawn.
    """
    for text in result.notes:
        note(f"note: {text}")
    if interrupted:
        _render_finished(result, as_json, csv_file)
        raise click.exceptions.Exit(INTERRUPTED)
    if csv_file is not None:
        write_csv(csv_file, _as_rows(result.value if result.rows is None else result.rows))
    if plot is not None and result.draw is not None and (axes := result.draw()) is not None:
        save_figure(plot, axes)
    _print(result, as_json)
    if result.failure:
        raise SolveError(result.failure)


def _render_finished(result: CommandResult, as_json: bool, csv_file: str | None) -> None:
    """Print the rows finished before Ctrl-C; they do not replace a file of an earlier, complete run."""
    rows = _finished_rows(result.value if result.rows is None else result.rows)
    single = isinstance(result.value, Mapping)  # one object, which says itself how far it came
    if rows or single:
        table = (
            result.table if result.table is None or isinstance(result.table, Mapping) else _finished_rows(result.table)
        )
        _print(replace(result, value=result.value if single else rows, table=table), as_json)
    summary = f"{len(rows)} finished rows, no file was written"
    if rows and csv_file is not None:
        partial = Path(csv_file).with_suffix(f".partial{Path(csv_file).suffix}")
        write_csv(str(partial), rows)
        summary = f"{len(rows)} finished rows are in {partial}, not in {csv_file}"
    note(f"onehead: interrupted; {summary}.")


def _finished_rows(value: Mapping[str, Any] | Rows) -> Rows:
    """Rows whose status does not say that they were interrupted."""
    return [row for row in _as_rows(value) if "interrupted" not in str(row.get("status", ""))]


def _print(result: CommandResult, as_json: bool) -> None:
    """Print JSON, the explanation, or a table with its warnings."""
    if as_json:
        print_json(result.value)
    elif result.text:
        print_lines(*result.text.splitlines())
    else:
        _print_table(result)
        for text in result.warnings:
            note(f"note: {text}.")


def _print_table(result: CommandResult) -> None:
    """Print a table: with meanings for one object, with one line per row for many."""
    table = result.value if result.table is None else result.table
    if isinstance(table, Mapping) and isinstance(result.columns, Mapping):
        print_table([(key, table.get(key), meaning) for key, meaning in result.columns.items()], result.title)
    else:
        print_rows(_as_rows(table), list(result.columns), result.title)


def _as_rows(value: Mapping[str, Any] | Rows) -> Rows:
    return [value] if isinstance(value, Mapping) else value


def check_outputs(csv_file: str | None, plot: str | None) -> None:
    """Refuse output files that cannot be written, or that the command reads, before any work is done."""
    arguments = [
        argument
        for name, value in click.get_current_context().params.items()
        if name not in OUTPUT_FLAGS
        for argument in (value if isinstance(value, tuple) else (value,))
    ]
    inputs = [file for argument in arguments if isinstance(argument, str) for file in _possible_inputs(argument)]
    if csv_file is not None:
        check_file("--csv", csv_file, never=inputs)
    if plot is not None:
        check_file("--plot", plot, endings=PICTURE_ENDINGS, never=inputs)
    if csv_file is not None and plot is not None and Path(csv_file).resolve() == Path(plot).resolve():
        raise InvalidArgument("--plot", plot, "another file than that of --csv")


def _possible_inputs(argument: str) -> list[str | Path]:
    """Files that an argument may name: itself, and the parts of a checkpoint."""
    folder = Path(argument).parent if argument.endswith(".index.json") else Path(argument)
    return [argument, *folder.glob("*.safetensors"), *folder.glob("*.json")]


def _summarise_warnings(result: Any, item: str) -> list[str]:
    """One sentence on how many points have a warning, and the first warning; empty if there is none."""
    warnings = [text for row in result.to_rows() for text in row.get("warnings", ())[:1]]
    if not warnings:
        return []
    return [f"{len(warnings)} of {len(result)} {item} carry a note, which --json holds; the first: {warnings[0]}"]


def summarise_failures(result: Any, item: str = "points") -> str:
    """Sentence on the points of a result that failed; empty if there are none."""
    if not result.failures:
        return ""
    first = result.failures[0]
    reason = getattr(first, "reason", None) or first.status
    return f"{len(result.failures)} of {len(result)} {item} failed; the first: {reason}"
