"""Learning curve: errors, training loss and rank against the sample ratio, thresholds marked."""

from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np

from onehead.aim.solve.sketch import PATIENCE, sketch_marks, sketch_ratios
from onehead.app.drawing import Figure, figure, line, mark, marker_line, show
from onehead.app.pause import pause
from onehead.app.state import State
from onehead.app.views.base import Code, Number, Picture, Report, View, badge_of, failed
from onehead.app.views.words import aim_flags, aim_python
from onehead.errors import OneheadError

__all__ = ["VIEW", "alphas_of", "meanings"]

QUICK_POINTS = {2: 9, 3: 6}  # of a sketch, by tokens; five from T = 4 on
POINTS = {2: 31, 3: 15}
MANY_TOKENS = (5, 9)
TUNED = np.geomspace(1e-4, 3.0, 14)  # weight decays among which the best is looked for, then refined by a parabola
TUNED_POINTS = 9
MARKS = {
    "emergence": "emergence",
    "interpolation": "interpolation",
    "bayes_optimal": "Bayes-optimal recovery",
    "direct": "direct interpolation",
    "recovery": "perfect recovery",
}

_two = ThreadPoolExecutor(4, thread_name_prefix="sketch")  # kernels release the interpreter lock


def alphas_of(state: State) -> list[float]:
    """The sample ratios of the exact curve."""
    count = POINTS.get(state["tokens"], MANY_TOKENS[1])
    return [float(a) for a in np.geomspace(state["alpha_from"], state["alpha_to"], count)]


def _other(state: State) -> Any:
    return state.learner.changed(param="direct" if state["param"] == "factorised" else "factorised")


@lru_cache(maxsize=512)
def _thresholds(task: Any, learner: Any) -> Any:
    """Thresholds of a problem, or None where there are none."""
    from onehead import aim  # noqa: PLC0415

    try:
        return aim.thresholds(task, learner)
    except OneheadError:
        return None


def sketch(state: State) -> Picture:
    """All curves at once, for the eye."""
    count = QUICK_POINTS.get(state["tokens"], MANY_TOKENS[0])
    patience = PATIENCE if state["tokens"] == 2 else 2.0 * PATIENCE
    alphas = [float(a) for a in np.geomspace(state["alpha_from"], state["alpha_to"], count)]
    head = _two.submit(sketch_ratios, state.task, state.learner, alphas, patience=patience)
    other = None
    if state["direct"]:
        few = [float(a) for a in np.geomspace(alphas[0], alphas[-1], 6)]
        other = _two.submit(sketch_ratios, state.task, _other(state), few, full=False, patience=patience)
    marks = sketch_marks(state.task, state.learner)
    drawn = head.result()
    own = {"alpha": drawn.x} | {
        name: drawn.column(name) for name in ("test_error", "test_error_clean", "train_loss", "rank")
    }
    beside = {"alpha": other.result().x, "test_error": other.result().column("test_error")} if other else None
    return Picture(figure=_draw(state, own, beside, None, marks, smooth=True), exact=False, caption=CAPTION)


CAPTION = (
    "Sketch on a coarse rule; the exact curve follows when the knobs rest. The rank is the share of eigenvalues of S "
    "that are not zero."
)


def picture(state: State) -> Picture:
    """The library's own curve."""
    from onehead import aim  # noqa: PLC0415

    alphas = alphas_of(state)
    found = aim.curve(state.task, state.learner, alphas, progress=pause)
    names = ("alpha", "test_error", "test_error_clean", "train_loss", "rank")
    own = {name: [float(v) for v in found.column(name)] for name in names}
    rows = found.to_rows()
    beside = best = None
    if state["direct"]:
        there = aim.curve(state.task, _other(state), alphas[::2], progress=pause)
        beside = {name: [float(v) for v in there.column(name)] for name in ("alpha", "test_error")}
        rows += there.to_rows()
    if state["best"]:
        best = _best(state)
        rows += [{"alpha": a, "weight_decay": w, "test_error": e, "status": "best weight decay"} for a, w, e in best]
    missing = len(found.failures)
    caption = f"{len(found) - missing} exact points" + (
        f"; {missing} could not be solved and are left out." if missing else "."
    )
    drawn = _draw(state, own, beside, best, _thresholds(state.task, state.learner), smooth=False)
    return Picture(figure=drawn, exact=True, caption=caption, rows=tuple(_flat(row) for row in rows))


