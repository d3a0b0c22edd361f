"""Immutable, serialisable descriptions of problems, and the messages that refuse invalid values."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from textwrap import fill
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from onehead.errors import InvalidArgument, Unchangeable, WrongCall
from onehead.fields import Parameter, parameter, parameters_of
from onehead.sanitize import Unquoted
from onehead.validation import describe_class

MAX_INTEGER = 10**18 - 1
NUMERIC = ("number", "integer", "numbers")
REPR_LENGTH = 8  # longest list that repr() writes out


class Problem(BaseModel):
    """Base class of immutable, validated descriptions of problems.

    Each field is declared once with `onehead.fields.parameter`. The check of a value, the message that refuses it and
    the section "Parameters" in the docstring of a problem are derived from this declaration.
    """

    POSITIONAL: ClassVar[tuple[str, ...]] = ()  # fields that may be given as positional arguments, in this order

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, arbitrary_types_allowed=True, validate_default=True
    )

    if not TYPE_CHECKING:  # keep the signature that the type checker derives from the fields

        def __init__(self, *positional: Any, **data: Any) -> None:
            try:
                super().__init__(**self._with_names(positional, data))
            except ValidationError as failure:
                raise _refusal(type(self), failure) from None

        def __setattr__(self, name: str, value: Any) -> None:
            if name not in type(self).model_fields:
                super().__setattr__(name, value)
                return
            raise Unchangeable(
                f"{name} of {describe_class(type(self))} cannot be set, because problems are immutable; "
                f"changed({name}=...) returns a modified copy."
            )

    @classmethod
    def _with_names(cls, positional: tuple[Any, ...], data: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a call by name, positional arguments included."""
        if len(positional) > len(cls.POSITIONAL):
            count = len(cls.POSITIONAL)
            accepted = f"at most {count} positional argument{'s' if count > 1 else ''} ({', '.join(cls.POSITIONAL)})"
            example = next(name for name in cls.model_fields if name != "kind")
            raise WrongCall(
                f"{cls.__name__} takes {accepted if count else 'keyword arguments only'}; "
                f"write {cls.__name__}({example}=...)."
            )
        named = dict(zip(cls.POSITIONAL, positional, strict=False))
        for name in named:
            if name in data:
                raise WrongCall(f"{cls.__name__} is given {name} twice.")
        return {**named, **data}

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Add the section "Parameters" to the docstring, from the declarations of the fields."""
        declared = [field for name, field in parameters_of(cls).items() if field.sentence and name != "kind"]
        docstring = (cls.__doc__ or "").rstrip()
        if declared and "Parameters\n" not in docstring:
            lines = [
                f"    {field.name} : {field.allowed}"
                + ("" if field.required else f", default {_default_text(field.default)}")
                + "\n"
                + fill(field.help, width=110, initial_indent=" " * 8, subsequent_indent=" " * 8)
                for field in declared
            ]
            summary, *sections = re.split(r"^(?=    (?:Raises|Examples)\n)", docstring, maxsplit=1, flags=re.MULTILINE)
            parts = [summary.rstrip(), "", "    Parameters", "    ----------", *lines, ""]
            cls.__doc__ = "\n".join([*parts, *sections, "    "])

    @model_validator(mode="before")
    @classmethod
    def _check_numbers(cls, data: Any) -> Any:
        """Refuse values that pydantic would accept as numbers: booleans, bytes, and integers of more than 18 digits."""
        for name, allowed in _numeric(cls).items():
            value = data.get(name) if isinstance(data, dict) else None
            items = value if isinstance(value, (list, tuple, np.ndarray)) else (value,)
            if any(isinstance(item, (bool, np.bool_, bytes, bytearray)) for item in items):
                raise InvalidArgument(name, value, allowed)
            if isinstance(value, int) and abs(value) > MAX_INTEGER:
                raise InvalidArgument(name, value, f"{allowed}, of at most 18 digits")
        return data

    @classmethod
    def read(cls, document: "str | bytes | Mapping[str, Any]") -> Self:
        """Read a problem from JSON text, or from a dict of plain values such as `to_dict` of a result returns.

        Examples
        --------
        >>> from onehead.aim import PowerLaw, Task
        >>> task = Task(target=PowerLaw(gamma=1.0, dim=50), noise=0.1)
        >>> Task.read(task.model_dump_json()) == task
        True
        """
        if isinstance(document, (str, bytes)):
            try:
                document = json.loads(document)
            except (ValueError, RecursionError):
                raise InvalidArgument(f"document of {cls.__name__}", document, "JSON") from None
        if not isinstance(document, Mapping):
            raise InvalidArgument(f"document of {cls.__name__}", document, "an object with named values")
        return cls(**{str(key): value for key, value in document.items()})

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Yield the fields for repr(); of a long list only the first and the last number are written."""
        for name, value in super().__repr_args__():
            long = isinstance(value, tuple) and len(value) > REPR_LENGTH
            yield name, Unquoted(f"({value[0]}, ..., {value[-1]}; {len(value)} numbers)") if long else value

    def check_verb(self, verb: str) -> None:
        """Refuse parameters that the function ``verb`` does not support.

        Raises
        ------
        InvalidArgument
            If a parameter whose declaration lists the functions that support it has another value than its default.
        """
        for name, declared in self._unsupported_by(verb).items():
            supported = f"{', '.join(declared.verbs[:-1])} and {declared.verbs[-1]}"
            raise InvalidArgument(
                name,
                getattr(self, name),
                f"{_only_value(declared.default)} for {verb}; {supported} take other values",
            )

    def supported_by(self, verb: str) -> bool:
        """Whether the function ``verb`` supports all parameters that do not have their default."""
        return not self._unsupported_by(verb)

    def _unsupported_by(self, verb: str) -> dict[str, Parameter]:
        return {
            name: declared
            for name, declared in _limited_to_verbs(type(self)).items()
            if verb not in declared.verbs and getattr(self, name) != declared.default
        }

    def changed(self, **changes: Any) -> Self:
        """Return a copy with some fields changed; the copy is validated."""
        return type(self)(**{**{name: getattr(self, name) for name in type(self).model_fields}, **changes})


