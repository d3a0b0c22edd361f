"""Several heads in the pictures: what sharing their values costs, and their numbers."""

from typing import Any

from onehead.app.drawing import Figure, line
from onehead.app.state import State
from onehead.app.views.base import Line

SHARED_DRAFT = (
    "Heads that share values have no draft: their curve follows when the knobs rest. Dashed: as many heads with values "
    "of their own."
)
SHARED_NOTE = "Dashed: as many heads with values of their own; the distance is what sharing costs."
TUNING_REFUSED = (
    "The best weight decay is not drawn for heads that share values: a search takes half a minute for every α; the "
    "view Weight decay shows one."
)
HEAD_NUMBERS: tuple[Line, ...] = (
    ("Error of one head", "", "head_error", "of the attention of one head by itself"),
    ("Size between heads", "", "q_cross", "S_h'S_k/d of two different heads"),
    ("Overlap between heads", "", "m_cross", "S_h'S*_k/d of two different heads"),
)


def share_values(state: State) -> bool:
    """Return whether several heads share values; without sharing each is a head of its own (M1).

    Examples
    --------
    >>> from onehead.app import read_state
    >>> share_values(read_state({"attention": "cross", "aim_heads": "2", "sharing": "0.5"})[0])
    True
    """
    return bool(state["aim_heads"] > 1 and state["sharing"] != 0.0)


def unshared(state: State) -> State:
    """Return the state of as many heads with values of their own."""
    return state.changed(sharing=0.0)


def unshared_line(x: Any, y: Any, *, smooth: bool) -> Figure:
    """Return the curve of as many heads with values of their own."""
    return line(x, y, "values of their own (ρ = 0)", colour="@grey", dash="dash", width=1.6, smooth=smooth)
