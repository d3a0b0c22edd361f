"""Learning curve: errors, training loss and rank against the sample ratio, thresholds marked."""

from functools import lru_cache
from typing import Any

import numpy as np

from onehead import aim
from onehead.aim.targets import MarchenkoPastur
from onehead.aim.task import Learner, Task
from onehead.aim.words import threshold_marks, threshold_names
from onehead.app.drawing import Figure, figure, line, mark, marked
from onehead.app.knobs import Axis, Training
from onehead.app.state import State
from onehead.app.views.base import (
    POOL,
    Code,
    Panel,
    Picture,
    Report,
    View,
    answer,
    flat,
    numbers,
    predicted,
    refused,
    solved,
    waiting,
)
from onehead.app.views.best import beside_best, best_line, best_numbers
from onehead.app.views.words import code_of
from onehead.app.work import pause
from onehead.errors import OneheadError

__all__ = ["VIEW", "exact_alphas"]

QUICK_POINTS = {2: 9, 3: 6}  # of a sketch, by tokens; five from T = 4 on
POINTS = {2: 31, 3: 15}
MANY_TOKENS = (5, 9)
TUNED = np.geomspace(1e-4, 3.0, 14)  # weight decays among which the best is looked for, then refined by a parabola
TUNED_POINTS = 9
DRAWN = ("test_error", "test_error_clean", "train_loss", "rank")
LINES = (
    ("Test error", "", "test_error", "on fresh samples, labels with noise"),
    ("Clean test error", "", "test_error_clean", "labels without noise"),
    ("Test cross-entropy", "", "test_cross_entropy", "on fresh samples, in nats"),
    ("Excess error", "", "excess_error", "above infinitely many samples"),
    ("Training loss", "", "train_loss", "objective over d² at the minimum"),
    ("Rank", "", "rank", "share of {value}s of S that are not zero"),
    ("Size", "q", "q", "|S|²/d"),
    ("Overlap", "m", "m", "Tr S'S*/d"),
    ("Reaction", "Σ", "sigma", "of the logits to one sample"),
)
DRAWN_LABELS = ("0/1 error", "", "zero_one_error", "share of rows whose most attended token is not the label")

CAPTION = "Sketch on a coarse rule; the exact curve follows when the knobs rest. The rank is the share of {}s of S that are not zero."


def _alphas(state: State, count: int) -> Any:
    return np.geomspace(state["alpha_from"], state["alpha_to"], count).tolist()


def _slow(state: State, points: dict[int, int], many: int) -> int:
    """How many points: fewer where each takes longer, with many tokens, two sectors, or a label for every choice."""
    slow = state["labels"] == "hard" or not state.task.alike
    return points.get(state["tokens"] + slow, many)


def exact_alphas(state: State) -> Any:
    """The ratios of the exact curve."""
    return _alphas(state, _slow(state, POINTS, MANY_TOKENS[1]))


def _other(state: State) -> Learner:
    """The head trained the other way."""
    return state.learner.changed(param="direct" if state["param"] == "factorised" else "factorised")


@lru_cache(maxsize=512)
def _thresholds(task: Any, learner: Any) -> Any:
    """Thresholds of a problem, or None where there are none."""
    try:
        return aim.thresholds(task, learner)
    except OneheadError:
        return None


def sketch(state: State) -> Picture:
    """All curves at once, for the eye."""
    from onehead.aim.sketch.curves import PATIENCE, sketch_marks, sketch_ratios  # noqa: PLC0415  (loads the theory)

    alphas = _alphas(state, _slow(state, QUICK_POINTS, MANY_TOKENS[0]))
    patience = PATIENCE if len(alphas) == QUICK_POINTS[2] else 2.0 * PATIENCE
    head = POOL.submit(sketch_ratios, state.task, state.learner, alphas, patience=patience)
    other = None
    if state["direct"]:
        few = _alphas(state, 6)
        other = POOL.submit(sketch_ratios, state.task, _other(state), few, full=False, patience=patience)
    possible = POOL.submit(_possible, state)
    marks = sketch_marks(state.task, state.learner)
    drawn, caption = head.result(), beside_best(CAPTION.format(state.task.value), state.task, state.learner)
    if not drawn.dots:
        return waiting()
    own = {"alpha": drawn.x} | {name: drawn.column(name) for name in DRAWN}
    beside = {"alpha": other.result().x, "test_error": other.result().column("test_error")} if other else None
    return Picture(_draw(state, own, beside, None, possible.result(), marks, smooth=True), caption, exact=False)


