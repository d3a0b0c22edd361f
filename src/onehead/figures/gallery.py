"""The gallery page and the table of worst deviations, written from the files that figures leave behind."""

import json
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from onehead.errors import InvalidArgument
from onehead.figures.registry import NAMES, SOURCES
from onehead.files import write_whole

__all__ = ["write_gallery"]

ASSETS = "assets/figures"
INTRODUCTION = """# Gallery

Every figure of the two papers and our own, made by one command:

```console
$ onehead figures make all --out out/figures
```

Lines are theory, orange markers are training of our own with standard errors, grey is the target; series of one panel differ by
dash and marker as well. `figures list` names the figures and the time they take, an hour and three quarters in all on two cores. With
`--quick` dimensions are smaller and seeds fewer, and all are there within ten minutes; `--theory` leaves the training out. Each figure comes as PNG
and PDF with its data (CSV) and its parameters and versions (JSON). All numbers are kept in one store: Ctrl-C loses nothing, and a
second call computes nothing.
"""
TABLE = """| figure | compared | worst deviation | typical | pure noise | where | theory | training | what explains it |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""
LEGEND = """
*Worst deviation* is (training − theory) in standard errors of the mean over seeds or trials, the largest of all points that
were compared, and *typical* the median of its absolute value. An error bar from few runs is itself uncertain: *pure noise* is
what the largest of as many Student deviations stays below in 19 of 20 cases. A run of size d also differs from the
limit of infinite size by a relative O(1/d); differences that three standard errors and a relative 3/d do not cover are
counted in the last column, with the reason where one is known.
"""


def write_gallery(full: str | PathLike[str], quick: str | PathLike[str], docs: str | PathLike[str]) -> Path:
    """Write ``gallery.md`` into the folder of the documentation, its pictures and two tables of agreement into its assets.

    Parameters
    ----------
    full, quick : path
        Folders into which all figures were made, without and with ``--quick``.
    docs : path
        Folder of the documentation.
    """
    notes = [_note(Path(full), name, "full") for name in NAMES]
    small = [_note(Path(quick), name, "quick") for name in NAMES]
    assets = Path(docs) / ASSETS
    assets.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        write_whole(assets / f"{name}.png", (Path(full) / f"{name}.png").read_bytes())
    write_whole(assets / "agreement.md", agreement_table(notes))
    write_whole(assets / "agreement-quick.md", agreement_table(small))
    page = Path(docs) / "gallery.md"
    write_whole(page, _page(notes))
    return page


def _note(folder: Path, name: str, scale: str) -> dict[str, Any]:
    path = folder / f"{name}.json"
    if not path.is_file():
        raise InvalidArgument(scale, str(folder), f"a folder with all figures; {name} is missing")
    found: dict[str, Any] = json.loads(path.read_text())
    if found["scale"] != scale or not found["training"]:
        raise InvalidArgument(
            scale, str(folder), f"a folder with {scale} figures and their training; {name} is another"
        )
    return found


def agreement_table(notes: Sequence[dict[str, Any]]) -> str:
    """One line per figure with training, those of theory alone named below."""
    lines = [_line(note) for note in notes if note["agreement"] is not None]
    alone = ", ".join(note["name"] for note in notes if note["agreement"] is None)
    return f"{TABLE}{''.join(lines)}\nTheory alone, or nothing to compare: {alone}.\n"


def _line(note: dict[str, Any]) -> str:
    found = note["agreement"]
    at = found["at"]
    cells = (
        f"[{note['name']}](#{note['name']})",
        f"{found['pairs']}",
        f"{found['worst']:+.1f}",
        f"{found['median']:.1f}",
        f"{found['bound']:.1f}",
        f"{at['quantity']}, {at['where']}".replace("_", " "),
        f"{at['theory']:.4g}",
        f"{at['measured']:.4g} ± {at['error']:.1g}",
        found["words"],
    )
    return f"| {' | '.join(cells)} |\n"


def _page(notes: Sequence[dict[str, Any]]) -> str:
    """The page: figures by source, then the table."""
    parts = [INTRODUCTION]
    heading = ""
    for note in notes:
        here = "Our own" if note["source"].startswith(SOURCES["own"]) else note["source"].split(",")[0]
        if here != heading:
            heading = here
            parts.append(f"\n## {heading}\n")
        number = note["source"].partition(", ")[2]
        title = f"{note['title']} ({number})" if number else note["title"]
        parts.append(
            f"\n### {title} {{ #{note['name']} }}\n\n![{note['title']}]({ASSETS}/{note['name']}.png)\n\n"
            f"{note['caption']}\n\n`onehead figures make {note['name']} --out out/figures`\n"
        )
    parts.append(
        f'\n## Theory beside training\n{LEGEND}\n### The pictures above\n\n--8<-- "docs/{ASSETS}/agreement.md"\n'
        f'\n### With `--quick`\n\n--8<-- "docs/{ASSETS}/agreement-quick.md"\n'
    )
    return "".join(parts)
