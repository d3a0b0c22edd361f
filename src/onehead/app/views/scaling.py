"""Scaling laws of a power-law target at finite dimension: excess error, exponent, parts, phase diagram."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from onehead import aim
from onehead.aim.targets import PowerLaw
from onehead.aim.task import Learner, Task
from onehead.app.drawing import Figure, contours, figure, line, points, with_marked_point
from onehead.app.server.workers import stop_if_superseded
from onehead.app.state import State
from onehead.app.views.base import (
    DOTS_NOTE,
    DRAFT_POOL,
    Code,
    Panel,
    Picture,
    Report,
    View,
    report_from,
    scalar_columns,
    solved_count,
    solving_placeholder,
)
from onehead.app.views.bayes_line import best_error, best_line, best_numbers, missing_line_note
from onehead.app.views.code_snippets import code_snippets
from onehead.errors import OneheadError

Line = tuple[list[float], list[float]]  # numbers of samples and errors

DRAFT_POINTS, EXACT_POINTS = 7, 17
MIN_DRAFT_POINTS = 3  # fewer points of a draft give no exponent
PARTS = {
    "underfitting": ("@grey", "features that weight decay keeps at zero"),
    "approximation": ("@theory", "learned features with wrong size or direction"),
    "overfitting": ("@training", "learned noise"),
    "mismatch": ("@third", "an overall change of scale; may be negative"),
}
PHASE_DRAFT = ([0.8, 1.4, 2.0, 2.6, 3.2], [-1.5, 0.0, 1.5])
PHASE_GRID = ([round(0.8 + 0.2 * i, 1) for i in range(13)], [-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5])


def _samples(state: State, count: int) -> list[float]:
    """Return numbers of samples from 2 d to d^2.9."""
    return [float(f"{n:.5g}") for n in np.geomspace(2.0 * state["dim"], state["dim"] ** 2.9, count)]


def _law(state: State, samples: list[float]) -> Any:
    """Return the exact scaling law; raise the reason if no point could be solved."""
    law = aim.scaling(state.task, state.learner, samples, progress=stop_if_superseded)
    if len(law.failures) == len(law):
        raise OneheadError(law.failures[0].reason)
    return law


# --- the best possible learner

BEST_LINE_NOTE = (
    "Dotted line: excess error of the best possible learner, above its own error with infinitely many samples."
)


def _missing_line_note(state: State) -> str:
    """Return why the best possible learner is missing; the learner has Gaussian logits, as everywhere in this view."""
    return missing_line_note(state.task, state.learner.for_decomposition)


def _sample_ratios(state: State, samples: list[float]) -> tuple[float, ...]:
    return tuple(n / state["dim"] ** 2 for n in samples)


def _draft_best(state: State, samples: list[float]) -> list[float]:
    """Return a draft of the excess error of the best possible learner; empty where it is not known."""
    from onehead.app.drafts.derived import draft_bayes_excess  # loads the theory

    return [] if _missing_line_note(state) else draft_bayes_excess(state.task, _sample_ratios(state, samples))


def _best(state: State, samples: list[float]) -> list[float]:
    """Return the excess error of the best possible learner; empty where it is not known."""
    floor = None if _missing_line_note(state) else best_error(state.task, np.inf)
    if floor is None:
        return []
    found = []
    for ratio in _sample_ratios(state, samples):
        stop_if_superseded()
        found.append((best_error(state.task, ratio) or 0.0) - floor)
    return found


def _with_best_note(caption: str, state: State) -> str:
    """Add to a caption what the dotted line is, or why it is missing."""
    return f"{caption} {_missing_line_note(state) or BEST_LINE_NOTE}"


# --- excess error, its exponent and its parts


def _excess_draft(state: State) -> Picture:
    from onehead.app.drafts.derived import draft_excess  # loads the theory

    every = _samples(state, DRAFT_POINTS)
    best = DRAFT_POOL.submit(_draft_best, state, every)
    samples, excess, _ = draft_excess(state.task, state.learner, every)
    if len(samples) < MIN_DRAFT_POINTS:
        return solving_placeholder()
    slope = np.gradient(np.log(excess), np.log(samples)).tolist()
    chart = _excess_figure(state, samples, excess, slope, (every, best.result()), smooth=True)
    caption = _with_best_note("Draft with a coarse quadrature rule; the exact law follows when the knobs rest.", state)
    return Picture(chart, caption, exact=False)


def _excess_figure(state: State, samples: list[float], excess: Any, slope: Any, best: Line, *, smooth: bool) -> Figure:
    data = [
        line(samples, excess, "excess error", smooth=smooth, dots=not smooth),
        line(
            samples,
            slope,
            "local exponent",
            colour="@second",
            yaxis="y2",
            smooth=smooth,
            dots=not smooth,
            showlegend=False,
        ),
    ]
    if best[1]:
        data.append(best_line(*best, smooth=True))
    chart = figure(
        data,
        x="samples n",
        y="excess error",
        log_x=True,
        log_y=True,
        xaxis={"anchor": "y2"},
        yaxis={"domain": [0.42, 1.0]},
        yaxis2={"domain": [0.0, 0.32], "title": {"text": "exponent", "standoff": 6}},
    )
    return _marked(state, chart, samples)


def _marked(state: State, chart: Figure, samples: list[float]) -> Figure:
    return with_marked_point(chart, state["samples"], (samples[0], samples[-1]), by="samples")


def _excess_picture(state: State) -> Picture:
    law = _law(state, _samples(state, EXACT_POINTS))
    samples = law.column("samples").tolist()
    best = _best(state, samples)
    columns = law.column("excess_error"), law.column("local_exponent")
    chart = _excess_figure(state, samples, *columns, (samples, best), smooth=False)
    return _exact(chart, law, more=_with_best_note(f" {DOTS_NOTE}", state), best=best)


def _exact(chart: Figure, found: Any, what: str = "points", more: str = "", best: Sequence[float] = ()) -> Picture:
    """Return the picture of an exact result, with its rows."""
    caption = solved_count(len(found), len(found.failures), what) + more
    rows = [scalar_columns(row) for row in found.to_rows()]
    for row, excess in zip(rows, best, strict=False):  # empty where it is not known
        row["bayes_excess_error"] = excess
    return Picture(chart, caption, rows)


def _parts_draft(state: State) -> Picture:
    from onehead.app.drafts.derived import draft_decomposition  # loads the theory

    every = _samples(state, DRAFT_POINTS)
    best = DRAFT_POOL.submit(_draft_best, state, every)
    samples, table = draft_decomposition(state.task, state.learner, every)
    if len(samples) < 2:
        return solving_placeholder()
    columns = {name: [row[i] for row in table] for i, name in enumerate(PARTS)}
    chart = _parts_figure(state, samples, columns, (every, best.result()), smooth=True)
    return Picture(chart, _with_best_note("Draft with a coarse quadrature rule.", state), exact=False)


def _parts_figure(state: State, samples: list[float], columns: dict[str, Any], best: Line, *, smooth: bool) -> Figure:
    data = [
        line(
            samples,
            [v if v is not None and v > 0.0 else np.nan for v in columns[name]],
            name,
            colour=colour,
            dash="dashdot" if name == "mismatch" else "solid",
            smooth=smooth,
        )
        for name, (colour, _) in PARTS.items()
    ]
    total = [sum(columns[name][i] for name in PARTS) for i in range(len(samples))]
    data.append(line(samples, total, "excess error", colour="@ink", width=1.2, dash="dash", smooth=smooth))
    if best[1]:
        data.append(best_line(*best, smooth=True))
    top = max((t for t in total if np.isfinite(t)), default=1.0)
    low = min((t for t in total if np.isfinite(t) and t > 0.0), default=1e-4)
    limits = [float(np.log10(0.02 * low)), float(np.log10(2.0 * top))]
    chart = figure(
        data,
        x="samples n",
        y="part of the excess error",
        log_x=True,
        log_y=True,
        yaxis={"dtick": 1, "range": limits},
    )
    return _marked(state, chart, samples)


def _parts_picture(state: State) -> Picture:
    from onehead.aim.verbs.decompose import check_decomposable  # loads the theory

    check_decomposable(state.task, state.learner)
    law = _law(state, _samples(state, EXACT_POINTS))
    columns, samples = {name: law.column(name) for name in PARTS}, law.column("samples").tolist()
    best = _best(state, samples)
    chart = _parts_figure(state, samples, columns, (samples, best), smooth=False)
    more = _with_best_note(
        " The split into parts is a definition of this package; negative parts are not drawn on the logarithmic axis.",
        state,
    )
    return _exact(chart, law, more=more, best=best)


# --- phase diagram


def _phase_draft(state: State) -> Picture:
    columns, rows = PHASE_DRAFT
    from onehead.app.drafts.derived import draft_exponents  # loads the theory

    table = draft_exponents(state.task, state.learner, columns, rows)
    if all(cell is None for row in table for cell in row):
        return solving_placeholder()
    return Picture(
        _phase_figure(state, columns, rows, table), "Draft with a coarse quadrature rule on a coarse grid.", exact=False
    )


def _phase_figure(state: State, columns: list[float], rows: list[float], table: Any) -> Figure:
    hover = "n = d^%{x:.2f}, λ = d^%{y:.2f}: %{z:.3f}<extra></extra>"
    data = [contours(columns, rows, table, "exponent", hover, zmin=-2.0, zmax=0.0)]
    if state.learner.decay > 0.0:
        where, at = np.log([state["samples"], state.learner.decay]) / np.log(state["dim"])
        data.append(points([where], [at], "knobs", colour="@ink", symbol="cross", size=11))
    x_range, y_range = {"range": [columns[0], columns[-1]]}, {"range": [rows[0], rows[-1]]}
    return figure(data, x="samples, log n / log d", y="weight decay, log λ / log d", xaxis=x_range, yaxis=y_range)


def _phase_picture(state: State) -> Picture:
    columns, rows = PHASE_GRID
    found = aim.phase_diagram(state.task, state.learner, log_n=columns, log_lambda=rows, progress=stop_if_superseded)
    table = [[None if not np.isfinite(v) else float(v) for v in row] for row in found.grid("local_exponent")]
    chart = _phase_figure(state, columns, rows, table)
    return _exact(chart, found, "cells", " Colours between their centres are interpolated.")


# --- numbers and code


def _point(state: State) -> Any:
    return _law(state, [state["samples"]]).points[0]


_report_at_knob = report_from(
    _point,
    ("Excess error", "", "excess_error", "above the error with infinitely many samples"),
    ("Test error", "", "test_error", "on fresh samples"),
    ("Local exponent", "", "local_exponent", "d log excess / d log n"),
    *((name.capitalize(), "", name, text) for name, (_, text) in PARTS.items()),
    ("Outliers", "", "outliers", "features separated from the noise"),
    ("Rank", "", "rank", "share of {value}s that are not zero"),
    ("Sample ratio", "α", "alpha", "n/d²"),
)


def report(state: State) -> Report:
    """Return the exact numbers at the marked point and the best possible error."""
    found = _report_at_knob(state)
    best = best_numbers(state.task, state.learner.for_decomposition, *_sample_ratios(state, [state["samples"]]))
    return Report(found.badge, found.numbers + best)


POINT = (
    "point = oh.aim.scaling(task, head, [{samples!r}]).points[0]\nprint(point.excess_error, point.local_exponent)\n\n"
)


def _law_code(state: State) -> Code:
    samples = _samples(state, EXACT_POINTS)
    text = f"law = oh.aim.scaling(task, head, {samples})\nprint(law.column('excess_error'))"
    many = f"scaling --samples {','.join(repr(n) for n in samples)}"
    return code_snippets("aim", POINT + text, "scaling --samples {samples!r}", many)(state)


_phase_code = code_snippets(
    "aim",
    f"{POINT}diagram = oh.aim.phase_diagram(task, head, log_n={PHASE_GRID[0]}, log_lambda={PHASE_GRID[1]})",
    "phase-diagram",
)
ABOUT = "A target whose %s decay as a power law: how fast the error falls, and which parts it has."
POWER = r"%s_i(S^\star)\propto i^{-\gamma},\quad i=1..d,\qquad\allowbreak {E-E_\infty\sim n^{\text{exponent}}}"
VIEW = View(
    name="scaling",
    title="Scaling laws",
    about=ABOUT % "eigenvalues",
    formula=POWER % r"\lambda",
    heads=dict.fromkeys(("self", "cross"), (ABOUT % "singular values", POWER % r"\sigma")),
    problems=(PowerLaw, Task, Learner),
    own=("scaling_panel", "samples"),
    panel="scaling_panel",
    verb="scaling",
    panels={
        "excess": Panel(_excess_draft, report, _excess_picture, _law_code),
        "decomposition": Panel(_parts_draft, report, _parts_picture, _law_code),
        "phase": Panel(_phase_draft, report, _phase_picture, _phase_code),
    },
)
