"""``onehead weights``: query-key spectra of a real checkpoint beside the predicted law."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from onehead.cli.output import note, print_json, print_rows, progress, write_csv
from onehead.cli.values import Range, Whole
from onehead.errors import InvalidArgument

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
MODULES = 1  # with more attention stacks than this, rows need the name of theirs


class Numbers(Range):
    """A range of layers or heads, counted from 0."""

    def __init__(self) -> None:
        super().__init__(0.0, 1e6)
        self.allowed = "integers from 0: start:stop:count or a comma list"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Parse to whole numbers."""
        found = super().convert(value, param, ctx)
        if any(number != int(number) for number in found):
            self.refuse(value, param, ctx)
        return tuple(int(number) for number in found)


@click.command("weights")
@click.argument("file", metavar="FILE")
@click.option("--layer", "layers", type=Numbers(), metavar="RANGE", help="Layers, counted from 0 [all].")
@click.option("--head", "heads", type=Numbers(), metavar="RANGE", help="Query heads, counted from 0 [all].")
@click.option("--layout", metavar="NAME", help="Where the weights lie, if it is not recognised.")
@click.option("--heads", "head_count", type=Whole(1), help="Query heads of a layer [config.json].")
@click.option("--kv-heads", "kv_head_count", type=Whole(1), help="Key heads of a layer [config.json].")
@click.option("--head-dim", type=Whole(1), help="Dimension of a head [config.json].")
@click.option("--no-fit", is_flag=True, help="Measure the spectra and fit no law.")
@click.option("--plot", "folder", metavar="DIR", help="Draw every head into this folder.")
@click.option("--csv", "csv_file", metavar="FILE", help="Write the rows to a CSV file.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def command(file: str, *, no_fit: bool, folder: str | None, csv_file: str | None, as_json: bool, **wanted: Any) -> None:
    """Read a safetensors FILE (or an index, or a folder) and lay the law of a trained head beside every head."""
    from onehead.weights import plan, run

    for name, path in (("--csv", csv_file), ("--plot", folder)):
        if path is not None and not Path(path).resolve().parent.is_dir():
            raise InvalidArgument(name, path, "in a folder that exists")
    if folder is not None and Path(folder).exists() and not Path(folder).is_dir():
        raise InvalidArgument("--plot", folder, "a folder")
    work = plan(file, **wanted)
    with progress("heads", work.total) as step:
        found = run(work, fit=not no_fit, progress=lambda _: step())
    _report(found, csv_file, folder, as_json)


def _report(found: "Survey", csv_file: str | None, folder: str | None, as_json: bool) -> None:
    """Print, write and draw what was asked for."""
    rows = found.to_rows()
    for row in rows:
        row["outlier_count"] = len(row["outliers"])
    if csv_file is not None:
        write_csv(csv_file, [_flat(row) for row in rows])
    if folder is not None:
        _draw(found, Path(folder))
    if as_json:
        print_json(rows)
        return
    columns = list(COLUMNS)
    if len({row["module"].replace(str(row["layer"]), "") for row in rows}) > MODULES:
        columns.insert(0, "module")
    print_rows([row | {"verdict": row["verdict"] or row["reason"]} for row in rows], columns, title=repr(found))
    for text in dict.fromkeys([*found.certificate.warnings, *(text for row in rows for text in row["notes"])]):
        note(f"note: {text}.")
    if found.certificate.status != "complete":
        note(f"note: {found.certificate.status}.")


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
    from onehead.plot.style import save
    from onehead.plot.weights import head_pages, survey_map

    folder.mkdir(exist_ok=True)
    drawn = [head for head in found if head.status == "ok"]
    if not drawn:
        note("note: no head gave numbers, so nothing was drawn.")
        return
    for number, axes in enumerate(head_pages(drawn)):
        path = folder / f"heads-{number:03d}.png"
        save(axes, str(path))
        note(f"wrote {path}")
    path = folder / "map.png"
    save(survey_map(drawn), str(path))
    note(f"wrote {path}")
