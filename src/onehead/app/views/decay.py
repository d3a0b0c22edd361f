"""Weight decay: the test error against λ at one sample ratio, the best marked."""

from typing import Any

import numpy as np

from onehead import aim
from onehead.aim.targets import MarchenkoPastur
from onehead.aim.task import Learner, Task
from onehead.app.drawing import Figure, figure, line, points, show
from onehead.app.state import State
from onehead.app.views.base import (
    DOTS,
    Line,
    Panel,
    Picture,
    Report,
    View,
    answer,
    numbers,
    predicted,
    span,
    waiting,
    worded,
)
from onehead.app.views.best import beside_best, best_error, best_line, best_numbers
from onehead.app.views.words import code_of
from onehead.app.work import pause

__all__ = ["VIEW"]

QUICK_POINTS = {2: 14, 3: 7}
LOWEST = 1e-4
RANK = "share of {value}s that are not zero"
BEST: tuple[Line, ...] = (
    ("Best weight decay", "λ*", lambda best: best.weight_decay or "0+", "with the lowest test error"),
    ("Test error there", "", "test_error", ""),
    ("Good range", "λ", lambda best: span(best.flat_from, best.flat_to), "within 0.1 % of the best"),
    ("Rank there", "", "point.rank", RANK),
)


def sketch(state: State) -> Picture:
    """The curve for the eye."""
    from onehead.aim.sketch.curves import sketch_decays, sketch_top  # noqa: PLC0415  (loads the theory)

    top = max(1.5 * sketch_top(state.task, state.learner, state["alpha"]), 100.0 * LOWEST)
    decays = np.geomspace(LOWEST, top, QUICK_POINTS.get(state["tokens"], 4)).tolist()
    drawn = sketch_decays(state.task, state.learner, state["alpha"], decays)
    scan = [(dot.x, dot.test_error) for dot in drawn.dots]
    if not scan:
        return waiting()
    caption = "Sketch on a coarse rule; the search for the best λ follows when the knobs rest."
    caption = beside_best(caption, state.task, state.learner)
    return Picture(_draw(state, scan, None, smooth=True), caption, exact=False)


def picture(state: State) -> Picture:
    """The library's own search."""
    best = aim.tune(state.task, state.learner, state["alpha"], progress=pause)
    scan = [(decay, error) for decay, error in best.scan if decay > 0.0]
    rows = tuple({"weight_decay": decay, "test_error": error} for decay, error in best.scan)
    caption = f"{best.certificate.status[:1].upper()}{best.certificate.status[1:]}. {DOTS}"
    caption = beside_best(caption, state.task, state.learner)
    return Picture(_draw(state, scan, best, smooth=False), caption, rows, numbers(best, *worded(state, *BEST)))


def _draw(state: State, scan: list[tuple[float, float]], best: Any, *, smooth: bool) -> Figure:
    """Test error against λ; the best as a star, the limit 0+ as a line, the knob's own λ as an open circle."""
    x, y = [decay for decay, _ in scan], [error for _, error in scan]
    data = [line(x, y, "test error", smooth=smooth, dots=not smooth)]
    if best is not None:
        limit = dict(best.scan).get(0.0)
        if limit is not None and x:
            data.append(line([x[0], x[-1]], [limit, limit], "limit λ → 0⁺", colour="@grey", dash="dash", width=1.3))
        if best.weight_decay > 0.0:
            name = f"best, λ = {show(best.weight_decay)}"
            data.append(points([best.weight_decay], [best.test_error], name, symbol="star", size=14))
    elif y:
        k = int(np.argmin(y))
        data.append(points([x[k]], [y[k]], "best so far", symbol="star-open", size=12))
    possible = best_error(state.task, state["alpha"])
    if possible is not None and x:
        data.append(best_line([x[0], x[-1]], [possible, possible]))
    own = state.learner.decay
    if own > 0.0 and len(x) > 1 and x[0] <= own <= x[-1]:
        here = float(np.interp(np.log(own), np.log(x), y))
        data.append(
            points([own], [here], f"the knob, λ = {show(own)}", colour="@theory", symbol="circle-open", size=11)
        )
    return figure(data, x="weight decay λ", y="test error", log_x=True)


_at_the_knob = answer(
    predicted,
    ("Test error at the knob", "λ", "test_error", "weight decay {weight_decay}"),
    ("Rank at the knob", "", "rank", RANK),
)


def report(state: State) -> Report:
    """The exact numbers at the knob, and the best possible."""
    found = _at_the_knob(state)
    return Report(found.badge, found.numbers + best_numbers(state.task, state.learner, state["alpha"]))


code = code_of(
    "aim",
    "best = oh.aim.tune(task, head, alpha={alpha!r})\n"
    "print(best.weight_decay, best.test_error)\n"
    "print(best.scan)   # the pairs tried",
    "tune --alpha {alpha!r}",
)
VIEW = View(
    name="decay",
    title="Weight decay",
    about="How much weight decay is best for this task, width and number of samples.",
    formula=r"\lambda^\star(\alpha)=\arg\min_\lambda\ \mathbb{E}\,\big|\mathrm{softmax}(\beta h(\hat S_\lambda))-y\big|^2",
    problems=(MarchenkoPastur, Task, Learner),
    own=("alpha",),
    panels={"": Panel(sketch, report, picture, code)},
)
