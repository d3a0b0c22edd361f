"""The explorer as one file: a page with its styles, fonts, scripts and answers inside, which asks nobody."""

import base64
import gzip
import io
import json
import mimetypes
import re
from collections.abc import Callable
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from onehead import aim
from onehead.app.page import ASSETS, PURPOSE, SCRIPTS, STYLES, filled
from onehead.app.recording import GRID, Grid, Recording, record, run_of
from onehead.app.tours import TOURS
from onehead.files import write_whole

__all__ = ["GRID", "KEPT", "Grid", "export"]

KEPT = "recording"  # folder in which answers are kept until all are there
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; font-src data:; img-src data: blob:"  # asks nobody
CARD = (1200, 630)  # pixels
PLOTLY = SCRIPTS[-1]
# what is packed into the page is unpacked by the browser; scripts run in the order they are in
LOADER = """
window.oneheadUnpack = async (id) => {
  const packed = Uint8Array.from(atob(document.getElementById(id).textContent.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
};
oneheadUnpack("scripts").then((codes) => codes.forEach((code) =>
  document.head.append(Object.assign(document.createElement("script"), { textContent: code }))));
"""


def export(
    folder: Path,
    *,
    base: str = "",
    documentation: str = "",
    grid: Grid = GRID,
    progress: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Write ``index.html`` and ``card.png`` into a folder; what was recorded, and how far the lines between solved points are off.

    ``base`` is the address under which the folder will be found, ``documentation`` that of the pages it leads to, which may be
    relative.

    It may be interrupted: what is recorded by then is kept in the folder, and the next call goes on from there.
    """
    found = record(grid, folder / KEPT, progress or (lambda: None))
    page = _page(grid, found, base, documentation)
    card = _card()
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "index.html", page, "FOLDER")
    write_whole(folder / "card.png", card, "FOLDER")
    for kept in (folder / KEPT).glob("*.json.gz"):
        kept.unlink()
    with suppress(OSError):  # something in it is not ours
        (folder / KEPT).rmdir()
    return {
        "page": str(folder / "index.html"),
        "card": str(folder / "card.png"),
        "points": grid.total,
        "interpolation_error": found.error,
        "bytes": len(page.encode()),
    }


# --- the page


def _page(grid: Grid, found: Recording, base: str, documentation: str) -> str:
    """One file: styles, fonts, scripts and answers inside."""
    table = {**found.table, "picture": found.table["draw"]}
    alphas = tuple(grid.stops["alpha"])
    recorded = {
        "views": sorted({*grid.views, *(place.view for place in grid.places)}),
        "grid": list(grid.views),
        "stops": {name: list(values) for name, values in grid.stops.items()},
        "places": grid.off_grid(),
        "runs": [[run_of(step, alphas)[1] for step in tour.steps] for tour in TOURS],
        "note": f"Recorded at {grid.total} points; knobs stop at them.",
    }
    styles = "".join(f"<style>{_inlined(ASSETS / name)}</style>\n" for name in STYLES)
    scripts = [(ASSETS / name).read_text(encoding="utf-8") for name in (PLOTLY, *SCRIPTS[:-1])]
    data = _packed("scripts", scripts) + _packed("recorded", table) + f"<script>{LOADER}</script>\n"
    place = base.rstrip("/") + "/" if base else ""
    card = (
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f'<meta property="og:title" content="onehead: one attention head, solved exactly">\n'
        f'<meta property="og:description" content="{escape(PURPOSE)}">\n'
        f'<meta property="og:image" content="{escape(place)}card.png">\n<meta name="twitter:card" content="summary_large_image">\n'
    )
    page = filled(card + styles, base=base, documentation=documentation, recorded=recorded)
    return page.replace("</body>", f"{data}</body>")


def _packed(name: str, value: Any) -> str:
    """A value as an element of the page, compressed."""
    packed = gzip.compress(json.dumps(value, separators=(",", ":")).encode(), 9, mtime=0)
    return f'<script id="{name}" type="application/octet-stream">{base64.b64encode(packed).decode()}</script>\n'


def _inlined(path: Path) -> str:
    """A style sheet with its fonts inside."""

    def data(found: re.Match[str]) -> str:
        file = path.parent / found[1]
        kind = mimetypes.guess_type(file.name)[0] or "font/woff2"
        return f"url(data:{kind};base64,{base64.b64encode(file.read_bytes()).decode()})"

    return re.sub(r"url\((fonts/[^)]+)\)", data, path.read_text(encoding="utf-8"))


def _card() -> bytes:
    """A picture for those who share the page: the learning curve of the default head."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    task, learner = aim.Task(), aim.Learner()
    found = aim.curve(task, learner, np.geomspace(0.03, 4.0, 25))
    figure = Figure(figsize=(CARD[0] / 100, CARD[1] / 100), dpi=100, facecolor="white")
    axes = figure.add_axes((0.09, 0.14, 0.86, 0.58))
    axes.semilogx(found.column("alpha"), found.column("test_error"), color="#1f4e9c", lw=4, label="trained head")
    ratios = np.geomspace(0.03, 4.0, 15)
    axes.semilogx(ratios, [aim.bayes(task, a).test_error for a in ratios], "k:", lw=3, label="best possible")
    axes.set_xlabel("samples over squared dimension, α", fontsize=18)
    axes.set_ylabel("test error", fontsize=18)
    axes.tick_params(labelsize=14)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=17, frameon=False)
    figure.text(0.09, 0.86, "onehead", fontsize=40, fontweight="bold", color="#22262c")
    figure.text(0.09, 0.775, "One attention head, solved exactly", fontsize=22, color="#5c636d")
    written = io.BytesIO()
    figure.savefig(written, format="png")
    return written.getvalue()
