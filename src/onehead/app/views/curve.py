"""Learning curve: errors, training loss and rank against the sample ratio, with the thresholds marked."""

from functools import lru_cache
from typing import Any

import numpy as np

from onehead import aim
from onehead.aim.flat_parameters import threshold_marks, threshold_names
from onehead.aim.targets import MarchenkoPastur
from onehead.aim.task import Learner, Task
from onehead.app.drawing import Figure, add_vertical_mark, figure, line, with_marked_point
from onehead.app.knobs import Axis, Training
from onehead.app.server.workers import stop_if_superseded
from onehead.app.state import State
from onehead.app.views.base import (
    DRAFT_POOL,
    Code,
    Panel,
    Picture,
    Report,
    View,
    numbers,
    predict_at_knobs,
    refusal_picture,
    report_from,
    scalar_columns,
    solved_count,
    solving_placeholder,
)
from onehead.app.views.bayes_line import best_line, best_numbers, with_missing_line_note
from onehead.app.views.code_snippets import code_snippets
from onehead.app.views.several_heads import (
    HEAD_NUMBERS,
    SHARED_DRAFT,
    SHARED_NOTE,
    TUNING_REFUSED,
    share_values,
    unshared,
    unshared_line,
)
from onehead.errors import OneheadError

DRAFT_POINTS = {2: 9, 3: 6}  # points of a draft by number of tokens
EXACT_POINTS = {2: 31, 3: 15}
POINTS_FOR_MANY_TOKENS = (5, 9)  # points of a draft and of an exact curve from four tokens on
TUNED_DECAYS = np.geomspace(1e-4, 3.0, 14)  # weight decays among which the best is searched, then refined by a parabola
TUNED_POINTS = 9
QUANTITIES = ("test_error", "test_error_clean", "train_loss", "rank")
LINES = (
    ("Test error", "", "test_error", "on fresh samples with noisy labels"),
    ("Clean test error", "", "test_error_clean", "on fresh samples with labels without noise"),
    ("Test cross-entropy", "", "test_cross_entropy", "on fresh samples, in nats"),
    ("Excess error", "", "excess_error", "above the error with infinitely many samples"),
    ("Training loss", "", "train_loss", "objective divided by d², at the minimum"),
    ("Rank", "", "rank", "share of {value}s of S that are not zero"),
    ("Size", "q", "q", "|S|²/d"),
    ("Overlap", "m", "m", "Tr S'S*/d"),
    ("Self-response", "Σ", "sigma", "how far a training sample pulls its own logits"),
)
ZERO_ONE_ERROR = ("0/1 error", "", "zero_one_error", "share of rows whose most attended token is not the label")

DRAFT_CAPTION = (
    "Draft with a coarse quadrature rule; the exact curve follows when the knobs rest. The rank is the share of {}s "
    "of S that are not zero."
)


def _alphas(state: State, count: int) -> Any:
    return np.geomspace(state["alpha_from"], state["alpha_to"], count).tolist()


def _point_count(state: State, points: dict[int, int], many: int) -> int:
    """Return the number of points of a curve: fewer where each takes longer.

    These are many tokens, two sectors, hard labels, and heads that share values.
    """
    slow = state["labels"] == "hard" or not state.task.single_sector or share_values(state)
    return points.get(state["tokens"] + slow, many)


def exact_sample_ratios(state: State) -> Any:
    """Return the sample ratios of the exact curve."""
    return _alphas(state, _point_count(state, EXACT_POINTS, POINTS_FOR_MANY_TOKENS[1]))


def _other(state: State) -> Learner:
    """Return the learner with the other parametrisation, direct or factorised."""
    return state.learner.changed(param="direct" if state["param"] == "factorised" else "factorised")


@lru_cache(maxsize=512)
def _thresholds(task: Any, learner: Any) -> Any:
    """Return the thresholds of a problem, or None where they cannot be computed."""
    try:
        return aim.thresholds(task, learner)
    except OneheadError:
        return None


