"""Long sequences: where the signal cannot be found, where it is hard to find, and where it is easy."""

from typing import TYPE_CHECKING

import numpy as np

from onehead.figures.agreement import pair
from onehead.figures.data_source import DataSource
from onehead.figures.drawing import line, marks, rows_with
from onehead.figures.registry import Drawing
from onehead.plot.style import ACCENT, BEST, GREY, PALE_BLUE, TEXT, THEORY, finish_panel, guide, panels
from onehead.sweep import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LENGTH, STRENGTH = 300, 8.0  # of the learning curve whose two branches are measured
STARTS = {"truth": "sampled posterior, started at the signal", "uninformed": "sampled posterior, started at random"}


def draw(source: DataSource) -> Drawing:
    """Draw the phases over length and over strength, and both branches of one hard phase."""
    lengths = np.unique(np.round(np.geomspace(20, 1e5, source.pick(16, 40))).astype(int)).tolist()
    strengths = np.linspace(4.0, 12.0, source.pick(17, 49)).tolist()
    by_length = source.theory("phases over length", "sparse.bayes", {"length": lengths}, {"strength": STRENGTH})
    by_strength = source.theory("phases over strength", "sparse.bayes", {"strength": strengths}, {"length": 1000})
    long = {"length": LENGTH, "strength": STRENGTH}
    curve = source.theory("theory", "sparse.bayes", {"alpha": f"log:0.006:0.2:{source.pick(60, 160)}"}, long)
    size = {**long, "method": "gibbs", "dim": source.pick(400, 800), "trials": source.pick(4, 8), "iterations": 150}
    measured = source.pick((0.025, 0.035), (0.025, 0.03, 0.035, 0.04))
    axes = {"start": list(STARTS), "alpha": measured}
    runs = source.train("sampled posterior", "sparse.amp", axes, size)

    picture, panes = panels(1, 3, width=4.0, height=3.7)
    _phases(panes[0], by_length, "length", "sequence length L", f"θ = {STRENGTH:g}", "xy")
    _phases(panes[1], by_strength, "strength", "strength of the signal θ", "L = 1000", "y")
    _branches(panes[2], curve, runs)
    handles, labels = panes[0].get_legend_handles_labels()
    panes[0].legend(handles, labels, loc="upper left", frameon=False, fontsize=7.5)
    limit = curve.rows[0]
    caption = f"""Where a signal in long sequences can be found. Below the dashed line no learner can find more than a
        small part of it; between the lines it can be found in principle, but not by message passing or any other fast
        algorithm that we know (hard); above them message passing finds it. The two gradient steps need α = 4L/(θ³R²),
        about 5.4 θ times more. Right: one hard phase, L = {LENGTH}, θ = {STRENGTH:g}, from α =
        {limit["information_threshold"]:.4f} to {limit["algorithmic_threshold"]:.4f}; samples of the exact posterior at
        d = {size["dim"]} ({size["trials"]} runs) stay on the branch they start on. R = 1, π = 0.5, known model."""
    pairs = [
        pair(
            row,
            "overlap",
            f"{row['start']}, α = {row['alpha']:g}",
            *(row[f"overlap{end}"] for end in ("_theory", "", "_err")),
        )
        for row in rows_with(runs)
    ]
    return Drawing(picture=picture, caption=caption, pairs=pairs)


def _phases(axes: "Axes", table: Table, parameter: str, xlabel: str, title: str, log: str) -> None:
    """Draw the three phases over one parameter, and the samples that the two gradient steps need."""
    rows = [row for row in rows_with(table) if row["algorithmic_threshold"] is not None]
    x = [float(row[parameter]) for row in rows]
    possible, easy = ([row[f"{name}_threshold"] for row in rows] for name in ("information", "algorithmic"))
    steps = [4.0 * row["length"] / row["strength"] ** 3 for row in rows]
    axes.plot(x, steps, color=PALE_BLUE, ls="-.", lw=1.6, label="two gradient steps")
    axes.plot(x, easy, color=THEORY, lw=1.8, label="message passing")
    axes.plot(x, possible, color=ACCENT, ls="--", lw=1.8, label="any learner")
    axes.fill_between(x, possible, easy, color=GREY, alpha=0.15, lw=0.0)
    middle = int(0.62 * len(x))
    for height, text in ((0.42 * possible[middle], "impossible"), ((possible[middle] * easy[middle]) ** 0.5, "hard")):
        axes.text(x[middle], height, text, fontsize=8.5, color=TEXT, ha="center", va="center")
    axes.text(x[middle], (easy[middle] * steps[middle]) ** 0.5, "easy", fontsize=8.5, color=TEXT, ha="center")
    finish_panel(axes, xlabel, "samples over dimension α", title, log=log, legend=None)


def _branches(axes: "Axes", curve: Table, runs: Table | None) -> None:
    """Draw the overlap of the best learner and of message passing, and of posterior samples from two starts."""
    line(axes, rows_with(curve), "alpha", "overlap", "best possible", color=BEST, ls=":")
    line(axes, rows_with(curve), "alpha", "overlap_amp", "message passing", color=THEORY)
    for k, (start, label) in enumerate(STARTS.items()):
        marks(axes, rows_with(runs, start=start), "alpha", "overlap", label, k)
    row = curve.rows[0]
    guide(axes, x=row["information_threshold"], text="possible", at=0.5, before=True)
    guide(axes, x=row["algorithmic_threshold"], text="easy", at=0.5)
    axes.axhline(0.0, color=GREY, lw=0.6)
    title = f"L = {LENGTH}, θ = {STRENGTH:g}"
    finish_panel(
        axes,
        "samples over dimension α",
        "overlap with the signal",
        title,
        log="x",
        ylim=(-0.05, 1.3),
        legend="upper left",
        frameon=True,
        framealpha=0.9,
        edgecolor="none",
    )
