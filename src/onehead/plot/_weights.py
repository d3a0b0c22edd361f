"""Figures of a checkpoint: spectra of heads with the fitted laws, pages of small panels, and maps of all heads."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onehead.errors import InvalidArgument
from onehead.plot._axes import resolve_axes
from onehead.plot.style import LAW_STYLES, TEXT, TRAINING, VERDICT_COLOURS, finish_axes, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from onehead.weights.report import HeadReport

PAGE_COLUMNS, PAGE_ROWS = 12, 8
LOG_SCALE_RATIO = 30.0  # largest over smallest value from which on an axis is logarithmic
LEGEND_ENTRY_WIDTH = 1.35  # inches
MAP_TITLES = {
    "verdict": "verdict",
    "strength": "largest outlier over the bulk edge",
    "effective_rank": "effective rank over head_dim",
    "symmetric_share": "symmetric share of ‖A‖²",
}


def head_spectrum(
    head: "HeadReport",
    *,
    label: str | None = None,
    color: Any = None,
    ax: "Axes | None" = None,
    small: bool = False,
) -> "Axes":
    """Draw the singular values of one head by rank (dots, outliers as triangles), the fitted laws, and the bulk edge.

    Parameters
    ----------
    head : HeadReport
        Result of `onehead.weights.head_report`, or an element of a survey.
    label : str, optional
        Label of the values in the legend.
    color : matplotlib color, optional
        Colour of the values. With a label or a colour the laws are left out, so that several heads can be drawn on the
        same axes.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    small : bool
        Whether to draw for a small panel: without labels, and with the best law and that of random heads only.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidArgument
        If ``ax`` is not a matplotlib Axes.

    Examples
    --------
    >>> from onehead import plot, weights
    >>> Q, K = np.random.default_rng(0).standard_normal((2, 32, 64))
    >>> plot.head_spectrum(weights.head_report(Q, K, fit=False)).get_legend_handles_labels()[1]
    ['singular values', 'bulk edge']
    """
    axes, alone = resolve_axes(ax), label is None and color is None
    colour = TRAINING if color is None else color
    values, beyond = head.singular_values, len(head.outliers)
    values = values[: round((head.rank or 0.0) * head.hidden)]
    ranks = np.arange(1, values.size + 1)
    size = 1.6 if small else 3.5
    for fit in head.fits if alone else ():
        if small and fit.law not in (head.best_law, "noise"):
            continue
        shade, line, text = LAW_STYLES[fit.law]
        # laws are fitted to the smallest values: to the bulk, or to all where the outliers belong to the law
        fitted = ranks[values.size - fit.expected.size :]
        axes.plot(fitted, fit.expected, color=shade, ls=line, lw=0.9 if small else 1.6, label=text)
    axes.plot(ranks[beyond:], values[beyond:], "o", color=colour, ms=size, mew=0.0, label=label or "singular values")
    if beyond:
        axes.plot(ranks[:beyond], values[:beyond], "^", color=colour, ms=1.8 * size, mew=0.0, label="outliers")
    if head.bulk_edge is not None:
        axes.axhline(head.bulk_edge, color=TEXT if alone else colour, lw=0.5, ls=(0, (6, 3)), label="bulk edge")
    top, right = 1.06 * max(float(values[0]), head.bulk_edge or 0.0), values.size + 1.0
    # with a very large outlier the bulk would be a line at zero
    if not small and values[0] > LOG_SCALE_RATIO * (head.bulk_edge or values[0]):
        axes.set_yscale("log")
    elif axes.get_yscale() == "linear":  # an earlier head on the same axes may have made it logarithmic
        axes.set_ylim(0.0, top if alone else max(top, axes.get_ylim()[1]))
    axes.set_xlim(0.0, right if alone else max(right, axes.get_xlim()[1]))
    if not small:
        finish_axes(axes, "rank", r"singular value of $W_Q^\top W_K$", fontsize=8.0)
        if alone:
            title = f"layer {head.layer}, head {head.head}: {head.verdict or 'no verdict'}"
            axes.set_title(title, fontsize=8.5, loc="left", color=TEXT)
    return axes


def head_pages(heads: "Sequence[HeadReport]") -> "Iterator[Axes]":
    """Draw all heads as small panels on pages of up to 12 x 8, with one layer per row if it fits.

    Parameters
    ----------
    heads : sequence of HeadReport
        Heads of a survey.

    Yields
    ------
    matplotlib Axes
        The first panel of each page; its ``figure`` is the page.

    Raises
    ------
    ValueError
        If there are no heads.

    Examples
    --------
    >>> from onehead import plot, weights
    >>> Q, K = np.random.default_rng(0).standard_normal((2, 32, 64))
    >>> pages = list(plot.head_pages([weights.head_report(Q, K, fit=False)]))
    >>> len(pages)
    1
    """
    from matplotlib.figure import Figure

    columns = min(PAGE_COLUMNS, max(_heads_per_module(heads), 1))
    page_size = columns * PAGE_ROWS
    for start in range(0, len(heads), page_size):
        part = heads[start : start + page_size]
        rows = -(-len(part) // columns)
        figure = Figure(figsize=(1.25 * columns + 0.5, 1.1 * rows + 0.8), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False)
        for axes in grid.ravel():
            axes.axis("off")
        for head, axes in zip(part, grid.ravel(), strict=False):
            axes.axis("on")
            _draw_panel(head, axes)
        _add_page_legend(figure, part, grid.ravel().tolist())
        yield grid[0, 0]


def _heads_per_module(heads: "Sequence[HeadReport]") -> int:
    """Return the largest number of heads of one module."""
    modules = [head.module for head in heads]
    return max(modules.count(module) for module in set(modules))


def _draw_panel(head: "HeadReport", axes: "Axes") -> None:
    head_spectrum(head, ax=axes, small=True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=5, length=1.5, pad=1)
    axes.locator_params(nbins=3)
    colour = VERDICT_COLOURS.get(head.verdict or "", TEXT)
    axes.set_title(f"L{head.layer} H{head.head}  {head.verdict or ''}", fontsize=6, pad=2, color=colour)


def _add_page_legend(figure: Any, heads: "Sequence[HeadReport]", grid: "Sequence[Axes]") -> None:
    """Add one legend for the page, with all entries that occur in its panels."""
    entries = {
        label: handle
        for axes in grid[: len(heads)]
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    columns = max(1, int(figure.get_figwidth() / LEGEND_ENTRY_WIDTH))
    figure.legend(
        entries.values(),
        entries.keys(),
        loc="outside upper center",
        ncols=min(columns, len(entries)),
        frameon=False,
        fontsize=7,
    )
    figure.supxlabel("rank", fontsize=7)
    figure.supylabel(r"singular value of $W_Q^\top W_K$", fontsize=7)


def head_page(head: "HeadReport") -> "Axes":
    """Draw a page about one head: its spectrum with all laws, its spectrum relative to random heads, and the evidence.

    Parameters
    ----------
    head : HeadReport
        Result of `onehead.weights.head_report`, or an element of a survey.

    Returns
    -------
    matplotlib Axes
        The left of the two panels.

    Raises
    ------
    IndexError
        If the head was not measured, so that it has no singular values.

    Examples
    --------
    >>> from onehead import plot, weights
    >>> Q, K = np.random.default_rng(0).standard_normal((2, 32, 64))
    >>> axes = plot.head_page(weights.head_report(Q, K, fit=False))
    >>> len(axes.figure.axes)
    2
    """
    figure, (left, right) = panels(1, 2, width=5.2, height=3.9)
    head_spectrum(head, ax=left)
    _draw_ratio_to_random(head, right)
    lines = [f"layer {head.layer}, head {head.head}: {head.verdict or 'no verdict'}", head.evidence]
    if head.comparison:
        lines.append(head.comparison)
    if head.false_alarm is not None:
        lines.append(
            f"random heads of this shape get a verdict other than noise in at most {head.false_alarm:.1%} of cases"
        )
    left.set_title("", loc="left")
    figure.suptitle("\n".join(lines), fontsize=8.5, x=0.01, ha="left", color=TEXT)
    first: Axes = left
    return first


def _draw_ratio_to_random(head: "HeadReport", axes: "Axes") -> None:
    """Draw the singular values over those expected for two random matrices of the same shape and median."""
    from onehead.weights.null_model import product_law

    possible = min(head.head_dim, head.hidden)
    values = head.singular_values[:possible]
    t, _, mass = product_law(round(head.head_dim / head.hidden, 6))
    share = 1.0 - (np.arange(possible) + 0.5) / possible
    expected = np.sqrt(np.interp(share, np.cumsum(mass) - 0.5 * mass, t))
    ratio = values / expected
    nonzero = ratio > 0.0
    ratio = ratio[nonzero] / np.median(ratio[nonzero])
    axes.plot(np.arange(1, possible + 1)[nonzero], ratio, "o", color=TRAINING, ms=3.0, mew=0.0)
    axes.axhline(1.0, color=LAW_STYLES["noise"][0], lw=1.2, ls=LAW_STYLES["noise"][1])
    finish_axes(
        axes,
        "rank",
        "value over that of random weights",
        "",
        log="y" if ratio.max() > LOG_SCALE_RATIO * ratio.min() else "",
        legend=None,
    )


def survey_map(heads: "Sequence[HeadReport]", *, quantity: str | None = None, ax: "Axes | None" = None) -> "Axes":
    """Draw four maps of layers by heads: verdict, strength of the largest outlier, effective rank and symmetric share.

    Parameters
    ----------
    heads : sequence of HeadReport
        Heads of a survey.
    quantity : str, optional
        Map to draw alone: "verdict", "strength", "effective_rank" or "symmetric_share".
    ax : matplotlib Axes, optional
        Axes to draw one map on, by default that of the verdicts; a new figure with four maps by default.

    Returns
    -------
    matplotlib Axes
        The axes of the map, or of the first of four.

    Raises
    ------
    InvalidArgument
        If ``ax`` is not a matplotlib Axes, or ``quantity`` is not the name of a map.

    Examples
    --------
    >>> from onehead import plot, weights
    >>> Q, K = np.random.default_rng(0).standard_normal((2, 32, 64))
    >>> plot.survey_map([weights.head_report(Q, K, fit=False)], quantity="strength").get_xlabel()
    'head'
    """
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure

    if quantity is not None and quantity not in MAP_TITLES:
        raise InvalidArgument("quantity", quantity, " or ".join(MAP_TITLES), MAP_TITLES)
    stacks = [head.module.replace(f".{head.layer}.", ".*.") for head in heads]
    rows = sorted({(stack, head.layer) for stack, head in zip(stacks, heads, strict=True)})
    columns = sorted({int(head.head or 0) for head in heads})
    verdicts = [*VERDICT_COLOURS]
    # colour map, values, and the limits of the colours
    maps: dict[str, tuple[Any, list[Any], float | None, float | None]] = {
        "verdict": (
            ListedColormap([*VERDICT_COLOURS.values()]),
            [verdicts.index(h.verdict) if h.verdict else np.nan for h in heads],
            -0.5,
            len(verdicts) - 0.5,
        ),
        "strength": ("OrRd", [max(h.strength, 1.0) for h in heads], 1.0, None),
        "effective_rank": ("viridis", [_relative_effective_rank(head) for head in heads], 0.0, 1.0),
        "symmetric_share": ("RdBu_r", [head.symmetric_share for head in heads], 0.0, 1.0),
    }
    if quantity is not None or ax is not None:
        names, grid = [quantity or "verdict"], [resolve_axes(ax)]
        figure: Any = grid[0].figure
    else:
        names, size = [*MAP_TITLES], (4 * max(0.9 + 0.17 * len(columns), 2.6), 1.6 + 0.2 * len(rows))
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(1, 4).tolist()
    for axes, name in zip(grid, names, strict=True):
        colours, values, low, high = maps[name]
        table = np.full((len(rows), len(columns)), np.nan)
        for head, stack, number in zip(heads, stacks, values, strict=True):
            table[rows.index((stack, head.layer)), columns.index(int(head.head or 0))] = number
        image = axes.imshow(table, cmap=colours, vmin=low, vmax=high, aspect="auto", interpolation="nearest")
        if name != "verdict":
            figure.colorbar(image, ax=axes, shrink=0.9).ax.tick_params(labelsize=6)
        axes.set_title(MAP_TITLES[name], fontsize=8, loc="left")
        axes.set_xlabel("head", fontsize=7)
        axes.set_ylabel("layer", fontsize=7)
        axes.tick_params(labelsize=6, length=2)
        set_map_ticks(axes, columns, [layer for _, layer in rows])
    if "verdict" in names:
        _add_verdict_legend(figure if ax is None else grid[0], outside=ax is None)
    return grid[0]


def value_overlaps(heads: "Sequence[HeadReport]", *, ax: "Axes | None" = None) -> "Axes":
    """Draw the overlaps ρ_hk of the values of the heads of one layer as a map of heads by heads.

    Parameters
    ----------
    heads : sequence of HeadReport
        Heads of one layer of a survey.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidArgument
        If the heads have no values.

    Examples
    --------
    >>> from onehead import plot, weights
    >>> rng, name = np.random.default_rng(0), "model.layers.0.self_attn.{}_proj.weight"
    >>> layer = weights.survey({name.format(part): rng.standard_normal((32, 32)) for part in "qkvo"}, head_count=4)
    >>> plot.value_overlaps(layer).get_xlabel()
    'head'
    """
    table = np.array([head.value_overlaps for head in heads if head.value_overlaps])
    if not table.size:
        raise InvalidArgument("heads", f"{len(heads)} heads", "heads with values and outputs")
    axes = resolve_axes(ax)
    image = axes.imshow(table, cmap="RdBu_r", vmin=-1.0, vmax=1.0, interpolation="nearest")
    axes.figure.colorbar(image, ax=axes, shrink=0.9).ax.tick_params(labelsize=6)
    axes.set_title(f"overlaps of values, {heads[0].module or 'one layer'}", fontsize=8, loc="left")
    axes.set_xlabel("head", fontsize=7)
    axes.set_ylabel("head", fontsize=7)
    set_map_ticks(axes, [*range(table.shape[1])], [int(head.head or 0) for head in heads if head.value_overlaps])
    return axes


def _add_verdict_legend(owner: Any, *, outside: bool) -> None:
    """Add a legend of the colours of the verdicts to a figure or to axes."""
    from matplotlib.patches import Patch

    patches = [Patch(color=colour, label=verdict) for verdict, colour in VERDICT_COLOURS.items()]
    position: dict[str, Any] = (
        {"loc": "outside lower left"} if outside else {"loc": "upper left", "bbox_to_anchor": (0.0, -0.14)}
    )
    owner.legend(handles=patches, ncols=len(patches), frameon=False, fontsize=7, **position)


def _relative_effective_rank(head: "HeadReport") -> float:
    """Return the effective rank over the largest rank that the shape allows."""
    return (head.effective_rank_nuclear or np.nan) / max(min(head.head_dim, head.hidden), 1)


def set_map_ticks(axes: "Axes", columns: list[int], layers: list[int]) -> None:
    """Set the ticks of a map of layers by heads; at most 16 of each are labelled."""
    every_column, every_row = max(1, -(-len(columns) // 16)), max(1, -(-len(layers) // 16))
    axes.set_xticks(range(0, len(columns), every_column), [str(number) for number in columns[::every_column]])
    axes.set_yticks(range(0, len(layers), every_row), [str(number) for number in layers[::every_row]])
