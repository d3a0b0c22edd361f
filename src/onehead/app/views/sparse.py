"""Sparse tokens: attention against pooled and vectorised classifiers; alignment, capacity and tuning."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from onehead.app.drawing import Figure, figure, line, marker_line, points, show
from onehead.app.pause import pause
from onehead.app.state import State
from onehead.app.views.base import Code, Number, Picture, Report, View, badge_of, failed
from onehead.app.views.words import sparse_flags, sparse_python
from onehead.errors import OneheadError
from onehead.sparse.solve import sketch

__all__ = ["VIEW", "alphas_of"]

MODELS = {"attention": ("@theory", "solid"), "pooled": ("@second", "dash"), "vectorised": ("@third", "dot")}
RATIOS = (0.25, 16.0)
QUICK, EXACT = 8, 15
BETAS = (0.5, 20.0)
RIDGES = (1e-5, 10.0)
PATIENCE = 0.12


class Panel(NamedTuple):
    """One of the four pictures of this view."""

    sketch: Callable[[State], Picture]
    report: Callable[[State], Report]
    picture: Callable[[State], Picture]
    code: Callable[[State], Code]


def alphas_of(count: int = EXACT) -> list[float]:
    """All samples over dimension along the axis."""
    return [float(a) for a in np.geomspace(*RATIOS, count)]


def _plans(state: State, alphas: list[float]) -> list[Any]:
    """The protocol at other numbers of samples, split as on the page."""
    plan = state.protocol
    share = plan.alpha0 / plan.alpha
    return [plan.changed(alpha0=share * a, alpha1=(1.0 - share) * a) for a in alphas]


def _quick_curves(state: State, x: list[float], plans: list[Any]) -> dict[str, tuple[list[float], list[float]]]:
    """Sketches of the three models side by side, each from its easy end."""

    def solve(model: str) -> list[float]:
        return sketch.errors(state.sparse_task, plans[::-1], model, patience=PATIENCE)[::-1]

    return dict(zip(MODELS, [(x, found) for found in _pool.map(solve, MODELS)], strict=True))


_pool = ThreadPoolExecutor(4, thread_name_prefix="sketch")  # kernels release the interpreter lock


# --- test error of the three models


def _error_sketch(state: State) -> Picture:
    alphas = alphas_of(QUICK)
    curves = _quick_curves(state, alphas, _plans(state, alphas))
    caption = "Sketch on few points; the exact curves follow when the knobs rest."
    return Picture(figure=_error_figure(state, curves, smooth=True), exact=False, caption=caption)


def _error_picture(state: State) -> Picture:
    from onehead import sparse  # noqa: PLC0415

    alphas = alphas_of()
    curves, rows, lost = {}, [], 0
    for model in MODELS:
        values = []
        for alpha, plan in zip(alphas, _plans(state, alphas), strict=True):
            pause()
            row: dict[str, Any] = {"alpha": alpha, "model": model}
            try:
                found = sparse.predict(state.sparse_task, plan, model=model)
                names = ("test_error", "train_loss", "train_error", "cos_query", "sharpness")
                row |= {name: getattr(found, name) for name in names} | {"status": found.certificate.status}
            except OneheadError as error:
                row |= {"test_error": None, "status": f"failed: {error}"}
                lost += 1
            values.append(np.nan if row["test_error"] is None else row["test_error"])
            rows.append(row)
        curves[model] = (alphas, values)
    caption = f"{len(rows) - lost} exact points" + (f"; {lost} could not be solved and are left out." if lost else ".")
    return Picture(figure=_error_figure(state, curves, smooth=False), exact=True, caption=caption, rows=tuple(rows))


def _error_figure(state: State, curves: dict[str, Any], *, smooth: bool) -> Figure:
    data = [
        line(x, y, model, colour=MODELS[model][0], dash=MODELS[model][1], smooth=smooth)
        for model, (x, y) in curves.items()
    ]
    drawn = figure(data, x="samples over dimension, α₀ + α₁", y="test error", log_x=True, log_y=True)
    marker_line(drawn["layout"], state.protocol.alpha)
    return drawn


def _error_report(state: State) -> Report:
    from onehead import sparse  # noqa: PLC0415

    numbers, badges = [], []
    for model in MODELS:
        try:
            found = sparse.predict(state.sparse_task, state.protocol, model=model)
        except OneheadError as error:
            badges.append(failed(error).badge)
            numbers.append(Number(f"Test error, {model}", "", "–", "no answer"))
            continue
        badges.append(badge_of(found.certificate))
        numbers.append(
            Number(f"Test error, {model}", "", show(found.test_error), f"training error {show(found.train_error)}")
        )
        if model == "attention":
            numbers.append(Number("Cosine of the query", "cos", show(found.cos_query), "with the signal"))
            numbers.append(Number("Sharpness", "β|q|", show(found.sharpness), "of the attention"))
    worst = max(badges, key=lambda badge: ("converged", "conjecture", "approximate", "failed").index(badge.level))
    return Report(badge=worst, numbers=tuple(numbers))


def _error_code(state: State) -> Code:
    python = sparse_python(state) + (
        '\nfor model in ("attention", "pooled", "vectorised"):\n'
        "    print(model, oh.sparse.predict(task, plan, model=model).test_error)\n"
    )
    low, high = RATIOS
    shell = (
        f"onehead sparse predict {sparse_flags(state)} --model all --json\n"
        f"onehead sparse predict {sparse_flags(state)} --model all --alpha log:{low}:{high}:{EXACT} --json"
    )
    return Code(python, shell)


# --- alignment of the query


def _align_curve(state: State) -> tuple[list[float], list[Any]]:
    from onehead import sparse  # noqa: PLC0415

    ratios = [float(a) for a in np.geomspace(0.05, 50.0, 61)]
    return ratios, [sparse.align(state.sparse_task, state.protocol.changed(alpha0=a)) for a in ratios]


def _align_picture(state: State) -> Picture:
    ratios, found = _align_curve(state)
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

    try:
        found = sparse.align(state.sparse_task, state.protocol)
    except OneheadError as error:
        return failed(error)
    numbers = (
        Number("Cosine of the query", "cos", show(found.cos_query), "with the signal"),
        Number("Cosine of the readout", "cos", show(found.cos_readout), "after the first step"),
        Number("Length of the query", "|q|", show(found.norm_query), ""),
        Number("Length of the readout", "|w|", show(found.norm_readout), ""),
        Number("Sharpness", "β|q|", show(found.sharpness), "of the attention"),
        Number("Misalignment", "C", show(found.misalignment), "|cos| = 1 - C/α₀ at large α₀"),
        Number("Critical bias rate", "η_b", show(found.critical_bias_rate), "where the query turns round, small η_w"),
    )
    return Report(badge=badge_of(found.certificate), numbers=numbers)


def _align_code(state: State) -> Code:
    python = sparse_python(state) + "\nfound = oh.sparse.align(task, plan)\nprint(found.cos_query, found.sharpness)\n"
    return Code(python, f"onehead sparse align {sparse_flags(state)} --json")


# --- capacity


def _betas(count: int) -> list[float]:
    return [float(b) for b in np.geomspace(*BETAS, count)]


def _capacity_sketch(state: State) -> Picture:
    from onehead.sparse.equations.features import pooled_features  # noqa: PLC0415
    from onehead.sparse.solve.separability import separable_ratio  # noqa: PLC0415

    betas = _betas(6)
    plans = [state.protocol.changed(beta=b) for b in betas]
    attention = sketch.capacities(state.sparse_task, plans, patience=PATIENCE)
    try:
        pooled = separable_ratio(pooled_features(state.sparse_task))
    except OneheadError:
        pooled = np.nan
    caption = "Sketch on few points; the exact values follow when the knobs rest."
    return Picture(figure=_capacity_figure(state, betas, attention, pooled, smooth=True), exact=False, caption=caption)


def _capacity_picture(state: State) -> Picture:
    from onehead import sparse  # noqa: PLC0415

    betas, rows = _betas(10), []
    pooled = np.nan
    for beta in betas:
        pause()
        row: dict[str, Any] = {"beta": beta}
        try:
            found = sparse.capacity(state.sparse_task, state.protocol.changed(beta=beta))
            row |= {
                name: getattr(found, name) for name in ("attention", "pooled", "vectorised", "cos_query", "sharpness")
            }
            pooled = found.pooled
        except OneheadError as error:
            row |= {"attention": None, "status": f"failed: {error}"}
        rows.append(row)
    attention = [np.nan if row["attention"] is None else row["attention"] for row in rows]
    drawn = _capacity_figure(state, betas, attention, pooled, smooth=False)
    return Picture(
        figure=drawn, exact=True, caption="Largest separable number of samples over dimension.", rows=tuple(rows)
    )


def _capacity_figure(
    state: State, betas: list[float], attention: list[float], pooled: float, *, smooth: bool
) -> Figure:
    ends, length = [betas[0], betas[-1]], state["length"]
    data = [
        line(betas, attention, "attention (α₁)", smooth=smooth),
        line(ends, [pooled] * 2, "pooled (α)", colour="@second", dash="dash"),
        line(ends, [length * pooled] * 2, "vectorised (α)", colour="@third", dash="dot"),
    ]
    drawn = figure(data, x="inverse temperature β", y="capacity, samples over dimension", log_x=True, log_y=True)
    if BETAS[0] <= state["sparse_beta"] <= BETAS[1]:
        marker_line(drawn["layout"], state["sparse_beta"])
    return drawn


def _capacity_report(state: State) -> Report:
    from onehead import sparse  # noqa: PLC0415

    try:
        found = sparse.capacity(state.sparse_task, state.protocol)
    except OneheadError as error:
        return failed(error)
    numbers = (
        Number("Capacity, attention", "α₁", show(found.attention), "samples for the readout over dimension"),
        Number("Capacity, pooled", "α", show(found.pooled), "all samples over dimension"),
        Number("Capacity, vectorised", "α", show(found.vectorised), "length times pooled"),
        Number("Cosine of the query", "cos", show(found.cos_query), "with the signal"),
        Number("Sharpness", "β|q|", show(found.sharpness), "of the attention"),
    )
    return Report(badge=badge_of(found.certificate), numbers=numbers)


def _capacity_code(state: State) -> Code:
    python = sparse_python(state) + (
        "\nfound = oh.sparse.capacity(task, plan)\nprint(found.attention, found.pooled, found.vectorised)\n"
    )
    return Code(python, f"onehead sparse capacity {sparse_flags(state)} --json")


# --- tuning


def _ridges(count: int) -> list[float]:
    return [float(r) for r in np.geomspace(*RIDGES, count)]


def _tuning_sketch(state: State) -> Picture:
    ridges = _ridges(QUICK - 1)
    curves = _quick_curves(state, ridges, [state.protocol.changed(ridge=r) for r in ridges])
    caption = "Test error against the ridge, everything else as on the knobs; the search over all four follows."
    return Picture(figure=_tuning_figure(state, curves, None, smooth=True), exact=False, caption=caption)


def _tuning_picture(state: State) -> Picture:
    from onehead import sparse  # noqa: PLC0415

    ridges = _ridges(13)
    curves, rows = {}, []
    for model in MODELS:
        values = []
        for ridge in ridges:
            pause()
            try:
                plan = state.protocol.changed(ridge=ridge)
                error = sparse.predict(state.sparse_task, plan, model=model, accuracy=1e-3).test_error
            except OneheadError:
                error = np.nan
            values.append(error)
            rows.append({"model": model, "ridge": ridge, "test_error": error if np.isfinite(error) else None})
        curves[model] = (ridges, values)
    try:
        best = sparse.tune(state.sparse_task, state.protocol, progress=pause)
    except OneheadError as error:
        drawn = _tuning_figure(state, curves, None, smooth=False)
        return Picture(figure=drawn, exact=True, caption=str(error), rows=tuple(rows))
    numbers = (
        Number("Tuned test error", "", show(best.test_error), "best split, bias rate, temperature and ridge"),
        Number("Split", "α₀ : α₁", f"{show(best.alpha0)} : {show(best.alpha1)}", "same number of samples in all"),
        Number("Temperature", "β", show(best.beta), "best inverse temperature"),
        Number("Bias rate", "η_b", show(best.eta_b), "best"),
        Number("Query rate", "η_q", show(best.eta_q), "its sign may have been flipped"),
        Number("Ridge", "λ", show(best.ridge), "best"),
        Number("Pooled, best ridge", "", show(best.pooled_test_error), "test error"),
        Number("Vectorised, best ridge", "", show(best.vectorised_test_error), "test error"),
    )
    drawn = _tuning_figure(state, curves, best, smooth=False)
    return Picture(
        figure=drawn,
        exact=True,
        caption="The star is the best of all four hyperparameters.",
        numbers=numbers,
        rows=tuple(rows),
    )


def _tuning_figure(state: State, curves: dict[str, Any], best: Any, *, smooth: bool) -> Figure:
    data = [
        line(x, y, model, colour=MODELS[model][0], dash=MODELS[model][1], smooth=smooth)
        for model, (x, y) in curves.items()
    ]
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
    python = sparse_python(state) + (
        "\nbest = oh.sparse.tune(task, plan)\nprint(best.test_error, best.alpha0, best.beta, best.eta_b, best.ridge)\n"
    )
    return Code(python, f"onehead sparse tune {sparse_flags(state)} --json")


PANELS = {
    "error": Panel(_error_sketch, _error_report, _error_picture, _error_code),
    "alignment": Panel(_align_picture, _align_report, _align_picture, _align_code),
    "capacity": Panel(_capacity_sketch, _capacity_report, _capacity_picture, _capacity_code),
    "tuning": Panel(_tuning_sketch, _tuning_report, _tuning_picture, _tuning_code),
}


def _panel(state: State) -> Panel:
    return PANELS[state["sparse_panel"]]


VIEW = View(
    name="sparse",
    title="Sparse tokens",
    about="A weak signal in a few random tokens: when does attention beat a linear classifier?",
    formula=r"X=\theta\,v\,\xi^\top+Z,\quad |v|_0=R\ \text{of}\ L,\qquad "
    r"f(X)=\big\langle w,\ X^\top\mathrm{softmax}(\beta X q)\big\rangle+b",
    knobs=(
        "sparse_panel",
        "alpha0",
        "alpha1",
        "sparse_beta",
        "ridge",
        "strength",
        "length",
        "signal_tokens",
        "positive_rate",
        "eta_w",
        "eta_b",
        "eta_q",
        "sparse_loss",
    ),
    sketch=lambda state: _panel(state).sketch(state),
    report=lambda state: _panel(state).report(state),
    picture=lambda state: _panel(state).picture(state),
    code=lambda state: _panel(state).code(state),
)
