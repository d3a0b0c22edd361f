"""Scaling laws: a power-law target at finite dimension; excess error, exponent, where the error comes from, phases."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from onehead import aim
from onehead.aim.targets import PowerLaw
from onehead.aim.task import Learner, Task
from onehead.app.drawing import Figure, contours, figure, line, marked, points
from onehead.app.state import State
from onehead.app.views.base import DOTS, POOL, Code, Panel, Picture, Report, View, answer, flat, solved, waiting
from onehead.app.views.best import best_error, best_line, best_numbers, without_best
from onehead.app.views.words import code_of
from onehead.app.work import pause
from onehead.errors import OneheadError

__all__ = ["VIEW"]

Line = tuple[list[float], list[float]]  # numbers of samples, and errors there

QUICK, EXACT = 7, 17
FEWEST = 3  # points of a sketch that have an exponent
PARTS = {
    "underfitting": ("@grey", "directions that weight decay keeps at zero"),
    "approximation": ("@theory", "learned features, wrong in size or direction"),
    "overfitting": ("@training", "noise that was learned"),
    "mismatch": ("@third", "an overall change of size; may be negative"),
}
PHASE_QUICK = ([0.8, 1.4, 2.0, 2.6, 3.2], [-1.5, 0.0, 1.5])
PHASE = ([round(0.8 + 0.2 * i, 1) for i in range(13)], [-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5])


def _samples(state: State, count: int) -> list[float]:
    """Numbers of samples from 2 d to d^2.9."""
    return [float(f"{n:.5g}") for n in np.geomspace(2.0 * state["dim"], state["dim"] ** 2.9, count)]


def _law(state: State, samples: list[float]) -> Any:
    """The library's own law; if no point of it has an answer, the sentence why."""
    law = aim.scaling(state.task, state.learner, samples, progress=pause)
    if len(law.failures) == len(law):
        raise OneheadError(law.failures[0].reason)
    return law


# --- the best possible learner

ABOVE = "The dotted line is the best possible learner, above its own error after infinitely many samples."


def _without(state: State) -> str:
    """Why there is no best possible learner: logits are Gaussian in these pictures, whose learner it is."""
    return without_best(state.task, state.learner.splitting)


def _ratios(state: State, samples: list[float]) -> tuple[float, ...]:
    return tuple(n / state["dim"] ** 2 for n in samples)


def _quick_best(state: State, samples: list[float]) -> list[float]:
    """The excess error of the best possible learner, for the eye; nothing where it is not known."""
    from onehead.aim.sketch.derived import sketch_bayes_excess  # noqa: PLC0415  (loads the theory)

    return [] if _without(state) else sketch_bayes_excess(state.task, _ratios(state, samples))


def _best(state: State, samples: list[float]) -> list[float]:
    """The excess error of the best possible learner; nothing where it is not known."""
    floor = None if _without(state) else best_error(state.task, np.inf)
    if floor is None:
        return []
    found = []
    for ratio in _ratios(state, samples):
        pause()
        found.append((best_error(state.task, ratio) or 0.0) - floor)
    return found


def _told(caption: str, state: State) -> str:
    """A caption, and what the dotted line is or why there is none."""
    return f"{caption} {_without(state) or ABOVE}"


# --- excess error and its exponent, and where it comes from


def _excess_sketch(state: State) -> Picture:
    from onehead.aim.sketch.derived import sketch_excess  # noqa: PLC0415  (loads the theory)

    every = _samples(state, QUICK)
    best = POOL.submit(_quick_best, state, every)
    samples, excess, _ = sketch_excess(state.task, state.learner, every)
    if len(samples) < FEWEST:
        return waiting()
    slope = np.gradient(np.log(excess), np.log(samples)).tolist()
    drawn = _excess_figure(state, samples, excess, slope, (every, best.result()), smooth=True)
    caption = _told("Sketch on a coarse rule; the exact law follows when the knobs rest.", state)
    return Picture(drawn, caption, exact=False)


def _excess_figure(state: State, samples: list[float], excess: Any, slope: Any, best: Line, *, smooth: bool) -> Figure:
    data = [
        line(samples, excess, "excess error", smooth=smooth, dots=not smooth),
        line(
            samples,
            slope,
            "local exponent",
            colour="@second",
            panel="y2",
            smooth=smooth,
            dots=not smooth,
            showlegend=False,
        ),
    ]
    if best[1]:
        data.append(best_line(*best, smooth=True))
    drawn = figure(
        data,
        x="samples n",
        y="excess error",
        log_x=True,
        log_y=True,
        xaxis={"anchor": "y2"},
        yaxis={"domain": [0.42, 1.0]},
        yaxis2={"domain": [0.0, 0.32], "title": {"text": "exponent", "standoff": 6}},
    )
    return _marked(state, drawn, samples)


def _marked(state: State, drawn: Figure, samples: list[float]) -> Figure:
    return marked(drawn, state["samples"], (samples[0], samples[-1]), by="samples")


def _excess_picture(state: State) -> Picture:
    law = _law(state, _samples(state, EXACT))
    samples = law.column("samples").tolist()
    best = _best(state, samples)
    columns = law.column("excess_error"), law.column("local_exponent")
    drawn = _excess_figure(state, samples, *columns, (samples, best), smooth=False)
    return _exact(drawn, law, more=_told(f" {DOTS}", state), best=best)


def _exact(drawn: Figure, found: Any, what: str = "points", more: str = "", best: Sequence[float] = ()) -> Picture:
    """The picture of the library's own answer."""
    caption = solved(len(found), len(found.failures), what) + more
    rows = [flat(row) for row in found.to_rows()]
    for row, excess in zip(rows, best, strict=False):  # there may be none
        row["bayes_excess_error"] = excess
    return Picture(drawn, caption, rows)


