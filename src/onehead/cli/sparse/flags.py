"""Flags of the ``sparse`` commands: values or ranges, every combination of which is one case."""

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import signature
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from onehead.cli.parsing.values import flag_of, named_as_flags
from onehead.cli.rendering.output import progress
from onehead.cli.rendering.render import CommandResult
from onehead.errors import InvalidArgument, SolveError
from onehead.fields import parameters_of
from onehead.results import Result, plain
from onehead.sanitize import Unquoted
from onehead.sparse.flat_parameters import QUERY_PARAMETERS, UNUSED_PARAMETERS
from onehead.sparse.task import Protocol, Task

# in the order in which they vary if several are ranges; a parameter that is a list itself has no flag
PARAMETERS = {name: one for name, one in parameters_of(Task, Protocol).items() if one.kind != "numbers"}
RANGED = {name: one for name, one in PARAMETERS.items() if one.kind not in ("choice", "switch")}
OF_SOME_COMMANDS = tuple(name for name, one in PARAMETERS.items() if one.verbs)
JOINT_BETA = 1.0  # default inverse temperature of joint descent, whose rates act at every step
CURVE_POINTS = 41  # points of the theoretical curve drawn with trained models


class Case(NamedTuple):
    """One problem of a command, and the values of the flags that are ranges."""

    task: Task
    protocol: Protocol
    varying: dict[str, float]


class SolvedCase(NamedTuple):
    """A case, its result (None if the solve failed), and its row for tables and JSON."""

    case: Case
    result: Any
    row: dict[str, Any]


def sparse_options(function: Callable[..., Any]) -> Any:
    """Add the flags of every ``sparse`` command, which is called with a list of ``cases``, or with one ``case``.

    Flags on which the answer does not depend are refused, and not listed in the help.
    """
    return _add_options(function)


def joint_options(function: Callable[..., Any]) -> Any:
    """Add the flags of a command that trains query and readout together, where beta is one unless it is given."""
    return _add_options(function, {"beta": JOINT_BETA})


def train_options(function: Callable[..., Any]) -> Any:
    """Add the flags of ``train``, where beta is one by default if ``--steps`` of joint descent are given."""
    return _add_options(function, {"beta": JOINT_BETA}, only_with="steps")


def _add_options(
    function: Callable[..., Any],
    defaults: Mapping[str, float] | None = None,
    only_with: str | None = None,
) -> Any:
    """Add flags of parameters of task and protocol; ``defaults`` hold if the flag ``only_with``, if any, is given."""
    wants_one = "case" in signature(function).parameters
    verb = function.__name__.rstrip("_")
    parameters = {name: one for name, one in PARAMETERS.items() if not one.verbs or verb in one.verbs}
    unused = UNUSED_PARAMETERS.get(function.__name__, ())

    @wraps(function)
    def call(**flags: Any) -> Any:
        values = {name: flags.pop(name) if name in parameters else None for name in PARAMETERS}
        with named_as_flags():
            _refuse_unused(values, unused, f"onehead sparse {function.__name__}")
            if flags.get("model") in ("pooled", "vectorised"):
                _refuse_unused(values, QUERY_PARAMETERS, f"--model {flags['model']}")
            if only_with is None or flags[only_with] is not None:
                values |= {name: (value,) for name, value in (defaults or {}).items() if values[name] is None}
            if wants_one:
                return function(case=_single_case(values), **flags)
            cases = _cases(values, flags.pop("alpha", None))
            draws_steps = verb == "descend" and len(cases) == 1
            if flags["plot"] is not None and len(cases[0].varying) != 1 and not draws_steps:
                allowed = "used with exactly one range, for example --alpha log:0.5:8:12"
                raise InvalidArgument("--plot", flags["plot"], allowed)
            return function(cases=cases, **flags)

    decorated: Callable[..., Any] = call
    for name, declared in reversed(parameters.items()):
        shown = (defaults or {}).get(name) if only_with is None else None
        decorated = flag_of(declared, ranged=True, default=shown, hidden=name in unused)(decorated)
    return decorated


def _refuse_unused(values: dict[str, Any], unused: tuple[str, ...], command: str) -> None:
    """Refuse a flag that was given although the answer does not depend on it."""
    for name in unused:
        if values[name] is not None:
            given = values[name] if isinstance(values[name], str) else ",".join(f"{value:g}" for value in values[name])
            raise InvalidArgument(name, Unquoted(given), f"left out, because {command} does not depend on it")


