"""Values on the command line: numbers, ranges and words, each refused in one form; and the flag of a declared word."""

import math
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from onehead import fields
from onehead.errors import InvalidArgument

__all__ = ["Number", "Range", "Typed", "Whole", "Word", "flag_of", "named_as_flags", "type_of"]

if TYPE_CHECKING:
    Base = click.ParamType[Any]
else:
    Base = click.ParamType  # generic only since click 8.4


class Typed(Base):
    """A click type that says what is allowed and what it got."""

    allowed = "valid"

    def refuse(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> None:
        """Raise the one sentence."""
        self.fail(f"must be {self.allowed}; got {str(value)!r}", param, ctx)


class Number(Typed):
    """A finite number within bounds: ``gt``, ``ge``, ``lt``, ``le``, as a word declares them."""

    name = "number"

    def __init__(self, **bounds: float) -> None:
        self.bounds = bounds
        limits = (text.format(f"{bounds[key]:g}") for key, text in fields.BOUNDS.items() if key in bounds)
        self.allowed = f"a number {' and '.join(limits)}".strip()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse and check."""
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        inside = all(getattr(operator, key)(number, bound) for key, bound in self.bounds.items())
        if not (math.isfinite(number) and inside):
            self.refuse(value, param, ctx)
        return number


class Whole(Typed):
    """An integer in a range."""

    name = "integer"

    def __init__(self, low: float = -math.inf, high: float = math.inf) -> None:
        self.low, self.high = low, high
        limits = ([f">= {low}"] if low > -math.inf else []) + ([f"<= {high}"] if high < math.inf else [])
        self.allowed = f"an integer {' and '.join(limits)}".strip()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse and check."""
        try:
            number = int(str(value))
        except ValueError:
            self.refuse(value, param, ctx)
            raise
        if not self.low <= number <= self.high:
            self.refuse(value, param, ctx)
        return number


class Decay(Number):
    """A number, the word 0+, or a power of the dimension, which the library reads when it knows the dimension."""

    name = "number|0+|1/d|sqrt(d)|d^x"

    def __init__(self, said: fields.Word) -> None:
        super().__init__(**said.bounds)
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
        self.words = words
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
    """``start:stop:count``, ``log:start:stop:count``, a comma list, or one value; order is kept.

    Among ``whole`` numbers the points of ``start:stop:count`` are rounded; where there is a ``limit`` from above, 0+ is 0.
    """

    name = "range"
    LIMIT = 100_000

    def __init__(self, *, whole: bool = False, limit: bool = False, **bounds: float) -> None:
        self.each, self.whole, self.limit = Number(**bounds), whole, limit
        each = self.each.allowed.replace("a number", "an integer" if whole else "a number")
        self.allowed = (
            f"start:stop:count, log:start:stop:count or a comma list, each {each}, at most {self.LIMIT} values"
        )

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse to a tuple of numbers."""
        if isinstance(value, tuple):
            return value
        try:
            return self._values(str(value).strip())
        except (ValueError, click.BadParameter):
            self.refuse(value, param, ctx)
            raise

    def _values(self, text: str) -> tuple[float, ...]:
        logarithmic = text.startswith("log:")
        parts = text.removeprefix("log:").split(":")
        if len(parts) == 1 and not logarithmic:
            return tuple(self._one(item) for item in text.split(","))
        start, stop, last = parts
        low, high, count = self._number(start), self._number(stop), int(last)
        if not 1 <= count <= self.LIMIT or (logarithmic and min(low, high) <= 0.0):
            raise ValueError
        points = (np.geomspace if logarithmic else np.linspace)(low, high, count)
        return tuple(round(float(x)) if self.whole else float(x) for x in points)

    def _number(self, text: str) -> float:
        return float(self.each.convert("0" if self.limit and text.strip() == fields.LIMIT else text, None, None))

    def _one(self, text: str) -> float:
        number = self._number(text)
        if self.whole and number != int(number):
            raise ValueError
        return int(number) if self.whole else number


def type_of(said: fields.Word, *, ranged: bool = False) -> Typed | None:
    """The values of a declared word; ``ranged`` where a command takes many."""
    if said.kind == "choice":
        return Word(*said.choices)
    if said.kind not in ("integer", "number", "numbers"):
        return None
    bounds: dict[str, Any] = dict(said.bounds)
    if ranged or said.kind == "numbers":
        return Range(whole=said.kind == "integer", limit=fields.LIMIT in said.allowed, **bounds)
    if said.kind == "integer":
        return Whole(bounds.get("ge", -math.inf), bounds.get("le", math.inf))
    return Decay(said) if said.limit else Number(**bounds)


def flag_of(said: fields.Word, *, ranged: bool = False, default: Any = None, **more: Any) -> Callable[[Any], Any]:
    """The option of a declared word: its type, its sentence, and what is used when it is not given.

    Its value is None when it is not given: the default is filled in by the declaration, which holds it.
    """
    used = said.default if default is None and not said.required else default
    shown = "" if used is None else f"  [default: {f'{used:g}' if isinstance(used, float) else used}]"
    name = f"{said.flag}/--no-{said.flag[2:]}" if said.kind == "switch" else said.flag
    ready = {"type": type_of(said, ranged=ranged), "default": None, "help": said.help, **more}
    return click.option(name, said.flat, **{**ready, "help": f"{ready['help']}{shown}"})


@contextmanager
def named_as_flags(*words: fields.Word) -> Iterator[None]:
    """Let a refusal of the library name the flag rather than the argument."""
    flags = {said.name: said.flag for said in words}
    try:
        yield
    except InvalidArgument as failure:
        own = "--" + failure.name.replace("_", "-") if failure.name.isidentifier() else failure.name
        raise InvalidArgument(flags.get(failure.name, own), failure.got, failure.allowed) from None
