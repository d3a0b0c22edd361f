"""Map: test error, rank or training loss over any two parameters."""

import numpy as np

from onehead import aim
from onehead.aim.targets import MarchenkoPastur
from onehead.aim.task import Learner, Task
from onehead.app.drawing import Figure, contour_levels, contours, figure, points
from onehead.app.knobs import KNOBS
from onehead.app.server.workers import stop_if_superseded
from onehead.app.state import State
from onehead.app.views.base import (
    BEST_POSSIBLE,
    DRAFT_POOL,
    Code,
    Panel,
    Picture,
    Report,
    View,
    predict_at_knobs,
    refusal_picture,
    report_from,
    scalar_columns,
    solved_count,
    solving_placeholder,
)
from onehead.app.views.bayes_line import best_error, best_numbers, missing_line_note, why_unknown
from onehead.app.views.code_snippets import code_snippets

LINE_DRAFT_SIZE, CELL_DRAFT_SIZE, EXACT_SIZE = (6, 4), (5, 3), (11, 7)  # columns and rows of the grid
DRAFT_SECONDS = 0.06  # CPU time for one line of a draft, or for one cell of a draft that is computed cell by cell
AXIS_RANGES = {
    "alpha": (0.05, 4.0),
    "weight_decay": (1e-3, 1.0),
    "noise": (0.01, 2.0),
    "kappa0": (0.05, 2.0),
    "width": (0.1, 1.0),
}
SAME_AXES = "Choose two different parameters for the horizontal and the vertical axis."
BEST_LINES = "Dotted lines: the same errors for the best possible learner."

Axes = list[tuple[str, list[float]]]
Table = list[list[float | None]]  # a row for every value of the second axis


def _axes(state: State, counts: tuple[int, int]) -> Axes:
    names = state["map_x"], state["map_y"]
    return [(name, _values(name, count)) for name, count in zip(names, counts, strict=True)]


def _values(name: str, count: int) -> list[float]:
    return [float(f"{v:.3g}") for v in np.geomspace(*AXIS_RANGES[name], count)]


def _title(name: str) -> str:
    return f"{KNOBS[name].parameter.label.lower()} {KNOBS[name].symbol}"


def _quantity(state: State) -> str:
    """Return the quantity that is computed in every cell."""
    return "test_error" if state["map_of"] == "above_best" else str(state["map_of"])


def _refusal(state: State) -> str:
    """Return why the map cannot be computed; empty if it can."""
    if state["map_x"] == state["map_y"]:
        return SAME_AXES
    return why_unknown(state.task, state.learner) if state["map_of"] == "above_best" else ""


# --- draft


def draft(state: State) -> Picture:
    """Return a coarse map: line by line along α or λ where one of them is an axis, else cell by cell."""
    refusal = _refusal(state)
    if refusal:
        return refusal_picture(refusal)
    names = state["map_x"], state["map_y"]
    lines = [name for name in ("alpha", "weight_decay") if name in names]
    if _quantity(state) == "train_loss" and "alpha" not in names:
        lines = []  # drafts along λ have no training loss
    axes = _axes(state, LINE_DRAFT_SIZE if lines else CELL_DRAFT_SIZE)
    table = _by_lines(state, axes, lines[0]) if lines else _by_cells(state, axes)
    if not any(cell is not None for row in table for cell in row):
        return solving_placeholder()
    caption = "Draft with a coarse quadrature rule on a coarse grid."
    return Picture(_draw(state, axes, table), _with_best_note(caption, state), exact=False)


def _by_lines(state: State, axes: Axes, along: str) -> Table:
    """Solve along one of the axes, each point started from its neighbour."""
    from onehead.app.drafts.curves import draft_curve, draft_decay_curve  # loads the theory

    first = axes[0][0] == along
    (_, positions), (other, values) = axes if first else axes[::-1]

    def chain(value: float) -> list[float | None]:
        own = state.changed(**{other: value})
        if along == "alpha":
            full = _quantity(state) == "train_loss"
            line = draft_curve(own.task, own.learner, positions, full=full, seconds=DRAFT_SECONDS)
        else:
            line = draft_decay_curve(own.task, own.learner, own["alpha"], positions)
        found = dict(zip(line.x, line.column(_quantity(state)), strict=True))
        return [found.get(position) for position in positions]

    table = list(DRAFT_POOL.map(chain, values))
    return table if first else [list(row) for row in zip(*table, strict=True)]


def _by_cells(state: State, axes: Axes) -> Table:
    """Solve every cell by itself."""
    from onehead.app.drafts.curves import draft_point  # loads the theory

    (x, x_values), (y, y_values) = axes

    def row(b: float) -> list[float | None]:
        cells = [state.changed(**{x: a, y: b}) for a in x_values]
        full = _quantity(state) == "train_loss"
        points = [draft_point(own.task, own.learner, own["alpha"], full=full, seconds=DRAFT_SECONDS) for own in cells]
        return [None if found is None else getattr(found, _quantity(state)) for found in points]

    return list(DRAFT_POOL.map(row, y_values))


# --- exact map


