"""Pictures of training: markers over theory. Each takes results and axes and returns the axes."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from onehead.errors import InvalidArgument
from onehead.plot._call import drawing, on
from onehead.plot.style import ACCENT, ALPHA, GREY, OVERLAPS, SERIES, THEORY, TRAINING, bulks, dress

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from onehead.aim.training.amp import AmpResult
    from onehead.aim.training.compare import Comparison
    from onehead.aim.training.results import TrainingResult
    from onehead.aim.verbs.spectrum import Spectrum
    from onehead.sparse import Comparison as SparseComparison

__all__ = ["comparison", "message_passing", "trained_spectrum", "training_points"]

MARKERS = "osD^vP*X"
MARKS = "onehead-marks"  # what the markers of every call are marked with, so that the next ones look different
BARS: dict[str, Any] = {"ls": "none", "ms": 5.0, "lw": 1.2, "capsize": 2.5}


@drawing
def training_points(
    results: "TrainingResult | Sequence[TrainingResult]",
    *,
    quantity: str | None = None,
    label: str | None = None,
    color: Any = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Test errors of trained heads, noisy and clean, with standard errors, to lay over a learning curve.

    ``quantity`` draws one number alone, such as "rank"; ``label`` and ``color`` are those of the markers, ``ax`` is where to draw.
    """
    axes, runs = on(ax), list(results) if isinstance(results, Sequence) else [results]
    if not runs:
        raise InvalidArgument("results", results, "at least one answer of train")
    before = sum(line.get_gid() == MARKS for line in axes.get_lines())
    look = SERIES[before % len(SERIES)]
    colour = look.marks if color is None else color
    told = f"trained (d = {runs[0].dim}, {runs[0].seeds} seeds)" if label is None else label
    shown = ("test_error", "test_error_clean") if quantity is None else (quantity,)
    for name in shown:
        clean = len(shown) > 1 and name == "test_error_clean"
        bars = axes.errorbar(
            [result.trained_alpha for result in runs],
            [_number(result, name) for result in runs],
            yerr=np.nan_to_num([result.errors.get(name, 0.0) for result in runs]),
            marker="s" if clean else look.marker,
            color=colour,
            markerfacecolor="white" if clean or not look.filled else colour,
            label=f"{label or 'trained'}, clean labels" if clean else told,
            zorder=5,
            **BARS,
        )
        bars.lines[0].set_gid(None if clean else MARKS)
    up = axes.get_ylabel() or ("error" if quantity is None else quantity.replace("_", " "))
    return dress(axes, ALPHA, up, legend="upper right" if quantity is None else "best")


def _number(result: "TrainingResult", name: str) -> float:
    """A number of a run."""
    value = getattr(result, name, None)
    if not isinstance(value, (int, float)):
        known = ", ".join(result.errors)
        raise InvalidArgument("quantity", name, f"a number of a training result: {known}", result.errors)
    return float(value)


