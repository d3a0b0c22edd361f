"""Sequences of 2, 3 and 5 tokens fall on one curve in the right units."""

from dataclasses import replace
from typing import Any

from onehead.figures.agreement import compare
from onehead.figures.calls import name
from onehead.figures.drawing import curves, plain_ticks, where
from onehead.figures.lab import Lab
from onehead.figures.registry import Drawing
from onehead.plot.style import finish, panels
from onehead.sweep import Table

TOKENS = (2, 3, 5)
POWER = 1.5  # Q0 = 1 + κ₀ of the target


def informative(tokens: int) -> float:
    """Combinations of logits that a sample of T tokens tells about, (T² + T - 2)/2."""
    return 0.5 * (tokens**2 + tokens - 2)


def draw(lab: Lab) -> Drawing:
    """Distance to the target against α (left) and against α (T² + T - 2)/2 (right)."""
    units = lab.pick(
        (0.09, 0.12, 0.18, 0.25, 0.36, 0.45),
        (0.06, 0.075, 0.09, 0.105, 0.12, 0.15, 0.18, 0.21, 0.25, 0.3, 0.33, 0.36, 0.4, 0.45, 0.5, 0.6, 0.7, 1.0),
    )
    measured = lab.pick((0.12, 0.36), (0.06, 0.12, 0.25, 0.36, 0.7))
    words = ("tokens", "alpha")
    fixed = {"noise": 0.0, "weight_decay": 0.001}
    size = {**fixed, "dim": lab.pick(40, 100), "seeds": lab.pick(4, 8)}
    fine, coarse = ([(T, u / informative(T)) for T in TOKENS for u in some] for some in (units, measured))
    predicted = where(lab.theory("theory", "aim.predict", {words: fine}, fixed))
    theory = _in_units([{**row, "distance": POWER + row["q"] - 2.0 * row["m"]} for row in predicted])
    runs = _in_units(where(lab.train("trained", name("distance"), {words: coarse}, size)))
    lab.add("distance, theory", **{key: [row[key] for row in theory] for key in (*words, "distance")})

    picture, (left, right) = panels(1, 2, width=4.6)
    labels = {tokens: f"T = {tokens}" for tokens in TOKENS}
    curves(left, theory, runs, "alpha", "distance", "tokens", labels)
    curves(right, theory, runs, "units", "distance", "tokens", labels)
    y, look = "distance |S - S*|²/d", {"log": "x", "ylim": (0.0, None)}
    finish(left, r"$\alpha = n/d^2$", y, "κ₀ = 0.5, Δ = 0, λ = 0.001", legend="upper right", **look)
    finish(right, r"$\alpha\,(T^2+T-2)/2$", y, "in units of informative logits", legend=None, **look)
    plain_ticks(right, lab.pick((0.1, 0.2, 0.3, 0.4), (0.06, 0.1, 0.2, 0.4, 0.7, 1.0)))
    caption = f"""Squared distance between the trained and the target map for sequences of 2, 3 and 5 tokens. Left: longer
        sequences need fewer samples. Right: a sample tells (T² + T - 2)/2 numbers about the map, and counted in these the
        curves collapse as long as labels can be fitted exactly. κ₀ = 0.5, Δ = 0, λ = 0.001;
        training with d = {size["dim"]}, {size["seeds"]} seeds."""
    pairs = [replace(pair, quantity="distance to the target") for pair in compare(theory, runs, words, ("distance",))]
    return Drawing(picture=picture, caption=caption, pairs=pairs)


def _in_units(rows: list[dict[str, Any]]) -> Table:
    """The rows with α counted in informative logits as well."""
    return Table([{**row, "units": informative(row["tokens"]) * row["alpha"]} for row in rows])