def draft(state: State) -> Picture:
    """Return a draft of all curves, computed in parallel."""
    from onehead.app.drafts.curves import DRAFT_SECONDS, draft_curve, draft_thresholds  # loads the theory

    if share_values(state):
        return _shared_draft(state)
    alphas = _alphas(state, _point_count(state, DRAFT_POINTS, POINTS_FOR_MANY_TOKENS[0]))
    seconds = DRAFT_SECONDS if len(alphas) == DRAFT_POINTS[2] else 2.0 * DRAFT_SECONDS
    head = DRAFT_POOL.submit(draft_curve, state.task, state.learner, alphas, seconds=seconds)
    other = None
    if state["direct"]:
        few = _alphas(state, 6)
        other = DRAFT_POOL.submit(draft_curve, state.task, _other(state), few, full=False, seconds=seconds)
    possible = DRAFT_POOL.submit(_best_possible, state)
    marks = draft_thresholds(state.task, state.learner) if state.task.supported_by("thresholds") else None
    curve = head.result()
    caption = with_missing_line_note(DRAFT_CAPTION.format(state.task.spectral_value), state.task, state.learner)
    if not curve.points:
        return solving_placeholder()
    own = {"alpha": curve.x} | {name: curve.column(name) for name in QUANTITIES}
    second = {"alpha": other.result().x, "test_error": other.result().column("test_error")} if other else None
    return Picture(_draw(state, own, second, None, possible.result(), marks, smooth=True), caption, exact=False)


def _shared_draft(state: State) -> Picture:
    """Return what can be drawn at once of heads that share values: as many heads that do not."""
    from onehead.app.drafts.curves import draft_curve  # loads the theory

    own = unshared(state)
    curve = draft_curve(own.task, own.learner, _alphas(state, DRAFT_POINTS[2]))
    if not curve.points:
        return solving_placeholder()
    empty: dict[str, list[float]] = {name: [] for name in ("alpha", *QUANTITIES)}
    reference = curve.x, curve.column("test_error")
    chart = _draw(state, empty, None, None, ([], []), None, smooth=True, reference=reference)
    return Picture(chart, with_missing_line_note(SHARED_DRAFT, state.task, state.learner), exact=False)


def _best_possible(state: State) -> tuple[list[float], list[float]]:
    """Return sample ratios and errors of the best possible learner, which are exact also in a draft."""
    from onehead.app.drafts.derived import draft_bayes_curve

    return draft_bayes_curve(state.task, state["alpha_from"], state["alpha_to"])


def picture(state: State) -> Picture:
    """Return the exact curves."""
    alphas = exact_sample_ratios(state)
    found = aim.curve(state.task, state.learner, alphas, progress=stop_if_superseded)
    own = {name: found.column(name).tolist() for name in ("alpha", *QUANTITIES)}
    if len(found.failures) == len(found):
        return refusal_picture(found.failures[0].reason)
    rows = found.to_rows()
    second = best = reference = None
    if share_values(state):
        apart = aim.curve(unshared(state).task, state.learner, alphas, progress=stop_if_superseded)
        reference = alphas, apart.column("test_error").tolist()
        rows += [
            {"alpha": a, "test_error": e, "status": "values of their own"} for a, e in zip(*reference, strict=True)
        ]
    if state["direct"]:
        other = aim.curve(state.task, _other(state), alphas[::2], progress=stop_if_superseded)
        second = {name: other.column(name).tolist() for name in ("alpha", "test_error")}
        rows += other.to_rows()
    if state["best"] and not share_values(state):
        from onehead.app.drafts.derived import draft_best_decays

        best = draft_best_decays(
            state.task, state.learner, _alphas(state, TUNED_POINTS), TUNED_DECAYS.tolist(), stop_if_superseded
        )
        rows += [{"alpha": a, "weight_decay": w, "test_error": e, "status": "best weight decay"} for a, w, e in best]
    possible = _best_possible(state)
    rows += [{"alpha": a, "test_error": e, "status": "best possible"} for a, e in zip(*possible, strict=True)]
    marks = _thresholds(state.task, state.learner)
    chart = _draw(state, own, second, best, possible, marks, smooth=False, reference=reference)
    notes = [SHARED_NOTE, *([TUNING_REFUSED] if state["best"] else [])] if share_values(state) else []
    caption = " ".join((solved_count(len(found), len(found.failures)), *notes))
    return Picture(chart, with_missing_line_note(caption, state.task, state.learner), [_row(row) for row in rows])


