"""Length generalisation: trained on short sequences, tested on longer ones."""

from onehead.figures.agreement import compare
from onehead.figures.drawing import curves, where
from onehead.figures.lab import Lab
from onehead.figures.registry import Drawing
from onehead.plot.style import finish, panels

SERIES = {("attention", 10): "attention, trained at L = 10", ("attention", 30): "attention, trained at L = 30"}
POOLED = ("pooled", 10)


def draw(lab: Lab) -> Drawing:
    """Test error against the length of the test sequences."""
    lengths = lab.pick((3, 10, 30, 100, 300), (2, 3, 5, 10, 20, 30, 50, 100, 200, 300))
    measured = lab.pick((10, 30, 100), (3, 10, 30, 100, 300))
    plan = {"alpha0": 4.0, "alpha1": 4.0, "ridge": 1e-2}
    words = ("model", "length")
    labels = {**SERIES, POOLED: "pooled, trained at L = 10"}
    theory = lab.theory("theory", "sparse.predict", {words: list(labels), "test_length": lengths}, plan)
    size = {**plan, "dim": lab.pick(200, 500), "trials": lab.pick(10, 24)}
    runs = lab.train("trained", "sparse.train", {words: list(labels), "test_length": measured}, size)

    picture, (axes,) = panels(1, 1, width=6.2, height=4.2)
    curves(axes, theory, runs, "test_length", "test_error", words, labels)
    finish(
        axes,
        "length of the test sequences",
        "test error",
        "R = 1, θ = 5",
        log="x",
        ylim=(0.0, 0.52),
        legend="upper left",
    )
    sharp = {length: where(theory, model="attention", length=length)[0]["sharpness"] for _, length in SERIES}
    caption = f"""Test error on sequences longer or shorter than those trained on. A head trained at L = 10 (sharpness
        κ = {sharp[10]:.1f}) loses slowly, as more noise tokens compete with the signal. At the same β the two gradient steps on
        sequences of 30 give a blunter softmax (κ = {sharp[30]:.1f}), which longer sequences dilute; pooling dilutes the signal
        at once. R = 1, θ = 5, π = 0.5, logistic loss, ridge 0.01, α₀ = α₁ = 4, β = 8; training with d = {size["dim"]},
        {size["trials"]} trials."""
    pairs = compare(theory, runs, ("model", "length", "test_length"), ("test_error",))
    return Drawing(picture=picture, caption=caption, pairs=pairs)
