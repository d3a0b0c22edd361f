"""Test error over the rates of the first gradient step, which decide whether the query points towards the signal."""

import numpy as np

from onehead.figures.agreement import compare
from onehead.figures.data_source import DataSource
from onehead.figures.drawing import line, marks, rows_with
from onehead.figures.registry import Drawing
from onehead.plot.style import GREY, TEXT, finish_panel, guide, panels

TASK = {"strength": 4.0, "positive_rate": 0.2, "alpha0": 2.0, "alpha1": 2.0, "ridge": 1e-3, "beta": 10.0}


def draw(source: DataSource) -> Drawing:
    """Draw the test error over both rates, and a cut with training."""
    from matplotlib.patches import Patch

    rates = source.pick(np.linspace(0.0, 8.0, 11), np.linspace(0.0, 8.0, 25)).tolist()
    readout = source.pick(np.geomspace(0.1, 3.0, 6), np.geomspace(0.1, 3.0, 11)).tolist()
    table = source.theory("landscape", "sparse.predict", {"eta_w": readout, "eta_b": rates}, TASK)
    measured = (0.0, 0.8, 1.6, 2.4, 4.0, 6.4)
    cut = source.theory("cut", "sparse.predict", {"eta_b": sorted({*rates, *measured})}, TASK)
    pooled = source.theory("pooled", "sparse.predict", {"model": ["pooled"]}, TASK)[0]
    size = {**TASK, "dim": source.pick(400, 1000), "trials": source.pick(12, 24)}
    runs = source.train("trained", "sparse.train", {"eta_b": measured}, size)

    picture, (left, right) = panels(1, 2, width=4.9, height=3.9)
    shape = (len(readout), len(rates))
    error = table.column("test_error").reshape(shape)
    cosine = table.column("cos_query").reshape(shape)
    mesh = left.contourf(rates, readout, error, levels=16, cmap="viridis_r")
    picture.colorbar(mesh, ax=left, label="test error of attention")
    left.contourf(rates, readout, cosine, levels=[-1.0, 0.0], colors="none", hatches=["///"])
    left.contour(rates, readout, cosine, levels=[0.0], colors="white", linewidths=1.6)
    left.contour(rates, readout, error, levels=[pooled["test_error"]], colors="black", linestyles="--", linewidths=1.3)
    left.legend(
        handles=[
            Patch(facecolor="none", edgecolor=TEXT, hatch="///", label="anti-aligned"),
            Patch(facecolor="none", edgecolor="black", ls="--", label="as good as pooled"),
        ],
        loc="upper right",
        fontsize=7.8,
        framealpha=0.9,
        edgecolor="none",
    )
    finish_panel(left, r"bias rate $\eta_b$", r"readout rate $\eta_w$", "rare positives, π = 0.2", log="y", legend=None)
    left.set_yticks([0.1, 0.3, 1.0, 3.0], ["0.1", "0.3", "1", "3"])
    left.minorticks_off()
    line(right, rows_with(cut), "eta_b", "cos_query", "cosine of the query, theory")
    line(right, rows_with(cut), "eta_b", "test_error", "test error, theory", 1)
    marks(right, rows_with(runs), "eta_b", "cos_query", "cosine, trained")
    marks(right, rows_with(runs), "eta_b", "test_error", "test error, trained", 1)
    right.axhline(0.0, color=GREY, lw=0.7)
    guide(right, y=pooled["test_error"], text="test error, pooled")
    finish_panel(right, r"bias rate $\eta_b$", "cosine, test error", r"cut at $\eta_w = 0.5$", legend="upper left")
    caption = f"""With rare positives a small bias rate in the first gradient step makes the query point away from the
        signal (hatched), and attention is then worse than pooling (left of the dashed line); a rate near 4.6 balances
        the classes and halves the error of pooling. L = 10, R = 1, θ = 4, π = 0.2, α₀ = α₁ = 2, β = 10, logistic loss,
        ridge 1e-3; training with d = {size["dim"]}, {size["trials"]} trials."""
    pairs = compare(cut, runs, ("eta_b",), ("cos_query", "test_error"))
    return Drawing(picture=picture, caption=caption, pairs=pairs)
