"""Test error against the alignment of the query, and the alignment from which on attention is better than pooling."""

import numpy as np

from onehead.figures.agreement import compare
from onehead.figures.data_source import DataSource
from onehead.figures.drawing import marks, rows_with
from onehead.figures.registry import Drawing
from onehead.plot.style import TEXT, finish_panel, guide, panels, theory_line

SHARPNESS = (1.0, 4.0)


def draw(source: DataSource) -> Drawing:
    """Draw the test error against the cosine of query and signal, with the two linear models at the same samples."""
    measured = (-0.5, 0.0, 0.25, 0.5, 0.75, 0.95)
    fine = np.round(np.linspace(-0.6, 0.98, source.pick(14, 33)), 4).tolist()
    plan = {"alpha0": 2.0, "alpha1": 2.0, "ridge": 1e-2}
    axes = {"sharpness": SHARPNESS}
    theory = source.theory("theory", "sparse.predict", {**axes, "cos_query": sorted({*fine, *measured})}, plan)
    linear = source.theory("linear models", "sparse.predict", {"model": ["pooled", "vectorised"]}, plan)
    size = {**plan, "dim": source.pick(300, 1000), "trials": source.pick(12, 24)}
    runs = source.train("trained", "sparse.train", {**axes, "cos_query": measured}, size)

    picture, (pane,) = panels(1, 1, width=6.2, height=4.2)
    pooled, vectorised = (row["test_error"] for row in linear)
    crossings = []
    for k, sharpness in enumerate(SHARPNESS):
        rows = rows_with(theory, sharpness=sharpness)
        x, y = np.array([row["cos_query"] for row in rows]), np.array([row["test_error"] for row in rows])
        theory_line(pane, x, y, f"attention, sharpness κ = {sharpness:g}", k)
        order = np.argsort(x)
        below = np.nonzero(y[order] < pooled)[0]
        if below.size and below[0] > 0:
            i = below[0]
            a, b, ya, yb = x[order][i - 1], x[order][i], y[order][i - 1], y[order][i]
            crossings.append(float(a + (b - a) * (ya - pooled) / (ya - yb)))
            pane.plot([crossings[-1]], [pooled], "X", color=TEXT, ms=7, zorder=6, label=None if k else "crossing")
        label = None if k else f"trained, d = {size['dim']}"
        marks(pane, rows_with(runs, sharpness=sharpness), "cos_query", "test_error", label, k)
    guide(pane, y=pooled, text="pooled")
    guide(pane, y=vectorised, text="vectorised")
    source.add("crossing with pooled", sharpness=SHARPNESS[: len(crossings)], cos_query=crossings)
    finish_panel(
        pane,
        "cosine of query and signal",
        "test error",
        "L = 10, R = 1, θ = 5, α₁ = 2",
        ylim=(0.0, None),
        legend="lower left",
    )
    cosines = " and ".join(f"{value:.2f}" for value in crossings)
    caption = f"""Test error of attention whose query has a given cosine with the signal. With a query that points away
        from the signal, attention selects the wrong tokens and is worse than pooling, which uses all of them; it is
        better from a cosine of {cosines} on (crosses). L = 10, R = 1, θ = 5, π = 0.5, logistic loss, ridge 0.01, α₁ = 2
        for the readout, and α = 4, all samples, for the linear models; training with d = {size["dim"]},
        {size["trials"]} trials."""
    pairs = compare(theory, runs, ("cos_query", "sharpness"), ("test_error", "train_loss"))
    return Drawing(picture=picture, caption=caption, pairs=pairs)
