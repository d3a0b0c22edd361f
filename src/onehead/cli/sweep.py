"""``onehead sweep``: many points that survive, from a file."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from onehead.cli.groups import Guide
from onehead.cli.output import console, note, print_json, print_rows, working
from onehead.cli.values import Whole, Word
from onehead.errors import InvalidArgument

if TYPE_CHECKING:
    from onehead.sweep import Counts, Executor, Spec
    from onehead.sweep.slurm import Slurm

__all__ = ["command"]

PLACES = ("inline", "local", "dask", "slurm")
INTERRUPTED = 130


@click.group(cls=Guide, context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Many points that survive Ctrl-C and kill -9, on this machine or on a cluster.

    Begin with: onehead sweep example > sweep.toml; onehead sweep run sweep.toml --store sweep.db
    """


@command.command()
@click.argument("name", default="learning-curve")
def example(name: str) -> None:
    """Print a working sweep file: learning-curve, training, zip, spectra, sparse or cluster."""
    from onehead.sweep.examples import example as text

    click.echo(text(name), nl=False)


@command.command()
@click.argument("spec")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def check(spec: str, as_json: bool) -> None:
    """Check a sweep file, count its points and estimate the time from a few of them.

    Example: onehead sweep check sweep.toml
    """
    from onehead.sweep.estimate import estimate
    from onehead.sweep.local import cores
    from onehead.sweep.spec import read_spec

    read = read_spec(spec)
    with working("solving a few points"):
        found = estimate(read)
    row = {
        "call": read.call,
        "points": found.points,
        "tried": found.tried,
        "seconds_per_point": found.seconds_per_point,
        "slowest": found.slowest,
        "seconds_inline": found.seconds,
        "seconds_local": found.seconds / cores(),
        "cores": cores(),
        "failed": list(found.failed),
    }
    if as_json:
        print_json(row)
        return
    click.echo(f"{spec}: {found.points} points of {read.call}")
    click.echo(
        f"about {_span(found.seconds)} inline, {_span(found.seconds / cores())} on {cores()} local processes: "
        f"{found.seconds_per_point:.3g} s a point, {found.slowest:.3g} s the slowest of {found.tried} tried"
    )
    for reason in found.failed:
        note(f"note: a point that was tried fails: {reason}")


