"""``onehead figures``: every figure of the two papers, and more of our own."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from onehead.atomic_io import check_folder
from onehead.cli.main import INTERRUPTED
from onehead.cli.parsing.groups import OrderedGroup
from onehead.cli.rendering.output import print_json, print_rows, sweep_progress
from onehead.cli.rendering.render import json_option
from onehead.cli.rendering.terminal import note, print_lines
from onehead.errors import InvalidArgument

if TYPE_CHECKING:
    from onehead.figures.make import Made
    from onehead.sweep import Counts

CHECKPOINT = "out/minilm"


@click.group(cls=OrderedGroup)
def command() -> None:
    """Every figure of the two papers, theory and training.

    Begin with: onehead figures list; onehead figures make aim-learning-curve --quick --out out
    """


@command.command("list")
@json_option
def list_(as_json: bool) -> None:
    """Names and titles of the figures, and their times on two cores with and without --quick.

    Example: onehead figures list
    """
    from onehead.figures import figures
    from onehead.figures.registry import total_minutes

    keys = ("name", "title", "source", "seconds_quick", "seconds_full")
    rows: list[dict[str, Any]] = [{key: getattr(one, key) for key in keys} for one in figures()]
    if as_json:
        print_json(rows)
        return
    print_rows(rows, ("name", "seconds_quick", "seconds_full", "source", "title"))
    quick, full = total_minutes(quick=True), total_minutes(quick=False)
    print_lines(f"On two cores {quick} minutes in all with --quick, {full} without.")


@command.command()
@click.argument("names", nargs=-1, metavar="NAME...")
@click.option("--quick", is_flag=True, help="Small dimensions and few seeds; 'figures list' shows the times.")
@click.option("--theory", is_flag=True, help="Theory only, no training.")
@click.option("--out", required=True, metavar="DIR", help="Folder for the files and for the store of computed points.")
@click.option(
    "--checkpoint", metavar="FILE", help=f"Weights for own-checkpoint.  [default: those in {CHECKPOINT}, if any]"
)
@click.option(
    "--set", "settings", multiple=True, metavar="PARAMETER=VALUE", help="Change a parameter of the figure; repeatable."
)
@json_option
def make(
    names: tuple[str, ...],
    quick: bool,
    theory: bool,
    out: str,
    checkpoint: str | None,
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Make figures, each as a picture (PNG and PDF), data (CSV), and parameters and versions (JSON).

    Example: onehead figures make all --quick --out out/figures
    """
    from onehead.figures import NAMES
    from onehead.figures import make as make_figures
    from onehead.figures.registry import select_figures

    if not names:
        raise InvalidArgument("NAME", "nothing", f"all or one of {', '.join(NAMES)}")
    check_folder("--out", out)
    changes = _parse_changes(names, settings)
    if checkpoint is not None and not Path(checkpoint).exists():
        raise InvalidArgument("--checkpoint", checkpoint, "a file or folder that exists")
    if checkpoint is None:  # downloaded by `make weights-demo`
        checkpoint = next((str(file) for file in sorted(Path(CHECKPOINT).rglob("*.safetensors"))), None)
    finished: list[Made] = []
    total = len(select_figures(names))
    try:
        with sweep_progress() as (update, print_above):

            def step(figure: str, sweep: str, counts: "Counts") -> None:
                update(f"figure {len(finished) + 1} of {total}, {figure}: {sweep}", counts)

            def on_figure(one: "Made") -> None:
                finished.append(one)
                print_above(f"{one.name}: {one.points} points, {one.seconds:.1f} s")

            made = make_figures(
                names,
                out,
                quick=quick,
                theory=theory,
                checkpoint=checkpoint,
                changes=changes,
                progress=step,
                on_figure=on_figure,
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
        print_lines(str(one.paths[0]))


def _parse_changes(names: tuple[str, ...], settings: tuple[str, ...]) -> dict[str, Any]:
    """Parse the values of ``--set`` with the checks of the flags of the same names."""
    from onehead.aim.flat_parameters import PARAMETERS
    from onehead.cli.parsing.values import type_of
    from onehead.fields import parameters_of
    from onehead.sparse.task import Protocol
    from onehead.sparse.task import Task as SparseTask

    signal = {**parameters_of(SparseTask), **parameters_of(Protocol)}
    known = signal if names and all(name.startswith("sparse-") for name in names) else {**signal, **PARAMETERS}
    changes = {}
    for text in settings:
        name, separator, value = text.partition("=")
        if not separator or name not in known:
            allowed = f"PARAMETER=VALUE with one of {', '.join(sorted(known))}"
            raise InvalidArgument("--set", text, allowed, [f"{one}={value}" for one in known])
        kind = type_of(known[name])
        try:
            changes[name] = value if kind is None else kind.convert(value, None, None)
        except click.BadParameter as failure:
            raise InvalidArgument(
                f"--set {name}", value, failure.message.partition("must be ")[2].partition("; got")[0]
            ) from None
    return changes
