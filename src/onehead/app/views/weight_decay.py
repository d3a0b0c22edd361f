"""Weight decay: the test error against λ at one sample ratio, with the best λ marked."""

from typing import Any

import numpy as np

from onehead import aim
from onehead.aim.targets import MarchenkoPastur
from onehead.aim.task import Learner, Task
from onehead.app.drawing import Figure, figure, format_value, line, points
from onehead.app.knobs import KNOBS
from onehead.app.refusals import as_sentence
from onehead.app.server.workers import stop_if_superseded
from onehead.app.state import State
from onehead.app.views.base import (
    DOTS_NOTE,
    Line,
    Panel,
    Picture,
    Report,
    View,
    fill_placeholders,
    format_range,
    numbers,
    predict_at_knobs,
    report_from,
    solving_placeholder,
)
from onehead.app.views.bayes_line import best_error, best_line, best_numbers, with_missing_line_note
from onehead.app.views.code_snippets import code_snippets

DRAFT_POINTS = {2: 14, 3: 7}
MIN_DECAY = 1e-4
RANK = "share of {value}s that are not zero"
BEST: tuple[Line, ...] = (
    ("Best weight decay", "λ*", lambda best: best.weight_decay or "0+", "with the lowest test error"),
    ("Test error there", "", "test_error", ""),
    (
        "Good range",
        "λ",
        lambda best: format_range(best.flat_from, best.flat_to),
        "test error within 0.1 % of the lowest",
    ),
    ("Rank there", "", "point.rank", RANK),
)


def draft(state: State) -> Picture:
    """Return a draft of the curve."""
    from onehead.app.drafts.curves import draft_decay_curve, draft_vanishing_decay  # loads the theory

    top = max(1.5 * draft_vanishing_decay(state.task, state.learner, state["alpha"]), 100.0 * MIN_DECAY)
    top = min(top, float(KNOBS["weight_decay"].parameter.bounds["le"]))  # with very many samples the map never vanishes
    decays = np.geomspace(MIN_DECAY, top, DRAFT_POINTS.get(state["tokens"], 4)).tolist()
    curve = draft_decay_curve(state.task, state.learner, state["alpha"], decays)
    scan = [(point.x, point.numbers.test_error) for point in curve.points]
    if not scan:
        return solving_placeholder()
    caption = "Draft with a coarse quadrature rule; the search for the best λ follows when the knobs rest."
    caption = with_missing_line_note(caption, state.task, state.learner)
    return Picture(_draw(state, scan, None, smooth=True), caption, exact=False)


def picture(state: State) -> Picture:
    """Return the exact curve and the result of the search for the best λ."""
    best = aim.tune(state.task, state.learner, state["alpha"], progress=stop_if_superseded)
    scan = [(decay, error) for decay, error in best.scan if decay > 0.0]
    rows = tuple({"weight_decay": decay, "test_error": error} for decay, error in best.scan)
    caption = f"{as_sentence(best.certificate.status)} {DOTS_NOTE}"
    caption = with_missing_line_note(caption, state.task, state.learner)
    return Picture(
        _draw(state, scan, best, smooth=False), caption, rows, numbers(best, *fill_placeholders(state, *BEST))
    )


def _draw(state: State, scan: list[tuple[float, float]], best: Any, *, smooth: bool) -> Figure:
    """Draw the test error against λ: the best λ as a star, the limit 0+ as a line, that of the knob as a circle."""
    x, y = [decay for decay, _ in scan], [error for _, error in scan]
    data = [line(x, y, "test error", smooth=smooth, dots=not smooth)]
    if best is not None:
        limit = dict(best.scan).get(0.0)
        if limit is not None and x:
            data.append(line([x[0], x[-1]], [limit, limit], "limit λ → 0⁺", colour="@grey", dash="dash", width=1.3))
        if best.weight_decay > 0.0:
            name = f"best, λ = {format_value(best.weight_decay)}"
            data.append(points([best.weight_decay], [best.test_error], name, colour="@optimum", symbol="star", size=14))
    elif y:
        k = int(np.argmin(y))
        data.append(points([x[k]], [y[k]], "lowest so far", colour="@optimum", symbol="star-open", size=12))
    possible = best_error(state.task, state["alpha"])
    if possible is not None and x:
        data.append(best_line([x[0], x[-1]], [possible, possible]))
    own = state.learner.decay
    if own > 0.0 and len(x) > 1 and x[0] <= own <= x[-1]:
        here = float(np.interp(np.log(own), np.log(x), y))
        data.append(
            points([own], [here], f"knob, λ = {format_value(own)}", colour="@theory", symbol="circle-open", size=11)
        )
    return figure(data, x="weight decay λ", y="test error", log_x=True)


_report_at_knob = report_from(
    predict_at_knobs,
    ("Test error at the knob", "λ", "test_error", "weight decay {weight_decay}"),
    ("Rank at the knob", "", "rank", RANK),
)


def report(state: State) -> Report:
    """Return the exact numbers at the knob and the best possible error."""
    found = _report_at_knob(state)
    return Report(found.badge, found.numbers + best_numbers(state.task, state.learner, state["alpha"]))


code = code_snippets(
    "aim",
    "best = oh.aim.tune(task, head, alpha={alpha!r})\n"
    "print(best.weight_decay, best.test_error)\n"
    "print(best.scan)   # pairs of λ and test error",
    "tune --alpha {alpha!r}",
)
VIEW = View(
    name="decay",
    title="Weight decay",
    about="Which weight decay is best for this task, width and number of samples.",
    formula=r"\lambda^\star(\alpha)=\arg\min_\lambda\ \mathbb{E}\,\big|\mathrm{softmax}(\beta h(\hat "
    r"S_\lambda))-y\big|^2",
    problems=(MarchenkoPastur, Task, Learner),
    own=("alpha",),
    panels={"": Panel(draft, report, picture, code)},
)
