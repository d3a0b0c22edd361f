"""Sparse tokens: attention against pooled and vectorised classifiers; alignment, capacity and tuning."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from onehead.app.drawing import Figure, figure, line, marker_line, points, show
from onehead.app.pause import pause
from onehead.app.state import State
from onehead.app.views.base import Code, Number, Panel, Picture, Report, View, answer, badge_of, failed, numbers, solved
from onehead.app.views.words import flags, python
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
QUERY = (
    ("Cosine of the query", "cos", "cos_query", "with the signal"),
    ("Sharpness", "β|q|", "sharpness", "of the attention"),
)
TUNED = (
    ("Tuned test error", "", "test_error", "best split, bias rate, temperature and ridge"),
    ("Temperature", "β", "beta", "best inverse temperature"),
    ("Bias rate", "η_b", "eta_b", "best"),
    ("Query rate", "η_q", "eta_q", "its sign may have been flipped"),
    ("Ridge", "λ", "ridge", "best"),
    ("Pooled, best ridge", "", "pooled_test_error", "test error"),
    ("Vectorised, best ridge", "", "vectorised_test_error", "test error"),
)

Curves = dict[str, tuple[list[float], list[float]]]

_pool = ThreadPoolExecutor(4, thread_name_prefix="sketch")  # kernels release the interpreter lock


def _space(ends: tuple[float, float], count: int) -> list[float]:
    return [float(x) for x in np.geomspace(*ends, count)]


def _plans(state: State, alphas: list[float]) -> list[Protocol]:
    """The protocol at other numbers of samples, split as on the page."""
    plan = state.protocol
    share = plan.alpha0 / plan.alpha
    return [plan.changed(alpha0=share * a, alpha1=(1.0 - share) * a) for a in alphas]


def _quick_curves(state: State, x: list[float], plans: list[Protocol]) -> Curves:
    """Sketches of the three models side by side, each from its easy end."""

    def solve(model: str) -> list[float]:
        return sketch.errors(state.sparse_task, plans[::-1], model, patience=PATIENCE)[::-1]

    return dict(zip(MODELS, [(x, found) for found in _pool.map(solve, MODELS)], strict=True))


def _exact_curves(
    state: State, axis: str, x: list[float], plans: list[Protocol], **options: Any
) -> tuple[Curves, list[dict[str, Any]]]:
    """The library's own curves, and the rows behind them."""
    from onehead import sparse  # noqa: PLC0415

    names = ("test_error", "train_loss", "train_error", "cos_query", "sharpness")
    curves, rows = {}, []
    for model in MODELS:
        own: list[dict[str, Any]] = []
        for at, plan in zip(x, plans, strict=True):
            pause()
            own.append({axis: at, "model": model})
            try:
                found = sparse.predict(state.sparse_task, plan, model=model, **options)
                own[-1] |= {name: getattr(found, name) for name in names} | {"status": found.certificate.status}
            except OneheadError as error:
                own[-1] |= {"test_error": None, "status": f"failed: {error}"}
        curves[model] = (x, _values(own, "test_error"))
        rows += own
    return curves, rows


def _values(rows: list[dict[str, Any]], name: str) -> list[float]:
    """A column, not a number where there is no answer."""
    return [np.nan if row[name] is None else row[name] for row in rows]


def _lines(curves: Curves, *, smooth: bool) -> list[Figure]:
    return [
        line(x, y, model, colour=MODELS[model][0], dash=MODELS[model][1], smooth=smooth)
        for model, (x, y) in curves.items()
    ]


def _python(state: State) -> str:
    return python("sparse", {"task": state.sparse_task, "plan": state.protocol})


# --- test error of the three models


def _error_sketch(state: State) -> Picture:
    alphas = _space(RATIOS, QUICK)
    curves = _quick_curves(state, alphas, _plans(state, alphas))
    caption = "Sketch on few points; the exact curves follow when the knobs rest."
    return Picture(figure=_error_figure(state, curves, smooth=True), exact=False, caption=caption)


def _error_picture(state: State) -> Picture:
    alphas = _space(RATIOS, EXACT)
    curves, rows = _exact_curves(state, "alpha", alphas, _plans(state, alphas))
    caption = solved(len(rows), sum(row["test_error"] is None for row in rows))
    return Picture(figure=_error_figure(state, curves, smooth=False), exact=True, caption=caption, rows=tuple(rows))


