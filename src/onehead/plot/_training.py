"""Figures of training compared with theory: trained heads, their spectra, message passing, extrapolations in 1/d."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from onehead.errors import InvalidArgument
from onehead.plot._axes import resolve_axes
from onehead.plot.style import (
    ACCENT,
    ALPHA_LABEL,
    GREY,
    OVERLAP_LABELS,
    SERIES_STYLES,
    THEORY,
    TRAINING,
    finish_axes,
    split_bulks,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from onehead.aim.training.amp import AmpResult
    from onehead.aim.training.compare import Comparison
    from onehead.aim.training.results import TrainingResult
    from onehead.aim.verbs.spectrum import Spectrum
    from onehead.sparse import Comparison as SparseComparison

MARKERS = "osD^vP*X"
MARKER_GID = "onehead-marks"  # group of the markers of every call; the next call takes another style
ERROR_BARS: dict[str, Any] = {"ls": "none", "ms": 5.0, "lw": 1.2, "capsize": 2.5}


def training_points(
    results: "TrainingResult | Sequence[TrainingResult]",
    *,
    quantity: str | None = None,
    label: str | None = None,
    color: Any = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the test errors of trained heads on noisy and clean labels, with standard errors.

    Drawn on the axes of a learning curve, they show how well training agrees with theory.

    Parameters
    ----------
    results : TrainingResult or sequence of TrainingResult
        Results of `onehead.aim.train`.
    quantity : str, optional
        Name of a quantity to draw alone, such as "rank".
    label : str, optional
        Label of the markers in the legend.
    color : matplotlib color, optional
        Colour of the markers.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidArgument
        If there are no results, if ``ax`` is not a matplotlib Axes, or if ``quantity`` is not a number of a training
        result.

    Examples
    --------
    >>> from onehead import aim, plot
    >>> run = aim.train(aim.Task(), aim.Learner(), dim=12, alpha=1.0, seeds=2)
    >>> plot.training_points(run).get_legend_handles_labels()[1]
    ['trained (d = 12, 2 seeds)', 'trained, clean labels']
    """
    axes, runs = resolve_axes(ax), list(results) if isinstance(results, Sequence) else [results]
    if not runs:
        raise InvalidArgument("results", results, "at least one answer of train")
    earlier = sum(line.get_gid() == MARKER_GID for line in axes.get_lines())
    look = SERIES_STYLES[earlier % len(SERIES_STYLES)]
    colour = look.marks if color is None else color
    text = f"trained (d = {runs[0].dim}, {runs[0].seeds} seeds)" if label is None else label
    quantities = ("test_error", "test_error_clean") if quantity is None else (quantity,)
    for name in quantities:
        clean = len(quantities) > 1 and name == "test_error_clean"
        bars = axes.errorbar(
            [result.trained_alpha for result in runs],
            [_number(result, name) for result in runs],
            yerr=np.nan_to_num([result.errors.get(name, 0.0) for result in runs]),
            marker="s" if clean else look.marker,
            color=colour,
            markerfacecolor="white" if clean or not look.filled else colour,
            label=f"{label or 'trained'}, clean labels" if clean else text,
            zorder=5,
            **ERROR_BARS,
        )
        bars.lines[0].set_gid(None if clean else MARKER_GID)
    ylabel = axes.get_ylabel() or ("error" if quantity is None else quantity.replace("_", " "))
    return finish_axes(axes, ALPHA_LABEL, ylabel, legend="upper right" if quantity is None else "best")


def _number(result: "TrainingResult", name: str) -> float:
    """Return a number of a training result, or raise InvalidArgument if it has none of this name."""
    value = getattr(result, name, None)
    if not isinstance(value, (int, float)):
        known = ", ".join(result.errors)
        raise InvalidArgument("quantity", name, f"a number of a training result: {known}", result.errors)
    return float(value)


