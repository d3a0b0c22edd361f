"""Length generalisation: trained on short sequences, tested on longer ones."""

from onehead.figures.agreement import compare
from onehead.figures.data_source import DataSource
from onehead.figures.drawing import curves, rows_with
from onehead.figures.registry import Drawing
from onehead.plot.style import finish_panel, panels

SERIES = {("attention", 10): "attention, trained at L = 10", ("attention", 30): "attention, trained at L = 30"}
POOLED = ("pooled", 10)


def draw(source: DataSource) -> Drawing:
    """Draw the test error against the length of the test sequences."""
    lengths = source.pick((3, 10, 30, 100, 300), (2, 3, 5, 10, 20, 30, 50, 100, 200, 300))
    measured = source.pick((10, 30, 100), (3, 10, 30, 100, 300))
    plan = {"alpha0": 4.0, "alpha1": 4.0, "ridge": 1e-2}
    names = ("model", "length")
    labels = {**SERIES, POOLED: "pooled, trained at L = 10"}
    theory = source.theory("theory", "sparse.predict", {names: list(labels), "test_length": lengths}, plan)
    size = {**plan, "dim": source.pick(200, 500), "trials": source.pick(10, 24)}
    runs = source.train("trained", "sparse.train", {names: list(labels), "test_length": measured}, size)

    picture, (axes,) = panels(1, 1, width=6.2, height=4.2)
    curves(axes, theory, runs, "test_length", "test_error", names, labels)
    finish_panel(
        axes,
        "length of the test sequences",
        "test error",
        "R = 1, θ = 5",
        log="x",
        ylim=(0.0, 0.52),
        legend="upper left",
    )
    sharpness = {length: rows_with(theory, model="attention", length=length)[0]["sharpness"] for _, length in SERIES}
    caption = f"""Test error on sequences longer or shorter than those trained on. The error of a head trained at L = 10
        (sharpness κ = {sharpness[10]:.1f}) grows slowly, as more noise tokens compete with the signal. At the same β
        the two gradient steps on sequences of 30 give a blunter softmax (κ = {sharpness[30]:.1f}), which longer
        sequences dilute; pooling dilutes the signal at once. R = 1, θ = 5, π = 0.5, logistic loss, ridge 0.01, α₀ = α₁
        = 4, β = 8; training with d = {size["dim"]}, {size["trials"]} trials."""
    pairs = compare(theory, runs, ("model", "length", "test_length"), ("test_error",))
    return Drawing(picture=picture, caption=caption, pairs=pairs)
