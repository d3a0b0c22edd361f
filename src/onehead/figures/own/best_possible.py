"""A head at its best weight decay compared with the best possible learner: errors, gap, and equivalent data."""

import numpy as np

from onehead.figures.data_source import DataSource
from onehead.figures.drawing import line, rows_with
from onehead.figures.registry import Drawing
from onehead.figures.sweep_calls import call_name
from onehead.plot.style import ALPHA_LABEL, BEST, GREY, finish_panel, panels

PARAMETERS = ("target", "kappa0", "gamma", "dim", "noise")
MAX_MULTIPLE = 6.0  # largest data multiple drawn; it diverges where a head is hardly better than the trace alone
TARGETS = {
    ("mp", 0.5, None, None, 0.5): "κ₀ = 0.5, Δ = 0.5",
    ("mp", 1.0, None, None, 0.5): "κ₀ = 1, Δ = 0.5",
    ("mp", 0.05, None, None, 0.5): "κ₀ = 0.05, Δ = 0.5",
    ("mp", 0.05, None, None, 0.05): "κ₀ = 0.05, Δ = 0.05",
    ("power-law", None, 0.75, 200, 0.5): "power law γ = 0.75, Δ = 0.5",
}


def draw(source: DataSource) -> Drawing:
    """Draw the errors for one target, and gap and data multiple for five targets, against α."""
    ratios = np.geomspace(0.02, 20.0, source.pick(9, 16)).tolist()
    tables = [
        source.theory(
            label,
            call_name("bayes_gap"),
            {"alpha": ratios},
            {k: v for k, v in zip(PARAMETERS, values, strict=True) if v is not None},
        )
        for values, label in TARGETS.items()
    ]
    picture, (left, middle, right) = panels(1, 3, width=4.0)
    rows = rows_with(tables[0])
    line(left, rows, "alpha", "test_error", "weight decay, tuned")
    line(left, rows, "alpha", "logit_nuclear", "the same penalty on logits", 1)
    line(left, rows, "alpha", "bayes_test_error", "best possible (known model)", 0, color=BEST, ls=":")
    left.axhline(rows[0]["floor"], color=GREY, lw=0.9, ls=(0, (1, 2)))
    finish_panel(left, ALPHA_LABEL, "test error", next(iter(TARGETS.values())), log="x", ylim=(0.0, None))
    for k, (table, label) in enumerate(zip(tables, TARGETS.values(), strict=True)):
        found = [{**row, "gap_percent": 100.0 * row["gap"]} for row in rows_with(table)]
        line(middle, found, "alpha", "gap_percent", label, k)
        better = [row for row in found if row["data_multiple"] is not None and row["data_multiple"] < MAX_MULTIPLE]
        line(right, better, "alpha", "data_multiple", label, k)
    finish_panel(middle, ALPHA_LABEL, "test error above the best possible, %", "gap of tuned weight decay", log="xy")
    finish_panel(
        right,
        ALPHA_LABEL,
        "samples / samples of the best learner",
        "data multiple",
        log="x",
        ylim=(1.0, MAX_MULTIPLE),
        legend=None,
    )
    caption = """Left: test error of a head with the best weight decay, of the same penalty fitted to logits instead of
        softmax outputs, and of the best possible learner, which knows the law of the target, noise and temperature; the
        dotted line at the bottom is the error that remains with infinitely many samples. Middle: how far tuned weight
        decay is above the best possible, for five targets. Right: the number of samples over that which the best
        possible learner needs for the same error; a line begins where the head becomes better than the trace of the
        target alone. Most of the gap at α > 0.5 is due to the squared loss on saturated outputs, not to weight decay. T
        = 2, theory alone."""
    return Drawing(picture=picture, caption=caption)