@drawing
def trained_spectrum(
    result: "TrainingResult",
    law: "Spectrum",
    *,
    label: str | None = None,
    color: Any = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Histogram of the non-zero eigenvalues of trained maps over the predicted density.

    ``label`` and ``color`` are those of the histogram, ``ax`` is where to draw.
    """
    axes = on(ax)
    values = result.eigenvalues
    cut = 1e-3 * float(np.abs(values).max())
    kept = values[np.abs(values) > cut]
    bins = _bins(kept, law.edges)
    width = np.diff(bins)[np.clip(np.searchsorted(bins, kept, side="right") - 1, 0, len(bins) - 2)]
    # heights are shares of all eigenvalues, so that the histogram and the density have the same area
    axes.hist(
        kept,
        bins=list(bins),
        weights=1.0 / (values.size * width),
        color=TRAINING if color is None else color,
        alpha=0.45,
        label=f"trained, d = {result.dim}, {result.seeds} seeds" if label is None else label,
    )
    for i, (x, height) in enumerate(bulks(law.x, law.density_values, len(law.edges))):
        axes.plot(x, height, color=THEORY, lw=1.9, label=None if i else "theory")
    value = law.point.task.value
    title = f"zero {value}s: {1.0 - kept.size / values.size:.1%} trained, {law.zero_mass:.1%} theory"
    inner = law.density_values[law.x > 0.1 * float(law.x.max(initial=0.0))]
    top, peak = 1.6 * float(inner.max(initial=0.0)) or None, float(law.density_values.max(initial=0.0))
    if top is not None and top < peak < 2.0 * top:
        top = 1.1 * peak
    elif top is not None and peak > top:  # it would hide all others
        at = float(law.x[law.density_values >= top].max())
        axes.annotate(
            f"\u2191 {peak:.2g}", (at, 0.97 * top), xytext=(6, 0), textcoords="offset points", fontsize=8.5, va="top"
        )
    return dress(axes, f"{value} of S", "density", title, ylim=(0.0, top))


def _bins(values: "NDArray[np.float64]", edges: "Sequence[Sequence[float]]") -> "NDArray[np.float64]":
    """Borders of a histogram: as many in every bulk as its share of the values deserves, so that a narrow bulk is seen too."""
    gaps = [0.5 * (left[1] + right[0]) for left, right in pairwise(edges)]
    low, high = float(values.min()), float(values.max())
    borders = [low, *(gap for gap in gaps if low < gap < high), high]
    parts: list[NDArray[np.float64]] = []
    for left, right in pairwise(borders):
        inside = values[(values >= left) & (values <= right)]
        ends = (float(inside.min()), float(inside.max())) if inside.size > 1 else (left, right)
        count = int(np.clip(1.2 * np.sqrt(inside.size), 6, 60))
        parts.append(np.linspace(ends[0], ends[1], count + 1))
    return np.unique(np.concatenate(parts))


@drawing
def message_passing(result: "AmpResult", *, quantity: str | None = None, ax: "Axes | None" = None) -> "Axes":
    """Overlaps of every iterate (markers) over state evolution (lines); ``quantity`` is one of q, m and sigma, drawn alone."""
    axes = on(ax)
    steps = [step.iteration for step in result.steps]
    styles = (("q", THEORY, "-", "o"), ("m", ACCENT, "--", "s"), ("sigma", GREY, "-.", "^"))
    if quantity is not None and quantity not in OVERLAPS:
        raise InvalidArgument("quantity", quantity, " or ".join(OVERLAPS), OVERLAPS)
    for name, colour, line, marker in styles:
        if quantity not in (None, name):
            continue
        label = OVERLAPS[name]
        theory = [float(getattr(step, f"{name}_theory")) for step in result.steps]
        axes.plot(steps, theory, color=colour, ls=line, lw=1.5, label=f"{label}, state evolution")
        found = [float(getattr(step, name)) for step in result.steps]
        axes.plot(steps, found, marker, color=TRAINING, ms=3.5, mfc="none", label=f"{label[0]}, message passing")
    title = f"d = {result.dim}, α = {result.alpha:g}, damping {result.damping:g}"
    return dress(axes, "iteration", "overlap", title, ylim=(0.0, None), fontsize=8.0, ncols=2)


@drawing
def comparison(
    table: "Comparison | SparseComparison", *, quantity: str = "test_error", ax: "Axes | None" = None
) -> "Axes":
    """A number of training over theory against 1/d, with the extrapolation at 1/d = 0, one marker per α.

    ``quantity`` is the number, the test error unless another one is asked for, ``ax`` where to draw.
    """
    axes = on(ax)
    if quantity not in (known := table.points[0].runs[0].errors):
        raise InvalidArgument("quantity", quantity, f"a number that is compared: {', '.join(known)}", known)
    points: Any = table.points  # of either half
    best = tuple(table.best or ())
    widest = max(1.0 / run.dim for point in points for run in point.runs)
    for k, point in enumerate(points):
        theory = float(getattr(point.prediction, quantity))
        own = np.array([float(getattr(beside, quantity)) for beside in point.beside])
        inverse = np.array([1.0 / run.dim for run in point.runs])
        ratio = np.array([float(getattr(run, quantity)) for run in point.runs]) / own
        error = np.nan_to_num([run.errors[quantity] for run in point.runs]) / own
        colour, marker = f"C{k}", MARKERS[k % len(MARKERS)]
        shift = 0.008 * widest * (k - 0.5 * (len(points) - 1))  # so that error bars do not hide each other
        axes.errorbar(
            inverse + shift, ratio, error, color=colour, marker=marker, label=f"α = {point.alpha:.3g}", **BARS
        )
        for limit in point.limits:
            if limit.quantity == quantity:
                axes.errorbar(
                    [shift], [limit.value / theory], yerr=[limit.standard_error / theory],
                    color=colour, marker=marker, markerfacecolor="white", **BARS,
                )  # fmt: skip
                line = np.array([0.0, float(inverse.max())])
                axes.plot(line + shift, (limit.value + limit.slope * line) / theory, color=colour, lw=0.9, ls=":")
        if best and quantity == "test_error":
            height = getattr(best[k], "test_error", np.nan) / theory
            axes.axhline(height, color=colour, lw=1.2, ls=(0, (1, 2)), label=f"best possible, α = {point.alpha:.3g}")
    axes.axhline(1.0, color=THEORY, lw=1.9, label="theory")
    axes.axvline(0.0, color=GREY, lw=0.8)
    axes.set_xlim(-0.06 * widest, 1.08 * widest)
    across = "1/d (open markers: extrapolated to infinite dimension)"
    return dress(axes, across, f"{quantity.replace('_', ' ')}, training over theory", table.setting)
