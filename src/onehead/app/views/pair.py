"""Two words at once: test error or rank over any two knobs."""

from typing import Any

import numpy as np

from onehead import aim
from onehead.aim.targets import MarchenkoPastur
from onehead.aim.task import Learner, Task
from onehead.app.drawing import Figure, contours, figure, points
from onehead.app.knobs import KNOBS
from onehead.app.state import State
from onehead.app.views.base import POOL, Code, Panel, Picture, View, answer, flat, predicted, refused, solved, waiting
from onehead.app.views.words import code_of
from onehead.app.work import pause

__all__ = ["VIEW"]

QUICK, EXACT = (6, 4), (11, 7)
PATIENCE = 0.06  # seconds for one line of a sketch
ENDS = {
    "alpha": (0.05, 4.0),
    "weight_decay": (1e-3, 1.0),
    "noise": (0.01, 2.0),
    "kappa0": (0.05, 2.0),
    "width": (0.1, 1.0),
}
SAME = "the two axes of a map must be different words; choose another one for one of them."


def _axes(state: State, counts: tuple[int, int]) -> list[tuple[str, list[float]]]:
    words = state["map_x"], state["map_y"]
    return [(word, _space(word, count)) for word, count in zip(words, counts, strict=True)]


def _space(word: str, count: int) -> list[float]:
    return [float(f"{v:.3g}") for v in np.geomspace(*ENDS[word], count)]


def _title(word: str) -> str:
    said = KNOBS[word].said
    return f"{said.label.lower()} {KNOBS[word].symbol}"


def sketch(state: State) -> Picture:
    """A coarse map, where α or λ is one of the words; for two others the exact one is waited for."""
    from onehead.aim.sketch.curves import sketch_decays, sketch_ratios  # noqa: PLC0415  (loads the theory)

    (x, across), (y, up) = axes = _axes(state, QUICK)
    if x == y:
        return refused(SAME)
    along = next((word for word in ("alpha", "weight_decay") if word in (x, y)), None)
    if along is None or (state["map_of"] not in ("test_error", "rank")):
        return waiting()
    other, values = (y, up) if along == x else (x, across)
    places = across if along == x else up

    def chain(value: float) -> dict[float, float]:
        own = state.changed(**{other: value})
        if along == "alpha":
            drawn = sketch_ratios(own.task, own.learner, places, full=False, patience=PATIENCE)
        else:
            drawn = sketch_decays(own.task, own.learner, own["alpha"], places)
        return {dot.x: getattr(dot, state["map_of"]) for dot in drawn.dots}

    chains = list(POOL.map(chain, values))
    table = [[found.get(place) for place in places] for found in chains]
    if not any(cell is not None for row in table for cell in row):
        return waiting()
    if along == y:
        table = [list(row) for row in zip(*table, strict=True)]
    return Picture(_draw(state, axes, table), "Sketch on a coarse rule and a coarse grid.", exact=False)


def picture(state: State) -> Picture:
    """The library's own map."""
    x, y = _axes(state, EXACT)
    if x[0] == y[0]:
        return refused(SAME)
    alpha = None if "alpha" in (x[0], y[0]) else state["alpha"]
    found = aim.map(state.task, state.learner, alpha, x=x, y=y, of=state["map_of"], progress=pause)
    table = [[None if not np.isfinite(v) else float(v) for v in row] for row in found.grid(state["map_of"])]
    caption = (
        solved(len(found.cells), len(found.failures), "cells") + " Colours between their centres are interpolated."
    )
    return Picture(_draw(state, [x, y], table), caption, [flat(row) for row in found.to_rows()])


def _draw(state: State, axes: list[tuple[str, list[float]]], table: Any) -> Figure:
    (x, across), (y, up) = axes
    of = state["map_of"].replace("_", " ")
    hover = f"{_title(x)}: %{{x:.3g}}<br>{_title(y)}: %{{y:.3g}}<br>{of}: %{{z:.4f}}<extra></extra>"
    data = [contours(across, up, table, of, hover)]
    at = [float(state.learner.decay) if word == "weight_decay" else float(state[word]) for word in (x, y)]
    if all(ENDS[word][0] <= v <= ENDS[word][1] for word, v in zip((x, y), at, strict=True)):
        data.append(points([at[0]], [at[1]], "the knobs", symbol="cross", size=11))
    ends = [np.log10([axis[0], axis[-1]]).tolist() for axis in (across, up)]
    return figure(
        data, x=_title(x), y=_title(y), log_x=True, log_y=True, xaxis={"range": ends[0]}, yaxis={"range": ends[1]}
    )


report = answer(
    predicted,
    ("Test error at the knobs", "", "test_error", "on fresh samples"),
    ("Rank at the knobs", "", "rank", "share of {value}s of S that are not zero"),
    ("Training loss", "", "train_loss", "objective over d² at the minimum"),
)


def code(state: State) -> Code:
    """The map, without the explorer."""
    x, y = _axes(state, EXACT)
    alpha = "" if "alpha" in (x[0], y[0]) else "alpha={alpha!r}, "
    text = (
        "point = oh.aim.predict(task, head, alpha={alpha!r})\nprint(point.test_error)\n\n"
        f"found = oh.aim.map(task, head, {alpha}x={x}, y={y}, of={state['map_of']!r})\nprint(found.grid({state['map_of']!r}))"
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
