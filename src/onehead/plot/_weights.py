"""Pictures of a checkpoint: every head as a small panel with its laws, a page of one head, and a map of all."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onehead.errors import InvalidArgument
from onehead.plot._call import drawing, on
from onehead.plot.style import LAWS, TRAINING, VERDICTS, dress, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from onehead.weights.report import HeadReport

__all__ = ["head_page", "head_pages", "head_spectrum", "survey_map"]

COLUMNS, ROWS = 12, 8
DECADE = 30.0  # a larger range needs a logarithm
WORD = 1.35  # inches of an entry of a legend
MAPS = {
    "verdict": "verdict",
    "strength": "largest outlier over the bulk edge",
    "effective_rank": "effective rank over head_dim",
    "symmetric_share": "symmetric share of ‖A‖²",
}


@drawing
def head_spectrum(
    head: "HeadReport",
    *,
    label: str | None = None,
    color: Any = None,
    ax: "Axes | None" = None,
    small: bool = False,
) -> "Axes":
    """Singular values of one head by rank (dots, outliers as triangles), what each law expects, and the bulk edge.

    ``label`` and ``color`` are those of the dots; with one of them the laws are left out, so that heads can be laid over each other.
    """
    axes, alone = on(ax), label is None and color is None
    colour = TRAINING if color is None else color
    values, beyond = head.singular_values, len(head.outliers)
    values = values[: round((head.rank or 0.0) * head.hidden)]
    ranks = np.arange(1, values.size + 1)
    size = 1.6 if small else 3.5
    for fit in head.fits if alone else ():
        if small and fit.law not in (head.best_law, "noise"):
            continue
        colour, line, text = LAWS[fit.law]
        axes.plot(ranks[beyond:], fit.expected, color=colour, ls=line, lw=0.9 if small else 1.6, label=text)
    axes.plot(ranks[beyond:], values[beyond:], "o", color=colour, ms=size, mew=0.0, label=label or "singular values")
    if beyond:
        axes.plot(ranks[:beyond], values[:beyond], "^", color=colour, ms=1.8 * size, mew=0.0, label="outliers")
    if head.bulk_edge is not None:
        axes.axhline(head.bulk_edge, color="#333333" if alone else colour, lw=0.5, ls=(0, (6, 3)), label="bulk edge")
    top, right = 1.06 * max(float(values[0]), head.bulk_edge or 0.0), values.size + 1.0
    if not small and values[0] > DECADE * (head.bulk_edge or values[0]):  # the bulk would be a line at zero
        axes.set_yscale("log")
    elif axes.get_yscale() == "linear":  # another head may have made it logarithmic
        axes.set_ylim(0.0, top if alone else max(top, axes.get_ylim()[1]))
    axes.set_xlim(0.0, right if alone else max(right, axes.get_xlim()[1]))
    if not small:
        title = f"layer {head.layer}, head {head.head}: {head.verdict or 'no verdict'}" if alone else ""
        dress(axes, "rank", r"singular value of $W_Q^\top W_K$", title, title_size=8.5, fontsize=8.0)
    return axes


def head_pages(heads: "Sequence[HeadReport]") -> "Iterator[Axes]":
    """All heads as small multiples, one layer to a row where it fits; gives one of the axes of each page."""
    from matplotlib.figure import Figure

    columns = min(COLUMNS, max(_widest(heads), 1))
    page = columns * ROWS
    for start in range(0, len(heads), page):
        part = heads[start : start + page]
        rows = -(-len(part) // columns)
        figure = Figure(figsize=(1.25 * columns + 0.5, 1.1 * rows + 0.8), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False)
        for axes in grid.ravel():
            axes.axis("off")
        for head, axes in zip(part, grid.ravel(), strict=False):
            axes.axis("on")
            _panel(head, axes)
        _legend(figure, part, grid.ravel().tolist())
        yield grid[0, 0]


def _widest(heads: "Sequence[HeadReport]") -> int:
    """Most heads of one module."""
    modules = [head.module for head in heads]
    return max(modules.count(module) for module in set(modules))


def _panel(head: "HeadReport", axes: "Axes") -> None:
    head_spectrum(head, ax=axes, small=True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=5, length=1.5, pad=1)
    axes.locator_params(nbins=3)
    colour = VERDICTS.get(head.verdict or "", "#333333")
    axes.set_title(f"L{head.layer} H{head.head}  {head.verdict or ''}", fontsize=6, pad=2, color=colour)


def _legend(figure: Any, heads: "Sequence[HeadReport]", grid: "Sequence[Axes]") -> None:
    """One legend for the page, with whatever some panel shows."""
    entries = {
        label: handle
        for axes in grid[: len(heads)]
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    fit = max(1, int(figure.get_figwidth() / WORD))  # side by side
    figure.legend(
        entries.values(),
        entries.keys(),
        loc="outside upper center",
        ncols=min(fit, len(entries)),
        frameon=False,
        fontsize=7,
    )
    figure.supxlabel("rank", fontsize=7)
    figure.supylabel(r"singular value of $W_Q^\top W_K$", fontsize=7)


def head_page(head: "HeadReport") -> "Axes":
    """One head on a page: singular values with every law, the same over those of random heads, and the evidence in words."""
    figure, (left, right) = panels(1, 2, width=5.2, height=3.9)
    head_spectrum(head, ax=left)
    _against_random(head, right)
    lines = [f"layer {head.layer}, head {head.head}: {head.verdict or 'no verdict'}", head.evidence]
    if head.comparison:
        lines.append(head.comparison)
    if head.false_alarm is not None:
        lines.append(
            f"random heads of this shape get another word than noise in at most {head.false_alarm:.1%} of cases"
        )
    left.set_title("", loc="left")
    figure.suptitle("\n".join(lines), fontsize=8.5, x=0.01, ha="left", color="#333333")
    first: Axes = left
    return first


def _against_random(head: "HeadReport", axes: "Axes") -> None:
    """Singular values over what the law of two random matrices of the shape expects at each rank, at equal medians."""
    from onehead.weights.initial import product_law

    possible = min(head.head_dim, head.hidden)
    values = head.singular_values[:possible]
    t, _, mass = product_law(round(head.head_dim / head.hidden, 6))
    share = 1.0 - (np.arange(possible) + 0.5) / possible
    expected = np.sqrt(np.interp(share, np.cumsum(mass) - 0.5 * mass, t))
    ratio = values / expected
    kept = ratio > 0.0
    ratio = ratio[kept] / np.median(ratio[kept])
    axes.plot(np.arange(1, possible + 1)[kept], ratio, "o", color=TRAINING, ms=3.0, mew=0.0)
    axes.axhline(1.0, color=LAWS["noise"][0], lw=1.2, ls=LAWS["noise"][1])
    dress(
        axes,
        "rank",
        "value over that of random weights",
        "",
        log="y" if ratio.max() > DECADE * ratio.min() else "",
        legend=None,
    )


@drawing
def survey_map(heads: "Sequence[HeadReport]", *, quantity: str | None = None, ax: "Axes | None" = None) -> "Axes":
    """Four maps, layers down and heads across: verdict, strength of the largest outlier, effective rank, symmetric share.

    ``quantity`` draws one of them alone, on ``ax``: verdict, strength, effective_rank or symmetric_share.
    """
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure

    if quantity is not None and quantity not in MAPS:
        raise InvalidArgument("quantity", quantity, " or ".join(MAPS), MAPS)
    stacks = [head.module.replace(f".{head.layer}.", ".*.") for head in heads]
    places = sorted({(stack, head.layer) for stack, head in zip(stacks, heads, strict=True)})
    columns = sorted({int(head.head or 0) for head in heads})
    words = [*VERDICTS]
    numbers: dict[str, tuple[Any, list[Any], float | None, float | None]] = {
        "verdict": (
            ListedColormap([*VERDICTS.values()]),
            [words.index(h.verdict) if h.verdict else np.nan for h in heads],
            -0.5,
            len(words) - 0.5,
        ),
        "strength": ("OrRd", [max(h.strength, 1.0) for h in heads], 1.0, None),
        "effective_rank": ("viridis", [_effective(head) for head in heads], 0.0, 1.0),
        "symmetric_share": ("RdBu_r", [head.symmetric_share for head in heads], 0.0, 1.0),
    }
    if quantity is not None or ax is not None:
        shown, grid = [quantity or "verdict"], [on(ax)]
        figure: Any = grid[0].figure
    else:
        shown, size = [*MAPS], (4 * max(0.9 + 0.17 * len(columns), 2.6), 1.6 + 0.2 * len(places))
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(1, 4).tolist()
    for axes, name in zip(grid, shown, strict=True):
        look, values, low, high = numbers[name]
        table = np.full((len(places), len(columns)), np.nan)
        for head, stack, number in zip(heads, stacks, values, strict=True):
            table[places.index((stack, head.layer)), columns.index(int(head.head or 0))] = number
        image = axes.imshow(table, cmap=look, vmin=low, vmax=high, aspect="auto", interpolation="nearest")
        if name != "verdict":
            figure.colorbar(image, ax=axes, shrink=0.9).ax.tick_params(labelsize=6)
        axes.set_title(MAPS[name], fontsize=8, loc="left")
        axes.set_xlabel("head", fontsize=7)
        axes.set_ylabel("layer", fontsize=7)
        axes.tick_params(labelsize=6, length=2)
        _ticks(axes, columns, [layer for _, layer in places])
    if "verdict" in shown:
        _words(figure if ax is None else grid[0], outside=ax is None)
    return grid[0]


def _words(place: Any, *, outside: bool) -> None:
    """What the colours of verdicts mean."""
    from matplotlib.patches import Patch

    patches = [Patch(color=colour, label=word) for word, colour in VERDICTS.items()]
    where: dict[str, Any] = (
        {"loc": "outside lower left"} if outside else {"loc": "upper left", "bbox_to_anchor": (0.0, -0.14)}
    )
    place.legend(handles=patches, ncols=len(patches), frameon=False, fontsize=7, **where)


def _effective(head: "HeadReport") -> float:
    return (head.effective_rank_nuclear or np.nan) / max(min(head.head_dim, head.hidden), 1)


def _ticks(axes: "Axes", columns: list[int], layers: list[int]) -> None:
    """Whole numbers, not more than fit."""
    across, down = max(1, -(-len(columns) // 16)), max(1, -(-len(layers) // 16))
    axes.set_xticks(range(0, len(columns), across), [str(number) for number in columns[::across]])
    axes.set_yticks(range(0, len(layers), down), [str(number) for number in layers[::down]])