def _possible(state: State) -> tuple[list[float], list[float]]:
    """The best possible learner: it is explicit in the sketch, and exact."""
    from onehead.aim.sketch.derived import sketch_bayes  # noqa: PLC0415

    return sketch_bayes(state.task, state["alpha_from"], state["alpha_to"])


def picture(state: State) -> Picture:
    """The library's own curve."""
    alphas = exact_alphas(state)
    found = aim.curve(state.task, state.learner, alphas, progress=pause)
    own = {name: found.column(name).tolist() for name in ("alpha", *DRAWN)}
    if len(found.failures) == len(found):
        return refused(found.failures[0].reason)
    rows = found.to_rows()
    beside = best = None
    if state["direct"]:
        there = aim.curve(state.task, _other(state), alphas[::2], progress=pause)
        beside = {name: there.column(name).tolist() for name in ("alpha", "test_error")}
        rows += there.to_rows()
    if state["best"]:
        from onehead.aim.sketch.derived import sketch_best  # noqa: PLC0415

        best = sketch_best(state.task, state.learner, _alphas(state, TUNED_POINTS), TUNED.tolist(), pause)
        rows += [{"alpha": a, "weight_decay": w, "test_error": e, "status": "best weight decay"} for a, w, e in best]
    possible = _possible(state)
    rows += [{"alpha": a, "test_error": e, "status": "best possible"} for a, e in zip(*possible, strict=True)]
    drawn = _draw(state, own, beside, best, possible, _thresholds(state.task, state.learner), smooth=False)
    caption = beside_best(solved(len(found), len(found.failures)), state.task, state.learner)
    return Picture(drawn, caption, [_row(row) for row in rows])


def _row(row: dict[str, Any]) -> dict[str, Any]:
    """A row with the parameters that tell two curves apart."""
    head = row.get("learner")
    return {**({"param": head["param"], "weight_decay": head["weight_decay"]} if head else {}), **flat(row)}


def _draw(state: State, own: Any, beside: Any, best: Any, possible: Any, marks: Any, *, smooth: bool) -> Figure:
    """Errors above, the rank below, on one axis."""
    data = _lines(state, own, beside, best, possible, smooth=smooth)
    ends = state["alpha_from"], state["alpha_to"]
    drawn = figure(
        data,
        x="sample ratio α = n/d²",
        y="error",
        log_x=True,
        xaxis={"range": np.log10(ends).tolist(), "anchor": "y2"},
        yaxis={"domain": [0.36, 1.0], "range": [0.0, 1.12 * _top(data[0]["y"] + data[2]["y"], beside)]},
        yaxis2={
            "domain": [0.0, 0.26],
            "range": [0.0, 1.05],
            "title": {"text": "rank", "standoff": 6},
            "tickvals": [0, 0.5, 1],
        },
    )
    if marks is not None:
        for row, (a, text) in enumerate(threshold_marks(state.task, marks, *ends)):
            mark(drawn["layout"], a, text, row=row)
    return marked(drawn, state["alpha"], ends, by="alpha")


