"""Training on output sequences compared with training on attention matrices."""

from onehead.figures.agreement import compare
from onehead.figures.data_source import DataSource
from onehead.figures.drawing import line, marks, rows_with, shared_grid
from onehead.figures.registry import Drawing
from onehead.plot.style import ALPHA_LABEL, finish_panel, panels

OUTPUTS = {"label": "attention matrices", "sequence": "output sequences"}


def draw(source: DataSource) -> Drawing:
    """Draw test error and training objective for the two kinds of labels."""
    measured = (0.1, 0.2, 0.5, 1.0)
    size = {"dim": source.pick(60, 100), "seeds": source.pick(4, 8), "starts": 1}
    theory = source.theory("theory", "aim.predict", {"alpha": sorted({*shared_grid(source, 0.05, 1.5), *measured})})
    runs = source.train("trained", "aim.train", {"output": list(OUTPUTS), "alpha": measured}, size)

    picture, (left, right) = panels(1, 2, width=4.6)
    for axes, column in ((left, "test_error"), (right, "train_loss")):
        line(axes, theory, "alpha", column, "theory, both")
        for k, (output, label) in enumerate(OUTPUTS.items()):
            rows = rows_with(runs, output=output)
            marks(axes, rows, "alpha", column, f"trained on {label}", k, shift=0.02 * (2 * k - 1))
    finish_panel(left, ALPHA_LABEL, "test error", "κ₀ = 0.5, Δ = 0.5, λ = 0.01", log="x", ylim=(0.0, None))
    finish_panel(right, ALPHA_LABEL, "training objective over d²", "", log="xy")
    caption = f"""A head trained to reproduce the sequences that the target's attention makes, Y = A X, has the same
        errors as one trained on the attention matrices themselves, because tokens are nearly orthogonal (markers are
        shifted by 2 % to be visible). κ₀ = 0.5, Δ = 0.5, T = 2, λ = 0.01; training with d = {size["dim"]},
        {size["seeds"]} seeds."""
    pairs = compare(theory, runs, ("alpha",), ("test_error", "train_loss"))
    return Drawing(picture=picture, caption=caption, pairs=pairs)
