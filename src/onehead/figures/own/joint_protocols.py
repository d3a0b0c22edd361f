"""Five ways to train attention on sparse tokens, beside the best possible learner of the same data."""

import numpy as np

from onehead.figures.data_source import DataSource
from onehead.figures.drawing import line, plain_ticks, rows_with
from onehead.figures.registry import Drawing
from onehead.plot.style import BEST, SERIES_STYLES, THEORY, finish_panel, panels
from onehead.sparse import Task, data_for

TASK = {"length": 10, "strength": 5.0}
RIDGES = {"ridge_query": 0.1, "ridge": 0.1}  # with smaller ones several minima compete
MOST_SHOWN = 12.0  # data multiple


def draw(source: DataSource) -> Drawing:
    """Draw test errors and data multiples against the samples over dimension."""
    alphas = source.pick((2.0,), (0.5, 1.0, 2.0, 4.0, 8.0))
    staged = source.theory("staged, split", "sparse.tune", {"alpha": alphas}, TASK)
    tuned = {
        "reuse": source.theory(
            "staged, all data", "sparse.tune_joint", {"alpha": alphas}, {**TASK, "procedure": "reuse"}
        ),
        "descend": source.theory(
            "joint descent", "sparse.tune_joint", {"alpha": alphas}, {**TASK, "procedure": "descend"}
        ),
    }
    one_pass = source.theory(
        "one-pass SGD",
        "sparse.descend",
        {"alpha": alphas},
        {**TASK, "batch": "one-pass", "steps": 8, "beta": 1.0, "eta_q": 0.5, "eta_w": 0.5, "eta_b": 4.0, "ridge": 0.0},
    )
    minima = source.theory(
        "joint minimum",
        "sparse.joint",
        {"alpha": source.pick((2.0,), (1.0, 2.0, 4.0))},
        {**TASK, **RIDGES},
    )
    best = source.theory("best possible", "sparse.bayes", {"alpha": "log:0.4:10:30"}, TASK)

    series = {
        "split, tuned": rows_with(staged),
        "one-pass SGD": rows_with(one_pass),
        "joint minimum": rows_with(minima),
        "both stages on all data, tuned": rows_with(tuned["reuse"]),
        "joint descent, tuned, stopped early": rows_with(tuned["descend"]),
    }
    picture, (left, right) = panels(1, 2, width=5.0, height=4.0)
    line(left, rows_with(best), "alpha", "test_error", "best possible learner", color=BEST, ls=":")
    multiples: dict[str, list[float]] = {}
    for k, (label, rows) in enumerate(series.items()):
        at = [row["alpha"] for row in rows]
        multiples[label] = [row["alpha"] / data_for(Task(**TASK), row["test_error"]) for row in rows]
        look = SERIES_STYLES[k % len(SERIES_STYLES)]
        for axes, values in ((left, [row["test_error"] for row in rows]), (right, multiples[label])):
            axes.plot(at, values, color=look.line, ls=look.dash, marker=look.marker, ms=4.0, lw=1.6, label=label)
        source.add("data multiple", protocol=[label] * len(at), alpha=at, data_multiple=multiples[label])
    finish_panel(
        left,
        "samples over dimension α",
        "test error",
        "L = 10, R = 1, θ = 5, π = 0.5",
        log="xy",
        legend=None,
        ylim=(0.015, 0.5),
    )
    finish_panel(
        right,
        "samples over dimension α",
        "samples over those of the best learner",
        "data multiple",
        log="x",
        legend=None,
    )
    right.set_ylim(0.0, MOST_SHOWN)
    picture.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8.0, frameon=False)
    right.axhline(1.0, color=THEORY, lw=0.8, ls=":")
    for axes in (left, right):
        plain_ticks(axes, (0.5, 1.0, 2.0, 4.0, 8.0))
    left.set_yticks([0.02, 0.05, 0.1, 0.2, 0.5], ["0.02", "0.05", "0.1", "0.2", "0.5"])
    joint, split = multiples["joint descent, tuned, stopped early"], multiples["split, tuned"]
    caption = f"""Left: test error of five ways to train query and readout on the same number of samples, with the
        logistic loss, and of the best possible learner. The two stages on a part of the samples each and on all
        samples, and joint descent with the step at which to stop, are tuned by the theory; the joint minimum
        has ridges of 0.1, and one-pass SGD the rates 0.5, 0.5 and 4. Right: how many times more samples each
        needs than the best learner: {np.min(joint):.1f} to {np.max(joint):.1f} for joint descent,
        {np.min(split):.1f} to {np.max(split):.1f} with the split; one-pass SGD, which sees every sample once,
        lies above the frame until α = 8. The split costs, not the two steps. Theory alone; training is beside
        it in the figure of the steps."""
    return Drawing(picture=picture, caption=caption)
