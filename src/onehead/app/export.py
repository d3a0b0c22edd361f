"""The explorer as one file: answers recorded over a grid of knobs, in a page that works without a server and asks nobody."""

import base64
import gzip
import io
import json
import mimetypes
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from onehead import aim
from onehead.app.answers import drawn, told_numbers
from onehead.app.page import ASSETS, PURPOSE, SCRIPTS, STYLES, filled
from onehead.app.state import State, read_state
from onehead.app.views import VIEWS
from onehead.files import write_whole
from onehead.results import plain

__all__ = ["GRID", "Grid", "export"]

CHECKED = 3  # gaps of a curve that are looked into: those where it bends most
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; font-src data:; img-src data: blob:"  # asks nobody
CARD = (1200, 630)  # pixels


@dataclass(frozen=True, kw_only=True)
class Grid:
    """What is recorded: views, and the stops of every knob that can be turned."""

    views: tuple[str, ...] = ("head", "curve", "spectrum")
    stops: Mapping[str, tuple[float, ...]] = field(
        default_factory=lambda: {
            "alpha": (0.03, 0.045, 0.07, 0.1, 0.15, 0.2, 0.28, 0.38, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0),
            "kappa0": (0.2, 0.5),
            "noise": (0.1, 0.5, 1.0),
            "weight_decay": (0.003, 0.01, 0.03, 0.1, 0.3),
        }
    )

    @property
    def total(self) -> int:
        """Points of the grid."""
        return int(np.prod([len(values) for values in self.stops.values()]))


GRID = Grid()


def export(
    folder: Path, *, base: str = "", grid: Grid = GRID, progress: Callable[[], None] | None = None
) -> dict[str, Any]:
    """Write ``index.html`` and ``card.png`` into a folder; what was recorded, and how far the lines between solved points are off."""
    table, error = _record(grid, progress or (lambda: None))
    page = _page(grid, table, error, base)
    card = _card()
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "index.html", page, "FOLDER")
    write_whole(folder / "card.png", card, "FOLDER")
    return {
        "page": str(folder / "index.html"),
        "card": str(folder / "card.png"),
        "points": grid.total,
        "interpolation_error": error,
        "bytes": len(page.encode()),
    }


# --- recording


def _record(grid: Grid, progress: Callable[[], None]) -> tuple[dict[str, Any], float]:
    """Every answer of the grid by its kind and its knobs; pictures that differ in their marked line alone are kept once."""
    table: dict[str, Any] = {"figures": {}, "draw": {}, "report": {}}
    worst = 0.0
    others = [name for name in grid.stops if name != "alpha"]
    for combination in product(*(grid.stops[name] for name in others)):
        words = dict(zip(others, combination, strict=True))
        curves: dict[str, Any] = {}
        for alpha in grid.stops["alpha"]:
            for view in grid.views:
                state, wrong = read_state({"view": view, **{k: str(v) for k, v in (words | {"alpha": alpha}).items()}})
                assert not wrong, wrong
                name = " ".join([view, *(_text(state[knob]) for knob in grid.stops)])
                _record_point(table, view, state, name, curves)
            progress()
        if "curve" in grid.views:
            worst = max(worst, _interpolation(state.changed(alpha=alpha)))
    table["picture"] = table["draw"]
    return table, worst


def _record_point(table: dict[str, Any], view: str, state: State, name: str, curves: dict[str, Any]) -> None:
    """Picture, code, badge and numbers of one point."""
    own = VIEWS[view]
    report = own.report(state)
    table["report"][name] = {"badge": plain(list(report.badge)), "numbers": told_numbers(report.numbers)}
    found: dict[str, Any] = own.code(state)._asdict()
    if view == "curve":  # the same curve for every α: only the marked line moves
        if not curves:
            picture = own.picture(state)
            curves["name"] = name
            table["figures"][name] = _rounded(drawn(state, picture, picture.figure))
        found |= {"drawing": curves["name"], "at": state["alpha"]}
    else:
        picture = own.picture(state)
        found |= _rounded(drawn(state, picture, picture.figure))
    table["draw"][name] = found


def _text(value: Any) -> str:
    """A number as JavaScript writes it.

    Examples
    --------
    >>> _text(1.0), _text(0.045)
    ('1', '0.045')
    """
    return repr(value).removesuffix(".0")


def _rounded(value: Any) -> Any:
    """Five digits are more than a screen shows."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value


def _interpolation(state: State) -> float:
    """How far the line between solved points of a curve is off, over the error itself, half way across the gaps where it bends most."""
    from onehead.app.views.curve import exact_alphas  # noqa: PLC0415

    alphas = np.array(exact_alphas(state))
    errors = aim.curve(state.task, state.learner, alphas).column("test_error")
    bend = np.abs(np.diff(errors, 2))
    worst = 0.0
    for k in np.argsort(bend)[::-1][:CHECKED]:
        middle = float(np.sqrt(alphas[k] * alphas[k + 1]))
        true = aim.predict(state.task, state.learner, middle).test_error
        worst = max(worst, abs(0.5 * (errors[k] + errors[k + 1]) - true) / true)
    return float(worst)


# --- the page


def _page(grid: Grid, table: dict[str, Any], error: float, base: str) -> str:
    """One file: styles, fonts, scripts and answers inside."""
    recorded = {
        "views": list(grid.views),
        "knobs": list(grid.stops),
        "stops": {name: list(values) for name, values in grid.stops.items()},
        "note": f"Recorded at {grid.total} points; knobs stop at them. Between the solved points of a curve the line is at most "
        f"{max(error, 1e-4):.2%} off, looked at where it bends most.",
    }
    packed = base64.b64encode(gzip.compress(json.dumps(table, separators=(",", ":")).encode(), 9, mtime=0)).decode()
    styles = "".join(f"<style>{_inlined(ASSETS / name)}</style>\n" for name in STYLES)
    scripts = "".join(f"<script>{_script(ASSETS / name)}</script>\n" for name in SCRIPTS)
    data = f'<script id="recorded" type="application/octet-stream">{packed}</script>\n'
    place = base.rstrip("/") + "/" if base else ""
    card = (
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f'<meta property="og:title" content="onehead: one attention head, solved exactly">\n'
        f'<meta property="og:description" content="{escape(PURPOSE)}">\n'
        f'<meta property="og:image" content="{escape(place)}card.png">\n<meta name="twitter:card" content="summary_large_image">\n'
    )
    page = filled(card + styles, base=base, recorded=recorded)
    return page.replace("</body>", f"{data}{scripts}</body>")


def _script(path: Path) -> str:
    """A script that may stand inside a page."""
    return path.read_text(encoding="utf-8").replace("</script", "<\\/script")


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
