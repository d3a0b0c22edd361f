"""Spectrum: the density of eigenvalues or singular values of the trained map, with that of the target."""

from typing import Any

import numpy as np

from onehead import aim
from onehead.aim.targets import MarchenkoPastur
from onehead.aim.task import Learner, Task
from onehead.app.drawing import Figure, figure, format_value, line, points
from onehead.app.refusals import explain
from onehead.app.state import State
from onehead.app.views.base import (
    Line,
    Number,
    Panel,
    Picture,
    Report,
    View,
    badge_from,
    draft_numbers,
    failure_report,
    fill_placeholders,
    format_range,
    numbers,
    predict_at_knobs,
    refusal_picture,
    solving_placeholder,
)
from onehead.app.views.code_snippets import code_snippets
from onehead.errors import OneheadError, SolveError

Bulk = tuple[Any, Any]  # values and densities there

MAX_HEIGHT = 10.0  # height of the panel in units of the largest target density; narrow bulks of noise are cut off
LAW: tuple[Line, ...] = (
    ("Zero {value}s", "", "zero_mass", "share set to zero by weight decay"),
    ("Rank", "", "rank", "share that is not zero"),
)
POINT: tuple[Line, ...] = (
    ("Outliers", "", lambda law: len(law.outliers), "{value}s outside the bulks"),
    ("Mean", "", "mean", "of all {value}s"),
    ("Second moment", "q", "second_moment", "|S|²/d"),
    ("Test error", "", "point.test_error", "on fresh samples"),
    ("Noise variance", "s", "point.spread", "added to the target"),
    ("Soft threshold", "ε", "point.threshold", "set by weight decay"),
    ("Slope", "c", "point.slope", "scale of learned {value}s"),
)
DRAFT_LINES: tuple[Line, ...] = (
    ("Rank", "", "rank", "share of {value}s that are not zero"),
    ("Test error", "", "test_error", "on fresh samples"),
    ("Noise variance", "s", "map.s", "added to the target"),
    ("Soft threshold", "ε", "map.eps", "set by weight decay"),
)


def draft(state: State) -> Picture:
    """Return the density for a draft of the prediction."""
    from onehead.app.drafts.curves import draft_point  # loads the theory
    from onehead.app.drafts.derived import draft_spectrum

    found = draft_point(state.task, state.learner, state["alpha"])
    if found is None:
        return solving_placeholder()
    zero, bulks = draft_spectrum(state.task, state.learner, found)
    chart = _draw(state, bulks, zero)
    rows = draft_numbers(found, *fill_placeholders(state, *(DRAFT_LINES if bulks else DRAFT_LINES[:2])))
    return Picture(chart, _caption(state, chart, zero, bulks), exact=False, numbers=rows)


def _caption(state: State, chart: Figure, zero: float, bulks: list[Bulk]) -> str:
    value = state.task.spectral_value
    if not bulks:
        return f"The map has not emerged: weight decay keeps every {value} at zero."
    parts = "one bulk" if len(bulks) == 1 else f"{len(bulks)} bulks: noise and signal have separated"
    cut = max(_heights(bulks)) > chart["layout"]["yaxis"]["range"][1]
    more = " Its peak is higher than the panel." if cut else ""
    return f"{zero:.1%} of the {value}s are zero; the others form {parts}.{more}"


def _heights(bulks: list[Bulk]) -> list[float]:
    """Return the highest density of every bulk, without its edges, where the density can be infinite."""
    return [float(np.max(density[2:-2])) for _, density in bulks if len(density) > 4]


def _cut_off_note(bulk: Bulk, top: float) -> Figure:
    """Return a note at the top of the panel with the height of a bulk that is cut off."""
    at, density = bulk
    highest = float(at[2:-2][int(np.argmax(density[2:-2]))])
    position = {"x": highest, "y": top, "xref": "x", "yref": "y", "yanchor": "top", "xanchor": "left", "xshift": 6}
    return {
        **position,
        "text": f"↑ up to {format_value(max(_heights([bulk])))}",
        "showarrow": False,
        "font": {"size": 12, "color": "@theory"},
    }


def _law(state: State) -> Any:
    return aim.spectrum(predict_at_knobs(state))


def picture(state: State) -> Picture:
    """Return the exact density."""
    try:
        law = _law(state)
    except SolveError as error:
        return refusal_picture(explain(error))
    count = len(law.x) // max(1, len(law.edges))
    bulks = [
        (law.x[i * count : (i + 1) * count], law.density_values[i * count : (i + 1) * count])
        for i in range(len(law.edges))
    ]
    rows = [{"x": float(x), "density": float(y)} for x, y in zip(law.x, law.density_values, strict=True)]
    chart = _draw(state, bulks, law.zero_mass, law.outliers)
    return Picture(chart, _caption(state, chart, law.zero_mass, bulks), rows)


