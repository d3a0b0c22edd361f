"""Axes of a map on the command line: ``--x WORD=RANGE``."""

from collections.abc import Callable, Mapping
from typing import Any

import click

from onehead.cli.values import Typed, type_of
from onehead.fields import Word
from onehead.maps import Axis
from onehead.text import likely, quoted

__all__ = ["axis_options"]


class AxisType(Typed):
    """A word, an equals sign, and its values."""

    name = "WORD=RANGE"

    def __init__(self, words: Mapping[str, Word], example: str) -> None:
        self.words: dict[str, Word] = {
            said.flag[2:]: said for said in words.values() if said.kind in ("number", "integer")
        }
        self.allowed = f"WORD=RANGE with one of {', '.join(self.words)}, such as {example}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Axis:
        """The word as the library calls it, and its values."""
        if isinstance(value, tuple):
            return value
        word, equals, text = str(value).partition("=")
        said = self.words.get(word.strip().replace("_", "-"))
        if said is None or not equals:
            close = likely(word.strip(), self.words) if equals else ""
            self.fail(f"must be {self.allowed}; got {quoted(str(value))}{close}", param, ctx)
        assert said is not None
        values = type_of(said, ranged=True)
        assert values is not None
        return said.flat, values.convert(text, param, ctx)


def axis_options(words: Mapping[str, Word], example: str = "alpha=log:0.05:4:30") -> Callable[[Any], Any]:
    """Add ``--x`` and ``--y``, and ``--of`` for the number that is shown."""
    kind = AxisType(words, example)

    def decorate(function: Any) -> Any:
        text = "Number that table and picture show."
        function = click.option("--of", default="test_error", show_default=True, metavar="KEY", help=text)(function)
        for name, place in (("--y", "upwards"), ("--x", "across")):
            sentence = f"Word {place} and its values, such as {example}."
            function = click.option(name, type=kind, required=True, help=sentence)(function)
        return function

    return decorate
