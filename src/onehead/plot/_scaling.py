"""Figures of scaling laws: excess error and its parts, the order in which features are learned, the phase diagram."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onehead.plot._axes import line_style, resolve_axes
from onehead.plot.style import (
    ACCENT,
    AMBER,
    GREY,
    PURPLE,
    TEXT,
    THEORY,
    cell_edges,
    finish_axes,
    nondefault_settings,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from onehead.aim.task import Task
    from onehead.aim.verbs.phases import PhaseDiagram
    from onehead.aim.verbs.scaling import Feature, Scaling

PARTS = {  # of the excess error: colour, dash, label
    "underfitting": (AMBER, "--", "underfitting: cut off by weight decay"),
    "overfitting": (ACCENT, "-.", "overfitting: noise that was learned"),
    "approximation": (PURPLE, ":", "approximation: features learned wrongly"),
}
REGION_NAMES = {
    "not emerged": "S = 0\nnothing learned",
    "threshold": "threshold\nfeatures one by one",
    "bias": "bias\nall shrunk",
    "noise": "noise\nmore data, less noise",
    "interpolating": "interpolating\nlabels fitted",
}


def predicted_exponents(gamma: float) -> dict[str, float]:
    """Return the exponents of the excess error that scaling arguments predict for a power-law target (7).

    Parameters
    ----------
    gamma : float
        Decay γ > 1/2 of the eigenvalues of the target.

    Returns
    -------
    dict of str to float
        The exponents -(1 - 1/2γ), where noise sets the cut, and -(2 - 1/γ), where weight decay does, by their TeX
        labels.

    Raises
    ------
    ZeroDivisionError
        If ``gamma`` is zero.

    Examples
    --------
    >>> list(predicted_exponents(1.0).values())
    [-0.5, -1.0]
    """
    return {r"$1-\frac{1}{2\gamma}$": -(1.0 - 0.5 / gamma), r"$2-\frac{1}{\gamma}$": -(2.0 - 1.0 / gamma)}


def scaling(
    law: "Scaling",
    *,
    quantity: str | None = None,
    label: str | None = None,
    color: Any = None,
    ax: "Axes | Sequence[Axes] | None" = None,
) -> "Axes":
    """Draw the excess error with its parts, and below it the local exponent, against the number of samples.

    Parameters
    ----------
    law : Scaling
        Result of `onehead.aim.scaling`; to overlay several, call again with the same ``ax``.
    quantity : str, optional
        Name of a column to draw alone, such as "excess_error".
    label : str, optional
        Label of the excess error, or of the quantity, in the legend.
    color : matplotlib color, optional
        Colour of the lines.
    ax : matplotlib Axes or sequence of two, optional
        Axes of both panels, or of the upper panel alone; a new figure by default.

    Returns
    -------
    matplotlib Axes
        The upper panel.

    Raises
    ------
    InvalidArgument
        If ``ax`` is not a matplotlib Axes, or ``quantity`` is not a column of the scaling law.

    Examples
    --------
    >>> from onehead import aim, plot
    >>> law = aim.scaling(aim.Task(aim.PowerLaw(dim=30)), aim.Learner(), [500.0, 2000.0])
    >>> plot.scaling(law).get_ylabel()
    'error above the plateau'
    """
    order = np.argsort(law.column("samples"))
    n = law.column("samples")[order]
    mark = "o" if len(n) == 1 else ""
    if quantity is not None:
        return _draw_column(law, quantity, n, order, resolve_axes(_first(ax)), label, color)
    if ax is None:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 6.2), layout="constrained")
        ax = figure.subplots(2, 1, sharex=True, height_ratios=(1.5, 1.0))
    top = resolve_axes(_first(ax))
    bottom = ax[1] if isinstance(ax, (Sequence, np.ndarray)) and len(ax) > 1 else None
    look = line_style(top, label, color)
    entry, colour = look.legend_entry("excess error"), look.colour(THEORY)
    top.plot(n, law.column("excess_error")[order], color=colour, lw=2.1, marker=mark, **entry)
    for name, (default, dash, text) in PARTS.items():
        part = law.column(name)[order]
        if np.isnan(part).all():  # the error is not decomposed for this kind of head
            continue
        part = np.where(part > 0.0, part, np.nan)
        top.plot(n, part, color=look.colour(default), ls=dash, lw=1.4, label=text, marker=mark)
    low = 0.02 * float(np.nanmin(law.column("excess_error")))
    style: dict[str, Any] = {"log": "xy", "ylim": (low, None), "legend": "lower left", "fontsize": 8}
    xlabel = "" if bottom is not None else "samples n"
    finish_axes(top, xlabel, "error above the plateau", _describe_law(law), **style)
    if bottom is not None:
        _draw_exponents(law, n, law.column("local_exponent")[order], bottom, colour, mark)
    for each in (top, bottom):
        if each is not None:
            each.spines[["top", "right"]].set_visible(False)
    return top


def _first(ax: Any) -> Any:
    """Return the first of several axes, or the only one."""
    return ax[0] if isinstance(ax, (Sequence, np.ndarray)) else ax


def _draw_column(
    law: "Scaling", quantity: str, n: Any, order: Any, ax: "Axes", label: str | None, color: Any
) -> "Axes":
    """Draw one column of a scaling law."""
    look, y, mark = line_style(ax, label, color), law.column(quantity)[order], "o" if len(n) == 1 else ""
    entry = look.legend_entry(quantity.replace("_", " "), _describe_law(law))
    ax.plot(n, y, color=look.colour(THEORY), lw=1.9, marker=mark, **entry)
    log = "xy" if np.nanmin(y) > 0.0 else "x"
    return finish_axes(ax, "samples n", quantity.replace("_", " "), _describe_law(law) if look.first else " ", log=log)


def _draw_exponents(law: "Scaling", n: Any, exponent: Any, bottom: "Axes", colour: Any, mark: str) -> None:
    """Draw the local exponents, and those that scaling arguments predict."""
    bottom.plot(n, exponent, color=colour, lw=1.9, marker=mark)
    gamma = getattr(law.task.target, "gamma", None)
    guides = {"parametric rate": -1.0, **(predicted_exponents(gamma) if gamma and gamma > 0.5 else {})}
    for text, value in guides.items():
        bottom.axhline(value, color=GREY, lw=0.9, ls=":")
        bottom.annotate(
            text, (1.0, value), xycoords=("axes fraction", "data"), fontsize=8, ha="right", va="bottom", color=TEXT
        )
    finish_axes(bottom, "samples n", "local exponent\nd log(excess) / d log n", log="x", legend=None)


def _describe_law(law: "Scaling") -> str:
    """Return the task and the weight decay of a scaling law in symbols."""
    decay = "best at each n" if law.optimal else f"{law.learner.decay:.4g}"
    return rf"{_describe_task(law.task)}, $\lambda$: {decay}"


def _describe_task(task: "Task") -> str:
    """Return target, dimension, noise, tokens and settings of the head that are not the default."""
    gamma, dim = getattr(task.target, "gamma", None), len(getattr(task.target, "values", ()))
    name = rf"power law $\gamma={gamma:g}$" if gamma is not None else type(task.target).__name__
    return ", ".join([rf"{name}, $d={dim}$, $\Delta={task.noise:g}$, $T={task.tokens}$", *nondefault_settings(task)])


def features(
    found: "Sequence[Feature]", *, label: str | None = None, color: Any = None, ax: "Axes | None" = None
) -> "Axes":
    """Draw the eigenvalues (untied heads: singular values) of the target against the samples at which each is learned.

    Parameters
    ----------
    found : sequence of Feature
        Result of `onehead.aim.features`.
    label : str, optional
        Label of the line in the legend.
    color : matplotlib color, optional
        Colour of the line.
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
    >>> found = aim.features(aim.Task(aim.PowerLaw(dim=30)), aim.Learner(), [500.0, 2000.0])
    >>> plot.features(found).get_xlabel()
    'samples n at which the feature appears'
    """
    axes = resolve_axes(ax)
    look, points = line_style(axes, label, color), [(item.samples, item.target) for item in found]
    entry = look.legend_entry("leaves the noise bulk (theory)")
    axes.plot(*np.reshape(points, (-1, 2)).T, color=look.colour(THEORY), lw=1.2, marker="o", ms=4, **entry)
    for item, point in zip(found[:3], points, strict=False):
        axes.annotate(f"feature {item.feature}", point, xytext=(6, 3), textcoords="offset points", fontsize=8)
    return finish_axes(
        axes, "samples n at which the feature appears", "eigenvalue of the target (untied: singular value)", log="xy"
    )


def phases(found: "PhaseDiagram", *, ax: "Axes | None" = None) -> "Axes":
    """Draw a phase diagram: local exponents as colour, mechanisms as outlined regions, predicted exponents as contours.

    Parameters
    ----------
    found : PhaseDiagram
        Result of `onehead.aim.phase_diagram`.
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
    >>> task = aim.Task(aim.PowerLaw(dim=30))
    >>> found = aim.phase_diagram(task, log_n=[1.5, 2.0], log_lambda=[-1.0, 0.0])
    >>> plot.phases(found).get_xlabel()
    '$\\\\log_d n$ (samples)'
    """
    from matplotlib.colors import TwoSlopeNorm

    axes = resolve_axes(ax, 8.2, 4.8)
    x, y = np.array(found.log_n), np.array(found.log_lambda)
    slope = found.grid("local_exponent")
    mesh = axes.pcolormesh(
        cell_edges(x),
        cell_edges(y),
        slope,
        cmap="RdBu_r",
        norm=TwoSlopeNorm(vmin=-2.0, vcenter=0.0, vmax=2.0),
        rasterized=True,
    )
    figure: Any = axes.figure
    bar = figure.colorbar(mesh, ax=axes, label="local exponent, d log(excess) / d log n", pad=0.02)
    bar.ax.set_ylim(-2.0, 0.6)
    gamma = getattr(found.task.target, "gamma", None)
    if gamma and gamma > 0.5 and min(slope.shape) > 1:
        learned = np.where(slope == 0.0, np.nan, slope)
        for (text, value), dash in zip(predicted_exponents(gamma).items(), ("--", "-"), strict=True):
            axes.contour(x, y, learned, levels=[value], colors="black", linewidths=1.1, linestyles=dash)
            axes.plot([], [], color="black", ls=dash, lw=1.1, label=f"exponent $-$({text}) = {value:.3g}")
        axes.legend(frameon=True, framealpha=0.9, edgecolor="none", fontsize=8, loc="lower right")
    _outline_regions(axes, found, x, y)
    title = f"{_describe_task(found.task)}: which mechanism limits the head"
    return finish_axes(axes, r"$\log_d n$ (samples)", r"$\log_d \lambda$ (weight decay)", title, legend=None)


def _outline_regions(axes: "Axes", found: "PhaseDiagram", x: Any, y: Any) -> None:
    """Draw a line around every region and its name in the middle; hatch cells without a value."""
    regions = np.array([cell.region or "failed" for cell in found.cells]).reshape(len(y), len(x))
    left, low = cell_edges(x), cell_edges(y)
    for i, j in np.ndindex(regions.shape):
        if j + 1 < len(x) and regions[i, j] != regions[i, j + 1]:
            axes.plot([left[j + 1]] * 2, low[i : i + 2], color=TEXT, lw=1.6)
        if i + 1 < len(y) and regions[i, j] != regions[i + 1, j]:
            axes.plot(left[j : j + 2], [low[i + 1]] * 2, color=TEXT, lw=1.6)
        if regions[i, j] == "failed":
            axes.fill_between(left[j : j + 2], low[i], low[i + 1], facecolor="none", hatch="///", edgecolor=GREY, lw=0)
    for name, text in REGION_NAMES.items():
        cells = np.argwhere(regions == name)
        if len(cells) < 3:
            continue
        # the cell closest to the mean, because the mean itself may lie outside the region
        central = cells[np.argmin(((cells - cells.mean(axis=0)) / regions.shape) ** 2 @ np.ones(2))]
        background = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5}
        axes.annotate(text, (x[central[1]], y[central[0]]), ha="center", va="center", fontsize=8, bbox=background)
