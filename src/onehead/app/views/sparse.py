"""Sparse tokens: errors of attention, pooled and vectorised classifiers; alignment, capacity, tuning, hard phase."""

from collections.abc import Callable
from functools import lru_cache, partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from onehead import sparse
from onehead.app.drafts import sparse as draft
from onehead.app.drawing import Figure, figure, format_value, line, points, with_marked_point
from onehead.app.refusals import explain
from onehead.app.server.workers import stop_if_superseded
from onehead.app.state import State
from onehead.app.views.base import (
    BEST_POSSIBLE_MEANING,
    DRAFT_POOL,
    Badge,
    Line,
    Number,
    Panel,
    Picture,
    Report,
    View,
    badge_from,
    numbers,
    report_from,
    solved_count,
    with_values,
)
from onehead.app.views.bayes_line import NO_BEST_LINE, best_line
from onehead.app.views.code_snippets import code_snippets
from onehead.app.views.hard_phase import PANEL as HARD
from onehead.app.views.joint import DESCENT, PROTOCOLS
from onehead.errors import OneheadError
from onehead.sparse.task import Protocol, Task

MODELS = {"attention": ("@theory", "solid"), "pooled": ("@third", "dash"), "vectorised": ("@second", "dot")}
RATIOS = (0.25, 16.0)
DRAFT_POINTS, EXACT_POINTS = 8, 15
BETAS = (0.5, 20.0)
RIDGES = (1e-5, 10.0)
DRAFT_SECONDS = 0.12  # CPU time for one curve of a draft
BEST_ROW = "Best possible"
QUERY = (
    ("Cosine of the query", "cos", "cos_query", "with the signal"),
    ("Sharpness", "β|q|", "sharpness", "of the attention"),
)
TUNED: tuple[Line, ...] = (
    ("Tuned test error", "", "test_error", "with the best split, bias rate, temperature and ridge"),
    (
        "Split",
        "α₀ : α₁",
        lambda best: f"{format_value(best.alpha0)} : {format_value(best.alpha1)}",
        "same total number of samples",
    ),
    ("Temperature", "β", "beta", "best inverse temperature"),
    ("Bias rate", "η_b", "eta_b", "best rate of the bias"),
    ("Query rate", "η_q", "eta_q", "its sign may be reversed"),
    ("Ridge", "λ", "ridge", "best penalty of the readout"),
    ("Pooled, best ridge", "", "pooled_test_error", "test error"),
    ("Vectorised, best ridge", "", "vectorised_test_error", "test error"),
)
ALIGNMENT: tuple[Line, ...] = (
    ("Cosine of the readout", "cos", "cos_readout", "after the first step"),
    ("Norm of the query", "|q|", "norm_query", ""),
    ("Norm of the readout", "|w|", "norm_readout", ""),
    ("Misalignment", "C", "misalignment", "|cos| = 1 - C/α₀ at large α₀"),
    ("Critical bias rate", "η_b", "critical_bias_rate", "at which the query changes sign, for small η_w"),
)
CAPACITIES: tuple[Line, ...] = (
    ("Capacity, attention", "α₁", "attention", "readout samples divided by dimension"),
    ("Capacity, pooled", "α", "pooled", "all samples divided by dimension"),
    ("Capacity, vectorised", "α", "vectorised", "sequence length times pooled"),
)

Curves = dict[str, list[float]]
Rows = list[dict[str, Any]]


def _space(ends: tuple[float, float], count: int) -> Any:
    return np.geomspace(*ends, count).tolist()


def _protocols(state: State, name: str, values: list[float]) -> list[Protocol]:
    """Return the protocol of the page with one parameter changed; the ratio α₀ : α₁ of samples is kept."""
    protocol = state.protocol
    if name != "alpha":
        return [protocol.changed(**{name: value}) for value in values]
    share = protocol.alpha0 / protocol.alpha
    return [protocol.changed(alpha0=share * a, alpha1=(1.0 - share) * a) for a in values]


