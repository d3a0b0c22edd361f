"""Two words at once: test error or rank over any two knobs."""

import numpy as np

from onehead import aim
from onehead.aim.targets import MarchenkoPastur
from onehead.aim.task import Learner, Task
from onehead.app.drawing import Figure, contours, figure, levels, points
from onehead.app.knobs import KNOBS
from onehead.app.state import State
from onehead.app.views.base import (
    POOL,
    POSSIBLE,
    Code,
    Panel,
    Picture,
    Report,
    View,
    answer,
    flat,
    predicted,
    refused,
    solved,
    waiting,
)
from onehead.app.views.best import best_error, best_numbers, not_known, without_best
from onehead.app.views.words import code_of
from onehead.app.work import pause

__all__ = ["VIEW"]

QUICK, CELLS, EXACT = (6, 4), (5, 3), (11, 7)
PATIENCE = 0.06  # seconds for one line of a sketch, or one cell of one without lines
ENDS = {
    "alpha": (0.05, 4.0),
    "weight_decay": (1e-3, 1.0),
    "noise": (0.01, 2.0),
    "kappa0": (0.05, 2.0),
    "width": (0.1, 1.0),
}
SAME = "the two axes of a map must be different words; choose another one for one of them."
BEST_LINES = "Dotted: where the best possible learner has the same errors."

Axes = list[tuple[str, list[float]]]
Table = list[list[float | None]]  # a row for every value of the second axis


def _axes(state: State, counts: tuple[int, int]) -> Axes:
    words = state["map_x"], state["map_y"]
    return [(word, _space(word, count)) for word, count in zip(words, counts, strict=True)]


def _space(word: str, count: int) -> list[float]:
    return [float(f"{v:.3g}") for v in np.geomspace(*ENDS[word], count)]


def _title(word: str) -> str:
    said = KNOBS[word].said
    return f"{said.label.lower()} {KNOBS[word].symbol}"


def _of(state: State) -> str:
    """What is solved for in every cell."""
    return "test_error" if state["map_of"] == "above_best" else str(state["map_of"])


def _refusal(state: State) -> str:
    """Why there is no map, if there is none."""
    if state["map_x"] == state["map_y"]:
        return SAME
    return not_known(state.task, state.learner) if state["map_of"] == "above_best" else ""


# --- for the eye


def sketch(state: State) -> Picture:
    """A coarse map: line by line along α or λ, where one of them is an axis, else cell by cell."""
    refusal = _refusal(state)
    if refusal:
        return refused(refusal)
    words = state["map_x"], state["map_y"]
    lines = [word for word in ("alpha", "weight_decay") if word in words]
    if _of(state) == "train_loss" and "alpha" not in words:
        lines = []  # which sketches along λ do not have
    axes = _axes(state, QUICK if lines else CELLS)
    table = _by_lines(state, axes, lines[0]) if lines else _by_cells(state, axes)
    if not any(cell is not None for row in table for cell in row):
        return waiting()
    caption = "Sketch on a coarse rule and a coarse grid."
    return Picture(_draw(state, axes, table), _told(caption, state), exact=False)


def _by_lines(state: State, axes: Axes, along: str) -> Table:
    """Chains along one of the axes, each point started from its neighbour."""
    from onehead.aim.sketch.curves import sketch_decays, sketch_ratios  # noqa: PLC0415  (loads the theory)

    first = axes[0][0] == along
    (_, places), (other, values) = axes if first else axes[::-1]

    def chain(value: float) -> list[float | None]:
        own = state.changed(**{other: value})
        if along == "alpha":
            full = _of(state) == "train_loss"
            drawn = sketch_ratios(own.task, own.learner, places, full=full, patience=PATIENCE)
        else:
            drawn = sketch_decays(own.task, own.learner, own["alpha"], places)
        found = dict(zip(drawn.x, drawn.column(_of(state)), strict=True))
        return [found.get(place) for place in places]

    table = list(POOL.map(chain, values))
    return table if first else [list(row) for row in zip(*table, strict=True)]


def _by_cells(state: State, axes: Axes) -> Table:
    """Every cell by itself."""
    from onehead.aim.sketch.curves import dot  # noqa: PLC0415  (loads the theory)

    (x, across), (y, up) = axes

    def row(b: float) -> list[float | None]:
        cells = [state.changed(**{x: a, y: b}) for a in across]
        full = _of(state) == "train_loss"
        dots = [dot(own.task, own.learner, own["alpha"], full=full, patience=PATIENCE) for own in cells]
        return [None if found is None else getattr(found, _of(state)) for found in dots]

    return list(POOL.map(row, up))


# --- the library's own


