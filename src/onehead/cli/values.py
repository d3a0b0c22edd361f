"""Values on the command line: numbers, ranges and words, each refused in one form."""

import math
from typing import TYPE_CHECKING, Any

import click
import numpy as np

__all__ = ["Number", "Range", "Typed", "Whole", "Word"]

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
    """A finite number, optionally bounded."""

    name = "number"

    def __init__(self, low: float = -math.inf, high: float = math.inf, *, open_low: bool = False) -> None:
        self.low, self.high, self.open_low = low, high, open_low
        bounds = []
        if low > -math.inf:
            bounds.append(f"{'>' if open_low else '>='} {low:g}")
        if high < math.inf:
            bounds.append(f"<= {high:g}")
        self.allowed = " ".join(["a number", " and ".join(bounds)]).strip()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse and check."""
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not (
            math.isfinite(number) and self.low <= number <= self.high and not (self.open_low and number == self.low)
        ):
            self.refuse(value, param, ctx)
        return number


class Whole(Typed):
    """An integer in a range."""

    name = "integer"

    def __init__(self, low: int, high: int | None = None) -> None:
        self.low, self.high = low, high
        self.allowed = f"an integer >= {low}" + (f" and <= {high}" if high is not None else "")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse and check."""
        try:
            number = int(str(value))
        except ValueError:
            self.refuse(value, param, ctx)
            raise
        if number < self.low or (self.high is not None and number > self.high):
            self.refuse(value, param, ctx)
        return number


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
    """``start:stop:count``, ``log:start:stop:count``, a comma list, or one value; order is kept."""

    name = "range"
    LIMIT = 100_000

    def __init__(self, low: float = -math.inf, high: float = math.inf, *, open_low: bool = False) -> None:
        self.each = Number(low, high, open_low=open_low)
        self.allowed = (
            f"start:stop:count, log:start:stop:count or a comma list, each {self.each.allowed}, "
            f"at most {self.LIMIT} values"
        )

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        """Parse to a tuple of numbers."""
        if isinstance(value, tuple):
            return value
        text = str(value).strip()
        logarithmic = text.startswith("log:")
        parts = text.removeprefix("log:").split(":")
        try:
            if len(parts) == 3:
                count = int(parts[2])
                low, high = (self.each.convert(part, param, ctx) for part in parts[:2])
                if not 1 <= count <= self.LIMIT or (logarithmic and min(low, high) <= 0.0):
                    raise ValueError
                space = np.geomspace if logarithmic else np.linspace
                return tuple(float(x) for x in space(low, high, count))
            if logarithmic or len(parts) != 1:
                raise ValueError
            return tuple(self.each.convert(item, param, ctx) for item in text.split(","))
        except (ValueError, click.BadParameter):
            self.refuse(value, param, ctx)
            raise
