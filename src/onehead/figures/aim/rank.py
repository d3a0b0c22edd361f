"""Rank of the trained map and mass of its upper bulk against α, for three target widths."""

from typing import TYPE_CHECKING

import numpy as np

from onehead.figures.agreement import Pair, compare, pair
from onehead.figures.data_source import DataSource
from onehead.figures.drawing import curves, mean_and_error, rows_with
from onehead.figures.registry import Drawing
from onehead.plot.style import ALPHA_LABEL, finish_panel, guide, panels, theory_line, training_marks
from onehead.sweep import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTHS = (0.2, 0.5, 0.8)


def draw(source: DataSource) -> Drawing:
    """Draw the rank, and the share of eigenvalues in the upper bulk."""
    measured = source.pick((0.1, 0.5, 2.0, 8.0), (0.1, 0.5, 2.0, 8.0, 40.0))
    fine = np.geomspace(0.04, source.pick(300.0, 400.0), source.pick(14, 40)).tolist()
    size = {"dim": source.pick(60, 80), "seeds": source.pick(4, 6), "starts": 1}
    theory = source.theory("theory", "aim.spectrum", {"kappa0": WIDTHS, "alpha": sorted({*fine, *measured})})
    runs = source.train("trained", "aim.train", {"kappa0": WIDTHS, "alpha": measured}, size)

    picture, (left, right) = panels(1, 2, width=4.6)
    labels = {width: f"κ₀ = {width:g}" for width in WIDTHS}
    curves(left, theory, runs, "alpha", "rank", "kappa0", labels)
    finish_panel(left, ALPHA_LABEL, "rank of S over d", "share of non-zero eigenvalues", log="x", ylim=(0.0, 1.0))
    pairs = compare(theory, runs, ("kappa0", "alpha"), ("rank",))
    for k, width in enumerate(WIDTHS):
        split = [i for i, row in enumerate(theory) if row["kappa0"] == width and len(row.get("edges") or ()) == 2]
        mass = [_upper_mass(theory, i) for i in split]
        theory_line(right, [theory[i]["alpha"] for i in split], mass, None, k, marker=".")
        source.add("upper bulk", kappa0=[width] * len(split), alpha=[theory[i]["alpha"] for i in split], mass=mass)
        guide(right, y=width, text=f"rank of the target, {width:g}")
        pairs += _measured(source, right, theory, split, runs, k)
    finish_panel(
        right,
        ALPHA_LABEL,
        "share of eigenvalues in the upper bulk",
        "mass of the upper bulk, once the bulks are separated",
        log="x",
        ylim=(0.0, 1.0),
    )
    right.set_xlim(left.get_xlim())
    caption = f"""Left: the rank of the trained map overshoots the rank κ₀ of the target, because learned noise passes
        the threshold of weight decay. Right: where the spectrum has split into two bulks, the upper one holds exactly
        the share κ₀ (markers: trained eigenvalues above the predicted gap). λ = 0.01, Δ = 0.5, T = 2; training with d =
        {size["dim"]}, {size["seeds"]} seeds."""
    return Drawing(picture=picture, caption=caption, pairs=pairs)


def _upper_mass(theory: Table, index: int) -> float:
    arrays = theory.arrays(index)
    half = len(arrays["x"]) // 2
    return float(np.trapezoid(arrays["density"][half:], arrays["x"][half:]))


def _measured(
    source: DataSource, axes: "Axes", theory: Table, split: list[int], runs: Table | None, k: int
) -> list[Pair]:
    """Draw the shares of trained eigenvalues above the middle of the predicted gap, and return them with the theory."""
    pairs = []
    for i in split:
        row = theory[i]
        for run in rows_with(runs, kappa0=row["kappa0"], alpha=row["alpha"]):
            assert runs is not None
            index = runs.rows.index(run)
            (_, low), (high, _) = row["edges"]
            values = runs.arrays(index)["eigenvalues"].reshape(run["seeds"], -1)
            mass, error = map(float, mean_and_error(np.mean(values > 0.5 * (low + high), axis=1)))
            training_marks(axes, [row["alpha"]], [mass], [error], None, k)
            source.add("upper bulk, trained", kappa0=[row["kappa0"]], alpha=[row["alpha"]], mass=[mass])
            if error > 0.0:
                setting = f"kappa0 {row['kappa0']:g}, alpha {row['alpha']:g}"
                pairs.append(pair(run, "upper-bulk mass", setting, row["kappa0"], mass, error))
    return pairs
