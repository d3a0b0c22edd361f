"""Alignment of sequences as long as the dimension: the random share of positives, and the balanced bias rate."""

import numpy as np

from onehead.figures.agreement import pair
from onehead.figures.data_source import DataSource
from onehead.figures.drawing import plain_ticks, rows_with
from onehead.figures.registry import Drawing
from onehead.plot.style import SERIES_STYLES, finish_panel, panels, training_marks
from onehead.sparse import Protocol, Task, align

RATES = {0.5: "bias rate 0.5", 4.0: "balanced bias rate 4"}
RATIOS = (0.25, 0.5, 1.0, 2.0)


def _problem(length: int) -> dict[str, float]:
    """Signal at 2.5 sqrt(log L), and the samples of the query that alignment needs."""
    strength = 2.5 * float(np.sqrt(np.log(length)))
    return {"length": length, "strength": strength, "alpha0": 4.0 * length / strength**3}


def draw(source: DataSource) -> Drawing:
    """Draw mean and standard deviation of the cosine of the query against L/d, with sampled queries."""
    dim, trials = source.pick(100, 400), source.pick(6, 24)
    names = ("length", "strength", "alpha0")
    problems = [_problem(round(ratio * dim)) for ratio in RATIOS[: source.pick(3, 4)]]
    size = {"alpha1": 0.1, "beta": 2.0, "ridge": 0.1, "dim": dim, "trials": trials}
    runs = source.train(
        "trained", "sparse.train", {names: [tuple(one.values()) for one in problems], "eta_b": list(RATES)}, size
    )
    picture, panel_list = panels(1, 2, width=4.6, height=3.7)
    pairs = []
    ratios = [one["length"] / dim for one in problems]
    for k, (eta_b, label) in enumerate(RATES.items()):
        found = [
            align(
                Task(length=int(one["length"]), strength=one["strength"]),
                Protocol(alpha0=one["alpha0"], eta_b=eta_b, beta=2.0),
                dim=dim,
            )
            for one in problems
        ]
        mean = np.array([one.cos_query_mean for one in found])
        spread = np.array([one.cos_query_spread for one in found])
        look = SERIES_STYLES[k]
        columns = {"length_over_dim": ratios, "cos_query_mean": mean.tolist(), "cos_query_spread": spread.tolist()}
        source.add(label, **columns)
        for axes, values in zip(panel_list, (mean, spread), strict=True):
            axes.plot(ratios, values, color=look.line, ls=look.dash, lw=1.8, label=label)
        if k == 0:
            limit = [one.cos_query for one in found]
            panel_list[0].plot(ratios, limit, color=look.line, ls=":", lw=1.6, zorder=3, label="L fixed, d → ∞")
        for row in rows_with(runs, eta_b=eta_b):
            at, error = row["length"] / dim, row["cos_query_std"] / np.sqrt(trials)
            first = row is rows_with(runs, eta_b=eta_b)[0]
            named = f"sampled, d = {dim}" if first and k == 0 else None
            training_marks(panel_list[0], [at], [row["cos_query"]], [error], named, k)
            # standard error of a standard deviation of Gaussian values
            training_marks(
                panel_list[1], [at], [row["cos_query_std"]], [row["cos_query_std"] / np.sqrt(2.0 * trials)], named, k
            )
            where = f"L/d {at:g}, {label}"
            predicted = float(mean[ratios.index(at)])
            pairs.append(pair(row, "cos of the query", where, predicted, row["cos_query"], error))
    finish_panel(
        panel_list[0],
        "sequence length over dimension, L/d",
        "cosine of the query",
        "mean",
        log="x",
        legend="lower left",
    )
    finish_panel(
        panel_list[1], "sequence length over dimension, L/d", "standard deviation", "spread between samples", log="x",
        legend="upper left",
    )  # fmt: skip
    panel_list[0].set_ylim(0.0, 1.0)
    panel_list[1].set_ylim(0.0, None)
    for axes in panel_list:
        plain_ticks(axes, ratios)
    caption = f"""Cosine of the query with the signal after the two gradient steps, for sequences of length
        comparable with the dimension (d = {dim}, θ = 2.5 √log L, the α₀ = 4 L/θ³ that alignment needs, π = 0.5,
        R = 1): mean (left) and standard deviation between samples (right). The random share of positives is
        amplified by L, so that the cosine does not settle; a balanced bias rate removes this term. What is left
        of the spread, of order 1/√d, is not in the prediction of the spread. Markers: {trials} sampled queries."""
    return Drawing(picture=picture, caption=caption, pairs=pairs)