def trained_spectrum(
    result: "TrainingResult",
    law: "Spectrum",
    *,
    label: str | None = None,
    color: Any = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw a histogram of the non-zero eigenvalues of trained maps and the predicted density.

    Parameters
    ----------
    result : TrainingResult
        Result of `onehead.aim.train`.
    law : Spectrum
        Result of `onehead.aim.spectrum` for the same problem.
    label : str, optional
        Label of the histogram in the legend.
    color : matplotlib color, optional
        Colour of the histogram.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidArgument
        If ``ax`` is not a matplotlib Axes.

    Examples
    --------
    >>> from onehead import aim, plot
    >>> task, learner = aim.Task(), aim.Learner()
    >>> law = aim.spectrum(aim.predict(task, learner, alpha=1.0))
    >>> run = aim.train(task, learner, dim=12, alpha=1.0, seeds=2)
    >>> plot.trained_spectrum(run, law).get_ylabel()
    'density'
    """
    axes = resolve_axes(ax)
    values = result.eigenvalues
    cut = 1e-3 * float(np.abs(values).max())
    nonzero = values[np.abs(values) > cut]
    bins = _bins(nonzero, law.edges)
    width = np.diff(bins)[np.clip(np.searchsorted(bins, nonzero, side="right") - 1, 0, len(bins) - 2)]
    # heights are shares of all eigenvalues, so that the histogram and the density have the same area
    axes.hist(
        nonzero,
        bins=list(bins),
        weights=1.0 / (values.size * width),
        color=TRAINING if color is None else color,
        alpha=0.45,
        label=f"trained, d = {result.dim}, {result.seeds} seeds" if label is None else label,
    )
    for i, (x, height) in enumerate(split_bulks(law.x, law.density_values, len(law.edges))):
        axes.plot(x, height, color=THEORY, lw=1.9, label=None if i else "theory")
    value = law.point.task.spectral_value
    title = f"zero {value}s: {1.0 - nonzero.size / values.size:.1%} trained, {law.zero_mass:.1%} theory"
    inner = law.density_values[law.x > 0.1 * float(law.x.max(initial=0.0))]
    top, peak = 1.6 * float(inner.max(initial=0.0)) or None, float(law.density_values.max(initial=0.0))
    if top is not None and top < peak < 2.0 * top:
        top = 1.1 * peak
    elif top is not None and peak > top:  # a peak this high is cut off and its height written, to keep the rest visible
        at = float(law.x[law.density_values >= top].max())
        axes.annotate(
            f"\u2191 {peak:.2g}", (at, 0.97 * top), xytext=(6, 0), textcoords="offset points", fontsize=8.5, va="top"
        )
    return finish_axes(axes, f"{value} of S", "density", title, ylim=(0.0, top))


def _bins(values: "NDArray[np.float64]", edges: "Sequence[Sequence[float]]") -> "NDArray[np.float64]":
    """Return the bin edges of a histogram: separate bins in every bulk, so that a narrow bulk is resolved too."""
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


def message_passing(result: "AmpResult", *, quantity: str | None = None, ax: "Axes | None" = None) -> "Axes":
    """Draw the overlaps of every iterate of message passing (markers) and of state evolution (lines).

    Parameters
    ----------
    result : AmpResult
        Result of `onehead.aim.amp`.
    quantity : str, optional
        One of "q", "m" and "sigma" to draw alone.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidArgument
        If ``ax`` is not a matplotlib Axes, or ``quantity`` is not one of the three.

    Examples
    --------
    >>> from onehead import aim, plot
    >>> found = aim.amp(aim.Task(), aim.Learner(), dim=20, alpha=0.5, iterations=3)
    >>> plot.message_passing(found, quantity="q").get_legend_handles_labels()[1]
    ['q = |S|²/d, state evolution', 'q, message passing']
    """
    axes = resolve_axes(ax)
    steps = [step.iteration for step in result.steps]
    styles = (("q", THEORY, "-", "o"), ("m", ACCENT, "--", "s"), ("sigma", GREY, "-.", "^"))
    if quantity is not None and quantity not in OVERLAP_LABELS:
        raise InvalidArgument("quantity", quantity, " or ".join(OVERLAP_LABELS), OVERLAP_LABELS)
    for name, colour, line, marker in styles:
        if quantity not in (None, name):
            continue
        label = OVERLAP_LABELS[name]
        theory = [float(getattr(step, f"{name}_theory")) for step in result.steps]
        axes.plot(steps, theory, color=colour, ls=line, lw=1.5, label=f"{label}, state evolution")
        found = [float(getattr(step, name)) for step in result.steps]
        axes.plot(steps, found, marker, color=TRAINING, ms=3.5, mfc="none", label=f"{label[0]}, message passing")
    title = f"d = {result.dim}, α = {result.alpha:g}, damping {result.damping:g}"
    return finish_axes(axes, "iteration", "overlap", title, ylim=(0.0, None), fontsize=8.0, ncols=2)


def comparison(
    table: "Comparison | SparseComparison", *, quantity: str = "test_error", ax: "Axes | None" = None
) -> "Axes":
    """Draw the ratio of training to theory against 1/d, with the extrapolation to 1/d = 0, one marker style per α.

    Parameters
    ----------
    table : Comparison
        Result of `onehead.aim.compare` or `onehead.sparse.compare`.
    quantity : str
        Name of the compared quantity; the test error by default.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidArgument
        If ``ax`` is not a matplotlib Axes, or ``quantity`` is not compared.

    Examples
    --------
    >>> from onehead import aim, plot
    >>> table = aim.compare(aim.Task(), aim.Learner(), alphas=[1.0], dims=[10, 14], seeds=2)
    >>> plot.comparison(table).get_ylabel()
    'test error, training over theory'
    """
    axes = resolve_axes(ax)
    if quantity not in (known := table.points[0].runs[0].errors):
        raise InvalidArgument("quantity", quantity, f"a number that is compared: {', '.join(known)}", known)
    points: Any = table.points
    best = tuple(table.best or ())
    widest = max(1.0 / run.dim for point in points for run in point.runs)
    for k, point in enumerate(points):
        theory = float(getattr(point.prediction, quantity))
        own = np.array([float(getattr(prediction, quantity)) for prediction in point.beside])
        inverse = np.array([1.0 / run.dim for run in point.runs])
        ratio = np.array([float(getattr(run, quantity)) for run in point.runs]) / own
        error = np.nan_to_num([run.errors[quantity] for run in point.runs]) / own
        colour, marker = f"C{k}", MARKERS[k % len(MARKERS)]
        started = f", {point.start} start" if point.start else ""
        shift = 0.008 * widest * (k - 0.5 * (len(points) - 1))  # small offsets, so that error bars do not overlap
        axes.errorbar(
            inverse + shift, ratio, error, color=colour, marker=marker, label=f"α = {point.alpha:.3g}{started}",
            **ERROR_BARS,
        )  # fmt: skip
        for limit in point.limits:
            if limit.quantity == quantity:
                axes.errorbar(
                    [shift], [limit.value / theory], yerr=[limit.standard_error / theory],
                    color=colour, marker=marker, markerfacecolor="white", **ERROR_BARS,
                )  # fmt: skip
                line = np.array([0.0, float(inverse.max())])
                axes.plot(line + shift, (limit.value + limit.slope * line) / theory, color=colour, lw=0.9, ls=":")
        if best and quantity == "test_error" and point.start in (None, points[0].start):
            (possible,) = (each for each in best if each.alpha == point.alpha)
            height = getattr(possible, "test_error", np.nan) / theory
            axes.axhline(height, color=colour, lw=1.2, ls=(0, (1, 2)), label=f"best possible, α = {point.alpha:.3g}")
    axes.axhline(1.0, color=THEORY, lw=1.9, label="theory")
    axes.axvline(0.0, color=GREY, lw=0.8)
    axes.set_xlim(-0.06 * widest, 1.08 * widest)
    xlabel = "1/d (open markers: extrapolated to infinite dimension)"
    return finish_axes(axes, xlabel, f"{quantity.replace('_', ' ')}, training over theory", table.setting)
