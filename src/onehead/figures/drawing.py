"""Words and small parts that several figures share; drawing only."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onehead.figures.lab import Lab
from onehead.plot.figures import bare, finish, histogram, theory_line, training_marks
from onehead.sweep import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ALPHA", "SAMPLES", "curves", "law_and_histogram", "plain_ticks", "shared_grid", "target_density", "where"]

ALPHA = r"samples per squared dimension, $\alpha = n/d^2$"
SAMPLES = "samples n"
ZERO = 1e-3  # of the largest: eigenvalues below count as zero, as in training


def shared_grid(lab: Lab, low: float, high: float) -> list[float]:
    """Sample ratios of the learning curve between two ends: figures of one setting share their points in the store."""
    grid = np.geomspace(0.03, lab.pick(10.0, 60.0), lab.pick(22, 46)).tolist()
    return [alpha for alpha in grid if low <= alpha <= high]


def where(table: Table | None, **words: Any) -> list[dict[str, Any]]:
    """The answered rows with these values."""
    rows = () if table is None else table.rows
    return [row for row in rows if row["state"] == "done" and all(_same(row.get(k), v) for k, v in words.items())]


def _same(a: Any, b: Any) -> bool:
    return bool(abs(a - b) <= 1e-9 * max(1.0, abs(b))) if isinstance(b, float) and a is not None else a == b


def curves(
    axes: "Axes",
    theory: Table,
    training: Table | None,
    x: str,
    y: str,
    by: str,
    labels: Mapping[Any, str],
    only: Mapping[str, Any] | None = None,
    **style: Any,
) -> None:
    """One theory line and one set of training markers per value of ``by``, in the order of ``labels``.

    ``only`` keeps the rows with these values.
    """
    said = False
    for k, (value, label) in enumerate(labels.items()):
        rows = where(theory, **{**(only or {}), by: value})
        theory_line(axes, [row[x] for row in rows], [_number(row.get(y)) for row in rows], label, k, **style)
        runs = where(training, **{**(only or {}), by: value})
        if runs:
            error = [_number(row.get(f"{y}_err", 0.0)) for row in runs]
            name = None if said else _trained(training)
            said = True
            training_marks(axes, [row[x] for row in runs], [row[y] for row in runs], error, name, k)


def _trained(training: Table | None) -> str:
    """The legend of the markers, with d where all have the same."""
    dims = {row["dim"] for row in where(training)}
    return f"trained, d = {dims.pop()}" if len(dims) == 1 else "trained"


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)


def target_density(kappa0: float, points: int = 300) -> "tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]":
    """Non-zero part of a Marchenko-Pastur target."""
    from onehead.aim.targets import MarchenkoPastur  # noqa: PLC0415

    target = MarchenkoPastur(kappa0=kappa0)
    low, high = target.edges
    x = low + (high - low) * 0.5 * (1.0 - np.cos(np.linspace(0.0, np.pi, points)))
    return x, target.density(x)


def law_and_histogram(
    lab: Lab, axes: "Axes", laws: Table, index: int, training: Table | None, title: str, *, legend: bool
) -> None:
    """Density of the non-zero eigenvalues of S over a histogram of trained ones and the grey target."""
    row, arrays = laws[index], laws.arrays(index)
    bare(axes)
    x, target = target_density(row["kappa0"])
    axes.fill_between(x, target, color="#d9d9d9", lw=0.0, label="target", zorder=0)
    zeros = f"{row['zero_mass']:.0%} zeros"
    runs = [i for i, run in enumerate(training or ()) if _same(run["alpha"], row["alpha"]) and run["state"] == "done"]
    if training is not None and runs:
        values = training.arrays(runs[0])["eigenvalues"]
        kept = values[np.abs(values) > ZERO * np.abs(values).max()]
        histogram(axes, kept, share=kept.size / values.size, bins=24, label="trained")
        zeros += f" ({1.0 - kept.size / values.size:.0%} trained)"
        lab.add(f"eigenvalues, trained, alpha {row['alpha']:g}", eigenvalue=np.sort(values))
    size = len(arrays["x"]) // max(len(row["edges"]), 1)
    for i in range(len(row["edges"])):
        part = slice(i * size, (i + 1) * size)
        theory_line(axes, arrays["x"][part], arrays["density"][part], "theory" if i == 0 else None)
    lab.add(f"density, theory, alpha {row['alpha']:g}", eigenvalue=arrays["x"], density=arrays["density"])
    inner = arrays["density"][arrays["x"] > 0.08 * arrays["x"].max()]
    finish(
        axes,
        "eigenvalue of S",
        "density",
        f"{title}, {zeros}",
        ylim=(0.0, 1.7 * max(float(inner.max()), 0.1)),
        legend="upper right" if legend else None,
    )
    axes.title.set_fontsize(8.0)


def plain_ticks(axes: "Axes", values: Sequence[float]) -> None:
    """Ticks of a short logarithmic x axis at these values, written out."""
    axes.set_xticks(list(values), [f"{value:g}" for value in values])
    axes.minorticks_off()
