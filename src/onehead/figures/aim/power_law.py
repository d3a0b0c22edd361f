"""Figure 4 of the attention-indexed model: excess error, exponents and heavy-tailed spectra of power-law targets."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from onehead.figures.agreement import Pair, pair
from onehead.figures.data_source import DataSource
from onehead.figures.drawing import GAUSSIAN_STYLE, LEADING, SAMPLES_LABEL, line, mean_by_rank, rows_with
from onehead.figures.registry import Drawing
from onehead.figures.sweep_calls import call_name
from onehead.plot.style import TARGET_LINE, finish_panel, guide, panels, theory_line, training_marks
from onehead.sweep import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GAMMA = 0.75
DECAYS = {"1/d": "λ = 1/d", "1": "λ = 1", "sqrt(d)": "λ = √d"}


def draw(source: DataSource) -> Drawing:
    """Draw the excess error, its local exponent, and the eigenvalues by rank."""
    dim = source.pick(100, 200)
    target = {"target": "power-law", "gamma": GAMMA, "dim": dim, "noise": 0.5}
    measured = source.pick(
        {"1/d": (1000, 10000), "1": (3000, 20000), "sqrt(d)": (20000,)},
        {"1/d": (1000, 3000, 10000, 30000), "1": (10000, 30000, 100000), "sqrt(d)": (100000,)},
    )
    grid = np.round(np.geomspace(200, source.pick(1e6, 1e7), source.pick(14, 28))).tolist()
    both = {"leading": [0, LEADING]}
    theory = source.theory(
        "theory", call_name("scaling_point"), {"weight_decay": list(DECAYS), **both, "samples": grid}, target
    )
    settings = [(decay, float(n)) for decay, counts in measured.items() for n in counts]
    names = ("weight_decay", "samples")
    exact = {**target, "leading": LEADING}
    predictions = source.theory("theory at measured points", call_name("scaling_point"), {names: settings}, exact)
    runs = source.train("trained", "aim.train", {names: settings}, {**target, "seeds": source.pick(4, 6), "starts": 1})
    spectra = [("1/d", float(n)) for n in measured["1/d"]]
    spectra_axes = {("weight_decay", "alpha"): [(w, n / dim**2) for w, n in spectra]}
    laws = [
        source.theory(
            f"spectra, {count} leading directions", call_name("counting"), spectra_axes, {**target, "leading": count}
        )
        for count in (0, LEADING)
    ]

    picture, (first, second, third) = panels(1, 3, width=4.0, height=3.7)
    pairs: list[Pair] = []
    for k, (decay, label) in enumerate(DECAYS.items()):
        for leading, style in ((0, GAUSSIAN_STYLE), (LEADING, {})):
            rows = rows_with(theory, weight_decay_word=decay, leading=leading)
            named = label if leading else "Gaussian logits" if k == 0 else None
            line(first, rows, "samples", "excess_error", named, k, **style)
            line(second, rows, "samples", "local_exponent", named, k, **style)
        for (own_decay, count), row in zip(settings, predictions, strict=True):
            if own_decay != decay or runs is None or row["state"] != "done":
                continue
            run = next(r for r in rows_with(runs) if r["samples"] == count and r["weight_decay"] == row["weight_decay"])
            excess = run["test_error"] - (row["test_error"] - row["excess_error"])
            trained = None if pairs else f"trained, {run['seeds']} seeds"
            training_marks(first, [count], [excess], [run["test_error_err"]], trained, k)
            setting = f"{label}, n = {count:g}"
            pairs.append(pair(run, "excess error", setting, row["excess_error"], excess, run["test_error_err"]))
    finish_panel(first, SAMPLES_LABEL, "test error above the plateau", f"power law γ = {GAMMA:g}, d = {dim}", log="xy")
    for text, value in ((r"$1-1/2\gamma$", 0.5 / GAMMA - 1.0), (r"$2-1/\gamma$", 1.0 / GAMMA - 2.0), ("1", -1.0)):
        guide(second, y=value, text=f"exponent {text}")
    finish_panel(
        second,
        SAMPLES_LABEL,
        "local exponent, d log(excess)/d log n",
        "exponents",
        log="x",
        ylim=(-2.1, 0.3),
        legend=None,
    )
    _spectra(source, third, laws, runs, spectra, dim)
    caption = f"""Left: the excess test error of a power-law target falls in stages that depend on the weight decay.
        Dotted lines are for Gaussian logits, as in the paper; solid lines for {LEADING} leading directions averaged
        exactly, each above its own plateau; markers are trained heads above the plateau of the solid lines. Middle: the
        local exponents pass through the values of scaling arguments, 1 - 1/2γ where noise sets the cut and 2 - 1/γ
        where weight decay does; at these dimensions they have no plateau. Right: the trained eigenvalues by rank, in
        both theories, have a heavy tail of learned features above a noise bulk. γ = {GAMMA:g}, d = {dim}, Δ = 0.5, T =
        2; training with {source.pick(4, 6)} seeds."""
    return Drawing(picture=picture, caption=caption, pairs=pairs)


def _spectra(
    source: DataSource,
    axes: "Axes",
    laws: Sequence[Table],
    runs: Table | None,
    spectra: Sequence[tuple[str, float]],
    dim: int,
) -> None:
    """Draw the eigenvalues by rank: both theories, training, target."""
    for k, (_, count) in enumerate(spectra):
        gaussian, arrays = (table.arrays(k) for table in laws)
        theory_line(axes, gaussian["count"] + 0.5, gaussian["x"], None, k, **GAUSSIAN_STYLE)
        theory_line(axes, arrays["count"] + 0.5, arrays["x"], f"λ = 1/d, n = {count:g}", k)
        source.add(f"counting, Gaussian logits, n {count:g}", eigenvalue=gaussian["x"], count=gaussian["count"])
        source.add(f"counting, theory, n {count:g}", eigenvalue=arrays["x"], count=arrays["count"])
        if runs is None:
            continue
        index = next(i for i, run in enumerate(runs) if run["samples"] == count and run["weight_decay"] == 1.0 / dim)
        mean, error = mean_by_rank(runs, index)
        ranks = np.unique(np.round(np.geomspace(1, dim, 16)).astype(int))
        shown = ranks[mean[ranks - 1] > 1e-2 * mean[0]]
        training_marks(axes, shown, mean[shown - 1], error[shown - 1], None, k, ms=3.6)
        source.add(f"eigenvalues, trained, n {count:g}", rank_of=ranks, eigenvalue=mean[ranks - 1])
    target = np.arange(1, dim + 1) ** -GAMMA
    target *= np.sqrt(dim / np.sum(target**2))
    axes.plot(np.arange(1, dim + 1), target, color=TARGET_LINE, lw=1.2, ls="-", label="target", zorder=0)
    finish_panel(
        axes, "rank of the eigenvalue", "eigenvalue of S", "heavy-tailed spectra", log="xy", legend="lower left"
    )
    axes.set_xlim(0.8, dim)
    axes.set_ylim(0.05, None)
