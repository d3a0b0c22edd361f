"""Tokens that fill their dimensions unevenly: test error and rank for three covariances."""

import numpy as np

from onehead.figures.agreement import compare
from onehead.figures.data_source import DataSource
from onehead.figures.drawing import curves
from onehead.figures.registry import Drawing
from onehead.plot.style import finish_panel, panels

SPECTRA = {
    "isotropic": "isotropic",
    "levels:0.3,0.1": "30 % of the variances 1, the others 0.1",
    "subspace:0.5": "a subspace of half the dimensions",
}
HEAD = {"target": "product", "kappa0": 0.5, "noise": 0.5, "attention": "cross", "weight_decay": 0.05}
PARAMETERS = ("param", "token_spectrum", "alpha")
PANELS = {
    ("factorised", "test_error"): "factorised training",
    ("direct", "test_error"): "direct training",
    ("factorised", "rank"): "factorised training",
}


def draw(source: DataSource) -> Drawing:
    """Draw the test error of both parametrisations, and the rank."""
    measured = (0.3, 1.0)
    grid = sorted({*np.geomspace(0.1, 4.0, 40).tolist(), *measured})
    size = {**HEAD, "dim": 40, "seeds": 2, "starts": 1}
    ways = ("factorised", "direct")
    theory = source.theory(
        "theory", "aim.predict", {PARAMETERS: [(way, c, a) for way in ways for c in SPECTRA for a in grid]}, HEAD
    )
    runs = source.train(
        "trained", "aim.train", {PARAMETERS: [(way, c, a) for way in ways for c in SPECTRA for a in measured]}, size
    )
    picture, found = panels(1, 3, width=4.0)
    for axes, ((way, quantity), title) in zip(found, PANELS.items(), strict=True):
        curves(axes, theory, runs, "alpha", quantity, "token_spectrum", SPECTRA, only={"param": way})
        legend = "lower right" if quantity == "rank" else "lower left"
        finish_panel(axes, r"$\alpha$", quantity.replace("_", " "), title, log="x", ylim=(0.0, None), legend=legend)
    caption = f"""Test error and rank of heads whose tokens have a covariance with eigenvalues of mean one, for queries
        and keys. Direct training and the subspace are exact; two levels with factorised training are solved by
        expectation consistency, which is within 2 % of the exact test error. Uneven tokens have fewer directions in
        which noise is learned: the error falls faster, and fewer directions are kept. κ₀ = 0.5, Δ = 0.5, T = 2, λ =
        0.05; cross-attention; training with d = {size["dim"]}, {size["seeds"]} seeds."""
    pairs = compare(theory, runs, PARAMETERS, ("test_error", "train_loss", "rank"))
    return Drawing(picture=picture, caption=caption, pairs=pairs)
