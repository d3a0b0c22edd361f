"""Figure 1 of the attention-indexed model: the learning curve at two widths, and four spectra along it."""

from onehead.figures.agreement import compare
from onehead.figures.drawing import ALPHA, law_and_histogram, line, marks, shared_grid
from onehead.figures.lab import Lab
from onehead.figures.registry import Drawing
from onehead.plot.style import bare, finish, guide

WIDTHS = (1.0, 0.75)


def draw(lab: Lab) -> Drawing:
    """Test error against α on the left, the spectra at four α on the right."""
    from matplotlib.figure import Figure as Picture  # noqa: PLC0415  (loaded when something is drawn)

    stations = lab.pick((0.05, 0.5, 2.0, 8.0), (0.05, 0.5, 4.0, 40.0))
    measured = lab.pick((0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0), (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 10.0, 40.0))
    narrow = lab.pick((0.1, 0.5, 2.0), (0.1, 0.2, 0.5, 1.0, 4.0))
    size = {"dim": lab.pick(60, 100), "seeds": lab.pick(4, 8), "starts": 1}
    grid = shared_grid(lab, 0.0, 100.0)
    places = [(width, alpha) for width, step in zip(WIDTHS, (1, 2), strict=True) for alpha in grid[::step]]
    curve = lab.theory("theory", "aim.predict", {("width", "alpha"): places})
    there = [(width, alpha) for width, some in zip(WIDTHS, (measured, narrow), strict=True) for alpha in some]
    at = lab.theory("theory at measured points", "aim.predict", {("width", "alpha"): there})
    laws = lab.theory("spectra", "aim.spectrum", {"alpha": stations})
    wide = lab.train("trained", "aim.train", {"alpha": measured}, size)
    thin = lab.train("trained, narrow", "aim.train", {"alpha": narrow}, {**size, "width": 0.75})
    plateau = float(curve[-1]["test_error"]) - float(curve[-1]["excess_error"])

    picture = Picture(figsize=(10.6, 4.6), layout="constrained")
    parts = picture.subplot_mosaic([["curve", "a", "b"], ["curve", "c", "d"]], width_ratios=(1.55, 1.0, 1.0))
    axes = parts["curve"]
    bare(axes)
    for k, width in enumerate(WIDTHS):
        rows = [row for row in curve if row["width"] == width]
        line(axes, rows, "alpha", "test_error", f"theory, width κ = {width:g}", k, lw=2.4 - 0.8 * k)
    for k, runs in enumerate((wide, thin)):
        marks(axes, runs, "alpha", "test_error", f"trained, κ = {WIDTHS[k]:g} (d = {size['dim']})", k)
    guide(axes, y=plateau, text="infinitely many samples", at=lab.pick(0.62, 0.4))
    for station, letter in zip(stations, "abcd", strict=True):
        guide(axes, x=station, text=letter, at=0.07)
    finish(axes, ALPHA, "test error", "learning curve", log="x", ylim=(0.0, None), legend=None)
    axes.legend(fontsize=7.8, loc="upper right", framealpha=1.0, edgecolor="none")
    for i, letter in enumerate("abcd"):
        law_and_histogram(lab, parts[letter], laws, i, wide, f"{letter}: α = {stations[i]:g}", legend=i == 0)
    pairs = compare(at, wide, ("width", "alpha"), ("test_error", "train_loss", "rank"))
    pairs += compare(at, thin, ("width", "alpha"), ("test_error", "train_loss", "rank"))
    caption = f"""Test error of a tied attention head against samples per squared dimension, for a head of full width and one
        of three quarters: both learn the same map, because its rank stays below 0.75. Right: eigenvalues of the trained map S
        (histogram: trained, line: theory, grey: target without its zeros) at the four marked sample ratios: a bulk of noise
        and signal first, the signal apart from the noise at the end. κ₀ = 0.5, Δ = 0.5, T = 2, λ = 0.01;
        training with d = {size["dim"]}, {size["seeds"]} seeds."""
    return Drawing(picture=picture, caption=caption, pairs=pairs)
