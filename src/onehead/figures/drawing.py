"""Words and small parts that several figures share; drawing only."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onehead.aim.targets import MarchenkoPastur, Target
from onehead.figures.lab import Lab
from onehead.plot.style import ALPHA, bare, bulks, finish, histogram, theory_line, training_marks
from onehead.sweep import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "ALPHA", "GAUSSIAN", "LEADING", "SAMPLES", "ZERO", "by_rank", "curves", "density", "law_and_histogram", "line", "marks", "mean_and_error",
    "plain_ticks", "shared_grid", "target_density", "where",
]  # fmt: skip

Rows = Iterable[Mapping[str, Any]]

SAMPLES = "samples n"
GAUSSIAN: dict[str, Any] = {
    "ls": ":",
    "lw": 1.1,
}  # power laws with Gaussian logits, beside leading directions that are averaged exactly
LEADING = 3  # of these
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


def line(axes: "Axes", rows: Rows, x: str, y: str, label: str | None = None, k: int = 0, **style: Any) -> None:
    """Two columns of some rows as a line of theory; a row without an answer leaves a gap."""
    theory_line(axes, _column(rows, x), _column(rows, y), label, k, **style)


def marks(
    axes: "Axes", runs: Rows | None, x: str, y: str, label: str | None = None, k: int = 0, *, shift: float = 0.0
) -> None:
    """Two columns of measured rows as markers with standard errors, where there are any.

    ``shift`` moves them apart by a share of ``x``, where they would hide each other.
    """
    if rows := list(runs or ()):
        at = [value * (1.0 + shift) for value in _column(rows, x)]
        training_marks(axes, at, _column(rows, y), _column(rows, f"{y}_err"), label, k)


def _column(rows: Rows, name: str) -> list[float]:
    return [float("nan") if row.get(name) is None else float(row[name]) for row in rows]


def curves(
    axes: "Axes",
    theory: Table,
    training: Table | None,
    x: str,
    y: str,
    by: str | tuple[str, ...],
    labels: Mapping[Any, str],
    only: Mapping[str, Any] | None = None,
    **style: Any,
) -> None:
    """One theory line and one set of training markers per value of ``by``, in the order of ``labels``.

    ``only`` keeps the rows with these values.
    """
    dims = {row["dim"] for row in where(training)}
    name: str | None = f"trained, d = {dims.pop()}" if len(dims) == 1 else "trained"
    for k, (value, label) in enumerate(labels.items()):
        kept = {**(only or {}), **({by: value} if isinstance(by, str) else dict(zip(by, value, strict=True)))}
        line(axes, where(theory, **kept), x, y, label, k, **style)
        if runs := where(training, **kept):
            marks(axes, runs, x, y, name, k)
            name = None  # one legend says it for all


def mean_and_error(samples: Any) -> "tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]":
    """Means over the first axis and their standard errors."""
    return np.mean(samples, axis=0), np.std(samples, axis=0, ddof=1) / np.sqrt(len(samples))


def by_rank(runs: Table, index: int) -> "tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]":
    """Mean and standard error over seeds of the largest eigenvalue of a trained map, the second, and so on."""
    values = runs.arrays(index)["eigenvalues"].reshape(-1, runs[index]["dim"])
    return mean_and_error(np.sort(values, axis=1)[:, ::-1])


def density(
    lab: Lab, axes: "Axes", laws: Table, index: int, label: str, named: str, k: int = 0, *, value: str = "eigenvalue"
) -> None:
    """The law of the eigenvalues, one line per bulk; ``named`` ends the name of its rows in the data, ``value`` is their column."""
    arrays = laws.arrays(index)
    for i, (x, height) in enumerate(bulks(arrays["x"], arrays["density"], len(laws[index]["edges"]))):
        theory_line(axes, x, height, None if i else label, k)
    lab.add(f"density, theory, {named}", **{value: arrays["x"]}, density=arrays["density"])


def target_density(target: Target, points: int = 300) -> "tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]":
    """Non-zero part of the law of a target."""
    low, high = target.edges
    x = low + (high - low) * 0.5 * (1.0 - np.cos(np.linspace(0.0, np.pi, points)))
    return x, target.density(x)


def law_and_histogram(
    lab: Lab, axes: "Axes", laws: Table, index: int, training: Table | None, title: str, *, legend: bool
) -> None:
    """Density of the non-zero eigenvalues of S over a histogram of trained ones and the grey target."""
    row, arrays = laws[index], laws.arrays(index)
    bare(axes)
    x, target = target_density(MarchenkoPastur(kappa0=row["kappa0"]))
    axes.fill_between(x, target, color="#d9d9d9", lw=0.0, label="target", zorder=0)
    zeros = f"{row['zero_mass']:.0%} zeros"
    runs = [i for i, run in enumerate(training or ()) if _same(run["alpha"], row["alpha"]) and run["state"] == "done"]
    if training is not None and runs:
        values = training.arrays(runs[0])["eigenvalues"]
        kept = values[np.abs(values) > ZERO * np.abs(values).max()]
        histogram(axes, kept, share=kept.size / values.size, bins=24, label="trained")
        zeros += f" ({1.0 - kept.size / values.size:.0%} trained)"
        lab.add(f"eigenvalues, trained, alpha {row['alpha']:g}", eigenvalue=np.sort(values))
    density(lab, axes, laws, index, "theory", f"alpha {row['alpha']:g}")
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
