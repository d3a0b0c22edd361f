"""The largest dataset that can be separated, against alignment and sharpness of the query."""

from onehead.figures.agreement import Pair, pair
from onehead.figures.calls import name
from onehead.figures.drawing import plain_ticks, where
from onehead.figures.lab import Lab
from onehead.figures.registry import Drawing
from onehead.plot.style import finish, guide, panels, theory_line, training_marks

TASK = {"length": 10, "signal_tokens": 1, "strength": 3.0, "positive_rate": 0.5}
SHARPNESS = (0.5, 1.0, 2.0, 4.0)


def draw(lab: Lab) -> Drawing:
    """Capacity against the cosine for four sharpnesses, and against sharpness for three cosines."""
    cosines = lab.pick((-0.5, -0.2, 0.0, 0.15, 0.3, 0.5, 0.7, 0.85, 0.95), tuple(-0.6 + 0.1 * i for i in range(16)))
    chosen = (0.0, 0.5, 0.85)
    fine = lab.pick((0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0), (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6))
    left_places = [(s, k) for k in SHARPNESS for s in cosines]
    right_places = [(s, k) for s in chosen for k in fine]
    words = ("cos_query", "sharpness")
    theory = lab.theory("theory", "sparse.capacity", {words: list(dict.fromkeys(left_places + right_places))}, TASK)
    ratio = {(row["cos_query"], row["sharpness"]): row["attention"] for row in where(theory)}
    spots = lab.pick(
        [(0.0, 1.0), (0.5, 1.0), (0.85, 1.0), (0.5, 4.0), (0.85, 4.0)],
        [(s, k) for s in chosen for k in (0.5, 1.0, 2.0, 4.0)],
    )
    places = [(*spot, round(ratio[spot], 6)) for spot in spots if spot in ratio]
    size = {**TASK, "dim": lab.pick(80, 120), "trials": lab.pick(16, 24)}
    runs = lab.train("linear programming", name("separable_crossing"), {(*words, "near"): places}, size)

    picture, (left, right) = panels(1, 2, width=4.7, height=3.8)
    for k, sharpness in enumerate(SHARPNESS):
        there = [s for s in cosines if (s, sharpness) in ratio]
        theory_line(left, there, [ratio[s, sharpness] for s in there], f"attention, κ = {sharpness:g}", k)
    for k, cosine in enumerate(chosen):
        there = [sharp for sharp in fine if (cosine, sharp) in ratio]
        theory_line(right, there, [ratio[cosine, sharp] for sharp in there], f"attention, cosine {cosine:g}", k)
    pairs: list[Pair] = []
    for run in where(runs):
        spot = (run["cos_query"], run["sharpness"])
        first = None if pairs else f"linear programming, d = {size['dim']}"
        value, error = [run["capacity"]], [run["capacity_err"]]
        training_marks(left, [spot[0]], value, error, first, SHARPNESS.index(spot[1]))
        training_marks(right, [spot[1]], value, error, None, chosen.index(spot[0]))
        place = f"cos_query {spot[0]:g}, sharpness {spot[1]:g}"
        pairs.append(pair(run, "capacity", place, ratio[spot], run["capacity"], run["capacity_err"]))
    pooled = float(theory[0]["pooled"])
    for axes in (left, right):
        guide(axes, y=pooled, text="pooled", at=0.12)
    samples = "largest separable n/d"
    finish(left, "cosine of query and signal", samples, "against alignment", ylim=(0.0, None), legend="upper left")
    finish(right, "sharpness κ", samples, "against sharpness", log="x", ylim=(0.0, None), legend="upper left")
    plain_ticks(right, (0.25, 0.5, 1.0, 2.0, 4.0))
    top = max(left.get_ylim()[1], right.get_ylim()[1])
    for axes in (left, right):
        axes.set_ylim(1.5, 1.18 * top)
    caption = f"""Largest number of samples over dimension that the readout separates, for a query with a given cosine with the
        signal and a given sharpness; the vectorised model separates {float(theory[0]["vectorised"]):.1f}, ten times as many as
        pooling. Markers: the ratio at which half of finite samples are separable, by linear programming. A conjecture of the
        paper. L = 10, R = 1, θ = 3, π = 0.5; d = {size["dim"]}, {size["trials"]} trials at five ratios each."""
    return Drawing(picture=picture, caption=caption, pairs=pairs)
