"""Message passing against its state evolution, iteration by iteration."""

import numpy as np

from onehead.figures.agreement import pair
from onehead.figures.data_source import DataSource
from onehead.figures.drawing import mean_and_error
from onehead.figures.registry import Drawing
from onehead.plot.style import OVERLAP_LABELS, finish_panel, panels, theory_line, training_marks


def draw(source: DataSource) -> Drawing:
    """Draw the overlaps, and the susceptibility Σ, against the iteration."""
    dim = source.pick_instance(100, 200)
    size = {"dim": dim, "iterations": source.pick(16, 30), "damping": 1.0, "alpha": 0.5}
    count = source.pick(4, 8)
    runs = source.train("message passing", "aim.amp", {"noise": [0.5]}, size, seeds=count, data=False)
    # state evolution starts from the spectrum of an instance, so one is needed without training too
    table = runs if runs is not None else source.theory("one instance", "aim.amp", {"noise": [0.5]}, size, data=False)
    steps = [table.arrays(i) for i in range(len(table))]
    iteration = steps[0]["iteration"]

    picture, (left, right) = panels(1, 2, width=4.6)
    pairs = []
    for k, (symbol, label) in enumerate(OVERLAP_LABELS.items()):
        axes = right if symbol == "sigma" else left
        theory = np.mean([step[f"{symbol}_theory"] for step in steps], axis=0)
        theory_line(axes, iteration, theory, f"{label}, state evolution", k)
        source.add(f"{symbol}, state evolution", iteration=iteration, value=theory)
        if runs is None:
            continue
        measured = np.mean([step[symbol] for step in steps], axis=0)
        _, error = mean_and_error([step[symbol] - step[f"{symbol}_theory"] for step in steps])
        training_marks(axes, iteration, measured, error, f"{label[0]}, message passing", k)
        source.add(f"{symbol}, message passing", iteration=iteration, value=measured, error=error)
        instances = {"dim": dim, "seeds": len(steps)}
        pairs += [
            pair(instances, symbol, f"iteration {int(t)}", theory[i], measured[i], error[i])
            for i, t in enumerate(iteration)
            if error[i] > 0.0 and t > 0
        ]
    finish_panel(
        left, "iteration", "overlap", "κ₀ = 0.5, Δ = 0.5, α = 0.5, λ = 0.01", ylim=(0.0, None), legend="lower right"
    )
    finish_panel(right, "iteration", "susceptibility Σ", "", ylim=(0.0, None), legend="lower right")
    caption = f"""Approximate message passing on real samples (markers, mean over {count} instances) follows its state
        evolution (lines, started from the spectra of the same instances) from the first iteration to the fixed point,
        which is the minimum that training finds. κ₀ = 0.5, Δ = 0.5, T = 2, α = 0.5, λ = 0.01, d = {dim}, undamped.
        Error bars are those of the difference."""
    return Drawing(picture=picture, caption=caption, pairs=pairs)
