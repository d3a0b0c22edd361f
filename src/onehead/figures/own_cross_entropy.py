"""The learning curve of a head trained with cross-entropy beside the squared loss."""

from onehead.figures.agreement import compare
from onehead.figures.drawing import ALPHA, curves, shared_grid
from onehead.figures.lab import Lab
from onehead.figures.registry import Drawing
from onehead.plot.style import finish, panels

LOSSES = {"squared": "squared loss", "cross-entropy": "cross-entropy"}


def draw(lab: Lab) -> Drawing:
    """Test error of both losses, and their ranks."""
    measured = lab.pick((0.1, 0.3, 1.0), (0.1, 0.2, 0.5, 1.0, 2.0))
    alphas = sorted({*shared_grid(lab, 0.05, 3.0), *measured})
    size = {"dim": lab.pick(50, 100), "seeds": lab.pick(4, 8), "starts": 1}
    theory = lab.theory("theory", "aim.predict", {"loss": list(LOSSES), "alpha": alphas})
    runs = lab.train("trained", "aim.train", {"loss": list(LOSSES), "alpha": measured}, size)

    picture, (left, right) = panels(1, 2, width=4.6)
    curves(left, theory, runs, "alpha", "test_error", "loss", LOSSES)
    curves(right, theory, runs, "alpha", "rank", "loss", LOSSES)
    finish(left, ALPHA, "squared test error", "κ₀ = 0.5, Δ = 0.5, λ = 0.01", log="x", ylim=(0.0, None))
    finish(right, ALPHA, "rank of S over d", "", log="x", ylim=(0.0, 1.0))
    caption = f"""Squared test error and rank of heads trained with the squared loss and with cross-entropy at the same weight
        decay: at this λ the two lie close together, cross-entropy ahead at intermediate α and with a few more eigenvalues. κ₀ = 0.5, Δ = 0.5, T = 2,
        λ = 0.01; training with d = {size["dim"]}, {size["seeds"]} seeds."""
    pairs = compare(theory, runs, ("loss", "alpha"), ("test_error", "train_loss", "rank"))
    return Drawing(picture=picture, caption=caption, pairs=pairs)
