"""Flags of the ``sparse`` commands: one value or a range each; a list of problems from their product."""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from itertools import product
from typing import Any, NamedTuple

import click
import numpy as np

from onehead.cli.frame import Answer
from onehead.cli.output import progress
from onehead.cli.values import Number, flag_of, named_as_flags
from onehead.errors import InvalidArgument, SolveError
from onehead.fields import words_of
from onehead.results import Result, plain
from onehead.sparse.task import Protocol, Task

__all__ = ["Case", "Solved", "abscissa", "answer_of", "between", "seed_option", "solve", "sparse_options"]

# in the order in which they vary when several are ranges; a word that is a list itself has no flag
WORDS = {name: said for name, said in words_of(Task, Protocol).items() if said.kind != "numbers"}
SMOOTH = 41  # places of theory under trained points
RANGED = {name: said for name, said in WORDS.items() if said.kind != "choice"}


def seed_option(what: str) -> Callable[[Any], Any]:
    """Add ``--seed``."""
    return click.option("--seed", type=Number(whole=True, ge=0), default=0, show_default=True, help=what)


class Case(NamedTuple):
    """One problem, and those of its values that vary over the command."""

    task: Task
    protocol: Protocol
    varying: dict[str, float]


Solved = tuple[Case, Any, dict[str, Any]]  # the case, its result (None if the solve failed), its row


def sparse_options(function: Callable[..., Any]) -> Any:
    """Add the flags of every sparse command; it gets a list of ``cases``, or the one ``case`` if it takes no ranges."""
    wants_one = "case" in signature(function).parameters

    @wraps(function)
    def call(**flags: Any) -> Any:
        words = {name: flags.pop(name) for name in WORDS}
        with named_as_flags():
            if wants_one:
                return function(case=_single(words), **flags)
            cases = _cases(words, flags.pop("alpha", None))
            if flags["plot"] is not None and len(cases[0].varying) != 1:
                allowed = "used with exactly one range, for example --alpha log:0.5:8:12"
                raise InvalidArgument("--plot", flags["plot"], allowed)
            return function(cases=cases, **flags)

    result: Callable[..., Any] = call
    for said in reversed(WORDS.values()):
        result = flag_of(said, ranged=True)(result)
    return result


def _cases(words: dict[str, Any], alphas: tuple[float, ...] | None = None) -> list[Case]:
    """Every combination of the ranges, the last flag varying fastest; ``alphas`` rescales both halves of the data."""
    chosen = {name: value for name, value in words.items() if name not in RANGED and value is not None}
    ranges = [words[name] or (said.default,) for name, said in RANGED.items()]
    moving = [name for name, values in zip(RANGED, ranges, strict=True) if len(values) > 1]
    cases = []
    for *combination, alpha in product(*ranges, alphas or (None,)):
        values = dict(zip(RANGED, combination, strict=True))
        varying = {name: values[name] for name in moving}
        if alpha is not None:
            total = values["alpha0"] + values["alpha1"]
            values["alpha0"], values["alpha1"] = (values[k] / total * alpha for k in ("alpha0", "alpha1"))
            varying["alpha"] = alpha
        values |= chosen
        task = Task(**{name: values.pop(name) for name in Task.model_fields if name in values})
        cases.append(Case(task, Protocol(**values), varying))
    return cases


def between(cases: list[Case]) -> list[Case]:
    """Cases close enough for a smooth line along the one word that varies; the same where it counts something."""
    name = next(iter(cases[0].varying))
    values = [case.varying[name] for case in cases]
    if len(values) < 2 or (name in RANGED and RANGED[name].kind == "integer"):
        return cases
    low, high = min(values), max(values)
    many = np.geomspace(low, high, SMOOTH) if low > 0.0 and high > 20.0 * low else np.linspace(low, high, SMOOTH)
    return [_moved(cases[0], name, float(value)) for value in (low, *many[1:-1], high)]


def _moved(case: Case, name: str, value: float) -> Case:
    """A case with another value of the word that varies."""
    if name == "alpha":
        return case._replace(protocol=case.protocol.with_alpha(value), varying={name: value})
    if name in Task.model_fields:
        return case._replace(task=case.task.changed(**{name: value}), varying={name: value})
    return case._replace(protocol=case.protocol.changed(**{name: value}), varying={name: value})


def _single(words: dict[str, Any]) -> Case:
    """The one case of a command that takes no ranges."""
    for name in RANGED:
        if words[name] is not None and len(words[name]) > 1:
            raise InvalidArgument(name, f"{len(words[name])} values", "one value in this command")
    return _cases(words)[0]


def _row(case: Case, result: Result | None, failure: str = "") -> dict[str, Any]:
    """A result beside the problem it answers, flat."""
    problem = {**plain(case.task), **plain(case.protocol), "alpha": case.protocol.alpha}
    for name in ("positions", "cos_query", "sharpness"):
        problem.pop(name)
    if result is None:
        return {**problem, "status": failure}
    return {**problem, **{key: value for key, value in result.to_dict().items() if key != "task"}}


def solve(
    cases: list[Case], answer: Callable[[Case, Callable[[], None]], Result], title: str, *, steps: int = 1
) -> list[Solved]:
    """Answer every case; in a range a failed solve becomes a row with a reason, alone it ends the command.

    An answer of several ``steps`` advances the progress bar itself, with the function it is given.
    """
    solved: list[Solved] = []
    with progress(title, len(cases) * steps) as advance:
        for case in cases:
            try:
                result = answer(case, advance)
                solved.append((case, result, _row(case, result)))
            except SolveError as failure:
                if len(cases) == 1:
                    raise
                solved.append((case, None, _row(case, None, str(failure))))
            if steps == 1:
                advance()
    return solved


def answer_of(
    solved: list[Solved], columns: dict[str, str], *, title: str, draw: Callable[[list[Any], list[float], str], Any]
) -> Answer:
    """One object or a list: a table with meanings for one, with columns for many; ``draw`` gets what `abscissa` gives."""
    rows = [row for *_, row in solved]
    varying = [name for name in solved[0][0].varying if name not in columns]
    many = [*varying, *(["model"] if "model" in rows[0] else []), *columns]
    return Answer(
        value=rows[0] if len(rows) == 1 else rows,
        columns=columns if len(rows) == 1 else many,
        title=title,
        draw=lambda: draw(*abscissa(solved)),
        notes=list(dict.fromkeys(warning for row in rows for warning in row.get("warnings", ()))),
    )


def abscissa(solved: list[Solved]) -> tuple[list[Any], list[float], str]:
    """The results where the solve succeeded, the values of the flag that varies there, and its name."""
    name = next(iter(solved[0][0].varying))
    done = [(case.varying[name], result) for case, result, _ in solved if result is not None]
    return [result for _, result in done], [value for value, _ in done], name