def _draw(state: State, bulks: list[Bulk], zero: float, outliers: Any = ()) -> Figure:
    """Draw the target in grey, the trained map as a line, the share at zero as a bar, and outliers as triangles."""
    from onehead.app.drafts.derived import target_law

    x, y = target_law(state.task, state.learner)
    low, high = x[0], x[-1]
    name = f"target, non-zero part ({format_value(1.0 - state.task.target.rank)} at zero)"
    data = [line(x.tolist(), y.tolist(), name, colour="@grey", width=1.0, fill="tozeroy", fillcolor="@fill")]
    for i, (at, density) in enumerate(bulks):
        data.append(line(at, density, "trained map S", fill="tozeroy", fillcolor="@soft", showlegend=i == 0))
    target = min(float(y[x > low + 0.02 * (high - low)].max()), 1.0)
    top = min(1.3 * max([target, *_heights(bulks)]), MAX_HEIGHT * max(target, 0.2))
    right = max(high, max((float(at[-1]) for at, _ in bulks), default=0.0))
    left = min(0.0, min((float(at[0]) for at, _ in bulks), default=0.0))
    data.append(
        {
            "type": "bar",
            "name": f"zero {state.task.spectral_value}s: {zero:.1%}",
            "x": [0.0],
            "y": [zero],
            "yaxis": "y2",
            "width": 0.018 * (right - left),
            "marker": {"color": "@theory"},
            "hovertemplate": "share at zero: %{y:.4f}",
        }
    )
    if outliers:
        at = [item["position"] for item in outliers]
        data.append(points(at, [0.02 * top] * len(at), "outliers", symbol="triangle-up", size=9))
    pad = 0.05 * (right - left)
    above = [_cut_off_note(bulk, top) for bulk in bulks if max(_heights([bulk]), default=0.0) > top]
    return figure(
        data,
        annotations=above,
        x=f"{state.task.spectral_value} of the query-key map S",
        y="density",
        xaxis={"range": [left - pad, right + pad]},
        yaxis={"range": [0.0, top]},
        yaxis2={
            "overlaying": "y",
            "side": "right",
            "range": [0.0, 1.0],
            "showgrid": False,
            "dtick": 0.25,
            "title": {"text": "share at zero", "standoff": 6},
        },
        bargap=0,
    )


def report(state: State) -> Report:
    """Return the exact numbers of the density."""
    try:
        law = _law(state)
    except OneheadError as error:
        return failure_report(error)
    bulks = tuple(
        Number(f"Bulk {i + 1}" if len(law.edges) > 1 else "Bulk", "", format_range(*ends), "lower and upper edge")
        for i, ends in enumerate(law.edges)
    )
    return Report(
        badge_from(law.certificate),
        (*numbers(law, *fill_placeholders(state, *LAW)), *bulks, *numbers(law, *fill_placeholders(state, *POINT))),
    )


code = code_snippets(
    "aim",
    "point = oh.aim.predict(task, head, alpha={alpha!r})\n"
    "law = oh.aim.spectrum(point)\n"
    "print(law.zero_mass, law.edges, law.second_moment)",
    "spectrum --alpha {alpha!r}",
)
ABOUT = "The %s of the trained query-key map. Play α to watch them emerge from zero and split into noise and signal."
# lines of a narrow screen break between the equations, which stand in braces
LEARNED = (
    r"%s_i(S)=c\,(x_i-\epsilon)_+,\qquad\allowbreak "
    r"{x\sim\rho^\star%s\boxplus\text{semicircle}(s)},\quad\allowbreak "
)
HATS = r"{c=\hat m/\hat\Sigma,\ \epsilon=%s\lambda/\hat m,\ s=\hat q/\hat m^2}"
VIEW = View(
    name="spectrum",
    title="Spectrum",
    about=ABOUT % "eigenvalues",
    formula=LEARNED % (r"\lambda", "") + HATS % "2",
    heads={
        "self": (
            ABOUT % "singular values",
            LEARNED % (r"\sigma", r"_\pm") + r"c,\epsilon,s\text{ equal in both sectors}",
        ),
        "cross": (ABOUT % "singular values", LEARNED % (r"\sigma", r"_\pm") + HATS % ""),
    },
    problems=(MarchenkoPastur, Task, Learner),
    own=("alpha",),
    panels={"": Panel(draft, report, picture, code)},
    plays="alpha",
)
