"""How far a head at its best weight decay is from the best possible learner: errors, gap, and the data that would do."""

import numpy as np

from onehead.figures.calls import name
from onehead.figures.drawing import ALPHA, line, where
from onehead.figures.lab import Lab
from onehead.figures.registry import Drawing
from onehead.plot.style import BEST, GREY, finish, panels

WORDS = ("target", "kappa0", "gamma", "dim", "noise")
HIGHEST = 6.0  # data multiple that is drawn; it has no bound where a head is hardly better than the trace alone
TARGETS = {
    ("mp", 0.5, None, None, 0.5): "κ₀ = 0.5, Δ = 0.5",
    ("mp", 1.0, None, None, 0.5): "κ₀ = 1, Δ = 0.5",
    ("mp", 0.05, None, None, 0.5): "κ₀ = 0.05, Δ = 0.5",
    ("mp", 0.05, None, None, 0.05): "κ₀ = 0.05, Δ = 0.05",
    ("power-law", None, 0.75, 200, 0.5): "power law γ = 0.75, Δ = 0.5",
}


def draw(lab: Lab) -> Drawing:
    """Errors of one target on the left; gap and data multiple of five against α."""
    ratios = np.geomspace(0.02, 20.0, lab.pick(9, 16)).tolist()
    tables = [
        lab.theory(
            label,
            name("bayes_gap"),
            {"alpha": ratios},
            {k: v for k, v in zip(WORDS, own, strict=True) if v is not None},
        )
        for own, label in TARGETS.items()
    ]
    picture, (left, middle, right) = panels(1, 3, width=4.0)
    rows = where(tables[0])
    line(left, rows, "alpha", "test_error", "weight decay, tuned")
    line(left, rows, "alpha", "logit_nuclear", "the same penalty on logits", 1)
    line(left, rows, "alpha", "bayes_test_error", "best possible (known model)", 0, color=BEST, ls=":")
    left.axhline(rows[0]["floor"], color=GREY, lw=0.9, ls=(0, (1, 2)))
    finish(left, ALPHA, "test error", next(iter(TARGETS.values())), log="x", ylim=(0.0, None))
    for k, (table, label) in enumerate(zip(tables, TARGETS.values(), strict=True)):
        found = [{**row, "gap_percent": 100.0 * row["gap"]} for row in where(table)]
        line(middle, found, "alpha", "gap_percent", label, k)
        better = [row for row in found if row["data_multiple"] is not None and row["data_multiple"] < HIGHEST]
        line(right, better, "alpha", "data_multiple", label, k)
    finish(middle, ALPHA, "test error above the best possible, %", "gap of tuned weight decay", log="xy")
    finish(
        right, ALPHA, "samples, over those the best needs", "data multiple", log="x", ylim=(1.0, HIGHEST), legend=None
    )
    caption = """Left: test error of a head with the best weight decay, of the same penalty fitted to logits instead of softmax outputs, and of
        the best possible learner, who knows the law of the target, noise and temperature; the dotted line at the bottom is what infinitely many samples
        leave. Middle: how far tuned weight decay is above the best possible, for five targets. Right: how many times the samples that the best
        possible learner needs for the same error; where a line begins, the head has just become better than the trace of the target alone. Most of the gap at
        α > 0.5 is the squared loss on saturated outputs, not weight decay. T = 2, theory alone."""
    return Drawing(picture=picture, caption=caption)