@command.command()
@click.argument("spec")
@click.option("--store", required=True, metavar="FILE", help="File that keeps every finished point.")
@click.option("--on", type=Word(*PLACES), help="Where to solve.  [inline, or as the file says]")
@click.option("--workers", type=Whole(1), help="Processes of 'local'.  [all cores]")
@click.option("--address", metavar="ADDR", help="Dask scheduler, for example tcp://127.0.0.1:8786.")
@click.option("--retry", is_flag=True, help="Solve failed points again.")
@click.option("--on-error", type=Word("keep", "stop"), default="keep", show_default=True, help="When a point fails.")
@click.option("--partition", help="SLURM partition.")
@click.option("--time", "time_", metavar="HH:MM:SS", help="Time limit of a SLURM job.  [01:00:00]")
@click.option("--cores", type=Whole(1), help="Cores of a SLURM job, one worker each.  [1]")
@click.option("--memory", metavar="SIZE", help="Memory of a SLURM job.  [2GB]")
@click.option("--jobs", type=Whole(1), help="SLURM jobs.  [1]")
@click.option("--dry-run", is_flag=True, help="Print the SLURM job script and stop.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def run(
    spec: str,
    store: str,
    on: str | None,
    workers: int | None,
    address: str | None,
    retry: bool,
    on_error: str,
    time_: str | None,
    dry_run: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Solve what is missing of a sweep; what the store holds already is never solved again.

    Example: onehead sweep run sweep.toml --store sweep.db --on local
    """
    from onehead.sweep.run import drive
    from onehead.sweep.spec import read_spec
    from onehead.sweep.store import Store

    read = read_spec(spec)
    asked = {"time": time_, **flags}
    if dry_run:
        script = _slurm(read, asked).script()
        print_json({"script": script}) if as_json else click.echo(script, nl=False)
        return
    executor = _executor(read, on, workers, address, asked)
    last: list[Counts] = []
    try:
        with Store.writing(store) as opened, _bar(read.call) as show:

            def progress(counts: "Counts") -> None:
                last[:] = [counts]
                show(counts)

            number = drive(read, opened, executor, retry=retry, on_error=on_error, progress=progress)
            counts = opened.counts(number)
            first = next((row["reason"] for row in opened.rows(number) if row["state"] == "failed"), None)
    except KeyboardInterrupt:
        kept = f"{last[0].done + last[0].failed} of {last[0].total} points are" if last else "every finished point is"
        note(f"onehead: interrupted; {kept} kept in {store}; run the same command to go on.")
        raise click.exceptions.Exit(INTERRUPTED) from None
    if as_json:
        print_json(counts)
    else:
        click.echo(f"done {counts.done}, failed {counts.failed}, missing {counts.missing}")
    if first is not None:
        note(f"note: {counts.failed} points failed, the first: {first} Use --retry to solve them again.")


def _executor(
    spec: "Spec", on: str | None, workers: int | None, address: str | None, asked: dict[str, Any]
) -> "Executor":
    """The place to solve in: flags first, then the file."""
    place = on or spec.run.get("on", "dask" if address else "inline")
    if place not in PLACES:
        raise InvalidArgument("on", place, " or ".join(PLACES))
    if place == "inline":
        from onehead.sweep.executors import Inline

        return Inline()
    if place == "local":
        from onehead.sweep.local import Local

        return Local(workers or spec.run.get("workers"))
    if place == "slurm":
        return _slurm(spec, asked)
    from onehead.sweep.dask import Dask

    address = address or spec.run.get("address")
    if address is None:
        raise InvalidArgument("--address", None, "given with --on dask: the address of a Dask scheduler")
    return Dask(address)


def _slurm(spec: "Spec", asked: dict[str, Any]) -> "Slurm":
    from onehead.sweep.slurm import Jobs, Slurm

    return Slurm(Jobs(**{**spec.slurm, **{name: value for name, value in asked.items() if value is not None}}))


@command.command()
@click.option("--store", required=True, metavar="FILE", help="Store of the sweep.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def status(store: str, as_json: bool) -> None:
    """How far the latest sweep of a store is; may be asked from another shell while it runs.

    Example: onehead sweep status --store sweep.db
    """
    from onehead.sweep.store import Store

    with Store.reading(store) as opened:
        number, about = opened.latest()
        counts = opened.counts(number)
        row = {
            "done": counts.done,
            "failed": counts.failed,
            "missing": counts.missing,
            "running": opened.running(),
            "stored": opened.stored(),
            **about,
        }
    if as_json:
        print_json(row)
        return
    where = f"running as process {row['process']} on {row['host']}" if row["running"] else "not running"
    click.echo(f"done {counts.done}, failed {counts.failed}, missing {counts.missing}; {where}")
    click.echo(f"{row.get('call')}, started {row.get('started_at')}; {row['stored']} rows in the store")


@command.command()
@click.option("--store", required=True, metavar="FILE", help="Store of the sweep.")
@click.option("--csv", "csv_file", metavar="FILE", help="Write a CSV file.")
@click.option("--parquet", "parquet_file", metavar="FILE", help="Write a Parquet file.")
@click.option("--json", "as_json", is_flag=True, help="Print the rows as JSON.")
def export(store: str, csv_file: str | None, parquet_file: str | None, as_json: bool) -> None:
    """One tidy row per point: parameters, results, standard errors, certificate, version, duration.

    Example: onehead sweep export --store sweep.db --csv sweep.csv
    """
    from onehead.sweep.export import write_csv, write_parquet
    from onehead.sweep.store import Store
    from onehead.sweep.table import Table

    with Store.reading(store) as opened:
        rows = list(opened.rows())
    if csv_file:
        note(f"wrote {csv_file}, {write_csv(csv_file, rows)} rows")
    if parquet_file:
        note(f"wrote {parquet_file}, {write_parquet(parquet_file, rows)} rows")
    if as_json:
        print_json(rows)
    elif not csv_file and not parquet_file:
        print_rows(rows, [*Table(rows).telling, "status"])


@contextmanager
def _bar(title: str) -> Iterator[Callable[["Counts"], None]]:
    """A progress bar on standard error: points, rate, time left, failures."""
    if not sys.stderr.isatty():  # nobody watches
        yield lambda counts: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[told]}"))
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None, told="")
        begun: list[tuple[float, int]] = []  # when this run began, and with how many finished points

        def show(counts: "Counts") -> None:
            finished, now = counts.done + counts.failed, time.monotonic()
            if not begun:
                begun.append((now, finished))
            rate = (finished - begun[0][1]) / max(now - begun[0][0], 1e-3)
            told = f"{rate:.3g}/s, {_span(counts.missing / rate)} left" if rate else ""
            told += f", {counts.failed} failed" if counts.failed else ""
            bar.update(task, total=counts.total, completed=finished, told=told)

        yield show


def _span(seconds: float) -> str:
    """A time as a person would say it."""
    for name, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2.0 * length:
            return f"{seconds / length:.3g} {name}"
    return f"{seconds:.2g} seconds"
