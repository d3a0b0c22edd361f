"""Figure of several checkpoints: verdicts, outliers and ranks against the step, and when each head emerged."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from onehead.errors import InvalidArgument
from onehead.plot._axes import resolve_axes
from onehead.plot._weights import set_map_ticks
from onehead.plot.style import GREY, VERDICT_COLOURS, finish_axes, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from onehead.weights.report import HeadReport
    from onehead.weights.trajectory import Trajectory

LOG_SCALE_RATIO = 30.0  # largest outlier, in units of the bulk edge, from which on its axis is logarithmic


def trajectory(found: "Trajectory", *, quantity: str | None = None, ax: "Axes | None" = None) -> "Axes":
    """Draw four panels about the checkpoints of one training.

    The panels are the number of heads with each verdict, the largest outlier and the effective rank of each head, all
    against the step, and a map of the steps at which heads emerged.

    Parameters
    ----------
    found : Trajectory
        Result of `onehead.weights.compare`.
    quantity : str, optional
        Panel to draw alone: "words" (the verdicts), "outliers", "ranks" or "emergence".
    ax : matplotlib Axes, optional
        Axes to draw one panel on, by default the verdicts; a new figure with four panels by default.

    Returns
    -------
    matplotlib Axes
        The axes of the panel, or of the first of four.

    Raises
    ------
    InvalidArgument
        If ``ax`` is not a matplotlib Axes, or ``quantity`` is not the name of a panel.

    Examples
    --------
    >>> from onehead import plot, weights
    >>> rng, name = np.random.default_rng(0), "encoder.layer.0.attention.self.{}.weight"
    >>> first = {name.format(side): rng.standard_normal((64, 64)) for side in ("query", "key")}
    >>> second = {key: 2.0 * W for key, W in first.items()}
    >>> found = weights.compare([first, second], head_count=2)
    >>> plot.trajectory(found, quantity="ranks").get_ylabel()
    'effective rank'
    """
    if quantity is not None and quantity not in PANELS:
        raise InvalidArgument("quantity", quantity, " or ".join(PANELS), PANELS)
    if quantity is not None or ax is not None:
        axes, name = resolve_axes(ax), quantity or "words"
        PANELS[name](found, axes)
        if name == "words":
            axes.legend(frameon=False, fontsize=8.0)
        return axes
    figure, grid = panels(2, 2, width=4.6, height=3.2)
    for draw, axes in zip(PANELS.values(), grid, strict=True):
        draw(found, axes)
    first: Axes = grid[0]
    figure.legend(
        *first.get_legend_handles_labels(),
        loc="outside lower center",
        ncols=len(VERDICT_COLOURS),
        frameon=False,
        fontsize=8.0,
    )
    return first


def _draw_verdicts(found: "Trajectory", axes: "Axes") -> None:
    """Draw the number of heads with each verdict against the step."""
    counts = np.array(
        [[survey.verdicts.get(verdict, 0) for survey in found.surveys] for verdict in VERDICT_COLOURS], dtype=float
    )
    colours, labels = [*VERDICT_COLOURS.values()], [*VERDICT_COLOURS]
    axes.stackplot(np.array(found.steps, dtype=float), counts, colors=colours, labels=labels, lw=0.0)
    finish_axes(axes, "step", "heads", "verdicts", fontsize=7.5, legend=None)
    axes.margins(x=0.0, y=0.0)


def _draw_lines(found: "Trajectory", axes: "Axes", number: "Callable[[HeadReport], float | None]") -> None:
    """Draw one line per head, in the colour of its last verdict."""
    for change in found.changes:
        colour = VERDICT_COLOURS.get(change.heads[-1].verdict or "", GREY)
        values = [np.nan if (value := number(head)) is None else value for head in change.heads]
        axes.plot(np.array(found.steps, dtype=float), values, color=colour, lw=0.8, alpha=0.7, marker=".", ms=3.0)


def _draw_outliers(found: "Trajectory", axes: "Axes") -> None:
    """Draw the largest outlier of every head against the step."""
    _draw_lines(found, axes, lambda head: head.strength if head.status == "ok" else None)
    wide = max(head.strength for change in found.changes for head in change.heads) > LOG_SCALE_RATIO
    log = "y" if wide else ""
    finish_axes(axes, "step", "largest outlier / bulk edge", "outliers, one line per head", log=log, legend=None)


def _draw_ranks(found: "Trajectory", axes: "Axes") -> None:
    """Draw the effective rank of every head against the step."""
    _draw_lines(found, axes, lambda head: head.effective_rank_nuclear or None)
    finish_axes(axes, "step", "effective rank", "effective rank, one line per head", legend=None)


def _draw_emergence(found: "Trajectory", axes: "Axes") -> None:
    """Draw a map of layers by heads with the step at which each head left noise as colour."""
    modules = list(dict.fromkeys(change.heads[0].module for change in found.changes))
    columns = sorted({int(change.heads[0].head or 0) for change in found.changes})
    table = np.full((len(modules), len(columns)), np.nan)
    for change in found.changes:
        head = change.heads[0]
        step = change.emerged
        table[modules.index(head.module), columns.index(int(head.head or 0))] = np.nan if step is None else step
    image = axes.imshow(
        table, cmap="viridis_r", aspect="auto", vmin=found.steps[0], vmax=found.steps[-1], interpolation="nearest"
    )
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.9)
    bar.ax.tick_params(labelsize=6)
    layers = {change.heads[0].module: change.heads[0].layer for change in found.changes}
    set_map_ticks(axes, columns, [layers[module] for module in modules])
    finish_axes(axes, "head", "layer", "step of emergence (blank: still noise, or never was)", legend=None)


PANELS = {"words": _draw_verdicts, "outliers": _draw_outliers, "ranks": _draw_ranks, "emergence": _draw_emergence}