def _rows(
    state: State,
    axis: str,
    x: list[float],
    columns: tuple[str, ...],
    solve: Callable[[Task, Protocol], Any],
    **more: str,
) -> Rows:
    """Return one row for each value on an axis: the columns of the exact result, or the reason where solving failed."""
    rows = []
    for value, protocol in zip(x, _protocols(state, axis, x), strict=True):
        stop_if_superseded()
        try:
            found = solve(state.sparse_task, protocol)
            own = {name: getattr(found, name) for name in columns}
        except OneheadError as error:
            own = {columns[0]: None, "status": f"failed: {error}"}
        rows.append({axis: value, **more, **own})
    return rows


def _column(rows: Rows, name: str) -> list[float]:
    """Return a column, with NaN where solving failed."""
    return [np.nan if row[name] is None else row[name] for row in rows]


def _draft_curves(state: State, axis: str, x: list[float]) -> Curves:
    """Return drafts of the three models, computed in parallel, each from its easy end (many samples, large ridge)."""
    protocols = _protocols(state, axis, x)

    def solve(model: str) -> list[float]:
        return draft.errors(state.sparse_task, protocols[::-1], model, patience=DRAFT_SECONDS)[::-1]

    return dict(zip(MODELS, DRAFT_POOL.map(solve, MODELS), strict=True))


def _exact_curves(state: State, axis: str, x: list[float], **options: Any) -> tuple[Curves, Rows]:
    """Return the exact curves of the three models, and the rows behind them."""
    columns = ("test_error", "train_loss", "train_error", "cos_query", "sharpness", "status")
    found = {
        model: _rows(state, axis, x, columns, partial(sparse.predict, model=model, **options), model=model)
        for model in MODELS
    }
    return {model: _column(rows, "test_error") for model, rows in found.items()}, list(chain(*found.values()))


def _lines(x: list[float], curves: Curves, *, smooth: bool) -> list[Figure]:
    return [
        line(x, y, model, colour=MODELS[model][0], dash=MODELS[model][1], smooth=smooth) for model, y in curves.items()
    ]


# --- test error of the three models


def _error_draft(state: State) -> Picture:
    alphas = _space(RATIOS, DRAFT_POINTS)
    best = _best_possible(state.sparse_task) if _best_is_fast(state) else BestPossible()
    chart = _error_figure(state, alphas, _draft_curves(state, "alpha", alphas), best, smooth=True)
    caption = "Draft with few points; the exact curves follow when the knobs rest."
    return Picture(chart, f"{caption} {best.missing}".strip(), exact=False)


def _error_picture(state: State) -> Picture:
    alphas = _space(RATIOS, EXACT_POINTS)
    curves, rows = _exact_curves(state, "alpha", alphas)
    best = _best_possible(state.sparse_task)
    rows += [
        {"alpha": a, "test_error": e, "model": "best possible"} for a, e in zip(best.alphas, best.errors, strict=True)
    ]
    caption = solved_count(len(rows), sum(row["test_error"] is None for row in rows))
    chart = _error_figure(state, alphas, curves, best, smooth=False)
    return Picture(chart, f"{caption} {best.missing}".strip(), rows)


class BestPossible(NamedTuple):
    """Sample ratios and the best possible errors there, or the note why they are missing."""

    alphas: tuple[float, ...] = ()
    errors: tuple[float, ...] = ()
    missing: str = ""


@lru_cache(maxsize=64)  # it does not change with the protocol
def _best_possible(task: Task, *alphas: float) -> BestPossible:
    """Return the best possible errors at some sample ratios, by default those of the axis."""
    alphas = alphas or tuple(_space(RATIOS, EXACT_POINTS))
    try:
        return BestPossible(alphas, tuple(sparse.bayes(task, alpha).test_error for alpha in alphas))
    except OneheadError as error:
        return BestPossible(missing=NO_BEST_LINE.format(explain(error)))


def _best_is_fast(state: State) -> bool:
    """Return whether the best possible error is fast enough for a draft; with several signal tokens it is not."""
    return bool(state["signal_tokens"] == 1)


def _error_figure(state: State, alphas: list[float], curves: Curves, best: BestPossible, *, smooth: bool) -> Figure:
    data = _lines(alphas, curves, smooth=smooth)
    data += [best_line(best.alphas, best.errors)] if best.alphas else []
    chart = figure(data, x="samples divided by dimension, α₀ + α₁", y="test error", log_x=True, log_y=True)
    return with_marked_point(chart, state.protocol.alpha, by="alpha0 alpha1")


