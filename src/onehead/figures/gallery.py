"""The gallery page and the table of worst deviations, written from the files that figures leave behind."""

import json
import shutil
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from onehead.errors import InvalidArgument
from onehead.figures.registry import NAMES, OWN

__all__ = ["write_gallery"]

ASSETS = "assets/figures"
INTRODUCTION = """# Gallery

Every figure of the two papers and our own, made by one command:

```console
$ onehead figures make all --quick --out out/figures
```

Lines are theory, orange markers are training of our own with standard errors, grey is the target; series of one panel differ by
dash and marker as well. `figures list` names the figures and the seconds they take, `--theory` leaves the training out, and
without `--quick` dimensions are larger (100 to 300 for the attention-indexed model) and seeds more. Each figure comes as PNG and PDF with its data (CSV) and its
parameters and versions (JSON); all numbers are kept in one store, so that a second call computes nothing. The pictures
below are the quick versions.
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


def write_gallery(out: str | PathLike[str], docs: str | PathLike[str]) -> Path:
    """Write ``gallery.md`` into the folder of the documentation, its pictures and ``agreement.md`` into its assets.

    Parameters
    ----------
    out : path
        Folder into which all figures were made.
    docs : path
        Folder of the documentation.
    """
    notes = [_note(Path(out), name) for name in NAMES]
    assets = Path(docs) / ASSETS
    assets.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        shutil.copyfile(Path(out) / f"{name}.png", assets / f"{name}.png")
    (assets / "agreement.md").write_text(agreement_table(notes))
    page = Path(docs) / "gallery.md"
    page.write_text(_page(notes))
    return page


def _note(out: Path, name: str) -> dict[str, Any]:
    path = out / f"{name}.json"
    if not path.is_file():
        raise InvalidArgument("out", str(out), f"a folder with all figures; {name} is missing")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def agreement_table(notes: Sequence[dict[str, Any]]) -> str:
    """One line per figure with training, those of theory alone named below."""
    lines = [_line(note) for note in notes if note["agreement"] is not None]
    alone = ", ".join(note["name"] for note in notes if note["agreement"] is None)
    scale = "quick" if all(note["scale"] == "quick" for note in notes) else "full"
    return f"{TABLE}{''.join(lines)}{LEGEND}\nTheory alone, or nothing to compare: {alone}. Made with the {scale} settings.\n"


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
        here = "Our own" if note["source"].startswith(OWN) else note["source"].split(",")[0]
        if here != heading:
            heading = here
            parts.append(f"\n## {heading}\n")
        number = note["source"].partition(", ")[2]
        title = f"{note['title']} ({number})" if number else note["title"]
        parts.append(
            f"\n### {title} {{ #{note['name']} }}\n\n![{note['title']}]({ASSETS}/{note['name']}.png)\n\n"
            f"{note['caption']}\n\n`onehead figures make {note['name']} --out out/figures`\n"
        )
    parts.append(f'\n## Theory beside training\n\n--8<-- "docs/{ASSETS}/agreement.md"\n')
    return "".join(parts)
