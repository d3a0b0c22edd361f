"""Learning curves of heads trained with cross-entropy and with the squared loss."""

from onehead.figures.agreement import compare
from onehead.figures.data_source import DataSource
from onehead.figures.drawing import curves, shared_grid
from onehead.figures.registry import Drawing
from onehead.plot.style import ALPHA_LABEL, finish_panel, panels

LOSSES = {"squared": "squared loss", "cross-entropy": "cross-entropy"}


def draw(source: DataSource) -> Drawing:
    """Draw the test error and the rank for both losses."""
    measured = source.pick((0.1, 0.3, 1.0), (0.1, 0.2, 0.5, 1.0, 2.0))
    alphas = sorted({*shared_grid(source, 0.05, 3.0), *measured})
    size = {"dim": source.pick(50, 100), "seeds": source.pick(4, 8), "starts": 1}
    theory = source.theory("theory", "aim.predict", {"loss": list(LOSSES), "alpha": alphas})
    runs = source.train("trained", "aim.train", {"loss": list(LOSSES), "alpha": measured}, size)

    picture, (left, right) = panels(1, 2, width=4.6)
    curves(left, theory, runs, "alpha", "test_error", "loss", LOSSES)
    curves(right, theory, runs, "alpha", "rank", "loss", LOSSES)
    finish_panel(left, ALPHA_LABEL, "squared test error", "κ₀ = 0.5, Δ = 0.5, λ = 0.01", log="x", ylim=(0.0, None))
    finish_panel(right, ALPHA_LABEL, "rank of S over d", "", log="x", ylim=(0.0, 1.0))
    caption = f"""Squared test error and rank of heads trained with the squared loss and with cross-entropy at the same
        weight decay: at this λ the two are close, with cross-entropy better at intermediate α and with a few more
        non-zero eigenvalues. κ₀ = 0.5, Δ = 0.5, T = 2, λ = 0.01; training with d = {size["dim"]}, {size["seeds"]}
        seeds."""
    pairs = compare(theory, runs, ("loss", "alpha"), ("test_error", "train_loss", "rank"))
    return Drawing(picture=picture, caption=caption, pairs=pairs)
