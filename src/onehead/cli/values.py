"""Values on the command line: numbers, ranges and words, each refused in one form; and the flag of a declared word."""

import math
import operator
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from onehead import fields
from onehead.errors import InvalidArgument
from onehead.sweep.axes import axis_values
from onehead.text import likely, quoted

__all__ = ["Number", "Range", "Typed", "Word", "flag_of", "given", "named_as_flags", "type_of"]

if TYPE_CHECKING:
    Base = click.ParamType[Any]
else:
    Base = click.ParamType  # generic only since click 8.4

LIMIT_WORD = re.compile(rf"(?<![\w.]){re.escape(fields.LIMIT)}(?![^:,])")  # where a number could stand


class Typed(Base):
    """A click type that says what is allowed and what it got."""

    allowed = "valid"
    known: tuple[str, ...] = ()  # words of which one may have been meant

    def refuse(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> None:
        """Raise the one sentence."""
        self.fail(f"must be {self.allowed}; got {quoted(str(value))}{likely(str(value), self.known)}", param, ctx)


class Number(Typed):
    """A finite number within bounds: ``gt``, ``ge``, ``lt``, ``le``, as a word declares them; or an integer; or one of ``others``."""

    def __init__(self, *, whole: bool = False, others: tuple[str, ...] = (), **bounds: Any) -> None:
        self.whole, self.others, self.bounds = whole, others, bounds
        name, called = ("integer", "an integer") if whole else ("number", "a number")
        self.name = "|".join([name, *others])
        shown = {key: bound if whole else f"{bound:g}" for key, bound in bounds.items()}
        limits = (text.format(shown[key]) for key, text in fields.BOUNDS.items() if key in bounds)
        self.allowed = ", or the word ".join([f"{called} {' and '.join(limits)}".strip(), *others])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse and check."""
        if value in self.others:
            return value
        try:
            number = int(str(value)) if self.whole else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        inside = all(getattr(operator, key)(number, bound) for key, bound in self.bounds.items())
        if not (inside and (isinstance(number, int) or math.isfinite(number))):
            self.refuse(value, param, ctx)
        return number


class Decay(Number):
    """A number, the word 0+, or a power of the dimension, which the library reads when it knows the dimension."""

    def __init__(self, said: fields.Word) -> None:
        super().__init__(whole=False, others=(), **said.bounds)
        self.name = "number|0+|1/d|sqrt(d)|d^x"
        self.allowed = f"{said.allowed}, or 1/d, sqrt(d), d^x with a target of dimension d"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check a number; leave words as they are."""
        try:
            float(value)
        except ValueError:
            return str(value)
        return super().convert(value, param, ctx)


class Word(Typed):
    """One of a few words."""

    name = "word"

    def __init__(self, *words: str) -> None:
        self.words = self.known = words
        self.allowed = " or ".join(words)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Show the words in the help text."""
        return "[" + "|".join(self.words) + "]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check."""
        if value not in self.words:
            self.refuse(value, param, ctx)
        return str(value)


class Range(Typed):
    """Values of an axis as a sweep reads them, each within bounds; order is kept.

    Among ``whole`` numbers the points of ``start:stop:count`` are rounded; where there is a ``limit`` from above, 0+ is 0.
    """

    name = "range"
    LIMIT = 100_000

    def __init__(self, *, whole: bool = False, limit: bool = False, **bounds: Any) -> None:
        self.each, self.whole, self.limit = Number(**bounds), whole, limit
        each = self.each.allowed.replace("a number", "an integer" if whole else "a number")
        self.allowed = (
            f"start:stop:count, log:start:stop:count or a comma list, each {each}, at most {self.LIMIT} values"
        )

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse to a tuple of numbers."""
        if isinstance(value, tuple):
            return value
        text = LIMIT_WORD.sub("0", str(value).strip()) if self.limit else str(value).strip()
        try:
            numbers = [self.each.convert(item, None, None) for item in axis_values("range", text)]
        except (InvalidArgument, click.BadParameter):
            numbers = []
        found = tuple(round(number) for number in numbers) if self.whole else tuple(numbers)
        listed = ":" not in text
        if not 1 <= len(found) <= self.LIMIT or (listed and found != tuple(numbers)):
            self.refuse(value, param, ctx)
        return found


def type_of(said: fields.Word, *, ranged: bool = False) -> Typed | None:
    """The values of a declared word; ``ranged`` where a command takes many."""
    if said.kind == "choice":
        return Word(*said.choices)
    if said.kind not in ("integer", "number", "numbers"):
        return None
    if ranged or said.kind == "numbers":
        return Range(whole=said.kind == "integer", limit=fields.LIMIT in said.allowed, **said.bounds)
    if said.limit:
        return Decay(said)
    return Number(whole=said.kind == "integer", others=said.others, **said.bounds)


def flag_of(said: fields.Word, *, ranged: bool = False, default: Any = None, **more: Any) -> Callable[[Any], Any]:
    """The option of a declared word: its type, its sentence, and what is used when it is not given.

    Its value is None when it is not given: the default is filled in by the declaration, which holds it.
    """
    used = said.default if default is None and not said.required else default
    shown = "" if used is None else f"  [default: {f'{used:g}' if isinstance(used, float) else used}]"
    name = f"{said.flag}/--no-{said.flag[2:]}" if said.kind == "switch" else said.flag
    ready = {"type": type_of(said, ranged=ranged), "default": None, "help": said.help, **more}
    return click.option(name, said.flat, **{**ready, "help": f"{ready['help']}{shown}"})


def given(flags: dict[str, Any]) -> dict[str, Any]:
    """The flags that were given; a declaration fills in the others."""
    return {name: value for name, value in flags.items() if value is not None}


@contextmanager
def named_as_flags(*words: fields.Word) -> Iterator[None]:
    """Let a refusal of the library name the flag rather than the argument."""
    flags = {said.name: said.flag for said in words}
    try:
        yield
    except InvalidArgument as failure:
        own = "--" + failure.name.replace("_", "-") if failure.name.isidentifier() else failure.name
        raise InvalidArgument(flags.get(failure.name, own), failure.got, failure.allowed, failure.known) from None
