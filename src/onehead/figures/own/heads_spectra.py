"""Singular values of trained untied heads and their laws: cross-attention, causal self-attention, hard labels."""

from typing import TYPE_CHECKING

import numpy as np

from onehead.figures.agreement import compare, ks_distance
from onehead.figures.data_source import DataSource
from onehead.figures.drawing import ZERO_RATIO, density, target_density
from onehead.figures.registry import Drawing
from onehead.plot.style import TARGET_FILL, TEXT, finish_panel, histogram, panels
from onehead.sweep import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PARAMETERS = ("attention", "mask", "labels", "loss", "alpha", "weight_decay")
HEADS = {
    "cross-attention": ("cross", "none", "soft", "squared", 1.0, 0.05),
    "causal self-attention": ("self", "causal", "soft", "squared", 2.0, 0.02),
    "cross-attention, hard labels": ("cross", "none", "hard", "cross-entropy", 2.0, 0.1),
}
KAPPA0 = 0.5


def draw(source: DataSource) -> Drawing:
    """Draw one panel per head."""
    settings = list(HEADS.values())
    size = {"kappa0": KAPPA0, "dim": source.pick(40, 100), "seeds": source.pick(4, 6), "starts": 1}
    laws = source.theory("spectra", "aim.spectrum", {PARAMETERS: settings}, {"kappa0": KAPPA0})
    runs = source.train("trained", "aim.train", {PARAMETERS: settings}, size)

    picture, found = panels(1, 3, width=3.8, height=3.6)
    for i, (axes, name) in enumerate(zip(found, HEADS, strict=True)):
        _panel(source, axes, laws, runs, i, name)
    caption = f"""Singular values of the trained map S that are not zero (histogram: trained, line: theory, grey: target
        without its zeros), and the share of zeros, which is the mass missing from one in theory and histogram. KS is
        the Kolmogorov-Smirnov distance, the largest difference between the shares of trained and of predicted singular
        values below any value, zeros included. Hard labels, one token sampled from the target's attention, contain
        little information on it, so the bulk of noise is wide. κ₀ = 0.5, Δ = 0.5, T = 2; α = 1, λ = 0.05 and α = 2, λ =
        0.02 with the squared loss, α = 2, λ = 0.1 with cross-entropy; training with d = {size["dim"]}, {size["seeds"]}
        seeds."""
    pairs = compare(laws, runs, PARAMETERS, ("test_error", "train_loss", "rank"))
    return Drawing(picture=picture, caption=caption, pairs=pairs)


def _panel(source: DataSource, axes: "Axes", laws: Table, runs: Table | None, i: int, name: str) -> None:
    """Draw law, histogram and target of one head."""
    from onehead.aim.targets import Product

    law, arrays = laws[i], laws.arrays(i)
    axes.fill_between(*target_density(Product(kappa0=KAPPA0)), color=TARGET_FILL, lw=0.0, label="target", zorder=0)
    zeros = f"zeros: {law['zero_mass']:.0%}"
    if runs is not None and runs[i]["state"] == "done":
        values = np.sort(runs.arrays(i)["eigenvalues"])
        values[values <= ZERO_RATIO * values[-1]] = 0.0
        nonzero = values[values > 0.0]
        histogram(axes, nonzero, share=nonzero.size / values.size, bins=24, label=f"trained, d = {runs[i]['dim']}")
        zeros += f" ({1.0 - nonzero.size / values.size:.0%} trained)"
        distance = ks_distance(arrays["x"], arrays["density"], law["zero_mass"], values)
        zeros += f"\nKS = {distance:.3f}"
        source.add(f"singular values, trained, {name}", singular_value=values)
    density(source, axes, laws, i, "theory", name, value="singular_value")
    top = 1.6 * max(float(arrays["density"].max()), 0.3)
    finish_panel(axes, "singular value of S", "density" if i == 0 else "", name, ylim=(0.0, top), legend="upper right")
    axes.set_xlim(0.0, None)
    axes.text(0.98, 0.72, zeros, transform=axes.transAxes, ha="right", va="top", fontsize=7.8, color=TEXT)
