"""Lines and axes that the figures of sparse tokens share."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onehead.errors import InvalidArgument
from onehead.plot._axes import line_style
from onehead.plot._grids import SPARSE_LABELS
from onehead.plot.style import finish_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MODEL_DASHES = {"attention": "-", "pooled": "--", "vectorised": ":"}
LOG_SCALE_RATIO = 20.0  # largest over smallest value from which on an axis is logarithmic


def finish_parameter_axes(
    axes: "Axes", name: str, values: Sequence[float], ylabel: str, ylim: tuple[float, None] | None = None
) -> "Axes":
    """Add grid, labels and legend.

    The axis of the parameter ``name`` is logarithmic if its values span a wide range.
    """
    axes.grid(alpha=0.25, linewidth=0.6)
    log = "x" if len(values) > 0 and min(values) > 0.0 and max(values) / min(values) >= LOG_SCALE_RATIO else ""
    return finish_axes(axes, SPARSE_LABELS.get(name, name.replace("_", " ")), ylabel, log=log, ylim=ylim, fontsize=10.0)


def draw_lines(
    axes: "Axes",
    x: Sequence[float],
    results: Sequence[Any],
    lines: Mapping[str, tuple[str, Any, Any]],
    quantity: str | None,
    label: str | None,
    color: Any,
) -> None:
    """Draw a line for every quantity of ``lines``, or for one of them; points where a result has none are left out."""
    if quantity is not None and quantity not in lines:
        raise InvalidArgument("quantity", quantity, " or ".join(lines), lines)
    look, quantities = line_style(axes, label, color), [*lines] if quantity is None else [quantity]
    for name in quantities:
        text, colour, dash = lines[name]
        points = [(a, b) for a, b in zip(x, [getattr(r, name) for r in results], strict=True) if b is not None]
        if not points:
            continue
        entry = look.legend_entry(text, text) if name == quantities[0] else {"label": text}
        width = 4.0 if name == "bayes" and look.first else 1.5  # wide, so that lines drawn over it stay visible
        style = {"linestyle": dash, "color": look.colour(colour), "linewidth": width, "marker": marker_of(points)}
        axes.plot(*zip(*points, strict=True), **style, **entry)


def marker_of(points: Sequence[Any]) -> str:
    """Return the marker of a line: a dot for a single point, otherwise none."""
    return "o" if len(points) == 1 else ""
