"""Sparse tokens: attention against pooled and vectorised classifiers; alignment, capacity and tuning."""

from collections.abc import Callable
from functools import lru_cache, partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from onehead import sparse
from onehead.app.drawing import Figure, figure, line, marked, points, show
from onehead.app.state import State
from onehead.app.views.base import (
    KNOWN,
    POOL,
    Badge,
    Line,
    Number,
    Panel,
    Picture,
    Report,
    View,
    answer,
    badge_of,
    numbers,
    solved,
)
from onehead.app.views.best import NONE, best_line
from onehead.app.views.hard import PANEL as HARD
from onehead.app.views.words import code_of
from onehead.app.work import pause
from onehead.errors import OneheadError
from onehead.sparse.solve import sketch
from onehead.sparse.task import Protocol, Task

__all__ = ["VIEW"]

MODELS = {"attention": ("@theory", "solid"), "pooled": ("@second", "dash"), "vectorised": ("@third", "dot")}
RATIOS = (0.25, 16.0)
QUICK, EXACT = 8, 15
BETAS = (0.5, 20.0)
RIDGES = (1e-5, 10.0)
PATIENCE = 0.12
BEST = "Best possible"
QUERY = (
    ("Cosine of the query", "cos", "cos_query", "with the signal"),
    ("Sharpness", "β|q|", "sharpness", "of the attention"),
)
TUNED: tuple[Line, ...] = (
    ("Tuned test error", "", "test_error", "best split, bias rate, temperature and ridge"),
    ("Split", "α₀ : α₁", lambda best: f"{show(best.alpha0)} : {show(best.alpha1)}", "same number of samples in all"),
    ("Temperature", "β", "beta", "best inverse temperature"),
    ("Bias rate", "η_b", "eta_b", "best"),
    ("Query rate", "η_q", "eta_q", "its sign may have been flipped"),
    ("Ridge", "λ", "ridge", "best"),
    ("Pooled, best ridge", "", "pooled_test_error", "test error"),
    ("Vectorised, best ridge", "", "vectorised_test_error", "test error"),
)

Curves = dict[str, list[float]]
Rows = list[dict[str, Any]]


def _space(ends: tuple[float, float], count: int) -> Any:
    return np.geomspace(*ends, count).tolist()


def _plans(state: State, word: str, values: list[float]) -> list[Protocol]:
    """The protocol of the page along an axis; another number of samples is split as on the page."""
    plan = state.protocol
    if word != "alpha":
        return [plan.changed(**{word: value}) for value in values]
    share = plan.alpha0 / plan.alpha
    return [plan.changed(alpha0=share * a, alpha1=(1.0 - share) * a) for a in values]


def _rows(
    state: State, word: str, x: list[float], names: tuple[str, ...], solve: Callable[[Task, Protocol], Any], **more: str
) -> Rows:
    """The library's own answers along an axis: the numbers named, or in place of the first one the reason why there are none."""
    rows = []
    for at, plan in zip(x, _plans(state, word, x), strict=True):
        pause()
        try:
            found = solve(state.sparse_task, plan)
            own = {name: getattr(found, name) for name in names}
        except OneheadError as error:
            own = {names[0]: None, "status": f"failed: {error}"}
        rows.append({word: at, **more, **own})
    return rows


def _column(rows: Rows, name: str) -> list[float]:
    """A column, not a number where there is no answer."""
    return [np.nan if row[name] is None else row[name] for row in rows]


def _quick_curves(state: State, word: str, x: list[float]) -> Curves:
    """Sketches of the three models side by side, each from its easy end."""
    plans = _plans(state, word, x)

    def solve(model: str) -> list[float]:
        return sketch.errors(state.sparse_task, plans[::-1], model, patience=PATIENCE)[::-1]

    return dict(zip(MODELS, POOL.map(solve, MODELS), strict=True))


def _exact_curves(state: State, word: str, x: list[float], **options: Any) -> tuple[Curves, Rows]:
    """The library's own curves, and the rows behind them."""
    names = ("test_error", "train_loss", "train_error", "cos_query", "sharpness", "status")
    found = {
        model: _rows(state, word, x, names, partial(sparse.predict, model=model, **options), model=model)
        for model in MODELS
    }
    return {model: _column(rows, "test_error") for model, rows in found.items()}, list(chain(*found.values()))


def _lines(x: list[float], curves: Curves, *, smooth: bool) -> list[Figure]:
    return [
        line(x, y, model, colour=MODELS[model][0], dash=MODELS[model][1], smooth=smooth) for model, y in curves.items()
    ]


# --- test error of the three models


def _error_sketch(state: State) -> Picture:
    alphas = _space(RATIOS, QUICK)
    best = _possible(state.sparse_task) if _quick_best(state) else Possible()
    drawn = _error_figure(state, alphas, _quick_curves(state, "alpha", alphas), best, smooth=True)
    caption = "Sketch on few points; the exact curves follow when the knobs rest."
    return Picture(drawn, f"{caption} {best.missing}".strip(), exact=False)


