"""Rank of the trained map and mass of its upper bulk against α, for three target widths."""

from typing import TYPE_CHECKING

import numpy as np

from onehead.figures.agreement import Pair, compare, pair
from onehead.figures.drawing import ALPHA, curves, mean_and_error, where
from onehead.figures.lab import Lab
from onehead.figures.registry import Drawing
from onehead.plot.style import finish, guide, panels, theory_line, training_marks
from onehead.sweep import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTHS = (0.2, 0.5, 0.8)


def draw(lab: Lab) -> Drawing:
    """Rank on the left, share of eigenvalues in the upper bulk on the right."""
    measured = lab.pick((0.1, 0.5, 2.0, 8.0), (0.1, 0.5, 2.0, 8.0, 40.0))
    fine = np.geomspace(0.04, lab.pick(300.0, 400.0), lab.pick(14, 40)).tolist()
    size = {"dim": lab.pick(60, 80), "seeds": lab.pick(4, 6), "starts": 1}
    theory = lab.theory("theory", "aim.spectrum", {"kappa0": WIDTHS, "alpha": sorted({*fine, *measured})})
    runs = lab.train("trained", "aim.train", {"kappa0": WIDTHS, "alpha": measured}, size)

    picture, (left, right) = panels(1, 2, width=4.6)
    labels = {width: f"κ₀ = {width:g}" for width in WIDTHS}
    curves(left, theory, runs, "alpha", "rank", "kappa0", labels)
    finish(left, ALPHA, "rank of S over d", "share of non-zero eigenvalues", log="x", ylim=(0.0, 1.0))
    pairs = compare(theory, runs, ("kappa0", "alpha"), ("rank",))
    for k, width in enumerate(WIDTHS):
        split = [i for i, row in enumerate(theory) if row["kappa0"] == width and len(row.get("edges") or ()) == 2]
        mass = [_upper_mass(theory, i) for i in split]
        theory_line(right, [theory[i]["alpha"] for i in split], mass, None, k, marker=".")
        lab.add("upper bulk", kappa0=[width] * len(split), alpha=[theory[i]["alpha"] for i in split], mass=mass)
        guide(right, y=width, text=f"rank of the target, {width:g}")
        pairs += _measured(lab, right, theory, split, runs, k)
    finish(
        right,
        ALPHA,
        "share of eigenvalues in the upper bulk",
        "upper-bulk mass, from where the bulks are apart",
        log="x",
        ylim=(0.0, 1.0),
    )
    right.set_xlim(left.get_xlim())
    caption = f"""Left: the rank of the trained map overshoots the rank κ₀ of the target, because learned noise passes the
        threshold of weight decay. Right: where the spectrum has split into two bulks, the upper one holds exactly the share κ₀
        (markers: trained eigenvalues above the predicted gap). λ = 0.01, Δ = 0.5, T = 2;
        training with d = {size["dim"]}, {size["seeds"]} seeds."""
    return Drawing(picture=picture, caption=caption, pairs=pairs)


def _upper_mass(theory: Table, index: int) -> float:
    arrays = theory.arrays(index)
    half = len(arrays["x"]) // 2
    return float(np.trapezoid(arrays["density"][half:], arrays["x"][half:]))


def _measured(lab: Lab, axes: "Axes", theory: Table, split: list[int], runs: Table | None, k: int) -> list[Pair]:
    """Shares of trained eigenvalues above the middle of the predicted gap."""
    pairs = []
    for i in split:
        row = theory[i]
        for run in where(runs, kappa0=row["kappa0"], alpha=row["alpha"]):
            assert runs is not None
            index = runs.rows.index(run)
            (_, low), (high, _) = row["edges"]
            values = runs.arrays(index)["eigenvalues"].reshape(run["seeds"], -1)
            mass, error = map(float, mean_and_error(np.mean(values > 0.5 * (low + high), axis=1)))
            training_marks(axes, [row["alpha"]], [mass], [error], None, k)
            lab.add("upper bulk, trained", kappa0=[row["kappa0"]], alpha=[row["alpha"]], mass=[mass])
            if error > 0.0:
                place = f"kappa0 {row['kappa0']:g}, alpha {row['alpha']:g}"
                pairs.append(pair(run, "upper-bulk mass", place, row["kappa0"], mass, error))
    return pairs
