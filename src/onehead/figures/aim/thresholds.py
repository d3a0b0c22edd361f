"""Thresholds against the width of the target, with the Bayes-optimal line."""

from onehead.figures.data_source import DataSource
from onehead.figures.drawing import line, rows_with
from onehead.figures.registry import Drawing
from onehead.plot.style import ACCENT, ALPHA_LABEL, BEST, GREY, finish_panel, panels

NOISES = (0.0, 0.01, 0.1, 0.5, 1.0)


def draw(source: DataSource) -> Drawing:
    """Draw the interpolation thresholds for five noises and for direct training, and two thresholds of recovery."""
    count = source.pick(18, 80)
    table = source.theory("theory", "aim.thresholds", {"noise": NOISES, "kappa0": f"log:0.01:3:{count}"})
    picture, (axes,) = panels(1, 1, width=6.4, height=4.4)
    for k, noise in enumerate(NOISES):
        line(axes, rows_with(table, noise=noise), "kappa0", "interpolation", f"interpolation, Δ = {noise:g}", k)
    rows = rows_with(table, noise=0.0)
    looks = {
        "recovery": ("perfect recovery, Δ = 0, λ → 0", ACCENT, "-"),
        "bayes_optimal": ("Bayes-optimal recovery, Δ = 0", BEST, (0, (1, 1))),
        "direct": ("direct training, interpolation", GREY, "--"),
    }
    for column, (label, colour, dash) in looks.items():
        line(axes, rows, "kappa0", column, label, color=colour, ls=dash, lw=1.6)
    finish_panel(axes, "width of the target, κ₀", ALPHA_LABEL, "T = 2", log="x")
    axes.set_ylim(0.0, 0.28)
    caption = """Sample ratios at which behaviour changes, against the width κ₀ of the target. Below the blue lines
        labels can be fitted exactly as λ → 0; noise lowers them. Without noise a factorised head recovers the target
        from the green line on, far below direct training when κ₀ is small and close to the best possible learner
        (black, which knows the spectrum of the target). Theory alone."""
    return Drawing(picture=picture, caption=caption)
