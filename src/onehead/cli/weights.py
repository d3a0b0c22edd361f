"""``onehead weights``: query-key spectra of a real checkpoint beside the predicted law."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from onehead.cli.frame import Answer, answered
from onehead.cli.output import note, progress, save_figure
from onehead.cli.values import Number, Range
from onehead.errors import InvalidArgument
from onehead.files import check_folder

if TYPE_CHECKING:
    from onehead.weights import Survey

__all__ = ["command"]

COLUMNS = (
    "layer",
    "head",
    "status",
    "rank",
    "bulk_edge",
    "outlier_count",
    "symmetric_share",
    "tail_exponent",
    "verdict",
)
COUNT = Number(whole=True, ge=1)
NUMBERS = Range(whole=True, ge=0, le=1e6)
MODULES = 1  # with more attention stacks than this, rows need the name of theirs


@click.command("weights")
@click.argument("file", metavar="FILE")
@click.option("--layer", "layers", type=NUMBERS, metavar="RANGE", help="Layers, counted from 0 [all].")
@click.option("--head", "heads", type=NUMBERS, metavar="RANGE", help="Query heads, counted from 0 [all].")
@click.option("--layout", metavar="NAME", help="Where the weights lie, if it is not recognised.")
@click.option("--heads", "head_count", type=COUNT, help="Query heads of a layer [config.json].")
@click.option("--kv-heads", "kv_head_count", type=COUNT, help="Key heads of a layer [config.json].")
@click.option("--head-dim", type=COUNT, help="Dimension of a head [config.json].")
@click.option("--no-fit", is_flag=True, help="Measure the spectra and fit no law.")
@click.option("--plot", "folder", metavar="DIR", help="Draw every head into this folder.")
@answered(picture=False)
def command(file: str, *, no_fit: bool, folder: str | None, **wanted: Any) -> Answer:
    """Read a safetensors FILE (or an index, or a folder) and lay the law of a trained head beside every head."""
    from onehead.weights import plan, run

    if folder is not None:
        if not Path(folder).resolve().parent.is_dir():
            raise InvalidArgument("--plot", folder, "in a folder that exists")
        check_folder("--plot", folder)
    work = plan(file, **wanted)
    with progress("heads", work.total) as step:
        found = run(work, fit=not no_fit, progress=lambda _: step())
    if folder is not None:
        _draw(found, Path(folder))
    rows = [row | {"outlier_count": len(row["outliers"])} for row in found.to_rows()]
    several = len({row["module"].replace(str(row["layer"]), "") for row in rows}) > MODULES
    told = [*found.certificate.warnings, *(text for row in rows for text in row["notes"])]
    ended = found.certificate.status
    return Answer(
        value=rows,
        shown=[row | {"verdict": row["verdict"] or row["reason"]} for row in rows],
        columns=(*(["module"] if several else []), *COLUMNS),
        title=repr(found),
        rows=[_flat(row) for row in rows],
        warnings=[*dict.fromkeys(told), *([ended] if ended != "complete" else [])],
    )


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """A row for a table: parameters of every law in columns of their own, lists of words joined, spectra left out."""
    flat = {key: value for key, value in row.items() if key not in ("fits", "notes", "warnings")}
    flat["notes"] = "; ".join([*row["notes"], *row["warnings"]])
    for fit in row["fits"]:
        word = fit["law"].replace("-", "_")
        for name in ("bic", "ks"):
            flat[f"{word}_{name}"] = fit[name]
        flat.update({f"{word}_{name}": value for name, value in fit["parameters"].items()})
        flat.update({f"{word}_{name}_err": value for name, value in fit["errors"].items()})
    return flat


def _draw(found: "Survey", folder: Path) -> None:
    """All heads as small multiples, some to a page, and one map of the whole checkpoint."""
    from onehead import plot

    folder.mkdir(exist_ok=True)
    drawn = [head for head in found if head.status == "ok"]
    if not drawn:
        note("note: no head gave numbers, so nothing was drawn.")
        return
    for number, axes in enumerate(plot.head_pages(drawn)):
        save_figure(str(folder / f"heads-{number:03d}.png"), axes)
    save_figure(str(folder / "map.png"), plot.survey_map(drawn))