def _lines(state: State, own: Any, beside: Any, best: Any, possible: Any, *, smooth: bool) -> list[Figure]:
    x, other = own["alpha"], _other(state).param
    per_sample = [loss / a for loss, a in zip(own["train_loss"], x, strict=True)]
    thin: dict[str, Any] = {"width": 1.6, "smooth": smooth}
    data = [
        line(x, own["test_error"], f"test error ({state['param']})", smooth=smooth),
        line(x, own["test_error_clean"], "clean labels", dash="dash", **thin),
        line(x, per_sample, "objective per sample", colour="@second", dash="dashdot", **thin),
    ]
    if beside is not None:
        there = beside["alpha"], beside["test_error"]
        data.append(line(*there, f"test error ({other})", colour="@third", dash="dot", smooth=smooth))
    if possible[0]:
        data.append(best_line(*possible, smooth=True))
    if best:
        alphas, _, errors = zip(*best, strict=True)
        data.append(line(alphas, errors, "best λ at every α", colour="@grey", dash="longdash"))
    data.append(
        line(x, own["rank"], "rank", width=1.8, panel="y2", showlegend=False, fill="tozeroy", fillcolor="@soft")
    )
    return data


def _top(errors: list[float | None], beside: Any) -> float:
    """The highest error; the other curve may reach a good deal higher, but not hide the first."""
    top = max((e for e in errors if e is not None), default=1.0)
    others = [] if beside is None else [e for e in beside["test_error"] if np.isfinite(e)]
    return max(top, min(2.5 * top, max(others, default=0.0)))


def report(state: State) -> Report:
    """The exact numbers at the marked point, and the thresholds."""
    marks = _thresholds(state.task, state.learner)
    own = (DRAWN_LABELS, *LINES) if state["labels"] == "hard" else LINES
    found = answer(predicted, *own)(state)
    best = best_numbers(state.task, state.learner, state["alpha"])
    lines = [(text[0].upper() + text[1:], "α", name, "") for name, text in threshold_names(state.task).items()]
    return Report(found.badge, found.numbers + best + (() if marks is None else numbers(marks, *lines)))


def code(state: State) -> Code:
    """The marked point and the curve, without the explorer."""
    alphas = exact_alphas(state)
    space = f"np.geomspace({alphas[0]!r}, {alphas[-1]!r}, {len(alphas)})"
    text = (
        "point = oh.aim.predict(task, head, alpha={alpha!r})\n"
        "print(point.test_error, point.rank, point.status)\n"
        f"\ncurve = oh.aim.curve(task, head, alphas={space})\n"
        'print(curve.column("test_error"))\n'
        "\nmarks = oh.aim.thresholds(task, head)\n"
        "print(marks.interpolation, marks.emergence)"
    )
    if state.task.best_known:
        text += "\n\nbest = oh.aim.bayes(task, alpha={alpha!r})\nprint(best.test_error)"
    if state["direct"]:
        text += f'\n\nother = oh.aim.curve(task, head.changed(param="{_other(state).param}"), alphas={space}[::2])'
    if state["best"]:
        text += "\n\nbest = [oh.aim.tune(task, head, alpha=a) for a in (0.1, 0.5, 2.0)]   # seconds per point"
    axis = f"curve --alphas log:{alphas[0]!r}:{alphas[-1]!r}:{len(alphas)}"
    return code_of("aim", text, "predict --alpha {alpha!r}", axis, "thresholds")(state)


ABOUT = "How the error of a trained attention head falls as samples come in, without training it."
OBJECTIVE = (
    r"\min_{%s}\ \sum_{\mu=1}^{n}\ell\big(\mathrm{softmax}(\beta\,h^\mu(S)),\,y^\mu\big)+\lambda d\,%s,"
    r"\qquad S=\frac{%s}{\sqrt{md}},\quad n=\alpha d^2"
)
VIEW = View(
    name="curve",
    title="Learning curve",
    about=ABOUT,
    formula=OBJECTIVE % (r"W", r"\mathrm{Tr}\,S", r"W^\top W"),
    heads=dict.fromkeys(("self", "cross"), (ABOUT, OBJECTIVE % (r"W_Q,W_K", r"\|S\|_*", r"W_Q^\top W_K"))),
    problems=(Axis, MarchenkoPastur, Task, Learner, Training),
    own=("direct", "best"),
    panels={"": Panel(sketch, report, picture, code)},
    trains=True,
)
