"""Handling of the arguments that all plotting functions share: ``ax``, ``label`` and ``color``."""

from typing import TYPE_CHECKING, Any, NamedTuple

from onehead.errors import InvalidArgument
from onehead.plot.style import OVERLAY_COLOURS, SERIES_GID, fresh_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def resolve_axes(ax: "Axes | None", width: float = 6.4, height: float = 4.0) -> "Axes":
    """Return the given axes, or axes on a new figure of this size in inches if there are none."""
    if ax is None:
        return fresh_axes(width, height)
    if not hasattr(ax, "plot") or not hasattr(ax, "figure"):
        raise InvalidArgument("ax", ax, "one matplotlib Axes, such as that of plt.subplots()")
    return ax


class LineStyle(NamedTuple):
    """Colour and legend of the lines of one call.

    ``custom`` is true if the call gives a label or a colour or draws over an earlier call; ``first`` is true if no
    earlier call has drawn on the axes.
    """

    color: Any
    label: str | None
    custom: bool
    first: bool

    def colour(self, default: Any) -> Any:
        """Return the colour of a line whose default colour is this one."""
        return self.color if self.custom else default

    def legend_entry(self, default: str, overlay: str | None = None) -> dict[str, Any]:
        """Return label and group of the main line of a call.

        ``overlay`` is its default label on axes that are not empty.
        """
        text = default if self.first or overlay is None else overlay
        return {"label": self.label if self.label is not None else text, "gid": SERIES_GID}


def line_style(ax: "Axes", label: str | None, color: Any = None) -> LineStyle:
    """Return the style of a call: the given colour, or one that no earlier call on the same axes has used."""
    earlier = sum(line.get_gid() == SERIES_GID for line in ax.get_lines())
    custom = label is not None or color is not None or earlier > 0
    chosen = OVERLAY_COLOURS[earlier % len(OVERLAY_COLOURS)] if color is None else color
    return LineStyle(chosen, label, custom, earlier == 0)
