"""One visual language for every picture.

Theory is a solid blue line, training are orange markers with error bars, the target is grey; every pair is told apart by
shape as well as by colour, so that the pictures can be read in grey.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ACCENT", "GREY", "THEORY", "TRAINING", "fresh_axes", "save"]

THEORY = "#1f4e9c"
ACCENT = "#3a8f8f"
TRAINING = "#d1641d"
GREY = "#7a7a7a"


def fresh_axes(width: float = 6.4, height: float = 4.0) -> "Axes":
    """Axes on a new figure, without a window."""
    from matplotlib.figure import Figure

    axes = Figure(figsize=(width, height), layout="constrained").subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(direction="out", length=3)
    return axes


def save(axes: "Axes", path: str) -> None:
    """Write the figure of the axes to a file."""
    figure: Any = axes.figure
    figure.savefig(path, dpi=160)
