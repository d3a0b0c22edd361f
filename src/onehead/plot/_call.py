"""What every function of pictures does with its axes, label and colour."""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

from onehead.errors import InvalidArgument
from onehead.plot.style import SERIES_MARK, THEORY, fresh_axes
from onehead.renamed import renamed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["OVERLAYS", "SERIES", "Pen", "drawing", "on", "pen"]

OVERLAYS = (THEORY, "#b5403a", "#3a8f8f", "#8a5fa8", "#b8860b", "#4d4d4d")  # of the curves of one picture, in turn
SERIES = SERIES_MARK  # so that the next call looks different

Given = ParamSpec("Given")
Drawn = TypeVar("Drawn")


def drawing(function: Callable[Given, Drawn]) -> Callable[Given, Drawn]:
    """Let a function of pictures be told its axes by their name in 1.x."""

    @wraps(function)
    def call(*args: Given.args, **kwargs: Given.kwargs) -> Drawn:
        if "axes" in kwargs:
            renamed(f"{function.__name__}(axes=...)", f"{function.__name__}(ax=...)")
            kwargs["ax"] = kwargs.pop("axes")
        return function(*args, **kwargs)

    return call


def on(ax: "Axes | None", width: float = 6.4, height: float = 4.0) -> "Axes":
    """The axes to draw on: those given, or fresh ones."""
    if ax is None:
        return fresh_axes(width, height)
    if not hasattr(ax, "plot") or not hasattr(ax, "figure"):
        raise InvalidArgument("ax", ax, "one matplotlib Axes, such as that of plt.subplots()")
    return ax


class Pen(NamedTuple):
    """How the lines of one call look: ``own`` if they were given a label or a colour, or lie over those of another call."""

    color: Any
    label: str | None
    own: bool
    first: bool

    def colour(self, usual: Any) -> Any:
        """The colour of a line that usually has this one."""
        return self.color if self.own else usual

    def main(self, usual: str, otherwise: str | None = None) -> dict[str, Any]:
        """Legend and mark of the line that a call is about; ``otherwise`` names it where it lies over another one."""
        told = usual if self.first or otherwise is None else otherwise
        return {"label": self.label if self.label is not None else told, "gid": SERIES}


def pen(ax: "Axes", label: str | None, color: Any = None) -> Pen:
    """The pen of a call: as asked, and otherwise another colour than those of the calls before."""
    before = sum(line.get_gid() == SERIES for line in ax.get_lines())
    own = label is not None or color is not None or before > 0
    return Pen(OVERLAYS[before % len(OVERLAYS)] if color is None else color, label, own, before == 0)
