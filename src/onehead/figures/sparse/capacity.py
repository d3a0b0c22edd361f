"""Largest separable sample ratio against alignment and sharpness of the query."""

from onehead.figures.agreement import Pair, pair
from onehead.figures.data_source import DataSource
from onehead.figures.drawing import plain_ticks, rows_with
from onehead.figures.registry import Drawing
from onehead.figures.sweep_calls import call_name
from onehead.plot.style import finish_panel, guide, panels, theory_line, training_marks

TASK = {"length": 10, "signal_tokens": 1, "strength": 3.0, "positive_rate": 0.5}
SHARPNESS = (0.5, 1.0, 2.0, 4.0)


def draw(source: DataSource) -> Drawing:
    """Draw the capacity against the cosine for four sharpnesses, and against sharpness for three cosines."""
    cosines = source.pick((-0.5, -0.2, 0.0, 0.15, 0.3, 0.5, 0.7, 0.85, 0.95), tuple(-0.6 + 0.1 * i for i in range(16)))
    chosen = (0.0, 0.5, 0.85)
    fine = source.pick((0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0), (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6))
    left_settings = [(s, k) for k in SHARPNESS for s in cosines]
    right_settings = [(s, k) for s in chosen for k in fine]
    names = ("cos_query", "sharpness")
    theory = source.theory(
        "theory", "sparse.capacity", {names: list(dict.fromkeys(left_settings + right_settings))}, TASK
    )
    ratio = {(row["cos_query"], row["sharpness"]): row["attention"] for row in rows_with(theory)}
    measured = source.pick(
        [(0.0, 1.0), (0.5, 1.0), (0.85, 1.0), (0.5, 4.0), (0.85, 4.0)],
        [(s, k) for s in chosen for k in (0.5, 1.0, 2.0, 4.0)],
    )
    settings = [(*point, round(ratio[point], 6)) for point in measured if point in ratio]
    size = {**TASK, "dim": source.pick(80, 120), "trials": source.pick(16, 24)}
    runs = source.train("linear programming", call_name("separable_crossing"), {(*names, "near"): settings}, size)

    picture, (left, right) = panels(1, 2, width=4.7, height=3.8)
    for k, sharpness in enumerate(SHARPNESS):
        solved = [s for s in cosines if (s, sharpness) in ratio]
        theory_line(left, solved, [ratio[s, sharpness] for s in solved], f"attention, κ = {sharpness:g}", k)
    for k, cosine in enumerate(chosen):
        solved = [sharp for sharp in fine if (cosine, sharp) in ratio]
        theory_line(right, solved, [ratio[cosine, sharp] for sharp in solved], f"attention, cosine {cosine:g}", k)
    pairs: list[Pair] = []
    for run in rows_with(runs):
        point = (run["cos_query"], run["sharpness"])
        label = None if pairs else f"linear programming, d = {size['dim']}"
        value, error = [run["capacity"]], [run["capacity_err"]]
        training_marks(left, [point[0]], value, error, label, SHARPNESS.index(point[1]))
        training_marks(right, [point[1]], value, error, None, chosen.index(point[0]))
        setting = f"cos_query {point[0]:g}, sharpness {point[1]:g}"
        pairs.append(pair(run, "capacity", setting, ratio[point], run["capacity"], run["capacity_err"]))
    pooled = float(theory[0]["pooled"])
    for axes in (left, right):
        guide(axes, y=pooled, text="pooled", at=0.12)
    samples = "largest separable n/d"
    finish_panel(
        left, "cosine of query and signal", samples, "against alignment", ylim=(0.0, None), legend="upper left"
    )
    finish_panel(right, "sharpness κ", samples, "against sharpness", log="x", ylim=(0.0, None), legend="upper left")
    plain_ticks(right, (0.25, 0.5, 1.0, 2.0, 4.0))
    top = max(left.get_ylim()[1], right.get_ylim()[1])
    for axes in (left, right):
        axes.set_ylim(1.5, 1.18 * top)
    caption = f"""Largest number of samples over dimension that the readout separates, for a query with a given cosine
        with the signal and a given sharpness; the vectorised model separates {float(theory[0]["vectorised"]):.1f}, ten
        times as many as pooling. Markers: the ratio at which half of finite samples are separable, by linear
        programming. A conjecture of the paper. L = 10, R = 1, θ = 3, π = 0.5; d = {size["dim"]}, {size["trials"]}
        trials at five ratios each."""
    return Drawing(picture=picture, caption=caption, pairs=pairs)
