"""Figure 3 of the attention-indexed model: where the error comes from, and where that is seen in the spectrum."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from onehead.figures.agreement import Pair, pair
from onehead.figures.calls import name
from onehead.figures.drawing import GAUSSIAN, LEADING, SAMPLES, by_rank, line, where
from onehead.figures.lab import Lab
from onehead.figures.registry import Drawing
from onehead.plot.style import ACCENT, GREY, finish, panels, theory_line, training_marks
from onehead.sweep import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PARTS = {
    "underfitting": (GREY, "--", "underfitting: cut off by weight decay"),
    "overfitting": (ACCENT, "-.", "overfitting: noise that was learned"),
    "approximation": ("#8a5fa8", ":", "approximation: features learned wrongly"),
}


def draw(lab: Lab) -> Drawing:
    """Excess error and its parts against n; the eigenvalues by rank with the three regions."""
    dim = lab.pick(100, 200)
    target = {"target": "power-law", "gamma": 0.75, "dim": dim, "noise": 0.5, "weight_decay": "1/d"}
    measured = lab.pick((1000, 3000, 10000), (1000, 3000, 10000, 30000, 100000))
    grid = sorted({*np.round(np.geomspace(100, lab.pick(3e5, 3e6), lab.pick(12, 24))).tolist(), *map(float, measured)})
    theory = lab.theory("theory", name("scaling_point"), {"leading": [0, LEADING], "samples": grid}, target)
    station = measured[1]
    law = lab.theory("spectrum", name("counting"), {"alpha": [station / dim**2]}, {**target, "leading": LEADING})
    runs = lab.train("trained", "aim.train", {"samples": measured}, {**target, "seeds": lab.pick(4, 6), "starts": 1})

    picture, (left, right) = panels(1, 2, width=4.8, height=3.8)
    gaussian, rows = (where(theory, leading=count) for count in (0, LEADING))
    line(left, rows, "samples", "excess_error", "excess error, leading directions")
    line(left, gaussian, "samples", "excess_error", "excess error, Gaussian logits", **GAUSSIAN)
    for part, (colour, dash, label) in PARTS.items():
        values = [row[part] if row[part] > 0.0 else np.nan for row in rows]
        theory_line(left, [row["samples"] for row in rows], values, label, color=colour, ls=dash, lw=1.4)
    pairs: list[Pair] = []
    for run in where(runs):
        there = next(row for row in rows if row["samples"] == run["samples"])
        plateau = there["test_error"] - there["excess_error"]
        excess = run["test_error"] - plateau
        first = "excess error, trained" if not pairs else None
        training_marks(left, [run["samples"]], [excess], [run["test_error_err"]], first)
        place = f"samples {run['samples']:g}"
        pairs.append(pair(run, "excess error", place, there["excess_error"], excess, run["test_error_err"]))
    low = min(row["excess_error"] for row in rows)
    finish(left, SAMPLES, "test error above the plateau", f"λ = 1/d, d = {dim}", log="xy", legend="lower left")
    left.set_ylim(0.02 * low, None)
    _regions(lab, right, law, runs, measured, dim)
    caption = f"""Left: the excess of the test error over its plateau, with {LEADING} leading directions averaged exactly (solid) and with
        Gaussian logits (dotted), and the three parts of the second that come from a region of the spectrum (a fourth part, an overall
        change of size, is small and may be negative). Right: the eigenvalues of the
        trained map by rank at n = {station}: those beyond the bulk are features, learned with the wrong size and direction
        (approximation); the bulk is learned noise (overfitting); what weight decay keeps at zero is underfitting. Power law
        γ = 0.75, d = {dim}, Δ = 0.5, λ = 1/d. The decomposition is our own definition."""
    return Drawing(picture=picture, caption=caption, pairs=pairs)


def _regions(lab: Lab, axes: "Axes", law: Table, runs: Table | None, measured: Sequence[int], dim: int) -> None:
    """Eigenvalue against rank, with the three regions of the spectrum."""
    row, arrays = law[0], law.arrays(0)
    count = np.asarray(arrays["count"], dtype=float)
    theory_line(axes, count + 0.5, arrays["x"], "theory")
    lab.add("counting, theory", eigenvalue=arrays["x"], count=count)
    if runs is not None:
        mean, error = by_rank(runs, 1)
        kept = mean > 1e-3 * mean[0]
        ranks = np.arange(1, dim + 1)
        training_marks(axes, ranks[kept], mean[kept], error[kept], "trained", ms=3.0)
        lab.add("eigenvalues, trained", rank_of=ranks, eigenvalue=mean)
    edge, last, first = row["bulk_edge"], row["rank"] * dim, row["outliers"] + 0.5
    axes.axhspan(0.0, edge, color=ACCENT, alpha=0.12, lw=0.0)
    axes.axvspan(last, dim, color=GREY, alpha=0.18, lw=0.0)
    axes.axvspan(0.7, first, color="#8a5fa8", alpha=0.12, lw=0.0)
    finish(axes, "rank of the eigenvalue", "eigenvalue of S", f"spectrum at n = {measured[1]}", log="x")
    axes.set_xlim(0.7, dim)
    axes.set_ylim(0.0, None)
    top = axes.get_ylim()[1]
    for x, y, text in (
        (0.8, 0.42 * top, "features"),
        (1.15 * first, 0.45 * edge, "noise bulk"),
        (1.03 * last, 0.55 * top, "zero"),
    ):
        axes.text(x, y, text, fontsize=8.5, color="#333333", rotation=90 if text == "zero" else 0)
