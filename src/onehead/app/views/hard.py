"""The hard phase: where the signal could be found, but no quick algorithm is known to find it."""

from functools import lru_cache
from typing import Any

import numpy as np

from onehead import sparse
from onehead.app.drawing import Figure, figure, line, mark, marked
from onehead.app.state import State
from onehead.app.views.base import POSSIBLE, Line, Panel, Picture, answer, waiting
from onehead.app.views.words import code_of
from onehead.app.work import pause
from onehead.numerics.patience import stopwatch
from onehead.sparse.task import Task

__all__ = ["PANEL"]

QUICK, POINTS = 7, 41
PATIENCE = 0.5  # seconds for a sketch; points not reached by then are left out
FEWEST = 4
JUST = 1e-3  # how far from a jump it is drawn
LINES: tuple[Line, ...] = (
    ("Best possible", "", "test_error", "by who knows how the data were made"),
    ("Message passing", "", "test_error_amp", "what quick algorithms reach"),
    ("Hard", "", "hard", "whether they differ here"),
    ("Can be found from", "α", "information_threshold", "by anybody, in any time"),
    ("Found quickly from", "α", "algorithmic_threshold", "by message passing"),
    ("Knowing the signal", "", "floor", "test error"),
)


@lru_cache(maxsize=64)
def _best(task: Task, alpha: float) -> Any:
    return sparse.bayes(task, alpha)


def _ratios(state: State, count: int) -> list[float]:
    """Around the jump, if there is one; else around the marked number of samples."""
    found = _best(state.sparse_task, state.protocol.alpha)
    low, high = found.information_threshold, found.algorithmic_threshold
    ends = (0.4 * low, 2.5 * high) if low is not None and high is not None else (0.02, 16.0)
    at = state.protocol.alpha
    jumps = [side * jump for jump in (low, high) if jump is not None for side in (1.0 - JUST, 1.0 + JUST)]
    return sorted([*(float(v) for v in np.geomspace(min(ends[0], at), max(ends[1], at), count)), *jumps])


def sketch(state: State) -> Picture:
    """A few points, each the library's own; none where several signal tokens must be averaged over, which takes too long."""
    if state["signal_tokens"] > 1:
        return waiting()
    late = stopwatch(PATIENCE)
    found: list[Any] = []
    for alpha in _ratios(state, QUICK):
        if late():
            break
        found.append(_best(state.sparse_task, alpha))
    if len(found) < FEWEST:
        return waiting()
    return _shown(state, found, exact=False)


def picture(state: State) -> Picture:
    """Both branches, and the part between the thresholds."""
    found = []
    for alpha in _ratios(state, POINTS):
        pause()
        found.append(_best(state.sparse_task, alpha))
    return _shown(state, found, exact=True)


def _shown(state: State, found: list[Any], *, exact: bool) -> Picture:
    keys = ("alpha", "overlap", "test_error", "overlap_amp", "test_error_amp", "hard")
    rows = [{key: getattr(point, key) for key in keys} for point in found]
    low, high = found[0].information_threshold, found[0].algorithmic_threshold
    if low is None or high is None:
        caption = "No hard phase here: message passing reaches the best possible everywhere. Take longer sequences and a stronger signal."
    else:
        caption = f"Hard between α = {low:.3g} and α = {high:.3g} (shaded)."
    caption += "" if exact else " A few points so far; more follow when the knobs rest."
    return Picture(_draw(state, rows, low, high), caption, rows, exact=exact)


def _draw(state: State, rows: list[dict[str, Any]], low: float | None, high: float | None) -> Figure:
    x = [row["alpha"] for row in rows]
    data = [
        line(x, [row["test_error"] for row in rows], POSSIBLE, colour="@ink", dash="dot"),
        line(x, [row["test_error_amp"] for row in rows], "message passing", dash="solid"),
    ]
    ends = {"range": [float(np.log10(x[0])), float(np.log10(x[-1]))]}
    drawn = figure(
        data, x="samples over dimension, α", y="test error", log_x=True, xaxis=ends, yaxis={"rangemode": "tozero"}
    )
    if low is not None and high is not None:
        band = {"type": "rect", "x0": low, "x1": high, "y0": 0.0, "y1": 1.0, "yref": "paper"}
        drawn["layout"]["shapes"] = [{**band, "fillcolor": "@fill", "line": {"width": 0}, "layer": "below"}]
        mark(drawn["layout"], low, "can be found", row=0)
        mark(drawn["layout"], high, "found quickly", row=1)
    return marked(drawn, state.protocol.alpha, by="alpha0 alpha1")


PANEL = Panel(
    sketch=sketch,
    report=answer(lambda state: _best(state.sparse_task, state.protocol.alpha), *LINES),
    picture=picture,
    code=code_of(
        "sparse",
        "best = oh.sparse.bayes(task, alpha=plan.alpha)\n"
        "print(best.test_error, best.test_error_amp, best.hard)\n"
        "print(best.information_threshold, best.algorithmic_threshold)",
        "bayes --alpha {alpha0!r}",
    ),
)
