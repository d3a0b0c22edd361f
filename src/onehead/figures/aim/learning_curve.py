"""Figure 1 of the attention-indexed model: the learning curve at two widths, and four spectra along it."""

from onehead.figures.agreement import compare
from onehead.figures.data_source import DataSource
from onehead.figures.drawing import law_and_histogram, line, marks, shared_grid
from onehead.figures.registry import Drawing
from onehead.plot.style import ALPHA_LABEL, despine, finish_panel, guide

WIDTHS = (1.0, 0.75)


def draw(source: DataSource) -> Drawing:
    """Draw the test error against α, and the spectra at four values of α."""
    from matplotlib.figure import Figure as Picture

    spectrum_alphas = source.pick((0.05, 0.5, 2.0, 8.0), (0.05, 0.5, 4.0, 40.0))
    measured = source.pick((0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0), (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 10.0, 40.0))
    narrow = source.pick((0.1, 0.5, 2.0), (0.1, 0.2, 0.5, 1.0, 4.0))
    size = {"dim": source.pick(60, 100), "seeds": source.pick(4, 8), "starts": 1}
    grid = shared_grid(source, 0.0, 100.0)
    settings = [(width, alpha) for width, step in zip(WIDTHS, (1, 2), strict=True) for alpha in grid[::step]]
    curve = source.theory("theory", "aim.predict", {("width", "alpha"): settings})
    trained_at = [(width, alpha) for width, some in zip(WIDTHS, (measured, narrow), strict=True) for alpha in some]
    predictions = source.theory("theory at measured points", "aim.predict", {("width", "alpha"): trained_at})
    laws = source.theory("spectra", "aim.spectrum", {"alpha": spectrum_alphas})
    wide = source.train("trained", "aim.train", {"alpha": measured}, size)
    thin = source.train("trained, narrow", "aim.train", {"alpha": narrow}, {**size, "width": 0.75})
    plateau = float(curve[-1]["test_error"]) - float(curve[-1]["excess_error"])

    picture = Picture(figsize=(10.6, 4.6), layout="constrained")
    parts = picture.subplot_mosaic([["curve", "a", "b"], ["curve", "c", "d"]], width_ratios=(1.55, 1.0, 1.0))
    axes = parts["curve"]
    despine(axes)
    for k, width in enumerate(WIDTHS):
        rows = [row for row in curve if row["width"] == width]
        line(axes, rows, "alpha", "test_error", f"theory, width κ = {width:g}", k, lw=2.4 - 0.8 * k)
    for k, runs in enumerate((wide, thin)):
        marks(axes, runs, "alpha", "test_error", f"trained, κ = {WIDTHS[k]:g} (d = {size['dim']})", k)
    guide(axes, y=plateau, text="infinitely many samples", at=source.pick(0.62, 0.4))
    for alpha, letter in zip(spectrum_alphas, "abcd", strict=True):
        guide(axes, x=alpha, text=letter, at=0.07)
    finish_panel(axes, ALPHA_LABEL, "test error", "learning curve", log="x", ylim=(0.0, None), legend=None)
    axes.legend(fontsize=7.8, loc="upper right", framealpha=1.0, edgecolor="none")
    for i, letter in enumerate("abcd"):
        law_and_histogram(source, parts[letter], laws, i, wide, f"{letter}: α = {spectrum_alphas[i]:g}", legend=i == 0)
    pairs = compare(predictions, wide, ("width", "alpha"), ("test_error", "train_loss", "rank"))
    pairs += compare(predictions, thin, ("width", "alpha"), ("test_error", "train_loss", "rank"))
    caption = f"""Test error of a tied attention head against samples per squared dimension, for a head of full width
        and one of three quarters: both learn the same map, because its rank stays below 0.75. Right: eigenvalues of the
        trained map S (histogram: trained, line: theory, grey: target without its zeros) at the four marked sample
        ratios: at first one bulk of noise and signal, at the end the signal separated from the noise. κ₀ = 0.5, Δ =
        0.5, T = 2, λ = 0.01; training with d = {size["dim"]}, {size["seeds"]} seeds."""
    return Drawing(picture=picture, caption=caption, pairs=pairs)
