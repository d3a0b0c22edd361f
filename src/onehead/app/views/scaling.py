"""Scaling laws: a power-law target at finite dimension; excess error, exponent, where the error comes from, phases."""

from typing import Any

import numpy as np

from onehead.aim.targets import PowerLaw
from onehead.aim.task import Learner, Task
from onehead.app.drawing import Figure, figure, line, marker_line, points
from onehead.app.pause import pause
from onehead.app.state import State
from onehead.app.views.base import Code, Panel, Picture, Report, View, answer, flat, solved
from onehead.app.views.words import flags, python
from onehead.errors import OneheadError

__all__ = ["VIEW"]

QUICK, EXACT = 7, 17
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
    from onehead import aim  # noqa: PLC0415

    return aim.scaling(state.task, state.learner, samples, progress=pause)


# --- excess error and its exponent, and where it comes from


def _excess_sketch(state: State) -> Picture:
    from onehead.aim.sketch.derived import sketch_excess  # noqa: PLC0415  (loads the theory)

    samples, excess, _ = sketch_excess(state.task, state.learner, _samples(state, QUICK))
    slope = np.gradient(np.log(excess), np.log(samples)).tolist() if len(samples) > 2 else []
    drawn = _excess_figure(state, samples, excess, slope, smooth=True)
    return Picture(
        figure=drawn, exact=False, caption="Sketch on a coarse rule; the exact law follows when the knobs rest."
    )


def _excess_figure(state: State, samples: list[float], excess: Any, slope: Any, *, smooth: bool) -> Figure:
    data = [
        line(samples, excess, "excess error", smooth=smooth),
        line(samples, slope, "local exponent", colour="@second", panel="y2", smooth=smooth, showlegend=False),
    ]
    drawn = figure(
        data,
        x="samples n",
        y="excess error",
        log_x=True,
        log_y=True,
        xaxis={"anchor": "y2"},
        yaxis={"domain": [0.42, 1.0]},
        yaxis2={"domain": [0.0, 0.32], "title": {"text": "d log E / d log n", "standoff": 6}},
    )
    _mark(state, drawn, samples)
    return drawn


def _mark(state: State, drawn: Figure, samples: list[float]) -> None:
    if samples and samples[0] <= state["samples"] <= samples[-1]:
        marker_line(drawn["layout"], state["samples"])


def _excess_picture(state: State) -> Picture:
    law = _law(state, _samples(state, EXACT))
    samples = law.column("samples").tolist()
    drawn = _excess_figure(state, samples, law.column("excess_error"), law.column("local_exponent"), smooth=False)
    return _exact(drawn, law)


def _exact(drawn: Figure, found: Any, what: str = "points", more: str = "") -> Picture:
    """The picture of the library's own answer."""
    caption = solved(len(found), len(found.failures), what) + more
    return Picture(figure=drawn, exact=True, caption=caption, rows=tuple(flat(row) for row in found.to_rows()))


def _parts_sketch(state: State) -> Picture:
    from onehead.aim.sketch.derived import sketch_parts  # noqa: PLC0415  (loads the theory)

    samples, table = sketch_parts(state.task, state.learner, _samples(state, QUICK))
    columns = {name: [row[i] for row in table] for i, name in enumerate(PARTS)}
    drawn = _parts_figure(state, samples, columns, smooth=True)
    return Picture(figure=drawn, exact=False, caption="Sketch on a coarse rule.")


def _parts_figure(state: State, samples: list[float], columns: dict[str, Any], *, smooth: bool) -> Figure:
    data = [
        line(
            samples,
            [v if v is not None and v > 0.0 else np.nan for v in columns[name]],
            name,
            colour=colour,
            dash="dot" if name == "mismatch" else "solid",
            smooth=smooth,
        )
        for name, (colour, _) in PARTS.items()
    ]
    total = [sum(columns[name][i] for name in PARTS) for i in range(len(samples))]
    data.append(line(samples, total, "excess error", colour="@ink", width=1.2, dash="dash", smooth=smooth))
    top = max((t for t in total if np.isfinite(t)), default=1.0)
    low = min((t for t in total if np.isfinite(t) and t > 0.0), default=1e-4)
    span = [float(np.log10(0.02 * low)), float(np.log10(2.0 * top))]
    drawn = figure(
        data, x="samples n", y="part of the excess error", log_x=True, log_y=True, yaxis={"dtick": 1, "range": span}
    )
    _mark(state, drawn, samples)
    return drawn


def _parts_picture(state: State) -> Picture:
    law = _law(state, _samples(state, EXACT))
    drawn = _parts_figure(
        state, law.column("samples").tolist(), {name: law.column(name) for name in PARTS}, smooth=False
    )
    return _exact(drawn, law, more=" The split is our definition; negative parts are left out of the logarithm.")


