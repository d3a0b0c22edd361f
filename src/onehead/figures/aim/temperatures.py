"""Three temperatures of the softmax, the same for target and learner."""

import numpy as np

from onehead.figures.agreement import compare
from onehead.figures.data_source import DataSource
from onehead.figures.drawing import curves
from onehead.figures.registry import Drawing
from onehead.plot.style import ALPHA_LABEL, finish_panel, panels

BETAS = (0.5, 1.0, 2.0)


def draw(source: DataSource) -> Drawing:
    """Draw the clean test error against α, with and without label noise."""
    measured = source.pick((0.15, 0.3, 0.8), (0.1, 0.2, 0.4, 0.8))
    grid = source.pick((0.05, 0.07, 0.1, 0.24, 0.45, 0.6, 1.0), np.geomspace(0.05, 1.0, 14).round(4).tolist())
    alphas = sorted({*grid, *measured})
    size = {"dim": source.pick(40, 100), "seeds": source.pick(4, 8), "starts": 1}
    axes = {("beta", "beta0"): [(beta, beta) for beta in BETAS], "noise": [0.0, 0.5]}
    theory = source.theory("theory", "aim.predict", {**axes, "alpha": alphas})
    runs = source.train("trained", "aim.train", {**axes, "alpha": measured}, size)

    picture, panes = panels(1, 2, width=4.6)
    labels = {beta: f"β = β₀ = {beta:g}" for beta in BETAS}
    for pane, noise in zip(panes, (0.0, 0.5), strict=True):
        curves(pane, theory, runs, "alpha", "test_error_clean", "beta", labels, only={"noise": noise})
        finish_panel(pane, ALPHA_LABEL, "test error on clean labels", f"Δ = {noise:g}", log="xy")
    caption = f"""Test error on noise-free labels at inverse temperatures 0.5, 1 and 2 of the softmax, without (left)
        and with (right) label noise: sharper attention is harder to predict from few samples, and transmits more of the
        noise. κ₀ = 0.5, T = 2, λ = 0.01; training with d = {size["dim"]}, {size["seeds"]} seeds."""
    pairs = compare(theory, runs, ("beta", "noise", "alpha"), ("test_error_clean", "train_loss"))
    return Drawing(picture=picture, caption=caption, pairs=pairs)
