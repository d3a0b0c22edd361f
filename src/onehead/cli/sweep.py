"""``onehead sweep``: many points that survive, from a file."""

from dataclasses import asdict
from typing import Any

import click

from onehead.cli.frame import json_option
from onehead.cli.groups import Guide
from onehead.cli.main import INTERRUPTED
from onehead.cli.output import bar, note, print_json, print_rows, say, span, working
from onehead.cli.values import Word, flag_of
from onehead.fields import words_of
from onehead.files import check_file
from onehead.numerics.parallel import cores
from onehead.sweep import Counts, Store, Table, read_spec
from onehead.sweep.api import executor_for, solved
from onehead.sweep.estimate import estimate
from onehead.sweep.examples import example as example_text
from onehead.sweep.executors import PLACES, Run
from onehead.sweep.executors.slurm import Slurm
from onehead.sweep.export import write_csv, write_parquet
from onehead.sweep.lock import companions
from onehead.sweep.spec import POINTS

__all__ = ["command"]

WORDS = words_of(Run, *(place.needs for place in PLACES.values()))

limit_option = flag_of(WORDS["limit"], default=f"{POINTS}, or as the file says")
store_option = click.option("--store", required=True, metavar="FILE", help="Store of the sweep.")


@click.group(cls=Guide)
def command() -> None:
    """Many points that survive Ctrl-C and kill -9, on this machine or on a cluster.

    Begin with: onehead sweep example > sweep.toml; onehead sweep run sweep.toml --store sweep.db
    """


@command.command()
@click.argument("name", default="learning-curve")
def example(name: str) -> None:
    """Print a working sweep file: learning-curve, training, zip, spectra, sparse or cluster."""
    say(*example_text(name).splitlines())


@command.command()
@click.argument("spec")
@limit_option
@json_option
def check(spec: str, limit: int | None, as_json: bool) -> None:
    """Check a sweep file, count its points and estimate the time from a few of them.

    Example: onehead sweep check sweep.toml
    """
    read = read_spec(spec, limit=limit)
    with working("solving a few points"):
        found = estimate(read)
    if as_json:
        tried = asdict(found)
        failed = tried.pop("failed")
        times = {"seconds_inline": found.seconds, "seconds_local": found.seconds_on(cores()), "cores": cores()}
        print_json({"call": read.call, **tried, **times, "failed": failed})
        return
    say(f"{spec}: {found.points} points of {read.call}")
    say(
        f"about {span(found.seconds)} inline, {span(found.seconds_on(cores()))} on {cores()} local processes: "
        f"{found.seconds_per_point:.3g} s a point, {found.slowest:.3g} s the slowest of {found.tried} tried"
        + ("" if found.tried_dim is None else f", from dimension {found.tried_dim} on as d^{read.solver.growth}")
    )
    for reason in found.failed:
        note(f"note: a point that was tried fails: {reason}")


@command.command()
@click.argument("spec")
@click.option("--store", required=True, metavar="FILE", help="File that keeps every finished point.")
@flag_of(WORDS["on"], default="inline, or as the file says")
@flag_of(WORDS["workers"])
@flag_of(WORDS["address"], metavar="ADDR")
@click.option("--retry", is_flag=True, help="Solve failed points again.")
@click.option("--on-error", type=Word("keep", "stop"), default="keep", show_default=True, help="When a point fails.")
@flag_of(WORDS["partition"])
@flag_of(WORDS["time"], metavar="HH:MM:SS")
@flag_of(WORDS["cores"])
@flag_of(WORDS["memory"], metavar="SIZE")
@flag_of(WORDS["jobs"])
@limit_option
@click.option("--dry-run", is_flag=True, help="Print the SLURM job script and stop.")
@json_option
def run(spec: str, store: str, limit: int | None, dry_run: bool, as_json: bool, **asked: Any) -> None:
    """Solve what is missing of a sweep; what the store holds already is never solved again.

    Example: onehead sweep run sweep.toml --store sweep.db --on local
    """
    read = read_spec(spec, limit=limit)
    if dry_run:
        executor = executor_for(read, **{**asked, "on": "slurm"})
        assert isinstance(executor, Slurm)
        script = executor.script()
        print_json({"script": script}) if as_json else say(*script.splitlines())
        return
    last: list[Counts] = []
    try:
        with bar() as (show, _):

            def progress(counts: Counts) -> None:
                last[:] = [counts]
                show(read.call, counts)

            with solved(read, store, **asked, progress=progress) as (opened, number):
                counts = opened.counts(number)
                first = next((row["reason"] for row in opened.rows(number) if row["state"] == "failed"), None)
    except KeyboardInterrupt:
        kept = f"{last[0].finished} of {last[0].total} points are" if last else "every finished point is"
        note(f"onehead: interrupted; {kept} kept in {store}; run the same command to go on.")
        raise click.exceptions.Exit(INTERRUPTED) from None
    if as_json:
        print_json(counts)
    else:
        say(f"done {counts.done}, failed {counts.failed}, missing {counts.missing}")
    if first is not None:
        note(f"note: {counts.failed} points failed, the first: {first} Use --retry to solve them again.")


@command.command()
@store_option
@json_option
def status(store: str, as_json: bool) -> None:
    """How far the latest sweep of a store is; may be asked from another shell while it runs.

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
    say(f"done {counts.done}, failed {counts.failed}, missing {counts.missing}; {where}")
    say(f"{row.get('call')}, started {row.get('started_at')}; {row['stored']} rows in the store")


@command.command()
@store_option
@click.option("--csv", "csv_file", metavar="FILE", help="Write a CSV file.")
@click.option("--parquet", "parquet_file", metavar="FILE", help="Write a Parquet file.")
@click.option("--json", "as_json", is_flag=True, help="Print the rows as JSON.")
def export(store: str, csv_file: str | None, parquet_file: str | None, as_json: bool) -> None:
    """One tidy row per point: parameters, results, standard errors, certificate, version, duration.

    Example: onehead sweep export --store sweep.db --csv sweep.csv
    """
    for flag, file in (("--csv", csv_file), ("--parquet", parquet_file)):
        if file is not None:
            check_file(flag, file, never=companions(store))
    with Store.reading(store) as opened:
        rows = list(opened.rows())
    if csv_file is not None:
        note(f"wrote {csv_file}, {write_csv(csv_file, rows)} rows")
    if parquet_file is not None:
        note(f"wrote {parquet_file}, {write_parquet(parquet_file, rows)} rows")
    if as_json:
        print_json(rows)
    elif csv_file is None and parquet_file is None:
        print_rows(rows, [*Table(rows).telling, "status"])
