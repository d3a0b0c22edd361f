"""Python code and shell commands for the problem on the page."""

from collections.abc import Callable
from typing import Any

from onehead.app.knobs import KNOBS
from onehead.app.state import State
from onehead.app.views.base import Code
from onehead.fields import Parameter, parameters_of
from onehead.problem import Problem
from onehead.results import plain
from onehead.sparse.flat_parameters import UNUSED_PARAMETERS

# subpackage -> its problems, by the names of their variables in the code
PROBLEMS: dict[str, Callable[[State], dict[str, Problem]]] = {
    "aim": lambda state: {"task": state.task, "head": state.learner},
    "sparse": lambda state: {"task": state.sparse_task, "plan": state.protocol},
}


def code_snippets(package: str, python: str, *commands: str) -> Callable[[State], Code]:
    """Return a function that writes the code of a panel, for a subpackage (aim or sparse).

    ``python`` follows the lines that construct the problems; each of ``commands`` becomes a shell command. Names of
    knobs in braces are replaced by their values.

    Examples
    --------
    >>> from onehead.app import read_state
    >>> code = code_snippets("sparse", "print(task.length)", "align")(read_state({"view": "sparse"})[0])
    >>> code.python.splitlines()[2]
    'task = oh.sparse.Task(length=10, signal_tokens=1, strength=5.0, positive_rate=0.5)'
    >>> code.shell[:33]
    'onehead sparse align --length 10 '
    """

    def code(state: State) -> Code:
        first = "import numpy as np\n" if "np." in python else ""
        made = "".join(f"{name} = {_call(package, problem)}\n" for name, problem in PROBLEMS[package](state).items())
        verbs = [command.format(**state.values).partition(" ") for command in commands]
        lines = (f"onehead {package} {verb} {_flags(state, verb)}{space}{more} --json" for verb, space, more in verbs)
        return Code(f"{first}import onehead as oh\n\n{made}\n{python.format(**state.values)}\n", "\n".join(lines))

    return code


def _call(package: str, problem: Problem) -> str:
    """Return the Python expression that constructs a problem."""
    parameters = parameters_of(type(problem))
    values = {name: (parameter, getattr(problem, name)) for name, parameter in parameters.items()}
    arguments = (
        f"{name}={_call(package, value) if isinstance(value, Problem) else repr(plain(value))}"
        for name, (parameter, value) in values.items()
        if isinstance(value, Problem) or _is_written(parameter, value)
    )
    return f"oh.{package}.{type(problem).__name__}({', '.join(arguments)})"


def _flags(state: State, verb: str) -> str:
    """Return the flags of a command for the problem on the page, without those that the command does not use."""
    from onehead.app.views import VIEWS  # views import this module

    unused = UNUSED_PARAMETERS.get(verb, ()) if state.view == "sparse" else ()
    knobs = [KNOBS[name] for name in VIEWS[state.view].knobs]
    return " ".join(
        f"{knob.parameter.flag} {state[knob.name]}"
        for knob in knobs
        if knob.group not in ("picture", "training")
        and knob.parameter.name not in unused
        and _is_written(knob.parameter, state[knob.name])
    )


def _is_written(parameter: Parameter, value: Any) -> bool:
    """Return whether a value is written out: numbers with a slider always, others if they differ from the default.

    A parameter that only some functions take is written out only where it differs from the default.
    """
    return (parameter.slider is not None and not parameter.verbs) or str(value) != str(parameter.default)
