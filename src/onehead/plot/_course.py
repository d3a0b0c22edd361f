"""A picture of several checkpoints: words, outliers and ranks against the step, and when each head emerged."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from onehead.errors import InvalidArgument
from onehead.plot._call import drawing, on
from onehead.plot.style import GREY, VERDICTS, dress, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from onehead.weights.course import Course
    from onehead.weights.report import HeadReport

__all__ = ["course"]

DECADE = 30.0  # a larger range needs a logarithm


@drawing
def course(found: "Course", *, quantity: str | None = None, ax: "Axes | None" = None) -> "Axes":
    """Four panels: how many heads have each word, the largest outlier and the effective rank of each head, and a map of emergence.

    ``quantity`` draws one of them alone, on ``ax``: words, outliers, ranks or emergence.
    """
    if quantity is not None and quantity not in PANELS:
        raise InvalidArgument("quantity", quantity, " or ".join(PANELS), PANELS)
    if quantity is not None or ax is not None:
        axes, name = on(ax), quantity or "words"
        PANELS[name](found, axes)
        if name == "words":
            axes.legend(frameon=False, fontsize=8.0)
        return axes
    figure, grid = panels(2, 2, width=4.6, height=3.2)
    for draw, axes in zip(PANELS.values(), grid, strict=True):
        draw(found, axes)
    first: Axes = grid[0]
    figure.legend(
        *first.get_legend_handles_labels(), loc="outside lower center", ncols=len(VERDICTS), frameon=False, fontsize=8.0
    )
    return first


def _words(found: "Course", axes: "Axes") -> None:
    """How many heads have each word, step by step."""
    counts = np.array([[survey.verdicts.get(word, 0) for survey in found.surveys] for word in VERDICTS], dtype=float)
    axes.stackplot(np.array(found.steps, dtype=float), counts, colors=[*VERDICTS.values()], labels=[*VERDICTS], lw=0.0)
    dress(axes, "step", "heads", "words", fontsize=7.5, legend=None)
    axes.margins(x=0.0, y=0.0)


def _each(found: "Course", axes: "Axes", number: "Callable[[HeadReport], float | None]") -> None:
    """A line per head, in the colour of its last word."""
    for change in found.changes:
        colour = VERDICTS.get(change.heads[-1].verdict or "", GREY)
        values = [np.nan if (value := number(head)) is None else value for head in change.heads]
        axes.plot(np.array(found.steps, dtype=float), values, color=colour, lw=0.8, alpha=0.7, marker=".", ms=3.0)


def _outliers(found: "Course", axes: "Axes") -> None:
    """The largest outlier of every head."""
    _each(found, axes, lambda head: head.strength if head.status == "ok" else None)
    wide = max(head.strength for change in found.changes for head in change.heads) > DECADE
    log = "y" if wide else ""
    dress(axes, "step", "largest outlier / bulk edge", "outliers, a line per head", log=log, legend=None)


def _ranks(found: "Course", axes: "Axes") -> None:
    """The effective rank of every head."""
    _each(found, axes, lambda head: head.effective_rank_nuclear or None)
    dress(axes, "step", "effective rank", "effective rank, a line per head", legend=None)


def _map(found: "Course", axes: "Axes") -> None:
    """Layers down, heads across: the step at which a head left noise."""
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
    across, down = max(1, -(-len(columns) // 16)), max(1, -(-len(modules) // 16))
    axes.set_xticks(range(0, len(columns), across), [str(number) for number in columns[::across]])
    layers = {change.heads[0].module: change.heads[0].layer for change in found.changes}
    axes.set_yticks(range(0, len(modules), down), [str(layers[module]) for module in modules[::down]])
    dress(axes, "head", "layer", "left noise at step (blank: it did not, or long before)", legend=None)


PANELS = {"words": _words, "outliers": _outliers, "ranks": _ranks, "emergence": _map}
