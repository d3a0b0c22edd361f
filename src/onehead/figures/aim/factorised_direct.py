"""Figure 2 of the attention-indexed model: factorised against direct training, each at its best weight decay."""

from onehead.figures.agreement import compare
from onehead.figures.data_source import DataSource
from onehead.figures.drawing import curves, density, plain_ticks, rows_with
from onehead.figures.registry import Drawing
from onehead.figures.sweep_calls import call_name
from onehead.plot.style import ALPHA_LABEL, finish_panel, histogram, panels

TASK = {"kappa0": 0.05, "noise": 0.05}
RATIOS = (0.1, 0.15, 0.25, 0.4, 0.6)
MEASURED = (0.1, 0.25, 0.6)
SPECTRUM_ALPHA = 0.25
LABELS = {"factorised": "factorised, S = W'W", "direct": "direct, S itself"}


def draw(source: DataSource) -> Drawing:
    """Draw the test error against α at the best λ, and the two spectra at one α."""
    alphas = source.pick(RATIOS, (0.05, 0.07, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8))
    best = source.theory("theory", call_name("best_decay"), {"param": list(LABELS), "alpha": alphas}, TASK)
    settings = [
        (row["param"], row["alpha"], row["weight_decay"])
        for row in rows_with(best)
        if row["weight_decay"] > 0.0 and row["alpha"] in MEASURED
    ]
    size = {**TASK, "dim": source.pick(60, 100), "seeds": source.pick(4, 8), "starts": 1}
    names = ("param", "alpha", "weight_decay")
    runs = source.train("trained", "aim.train", {names: settings}, size)
    shown = [setting for setting in settings if setting[1] == SPECTRUM_ALPHA]
    laws = source.theory("spectra", "aim.spectrum", {names: shown}, TASK)

    picture, (left, right) = panels(1, 2, width=4.6)
    curves(left, best, runs, "alpha", "test_error", "param", LABELS)
    finish_panel(left, ALPHA_LABEL, "test error at the best λ", "κ₀ = 0.05, Δ = 0.05", log="xy")
    plain_ticks(left, RATIOS)
    for k, param in enumerate(LABELS):
        for i, row in enumerate(laws):
            if row["param"] != param:
                continue
            density(source, right, laws, i, LABELS[param], param, k)
            if runs is not None and param == "direct":
                index = next(
                    i for i, run in enumerate(runs) if run["param"] == param and run["alpha"] == SPECTRUM_ALPHA
                )
                values = runs.arrays(index)["eigenvalues"]
                histogram(right, values, bins=40, label="direct, trained")
                source.add("eigenvalues, trained, direct", eigenvalue=sorted(values))
    finish_panel(
        right, "eigenvalue of S", "density", f"spectra at α = {SPECTRUM_ALPHA:g}", ylim=(0.0, 1.6), legend="upper right"
    )
    right.set_xlim(-1.0, 5.0)
    caption = f"""Weight decay on the factors W of S = W'W acts as a nuclear norm and finds a target of small rank from
        far fewer samples than weight decay on S itself, each at the λ with the lowest predicted test error. Right:
        direct training keeps a wide bulk of noise of both signs, factorised training cuts it off. κ₀ = 0.05, Δ = 0.05,
        T = 2; training with d = {size["dim"]}, {size["seeds"]} seeds at the predicted λ."""
    pairs = compare(best, runs, ("param", "alpha"), ("test_error", "train_loss"))
    return Drawing(picture=picture, caption=caption, pairs=pairs)
