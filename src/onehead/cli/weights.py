"""``onehead weights``: spectra of the heads of a checkpoint, and their changes along several checkpoints."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from onehead.atomic_io import check_folder
from onehead.cli.parsing.values import Number, Range
from onehead.cli.rendering.output import progress, save_figure
from onehead.cli.rendering.render import CommandResult, output_options
from onehead.cli.rendering.terminal import note
from onehead.errors import InvalidArgument

if TYPE_CHECKING:
    from onehead.weights import Survey, Trajectory

SURVEY_COLUMNS = ("layer", "head", "verdict", "evidence", "advice")
TRAJECTORY_COLUMNS = ("layer", "head", "verdict", "emerged", "outliers", "rank", "moved")
FLAGS = {
    "layers": "--layer",
    "heads": "--head",
    "layout": "--layout",
    "head_count": "--heads",
    "kv_head_count": "--kv-heads",
    "head_dim": "--head-dim",
    "activations": "--activations",
}
COUNT = Number(integer=True, ge=1)
INDICES = Range(integer=True, ge=0, le=1e6)
MAX_HEAD_PAGES = 16  # number of heads that get a picture of their own


@click.command("weights")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--layer", "layers", type=INDICES, metavar="RANGE", help="Layers, counted from 0 [all].")
@click.option("--head", "heads", type=INDICES, metavar="RANGE", help="Query heads, counted from 0 [all].")
@click.option(
    "--layout", metavar="NAME", multiple=True, help="Layout of the weights, if it is not recognised; may be repeated."
)
@click.option(
    "--heads", "--head-count", "head_count", type=COUNT, help="Number of query heads of a layer [config.json]."
)
@click.option(
    "--kv-heads", "--kv-head-count", "kv_head_count", type=COUNT, help="Number of key heads of a layer [config.json]."
)
@click.option("--head-dim", type=COUNT, help="Dimension of a head [config.json].")
@click.option(
    "--activations", metavar="FILE", help="Mean and second moment of the tokens of every layer (safetensors)."
)
@click.option("--vectors", is_flag=True, help="Add the directions of the outliers to JSON.")
@click.option("--no-fit", is_flag=True, help="Measure the spectra without fitting laws.")
@click.option("--list", "listed", is_flag=True, help="List the tensors that look like attention, and their layouts.")
@click.option("--plot", "folder", metavar="DIR", help="Draw every head into this folder.")
@output_options(picture=False)
def command(
    files: tuple[str, ...], *, no_fit: bool, vectors: bool, listed: bool, folder: str | None, **selection: Any
) -> CommandResult:
    """Report for every head of a checkpoint whether it differs from random weights, and the evidence.

    FILE is a safetensors file, its index, a folder with one, or a GGUF file. Several checkpoints are compared, in
    the order of the numbers in their names.
    """
    selection["layout"] = selection["layout"] or None
    with _named_as_flags():
        if listed:
            return _listed_tensors(files)
        return _survey_result(files, {"fit": not no_fit, "vectors": vectors}, folder, selection)


@contextmanager
def _named_as_flags() -> Iterator[None]:
    """Let an error of the library name the flag rather than the argument."""
    try:
        yield
    except InvalidArgument as error:
        if (flag := FLAGS.get(error.name)) is not None:
            error.args = (str(error).replace(error.name, flag, 1),)
        raise


def _survey_result(
    files: tuple[str, ...], settings: dict[str, bool], folder: str | None, selection: dict[str, Any]
) -> CommandResult:
    """Command result of one checkpoint, or of several that are compared."""
    if folder is not None:
        if not Path(folder).resolve().parent.is_dir():
            raise InvalidArgument("--plot", folder, "in a folder that exists")
        check_folder("--plot", folder)
    if len(files) > 1:
        return _trajectory_result(files, settings["fit"], folder, selection)
    from onehead.weights import plan, run

    work = plan(files[0], **selection)
    with progress("heads", work.total) as step:
        found = run(work, **settings, progress=lambda _: step())
    if folder is not None:
        _draw(found, Path(folder))
    rows = [row | {"outlier_count": len(row["outliers"])} for row in found.to_rows()]
    table = [
        vars(head)
        | {"verdict": head.verdict or head.status, "evidence": head.evidence or head.reason, "advice": head.advice}
        for head in found.ranked
    ]
    warnings = [*found.certificate.warnings, *(text for row in rows for text in row["notes"])]
    status = found.certificate.status
    return CommandResult(
        value=rows,
        table=table,
        columns=(*_modules(rows), *SURVEY_COLUMNS),
        title=" ".join([f"{found.path}: {found.summary}", *found.advice]),
        rows=[_flat(row) for row in rows],
        warnings=[*dict.fromkeys(warnings), *([status] if status != "complete" else [])],
        failure=_unmeasured(rows),
    )


def _listed_tensors(files: tuple[str, ...]) -> CommandResult:
    """Command result of ``--list``: tensors that look like attention."""
    from onehead.weights.checkpoint.candidates import candidates
    from onehead.weights.checkpoint.loading import open_source

    if len(files) > 1:
        raise InvalidArgument("FILE", f"{len(files)} files", "one checkpoint with --list")
    checkpoint = open_source(files[0])
    rows = [row._asdict() | {"shape": list(row.shape)} for row in candidates(checkpoint)]
    return CommandResult(
        value=rows,
        table=[row | {"shape": " x ".join(map(str, row["shape"]))} for row in rows],
        columns=("tensor", "shape", "dtype", "layers", "layout"),
        title=f"{checkpoint.path}: {len(rows)} kinds of tensors look like attention; give a layout with --layout",
        failure="" if rows else f"none of the {len(checkpoint.tensors)} tensors looks like attention.",
    )


def _trajectory_result(
    files: tuple[str, ...], fit: bool, folder: str | None, selection: dict[str, Any]
) -> CommandResult:
    """Command result of several checkpoints: one line per head in the table, one row per step and head in files."""
    from onehead.weights import plan
    from onehead.weights.trajectory import compare_plans, order_by_step

    names, steps = order_by_step(files)
    plans = [plan(name, **selection) for name in names]
    with progress("heads", sum(work.total for work in plans)) as step:
        found = compare_plans(plans, steps, fit=fit, progress=lambda _: step())
    if folder is not None:
        _draw_trajectory(found, Path(folder))
    rows = found.to_rows()
    table = [change.row() for change in sorted(found, key=lambda change: -(change.moved[-1] or 0.0))]
    status = found.certificate.status
    return CommandResult(
        value=rows,
        table=table,
        columns=(*_modules(rows), *TRAJECTORY_COLUMNS),
        title=found.summary,
        rows=[_flat(row) for row in rows],
        warnings=[status] if status != "complete" else [],
        failure=_unmeasured(rows),
    )


def _unmeasured(rows: list[dict[str, Any]]) -> str:
    """Return why the command fails: not one head could be measured."""
    if not rows or any(row["status"] == "ok" for row in rows):
        return ""
    return f"no head could be measured; the first: {rows[0]['reason']}."


def _modules(rows: list[dict[str, Any]]) -> list[str]:
    """Column with the module of a head, if the checkpoint has several stacks of layers."""
    return ["module"] if len({row["module"].replace(str(row["layer"]), "") for row in rows}) > 1 else []


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """Flat row for a CSV file: parameters of every law in columns of their own, notes joined, no spectra."""
    flat = {key: value for key, value in row.items() if key not in ("fits", "notes", "warnings")}
    flat["notes"] = "; ".join([*row["notes"], *row["warnings"]])
    flat["outlier_count"] = len(row["outliers"])
    flat["outliers"] = [
        {key: value for key, value in outlier.items() if key[-6:] != "vector"} for outlier in row["outliers"]
    ]
    for fit in row["fits"]:
        law = fit["law"].replace("-", "_")
        for name in ("bic", "ks"):
            flat[f"{law}_{name}"] = fit[name]
        flat.update({f"{law}_{name}": value for name, value in fit["parameters"].items()})
        flat.update({f"{law}_{name}_err": value for name, value in fit["errors"].items()})
    return flat


def _draw(found: "Survey", folder: Path) -> None:
    """Draw small multiples of all heads, a map of the checkpoint, and a page for each of the first heads."""
    from onehead import plot

    folder.mkdir(exist_ok=True)
    measured = [head for head in found if head.status == "ok"]
    if not measured:
        note("note: no head could be measured, so nothing was drawn.")
        return
    for number, axes in enumerate(plot.head_pages(measured)):
        save_figure(str(folder / f"heads-{number:03d}.png"), axes)
    save_figure(str(folder / "map.png"), plot.survey_map(measured))
    for module in list(dict.fromkeys(head.module for head in measured if head.value_overlaps))[:MAX_HEAD_PAGES]:
        layer = [head for head in measured if head.module == module]
        save_figure(str(folder / f"overlaps-{module}.png"), plot.value_overlaps(layer))
    ranked = [head for head in found.ranked if head.status == "ok"]
    for rank, head in enumerate(ranked[:MAX_HEAD_PAGES]):
        save_figure(str(folder / f"page-{rank:02d}-layer-{head.layer}-head-{head.head}.png"), plot.head_page(head))
    if len(ranked) > MAX_HEAD_PAGES:
        note(
            f"note: the first {MAX_HEAD_PAGES} of {len(ranked)} heads have a page of their own; "
            "choose others with --layer and --head."
        )


def _draw_trajectory(found: "Trajectory", folder: Path) -> None:
    """Draw the changes of all heads along the checkpoints."""
    from onehead import plot

    folder.mkdir(exist_ok=True)
    if not any(head.status == "ok" for survey in found.surveys for head in survey):
        note("note: no head could be measured, so nothing was drawn.")
        return
    save_figure(str(folder / "course.png"), plot.trajectory(found))
