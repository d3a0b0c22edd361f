"""The best weight decay against α for both parameterisations, and how sharp the optimum is."""

from onehead.figures.agreement import compare
from onehead.figures.aim.factorised_direct import LABELS, RATIOS, SPECTRUM_ALPHA, TASK
from onehead.figures.data_source import DataSource
from onehead.figures.drawing import curves, plain_ticks, rows_with
from onehead.figures.registry import Drawing
from onehead.figures.sweep_calls import call_name
from onehead.plot.style import ALPHA_LABEL, OPTIMUM, finish_panel, panels


def draw(source: DataSource) -> Drawing:
    """Draw the best λ against α, and the test error against λ at one α."""
    alphas = source.pick(RATIOS, (0.05, 0.07, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8))
    best = source.theory("best", call_name("best_decay"), {"param": list(LABELS), "alpha": alphas}, TASK)
    decays = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.015, 0.03, 0.06, 0.12)
    fixed = {**TASK, "alpha": SPECTRUM_ALPHA}
    theory = source.theory("theory", "aim.predict", {"param": list(LABELS), "weight_decay": decays}, fixed)
    size = {**fixed, "dim": source.pick(60, 100), "seeds": source.pick(4, 8), "starts": 1}
    runs = source.train("trained", "aim.train", {"param": list(LABELS), "weight_decay": decays[1::2]}, size)

    picture, (left, right) = panels(1, 2, width=4.6)
    curves(left, best, None, "alpha", "weight_decay", "param", LABELS, marker=".")
    finish_panel(left, ALPHA_LABEL, "best weight decay λ", "κ₀ = 0.05, Δ = 0.05", log="xy")
    plain_ticks(left, RATIOS)
    curves(right, theory, runs, "weight_decay", "test_error", "param", LABELS)
    for k, row in enumerate(rows_with(best, alpha=SPECTRUM_ALPHA)):
        label = "best, theory" if k == 0 else None
        right.plot([row["weight_decay"]], [row["test_error"]], "*", color=OPTIMUM, ms=9, zorder=6, label=label)
    finish_panel(right, "weight decay λ", "test error", f"α = {SPECTRUM_ALPHA:g}", log="xy", legend="center right")
    caption = f"""Left: the weight decay with the lowest predicted test error. Right: test error against λ at α =
        {SPECTRUM_ALPHA:g}; a wrong λ costs factorised training less than a factor of two, and direct training does not
        come close at any λ. κ₀ = 0.05, Δ = 0.05, T = 2; training with d = {size["dim"]}, {size["seeds"]} seeds."""
    pairs = compare(theory, runs, ("param", "weight_decay"), ("test_error", "train_loss"))
    return Drawing(picture=picture, caption=caption, pairs=pairs)
