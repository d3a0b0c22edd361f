"""Writer of the gallery page and of the tables of agreement, from the files that making the figures has left."""

import html
import json
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from onehead.atomic_io import write_atomically
from onehead.errors import InvalidArgument
from onehead.figures.registry import NAMES, SOURCES, total_minutes

ASSETS = "assets/figures"
FULL, QUICK = total_minutes(quick=False), total_minutes(quick=True)  # on two cores
INTRODUCTION = f"""---
hide: [navigation]
---

# Gallery

Every figure of the two papers, and more of our own, made by one command:

```console
$ onehead figures make all --out out/figures
```

Lines are theory, orange markers are our own training runs with standard errors, grey is the target; the series of one
panel also differ by dash and marker. Below each figure, *Code* has a few lines of Python that draw its main curve; they
are files of `examples/gallery`. `figures list` shows the figures and the time each takes, {FULL} minutes
in all on two cores. With `--quick` dimensions are smaller and seeds fewer, and all figures take {QUICK} minutes;
`--theory` leaves out the training. Each figure comes as PNG and PDF with its data (CSV) and its parameters and versions
(JSON). All numbers are kept in one store, so Ctrl-C loses no finished point and a second call computes nothing.
"""
TABLE_HEAD = """\
| figure | compared | worst deviation | typical | pure noise | where | theory | training | what explains it |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""
LEGEND = """
*Worst deviation* is the largest of all values of (training − theory), in standard errors of the mean over seeds or
trials, and *typical* is the median of the absolute value. An error bar from few runs is itself uncertain: *pure noise*
is the value below which the largest of as many Student deviations stays in 19 of 20 cases. A run of size d also differs
from the limit of infinite size by a relative O(1/d); the last column counts differences that three standard errors and
a relative 3/d do not cover, with the reason if it is known.
"""


def write_gallery(full: str | PathLike[str], quick: str | PathLike[str], docs: str | PathLike[str]) -> Path:
    """Write ``gallery.md`` into the documentation, and its pictures and tables of agreement into the assets.

    Parameters
    ----------
    full, quick : path
        Folders in which all figures were made, without and with ``--quick``.
    docs : path
        Folder of the documentation.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    InvalidArgument
        If a figure is missing, or was made with the wrong size or without training.
    """
    notes = [_note(Path(full), name, "full") for name in NAMES]
    small = [_note(Path(quick), name, "quick") for name in NAMES]
    assets = Path(docs) / ASSETS
    assets.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        write_atomically(assets / f"{name}.png", (Path(full) / f"{name}.png").read_bytes())
    write_atomically(assets / "agreement.md", agreement_table(notes))
    write_atomically(assets / "agreement-quick.md", agreement_table(small))
    page = Path(docs) / "gallery.md"
    write_atomically(page, _page(notes))
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
    """Return a table with one line per figure with training, and the names of the others below."""
    lines = [_line(note) for note in notes if note["agreement"] is not None]
    alone = ", ".join(note["name"] for note in notes if note["agreement"] is None)
    return f"{TABLE_HEAD}{''.join(lines)}\nTheory alone, or nothing to compare: {alone}.\n"


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
    """Return the page: thumbnails, figures by source, then the tables of agreement."""
    parts = [INTRODUCTION, "\n<div class='thumbnails'>\n", *map(_thumbnail, notes), "</div>\n"]
    heading = ""
    for note in notes:
        group = "Our own" if note["source"].startswith(SOURCES["own"]) else note["source"].split(",")[0]
        if group != heading:
            heading = group
            parts.append(f"\n## {heading}\n")
        parts.append(_section(note))
    parts.append(
        f'\n## Theory compared with training\n{LEGEND}\n### The pictures above\n\n--8<-- "docs/{ASSETS}/agreement.md"\n'
        f'\n### With `--quick`\n\n--8<-- "docs/{ASSETS}/agreement-quick.md"\n'
    )
    return "".join(parts)


def _thumbnail(note: dict[str, Any]) -> str:
    """Return a small picture that links to the section of the figure."""
    name, title = note["name"], html.escape(note["title"], quote=True)
    return f"<a href='#{name}' title='{title}'><img src='{ASSETS}/{name}.png' alt='{title}' loading='lazy'></a>\n"


def _section(note: dict[str, Any]) -> str:
    """Return title, picture that opens at full size, caption, command and code of one figure."""
    name, number = note["name"], note["source"].partition(", ")[2]
    title = f"{note['title']} ({number})" if number else note["title"]
    return (
        f"\n### {title} {{ #{name} }}\n\n"
        f"[![{note['title']}]({ASSETS}/{name}.png){{ loading=lazy }}]({ASSETS}/{name}.png)\n\n"
        f"{note['caption']}\n\n`onehead figures make {name} --out out/figures`\n\n"
        f'??? example "Code"\n\n    ```python\n    --8<-- "examples/gallery/{name}.py"\n    ```\n'
    )
