"""Tokens with a mean: what it costs, when it is learned, and its outlier in the spectrum."""

from typing import TYPE_CHECKING, Any

import numpy as np

from onehead.figures.agreement import compare
from onehead.figures.data_source import DataSource
from onehead.figures.drawing import ZERO_RATIO, curves, density, marks, rows_with
from onehead.figures.registry import Drawing
from onehead.plot.style import THEORY, finish_panel, guide, histogram, panels
from onehead.sweep import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHARES = {0.0: "no mean", 0.5: "unasked share 0.5", 0.77: "0.77", 0.91: "0.91"}
HEAD = {"target": "product", "kappa0": 0.5, "noise": 0.5, "attention": "cross"}
COST = {**HEAD, "labels": "hard", "loss": "cross-entropy", "weight_decay": 0.1}
FIRST = {**HEAD, "loss": "cross-entropy", "weight_decay": 0.5, "unasked": 0.5}
AXIS_FREE = {name: value for name, value in FIRST.items() if name != "weight_decay"}  # a sweep needs an axis
OUTLIER = {**HEAD, "weight_decay": 0.05, "unasked": 0.77, "token_mean": 0.25}


def draw(source: DataSource) -> Drawing:
    """Draw the error of the asked part, the size of the unasked part, and a spectrum."""
    dim, seeds = 40, 2  # small also in a full figure: hard labels need 8 d² samples
    size = {"dim": dim, "seeds": seeds, "starts": 1}
    measured = (3.0, 8.0)
    grid = sorted({*(np.linspace(1.5**-0.5, 12.0**-0.5, 25) ** -2).tolist(), *measured})  # lines bend at few samples
    axes_of = ("unasked", "alpha")
    theory = source.theory("cost, theory", "aim.predict", {axes_of: [(f, a) for f in SHARES for a in grid]}, COST)
    runs = source.train(
        "cost, trained", "aim.train", {axes_of: [(f, a) for f in SHARES for a in measured]}, {**COST, **size}
    )
    ratios = (0.25, 1.0, 4.0)
    first = source.train("first, trained", "aim.train", {"alpha": [ratio / dim for ratio in ratios]}, {**FIRST, **size})
    threshold = source.theory("first, theory", "aim.thresholds", {"weight_decay": [FIRST["weight_decay"]]}, AXIS_FREE)[
        0
    ]["unasked_emergence"]
    laws = source.theory("spectrum", "aim.spectrum", {"alpha": [1.0]}, OUTLIER)
    trained = source.train("spectrum, trained", "aim.train", {"alpha": [1.0]}, {**OUTLIER, **size})

    picture, (left, middle, right) = panels(1, 3, width=4.0)
    distant = None if runs is None else _with_distance(runs)
    curves(left, _with_distance(theory), distant, "alpha", "distance", "unasked", SHARES)
    finish_panel(left, r"$\alpha$", r"$|S-S^\star|^2/d$, asked part", "what a mean costs", log="x", ylim=(0.0, None))
    if first is not None:
        rows = [{**row, "ratio": row["alpha"] * row["dim"]} for row in rows_with(first)]
        marks(middle, rows, "ratio", "unasked_scale", f"trained, d = {dim}", 0)
    _early(source, middle, threshold)
    guide(middle, x=threshold, text="first learned", before=False)
    finish_panel(
        middle, "samples over d", "unasked logits over the target's", "when it is learned", log="x", ylim=(-0.05, 1.0)
    )
    _spectrum(source, right, laws, trained)
    caption = f"""Tokens with a mean, cross-attention, κ₀ = 0.5, Δ = 0.5, T = 2. Left: error of the asked part of the
        map with hard labels and λ = 0.1, for four shares of the target's logit variance that all queries share; these
        logits use up the range of the softmax, and the rest needs more samples. Middle: the unasked part itself is
        learned from about d samples (line: theory, dotted: where it starts), long before the rest; cross-entropy,
        λ = 0.5, unasked share 0.5.
        Right: singular values of S with an unasked share of 0.77 and a mean of |μ|² = d/4, squared loss, α = 1, λ =
        0.05; the dashed line is the predicted outlier of the mean. Training with d = {dim}, {seeds} seeds."""
    pairs = compare(theory, runs, axes_of, ("test_error", "train_loss", "unasked_scale"))
    return Drawing(picture=picture, caption=caption, pairs=pairs)


def _with_distance(table: Table) -> Table:
    """Return the rows with |S - S*|²/d as a further column, and its error where q and m have one."""

    def row(found: dict[str, Any]) -> dict[str, Any]:
        if found.get("q") is None:
            return found
        error = float(np.hypot(found.get("q_err") or 0.0, 2.0 * (found.get("m_err") or 0.0)))
        return {**found, "distance": found["q"] - 2.0 * found["m"] + 1.0, "distance_err": error}

    return Table([row(found) for found in table], lambda _: {})


def _early(source: DataSource, axes: "Axes", threshold: float) -> None:
    """Draw how much is learned of the unasked part from n ~ d samples, with most points behind the corner at which it
    is first learned.
    """
    from onehead.aim import unasked_curve
    from onehead.aim.flat_parameters import problem_from_parameters

    task, learner, _ = problem_from_parameters(FIRST)
    ratios = [0.25, threshold, *(threshold + np.geomspace(0.01, 16.0 - threshold, 24))]
    points = unasked_curve(task, learner, ratios)
    columns = {name: [getattr(point, name) for point in points] for name in ("samples_per_dim", "unasked_scale")}
    axes.plot(*columns.values(), color=THEORY, label="theory")
    source.add("first learned, theory", **columns)


def _spectrum(source: DataSource, axes: "Axes", laws: Table, runs: Table | None) -> None:
    """Draw the law of the singular values, the trained ones, and the outlier of the mean."""
    from onehead.aim import predict, spectrum
    from onehead.aim.flat_parameters import problem_from_parameters

    task, learner, _ = problem_from_parameters(OUTLIER)
    row = spectrum(predict(task, learner, 1.0)).unasked_outlier
    assert row is not None
    assert row.position is not None
    if runs is not None and runs[0]["state"] == "done":
        values = np.sort(runs.arrays(0)["eigenvalues"])
        nonzero = values[values > ZERO_RATIO * values[-1]]
        histogram(axes, nonzero, share=nonzero.size / values.size, bins=36, label=f"trained, d = {runs[0]['dim']}")
        source.add("singular values, trained", singular_value=values)
    density(source, axes, laws, 0, "theory", "bulk", value="singular_value")
    axes.axvline(row.position, color=THEORY, lw=1.2, ls="--", label="outlier of the mean")
    source.add("outlier, theory", singular_value=[row.position])
    finish_panel(axes, "singular value of S", "density", "the mean in the spectrum", ylim=(0.0, None))
    axes.set_xlim(0.0, None)