def picture(state: State) -> Picture:
    """The library's own map."""
    refusal = _refusal(state)
    if refusal:
        return refused(refusal)
    x, y = axes = _axes(state, EXACT)
    alpha = None if "alpha" in (x[0], y[0]) else state["alpha"]
    found = aim.map(state.task, state.learner, alpha, x=x, y=y, of=_of(state), progress=pause)
    table = [[None if not np.isfinite(v) else float(v) for v in row] for row in found.grid(_of(state))]
    rows = [flat(row) for row in found.to_rows()]
    for row, best in zip(
        rows, (cell for line in _best(state, axes) for cell in line), strict=False
    ):  # there may be none
        row["bayes_test_error"] = best
    caption = (
        solved(len(found.cells), len(found.failures), "cells") + " Colours between their centres are interpolated."
    )
    return Picture(_draw(state, axes, table), _told(caption, state), rows)


def _told(caption: str, state: State) -> str:
    """A caption, and what the dotted lines are or why there are none."""
    if state["map_of"] != "test_error":
        return caption
    return f"{caption} {without_best(state.task, state.learner) or BEST_LINES}"


def _best(state: State, axes: Axes) -> Table:
    """The error of the best possible learner in every cell; nothing where it is not known."""
    (x, across), (y, up) = axes
    if not_known(state.task, state.learner):
        return []
    cells = [[state.changed(**{x: a, y: b}) for a in across] for b in up]
    return [[best_error(own.task, own["alpha"]) for own in row] for row in cells]


def _draw(state: State, axes: Axes, table: Table) -> Figure:
    (x, across), (y, up) = axes
    of = dict(KNOBS["map_of"].choices)[state["map_of"]]
    best = _best(state, axes) if _of(state) == "test_error" else []
    if state["map_of"] == "above_best":
        table, best = _difference(table, best), []
    hover = f"{_title(x)}: %{{x:.3g}}<br>{_title(y)}: %{{y:.3g}}<br>{of}: %{{z:.4f}}<extra></extra>"
    heights = levels(table)
    data = [contours(across, up, table, of, hover, at=heights)]
    if best:
        data.append(_dotted(across, up, best, heights))
    at = [float(state.learner.decay) if word == "weight_decay" else float(state[word]) for word in (x, y)]
    if all(ENDS[word][0] <= v <= ENDS[word][1] for word, v in zip((x, y), at, strict=True)):
        data.append(points([at[0]], [at[1]], "the knobs", symbol="cross", size=11))
    ends = [np.log10([axis[0], axis[-1]]).tolist() for axis in (across, up)]
    return figure(
        data, x=_title(x), y=_title(y), log_x=True, log_y=True, xaxis={"range": ends[0]}, yaxis={"range": ends[1]}
    )


def _difference(table: Table, best: Table) -> Table:
    """How far errors are above the best possible; a sketch may fall short of it by its own error."""
    pairs = [zip(own, floor, strict=True) for own, floor in zip(table, best, strict=True)]
    return [[None if e is None or b is None else max(e - b, 0.0) for e, b in row] for row in pairs]


def _dotted(x: list[float], y: list[float], z: Table, heights: Figure) -> Figure:
    """The best possible learner: lines at the heights of the map itself, without colours."""
    lines = {"coloring": "none", "showlabels": True, "labelfont": {"size": 10, "color": "@ink"}, **heights}
    style = {"color": "@ink", "dash": "dot", "width": 1.8}
    table = {"type": "contour", "name": POSSIBLE, "x": x, "y": y, "z": z, "contours": lines, "line": style}
    return {**table, "autocontour": False, "showscale": False, "showlegend": True, "hoverinfo": "skip"}


_at_the_knobs = answer(
    predicted,
    ("Test error at the knobs", "", "test_error", "on fresh samples"),
    ("Rank at the knobs", "", "rank", "share of {value}s of S that are not zero"),
    ("Training loss", "", "train_loss", "objective over d² at the minimum"),
)


def report(state: State) -> Report:
    """The exact numbers at the knobs, and the best possible."""
    found = _at_the_knobs(state)
    return Report(found.badge, found.numbers + best_numbers(state.task, state.learner, state["alpha"]))


def code(state: State) -> Code:
    """The map, without the explorer."""
    x, y = _axes(state, EXACT)
    alpha = "" if "alpha" in (x[0], y[0]) else "alpha={alpha!r}, "
    of, above = _of(state), state["map_of"] == "above_best"
    bayes, less = (", bayes=True", ' - found.grid("bayes_test_error")') if above else ("", "")
    text = (
        "point = oh.aim.predict(task, head, alpha={alpha!r})\nprint(point.test_error)\n\n"
        f"found = oh.aim.map(task, head, {alpha}x={x}, y={y}, of={of!r}{bayes})\nprint(found.grid({of!r}){less})"
    )
    return code_of("aim", text, "predict --alpha {alpha!r}")(state)


VIEW = View(
    name="map",
    title="Map",
    about="Any two words at once: where the error is low, and what to buy next, more samples or another weight decay.",
    formula=r"E(\text{across},\ \text{up})",
    problems=(MarchenkoPastur, Task, Learner),
    own=("alpha", "map_x", "map_y", "map_of"),
    panels={"": Panel(sketch, report, picture, code)},
)