def _best(state: State) -> list[tuple[float, float, float]]:
    """(α, best λ, exact test error there): sketches over a grid of λ, a parabola through the lowest three.

    The test error is flat at its minimum, so that an error of a few per cent in λ does not show in it.
    """
    from onehead import aim  # noqa: PLC0415

    alphas = [float(a) for a in np.geomspace(state["alpha_from"], state["alpha_to"], TUNED_POINTS)]
    table = np.full((len(TUNED), len(alphas)), np.inf)
    for i, decay in enumerate(TUNED[::-1]):
        pause()
        head = state.learner.changed(weight_decay=float(decay))
        for dot in sketch_ratios(state.task, head, alphas, full=False, patience=1.0).dots:
            table[i, alphas.index(dot.x)] = dot.test_error
    logs, found = np.log(TUNED[::-1]), []
    for j, alpha in enumerate(alphas):
        k = int(np.argmin(table[:, j]))
        best = float(logs[k])
        if 0 < k < len(logs) - 1 and np.isfinite(table[k - 1 : k + 2, j]).all():
            low, mid, high = table[k - 1 : k + 2, j]
            bend = low - 2.0 * mid + high
            best += 0.5 * (low - high) / bend * float(logs[k + 1] - logs[k]) if bend > 0.0 else 0.0
        decay = float(np.exp(best))
        try:
            error = aim.predict(state.task, state.learner.changed(weight_decay=decay), alpha).test_error
        except OneheadError:
            continue
        found.append((alpha, decay, error))
    return found


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """A row with the parameters that tell two curves apart."""
    kept = {key: value for key, value in row.items() if not isinstance(value, (dict, list))}
    head = row.get("learner")
    return {**({"param": head["param"], "weight_decay": head["weight_decay"]} if head else {}), **kept}


def _draw(state: State, own: Any, beside: Any, best: Any, marks: Any, *, smooth: bool) -> Figure:
    """Errors above, the rank below, on one axis."""
    names = {"factorised": "factorised", "direct": "direct"}
    mine = names[state["param"]]
    theirs = "direct" if mine == "factorised" else "factorised"
    alpha = np.array(own["alpha"])
    per_sample = (np.array(own["train_loss"]) / alpha).tolist() if alpha.size else []
    data = [
        line(own["alpha"], own["test_error"], f"test error ({mine})", smooth=smooth),
        line(own["alpha"], own["test_error_clean"], "clean labels", dash="dash", width=1.6, smooth=smooth),
        line(
            own["alpha"], per_sample, "objective per sample", colour="@second", dash="dashdot", width=1.6, smooth=smooth
        ),
    ]
    if beside is not None:
        data.append(
            line(
                beside["alpha"],
                beside["test_error"],
                f"test error ({theirs})",
                colour="@third",
                dash="dot",
                smooth=smooth,
            )
        )
    if best:
        data.append(
            line([a for a, _, _ in best], [e for _, _, e in best], "best λ at every α", colour="@grey", dash="longdash")
        )
    data.append(
        line(
            own["alpha"],
            own["rank"],
            "rank",
            colour="@theory",
            width=1.8,
            panel="y2",
            showlegend=False,
            fill="tozeroy",
            fillcolor="@soft",
        )
    )
    tops = [e for e in own["test_error"] if e is not None and np.isfinite(e)] + [
        e for e in per_sample if np.isfinite(e)
    ]
    top = max(tops, default=1.0)
    if beside is not None:
        top = max(top, min(2.5 * top, max((e for e in beside["test_error"] if np.isfinite(e)), default=0.0)))
    drawn = figure(
        data,
        x="sample ratio α = n/d²",
        y="error",
        log_x=True,
        xaxis={"range": [np.log10(state["alpha_from"]), np.log10(state["alpha_to"])], "anchor": "y2"},
        yaxis={"domain": [0.36, 1.0], "range": [0.0, 1.12 * top]},
        yaxis2={
            "domain": [0.0, 0.26],
            "range": [0.0, 1.05],
            "title": {"text": "rank", "standoff": 6},
            "tickvals": [0, 0.5, 1],
        },
    )
    if marks is not None:
        inside = sorted((float(getattr(marks, name)), text) for name, text in MARKS.items())
        inside = [(a, text) for a, text in inside if state["alpha_from"] <= a <= state["alpha_to"]]
        for row, (a, text) in enumerate(inside):
            mark(drawn["layout"], a, text, row=row)
    if state["alpha_from"] <= state["alpha"] <= state["alpha_to"]:
        marker_line(drawn["layout"], state["alpha"])
    return drawn


