"""Flags, cases and rows of the ``onehead sparse`` commands."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from onehead.cli.output import check_picture, note, print_json, print_rows, print_table, progress, write_csv
from onehead.cli.values import Range, Word
from onehead.errors import InvalidArgument, SolveError

if TYPE_CHECKING:
    from onehead.results import Result
    from onehead.sparse import Protocol, Task

__all__ = [
    "Axis",
    "Case",
    "Solved",
    "abscissa",
    "cases_of",
    "check_plot",
    "named_as_flags",
    "problem_options",
    "show",
    "single",
    "solve",
]


class Wholes(Range):
    """A range of integers; the points of ``start:stop:count`` are rounded."""

    def __init__(self, low: int, high: int) -> None:
        super().__init__(low, high)
        self.allowed = self.allowed.replace("each a number", "each an integer")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        """Parse to a tuple of integers."""
        numbers = super().convert(value, param, ctx)
        if ":" in str(value):
            return tuple(round(number) for number in numbers)
        if any(number != round(number) for number in numbers):
            self.refuse(value, param, ctx)
        return tuple(int(number) for number in numbers)


class Ridges(Range):
    """A range of penalties; ``0+``, like 0, is the limit from above."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        """Parse to a tuple of numbers."""
        if isinstance(value, str):
            value = ",".join("0" if item.strip() == "0+" else item for item in value.split(","))
        return super().convert(value, param, ctx)


class Axis(Range):
    """``FLAG=RANGE``: a hyperparameter and its values."""

    name = "flag=range"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Split at the equals sign; the name is checked by the library."""
        if isinstance(value, tuple):
            return value
        flag, equals, values = str(value).partition("=")
        if not equals:
            self.fail(f"must be FLAG=RANGE, for example eta-b=0:9:10; got {value!r}", param, ctx)
        return flag.strip().lstrip("-").replace("-", "_"), super().convert(values, param, ctx)


# name of the field, click type, default, meaning; in the order in which they vary when several are ranges
TASK_FLAGS: list[tuple[str, Any, str, str]] = [
    ("length", Wholes(1, 10**9), "10", "tokens per sequence, L"),
    ("signal_tokens", Wholes(1, 10**9), "1", "tokens that carry the signal, R"),
    ("strength", Range(0.0), "5", "strength of the signal, theta"),
    ("positive_rate", Range(0.0, 1.0, open_low=True), "0.5", "share of positive samples, pi"),
]
PROTOCOL_FLAGS: list[tuple[str, Any, str | None, str]] = [
    ("alpha0", Range(0.0, open_low=True), "1", "samples for the query over dimension"),
    ("alpha1", Range(0.0, open_low=True), "1", "samples for the readout over dimension"),
    ("beta", Range(0.0), "8", "inverse temperature of the softmax"),
    ("eta_w", Range(0.0, open_low=True), "0.5", "rate of the first step of the readout"),
    ("eta_b", Range(0.0), "0.5", "rate of the first step of the bias"),
    ("eta_q", Range(), "1", "rate of the step of the query"),
    ("ridge", Ridges(0.0), "1e-3", "penalty of the readout; 0 or 0+ is the limit from above"),
    ("cos_query", Range(-1.0, 1.0), None, "cosine of the query with the signal, given directly"),
    ("sharpness", Range(0.0), None, "beta |q|, given directly together with --cos-query"),
]
LOSS = Word("logistic", "square", "hinge", "squared-hinge")


class Case(NamedTuple):
    """One problem, and those of its values that vary over the command."""

    task: "Task"
    protocol: "Protocol"
    varying: dict[str, float]


Solved = tuple[Case, Any, dict[str, Any]]  # the case, its result (None if the solve failed), its row


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def problem_options(function: Any) -> Any:
    """The flags of every sparse command."""
    for name, kind, default, meaning in reversed([*TASK_FLAGS, *PROTOCOL_FLAGS]):
        function = click.option(_flag(name), type=kind, default=default, show_default=True, help=meaning)(function)
        if name == "ridge":
            function = click.option("--loss", type=LOSS, default="logistic", show_default=True, help="loss")(function)
    return function


@contextmanager
def named_as_flags() -> Iterator[None]:
    """Let a refusal name the flag rather than the field."""
    try:
        yield
    except InvalidArgument as failure:
        if failure.name.startswith("--"):
            raise
        raise InvalidArgument(_flag(failure.name), failure.got, failure.allowed) from None


