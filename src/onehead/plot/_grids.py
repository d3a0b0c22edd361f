"""Heat maps of a quantity over two parameters."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onehead.plot._axes import resolve_axes
from onehead.plot.style import GREY, OPTIMUM, cell_edges, finish_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from onehead.results.grids import Map

AIM_LABELS = {  # of axes, by parameter
    "alpha": r"samples per squared dimension, $\alpha$",
    "weight_decay": r"weight decay $\lambda$",
    "noise": r"noise $\Delta$",
    "kappa0": r"width of the target $\kappa_0$",
    "tokens": r"tokens $T$",
    "width": r"width of the learner $\kappa$",
}
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
LOG_SCALE_RATIO = 30.0  # largest over smallest value from which on colours are logarithmic
CONTOUR_COUNT = 8
HATCHES = ("///", "...")
SPARSE_LABELS = {  # of axes, by parameter
    "alpha": r"samples over dimension $\alpha$",
    "alpha0": r"samples for the query $\alpha_0$",
    "alpha1": r"samples for the readout $\alpha_1$",
    "beta": r"inverse temperature $\beta$",
    "cos_query": "cosine of query and signal",
    "eta_b": r"bias rate $\eta_b$",
    "eta_q": r"query rate $\eta_q$",
    "eta_w": r"readout rate $\eta_w$",
    "length": "sequence length $L$",
    "positive_rate": r"share of positive samples $\pi$",
    "ridge": r"ridge $\lambda$",
    "sharpness": r"sharpness $\kappa$",
    "signal_tokens": "signal tokens $R$",
    "split": r"share of samples for the query $\alpha_0/\alpha$",
    "strength": r"signal strength $\theta$",
}


def heat_map(
    found: "Map",
    *,
    quantity: str | None = None,
    lines: Mapping[str, Sequence[tuple[float, float]]] | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw a quantity over two parameters as colour, with contours; cells without a value are hatched.

    Parameters
    ----------
    found : Map
        Result of `onehead.aim.map` or `onehead.sparse.map`.
    quantity : str, optional
        Name of the quantity; that of the map by default.
    lines : mapping of str to sequence of (x, y), optional
        Lines to draw over the map, by their labels in the legend, such as the best weight decay.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidArgument
        If ``ax`` is not a matplotlib Axes, or ``quantity`` is not a quantity of the map.

    Examples
    --------
    >>> from onehead import plot, sparse
    >>> task, protocol = sparse.Task(), sparse.Protocol(loss="square", ridge=0.1)
    >>> found = sparse.map(task, protocol, x=("beta", [4.0, 8.0]), y=("strength", [4.0, 5.0]))
    >>> plot.heat_map(found).get_xlabel()
    'inverse temperature $\\\\beta$'
    """
    from matplotlib.patheffects import Normal, Stroke

    axes, of = resolve_axes(ax, 6.8, 4.6), quantity or found.of
    x, y, values = np.array(found.x_values), np.array(found.y_values), found.grid(of)
    columns, rows = np.argsort(x), np.argsort(y)
    x, y, values = x[columns], y[rows], values[np.ix_(rows, columns)]
    logs = tuple(_logarithmic(v) for v in (x, y))
    axes.set_xscale("log" if logs[0] else "linear")  # set before the contours, whose labels are placed by the scale
    axes.set_yscale("log" if logs[1] else "linear")
    colours = _scale(values)
    corners = [np.exp(cell_edges(np.log(v))) if log else cell_edges(v) for v, log in zip((x, y), logs, strict=True)]
    mesh = axes.pcolormesh(*corners, values, cmap="viridis", norm=colours, rasterized=True)
    figure: Any = axes.figure
    figure.colorbar(mesh, ax=axes, label=of.replace("_", " "), pad=0.02)
    if min(values.shape) > 1 and np.isfinite(values).all() and np.ptp(values) > 0.0:
        contours = axes.contour(x, y, values, levels=_levels(values), colors="white", linewidths=0.7, alpha=0.8)
        axes.clabel(contours, fontsize=7, fmt="%.3g")
    for j, i in np.argwhere(~np.isfinite(values)):
        axes.fill_between(
            corners[0][i : i + 2], corners[1][j], corners[1][j + 1], facecolor="none", hatch="///", edgecolor=GREY, lw=0
        )
    for (name, region), hatch in zip(found.regions().items(), HATCHES, strict=False):
        where = region[np.ix_(rows, columns)]
        if where.any():
            _hatch(axes, corners, where, hatch, name)
    for (name, points), dash in zip((lines or {}).items(), DASHES, strict=False):
        inside = [(a, b) for a, b in points if x[0] <= a <= x[-1] and y[0] <= b <= y[-1]]
        if len(inside) > 1:
            # a white border keeps the line visible where the map is dark
            border = [Stroke(linewidth=3.4, foreground="white"), Normal()]
            axes.plot(*zip(*inside, strict=True), color=OPTIMUM, lw=1.8, ls=dash, label=name, path_effects=border)
    axes.set_xlim(corners[0][0], corners[0][-1])
    labels = SPARSE_LABELS if hasattr(found, "protocol") else AIM_LABELS
    xlabel, ylabel = (labels.get(name, name.replace("_", " ")) for name in (found.x_name, found.y_name))
    ylim = (float(corners[1][0]), float(corners[1][-1]))
    frame: dict[str, Any] = {"frameon": True, "framealpha": 0.9, "edgecolor": "none"}
    return finish_axes(axes, xlabel, ylabel, found.setting, ylim=ylim, legend="best", **frame)


def _hatch(axes: "Axes", corners: list[Any], where: Any, hatch: str, name: str) -> None:
    """Hatch cells, and add the meaning of the hatching to the legend."""
    for j, i in np.argwhere(where):
        low, high = corners[1][j : j + 2]
        axes.fill_between(corners[0][i : i + 2], low, high, facecolor="none", hatch=hatch, edgecolor="white", lw=0.0)
    axes.fill([], [], facecolor=GREY, edgecolor="white", hatch=hatch, lw=0.0, label=name)


def _logarithmic(values: Any) -> bool:
    """Return whether the values of an axis are spaced logarithmically."""
    if len(values) < 3 or values[0] <= 0.0:
        return False
    steps = np.diff(values)
    return bool(steps[-1] > 2.0 * steps[0])


def _scale(values: Any) -> Any:
    """Return the colour scale, logarithmic if the values span a wide range."""
    from matplotlib.colors import LogNorm, Normalize

    known = values[np.isfinite(values)]
    if known.size and known.min() > 0.0 and known.max() > LOG_SCALE_RATIO * known.min():
        return LogNorm(float(known.min()), float(known.max()))
    return Normalize(float(known.min()) if known.size else 0.0, float(known.max()) if known.size else 1.0)


def _levels(values: Any) -> Any:
    """Return round numbers between the lowest and the highest value for the contours."""
    from matplotlib.ticker import LogLocator, MaxNLocator

    low, high = float(values.min()), float(values.max())
    if low > 0.0 and high > LOG_SCALE_RATIO * low:
        found = np.asarray(LogLocator(subs=(1.0, 2.0, 5.0)).tick_values(low, high))
    else:
        found = np.asarray(MaxNLocator(CONTOUR_COUNT).tick_values(low, high))
    inside = found[(found > low) & (found < high)]
    return inside if inside.size else [0.5 * (low + high)]
