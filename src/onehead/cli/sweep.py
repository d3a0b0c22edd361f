"""``onehead sweep``: sweeps from files, their stores and exports."""

from dataclasses import asdict
from typing import Any

import click

from onehead.atomic_io import check_file
from onehead.cli.main import INTERRUPTED
from onehead.cli.parsing.groups import OrderedGroup
from onehead.cli.parsing.values import Choice, flag_of
from onehead.cli.rendering.output import format_duration, print_json, print_rows, spinner, sweep_progress
from onehead.cli.rendering.render import json_option
from onehead.cli.rendering.terminal import note, print_lines
from onehead.fields import parameters_of
from onehead.numerics.parallel import cores
from onehead.sweep import Counts, Store, Table, read_spec
from onehead.sweep.api import executor_for, solved_sweep
from onehead.sweep.estimate import estimate
from onehead.sweep.examples import example as example_text
from onehead.sweep.executors import EXECUTORS, RunSettings
from onehead.sweep.executors.slurm import Slurm
from onehead.sweep.export import select_columns, write_csv, write_parquet
from onehead.sweep.spec import DEFAULT_POINT_LIMIT
from onehead.sweep.storage.lock import store_files

PARAMETERS = parameters_of(RunSettings, *(entry.settings for entry in EXECUTORS.values()))

limit_option = flag_of(PARAMETERS["limit"], default=f"{DEFAULT_POINT_LIMIT}, or the limit in the file")
store_option = click.option("--store", required=True, metavar="FILE", help="Store of the sweep.")


@click.group(cls=OrderedGroup)
def command() -> None:
    """Run many points on this machine or on a cluster; every finished one survives Ctrl-C and kill -9.

    Begin with: onehead sweep example > sweep.toml; onehead sweep run sweep.toml --store sweep.db
    """


@command.command()
@click.argument("name", default="learning-curve")
def example(name: str) -> None:
    """Print a working sweep file: learning-curve, training, zip, spectra, sparse or cluster."""
    print_lines(*example_text(name).splitlines())


@command.command()
@click.argument("spec")
@limit_option
@json_option
def check(spec: str, limit: int | None, as_json: bool) -> None:
    """Check a sweep file, count its points and estimate the time from a few of them.

    Example: onehead sweep check sweep.toml
    """
    read = read_spec(spec, limit=limit)
    with spinner("solving a few points"):
        found = estimate(read)
    workers = min(read.run.get("workers", cores()), cores())  # more processes than cores do not solve points faster
    if as_json:
        trials = asdict(found)
        failed = trials.pop("failed")
        times = {"seconds_inline": found.seconds, "seconds_local": found.seconds_on(workers), "cores": cores()}
        print_json({"call": read.call, **trials, **times, "workers": workers, "failed": failed})
        return
    print_lines(f"{spec}: {found.points} points of {read.call}")
    print_lines(
        f"about {format_duration(found.seconds)} inline, {format_duration(found.seconds_on(workers))} on {workers} "
        f"local process{'' if workers == 1 else 'es'}: "
        f"{found.seconds_per_point:.3g} s a point, {found.slowest:.3g} s the slowest of {found.tried} tried"
        + (
            ""
            if found.tried_dim is None
            else f", extrapolated from dimension {found.tried_dim} as d^{read.solver.growth}"
        )
    )
    for reason in found.failed:
        note(f"note: one of the points tried fails: {reason}")


