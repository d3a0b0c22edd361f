"""Figure 3 of the attention-indexed model: parts of the excess error, and their regions of the spectrum."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from onehead.figures.agreement import Pair, pair
from onehead.figures.data_source import DataSource
from onehead.figures.drawing import GAUSSIAN_STYLE, LEADING, SAMPLES_LABEL, line, mean_by_rank, rows_with
from onehead.figures.registry import Drawing
from onehead.figures.sweep_calls import call_name
from onehead.plot.style import ACCENT, GREY, PURPLE, TEXT, finish_panel, panels, theory_line, training_marks
from onehead.sweep import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PARTS = {
    "underfitting": (GREY, "--", "underfitting: cut off by weight decay"),
    "overfitting": (ACCENT, "-.", "overfitting: noise that was learned"),
    "approximation": (PURPLE, ":", "approximation: features learned wrongly"),
}


def draw(source: DataSource) -> Drawing:
    """Draw the excess error and its parts against n, and the eigenvalues by rank with the three regions."""
    dim = source.pick(100, 200)
    target = {"target": "power-law", "gamma": 0.75, "dim": dim, "noise": 0.5, "weight_decay": "1/d"}
    measured = source.pick((1000, 3000, 10000), (1000, 3000, 10000, 30000, 100000))
    grid = sorted(
        {*np.round(np.geomspace(100, source.pick(3e5, 3e6), source.pick(12, 24))).tolist(), *map(float, measured)}
    )
    theory = source.theory("theory", call_name("scaling_point"), {"leading": [0, LEADING], "samples": grid}, target)
    spectrum_samples = measured[1]
    law = source.theory(
        "spectrum", call_name("counting"), {"alpha": [spectrum_samples / dim**2]}, {**target, "leading": LEADING}
    )
    runs = source.train(
        "trained", "aim.train", {"samples": measured}, {**target, "seeds": source.pick(4, 6), "starts": 1}
    )

    picture, (left, right) = panels(1, 2, width=4.8, height=3.8)
    gaussian, rows = (rows_with(theory, leading=count) for count in (0, LEADING))
    line(left, rows, "samples", "excess_error", "excess error, leading directions")
    line(left, gaussian, "samples", "excess_error", "excess error, Gaussian logits", **GAUSSIAN_STYLE)
    for part, (colour, dash, label) in PARTS.items():
        values = [row[part] if row[part] > 0.0 else np.nan for row in rows]
        theory_line(left, [row["samples"] for row in rows], values, label, color=colour, ls=dash, lw=1.4)
    pairs: list[Pair] = []
    for run in rows_with(runs):
        prediction = next(row for row in rows if row["samples"] == run["samples"])
        plateau = prediction["test_error"] - prediction["excess_error"]
        excess = run["test_error"] - plateau
        trained = "excess error, trained" if not pairs else None
        training_marks(left, [run["samples"]], [excess], [run["test_error_err"]], trained)
        setting = f"samples {run['samples']:g}"
        pairs.append(pair(run, "excess error", setting, prediction["excess_error"], excess, run["test_error_err"]))
    low = min(row["excess_error"] for row in rows)
    finish_panel(
        left, SAMPLES_LABEL, "test error above the plateau", f"λ = 1/d, d = {dim}", log="xy", legend="lower left"
    )
    left.set_ylim(0.02 * low, None)
    _regions(source, right, law, runs, measured, dim)
    caption = f"""Left: the excess of the test error over its plateau, with {LEADING} leading directions averaged
        exactly (solid) and with Gaussian logits (dotted), and the three parts of the latter that come from a region of
        the spectrum (a fourth part, an overall change of size, is small and may be negative). Right: the eigenvalues of
        the trained map by rank at n = {spectrum_samples}: those beyond the bulk are features, learned with the wrong
        size and direction (approximation); the bulk is learned noise (overfitting); directions that weight decay keeps
        at zero are underfitting. Power law γ = 0.75, d = {dim}, Δ = 0.5, λ = 1/d. The decomposition is our own
        definition."""
    return Drawing(picture=picture, caption=caption, pairs=pairs)


def _regions(
    source: DataSource, axes: "Axes", law: Table, runs: Table | None, measured: Sequence[int], dim: int
) -> None:
    """Draw the eigenvalues against rank, with the three regions of the spectrum shaded."""
    row, arrays = law[0], law.arrays(0)
    count = np.asarray(arrays["count"], dtype=float)
    theory_line(axes, count + 0.5, arrays["x"], "theory")
    source.add("counting, theory", eigenvalue=arrays["x"], count=count)
    if runs is not None:
        mean, error = mean_by_rank(runs, 1)
        nonzero = mean > 1e-3 * mean[0]
        ranks = np.arange(1, dim + 1)
        training_marks(axes, ranks[nonzero], mean[nonzero], error[nonzero], "trained", ms=3.0)
        source.add("eigenvalues, trained", rank_of=ranks, eigenvalue=mean)
    edge, last, first = row["bulk_edge"], row["rank"] * dim, row["outliers"] + 0.5
    axes.axhspan(0.0, edge, color=ACCENT, alpha=0.12, lw=0.0)
    axes.axvspan(last, dim, color=GREY, alpha=0.18, lw=0.0)
    axes.axvspan(0.7, first, color=PURPLE, alpha=0.12, lw=0.0)
    finish_panel(axes, "rank of the eigenvalue", "eigenvalue of S", f"spectrum at n = {measured[1]}", log="x")
    axes.set_xlim(0.7, dim)
    axes.set_ylim(0.0, None)
    top = axes.get_ylim()[1]
    for x, y, text in (
        (0.8, 0.42 * top, "features"),
        (1.15 * first, 0.45 * edge, "noise bulk"),
        (1.03 * last, 0.55 * top, "zero"),
    ):
        axes.text(x, y, text, fontsize=8.5, color=TEXT, rotation=90 if text == "zero" else 0)