@cache
def _limited_to_verbs(problem: type[Problem]) -> dict[str, Parameter]:
    """Return the parameters of a problem that only some functions support."""
    return {name: field for name, field in parameters_of(problem).items() if field.verbs}


@cache
def _numeric(problem: type[Problem]) -> dict[str, str]:
    """Return the numeric parameters of a problem, each with the description of its allowed values."""
    return {name: field.allowed for name, field in parameters_of(problem).items() if field.kind in NUMERIC}


def _refusal(problem: type[Problem], failure: ValidationError) -> InvalidArgument:
    """Convert the first error of pydantic into one that names the parameter, its value and the allowed values."""
    first = failure.errors(include_url=False)[0]
    raised = first.get("ctx", {}).get("error")
    if isinstance(raised, InvalidArgument):  # a check of several fields at once has its own message
        return raised
    name = str(first["loc"][0]) if first["loc"] else problem.__name__
    declared = parameters_of(problem)
    if first["type"] == "extra_forbidden" or name not in declared:
        return InvalidArgument(f"argument of {problem.__name__}", name, f"one of {', '.join(declared)}", declared)
    if first["type"] == "missing":
        return InvalidArgument(name, None, f"given: {declared[name].allowed}")
    return InvalidArgument(name, first["input"], declared[name].allowed, declared[name].choices)


def _only_value(default: Any) -> str:
    """Write a default value that a parameter must have; that of a switch, or none, stands on no command line."""
    return "left out" if default is None or default is False else _default_text(default)


def _default_text(default: Any) -> str:
    """Write a default value for a docstring."""
    return f"{default:g}" if isinstance(default, float) else str(default)


class Accuracy(Problem):
    """Wanted accuracy of an answer, a parameter of both theories."""

    accuracy: float = parameter(
        1e-4,
        "",
        "Relative error wanted for the test error; finer quadrature rules are used until it is met.",
        gt=0.0,
        le=1.0,
    )
