"""Bayes-optimal message passing on sampled data, compared with its state evolution."""

from typing import Any

import numpy as np

from onehead.figures.agreement import pair
from onehead.figures.data_source import DataSource
from onehead.figures.drawing import mean_and_error
from onehead.figures.registry import Drawing
from onehead.plot.style import finish_panel, panels, theory_line, training_marks

HEADS: dict[str, dict[str, Any]] = {
    "tied, T = 2, α = 0.5": {"tokens": 2, "alpha": 0.5},
    "tied, T = 3, α = 0.1": {"tokens": 3, "alpha": 0.1},
    "cross-attention, T = 2, α = 0.5": {"tokens": 2, "alpha": 0.5, "attention": "cross"},
}


def draw(source: DataSource) -> Drawing:
    """Draw the mean squared error of the estimate against the iteration, for three heads."""
    dim, count = source.pick_instance(60, 150), source.pick(4, 8)
    size = {"dim": dim, "iterations": 24, "damping": 0.7, "method": "bayes"}
    picture, (axes,) = panels(1, 1, width=5.6, height=3.9)
    pairs = []
    for k, (label, head) in enumerate(HEADS.items()):
        runs = source.train(label, "aim.amp", {"noise": [0.5]}, {**size, **head}, seeds=count, data=False)
        table = (
            runs
            if runs is not None
            else source.theory(label, "aim.amp", {"noise": [0.5]}, {**size, **head}, data=False)
        )
        steps = [table.arrays(i) for i in range(len(table))]
        iteration = steps[0]["iteration"]
        theory = np.mean([step["sigma_theory"] for step in steps], axis=0)
        theory_line(axes, iteration, theory, label, k)
        source.add(f"{label}, state evolution", iteration=iteration, value=theory)
        if runs is None:
            continue
        measured = np.mean([step["sigma"] for step in steps], axis=0)
        _, error = mean_and_error([step["sigma"] - step["sigma_theory"] for step in steps])
        training_marks(axes, iteration, measured, error, "message passing" if k == 0 else None, k)
        source.add(f"{label}, message passing", iteration=iteration, value=measured, error=error)
        pairs.append(pair({"dim": dim, "seeds": count}, "mmse", label, theory[-1], measured[-1], error[-1]))
    finish_panel(axes, "iteration", "mean squared error |Ŝ - S*|²/d", "κ₀ = 0.5, Δ = 0.5", ylim=(0.0, None))
    caption = f"""Bayes-optimal message passing on real samples (markers, mean over {count} instances of d = {dim}) and
        its state evolution (lines): from an estimate by the trace of the target to the best possible one, for a tied
        head with two and three tokens and for cross-attention. Damping 0.7; the lines are exact at the first and at the
        last iteration, and approximate in between. Error bars are those of the difference."""
    return Drawing(picture=picture, caption=caption, pairs=pairs)
