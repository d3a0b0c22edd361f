"""Python and shell text for the problem on the page."""

from onehead.app.knobs import KNOBS
from onehead.app.state import LEARNER, PROTOCOL, SPARSE_TASK, State

__all__ = ["aim_flags", "aim_python", "literal", "sparse_flags", "sparse_python"]

HEAD = "import onehead as oh\n"


def literal(value: object) -> str:
    """A value as Python writes it."""
    return repr(value)


def _call(name: str, arguments: dict[str, object]) -> str:
    return f"{name}({', '.join(f'{key}={literal(value)}' for key, value in arguments.items())})"


def _moved(state: State, names: tuple[str, ...]) -> dict[str, object]:
    """Arguments that differ from their default."""
    return {KNOBS[name].field: state[name] for name in names if state[name] != KNOBS[name].default}


def aim_python(state: State, *, numpy: bool = False, without: tuple[str, ...] = ()) -> str:
    """The lines that make the task and the head."""
    task = {name: state[name] for name in ("noise", "tokens")} | _moved(state, ("beta0",))
    rest = tuple(name for name in LEARNER if name not in ("weight_decay", *without))
    head = {"weight_decay": state["weight_decay"]} | _moved(state, rest)
    target = f"oh.aim.MarchenkoPastur(kappa0={literal(state['kappa0'])})"
    first = "import numpy as np\n" + HEAD if numpy else HEAD
    arguments = ", ".join([f"target={target}", *(f"{key}={literal(value)}" for key, value in task.items())])
    return f"{first}\ntask = oh.aim.Task({arguments})\n{_call('head = oh.aim.Learner', head)}\n"


def aim_flags(state: State, *, without: tuple[str, ...] = ()) -> str:
    """The flags of every ``onehead aim`` command, those at their default left out but for the main ones."""
    always = ("kappa0", "noise", "tokens", "weight_decay")
    names = [*always, *_moved(state, ("beta0", "width", "param", "beta", "loss", "branch"))]
    return " ".join(_flag(name, state[name]) for name in names if name not in without)


def sparse_python(state: State) -> str:
    """The lines that make the sparse task and its protocol."""
    task = {name: state[name] for name in SPARSE_TASK}
    plan = {name: state[name] for name in ("alpha0", "alpha1")} | {
        "beta": state["sparse_beta"],
        "ridge": state["ridge"],
    }
    plan |= _moved(state, tuple(name for name in PROTOCOL if KNOBS[name].field not in plan))
    return f"{HEAD}\n{_call('task = oh.sparse.Task', task)}\n{_call('plan = oh.sparse.Protocol', plan)}\n"


def sparse_flags(state: State) -> str:
    """The flags of every ``onehead sparse`` command."""
    always = (*SPARSE_TASK, "alpha0", "alpha1", "sparse_beta", "ridge")
    rest = [name for name in ("eta_w", "eta_b", "eta_q", "sparse_loss") if state[name] != KNOBS[name].default]
    return " ".join(_flag(KNOBS[name].field, state[name]) for name in (*always, *rest))


def _flag(name: str, value: object) -> str:
    return (
        f"--{name.replace('_', '-')} {value!r}" if isinstance(value, float) else f"--{name.replace('_', '-')} {value}"
    )
