"""Training time: singular values of the map while gradient descent goes on, with the share above a cut."""

from typing import Any

import numpy as np

from onehead import aim
from onehead.aim.targets import MarchenkoPastur
from onehead.aim.task import Learner, Task
from onehead.app.drawing import Figure, figure, format_value, line, points, with_marked_point
from onehead.app.knobs import TrainingTime
from onehead.app.state import State
from onehead.app.views.base import (
    Panel,
    Picture,
    Report,
    View,
    predict_at_knobs,
    report_from,
    solving_placeholder,
)
from onehead.app.views.code_snippets import code_snippets

TIMES = (0.1, 300.0)  # ends of the time axis
TIME_POINTS = 60
DRAWN = 32  # singular values in the picture, at equal shares
STAY, FADE = "stay", "fade"  # names of the curves
LOWEST = 1e-10  # lower end of the axis of singular values, unless the cut is below it
LINES = (
    ("Rank above the cut", "", "rank_above", "share of singular values above {cut} at this time"),
    ("Rank", "", "rank", "share that is not zero at the minimum, after infinitely long training"),
    ("Time needed", "λt", "time_needed", "from which on a tenth of the fading ones is above the cut"),
    ("Faintest", "", "faintest", "smallest singular value"),
    ("Largest", "", "largest", "largest singular value"),
    ("Decades", "", "decades", "over which the fading ones are spread"),
    ("Mean", "", "mean", "of all singular values"),
    ("Second moment", "", "second_moment", "Tr S'S/d at this time"),
)
CAPTION = (
    "{count} of the singular values, at equal shares: blue ones stay, grey ones fade, each with its own rate. Dots: at "
    "the marked time. Below: the share above the cut, which falls to about the rank of the minimum (dashed)."
)


def draft(state: State) -> Picture:
    """Return the picture for a draft of the minimum."""
    from onehead.aim.theory.build import build_state_evolution  # loads the theory
    from onehead.aim.verbs.training_time import Relaxation, check_minimum, check_relaxation
    from onehead.app.drafts.curves import draft_point

    check_relaxation(state.task, state.learner, state["time"])
    found = draft_point(state.task, state.learner, state["alpha"])
    if found is None:
        return solving_placeholder()
    s, eps, _, slope = found.map
    check_minimum(found.rank, s, state.learner.decay, state["time"])
    law = build_state_evolution(state.task, state.learner.gaussian).input.law(s)
    relaxation = Relaxation(law, slope / state.learner.beta, eps, state["start"])
    return _picture(state, relaxation, found.rank, exact=False)


def picture(state: State) -> Picture:
    """Return the picture for the exact minimum."""
    from onehead.aim.verbs.training_time import relaxation_of  # loads the theory

    found = _found(state)
    return _picture(state, relaxation_of(found.point, found.start), found.rank, exact=True)


def _found(state: State) -> Any:
    return aim.training_time(predict_at_knobs(state), state["time"], start=state["start"], cut=state["cut"])


def _picture(state: State, relaxation: Any, rank: float, *, exact: bool) -> Picture:
    times = np.geomspace(*TIMES, TIME_POINTS)
    sources = relaxation.quantile_sources(DRAWN)
    table = np.array([relaxation.value(time, sources) for time in times])
    now = relaxation.value(state["time"], sources)
    above = [relaxation.share_above(time, state["cut"]) for time in times]
    kept = sources > relaxation.threshold
    rows = [
        {"time": float(time), "share": (i + 0.5) / DRAWN, "singular_value": float(values[i]), "rank_above": share}
        for time, values, share in zip(times, table, above, strict=True)
        for i in range(DRAWN)
    ]
    chart = _draw(state, times, table, now, above, kept, rank)
    return Picture(chart, CAPTION.format(count=DRAWN), rows if exact else (), exact=exact)


def _draw(state: State, times: Any, table: Any, now: Any, above: list[float], kept: Any, rank: float) -> Figure:
    """Draw singular values above and the share above the cut below, on one axis of time."""
    ends, cut = list(TIMES), state["cut"]
    lowest = min(LOWEST, 1e-2 * cut)
    data = [
        _bundle(times, table[:, kept], STAY, "@theory", lowest),
        _bundle(times, table[:, ~kept], FADE, "@grey", lowest),
        line(ends, [cut, cut], f"cut {format_value(cut)}", colour="@ink", dash="dot", width=1.4),
    ]
    shown = now >= lowest
    if TIMES[0] <= state["time"] <= TIMES[1] and shown.any():
        at = [state["time"]] * int(shown.sum())
        follows = {"follows": [STAY, FADE]}  # a page without a server moves the points along these curves
        name = "at the marked time"
        data.append(points(at, now[shown].tolist(), name, colour="@theory", size=6, showlegend=False, meta=follows))
    lower: dict[str, Any] = {"yaxis": "y2", "showlegend": False}
    data += [
        line(times.tolist(), above, "share above the cut", width=1.8, fill="tozeroy", fillcolor="@soft", **lower),
        line(ends, [rank, rank], "rank at the minimum", colour="@grey", dash="dash", width=1.4, **lower),
    ]
    chart = figure(
        data,
        x="training time λt",
        y="singular value",
        log_x=True,
        log_y=True,
        xaxis={"range": np.log10(ends).tolist(), "anchor": "y2"},
        yaxis={
            "domain": [0.36, 1.0],
            "range": [float(np.log10(lowest)), float(np.log10(2.0 * table.max()))],
            "dtick": 2,
        },
        yaxis2={
            "domain": [0.0, 0.26],
            "range": [0.0, 1.05],
            "title": {"text": "above cut", "standoff": 6},
            "tickvals": [0, 0.5, 1],
        },
    )
    return with_marked_point(chart, state["time"], TIMES, by="time")


def _bundle(times: Any, table: Any, name: str, colour: str, lowest: float) -> Figure:
    """Return one trace with a curve for every singular value, with gaps between them; each ends at the lowest value."""
    x: list[float] = []
    y: list[float] = []
    for values in table.T:
        end = 1 + (int(np.argmax(values < lowest)) if values[-1] < lowest else len(values))
        x += [*times[:end].tolist(), np.nan]
        y += [*values[:end].tolist(), np.nan]
    return line(x, y, name, colour=colour, width=1.1)


def report(state: State) -> Report:
    """Return the numbers at the marked time."""
    return report_from(_found, *LINES)(state)


code = code_snippets(
    "aim",
    "point = oh.aim.predict(task, head, alpha={alpha!r})\n"
    "found = oh.aim.training_time(point, {time!r}, start={start!r}, cut={cut!r})\n"
    "print(found.rank_above, found.rank, found.time_needed)",
    "spectrum --alpha {alpha!r} --time {time!r} --start {start!r} --cut {cut!r}",
)
ABOUT = (
    "Singular values of the trained map while gradient descent goes on: those that weight decay removes fade "
    "exponentially, so a rank measured too early is too high."
)
VIEW = View(
    name="time",
    title="Training time",
    about=ABOUT,
    formula=r"\dot\sigma_i=2\sigma_i\,\big(\hat m x_i-\lambda-\hat\Sigma\sigma_i\big),\qquad\allowbreak "
    r"{x\sim\rho^\star_\pm\boxplus\text{semicircle}(s)}",
    problems=(MarchenkoPastur, Task, Learner, TrainingTime),
    own=("alpha",),
    panels={"": Panel(draft, report, picture, code)},
    plays="time",
    verb="training_time",
    untied=True,
)