def cases_of(flags: dict[str, Any], alphas: tuple[float, ...] | None = None) -> list[Case]:
    """Every combination of the ranges, the last flag varying fastest; ``alphas`` rescales both halves of the data."""
    from onehead.sparse import Protocol, Task

    task_names = [name for name, *_ in TASK_FLAGS]
    names = [*task_names, *(name for name, *_ in PROTOCOL_FLAGS)]
    ranges = [flags[name] if flags[name] is not None else (None,) for name in names]
    moving = [name for name, values in zip(names, ranges, strict=True) if len(values) > 1]
    cases = []
    for combination in product(*ranges, alphas if alphas is not None else (None,)):
        values = dict(zip(names, combination[:-1], strict=True))
        varying = {name: values[name] for name in moving}
        if combination[-1] is not None:
            total = values["alpha0"] + values["alpha1"]
            values["alpha0"], values["alpha1"] = (values[k] / total * combination[-1] for k in ("alpha0", "alpha1"))
            varying["alpha"] = combination[-1]
        with named_as_flags():
            task = Task(**{name: values.pop(name) for name in task_names})
            cases.append(Case(task, Protocol(loss=flags["loss"], **values), varying))
    return cases


def single(flags: dict[str, Any]) -> Case:
    """The one case of a command that takes no ranges."""
    for name, *_ in [*TASK_FLAGS, *PROTOCOL_FLAGS]:
        if flags[name] is not None and len(flags[name]) > 1:
            raise InvalidArgument(_flag(name), f"{len(flags[name])} values", "one value in this command")
    return cases_of(flags)[0]


def _row(case: Case, result: "Result | None", failure: str = "") -> dict[str, Any]:
    """A result beside the problem it answers, flat."""
    from onehead.results import plain

    problem = {**plain(case.task), **plain(case.protocol), "alpha": case.protocol.alpha}
    for name in ("positions", "cos_query", "sharpness"):
        problem.pop(name)
    if result is None:
        return {**problem, "status": failure}
    return {**problem, **{key: value for key, value in result.to_dict().items() if key != "task"}}


def solve(
    cases: list[Case], answer: Callable[[Case, Callable[[], None]], "Result"], title: str, *, steps: int = 1
) -> list[Solved]:
    """Answer every case; in a range a failed solve becomes a row with a reason, alone it ends the command.

    An answer of several ``steps`` advances the progress bar itself, with the function it is given.
    """
    solved: list[Solved] = []
    with progress(title, len(cases) * steps) as advance:
        for case in cases:
            try:
                with named_as_flags():
                    result = answer(case, advance)
                solved.append((case, result, _row(case, result)))
            except SolveError as failure:
                if len(cases) == 1:
                    raise
                solved.append((case, None, _row(case, None, str(failure))))
            if steps == 1:
                advance()
    return solved


def show(
    solved: list[Solved],
    columns: dict[str, str],
    *,
    title: str,
    as_json: bool,
    csv_file: str | None,
) -> None:
    """Print one object or a list; a table with meanings for one, with columns for many."""
    rows = [row for *_, row in solved]
    for warning in dict.fromkeys(w for row in rows for w in row.get("warnings", ())):
        note(f"note: {warning}")
    if csv_file is not None:
        write_csv(csv_file, rows)
    if as_json:
        print_json(rows[0] if len(rows) == 1 else rows)
    elif len(rows) == 1:
        print_table([(key, rows[0].get(key), meaning) for key, meaning in columns.items()], title)
    else:
        varying = [name for name in solved[0][0].varying if name not in columns]
        print_rows(rows, [*varying, *(["model"] if "model" in rows[0] else []), *columns], title)


def check_plot(plot: str | None, cases: list[Case]) -> None:
    """Refuse a picture that cannot be drawn before any work is done."""
    check_picture(plot)
    if plot is not None and len(cases[0].varying) != 1:
        raise InvalidArgument("--plot", plot, "used with exactly one range, for example --alpha log:0.5:8:12")


def abscissa(solved: list[Solved]) -> tuple[str, list[float], list[Any]]:
    """The flag that varies, its values where the solve succeeded, and the results there."""
    name = next(iter(solved[0][0].varying))
    done = [(case.varying[name], result) for case, result, _ in solved if result is not None]
    return name, [value for value, _ in done], [result for _, result in done]