def _row(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of the table with the parameters in which the two curves differ."""
    head = row.get("learner")
    return {**({"param": head["param"], "weight_decay": head["weight_decay"]} if head else {}), **scalar_columns(row)}


def _draw(
    state: State, own: Any, second: Any, best: Any, possible: Any, marks: Any, *, smooth: bool, reference: Any = None
) -> Figure:
    """Draw errors above and the rank below, on one α axis; ``reference`` is the curve of heads that share nothing."""
    data = _lines(state, own, second, best, possible, smooth=smooth) if own["alpha"] else []
    errors = [error for trace in data[: 3 if state["details"] else 1] for error in trace["y"]]
    if reference is not None:
        data.append(unshared_line(*reference, smooth=smooth))
        errors += reference[1]
    ends = state["alpha_from"], state["alpha_to"]
    chart = figure(
        data,
        x="sample ratio α = n/d²",
        y="error",
        log_x=True,
        xaxis={"range": np.log10(ends).tolist(), "anchor": "y2"},
        yaxis={"domain": [0.36, 1.0], "range": [0.0, 1.12 * _top(errors, second)]},
        yaxis2={
            "domain": [0.0, 0.26],
            "range": [0.0, 1.05],
            "title": {"text": "rank", "standoff": 6},
            "tickvals": [0, 0.5, 1],
        },
    )
    if marks is not None:
        for row, (a, text) in enumerate(threshold_marks(state.task, marks, *ends)):
            add_vertical_mark(chart["layout"], a, text, row=row)
    return with_marked_point(chart, state["alpha"], ends, by="alpha")


def _lines(state: State, own: Any, second: Any, best: Any, possible: Any, *, smooth: bool) -> list[Figure]:
    x, other = own["alpha"], _other(state).param
    per_sample = [loss / a for loss, a in zip(own["train_loss"], x, strict=True)]
    thin: dict[str, Any] = {"width": 1.6, "smooth": smooth}
    data = [line(x, own["test_error"], f"test error ({state['param']})", smooth=smooth)]
    if state["details"]:
        data += [
            line(x, own["test_error_clean"], "clean labels", dash="dash", **thin),
            line(x, per_sample, "objective per sample", colour="@second", dash="dashdot", **thin),
        ]
    if second is not None:
        data.append(
            line(
                second["alpha"],
                second["test_error"],
                f"test error ({other})",
                colour="@third",
                dash="dot",
                smooth=smooth,
            )
        )
    if possible[0]:
        data.append(best_line(*possible, smooth=True))
    if best:
        alphas, _, errors = zip(*best, strict=True)
        data.append(line(alphas, errors, "best λ at every α", colour="@grey", dash="longdash"))
    data.append(
        line(x, own["rank"], "rank", width=1.8, yaxis="y2", showlegend=False, fill="tozeroy", fillcolor="@soft")
    )
    return data


def _top(errors: list[float | None], second: Any) -> float:
    """Return the upper end of the error axis; a much higher second curve is cut off."""
    top = max((e for e in errors if e is not None), default=1.0)
    others = [] if second is None else [e for e in second["test_error"] if np.isfinite(e)]
    return max(top, min(2.5 * top, max(others, default=0.0)))


def report(state: State) -> Report:
    """Return the exact numbers at the marked point, the best possible error and the thresholds."""
    marks = _thresholds(state.task, state.learner)
    own = (ZERO_ONE_ERROR, *LINES) if state["labels"] == "hard" else LINES
    several = HEAD_NUMBERS if state["aim_heads"] > 1 else ()
    found = report_from(predict_at_knobs, *own, *several)(state)
    best = best_numbers(state.task, state.learner, state["alpha"])
    lines = [(text[0].upper() + text[1:], "α", name, "") for name, text in threshold_names(state.task).items()]
    return Report(found.badge, found.numbers + best + (() if marks is None else numbers(marks, *lines)))


def code(state: State) -> Code:
    """Return code that computes the marked point, the curve and the thresholds."""
    alphas = exact_sample_ratios(state)
    space = f"np.geomspace({alphas[0]!r}, {alphas[-1]!r}, {len(alphas)})"
    text = (
        "point = oh.aim.predict(task, head, alpha={alpha!r})\n"
        "print(point.test_error, point.rank, point.status)\n"
        f"\ncurve = oh.aim.curve(task, head, alphas={space})\n"
        'print(curve.column("test_error"))\n'
    )
    if state.task.supported_by("thresholds"):
        text += "\nmarks = oh.aim.thresholds(task, head)\nprint(marks.interpolation, marks.emergence)"
    if state.task.bayes_known:
        text += "\n\nbest = oh.aim.bayes(task, alpha={alpha!r})\nprint(best.test_error)"
    if state["direct"]:
        text += f'\n\nother = oh.aim.curve(task, head.changed(param="{_other(state).param}"), alphas={space}[::2])'
    if state["best"]:
        text += "\n\nbest = [oh.aim.tune(task, head, alpha=a) for a in (0.1, 0.5, 2.0)]   # seconds per point"
    axis = f"curve --alphas log:{alphas[0]!r}:{alphas[-1]!r}:{len(alphas)}"
    marks = ("thresholds",) if state.task.supported_by("thresholds") else ()
    return code_snippets("aim", text, "predict --alpha {alpha!r}", axis, *marks)(state)


ABOUT = "How the error of a trained attention head falls with the number of samples, computed without training it."
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
    own=("details", "direct", "best"),
    panels={"": Panel(draft, report, picture, code)},
    trains=True,
)