def _error_figure(state: State, curves: Curves, *, smooth: bool) -> Figure:
    data = _lines(curves, smooth=smooth)
    drawn = figure(data, x="samples over dimension, α₀ + α₁", y="test error", log_x=True, log_y=True)
    marker_line(drawn["layout"], state.protocol.alpha)
    return drawn


def _error_report(state: State) -> Report:
    from onehead import sparse  # noqa: PLC0415

    shown, badges = [], []
    for model in MODELS:
        try:
            found = sparse.predict(state.sparse_task, state.protocol, model=model)
        except OneheadError as error:
            badges.append(failed(error).badge)
            shown.append(Number(f"Test error, {model}", "", "–", "no answer"))
            continue
        badges.append(badge_of(found.certificate))
        shown.append(
            Number(f"Test error, {model}", "", show(found.test_error), f"training error {show(found.train_error)}")
        )
        if model == "attention":
            shown += numbers(found, *QUERY)
    worst = max(badges, key=lambda badge: ("converged", "conjecture", "approximate", "failed").index(badge.level))
    return Report(badge=worst, numbers=tuple(shown))


def _error_code(state: State) -> Code:
    text = _python(state) + (
        '\nfor model in ("attention", "pooled", "vectorised"):\n'
        "    print(model, oh.sparse.predict(task, plan, model=model).test_error)\n"
    )
    predict, (low, high) = f"onehead sparse predict {flags(state)} --model all", RATIOS
    return Code(text, f"{predict} --json\n{predict} --alpha log:{low}:{high}:{EXACT} --json")


# --- alignment of the query


def _align_picture(state: State) -> Picture:
    from onehead import sparse  # noqa: PLC0415

    ratios = _space((0.05, 50.0), 61)
    found = [sparse.align(state.sparse_task, state.protocol.changed(alpha0=a)) for a in ratios]
    data = [
        line(ratios, [f.cos_query for f in found], "query, cos(q, ξ)"),
        line(ratios, [f.cos_readout for f in found], "first readout, cos(w, ξ)", colour="@second", dash="dash"),
    ]
    drawn = figure(
        data,
        x="query samples over dimension, α₀",
        y="cosine with the signal",
        log_x=True,
        yaxis={"range": [-1.05, 1.05]},
    )
    marker_line(drawn["layout"], state["alpha0"])
    names = ("cos_query", "cos_readout", "norm_query", "norm_readout", "sharpness")
    rows = tuple({"alpha0": a} | {name: getattr(f, name) for name in names} for a, f in zip(ratios, found, strict=True))
    return Picture(figure=drawn, exact=True, caption="Closed form: every point is exact.", rows=rows)


def _align_report(state: State) -> Report:
    from onehead import sparse  # noqa: PLC0415

    return answer(
        lambda: sparse.align(state.sparse_task, state.protocol),
        QUERY[0],
        ("Cosine of the readout", "cos", "cos_readout", "after the first step"),
        ("Length of the query", "|q|", "norm_query", ""),
        ("Length of the readout", "|w|", "norm_readout", ""),
        QUERY[1],
        ("Misalignment", "C", "misalignment", "|cos| = 1 - C/α₀ at large α₀"),
        ("Critical bias rate", "η_b", "critical_bias_rate", "where the query turns round, small η_w"),
    )


def _align_code(state: State) -> Code:
    text = _python(state) + "\nfound = oh.sparse.align(task, plan)\nprint(found.cos_query, found.sharpness)\n"
    return Code(text, f"onehead sparse align {flags(state)} --json")


# --- capacity


def _capacity_sketch(state: State) -> Picture:
    betas = _space(BETAS, 6)
    plans = [state.protocol.changed(beta=b) for b in betas]
    attention = sketch.capacities(state.sparse_task, plans, patience=PATIENCE)
    caption = "Sketch on few points; the exact values follow when the knobs rest."
    drawn = _capacity_figure(state, betas, attention, *sketch.linear_capacities(state.sparse_task), smooth=True)
    return Picture(figure=drawn, exact=False, caption=caption)


def _capacity_picture(state: State) -> Picture:
    from onehead import sparse  # noqa: PLC0415

    betas = _space(BETAS, 10)
    names = ("attention", "pooled", "vectorised", "cos_query", "sharpness")
    rows: list[dict[str, Any]] = []
    pooled = vectorised = np.nan
    for beta in betas:
        pause()
        try:
            found = sparse.capacity(state.sparse_task, state.protocol.changed(beta=beta))
            rows.append({"beta": beta} | {name: getattr(found, name) for name in names})
            pooled, vectorised = found.pooled, found.vectorised
        except OneheadError as error:
            rows.append({"beta": beta, "attention": None, "status": f"failed: {error}"})
    drawn = _capacity_figure(state, betas, _values(rows, "attention"), pooled, vectorised, smooth=False)
    caption = "Largest separable number of samples over dimension."
    return Picture(figure=drawn, exact=True, caption=caption, rows=tuple(rows))


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
    if BETAS[0] <= state["sparse_beta"] <= BETAS[1]:
        marker_line(drawn["layout"], state["sparse_beta"])
    return drawn


