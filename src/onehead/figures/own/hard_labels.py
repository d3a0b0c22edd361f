"""Soft labels (the attention of the target) compared with hard labels (one token sampled from it)."""

import numpy as np

from onehead.figures.agreement import compare
from onehead.figures.data_source import DataSource
from onehead.figures.drawing import curves, plain_ticks
from onehead.figures.registry import Drawing
from onehead.plot.style import ALPHA_LABEL, finish_panel, guide, panels

LABELS = {"soft": "soft labels: the target's attention", "hard": "hard labels: one token sampled from it"}
TASK = {"attention": "cross", "kappa0": 0.5, "loss": "cross-entropy"}
DECAY = {"weight_decay": 0.01}
PEAK = (1.05, 1.1, 1.15, 1.2, 1.25, 1.35)


def draw(source: DataSource) -> Drawing:
    """Draw the squared test error and the size of the map, which weight decay alone limits if labels are separable."""
    measured = source.pick((0.3, 1.0, 2.0), (0.3, 0.6, 1.0, 1.6, 3.0))
    alphas = sorted({*np.geomspace(0.15, 6.0, source.pick(14, 32)).tolist(), *measured, *PEAK})
    size = {**TASK, **DECAY, "dim": source.pick(40, 100), "seeds": source.pick(2, 4), "starts": 1}
    theory = source.theory("theory", "aim.predict", {"labels": list(LABELS), "alpha": alphas}, {**TASK, **DECAY})
    runs = source.train("trained", "aim.train", {"labels": list(LABELS), "alpha": measured}, size)
    thresholds = source.theory("thresholds", "aim.thresholds", {"labels": list(LABELS)}, TASK)

    picture, (left, right) = panels(1, 2, width=4.6)
    curves(left, theory, runs, "alpha", "test_error", "labels", LABELS)
    curves(right, theory, runs, "alpha", "q", "labels", LABELS)
    for axes, at in ((left, 0.63), (right, 0.53)):
        for row, text in zip(thresholds, ("soft: interpolation", "hard: separability"), strict=True):
            guide(axes, x=row["interpolation"], text=text, at=at, before=True)
    white = {"legend": "upper right", "frameon": True, "framealpha": 1.0, "edgecolor": "none"}
    finish_panel(
        left, ALPHA_LABEL, "squared test error", "cross-attention, λ = 0.01", log="x", ylim=(0.0, 1.25), **white
    )
    finish_panel(right, ALPHA_LABEL, "size of the map, q = Tr S'S/d", "", log="xy", legend=None)
    for axes in (left, right):
        plain_ticks(axes, (0.2, 0.5, 1.0, 2.0, 5.0))
    caption = f"""Left: squared error of the attention of heads trained with cross-entropy on soft and on hard labels.
        Right: the size of their maps. Up to α = {thresholds[1]["separability"]:.3f} hard labels are separable: some map
        gives every labelled token the largest logit. Without weight decay this map grows without bound, and the error
        is that of a head that always attends to a single token; the small weight decay used here limits the growth.
        Soft labels can be fitted up to α = {thresholds[0]["interpolation"]:g}, with a map of finite size. κ₀ = 0.5, Δ =
        0.5, T = 2, λ = 0.01; training with d = {size["dim"]}, {size["seeds"]} seeds."""
    pairs = compare(theory, runs, ("labels", "alpha"), ("test_error", "train_loss", "rank", "q"))
    return Drawing(picture=picture, caption=caption, pairs=pairs)
