"""Checkpoint: a map of verdicts on the heads of an uploaded file, and the spectrum of one head with fitted laws."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from onehead import weights
from onehead.app.drawing import Figure, figure, format_value, heatmap, line, points
from onehead.app.knobs import Checkpoint
from onehead.app.refusals import as_sentence
from onehead.app.server.workers import stop_if_superseded
from onehead.app.state import State
from onehead.app.views.base import Badge, Code, Line, Number, Panel, Picture, Report, View, numbers, scalar_columns
from onehead.errors import OneheadError

MAX_HEADS = 4096
TIED_SHARE = 0.9  # symmetric share of the bulk above which a head counts as tied
VERDICTS = weights.VERDICTS[::-1]  # in the order of the colours, noise first
CAUTION = "Real tokens are not Gaussian: a law that fits describes a shape and proves no mechanism."
LINES: tuple[Line, ...] = (
    ("Verdict", "", "verdict", "low rank, features, deformed or noise: the first that holds"),
    ("False alarms", "", "false_alarm", "share of random heads of this shape with a verdict other than noise"),
    ("Rank", "", "rank", "share of the d singular values that are not zero"),
    ("Effective rank", "", "effective_rank_entropy", "exponential of the entropy"),
    ("Bulk edge", "", "bulk_edge", "fitted to the largest values"),
    ("Outliers", "", lambda head: len(head.outliers), "singular values beyond the edge"),
    ("Bulk deviation", "", "bulk_deviation", "from random heads, in standard deviations"),
    ("Symmetric share", "", "symmetric_share", "1 for a tied head"),
    ("Negative share", "", "negative_share", "0 for a tied head"),
    ("Norm", "", "norm", "Frobenius norm of W_QᵀW_K"),
    ("Tail exponent", "", "tail_exponent", "of the largest values"),
)
COLUMNS = (
    "layer", "head", "status", "reason", "hidden", "head_dim", "rank", "zero_mass", "bulk_edge", "symmetric_share",
    "negative_share", "norm", "effective_rank_entropy", "tail_exponent", "singular_values", "outliers", "verdict",
    "evidence", "false_alarm", "bulk_symmetric_share", "bulk_deviation", "share_deviation",
)  # fmt: skip


def survey_heads(path: str, heads: int) -> list[dict[str, Any]]:
    """Measure every head of a file; runs in a worker."""
    work = weights.plan(Path(path), head_count=heads or None)
    if work.total > MAX_HEADS:
        raise OneheadError(
            f"The file has {work.total:,} heads; the explorer reads at most {MAX_HEADS:,}. Use onehead weights instead."
        )
    found = weights.run(work, fit=False, progress=lambda _: stop_if_superseded())
    return [{name: row[name] for name in COLUMNS} for row in found.to_rows()]


def _selected_head(state: State) -> dict[str, Any] | None:
    """Return the head that the knobs select, or the closest one in the file; None without a file."""
    heads: list[dict[str, Any]] = state.extra.get("heads") or []
    if not heads:
        return None
    return min(heads, key=lambda h: (abs(h["layer"] - state["layer"]), abs((h["head"] or 0) - state["head"])))


def draft(state: State) -> Picture:
    """Return a map of the verdicts on all heads, with the singular values of the selected head below."""
    head = _selected_head(state)
    if head is None:
        empty = figure([], x="", y="", xaxis={"visible": False}, yaxis={"visible": False})
        return Picture(empty, "Drop a safetensors file above to see its heads.", missing="no file yet")
    return Picture(_draw(state, head, ()), _caption(state, head), exact=False)


def _caption(state: State, head: dict[str, Any]) -> str:
    good = sum(h["status"] == "ok" for h in state.extra["heads"])
    heads = state.extra["heads"]
    judged = [h["verdict"] for h in heads if h["verdict"]]
    text = f"{state.extra['name']}: {good} of {len(heads)} heads read"
    if judged:
        text += f", {judged.count('noise')} of {len(judged)} cannot be distinguished from random heads"
    text += f". Layer {head['layer']}, head {head['head']}"
    if head["reason"] or not head["verdict"]:
        return f"{text}: {head['reason'] or head['evidence']}."
    return f"{text}, below: {head['verdict']} ({head['evidence']})."


def picture(state: State) -> Picture:
    """Return the map of verdicts and the singular values of the selected head, with fitted laws."""
    head = _selected_head(state)
    if head is None:
        return draft(state)
    rows = [scalar_columns(head) for head in state.extra["heads"]]
    fits = _fits(head)
    laws = tuple(
        Number(f"Law: {fit.law}", "BIC", format_value(fit.bic), "lower fits better" if i == 0 else "")
        for i, fit in enumerate(fits)
    )
    return Picture(_draw(state, head, fits), _caption(state, head), rows, laws)


def _tied(head: dict[str, Any]) -> bool:
    return (head["bulk_symmetric_share"] or 0.0) > TIED_SHARE


def _fits(head: dict[str, Any]) -> list[Any]:
    """Return the laws fitted to the bulk of a head, best first."""
    values = np.array(head["singular_values"])
    if head["status"] != "ok" or not values.size:
        return []
    beyond = len(head["outliers"])
    bulk = values[beyond : round(head["rank"] * head["hidden"])]
    try:
        fits = weights.fit_laws(
            bulk, dim=head["hidden"] - beyond, width=head["head_dim"] - beyond, tied=_tied(head), bootstrap=0
        )
    except OneheadError:
        return []
    return sorted(fits, key=lambda fit: fit.bic)


def _draw(state: State, head: dict[str, Any], fits: Sequence[Any]) -> Figure:
    heads = state.extra["heads"]
    layers = sorted({h["layer"] for h in heads})
    columns = sorted({h["head"] or 0 for h in heads})
    table: list[list[float | None]] = [[None] * len(columns) for _ in layers]
    for h in heads:
        if h["verdict"]:
            table[layers.index(h["layer"])][columns.index(h["head"] or 0)] = VERDICTS.index(h["verdict"])
    values = [v for v in head["singular_values"] if v > 0.0]
    beyond = len(head["outliers"])
    ranks = list(range(1, len(values) + 1))
    bar = {"tickvals": [*range(len(VERDICTS))], "ticktext": [*VERDICTS], "len": 0.42, "y": 0.8, "thickness": 10}
    above = {"xaxis": "x2", "yaxis": "y2", "xgap": 1, "ygap": 1, "zmin": 0, "zmax": len(VERDICTS) - 1}
    hover = "layer %{y}, head %{x}<extra></extra>"
    data = [
        heatmap(columns, layers, table, ("@soft", "@theory"), bar, hovertemplate=hover, **above),
        points(ranks[beyond:], values[beyond:], "singular values", colour="@theory", size=5),
    ]
    if beyond:
        data.append(points(ranks[:beyond], values[:beyond], "outliers", symbol="triangle-up"))
    trained = [fit for fit in fits if fit.law == ("tied" if _tied(head) else "untied")]
    for fit in [*trained, *(best for best in fits[:1] if best not in trained)]:
        at = range(beyond + 1, beyond + 1 + len(fit.expected))
        name = f"{fit.law} law" + (" (best)" if fit is fits[0] else "")
        colour, dash = ("@second", "solid") if fit in trained else ("@grey", "dash")
        data.append(line(at, fit.expected, name, colour=colour, dash=dash))
    chart = figure(
        data,
        x="rank of the singular value",
        y="singular value",
        log_y=True,
        yaxis={"domain": [0.0, 0.42], "dtick": None, "nticks": 5},  # the panel is too low for more
        yaxis2={
            "domain": [0.64, 1.0],
            "anchor": "x2",
            "title": {"text": "layer"},
            "dtick": max(1, len(layers) // 8),
            "showgrid": False,
        },
    )
    chart["layout"]["xaxis2"] = {
        "anchor": "y2",
        "title": {"text": "head", "standoff": 4},
        "dtick": max(1, len(columns) // 12),
        "automargin": True,
        "showgrid": False,
    }
    if head["bulk_edge"]:
        ends = {"xref": "x domain", "x0": 0, "x1": 1, "y0": head["bulk_edge"], "y1": head["bulk_edge"]}
        chart["layout"]["shapes"] = [{"type": "line", **ends, "line": {"color": "@grey", "dash": "dot", "width": 1}}]
    return chart


def report(state: State) -> Report:
    """Return the numbers of the selected head."""
    head = _selected_head(state)
    if head is None:
        return Report(Badge("measured", "No file yet."))
    if head["status"] != "ok":
        return Report(Badge("failed", as_sentence(head["reason"] or head["status"])))
    badge = Badge("measured", "Singular values of W_QᵀW_K.", (CAUTION,))
    return Report(badge, numbers(SimpleNamespace(**head), *LINES))


def code(state: State) -> Code:
    """Return code that surveys a file."""
    count = f", head_count={state['heads']}" if state["heads"] else ""
    flag = f" --heads {state['heads']}" if state["heads"] else ""
    python = f'import onehead as oh\n\ntable = oh.weights.survey("model.safetensors"{count})\nprint(table.summary)\n'
    return Code(python, f"onehead weights model.safetensors{flag} --json")


VIEW = View(
    name="checkpoint",
    title="Checkpoint",
    about="What the heads of a real model have learned, and the spectrum of one of them. The file is read safely "
    "(nothing in "
    "it is run) and deleted at once.",
    formula=r"A=W_Q^\top W_K,\qquad \sigma_1\ge\sigma_2\ge\dots\ge\sigma_d",
    problems=(Checkpoint,),
    panels={"": Panel(draft, report, picture, code)},
)
