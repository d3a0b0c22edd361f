"""Axes of a map on the command line: ``--x PARAMETER=RANGE`` and ``--y PARAMETER=RANGE``."""

from collections.abc import Callable, Mapping
from typing import Any

import click

from onehead.cli.parsing.values import CheckedType, type_of
from onehead.fields import Parameter
from onehead.results.grids import Axis
from onehead.sanitize import did_you_mean, quoted


class AxisType(CheckedType):
    """Name of a numeric parameter, an equals sign, and its values."""

    name = "PARAMETER=RANGE"

    def __init__(self, parameters: Mapping[str, Parameter], example: str) -> None:
        numeric = [declared for declared in parameters.values() if declared.kind in ("number", "integer")]
        self.parameters: dict[str, Parameter] = {declared.flag[2:]: declared for declared in numeric}
        self.allowed = f"{self.name} with one of {', '.join(self.parameters)}, such as {example}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Axis:
        """Parse to the name of the parameter in the library and its values."""
        if isinstance(value, tuple):
            return value
        name, equals, text = str(value).partition("=")
        declared = self.parameters.get(name.strip().replace("_", "-"))
        if declared is None or not equals:
            close = did_you_mean(name.strip(), self.parameters) if equals else ""
            self.fail(f"must be {self.allowed}; got {quoted(str(value))}{close}", param, ctx)
        assert declared is not None
        values = type_of(declared, ranged=True)
        assert values is not None
        return declared.flat, values.convert(text, param, ctx)


def axis_options(parameters: Mapping[str, Parameter], example: str = "alpha=log:0.05:4:30") -> Callable[[Any], Any]:
    """Add ``--x`` and ``--y``, and ``--of`` for the quantity that is shown."""
    kind = AxisType(parameters, example)

    def decorate(function: Any) -> Any:
        text = "Quantity shown in the table and in the picture."
        function = click.option("--of", default="test_error", show_default=True, metavar="KEY", help=text)(function)
        for name, direction in (("--y", "vertical"), ("--x", "horizontal")):
            sentence = f"Parameter on the {direction} axis and its values, such as {example}."
            function = click.option(name, type=kind, required=True, help=sentence)(function)
        return function

    return decorate
