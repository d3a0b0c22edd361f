"""Python and shell text for the problem on the page."""

from collections.abc import Mapping
from typing import Any

from onehead.app.knobs import KNOBS, Value
from onehead.app.state import State
from onehead.fields import Word, words_of
from onehead.problem import Problem
from onehead.results import plain

__all__ = ["flags", "python"]


def python(room: str, problems: Mapping[str, Problem], *, numpy: bool = False) -> str:
    """The lines that import onehead and make some problems of a room, by the names they get.

    Examples
    --------
    >>> from onehead.sparse import Task
    >>> print(python("sparse", {"task": Task(strength=4.0)}))
    import onehead as oh
    <BLANKLINE>
    task = oh.sparse.Task(length=10, signal_tokens=1, strength=4.0, positive_rate=0.5)
    <BLANKLINE>
    """
    first = "import numpy as np\n" if numpy else ""
    made = "".join(f"{name} = {_call(room, problem)}\n" for name, problem in problems.items())
    return f"{first}import onehead as oh\n\n{made}"


def _call(room: str, problem: Problem) -> str:
    """A problem as Python writes it."""
    words = {name: (said, getattr(problem, name)) for name, said in words_of(type(problem)).items()}
    arguments = (
        f"{name}={_call(room, value) if isinstance(value, Problem) else repr(plain(value))}"
        for name, (said, value) in words.items()
        if isinstance(value, Problem) or _written(said, value)
    )
    return f"oh.{room}.{type(problem).__name__}({', '.join(arguments)})"


def flags(state: State) -> str:
    """The flags of a command for the problem on the page."""
    from onehead.app.views import VIEWS  # noqa: PLC0415  (views are made with this)

    shown = [KNOBS[name] for name in VIEWS[state.view].knobs]
    return " ".join(
        f"{knob.said.flag} {_text(state[knob.name])}"
        for knob in shown
        if knob.group not in ("picture", "training") and _written(knob.said, state[knob.name])
    )


def _text(value: Value) -> str:
    return repr(value) if isinstance(value, float) else str(value)


def _written(said: Word, value: Any) -> bool:
    """Numbers are always written, the rest where it is not the default."""
    return said.slider is not None or str(value) != str(said.default)
