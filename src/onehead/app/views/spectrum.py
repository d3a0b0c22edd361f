"""Spectrum: the law of the trained map's eigenvalues, or singular values, beside the target's; α plays through its changes."""

from typing import Any

import numpy as np

from onehead import aim
from onehead.aim.targets import MarchenkoPastur
from onehead.aim.task import Learner, Task
from onehead.app.drawing import Figure, figure, line, points, show
from onehead.app.state import State
from onehead.app.views.base import (
    Line,
    Number,
    Panel,
    Picture,
    Report,
    View,
    badge_of,
    failed,
    numbers,
    predicted,
    refused,
    span,
    worded,
)
from onehead.app.views.words import code_of
from onehead.errors import OneheadError, SolveError

__all__ = ["VIEW"]

Bulk = tuple[Any, Any]  # places and densities

HIGHEST = 10.0  # panel over the target's density: of a narrow bulk of noise beside it the top is left out
LAW: tuple[Line, ...] = (
    ("Zero {value}s", "", "zero_mass", "share that weight decay removes"),
    ("Rank", "", "rank", "share that it keeps"),
)
POINT: tuple[Line, ...] = (
    ("Outliers", "", lambda law: len(law.outliers), "{value}s outside the bulks"),
    ("Mean", "", "mean", "of all {value}s"),
    ("Second moment", "q", "second_moment", "|S|²/d"),
    ("Test error", "", "point.test_error", "on fresh samples"),
    ("Noise variance", "s", "point.spread", "of the blurred target"),
    ("Soft threshold", "ε", "point.threshold", "of weight decay"),
    ("Slope", "c", "point.slope", "shrinkage of learned {value}s"),
)


def sketch(state: State) -> Picture:
    """The law at a point solved for the eye."""
    from onehead.aim.sketch.curves import dot  # noqa: PLC0415  (loads the theory)
    from onehead.aim.sketch.derived import sketch_law  # noqa: PLC0415

    found = dot(state.task, state.learner, state["alpha"])
    if found is None:
        return Picture(_draw(state, [], 0.0), "Solving …", exact=False)
    zero, bulks = sketch_law(state.task, state.learner, found)
    drawn = _draw(state, bulks, zero)
    return Picture(drawn, _caption(state, drawn, zero, bulks), exact=False)


def _caption(state: State, drawn: Figure, zero: float, bulks: list[Bulk]) -> str:
    value = state.task.value
    if not bulks:
        return f"The map has not emerged: weight decay keeps every {value} at zero."
    parts = "one bulk" if len(bulks) == 1 else f"{len(bulks)} bulks: noise and signal have split"
    cut = max(_heights(bulks)) > drawn["layout"]["yaxis"]["range"][1]
    more = " Its peak rises beyond the panel." if cut else ""
    return f"{zero:.1%} of the {value}s are zero; the others form {parts}.{more}"


def _heights(bulks: list[Bulk]) -> list[float]:
    """The highest density of every bulk, but for the very edges, where it can be infinite."""
    return [float(np.max(density[2:-2])) for _, density in bulks if len(density) > 4]


def _beyond(bulk: Bulk, top: float) -> Figure:
    """A note at the top of the panel, where a bulk rises beyond it."""
    at, density = bulk
    highest = float(at[2:-2][int(np.argmax(density[2:-2]))])
    place = {"x": highest, "y": top, "xref": "x", "yref": "y", "yanchor": "top", "xanchor": "left", "xshift": 6}
    return {
        **place,
        "text": f"↑ up to {show(max(_heights([bulk])))}",
        "showarrow": False,
        "font": {"size": 12, "color": "@theory"},
    }


def _law(state: State) -> Any:
    return aim.spectrum(predicted(state))


def picture(state: State) -> Picture:
    """The library's own law."""
    try:
        law = _law(state)
    except SolveError as error:
        return refused(str(error))
    count = len(law.x) // max(1, len(law.edges))
    bulks = [
        (law.x[i * count : (i + 1) * count], law.density_values[i * count : (i + 1) * count])
        for i in range(len(law.edges))
    ]
    rows = [{"x": float(x), "density": float(y)} for x, y in zip(law.x, law.density_values, strict=True)]
    drawn = _draw(state, bulks, law.zero_mass, law.outliers)
    return Picture(drawn, _caption(state, drawn, law.zero_mass, bulks), rows)


def _draw(state: State, bulks: list[Bulk], zero: float, outliers: Any = ()) -> Figure:
    """Target in grey, trained map as a line, the atom at zero as a bar, outliers as triangles."""
    from onehead.aim.sketch.derived import target_law  # noqa: PLC0415

    x, y = target_law(state.task, state.learner)
    low, high = x[0], x[-1]
    name = f"target, non-zero part ({show(1.0 - state.task.target.rank)} at zero)"
    data = [line(x.tolist(), y.tolist(), name, colour="@grey", width=1.0, fill="tozeroy", fillcolor="@fill")]
    for i, (at, density) in enumerate(bulks):
        data.append(line(at, density, "trained map S", fill="tozeroy", fillcolor="@soft", showlegend=i == 0))
    target = min(float(y[x > low + 0.02 * (high - low)].max()), 1.0)
    top = min(1.3 * max([target, *_heights(bulks)]), HIGHEST * max(target, 0.2))
    right = max(high, max((float(at[-1]) for at, _ in bulks), default=0.0))
    left = min(0.0, min((float(at[0]) for at, _ in bulks), default=0.0))
    data.append(
        {
            "type": "bar",
            "name": f"zero {state.task.value}s: {zero:.1%}",
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
    above = [_beyond(bulk, top) for bulk in bulks if max(_heights([bulk]), default=0.0) > top]
    return figure(
        data,
        annotations=above,
        x=f"{state.task.value} of the query-key map S",
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
    """The exact numbers of the law."""
    try:
        law = _law(state)
    except OneheadError as error:
        return failed(error)
    bulks = tuple(
        Number(f"Bulk {i + 1}" if len(law.edges) > 1 else "Bulk", "", span(*ends), "lower and upper edge")
        for i, ends in enumerate(law.edges)
    )
    return Report(
        badge_of(law.certificate), (*numbers(law, *worded(state, *LAW)), *bulks, *numbers(law, *worded(state, *POINT)))
    )


code = code_of(
    "aim",
    "point = oh.aim.predict(task, head, alpha={alpha!r})\n"
    "law = oh.aim.spectrum(point)\n"
    "print(law.zero_mass, law.edges, law.second_moment)",
    "spectrum --alpha {alpha!r}",
)
ABOUT = "Which %s the trained query-key map has. Play α to watch it emerge, interpolate and split."
LEARNED = r"%s_i(S)=c\,(x_i-\epsilon)_+,\qquad x\sim\rho^\star%s\boxplus\text{semicircle}(s),\quad "
HATS = r"c=\hat m/\hat\Sigma,\ \epsilon=%s\lambda/\hat m,\ s=\hat q/\hat m^2"
VIEW = View(
    name="spectrum",
    title="Spectrum",
    about=ABOUT % "eigenvalues",
    formula=LEARNED % (r"\lambda", "") + HATS % "2",
    heads={
        "self": (
            ABOUT % "singular values",
            LEARNED % (r"\sigma", r"_\pm") + r"c,\epsilon,s\text{ alike in both sectors}",
        ),
        "cross": (ABOUT % "singular values", LEARNED % (r"\sigma", r"_\pm") + HATS % ""),
    },
    problems=(MarchenkoPastur, Task, Learner),
    own=("alpha",),
    panels={"": Panel(sketch, report, picture, code)},
    plays="alpha",
)