# --- phase diagram


def _phase_sketch(state: State) -> Picture:
    columns, rows = PHASE_QUICK
    from onehead.aim.sketch.derived import sketch_exponents  # noqa: PLC0415  (loads the theory)

    drawn = _phase_figure(state, columns, rows, sketch_exponents(state.task, state.learner, columns, rows))
    return Picture(figure=drawn, exact=False, caption="Sketch on a coarse rule and a coarse grid.")


def _phase_figure(state: State, columns: list[float], rows: list[float], table: Any) -> Figure:
    heat = {
        "type": "heatmap",
        "x": columns,
        "y": rows,
        "z": table,
        "zmin": -2.0,
        "zmax": 0.0,
        "colorscale": [[0.0, "@theory"], [1.0, "@soft"]],
        "colorbar": {"title": {"text": "exponent"}, "thickness": 12},
        "hovertemplate": "n = d^%{x:.2f}, λ = d^%{y:.2f}: %{z:.3f}<extra></extra>",
    }
    where = [float(np.log(state["samples"]) / np.log(state["dim"]))]
    decay = state.learner.decay
    data = [heat]
    if decay > 0.0:
        at = float(np.log(decay) / np.log(state["dim"]))
        data.append(points(where, [at], "the knobs", symbol="cross", size=11))
    drawn = figure(data, x="samples, log n / log d", y="weight decay, log λ / log d")
    step_x, step_y = (columns[1] - columns[0]) / 2, (rows[1] - rows[0]) / 2
    drawn["layout"]["xaxis"]["range"] = [columns[0] - step_x, columns[-1] + step_x]
    drawn["layout"]["yaxis"]["range"] = [rows[0] - step_y, rows[-1] + step_y]
    return drawn


def _phase_picture(state: State) -> Picture:
    from onehead import aim  # noqa: PLC0415

    columns, rows = PHASE
    found = aim.phase_diagram(state.task, state.learner, log_n=columns, log_lambda=rows, progress=pause)
    table = [[None if not np.isfinite(v) else float(v) for v in row] for row in found.grid("local_exponent")]
    return _exact(_phase_figure(state, columns, rows, table), found, "cells")


# --- numbers and code


def report(state: State) -> Report:
    """The exact numbers at the marked number of samples."""

    def solve() -> Any:
        point = _law(state, [state["samples"]]).points[0]
        if not hasattr(point, "certificate"):
            raise OneheadError(point.reason)
        return point

    return answer(
        solve,
        ("Excess error", "", "excess_error", "above infinitely many samples"),
        ("Test error", "", "test_error", "on fresh samples"),
        ("Local exponent", "", "local_exponent", "d log excess / d log n"),
        *((name.capitalize(), "", name, text) for name, (_, text) in PARTS.items()),
        ("Outliers", "", "outliers", "features that have left the noise"),
        ("Rank", "", "rank", "share of eigenvalues that are not zero"),
        ("Sample ratio", "α", "alpha", "n/d²"),
    )


def _point_code(state: State) -> str:
    return python("aim", {"task": state.task, "head": state.learner}) + (
        f"\npoint = oh.aim.scaling(task, head, [{state['samples']!r}]).points[0]\n"
        "print(point.excess_error, point.local_exponent)\n"
    )


def _law_code(state: State) -> Code:
    """The law, without the explorer."""
    samples, words = _samples(state, EXACT), flags(state)
    text = f"\nlaw = oh.aim.scaling(task, head, {samples})\nprint(law.column('excess_error'))\n"
    shell = (
        f"onehead aim scaling {words} --samples {state['samples']!r} --json\n"
        f"onehead aim scaling {words} --samples {','.join(repr(n) for n in samples)} --json"
    )
    return Code(_point_code(state) + text, shell)


def _phase_code(state: State) -> Code:
    """The diagram, without the explorer."""
    columns, rows = PHASE
    text = f"\ndiagram = oh.aim.phase_diagram(task, head, log_n={columns}, log_lambda={rows})\n"
    return Code(_point_code(state) + text, f"onehead aim phase-diagram {flags(state)} --json")


VIEW = View(
    name="scaling",
    title="Scaling laws",
    about="A target whose eigenvalues fall as a power law: how fast the error falls, and what it is made of.",
    formula=r"\lambda_i(S^\star)\propto i^{-\gamma},\quad i=1..d,\qquad E-E_\infty\sim n^{-\text{exponent}}",
    problems=(PowerLaw, Task, Learner),
    own=("scaling_panel", "samples"),
    panel="scaling_panel",
    panels={
        "excess": Panel(_excess_sketch, report, _excess_picture, _law_code),
        "decomposition": Panel(_parts_sketch, report, _parts_picture, _law_code),
        "phase": Panel(_phase_sketch, report, _phase_picture, _phase_code),
    },
)
