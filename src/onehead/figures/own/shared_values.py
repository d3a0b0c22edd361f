"""Two heads that share values: error of one head, what sharing costs in samples, and where random starts fail."""

from typing import TYPE_CHECKING

import numpy as np

from onehead.figures.agreement import compare
from onehead.figures.data_source import DataSource
from onehead.figures.drawing import curves, rows_with
from onehead.figures.registry import Drawing
from onehead.figures.sweep_calls import call_name
from onehead.plot.style import GREY, TRAINING, finish_panel, guide, panels, theory_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEADS = {"target": "product", "kappa0": 0.5, "noise": 0.5, "attention": "cross", "heads": 2, "weight_decay": 0.05}
RATIOS = {0.5: "α = 0.5", 1.0: "1", 2.0: "2"}
COSTS = (1.0, 4.0)  # sample ratios at which heads with shared values are compared with heads that share none
LARGEST = 0.95  # overlap up to which there is a theory
WINDOW = {"beta0": 2.0, "noise": 0.125, "weight_decay": 0.08, "alpha": 1.5}
OVERLAPS = (0.9, 0.95, 0.98, 0.99, 0.995, 1.0)
NEXT_TO_ONE = 0.002  # place of an overlap of one on the logarithmic axis of its distance from one
STUCK = 0.005  # excess of the objective from which on a start has missed the minimum


def draw(source: DataSource) -> Drawing:
    """Draw the error of one head against the overlap of the values, the data multiple, and the hard window."""
    shared = source.pick((0.0, 0.3, 0.5, 0.7, 0.8, 0.9), (0.0, 0.2, 0.35, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9))
    axes_of = ("sharing", "alpha")
    theory = source.theory("theory", "aim.predict", {axes_of: [(s, a) for a in RATIOS for s in shared]}, HEADS)
    dim, seeds = source.pick((24, 3), (40, 4))
    runs = source.train(
        "trained",
        "aim.train",
        {axes_of: [(s, a) for a in RATIOS for s in (0.0, 0.5, 0.8, 0.9)]},
        {**HEADS, "dim": dim, "seeds": seeds, "starts": 1},
    )
    picture, (left, middle, right) = panels(1, 3, width=4.0)
    curves(left, theory, runs, "sharing", "head_error", "alpha", RATIOS)
    finish_panel(left, "overlap ρ of the values", "test error of one head", "what sharing costs", ylim=(0.0, None))
    _multiples(source, middle)
    share = _window(source, right)
    caption = f"""Two cross-attention heads that add to one output, κ₀ = 0.5, Δ = 0.5, T = 2. Left: test error of one
        head against the overlap of the values, λ = 0.05, theory and training at d = {dim} ({seeds} seeds, whose errors
        are higher by a share of order 1/d). Middle: samples of heads with shared values over those with which heads
        that share none reach the same error. Right: excess of the objective that training from random weights reaches
        over that of training from weights close to the targets, β₀ = 2, λ = 0.08, α = 1.5, against the distance of ρ
        from one (at the left edge: ρ = 1); {share}. Arrow: overlaps with
        predictions; beyond ρ = {LARGEST} they are refused. Errors of sampled maps (from ρ = 0.75 on at α = 0.5) are
        stated as 0.001 to 0.002, which leaves a corner in that line."""
    return Drawing(picture=picture, caption=caption, pairs=compare(theory, runs, axes_of, ("head_error", "train_loss")))


def _multiples(source: DataSource, axes: "Axes") -> None:
    """Draw the data multiple of overlaps: heads of their own reach the error of heads that share with fewer samples."""
    alone = source.theory(
        "alone", "aim.predict", {"alpha": np.geomspace(0.2, 4.0, source.pick(9, 17)).tolist()}, {**HEADS, "heads": 1}
    )
    overlaps = source.pick((0.5, 0.8, 0.9, 0.95), (0.2, 0.35, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95))
    both = ("alpha", "sharing")
    costs = source.theory("shared", "aim.predict", {both: [(a, s) for a in COSTS for s in overlaps]}, HEADS)
    known = rows_with(alone)
    logs, errors = (np.log([row[name] for row in known]) for name in ("alpha", "test_error"))
    for k, alpha in enumerate(COSTS):
        rows = rows_with(costs, alpha=alpha)
        # errors fall with the sample ratio: interpolated from many samples to few
        same = np.exp(np.interp(np.log([row["head_error"] for row in rows]), errors[::-1], logs[::-1]))
        places, found = [0.0, *(row["sharing"] for row in rows)], [1.0, *(alpha / same)]
        theory_line(axes, places, found, f"α = {alpha:g}" if k == 0 else f"{alpha:g}", k)
        source.add(f"data multiple, alpha {alpha:g}", sharing=places, multiple=found)
    finish_panel(axes, "overlap ρ of the values", "samples needed, relative", "data multiple", ylim=(0.9, None))


def _window(source: DataSource, axes: "Axes") -> str:
    """Draw what random starts miss close to an overlap of one; return a sentence about it."""
    dim, seeds = source.pick((20, 3), (30, 8))
    runs = source.train(
        "random starts", call_name("start_gap"), {"overlap": OVERLAPS}, {**WINDOW, "dim": dim}, seeds=seeds
    )
    rows = rows_with(runs)
    places = [max(1.0 - row["overlap"], NEXT_TO_ONE) for row in rows]
    excess = [max(row["excess"], 0.0) for row in rows]
    axes.plot(places, excess, "o", ms=4.0, alpha=0.6, color=TRAINING, mec="none", label=f"random starts, d = {dim}")
    axes.axhline(STUCK, color=GREY, lw=0.8, ls=":")
    guide(axes, x=1.0 - LARGEST, text="predictions →", before=False)
    finish_panel(
        axes, "1 − ρ", "excess of the objective", "the hard window", log="x", ylim=(-0.005, None), legend="upper left"
    )
    axes.set_ylim(top=1.2 * axes.get_ylim()[1])  # room for the legend above the points
    axes.set_xlim(0.8 * NEXT_TO_ONE, 0.13)
    stuck = {rho: [row["excess"] > STUCK for row in rows if row["overlap"] == rho] for rho in OVERLAPS}
    shares = ", ".join(f"{sum(found)} of {len(found)} at {rho:g}" for rho, found in stuck.items() if found)
    return f"above the dotted line a start ends in another minimum ({shares})" if shares else "made without training"
