"""Axis labels and drawing helpers that several figures share."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onehead.aim.targets import MarchenkoPastur, Target
from onehead.figures.data_source import DataSource
from onehead.plot.style import (
    MODEL_COLOURS,
    TARGET_FILL,
    despine,
    finish_panel,
    histogram,
    split_bulks,
    theory_line,
    training_marks,
)
from onehead.sweep import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Rows = Iterable[Mapping[str, Any]]

SAMPLES_LABEL = "samples n"
LEADING = 3  # leading directions that figures of power laws average exactly
GAUSSIAN_STYLE: dict[str, Any] = {"ls": ":", "lw": 1.1}  # of the theory with Gaussian logits in the same figures
ZERO_RATIO = 1e-3  # to the largest eigenvalue; eigenvalues below count as zero, as in training


def shared_grid(source: DataSource, low: float, high: float) -> list[float]:
    """Return the sample ratios of the learning curve between two limits, so that figures share points in the store."""
    grid = np.geomspace(0.03, source.pick(10.0, 60.0), source.pick(22, 46)).tolist()
    return [alpha for alpha in grid if low <= alpha <= high]


def rows_with(table: Table | None, **values: Any) -> list[dict[str, Any]]:
    """Return the finished rows with these values of their columns."""
    rows = () if table is None else table.rows
    return [row for row in rows if row["state"] == "done" and all(_same(row.get(k), v) for k, v in values.items())]


def _same(a: Any, b: Any) -> bool:
    return bool(abs(a - b) <= 1e-9 * max(1.0, abs(b))) if isinstance(b, float) and a is not None else a == b


def line(axes: "Axes", rows: Rows, x: str, y: str, label: str | None = None, k: int = 0, **style: Any) -> None:
    """Draw two columns of some rows as a line of theory; a row without a value leaves a gap."""
    theory_line(axes, _column(rows, x), _column(rows, y), label, k, **style)


def marks(
    axes: "Axes", runs: Rows | None, x: str, y: str, label: str | None = None, k: int = 0, *, shift: float = 0.0
) -> None:
    """Draw two columns of measured rows as markers with standard errors; None draws nothing.

    ``shift`` moves them by a fraction of ``x``, so that overlapping markers can be told apart.
    """
    if rows := list(runs or ()):
        shifted = [value * (1.0 + shift) for value in _column(rows, x)]
        training_marks(axes, shifted, _column(rows, y), _column(rows, f"{y}_err"), label, k)


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
    """Draw a line of theory and markers of training for each value of ``by``, in the order of ``labels``.

    ``only`` selects the rows with these values. Lines of the models of sparse tokens have the colour of their model.
    """
    dims = {row["dim"] for row in rows_with(training)}
    name: str | None = f"trained, d = {dims.pop()}" if len(dims) == 1 else "trained"
    for k, (value, label) in enumerate(labels.items()):
        selected = {**(only or {}), **({by: value} if isinstance(by, str) else dict(zip(by, value, strict=True)))}
        own = {"color": MODEL_COLOURS[value]} if by == "model" else {}
        line(axes, rows_with(theory, **selected), x, y, label, k, **style, **own)
        if runs := rows_with(training, **selected):
            marks(axes, runs, x, y, name, k)
            name = None  # only the first markers have an entry in the legend


def mean_and_error(samples: Any) -> "tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]":
    """Return means over the first axis and their standard errors."""
    return np.mean(samples, axis=0), np.std(samples, axis=0, ddof=1) / np.sqrt(len(samples))


def mean_by_rank(runs: Table, index: int) -> "tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]":
    """Return mean and standard error over seeds of the eigenvalues of a trained map, in descending order."""
    values = runs.arrays(index)["eigenvalues"].reshape(-1, runs[index]["dim"])
    return mean_and_error(np.sort(values, axis=1)[:, ::-1])


def density(
    source: DataSource,
    axes: "Axes",
    laws: Table,
    index: int,
    label: str,
    named: str,
    k: int = 0,
    *,
    value: str = "eigenvalue",
) -> None:
    """Draw the density of the eigenvalues, one line per bulk, and add it to the data of the figure.

    ``named`` ends the name of its rows in the data, ``value`` is the name of their first column.
    """
    arrays = laws.arrays(index)
    for i, (x, height) in enumerate(split_bulks(arrays["x"], arrays["density"], len(laws[index]["edges"]))):
        theory_line(axes, x, height, None if i else label, k)
    source.add(f"density, theory, {named}", **{value: arrays["x"]}, density=arrays["density"])


def target_density(target: Target, points: int = 300) -> "tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]":
    """Return points and density of the non-zero part of the law of a target."""
    low, high = target.edges
    x = low + (high - low) * 0.5 * (1.0 - np.cos(np.linspace(0.0, np.pi, points)))
    return x, target.density(x)


def law_and_histogram(
    source: DataSource, axes: "Axes", laws: Table, index: int, training: Table | None, title: str, *, legend: bool
) -> None:
    """Draw the density of the non-zero eigenvalues of S, a histogram of trained ones, and the target in grey."""
    row, arrays = laws[index], laws.arrays(index)
    despine(axes)
    x, target = target_density(MarchenkoPastur(kappa0=row["kappa0"]))
    axes.fill_between(x, target, color=TARGET_FILL, lw=0.0, label="target", zorder=0)
    zeros = f"{row['zero_mass']:.0%} zeros"
    runs = [i for i, run in enumerate(training or ()) if _same(run["alpha"], row["alpha"]) and run["state"] == "done"]
    if training is not None and runs:
        values = training.arrays(runs[0])["eigenvalues"]
        nonzero = values[np.abs(values) > ZERO_RATIO * np.abs(values).max()]
        histogram(axes, nonzero, share=nonzero.size / values.size, bins=24, label="trained")
        zeros += f" ({1.0 - nonzero.size / values.size:.0%} trained)"
        source.add(f"eigenvalues, trained, alpha {row['alpha']:g}", eigenvalue=np.sort(values))
    density(source, axes, laws, index, "theory", f"alpha {row['alpha']:g}")
    inner = arrays["density"][arrays["x"] > 0.08 * arrays["x"].max()]
    finish_panel(
        axes,
        "eigenvalue of S",
        "density",
        f"{title}, {zeros}",
        ylim=(0.0, 1.7 * max(float(inner.max()), 0.1)),
        legend="upper right" if legend else None,
    )
    axes.title.set_fontsize(8.0)


def plain_ticks(axes: "Axes", values: Sequence[float]) -> None:
    """Set the ticks of a short logarithmic x axis to these values, written as plain numbers."""
    axes.set_xticks(list(values), [f"{value:g}" for value in values])
    axes.minorticks_off()