def _error_picture(state: State) -> Picture:
    alphas = _space(RATIOS, EXACT)
    curves, rows = _exact_curves(state, "alpha", alphas)
    best = _possible(state.sparse_task)
    rows += [
        {"alpha": a, "test_error": e, "model": "best possible"} for a, e in zip(best.alphas, best.errors, strict=True)
    ]
    caption = solved(len(rows), sum(row["test_error"] is None for row in rows))
    drawn = _error_figure(state, alphas, curves, best, smooth=False)
    return Picture(drawn, f"{caption} {best.missing}".strip(), rows)


class Possible(NamedTuple):
    """Sample ratios and the best possible error there, or the sentence why there is none."""

    alphas: tuple[float, ...] = ()
    errors: tuple[float, ...] = ()
    missing: str = ""


@lru_cache(maxsize=64)  # it does not change with the protocol
def _possible(task: Task, *alphas: float) -> Possible:
    """The best possible learner, at some sample ratios or along the axis."""
    alphas = alphas or tuple(_space(RATIOS, EXACT))
    try:
        return Possible(alphas, tuple(sparse.bayes(task, alpha).test_error for alpha in alphas))
    except OneheadError as error:
        return Possible(missing=NONE.format(error))


def _quick_best(state: State) -> bool:
    """Whether it is there in time for a sketch: several signal tokens are averaged over, too slowly."""
    return bool(state["signal_tokens"] == 1)


def _error_figure(state: State, alphas: list[float], curves: Curves, best: Possible, *, smooth: bool) -> Figure:
    data = _lines(alphas, curves, smooth=smooth)
    data += [best_line(best.alphas, best.errors)] if best.alphas else []
    drawn = figure(data, x="samples over dimension, α₀ + α₁", y="test error", log_x=True, log_y=True)
    return marked(drawn, state.protocol.alpha, by="alpha0 alpha1")


def _error_report(state: State) -> Report:
    shown, badges = [], []
    for model in MODELS:
        try:
            found = sparse.predict(state.sparse_task, state.protocol, model=model)
        except OneheadError as error:
            badges.append(Badge("failed", str(error)))
            shown.append(Number(f"Test error, {model}", "", "–", "no answer"))
            continue
        badges.append(badge_of(found.certificate))
        meaning = f"training error {show(found.train_error)}"
        shown += numbers(found, (f"Test error, {model}", "", "test_error", meaning))
        if model == "attention":
            shown += numbers(found, *QUERY)
    if not state.sparse_task.positions:
        best = sparse.bayes(state.sparse_task, state.protocol.alpha)
        shown += numbers(best, (BEST, "", "test_error", KNOWN))
    worst = max(badges, key=lambda badge: ("converged", "conjecture", "approximate", "failed").index(badge.level))
    return Report(worst, tuple(shown))


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
    drawn = figure(data, x="query samples over dimension, α₀", y="cosine with the signal", log_x=True, yaxis=height)
    return Picture(marked(drawn, state["alpha0"], by="alpha0"), "Closed form: every point is exact.", rows)


# --- capacity


def _capacity_sketch(state: State) -> Picture:
    betas = _space(BETAS, 6)
    attention = sketch.capacities(state.sparse_task, _plans(state, "beta", betas), patience=PATIENCE)
    drawn = _capacity_figure(state, betas, attention, *sketch.linear_capacities(state.sparse_task), smooth=True)
    return Picture(drawn, "Sketch on few points; the exact values follow when the knobs rest.", exact=False)


def _capacity_picture(state: State) -> Picture:
    betas = _space(BETAS, 10)
    names = ("attention", "pooled", "vectorised", "cos_query", "sharpness")
    rows = _rows(state, "beta", betas, names, sparse.capacity)
    good = [row for row in rows if row["attention"] is not None] or [dict.fromkeys(names, np.nan)]
    flat = good[-1]["pooled"], good[-1]["vectorised"]
    drawn = _capacity_figure(state, betas, _column(rows, "attention"), *flat, smooth=False)
    return Picture(drawn, "Largest separable number of samples over dimension.", rows)


def _capacity_figure(
    state: State, betas: list[float], attention: list[float], pooled: float, vectorised: float, *, smooth: bool
) -> Figure:
    ends = [betas[0], betas[-1]]
    data = [
        line(betas, attention, "attention (α₁)", smooth=smooth),
        line(ends, [pooled] * 2, "pooled (α)", colour="@second", dash="dash"),
        line(ends, [vectorised] * 2, "vectorised (α)", colour="@third", dash="dot"),
    ]
    drawn = figure(data, x="inverse temperature β", y="capacity, samples over dimension", log_x=True, log_y=True)
    return marked(drawn, state["sparse_beta"], BETAS, by="sparse_beta")


# --- tuning