def _error_report(state: State) -> Report:
    rows, badges = [], []
    for model in MODELS:
        try:
            found = sparse.predict(state.sparse_task, state.protocol, model=model)
        except OneheadError as error:
            badges.append(Badge("failed", explain(error)))
            rows.append(Number(f"Test error, {model}", "", "–", "no result"))
            continue
        badges.append(badge_from(found.certificate))
        meaning = f"training error {format_value(found.train_error)}"
        rows += numbers(found, (f"Test error, {model}", "", "test_error", meaning))
        if model == "attention":
            rows += numbers(found, *QUERY)
    if not state.sparse_task.positions:
        best = sparse.bayes(state.sparse_task, state.protocol.alpha)
        rows += numbers(best, (BEST_ROW, "", "test_error", BEST_POSSIBLE_MEANING))
    worst = max(badges, key=lambda badge: ("converged", "conjecture", "approximate", "failed").index(badge.level))
    return Report(worst, tuple(rows))


# --- alignment of the query


def _align_picture(state: State) -> Picture:
    ratios = _space((0.05, 50.0), 61)
    names = ("cos_query", "cos_readout", "norm_query", "norm_readout", "sharpness")
    rows = _rows(state, "alpha0", ratios, names, sparse.align)
    data = [
        line(ratios, _column(rows, "cos_query"), "query, cos(q, ξ)"),
        line(ratios, _column(rows, "cos_readout"), "first readout, cos(w, ξ)", colour="@second", dash="dash"),
    ]
    height = {"range": [-1.05, 1.05]}
    chart = figure(
        data, x="query samples divided by dimension, α₀", y="cosine with the signal", log_x=True, yaxis=height
    )
    return Picture(
        with_marked_point(chart, state["alpha0"], by="alpha0"),
        "Computed from a closed form: every point is exact.",
        rows,
    )


# --- capacity


def _capacity_draft(state: State) -> Picture:
    betas = _space(BETAS, 6)
    attention = draft.capacities(state.sparse_task, _protocols(state, "beta", betas), patience=DRAFT_SECONDS)
    chart = _capacity_figure(state, betas, attention, *draft.linear_capacities(state.sparse_task), smooth=True)
    return Picture(chart, "Draft with few points; the exact values follow when the knobs rest.", exact=False)


def _capacity_picture(state: State) -> Picture:
    betas = _space(BETAS, 10)
    names = ("attention", "pooled", "vectorised", "cos_query", "sharpness")
    rows = _rows(state, "beta", betas, names, sparse.capacity)
    good = [row for row in rows if row["attention"] is not None] or [dict.fromkeys(names, np.nan)]
    linear = good[-1]["pooled"], good[-1]["vectorised"]
    chart = _capacity_figure(state, betas, _column(rows, "attention"), *linear, smooth=False)
    return Picture(chart, "Capacity: largest number of samples, divided by dimension, that can be separated.", rows)


def _capacity_figure(
    state: State, betas: list[float], attention: list[float], pooled: float, vectorised: float, *, smooth: bool
) -> Figure:
    ends = [betas[0], betas[-1]]
    data = [
        line(betas, attention, "attention (α₁)", smooth=smooth),
        line(ends, [pooled] * 2, "pooled (α)", colour="@third", dash="dash"),
        line(ends, [vectorised] * 2, "vectorised (α)", colour="@second", dash="dot"),
    ]
    chart = figure(data, x="inverse temperature β", y="capacity, samples divided by dimension", log_x=True, log_y=True)
    return with_marked_point(chart, state["sparse_beta"], BETAS, by="sparse_beta")


# --- tuning


def _tuning_draft(state: State) -> Picture:
    ridges = _space(RIDGES, DRAFT_POINTS - 1)
    best = _best_possible(state.sparse_task, state.protocol.alpha) if _best_is_fast(state) else BestPossible()
    chart = _tuning_figure(state, ridges, _draft_curves(state, "ridge", ridges), None, best, smooth=True)
    caption = "Test error against the ridge, other parameters as on the knobs; the search over four of them follows."
    return Picture(chart, f"{caption} {best.missing}".strip(), exact=False)