def picture(state: State) -> Picture:
    """Return the exact map."""
    refusal = _refusal(state)
    if refusal:
        return refusal_picture(refusal)
    x, y = axes = _axes(state, EXACT_SIZE)
    alpha = None if "alpha" in (x[0], y[0]) else state["alpha"]
    found = aim.map(state.task, state.learner, alpha, x=x, y=y, of=_quantity(state), progress=stop_if_superseded)
    table = [[None if not np.isfinite(v) else float(v) for v in row] for row in found.grid(_quantity(state))]
    rows = [scalar_columns(row) for row in found.to_rows()]
    for row, best in zip(
        rows, (cell for line in _best(state, axes) for cell in line), strict=False
    ):  # there may be none
        row["bayes_test_error"] = best
    caption = (
        solved_count(len(found.cells), len(found.failures), "cells")
        + " Colours between their centres are interpolated."
    )
    return Picture(_draw(state, axes, table), _with_best_note(caption, state), rows)


def _with_best_note(caption: str, state: State) -> str:
    """Add to a caption what the dotted lines are, or why they are missing."""
    if state["map_of"] != "test_error":
        return caption
    return f"{caption} {missing_line_note(state.task, state.learner) or BEST_LINES}"


def _best(state: State, axes: Axes) -> Table:
    """Return the error of the best possible learner in every cell; empty where it is not known."""
    (x, x_values), (y, y_values) = axes
    if why_unknown(state.task, state.learner):
        return []
    cells = [[state.changed(**{x: a, y: b}) for a in x_values] for b in y_values]
    return [[best_error(own.task, own["alpha"]) for own in row] for row in cells]


def _draw(state: State, axes: Axes, table: Table) -> Figure:
    (x, x_values), (y, y_values) = axes
    of = dict(KNOBS["map_of"].choices)[state["map_of"]]
    best = _best(state, axes) if _quantity(state) == "test_error" else []
    if state["map_of"] == "above_best":
        table, best = _difference(table, best), []
    hover = f"{_title(x)}: %{{x:.3g}}<br>{_title(y)}: %{{y:.3g}}<br>{of}: %{{z:.4f}}<extra></extra>"
    levels = contour_levels(table)
    data = [contours(x_values, y_values, table, of, hover, levels=levels)]
    if best:
        data.append(_dotted(x_values, y_values, best, levels))
    at = [float(state.learner.decay) if name == "weight_decay" else float(state[name]) for name in (x, y)]
    if all(AXIS_RANGES[name][0] <= v <= AXIS_RANGES[name][1] for name, v in zip((x, y), at, strict=True)):
        data.append(points([at[0]], [at[1]], "knobs", colour="@ink", symbol="cross", size=11))
    ends = [np.log10([axis[0], axis[-1]]).tolist() for axis in (x_values, y_values)]
    return figure(
        data, x=_title(x), y=_title(y), log_x=True, log_y=True, xaxis={"range": ends[0]}, yaxis={"range": ends[1]}
    )


def _difference(table: Table, best: Table) -> Table:
    """Return how far errors lie above the best possible ones; negative differences, errors of a draft, become zero."""
    pairs = [zip(own, floor, strict=True) for own, floor in zip(table, best, strict=True)]
    return [[None if e is None or b is None else max(e - b, 0.0) for e, b in row] for row in pairs]


def _dotted(x: list[float], y: list[float], z: Table, levels: Figure) -> Figure:
    """Return the contour lines of the best possible learner, at the levels of the map and without colours."""
    lines = {"coloring": "none", "showlabels": True, "labelfont": {"size": 10, "color": "@ink"}, **levels}
    style = {"color": "@ink", "dash": "dot", "width": 1.8}
    table = {"type": "contour", "name": BEST_POSSIBLE, "x": x, "y": y, "z": z, "contours": lines, "line": style}
    return {**table, "autocontour": False, "showscale": False, "showlegend": True, "hoverinfo": "skip"}


_report_at_knobs = report_from(
    predict_at_knobs,
    ("Test error at the knobs", "", "test_error", "on fresh samples"),
    ("Rank at the knobs", "", "rank", "share of {value}s of S that are not zero"),
    ("Training loss", "", "train_loss", "objective divided by d², at the minimum"),
)


def report(state: State) -> Report:
    """Return the exact numbers at the knobs and the best possible error."""
    found = _report_at_knobs(state)
    return Report(found.badge, found.numbers + best_numbers(state.task, state.learner, state["alpha"]))


def code(state: State) -> Code:
    """Return code that computes the map."""
    x, y = _axes(state, EXACT_SIZE)
    alpha = "" if "alpha" in (x[0], y[0]) else "alpha={alpha!r}, "
    of, above = _quantity(state), state["map_of"] == "above_best"
    bayes, less = (", bayes=True", ' - found.grid("bayes_test_error")') if above else ("", "")
    text = (
        "point = oh.aim.predict(task, head, alpha={alpha!r})\nprint(point.test_error)\n\n"
        f"found = oh.aim.map(task, head, {alpha}x={x}, y={y}, of={of!r}{bayes})\nprint(found.grid({of!r}){less})"
    )
    return code_snippets("aim", text, "predict --alpha {alpha!r}")(state)


VIEW = View(
    name="map",
    title="Map",
    about="Any two parameters at once: where the error is low, and what pays off next, more samples or a different "
    "weight "
    "decay.",
    formula=r"E(\text{horizontal},\ \text{vertical})",
    problems=(MarchenkoPastur, Task, Learner),
    own=("alpha", "map_x", "map_y", "map_of"),
    panels={"": Panel(draft, report, picture, code)},
)