def _parts_sketch(state: State) -> Picture:
    from onehead.aim.sketch.derived import sketch_parts  # noqa: PLC0415  (loads the theory)

    every = _samples(state, QUICK)
    best = POOL.submit(_quick_best, state, every)
    samples, table = sketch_parts(state.task, state.learner, every)
    if len(samples) < 2:
        return waiting()
    columns = {name: [row[i] for row in table] for i, name in enumerate(PARTS)}
    drawn = _parts_figure(state, samples, columns, (every, best.result()), smooth=True)
    return Picture(drawn, _told("Sketch on a coarse rule.", state), exact=False)


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
    span = [float(np.log10(0.02 * low)), float(np.log10(2.0 * top))]
    drawn = figure(
        data, x="samples n", y="part of the excess error", log_x=True, log_y=True, yaxis={"dtick": 1, "range": span}
    )
    return _marked(state, drawn, samples)


def _parts_picture(state: State) -> Picture:
    from onehead.aim.verbs.decompose import check_split  # noqa: PLC0415  (loads the theory)

    check_split(state.task, state.learner)
    law = _law(state, _samples(state, EXACT))
    columns, samples = {name: law.column(name) for name in PARTS}, law.column("samples").tolist()
    best = _best(state, samples)
    drawn = _parts_figure(state, samples, columns, (samples, best), smooth=False)
    more = _told(" The split is our definition; negative parts are left out of the logarithm.", state)
    return _exact(drawn, law, more=more, best=best)


# --- phase diagram


def _phase_sketch(state: State) -> Picture:
    columns, rows = PHASE_QUICK
    from onehead.aim.sketch.derived import sketch_exponents  # noqa: PLC0415  (loads the theory)

    table = sketch_exponents(state.task, state.learner, columns, rows)
    if all(cell is None for row in table for cell in row):
        return waiting()
    return Picture(
        _phase_figure(state, columns, rows, table), "Sketch on a coarse rule and a coarse grid.", exact=False
    )


def _phase_figure(state: State, columns: list[float], rows: list[float], table: Any) -> Figure:
    hover = "n = d^%{x:.2f}, λ = d^%{y:.2f}: %{z:.3f}<extra></extra>"
    data = [contours(columns, rows, table, "exponent", hover, zmin=-2.0, zmax=0.0)]
    if state.learner.decay > 0.0:
        where, at = np.log([state["samples"], state.learner.decay]) / np.log(state["dim"])
        data.append(points([where], [at], "the knobs", symbol="cross", size=11))
    across, down = {"range": [columns[0], columns[-1]]}, {"range": [rows[0], rows[-1]]}
    return figure(data, x="samples, log n / log d", y="weight decay, log λ / log d", xaxis=across, yaxis=down)


def _phase_picture(state: State) -> Picture:
    columns, rows = PHASE
    found = aim.phase_diagram(state.task, state.learner, log_n=columns, log_lambda=rows, progress=pause)
    table = [[None if not np.isfinite(v) else float(v) for v in row] for row in found.grid("local_exponent")]
    drawn = _phase_figure(state, columns, rows, table)
    return _exact(drawn, found, "cells", " Colours between their centres are interpolated.")


# --- numbers and code


def _point(state: State) -> Any:
    return _law(state, [state["samples"]]).points[0]


_at_the_knob = answer(
    _point,
    ("Excess error", "", "excess_error", "above infinitely many samples"),
    ("Test error", "", "test_error", "on fresh samples"),
    ("Local exponent", "", "local_exponent", "d log excess / d log n"),
    *((name.capitalize(), "", name, text) for name, (_, text) in PARTS.items()),
    ("Outliers", "", "outliers", "features that have left the noise"),
    ("Rank", "", "rank", "share of {value}s that are not zero"),
    ("Sample ratio", "α", "alpha", "n/d²"),
)


def report(state: State) -> Report:
    """The exact numbers at the marked point, and the best possible."""
    found = _at_the_knob(state)
    best = best_numbers(state.task, state.learner.splitting, *_ratios(state, [state["samples"]]))
    return Report(found.badge, found.numbers + best)


POINT = (
    "point = oh.aim.scaling(task, head, [{samples!r}]).points[0]\nprint(point.excess_error, point.local_exponent)\n\n"
)


def _law_code(state: State) -> Code:
    samples = _samples(state, EXACT)
    text = f"law = oh.aim.scaling(task, head, {samples})\nprint(law.column('excess_error'))"
    many = f"scaling --samples {','.join(repr(n) for n in samples)}"
    return code_of("aim", POINT + text, "scaling --samples {samples!r}", many)(state)


_phase_code = code_of(
    "aim",
    f"{POINT}diagram = oh.aim.phase_diagram(task, head, log_n={PHASE[0]}, log_lambda={PHASE[1]})",
    "phase-diagram",
)
ABOUT = "A target whose %s fall as a power law: how fast the error falls, and what it is made of."
POWER = r"%s_i(S^\star)\propto i^{-\gamma},\quad i=1..d,\qquad E-E_\infty\sim n^{\text{exponent}}"
VIEW = View(
    name="scaling",
    title="Scaling laws",
    about=ABOUT % "eigenvalues",
    formula=POWER % r"\lambda",
    heads=dict.fromkeys(("self", "cross"), (ABOUT % "singular values", POWER % r"\sigma")),
    problems=(PowerLaw, Task, Learner),
    own=("scaling_panel", "samples"),
    panel="scaling_panel",
    panels={
        "excess": Panel(_excess_sketch, report, _excess_picture, _law_code),
        "decomposition": Panel(_parts_sketch, report, _parts_picture, _law_code),
        "phase": Panel(_phase_sketch, report, _phase_picture, _phase_code),
    },
)
