"""Python and shell text for the problem on the page."""

from collections.abc import Callable
from typing import Any

from onehead.app.knobs import KNOBS
from onehead.app.state import State
from onehead.app.views.base import Code
from onehead.fields import Word, words_of
from onehead.problem import Problem
from onehead.results import plain

__all__ = ["code_of"]

# the problems of a room, by the names they get in the code
PROBLEMS: dict[str, Callable[[State], dict[str, Problem]]] = {
    "aim": lambda state: {"task": state.task, "head": state.learner},
    "sparse": lambda state: {"task": state.sparse_task, "plan": state.protocol},
}


def code_of(room: str, python: str, *commands: str) -> Callable[[State], Code]:
    """The code of a panel: what it says in Python after the problems of a room, and commands of that room.

    Both may name knobs in braces.

    Examples
    --------
    >>> from onehead.app import read_state
    >>> code = code_of("sparse", "print(task.length)", "align")(read_state({"view": "sparse"})[0])
    >>> code.python.splitlines()[2]
    'task = oh.sparse.Task(length=10, signal_tokens=1, strength=5.0, positive_rate=0.5)'
    >>> code.shell[:33]
    'onehead sparse align --length 10 '
    """

    def code(state: State) -> Code:
        first = "import numpy as np\n" if "np." in python else ""
        made = "".join(f"{name} = {_call(room, problem)}\n" for name, problem in PROBLEMS[room](state).items())
        verbs = [command.format(**state.values).partition(" ") for command in commands]
        lines = (f"onehead {room} {verb} {_flags(state)}{space}{more} --json" for verb, space, more in verbs)
        return Code(f"{first}import onehead as oh\n\n{made}\n{python.format(**state.values)}\n", "\n".join(lines))

    return code


def _call(room: str, problem: Problem) -> str:
    """A problem as Python writes it."""
    words = {name: (said, getattr(problem, name)) for name, said in words_of(type(problem)).items()}
    arguments = (
        f"{name}={_call(room, value) if isinstance(value, Problem) else repr(plain(value))}"
        for name, (said, value) in words.items()
        if isinstance(value, Problem) or _written(said, value)
    )
    return f"oh.{room}.{type(problem).__name__}({', '.join(arguments)})"


def _flags(state: State) -> str:
    """The flags of a command for the problem on the page."""
    from onehead.app.views import VIEWS  # noqa: PLC0415  (views are made with this)

    shown = [KNOBS[name] for name in VIEWS[state.view].knobs]
    return " ".join(
        f"{knob.said.flag} {state[knob.name]}"
        for knob in shown
        if knob.group not in ("picture", "training") and _written(knob.said, state[knob.name])
    )


def _written(said: Word, value: Any) -> bool:
    """Numbers are always written, the rest where it is not the default."""
    return said.slider is not None or str(value) != str(said.default)
