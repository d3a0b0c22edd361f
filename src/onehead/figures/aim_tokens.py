"""Sequences of 2, 3 and 5 tokens fall on one curve in the right units."""

from onehead.figures.agreement import pair
from onehead.figures.calls import name
from onehead.figures.drawing import plain_ticks, where
from onehead.figures.lab import Lab
from onehead.figures.registry import Drawing
from onehead.plot.style import finish, panels, theory_line, training_marks

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
    theory = lab.theory(
        "theory", "aim.predict", {words: [(T, u / informative(T)) for T in TOKENS for u in units]}, fixed
    )
    places = [(T, u / informative(T)) for T in TOKENS for u in measured]
    runs = lab.train("trained", name("distance"), {words: places}, size)

    picture, (left, right) = panels(1, 2, width=4.6)
    pairs = []
    for k, tokens in enumerate(TOKENS):
        rows, scale = where(theory, tokens=tokens), informative(tokens)
        x, y = [row["alpha"] for row in rows], [POWER + row["q"] - 2.0 * row["m"] for row in rows]
        lab.add("distance, theory", tokens=[tokens] * len(x), alpha=x, distance=y)
        for axes, factor in ((left, 1.0), (right, scale)):
            theory_line(axes, [factor * a for a in x], y, f"T = {tokens}", k)
        for run in where(runs, tokens=tokens):
            there = next(value for place, value in zip(x, y, strict=True) if abs(place - run["alpha"]) < 1e-9)
            for axes, factor in ((left, 1.0), (right, scale)):
                first = f"trained, d = {size['dim']}" if axes is left and k == 0 and run is where(runs)[0] else None
                training_marks(axes, [factor * run["alpha"]], [run["distance"]], [run["distance_err"]], first, k)
            place = f"tokens {tokens}, alpha {run['alpha']:.4g}"
            pairs.append(pair(run, "distance to the target", place, there, run["distance"], run["distance_err"]))
    finish(left, r"$\alpha = n/d^2$", "distance |S - S*|²/d", "κ₀ = 0.5, Δ = 0, λ = 0.001", log="x", ylim=(0.0, None))
    finish(
        right, r"$\alpha\,(T^2+T-2)/2$", "distance |S - S*|²/d", "in units of informative logits", log="x", legend=None
    )
    plain_ticks(right, lab.pick((0.1, 0.2, 0.3, 0.4), (0.06, 0.1, 0.2, 0.4, 0.7, 1.0)))
    right.set_ylim(0.0, None)
    caption = f"""Squared distance between the trained and the target map for sequences of 2, 3 and 5 tokens. Left: longer
        sequences need fewer samples. Right: a sample tells (T² + T - 2)/2 numbers about the map, and counted in these the
        curves collapse as long as labels can be fitted exactly. κ₀ = 0.5, Δ = 0, λ = 0.001;
        training with d = {size["dim"]}, {size["seeds"]} seeds."""
    return Drawing(picture=picture, caption=caption, pairs=pairs)
