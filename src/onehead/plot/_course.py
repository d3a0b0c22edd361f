"""A picture of several checkpoints: words, outliers and ranks against the step, and when each head emerged."""

from typing import TYPE_CHECKING

import numpy as np

from onehead.plot.style import GREY, VERDICTS, dress, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from onehead.weights.course import Course

__all__ = ["course"]

DECADE = 30.0  # a larger range needs a logarithm


def course(found: "Course") -> "Axes":
    """Four panels: how many heads have each word, the largest outlier and the effective rank of each head, and a map of emergence."""
    figure, (words, outliers, ranks, emergence) = panels(2, 2, width=4.6, height=3.2)
    steps = np.array(found.steps, dtype=float)
    counts = np.array([[survey.verdicts.get(word, 0) for survey in found.surveys] for word in VERDICTS], dtype=float)
    words.stackplot(steps, counts, colors=[*VERDICTS.values()], labels=[*VERDICTS], lw=0.0)
    dress(words, "step", "heads", "words", fontsize=7.5, legend=None)
    words.margins(x=0.0, y=0.0)
    figure.legend(
        *words.get_legend_handles_labels(), loc="outside lower center", ncols=len(VERDICTS), frameon=False, fontsize=8.0
    )
    for change in found.changes:
        colour = VERDICTS.get(change.heads[-1].verdict or "", GREY)
        strength = [head.strength if head.status == "ok" else np.nan for head in change.heads]
        effective = [head.effective_rank_nuclear or np.nan for head in change.heads]
        for axes, values in ((outliers, strength), (ranks, effective)):
            axes.plot(steps, values, color=colour, lw=0.8, alpha=0.7, marker=".", ms=3.0)
    wide = max(head.strength for change in found.changes for head in change.heads) > DECADE
    dress(
        outliers,
        "step",
        "largest outlier / bulk edge",
        "outliers, a line per head",
        log="y" if wide else "",
        legend=None,
    )
    dress(ranks, "step", "effective rank", "effective rank, a line per head", legend=None)
    _map(found, emergence)
    first: Axes = words
    return first


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