def _tuning_sketch(state: State) -> Picture:
    ridges = _space(RIDGES, QUICK - 1)
    best = _possible(state.sparse_task, state.protocol.alpha) if _quick_best(state) else Possible()
    drawn = _tuning_figure(state, ridges, _quick_curves(state, "ridge", ridges), None, best, smooth=True)
    caption = "Test error against the ridge, everything else as on the knobs; the search over all four follows."
    return Picture(drawn, f"{caption} {best.missing}".strip(), exact=False)


def _tuning_picture(state: State) -> Picture:
    ridges = _space(RIDGES, 13)
    curves, rows = _exact_curves(state, "ridge", ridges, accuracy=1e-2)
    best = _possible(state.sparse_task, state.protocol.alpha)
    try:
        tuned = sparse.tune(state.sparse_task, state.protocol, progress=pause)
    except OneheadError as error:
        drawn = _tuning_figure(state, ridges, curves, None, best, smooth=False)
        return Picture(drawn, f"{error} {best.missing}".strip(), rows)
    drawn = _tuning_figure(state, ridges, curves, tuned, best, smooth=False)
    caption = f"The star is the best of all four hyperparameters. {best.missing}".strip()
    return Picture(drawn, caption, rows, numbers(tuned, *TUNED))


def _tuning_figure(
    state: State, ridges: list[float], curves: Curves, tuned: Any, best: Possible, *, smooth: bool
) -> Figure:
    data = _lines(ridges, curves, smooth=smooth)
    if tuned is not None:
        at = max(tuned.ridge, RIDGES[0])
        data.append(points([at], [tuned.test_error], "attention, tuned", symbol="star", size=14))
    if best.errors:  # whoever knows how the data were made needs no ridge
        data.append(best_line([ridges[0], ridges[-1]], [best.errors[0]] * 2))
    drawn = figure(data, x="ridge λ of the readout", y="test error", log_x=True)
    return marked(drawn, state["ridge"], RIDGES, by="ridge")


def _tuning_report(state: State) -> Report:
    found = _error_report(state)
    return Report(found.badge, (found.numbers[0], *(n for n in found.numbers if n.name == BEST)))


PANELS = {
    "error": Panel(
        sketch=_error_sketch,
        report=_error_report,
        picture=_error_picture,
        code=code_of(
            "sparse",
            'for model in ("attention", "pooled", "vectorised"):\n'
            "    print(model, oh.sparse.predict(task, plan, model=model).test_error)",
            "predict --model all",
            f"predict --model all --alpha log:{RATIOS[0]}:{RATIOS[1]}:{EXACT}",
        ),
    ),
    "alignment": Panel(
        sketch=_align_picture,
        report=answer(
            lambda state: sparse.align(state.sparse_task, state.protocol),
            QUERY[0],
            ("Cosine of the readout", "cos", "cos_readout", "after the first step"),
            ("Length of the query", "|q|", "norm_query", ""),
            ("Length of the readout", "|w|", "norm_readout", ""),
            QUERY[1],
            ("Misalignment", "C", "misalignment", "|cos| = 1 - C/α₀ at large α₀"),
            ("Critical bias rate", "η_b", "critical_bias_rate", "where the query turns round, small η_w"),
        ),
        picture=_align_picture,
        code=code_of("sparse", "found = oh.sparse.align(task, plan)\nprint(found.cos_query, found.sharpness)", "align"),
    ),
    "capacity": Panel(
        sketch=_capacity_sketch,
        report=answer(
            lambda state: sparse.capacity(state.sparse_task, state.protocol),
            ("Capacity, attention", "α₁", "attention", "samples for the readout over dimension"),
            ("Capacity, pooled", "α", "pooled", "all samples over dimension"),
            ("Capacity, vectorised", "α", "vectorised", "length times pooled"),
            *QUERY,
        ),
        picture=_capacity_picture,
        code=code_of(
            "sparse",
            "found = oh.sparse.capacity(task, plan)\nprint(found.attention, found.pooled, found.vectorised)",
            "capacity",
        ),
    ),
    "tuning": Panel(
        sketch=_tuning_sketch,
        report=_tuning_report,
        picture=_tuning_picture,
        code=code_of(
            "sparse",
            "best = oh.sparse.tune(task, plan)\nprint(best.test_error, best.alpha0, best.beta, best.eta_b, best.ridge)",
            "tune",
        ),
    ),
    "hard-phase": HARD,
}
VIEW = View(
    name="sparse",
    title="Sparse tokens",
    about="A weak signal in a few random tokens: when does attention beat a linear classifier?",
    formula=r"X=\theta\,v\,\xi^\top+Z,\quad |v|_0=R\ \text{of}\ L,\qquad "
    r"f(X)=\big\langle w,\ X^\top\mathrm{softmax}(\beta X q)\big\rangle+b",
    problems=(Task, Protocol),
    own=("sparse_panel",),
    panel="sparse_panel",
    panels=PANELS,
)
