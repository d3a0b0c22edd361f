"""Collapse of the curves for 2, 3 and 5 tokens in units of informative logits."""

from dataclasses import replace
from typing import Any

from onehead.figures.agreement import compare
from onehead.figures.data_source import DataSource
from onehead.figures.drawing import curves, plain_ticks, rows_with
from onehead.figures.registry import Drawing
from onehead.figures.sweep_calls import call_name
from onehead.plot.style import finish_panel, panels
from onehead.sweep import Table

TOKENS = (2, 3, 5)
TARGET_POWER = 1.5  # Q₀ = 1 + κ₀


def informative(tokens: int) -> float:
    """Return the number of combinations of logits that a sample of T tokens determines, (T² + T - 2)/2."""
    return 0.5 * (tokens**2 + tokens - 2)


def draw(source: DataSource) -> Drawing:
    """Draw the distance to the target against α and against α (T² + T - 2)/2."""
    units = source.pick(
        (0.09, 0.12, 0.18, 0.25, 0.36, 0.45),
        (0.06, 0.075, 0.09, 0.105, 0.12, 0.15, 0.18, 0.21, 0.25, 0.3, 0.33, 0.36, 0.4, 0.45, 0.5, 0.6, 0.7, 1.0),
    )
    measured = source.pick((0.12, 0.36), (0.06, 0.12, 0.25, 0.36, 0.7))
    names = ("tokens", "alpha")
    fixed = {"noise": 0.0, "weight_decay": 0.001}
    size = {**fixed, "dim": source.pick(40, 100), "seeds": source.pick(4, 8)}
    fine, coarse = ([(T, u / informative(T)) for T in TOKENS for u in some] for some in (units, measured))
    predicted = rows_with(source.theory("theory", "aim.predict", {names: fine}, fixed))
    theory = _in_units([{**row, "distance": TARGET_POWER + row["q"] - 2.0 * row["m"]} for row in predicted])
    runs = _in_units(rows_with(source.train("trained", call_name("distance"), {names: coarse}, size)))
    source.add("distance, theory", **{key: [row[key] for row in theory] for key in (*names, "distance")})

    picture, (left, right) = panels(1, 2, width=4.6)
    labels = {tokens: f"T = {tokens}" for tokens in TOKENS}
    curves(left, theory, runs, "alpha", "distance", "tokens", labels)
    curves(right, theory, runs, "units", "distance", "tokens", labels)
    y, look = "distance |S - S*|²/d", {"log": "x", "ylim": (0.0, None)}
    finish_panel(left, r"$\alpha = n/d^2$", y, "κ₀ = 0.5, Δ = 0, λ = 0.001", legend="upper right", **look)
    finish_panel(right, r"$\alpha\,(T^2+T-2)/2$", y, "in units of informative logits", legend=None, **look)
    plain_ticks(right, source.pick((0.1, 0.2, 0.3, 0.4), (0.06, 0.1, 0.2, 0.4, 0.7, 1.0)))
    caption = f"""Squared distance between the trained and the target map for sequences of 2, 3 and 5 tokens. Left:
        longer sequences need fewer samples. Right: a sample gives (T² + T - 2)/2 numbers about the map, and in units of
        these the curves collapse as long as labels can be fitted exactly. κ₀ = 0.5, Δ = 0, λ = 0.001; training with d =
        {size["dim"]}, {size["seeds"]} seeds."""
    pairs = [replace(pair, quantity="distance to the target") for pair in compare(theory, runs, names, ("distance",))]
    return Drawing(picture=picture, caption=caption, pairs=pairs)


def _in_units(rows: list[dict[str, Any]]) -> Table:
    """Return the rows with α in units of informative logits as a further column."""
    return Table([{**row, "units": informative(row["tokens"]) * row["alpha"]} for row in rows])