def _cases(flags: dict[str, Any], alphas: tuple[float, ...] | None = None) -> list[Case]:
    """Every combination of the ranges, the last flag varying fastest; ``alphas`` rescales both halves of the data."""
    choices = {name: value for name, value in flags.items() if name not in RANGED and value is not None}
    ranges = [flags[name] or (declared.default,) for name, declared in RANGED.items()]
    names_varying = [name for name, values in zip(RANGED, ranges, strict=True) if len(values) > 1]
    cases = []
    for *combination, alpha in product(*ranges, alphas or (None,)):
        values = dict(zip(RANGED, combination, strict=True))
        varying = {name: values[name] for name in names_varying}
        if alpha is not None:
            total = values["alpha0"] + values["alpha1"]
            values["alpha0"], values["alpha1"] = (values[k] / total * alpha for k in ("alpha0", "alpha1"))
            varying["alpha"] = alpha
        values |= choices
        task = Task(**{name: values.pop(name) for name in Task.model_fields if name in values})
        cases.append(Case(task, Protocol(**values), varying))
    return cases


def _single_case(flags: dict[str, Any]) -> Case:
    """The one case of a command that takes no ranges."""
    for name in RANGED:
        if flags[name] is not None and len(flags[name]) > 1:
            raise InvalidArgument(name, f"{len(flags[name])} values", "one value in this command")
    return _cases(flags)[0]


def curve_cases(cases: list[Case]) -> list[Case]:
    """Cases dense enough for a smooth curve along the flag that varies; the same cases if it is an integer."""
    name = next(iter(cases[0].varying))
    values = [case.varying[name] for case in cases]
    if len(values) < 2 or (name in RANGED and RANGED[name].kind == "integer"):
        return cases
    low, high = min(values), max(values)
    logarithmic = low > 0.0 and high > 20.0 * low
    dense = (np.geomspace if logarithmic else np.linspace)(low, high, CURVE_POINTS)
    return [_with_value(cases[0], name, float(value)) for value in (low, *dense[1:-1], high)]


def _with_value(case: Case, name: str, value: float) -> Case:
    """Copy of a case with another value of the flag that varies."""
    if name == "alpha":
        return case._replace(protocol=case.protocol.with_alpha(value), varying={name: value})
    if name in Task.model_fields:
        return case._replace(task=case.task.changed(**{name: value}), varying={name: value})
    return case._replace(protocol=case.protocol.changed(**{name: value}), varying={name: value})


def _row(case: Case, result: Result | None, failure: str = "") -> dict[str, Any]:
    """Flat row with the problem of a case and its result, or the reason why there is none."""
    problem = {**plain(case.task), **plain(case.protocol), "alpha": case.protocol.alpha}
    for name in ("positions", "cos_query", "sharpness"):
        problem.pop(name)
    for name in OF_SOME_COMMANDS:  # shown where it is used
        if problem[name] == PARAMETERS[name].default:
            problem.pop(name)
    if result is None:
        return {**problem, "status": failure}
    return {**problem, **{key: value for key, value in result.to_dict().items() if key != "task"}}


def solve_cases(
    cases: list[Case], solve: Callable[[Case, Callable[[], None]], Result], title: str, *, steps: int = 1
) -> list[SolvedCase]:
    """Solve every case; a failed solve becomes a row with a reason, or ends the command if there is one case only.

    If a case has several ``steps``, ``solve`` advances the progress bar itself with the function it is given.
    """
    solved: list[SolvedCase] = []
    with progress(title, len(cases) * steps) as advance:
        for case in cases:
            try:
                result = solve(case, advance)
                solved.append(SolvedCase(case, result, _row(case, result)))
            except SolveError as error:
                if len(cases) == 1:
                    raise
                solved.append(SolvedCase(case, None, _row(case, None, str(error))))
            if steps == 1:
                advance()
    return solved


def cases_result(
    solved: list[SolvedCase],
    columns: dict[str, str],
    *,
    title: str,
    draw: Callable[[list[Any], list[float], str], Any],
    explain: bool = False,
) -> CommandResult:
    """Command result of one or several cases: a table with meanings for one, with one line per case for several.

    ``draw`` is called with what `abscissa` returns; ``explain`` prints the explanations in place of the table.
    """
    rows = [one.row for one in solved]
    varying = [name for name in solved[0].case.varying if name not in columns]
    columns_of_many = [*varying, *(["model"] if "model" in rows[0] else []), *columns]
    return CommandResult(
        value=rows[0] if len(rows) == 1 else rows,
        columns=columns if len(rows) == 1 else columns_of_many,
        title=title,
        draw=lambda: draw(*abscissa(solved)),
        text="\n\n".join(one.result.explain() for one in solved if one.result is not None) if explain else "",
        notes=list(dict.fromkeys(warning for row in rows for warning in row.get("warnings", ()))),
    )


def abscissa(solved: list[SolvedCase]) -> tuple[list[Any], list[float], str]:
    """Results of the cases that were solved, the values of the flag that varies, and its name."""
    name = next(iter(solved[0].case.varying))
    done = [one for one in solved if one.result is not None]
    return [one.result for one in done], [one.case.varying[name] for one in done], name
