"""``onehead figures``: every figure of the two papers, and our own."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from onehead.cli.frame import json_option
from onehead.cli.groups import Guide
from onehead.cli.main import INTERRUPTED
from onehead.cli.output import bar, note, print_json, print_rows, say
from onehead.errors import InvalidArgument
from onehead.files import check_folder

if TYPE_CHECKING:
    from onehead.figures.make import Made
    from onehead.sweep import Counts

__all__ = ["command"]

CHECKPOINT = "out/minilm"


@click.group(cls=Guide)
def command() -> None:
    """Every figure of the two papers, theory and training.

    Begin with: onehead figures list; onehead figures make aim-learning-curve --quick --out out
    """


@command.command("list")
@json_option
def list_(as_json: bool) -> None:
    """Names, one line each, and the time on two cores with and without --quick.

    Example: onehead figures list
    """
    from onehead.figures import figures

    told = ("name", "title", "source", "seconds_quick", "seconds_full")
    rows: list[dict[str, Any]] = [{key: getattr(one, key) for key in told} for one in figures()]
    if as_json:
        print_json(rows)
        return
    print_rows(rows, ("name", "seconds_quick", "seconds_full", "source", "title"))
    quick, full = (sum(row[key] for row in rows) / 60.0 for key in ("seconds_quick", "seconds_full"))
    say(f"On two cores {quick:.0f} minutes in all with --quick, {full:.0f} without.")


@command.command()
@click.argument("names", nargs=-1, metavar="NAME...")
@click.option("--quick", is_flag=True, help="Small dimensions and few seeds: all figures in ten minutes.")
@click.option("--theory", is_flag=True, help="Theory alone, no training; with --quick all figures in two minutes.")
@click.option("--out", required=True, metavar="DIR", help="Folder for the files; its store keeps every number.")
@click.option(
    "--checkpoint", metavar="FILE", help=f"Weights for own-checkpoint.  [default: those in {CHECKPOINT}, if any]"
)
@json_option
def make(names: tuple[str, ...], quick: bool, theory: bool, out: str, checkpoint: str | None, as_json: bool) -> None:
    """Make figures: a picture (PNG and PDF), its data (CSV), parameters and versions (JSON) each.

    Example: onehead figures make all --quick --out out/figures
    """
    from onehead.figures import NAMES
    from onehead.figures import make as make_figures
    from onehead.figures.registry import chosen

    if not names:
        raise InvalidArgument("NAME", "nothing", f"all or one of {', '.join(NAMES)}")
    check_folder("--out", out)
    if checkpoint is not None and not Path(checkpoint).exists():
        raise InvalidArgument("--checkpoint", checkpoint, "a file or folder that exists")
    if checkpoint is None:  # where `make weights-demo` put one
        checkpoint = next((str(file) for file in sorted(Path(CHECKPOINT).rglob("*.safetensors"))), None)
    finished: list[Made] = []
    total = len(chosen(names))
    try:
        with bar() as (show, say):

            def step(figure: str, sweep: str, counts: "Counts") -> None:
                show(f"figure {len(finished) + 1} of {total}, {figure}: {sweep}", counts)

            def told(one: "Made") -> None:
                finished.append(one)
                say(f"{one.name}: {one.points} points, {one.seconds:.1f} s")

            made = make_figures(
                names, out, quick=quick, theory=theory, checkpoint=checkpoint, progress=step, on_figure=told
            )
    except KeyboardInterrupt:
        note(f"onehead: interrupted; every finished point is kept in {out}; run the same command to go on.")
        raise click.exceptions.Exit(INTERRUPTED) from None
    for one in made:
        if one.failed:
            note(f"note: {one.name}: {len(one.failed)} points failed, the first: {one.failed[0]}")
    if as_json:
        rows = [
            {
                "name": one.name,
                "paths": [str(path) for path in one.paths],
                "seconds": one.seconds,
                "points": one.points,
                "failed": len(one.failed),
            }
            for one in made
        ]
        print_json(rows)
        return
    for one in made:
        say(str(one.paths[0]))