def _capacity_report(state: State) -> Report:
    from onehead import sparse  # noqa: PLC0415

    return answer(
        lambda: sparse.capacity(state.sparse_task, state.protocol),
        ("Capacity, attention", "α₁", "attention", "samples for the readout over dimension"),
        ("Capacity, pooled", "α", "pooled", "all samples over dimension"),
        ("Capacity, vectorised", "α", "vectorised", "length times pooled"),
        *QUERY,
    )


def _capacity_code(state: State) -> Code:
    text = _python(state) + (
        "\nfound = oh.sparse.capacity(task, plan)\nprint(found.attention, found.pooled, found.vectorised)\n"
    )
    return Code(text, f"onehead sparse capacity {flags(state)} --json")


# --- tuning


def _ridge_plans(state: State, count: int) -> tuple[list[float], list[Protocol]]:
    ridges = _space(RIDGES, count)
    return ridges, [state.protocol.changed(ridge=r) for r in ridges]


def _tuning_sketch(state: State) -> Picture:
    curves = _quick_curves(state, *_ridge_plans(state, QUICK - 1))
    caption = "Test error against the ridge, everything else as on the knobs; the search over all four follows."
    return Picture(figure=_tuning_figure(state, curves, None, smooth=True), exact=False, caption=caption)


def _tuning_picture(state: State) -> Picture:
    from onehead import sparse  # noqa: PLC0415

    curves, rows = _exact_curves(state, "ridge", *_ridge_plans(state, 13), accuracy=1e-3)
    try:
        best = sparse.tune(state.sparse_task, state.protocol, progress=pause)
    except OneheadError as error:
        drawn = _tuning_figure(state, curves, None, smooth=False)
        return Picture(figure=drawn, exact=True, caption=str(error), rows=tuple(rows))
    split = Number("Split", "α₀ : α₁", f"{show(best.alpha0)} : {show(best.alpha1)}", "same number of samples in all")
    first, *rest = numbers(best, *TUNED)
    return Picture(
        figure=_tuning_figure(state, curves, best, smooth=False),
        exact=True,
        caption="The star is the best of all four hyperparameters.",
        numbers=(first, split, *rest),
        rows=tuple(rows),
    )


def _tuning_figure(state: State, curves: Curves, best: Any, *, smooth: bool) -> Figure:
    data = _lines(curves, smooth=smooth)
    if best is not None:
        data.append(points([max(best.ridge, RIDGES[0])], [best.test_error], "attention, tuned", symbol="star", size=14))
    drawn = figure(data, x="ridge λ of the readout", y="test error", log_x=True)
    if RIDGES[0] <= state["ridge"] <= RIDGES[1]:
        marker_line(drawn["layout"], state["ridge"])
    return drawn


def _tuning_report(state: State) -> Report:
    found = _error_report(state)
    return Report(badge=found.badge, numbers=found.numbers[:1])


def _tuning_code(state: State) -> Code:
    text = _python(state) + (
        "\nbest = oh.sparse.tune(task, plan)\nprint(best.test_error, best.alpha0, best.beta, best.eta_b, best.ridge)\n"
    )
    return Code(text, f"onehead sparse tune {flags(state)} --json")


VIEW = View(
    name="sparse",
    title="Sparse tokens",
    about="A weak signal in a few random tokens: when does attention beat a linear classifier?",
    formula=r"X=\theta\,v\,\xi^\top+Z,\quad |v|_0=R\ \text{of}\ L,\qquad "
    r"f(X)=\big\langle w,\ X^\top\mathrm{softmax}(\beta X q)\big\rangle+b",
    problems=(Task, Protocol),
    own=("sparse_panel",),
    panel="sparse_panel",
    panels={
        "error": Panel(_error_sketch, _error_report, _error_picture, _error_code),
        "alignment": Panel(_align_picture, _align_report, _align_picture, _align_code),
        "capacity": Panel(_capacity_sketch, _capacity_report, _capacity_picture, _capacity_code),
        "tuning": Panel(_tuning_sketch, _tuning_report, _tuning_picture, _tuning_code),
    },
)