def _tuning_picture(state: State) -> Picture:
    ridges = _space(RIDGES, 13)
    curves, rows = _exact_curves(state, "ridge", ridges, accuracy=1e-2)
    best = _best_possible(state.sparse_task, state.protocol.alpha)
    try:
        tuned = sparse.tune(state.sparse_task, state.protocol, progress=stop_if_superseded)
    except OneheadError as error:
        chart = _tuning_figure(state, ridges, curves, None, best, smooth=False)
        return Picture(chart, f"{error} {best.missing}".strip(), rows)
    chart = _tuning_figure(state, ridges, curves, tuned, best, smooth=False)
    caption = f"Star: the best values of all four hyperparameters. {best.missing}".strip()
    return Picture(chart, caption, rows, numbers(tuned, *TUNED))


def _tuning_figure(
    state: State, ridges: list[float], curves: Curves, tuned: Any, best: BestPossible, *, smooth: bool
) -> Figure:
    data = _lines(ridges, curves, smooth=smooth)
    if tuned is not None:
        at = max(tuned.ridge, RIDGES[0])
        data.append(points([at], [tuned.test_error], "attention, tuned", colour="@optimum", symbol="star", size=14))
    if best.errors:  # it does not depend on the ridge
        data.append(best_line([ridges[0], ridges[-1]], [best.errors[0]] * 2))
    chart = figure(data, x="ridge λ of the readout", y="test error", log_x=True)
    return with_marked_point(chart, state["ridge"], RIDGES, by="ridge")


def _tuning_report(state: State) -> Report:
    found = _error_report(state)
    return Report(found.badge, (found.numbers[0], *(n for n in found.numbers if n.name == BEST_ROW)))


PANELS = {
    "error": Panel(
        draft=_error_draft,
        report=_error_report,
        picture=_error_picture,
        code=code_snippets(
            "sparse",
            'for model in ("attention", "pooled", "vectorised"):\n'
            "    print(model, oh.sparse.predict(task, plan, model=model).test_error)",
            "predict --model all",
            f"predict --model all --alpha log:{RATIOS[0]}:{RATIOS[1]}:{EXACT_POINTS}",
        ),
    ),
    "alignment": Panel(
        draft=_align_picture,
        report=report_from(
            lambda state: sparse.align(state.sparse_task, state.protocol),
            QUERY[0],
            *ALIGNMENT[:3],
            QUERY[1],
            *ALIGNMENT[3:],
        ),
        picture=_align_picture,
        code=code_snippets(
            "sparse", "found = oh.sparse.align(task, plan)\nprint(found.cos_query, found.sharpness)", "align"
        ),
    ),
    "capacity": Panel(
        draft=_capacity_draft,
        report=report_from(
            lambda state: sparse.capacity(state.sparse_task, state.protocol),
            *CAPACITIES,
            *QUERY,
        ),
        picture=_capacity_picture,
        code=code_snippets(
            "sparse",
            "found = oh.sparse.capacity(task, plan)\nprint(found.attention, found.pooled, found.vectorised)",
            "capacity",
        ),
    ),
    "tuning": Panel(
        draft=_tuning_draft,
        report=_tuning_report,
        picture=_tuning_picture,
        code=code_snippets(
            "sparse",
            "best = oh.sparse.tune(task, plan)\nprint(best.test_error, best.alpha0, best.beta, best.eta_b, best.ridge)",
            "tune",
        ),
    ),
    "hard-phase": HARD,
}
# the staged protocol has no ridge on the query, and in joint descent beta is absorbed in the rates
PANELS = {name: with_values(panel, ridge_query=0.0) for name, panel in PANELS.items()}
PANELS |= {"descent": with_values(DESCENT, sparse_beta=1.0), "protocols": PROTOCOLS}
VIEW = View(
    name="sparse",
    title="Sparse tokens",
    about="A weak signal in a few random tokens: when does attention beat a linear classifier?",
    formula=r"X=\theta\,v\,\xi^\top+Z,\quad\allowbreak {|v|_0=R\ \text{of}\ L},\qquad\allowbreak "
    r"{f(X)=\big\langle w,\ X^\top\mathrm{softmax}(\beta X q)\big\rangle+b}",
    problems=(Task, Protocol),
    own=("sparse_panel", "descent_step"),
    panel="sparse_panel",
    panels=PANELS,
)
