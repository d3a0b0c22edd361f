"""Six weight decays: the interpolation peak grows as λ falls, the training loss vanishes below it."""

from onehead.figures.agreement import compare
from onehead.figures.data_source import DataSource
from onehead.figures.drawing import curves
from onehead.figures.registry import Drawing
from onehead.plot.style import ALPHA_LABEL, finish_panel, guide, panels

DECAYS = (1e-2, 2e-3, 1e-3, 5e-4, 1e-4, 1e-5)


def draw(source: DataSource) -> Drawing:
    """Draw test error and training loss against α."""
    measured = source.pick((0.08, 0.16, 0.24, 0.4), (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5))
    coarse, fine = (0.04, 0.06, 0.08, 0.1, 0.12, 0.32, 0.35, 0.45), [0.01 * i for i in range(13, 31)]  # the peak
    grid = source.pick((0.04, 0.1, 0.12, 0.14, 0.18, 0.2, 0.28, 0.33, 0.5), (*coarse, *fine))
    alphas = sorted({round(alpha, 10) for alpha in (*grid, *measured)})
    size = {"dim": source.pick(40, 80), "seeds": source.pick(4, 8), "starts": 1}
    theory = source.theory("theory", "aim.predict", {"weight_decay": DECAYS, "alpha": alphas})
    runs = source.train("trained", "aim.train", {"weight_decay": DECAYS, "alpha": measured}, size)
    edge = source.theory("thresholds", "aim.thresholds", {"kappa0": [0.5]})[0]

    picture, (left, right) = panels(1, 2, width=4.8, height=3.8)
    labels = {decay: f"λ = {decay:g}" for decay in DECAYS}
    curves(left, theory, runs, "alpha", "test_error", "weight_decay", labels)
    curves(right, theory, runs, "alpha", "train_loss", "weight_decay", labels)
    guide(left, x=edge["interpolation"], text="interpolation", at=0.26, before=True)
    guide(right, x=edge["interpolation"])
    finish_panel(left, ALPHA_LABEL, "test error", "κ₀ = 0.5, Δ = 0.5", legend="upper right")
    finish_panel(right, ALPHA_LABEL, "training objective over d²", "", log="y", legend=None)
    caption = f"""Test error and minimum of the training objective at six weight decays (lines: theory, markers:
        training). As λ falls a peak grows out of the interpolation threshold, below which the labels, including their
        noise, can be fitted exactly; it lies to the right of the threshold because convergence in λ is logarithmically
        slow. κ₀ = 0.5, Δ = 0.5, T = 2; training with d = {size["dim"]}, {size["seeds"]} seeds."""
    pairs = compare(theory, runs, ("weight_decay", "alpha"), ("test_error", "train_loss"))
    return Drawing(picture=picture, caption=caption, pairs=pairs)