@command.command()
@click.argument("spec")
@click.option("--store", required=True, metavar="FILE", help="File that keeps every finished point.")
@flag_of(PARAMETERS["on"], default="inline, or as given in the file")
@flag_of(PARAMETERS["workers"])
@flag_of(PARAMETERS["address"], metavar="ADDR")
@click.option("--retry", is_flag=True, help="Solve failed points again.")
@click.option(
    "--on-error", type=Choice("keep", "stop"), default="keep", show_default=True, help="What to do when a point fails."
)
@flag_of(PARAMETERS["partition"])
@flag_of(PARAMETERS["time"], metavar="HH:MM:SS")
@flag_of(PARAMETERS["cores"])
@flag_of(PARAMETERS["memory"], metavar="SIZE")
@flag_of(PARAMETERS["jobs"])
@limit_option
@click.option("--dry-run", is_flag=True, help="Print the SLURM job script and stop.")
@json_option
def run(spec: str, store: str, limit: int | None, dry_run: bool, as_json: bool, **settings: Any) -> None:
    """Solve the missing points of a sweep; points that the store holds already are not solved again.

    Example: onehead sweep run sweep.toml --store sweep.db --on local
    """
    read = read_spec(spec, limit=limit)
    if dry_run:
        executor = executor_for(read, **{**settings, "on": "slurm"})
        assert isinstance(executor, Slurm)
        script = executor.script()
        print_json({"script": script}) if as_json else print_lines(*script.splitlines())
        return
    last: list[Counts] = []
    try:
        with sweep_progress() as (update, _):

            def progress(counts: Counts) -> None:
                last[:] = [counts]
                update(read.call, counts)

            with solved_sweep(read, store, **settings, progress=progress) as (opened, number):
                counts = opened.counts(number)
                first = next((row["reason"] for row in opened.rows(number) if row["state"] == "failed"), None)
    except KeyboardInterrupt:
        kept = f"{last[0].finished} of {last[0].total} points are" if last else "every finished point is"
        note(f"onehead: interrupted; {kept} kept in {store}; run the same command to go on.")
        raise click.exceptions.Exit(INTERRUPTED) from None
    if as_json:
        print_json(counts)
    else:
        print_lines(f"done {counts.done}, failed {counts.failed}, missing {counts.missing}")
    if first is not None:
        points = "1 point" if counts.failed == 1 else f"{counts.failed} points"
        note(f"note: {points} failed, the first: {first} Use --retry to solve them again.")


@command.command()
@store_option
@json_option
def status(store: str, as_json: bool) -> None:
    """Progress of the latest sweep of a store, also while it runs in another shell.

    Example: onehead sweep status --store sweep.db
    """
    with Store.reading(store) as opened:
        number, about = opened.latest()
        counts = opened.counts(number)
        row = {**asdict(counts), "running": opened.running(), "stored": opened.stored(), **about}
    if as_json:
        print_json(row)
        return
    where = f"running as process {row['process']} on {row['host']}" if row["running"] else "not running"
    print_lines(f"done {counts.done}, failed {counts.failed}, missing {counts.missing}; {where}")
    print_lines(f"{row.get('call')}, started {row.get('started_at')}; {row['stored']} rows in the store")


@command.command()
@store_option
@click.option("--csv", "csv_file", metavar="FILE", help="Write a CSV file.")
@click.option("--parquet", "parquet_file", metavar="FILE", help="Write a Parquet file.")
@click.option("--columns", metavar="NAMES", help="Columns to write, with commas; all of them if not given.")
@click.option("--json", "as_json", is_flag=True, help="Print the rows as JSON.")
def export(store: str, csv_file: str | None, parquet_file: str | None, columns: str | None, as_json: bool) -> None:
    """Write one tidy row per point: parameters, results, standard errors, certificate, version, duration.

    Example: onehead sweep export --store sweep.db --csv sweep.csv --columns alpha,test_error
    """
    for flag, file in (("--csv", csv_file), ("--parquet", parquet_file)):
        if file is not None:
            check_file(flag, file, never=store_files(store))
    with Store.reading(store) as opened:
        rows = list(opened.rows())
    if columns is not None:
        rows = select_columns(rows, [name.strip() for name in columns.split(",")])
    if csv_file is not None:
        note(f"wrote {csv_file}, {write_csv(csv_file, rows)} rows")
    if parquet_file is not None:
        note(f"wrote {parquet_file}, {write_parquet(parquet_file, rows)} rows")
    if as_json:
        print_json(rows)
    elif csv_file is None and parquet_file is None:
        print_rows(rows, list(rows[0]) if columns and rows else [*Table(rows).telling, "status"])
