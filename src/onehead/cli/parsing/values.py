"""Types of command-line values, each with its error message, and the options of declared parameters."""

import math
import operator
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from onehead import fields
from onehead.errors import InvalidArgument
from onehead.sanitize import did_you_mean, quoted
from onehead.sweep.axes import axis_values

if TYPE_CHECKING:
    ParamType = click.ParamType[Any]
else:
    ParamType = click.ParamType  # generic only since click 8.4

ZERO_PLUS = re.compile(rf"(?<![\w.]){re.escape(fields.ZERO_PLUS)}(?![^:,])")  # the text 0+ in place of a number


class CheckedType(ParamType):
    """A click type whose error message gives the allowed values and the value it got."""

    allowed = "valid"
    known: tuple[str, ...] = ()  # values that may be suggested for a mistyped one

    def refuse(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> None:
        """Raise the error for a value that is not allowed."""
        self.fail(f"must be {self.allowed}; got {quoted(str(value))}{did_you_mean(str(value), self.known)}", param, ctx)


class Number(CheckedType):
    """A finite number or an integer within bounds (``gt``, ``ge``, ``lt``, ``le``), or a special value."""

    def __init__(self, *, integer: bool = False, special_values: tuple[str, ...] = (), **bounds: Any) -> None:
        self.integer, self.special_values, self.bounds = integer, special_values, bounds
        name, described = ("integer", "an integer") if integer else ("number", "a number")
        self.name = "|".join([name, *special_values])
        shown = {key: bound if integer else f"{bound:g}" for key, bound in bounds.items()}
        limits = (text.format(shown[key]) for key, text in fields.BOUNDS.items() if key in bounds)
        self.allowed = ", or ".join([f"{described} {' and '.join(limits)}".strip(), *special_values])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse and check one value."""
        if value in self.special_values:
            return value
        try:
            number = int(str(value)) if self.integer else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        inside = all(getattr(operator, key)(number, bound) for key, bound in self.bounds.items())
        if not (inside and (isinstance(number, int) or math.isfinite(number))):
            self.refuse(value, param, ctx)
        return number


class WeightDecay(Number):
    """A number, 0+, or a power of the dimension; the library reads the last two, as it knows the dimension."""

    def __init__(self, declared: fields.Parameter) -> None:
        super().__init__(integer=False, special_values=(), **declared.bounds)
        self.name = "number|0+|1/d|sqrt(d)|d^x"
        self.allowed = f"{declared.allowed}, or 1/d, sqrt(d), d^x with a target of dimension d"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check a number; return other text unchanged."""
        try:
            float(value)
        except ValueError:
            return str(value)
        return super().convert(value, param, ctx)


class Choice(CheckedType):
    """One of a few named values."""

    name = "choice"

    def __init__(self, *choices: str) -> None:
        self.choices = self.known = choices
        self.allowed = " or ".join(choices)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """List the choices in the help text."""
        return "[" + "|".join(self.choices) + "]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check one value."""
        if value not in self.choices:
            self.refuse(value, param, ctx)
        return str(value)


class Range(CheckedType):
    """Several numbers, written as an axis of a sweep, each within bounds; their order is kept.

    With ``integer`` the points of ``start:stop:count`` are rounded; with ``zero_plus`` the text 0+ is read as 0, also
    where zero itself is out of bounds.
    """

    name = "range"
    MAX_VALUES = 100_000

    def __init__(self, *, integer: bool = False, zero_plus: bool = False, **bounds: Any) -> None:
        self.each, self.integer, self.zero_plus = Number(**bounds), integer, zero_plus
        each = self.each.allowed.replace("a number", "an integer" if integer else "a number")
        each += f", or {fields.ZERO_PLUS}" if zero_plus and "gt" in bounds else ""
        self.allowed = (
            f"start:stop:count, log:start:stop:count or a comma list, each {each}, at most {self.MAX_VALUES} values"
        )

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse to a tuple of numbers."""
        if isinstance(value, tuple):
            return value
        text = str(value).strip()
        text, limits = ZERO_PLUS.subn("0", text) if self.zero_plus else (text, 0)
        try:
            items = axis_values("range", text)
            numbers = [0.0 if limits and item == 0.0 else self.each.convert(item, None, None) for item in items]
        except (InvalidArgument, click.BadParameter):
            numbers = []
        found = tuple(round(number) for number in numbers) if self.integer else tuple(numbers)
        listed = ":" not in text
        if not 1 <= len(found) <= self.MAX_VALUES or (listed and found != tuple(numbers)):
            self.refuse(value, param, ctx)
        return found


def type_of(declared: fields.Parameter, *, ranged: bool = False) -> CheckedType | None:
    """Click type of a declared parameter; with ``ranged`` the option takes several values."""
    if declared.kind == "choice":
        return Choice(*declared.choices)
    if declared.kind not in ("integer", "number", "numbers"):
        return None
    integer = declared.kind == "integer"
    if ranged or declared.kind == "numbers":
        return Range(integer=integer, zero_plus=fields.ZERO_PLUS in declared.allowed, **declared.bounds)
    if declared.limit:
        return WeightDecay(declared)
    return Number(integer=integer, special_values=declared.special_values, **declared.bounds)


def flag_of(
    declared: fields.Parameter, *, ranged: bool = False, default: Any = None, **more: Any
) -> Callable[[Any], Any]:
    """Click option of a declared parameter: its type, its description and its default.

    The value is None if the flag is not given, because the problem itself fills in the default; ``default`` only
    replaces the text of the default in the help.
    """
    shown = declared.default if default is None and not declared.required else default
    suffix = "" if shown is None else f"  [default: {f'{shown:g}' if isinstance(shown, float) else shown}]"
    name = f"{declared.flag}/--no-{declared.flag[2:]}" if declared.kind == "switch" else declared.flag
    options = {"type": type_of(declared, ranged=ranged), "default": None, "help": declared.help, **more}
    return click.option(name, declared.flat, **{**options, "help": f"{options['help']}{suffix}"})


def given(flags: dict[str, Any]) -> dict[str, Any]:
    """The flags that were given; the declarations fill in the others."""
    return {name: value for name, value in flags.items() if value is not None}


@contextmanager
def named_as_flags(*parameters: fields.Parameter) -> Iterator[None]:
    """Let an error of the library name the flag rather than the argument."""
    flags = {declared.name: declared.flag for declared in parameters}
    try:
        yield
    except InvalidArgument as error:
        own = "--" + error.name.replace("_", "-") if error.name.isidentifier() else error.name
        raise InvalidArgument(flags.get(error.name, own), error.got, error.allowed, error.known) from None
