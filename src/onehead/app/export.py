"""Export of the explorer as one file: a page with styles, fonts, scripts and recorded answers, without a server."""

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
from onehead.app.page import ASSETS, PURPOSE, SCRIPTS, STYLES, render_page
from onehead.app.recording import GRID, OWN_STOPS, Grid, Recording, knob_run, record, recorded_files
from onehead.app.state import read_state
from onehead.app.tours import TOURS
from onehead.app.views import VIEWS
from onehead.app.views.head import random_numbers
from onehead.atomic_io import write_atomically
from onehead.errors import InvalidArgument
from onehead.results import plain

PARTIAL_FOLDER = "recording"  # subfolder with the answers recorded so far, removed at the end
# the page may run its own scripts and styles, and send no request
CONTENT_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; font-src data:; img-src data: blob:"
)
PAGE_MARK = '<meta name="generator" content="onehead app export">'  # tells an exported page from other pages
MARK_WITHIN = 4096  # bytes at the beginning of a page that contain the mark
# views and knobs whose drafts the page computes itself, by assets/solver.js
SOLVED_VIEWS = ("head", "curve", "spectrum", "decay")
SOLVED_KNOBS = (
    "alpha", "alpha_from", "alpha_to", "details", "direct", "kappa0", "noise", "attention", "mask", "beta0", "unasked",
    "weight_decay", "width", "param", "beta", "loss",
)  # fmt: skip
CARD_SIZE = (1200, 630)  # pixels
PLOTLY = SCRIPTS[-1]
# scripts and answers are compressed in the page; the browser unpacks them and runs the scripts in their order
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
    """Write ``index.html`` and ``card.png`` into a folder, and return a summary of what was written.

    ``base`` is the address under which the folder will be published, ``documentation`` that of the documentation pages,
    which may be relative. ``progress`` is called once for every recorded point. An interrupted export leaves the
    answers recorded so far in the folder, and the next call continues from there. Files of others are neither replaced
    nor removed.
    """
    check_not_replaced(folder)
    found = record(grid, folder / PARTIAL_FOLDER, progress or (lambda: None))
    page = _page(grid, found, base, documentation)
    card = _card()
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "index.html", page, "FOLDER")
    write_atomically(folder / "card.png", card, "FOLDER")
    for part in recorded_files(grid, folder / PARTIAL_FOLDER):
        part.unlink(missing_ok=True)
    with suppress(OSError):  # the folder contains files that were not written here
        (folder / PARTIAL_FOLDER).rmdir()
    return {
        "page": str(folder / "index.html"),
        "card": str(folder / "card.png"),
        "points": grid.total,
        "interpolation_error": found.error,
        "bytes": len(page.encode()),
    }


def check_not_replaced(folder: Path) -> None:
    """Refuse a folder whose ``index.html`` or ``card.png`` was not written by an export."""
    page = folder / "index.html"
    with suppress(OSError), page.open("rb") as file:
        if PAGE_MARK.encode() in file.read(MARK_WITHIN):
            return
    for path in (page, folder / "card.png"):
        if path.exists():
            raise InvalidArgument("FOLDER", str(folder), f"a folder in which no other program has written {path.name}")


# --- the page


def _page(grid: Grid, found: Recording, base: str, documentation: str) -> str:
    """Return the page with styles, fonts, scripts and answers inside."""
    table = {**found.table, "scene": random_numbers(), "templates": _templates()}
    views = {*grid.views, *(setting.view for setting in grid.settings)}
    alphas = tuple(grid.stops["alpha"])
    recorded = {
        "views": sorted(views),
        "grid": list(grid.views),
        "stops": {name: list(values) for name, values in grid.stops.items()},
        "offGrid": grid.off_grid_names(),
        "ownStops": OWN_STOPS,
        "runs": [[knob_run(step, alphas)[1] for step in tour.steps] for tour in TOURS],
        "solver": [view for view in SOLVED_VIEWS if view in views],
        "solverKnobs": SOLVED_KNOBS,
        "note": f"This page holds {grid.total} settings solved by onehead; between them it computes drafts.",
    }
    styles = "".join(f"<style>{_style_with_fonts(ASSETS / name)}</style>\n" for name in STYLES)
    scripts = [(ASSETS / name).read_text(encoding="utf-8") for name in (PLOTLY, *SCRIPTS[:-1])]
    data = (
        _compressed_element("scripts", scripts)
        + _compressed_element("recorded", table)
        + f"<script>{LOADER}</script>\n"
    )
    address = base.rstrip("/") + "/" if base else ""
    head = (
        f"{PAGE_MARK}\n"
        f'<meta http-equiv="Content-Security-Policy" content="{CONTENT_POLICY}">\n'
        f'<meta property="og:title" content="onehead: one attention head, solved exactly">\n'
        f'<meta property="og:description" content="{escape(PURPOSE)}">\n'
        + (f'<meta property="og:image" content="{escape(address)}card.png">\n' if address else "")  # absolute or absent
        + '<meta name="twitter:card" content="summary_large_image">\n'
    )
    page = render_page(head + styles, base=base, documentation=documentation, recorded=recorded)
    return page.replace("</body>", f"{data}</body>")


def _templates() -> dict[str, Any]:
    """Return figures with every curve that a page draws by itself, of the views that do not always show all of them."""
    state, _ = read_state({"view": "curve", "details": "1", "direct": "1"})
    return {"curve": plain(VIEWS["curve"].picture(state).figure)}  # not a draft, which may run out of time


def _compressed_element(name: str, value: Any) -> str:
    """Return an element of the page that holds a value, compressed."""
    packed = gzip.compress(json.dumps(value, separators=(",", ":")).encode(), 9, mtime=0)
    return f'<script id="{name}" type="application/octet-stream">{base64.b64encode(packed).decode()}</script>\n'


def _style_with_fonts(path: Path) -> str:
    """Return a style sheet with its fonts as data addresses."""

    def data(found: re.Match[str]) -> str:
        file = path.parent / found[1]
        kind = mimetypes.guess_type(file.name)[0] or "font/woff2"
        return f"url(data:{kind};base64,{base64.b64encode(file.read_bytes()).decode()})"

    return re.sub(r"url\((fonts/[^)]+)\)", data, path.read_text(encoding="utf-8"))


def _card() -> bytes:
    """Return the preview image of the page (PNG): the learning curve of the default head."""
    from matplotlib.figure import Figure

    task, learner = aim.Task(), aim.Learner()
    found = aim.curve(task, learner, np.geomspace(0.03, 4.0, 25))
    figure = Figure(figsize=(CARD_SIZE[0] / 100, CARD_SIZE[1] / 100), dpi=100, facecolor="white")
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
