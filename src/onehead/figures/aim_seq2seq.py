"""Training on output sequences against training on attention matrices: the same curves."""

from onehead.figures.agreement import compare
from onehead.figures.drawing import ALPHA, line, marks, shared_grid, where
from onehead.figures.lab import Lab
from onehead.figures.registry import Drawing
from onehead.plot.style import finish, panels

OUTPUTS = {"label": "attention matrices", "sequence": "output sequences"}


def draw(lab: Lab) -> Drawing:
    """Test error and training objective for the two kinds of labels."""
    measured = (0.1, 0.2, 0.5, 1.0)
    size = {"dim": lab.pick(60, 100), "seeds": lab.pick(4, 8), "starts": 1}
    theory = lab.theory("theory", "aim.predict", {"alpha": sorted({*shared_grid(lab, 0.05, 1.5), *measured})})
    runs = lab.train("trained", "aim.train", {"output": list(OUTPUTS), "alpha": measured}, size)

    picture, (left, right) = panels(1, 2, width=4.6)
    for axes, column in ((left, "test_error"), (right, "train_loss")):
        line(axes, theory, "alpha", column, "theory, both")
        for k, (output, label) in enumerate(OUTPUTS.items()):
            rows = where(runs, output=output)
            marks(axes, rows, "alpha", column, f"trained on {label}", k, shift=0.02 * (2 * k - 1))
    finish(left, ALPHA, "test error", "κ₀ = 0.5, Δ = 0.5, λ = 0.01", log="x", ylim=(0.0, None))
    finish(right, ALPHA, "training objective over d²", "", log="xy")
    caption = f"""A head trained to reproduce the sequences that the target's attention makes, Y = A X, has the same errors
        as one trained on the attention matrices themselves, because tokens are nearly orthogonal (markers are moved apart by
        2 % to be seen). κ₀ = 0.5, Δ = 0.5, T = 2, λ = 0.01; training with d = {size["dim"]}, {size["seeds"]} seeds."""
    pairs = compare(theory, runs, ("alpha",), ("test_error", "train_loss"))
    return Drawing(picture=picture, caption=caption, pairs=pairs)
