"""The hard phase of sparse tokens: the signal can be found in principle, but no fast algorithm is known to find it."""

from functools import lru_cache
from typing import Any

import numpy as np

from onehead import sparse
from onehead.app.drawing import Figure, add_vertical_mark, figure, line, with_marked_point
from onehead.app.server.workers import stop_if_superseded
from onehead.app.state import State
from onehead.app.views.base import (
    BEST_POSSIBLE,
    BEST_POSSIBLE_MEANING,
    Line,
    Panel,
    Picture,
    report_from,
    solving_placeholder,
)
from onehead.app.views.code_snippets import code_snippets
from onehead.numerics.time_budget import stopwatch
from onehead.sparse.task import Task

DRAFT_POINTS, EXACT_POINTS = 7, 41
DRAFT_SECONDS = 0.5  # CPU time for a draft; points not reached by then are left out
MIN_DRAFT_POINTS = 4
JUMP_OFFSET = 1e-3  # relative distance of the points on both sides of a jump
NO_HARD_PHASE = (
    "No hard phase here: message passing reaches the best possible error everywhere. "
    "Try longer sequences and a stronger signal."
)
LINES: tuple[Line, ...] = (
    ("Best possible", "", "test_error", BEST_POSSIBLE_MEANING),
    ("Message passing", "", "test_error_amp", "error of the best fast algorithm known"),
    ("Hard", "", "hard", "whether the two differ here"),
    ("Can be found from", "α", "information_threshold", "by the best possible learner"),
    ("Found fast from", "α", "algorithmic_threshold", "by message passing"),
    ("Signal known", "", "floor", "test error of a learner that knows the signal"),
)


@lru_cache(maxsize=64)
def _bayes(task: Task, alpha: float) -> Any:
    return sparse.bayes(task, alpha)


def _ratios(state: State, count: int) -> list[float]:
    """Return sample ratios around the jump if there is one, else over a fixed range; the marked one lies inside."""
    found = _bayes(state.sparse_task, state.protocol.alpha)
    low, high = found.information_threshold, found.algorithmic_threshold
    ends = (0.4 * low, 2.5 * high) if low is not None and high is not None else (0.02, 16.0)
    at = state.protocol.alpha
    jumps = [side * jump for jump in (low, high) if jump is not None for side in (1.0 - JUMP_OFFSET, 1.0 + JUMP_OFFSET)]
    return sorted([*(float(v) for v in np.geomspace(min(ends[0], at), max(ends[1], at), count)), *jumps])


def draft(state: State) -> Picture:
    """Return a few exact points; none with several signal tokens, where each takes too long."""
    if state["signal_tokens"] > 1:
        return solving_placeholder()
    late = stopwatch(DRAFT_SECONDS)
    found: list[Any] = []
    for alpha in _ratios(state, DRAFT_POINTS):
        if late():
            break
        found.append(_bayes(state.sparse_task, alpha))
    if len(found) < MIN_DRAFT_POINTS:
        return solving_placeholder()
    return _picture_of(state, found, exact=False)


def picture(state: State) -> Picture:
    """Return both branches, with the range between the thresholds shaded."""
    found = []
    for alpha in _ratios(state, EXACT_POINTS):
        stop_if_superseded()
        found.append(_bayes(state.sparse_task, alpha))
    return _picture_of(state, found, exact=True)


def _picture_of(state: State, found: list[Any], *, exact: bool) -> Picture:
    keys = ("alpha", "overlap", "test_error", "overlap_amp", "test_error_amp", "hard")
    rows = [{key: getattr(point, key) for key in keys} for point in found]
    low, high = found[0].information_threshold, found[0].algorithmic_threshold
    if low is None or high is None:
        caption = NO_HARD_PHASE
    else:
        caption = f"Hard between α = {low:.3g} and α = {high:.3g} (shaded)."
    caption += "" if exact else " Only a few points so far; more follow when the knobs rest."
    return Picture(_draw(state, rows, low, high), caption, rows, exact=exact)


def _draw(state: State, rows: list[dict[str, Any]], low: float | None, high: float | None) -> Figure:
    x = [row["alpha"] for row in rows]
    data = [
        line(x, [row["test_error"] for row in rows], BEST_POSSIBLE, colour="@ink", dash="dot"),
        line(x, [row["test_error_amp"] for row in rows], "message passing", dash="solid"),
    ]
    ends = {"range": [float(np.log10(x[0])), float(np.log10(x[-1]))]}
    chart = figure(
        data, x="samples divided by dimension, α", y="test error", log_x=True, xaxis=ends, yaxis={"rangemode": "tozero"}
    )
    if low is not None and high is not None:
        band = {"type": "rect", "x0": low, "x1": high, "y0": 0.0, "y1": 1.0, "yref": "paper"}
        chart["layout"]["shapes"] = [{**band, "fillcolor": "@fill", "line": {"width": 0}, "layer": "below"}]
        add_vertical_mark(chart["layout"], low, "can be found", row=0)
        add_vertical_mark(chart["layout"], high, "found fast", row=1)
    return with_marked_point(chart, state.protocol.alpha, by="alpha0 alpha1")


PANEL = Panel(
    draft=draft,
    report=report_from(lambda state: _bayes(state.sparse_task, state.protocol.alpha), *LINES),
    picture=picture,
    code=lambda state: code_snippets(
        "sparse",
        "best = oh.sparse.bayes(task, alpha=plan.alpha)\n"
        "print(best.test_error, best.test_error_amp, best.hard)\n"
        "print(best.information_threshold, best.algorithmic_threshold)",
        f"bayes --alpha {state.protocol.alpha!r}",  # of both stages
    )(state),
)
