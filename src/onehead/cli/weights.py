"""``onehead weights``: what a real checkpoint has learned, head by head, and what changed from one checkpoint to the next."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from onehead.cli.frame import Answer, answered
from onehead.cli.output import note, progress, save_figure
from onehead.cli.values import Number, Range
from onehead.errors import InvalidArgument
from onehead.files import check_folder

if TYPE_CHECKING:
    from onehead.weights import Course, Survey

__all__ = ["command"]

COLUMNS = ("layer", "head", "verdict", "evidence")
CHANGES = ("layer", "head", "verdict", "emerged", "outliers", "rank", "moved")
FLAGS = {
    "layers": "--layer",
    "heads": "--head",
    "layout": "--layout",
    "head_count": "--heads",
    "kv_head_count": "--kv-heads",
    "head_dim": "--head-dim",
}
COUNT = Number(whole=True, ge=1)
NUMBERS = Range(whole=True, ge=0, le=1e6)
MODULES = 1  # with more attention stacks than this, rows need the name of theirs
PAGES = 16  # heads that get a picture of their own


@click.command("weights")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--layer", "layers", type=NUMBERS, metavar="RANGE", help="Layers, counted from 0 [all].")
@click.option("--head", "heads", type=NUMBERS, metavar="RANGE", help="Query heads, counted from 0 [all].")
@click.option("--layout", metavar="NAME", help="Where the weights lie, if it is not recognised.")
@click.option("--heads", "--head-count", "head_count", type=COUNT, help="Query heads of a layer [config.json].")
@click.option("--kv-heads", "--kv-head-count", "kv_head_count", type=COUNT, help="Key heads of a layer [config.json].")
@click.option("--head-dim", type=COUNT, help="Dimension of a head [config.json].")
@click.option("--no-fit", is_flag=True, help="Measure the spectra and fit no law.")
@click.option("--plot", "folder", metavar="DIR", help="Draw every head into this folder.")
@answered(picture=False)
def command(files: tuple[str, ...], *, no_fit: bool, folder: str | None, **wanted: Any) -> Answer:
    """Say of every head of a checkpoint whether it can be told from its initialisation, and by what.

    FILE is a safetensors file, its index, a folder that holds one, or a GGUF file. Several are compared, in the order of the
    numbers in their names.
    """
    with _named_as_flags():
        return _answer(files, not no_fit, folder, wanted)


@contextmanager
def _named_as_flags() -> Iterator[None]:
    """Let a refusal of the library name the flag rather than the argument; the rest of its sentence stays."""
    try:
        yield
    except InvalidArgument as failure:
        if (flag := FLAGS.get(failure.name)) is not None:
            failure.args = (str(failure).replace(failure.name, flag, 1),)
        raise


def _answer(files: tuple[str, ...], fit: bool, folder: str | None, wanted: dict[str, Any]) -> Answer:
    """One checkpoint, or several compared."""
    if folder is not None:
        if not Path(folder).resolve().parent.is_dir():
            raise InvalidArgument("--plot", folder, "in a folder that exists")
        check_folder("--plot", folder)
    if len(files) > 1:
        return _compared(files, fit, folder, wanted)
    from onehead.weights import plan, run

    work = plan(files[0], **wanted)
    with progress("heads", work.total) as step:
        found = run(work, fit=fit, progress=lambda _: step())
    if folder is not None:
        _draw(found, Path(folder))
    rows = [row | {"outlier_count": len(row["outliers"])} for row in found.to_rows()]
    shown = [
        {**vars(head), "verdict": head.verdict or head.status, "evidence": head.evidence or head.reason}
        for head in found.ranked
    ]
    told = [*found.certificate.warnings, *(text for row in rows for text in row["notes"])]
    ended = found.certificate.status
    return Answer(
        value=rows,
        shown=shown,
        columns=(*_modules(rows), *COLUMNS),
        title=f"{found.path}: {found.summary}",
        rows=[_flat(row) for row in rows],
        warnings=[*dict.fromkeys(told), *([ended] if ended != "complete" else [])],
    )


def _compared(files: tuple[str, ...], fit: bool, folder: str | None, wanted: dict[str, Any]) -> Answer:
    """Several checkpoints: a line per head, a row per step and head."""
    from onehead.weights import plan
    from onehead.weights.course import follow, in_order

    names, steps = in_order(files)
    plans = [plan(name, **wanted) for name in names]
    with progress("heads", sum(work.total for work in plans)) as step:
        found = follow(plans, steps, fit=fit, progress=lambda _: step())
    if folder is not None:
        _draw_course(found, Path(folder))
    rows = found.to_rows()
    shown = [change.row() for change in sorted(found, key=lambda change: -(change.moved[-1] or 0.0))]
    ended = found.certificate.status
    return Answer(
        value=rows,
        shown=shown,
        columns=(*_modules(rows), *CHANGES),
        title=found.summary,
        rows=[_flat(row) for row in rows],
        warnings=[ended] if ended != "complete" else [],
    )


def _modules(rows: list[dict[str, Any]]) -> list[str]:
    """The column that names the stack of layers, where there are several."""
    return ["module"] if len({row["module"].replace(str(row["layer"]), "") for row in rows}) > MODULES else []


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """A row for a table: parameters of every law in columns of their own, lists of words joined, spectra left out."""
    flat = {key: value for key, value in row.items() if key not in ("fits", "notes", "warnings")}
    flat["notes"] = "; ".join([*row["notes"], *row["warnings"]])
    flat["outlier_count"] = len(row["outliers"])
    for fit in row["fits"]:
        word = fit["law"].replace("-", "_")
        for name in ("bic", "ks"):
            flat[f"{word}_{name}"] = fit[name]
        flat.update({f"{word}_{name}": value for name, value in fit["parameters"].items()})
        flat.update({f"{word}_{name}_err": value for name, value in fit["errors"].items()})
    return flat


def _draw(found: "Survey", folder: Path) -> None:
    """All heads as small multiples, some to a page, one map of the whole checkpoint, and pages of the foremost heads."""
    from onehead import plot

    folder.mkdir(exist_ok=True)
    drawn = [head for head in found if head.status == "ok"]
    if not drawn:
        note("note: no head gave numbers, so nothing was drawn.")
        return
    for number, axes in enumerate(plot.head_pages(drawn)):
        save_figure(str(folder / f"heads-{number:03d}.png"), axes)
    save_figure(str(folder / "map.png"), plot.survey_map(drawn))
    first = [head for head in found.ranked if head.status == "ok"]
    for place, head in enumerate(first[:PAGES]):
        save_figure(str(folder / f"page-{place:02d}-layer-{head.layer}-head-{head.head}.png"), plot.head_page(head))
    if len(first) > PAGES:
        note(
            f"note: the first {PAGES} of {len(first)} heads have a page of their own; choose others by --layer and --head."
        )


def _draw_course(found: "Course", folder: Path) -> None:
    from onehead import plot

    folder.mkdir(exist_ok=True)
    if not any(head.status == "ok" for survey in found.surveys for head in survey):
        note("note: no head gave numbers, so nothing was drawn.")
        return
    save_figure(str(folder / "course.png"), plot.course(found))