def meanings(point: Any) -> tuple[Number, ...]:
    """The numbers of a prediction."""
    return (
        Number("Test error", "", show(point.test_error), "on fresh samples, labels with noise"),
        Number("Clean test error", "", show(point.test_error_clean), "labels without noise"),
        Number("Excess error", "", show(point.excess_error), "above infinitely many samples"),
        Number("Training loss", "", show(point.train_loss), "objective over d² at the minimum"),
        Number("Rank", "", show(point.rank), "share of eigenvalues of S that are not zero"),
        Number("Size", "q", show(point.q), "Tr S²/d"),
        Number("Overlap", "m", show(point.m), "Tr S S*/d"),
        Number("Reaction", "Σ", show(point.sigma), "of the logits to one sample"),
    )


def report(state: State) -> Report:
    """The exact numbers at the marked point, and the thresholds."""
    from onehead import aim  # noqa: PLC0415

    marks = _thresholds(state.task, state.learner)
    found: tuple[Number, ...] = ()
    if marks is not None:
        found = tuple(
            Number(text[:1].upper() + text[1:], "α", show(float(getattr(marks, name)))) for name, text in MARKS.items()
        )
    try:
        point = aim.predict(state.task, state.learner, state["alpha"])
    except OneheadError as error:
        return Report(badge=failed(error).badge, numbers=found)
    return Report(badge=badge_of(point.certificate), numbers=(*meanings(point), *found))


def code(state: State) -> Code:
    """The marked point and the curve, without the explorer."""
    alphas = alphas_of(state)
    space = f"np.geomspace({alphas[0]!r}, {alphas[-1]!r}, {len(alphas)})"
    python = aim_python(state, numpy=True) + (
        f"\npoint = oh.aim.predict(task, head, alpha={state['alpha']!r})\n"
        "print(point.test_error, point.rank, point.status)\n"
        f"\ncurve = oh.aim.curve(task, head, alphas={space})\n"
        'print(curve.column("test_error"))\n'
        "\nmarks = oh.aim.thresholds(task, head)\n"
        "print(marks.interpolation, marks.emergence)\n"
    )
    if state["direct"]:
        word = "direct" if state["param"] == "factorised" else "factorised"
        python += f'\nother = oh.aim.curve(task, head.changed(param="{word}"), alphas={space}[::2])\n'
    if state["best"]:
        python += "\nbest = [oh.aim.tune(task, head, alpha=a) for a in (0.1, 0.5, 2.0)]   # seconds per point\n"
    shell = (
        f"onehead aim predict {aim_flags(state)} --alpha {state['alpha']!r} --json\n"
        f"onehead aim curve {aim_flags(state)} --alphas log:{alphas[0]!r}:{alphas[-1]!r}:{len(alphas)} --json\n"
        f"onehead aim thresholds {aim_flags(state)} --json"
    )
    return Code(python, shell)


VIEW = View(
    name="curve",
    title="Learning curve",
    about="How the error of a trained attention head falls as samples come in, without training it.",
    formula=r"\min_W\ \sum_{\mu=1}^{n}\big|\mathrm{softmax}(\beta\,h^\mu(S))-y^\mu\big|^2+\lambda d\,\mathrm{Tr}\,S,"
    r"\qquad S=\frac{W^\top W}{\sqrt{md}},\quad n=\alpha d^2",
    knobs=(
        "alpha",
        "weight_decay",
        "kappa0",
        "noise",
        "tokens",
        "width",
        "beta",
        "beta0",
        "loss",
        "param",
        "branch",
        "direct",
        "best",
        "alpha_from",
        "alpha_to",
        "train_dim",
        "train_points",
        "train_seeds",
    ),
    sketch=sketch,
    report=report,
    picture=picture,
    code=code,
    trains=True,
)
