"""Declarations of parameters: default, bounds, symbol and description of a field of a problem.

Flags of the command line, parameters of sweep files, knobs of the explorer, the glossary, help texts and the messages
that refuse a value are all derived from one declaration. A new parameter is one line in `Task`, `Learner`, `Protocol`
or another `onehead.problem.Problem`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel, Field
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

ZERO_PLUS = "0+"  # value of a penalty in the limit from above to zero
BOUNDS = {"gt": "> {}", "ge": ">= {}", "lt": "< {}", "le": "<= {}"}

Kind = Literal["number", "integer", "choice", "switch", "numbers", "other"]
KINDS: dict[type, Kind] = {bool: "switch", int: "integer", float: "number", tuple: "numbers"}


class Slider(NamedTuple):
    """Range and step of a slider in the explorer; any value that the parameter allows may still be typed."""

    low: float
    high: float
    step: float = 0.01
    log: bool = False


def parameter(
    default: Any,
    symbol: str,
    sentence: str,
    *,
    label: str = "",
    slider: Slider | None = None,
    choices: tuple[str, ...] = (),
    allowed: str = "",
    flat: str = "",
    since: str = "",
    verbs: tuple[str, ...] = (),
    **bounds: Any,
) -> Any:
    """Declare a parameter as a field of a problem.

    Parameters
    ----------
    default : object
        Value when the parameter is not given; ``...`` for a required parameter.
    symbol, sentence : str
        Mathematical symbol, and the description: one sentence with its full stop.
    label : str
        Label in the explorer; by default the name of the field.
    slider : Slider, optional
        Gives a number a knob in the explorer; a choice always has one.
    choices : tuple of str
        Allowed strings, where the annotation does not list them.
    allowed : str
        Description of the allowed values, where the bounds are not enough.
    flat : str
        Name in flags and sweep files; by default the name of the field.
    since : str
        Version that introduced the parameter, if later than 1.1. Its default value is then left out of the key of a
        stored point, so that points stored by older versions are still found.
    verbs : tuple of str
        Names of the functions that accept other values than the default; all do if it is empty. The others refuse them.
    **bounds
        ``gt``, ``ge``, ``lt``, ``le``, ``min_length``, ``max_length``.

    Returns
    -------
    object
        A pydantic field.
    """
    extra: dict[str, Any] = {"symbol": symbol} if symbol else {}
    if allowed:
        extra["allowed"] = allowed
    field = Field(default, description=sentence, json_schema_extra=extra, **bounds)
    declaration = _Declaration(
        symbol=symbol, label=label, slider=slider, choices=choices, flat=flat, since=since, verbs=verbs
    )
    field.metadata.append(declaration)
    return field


@dataclass(frozen=True, kw_only=True)
class _Declaration:
    """Properties of a parameter that pydantic does not know; stored with the bounds in the metadata of the field."""

    symbol: str = ""
    label: str = ""
    slider: Slider | None = None
    choices: tuple[str, ...] = ()
    flat: str = ""
    since: str = ""
    verbs: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Parameter(_Declaration):
    """A parameter with everything its declaration and its annotation say."""

    name: str
    kind: Kind
    default: Any
    sentence: str
    bounds: Mapping[str, float]
    limit: bool  # whether 0+ is allowed
    special_values: tuple[str, ...]  # strings that are allowed in place of a number
    optional: bool
    allowed: str

    @property
    def required(self) -> bool:
        """Whether the parameter has no default."""
        return self.default is PydanticUndefined

    @property
    def flag(self) -> str:
        """Name on the command line."""
        return "--" + self.flat.replace("_", "-")

    @property
    def help(self) -> str:
        """Description for help texts; the symbol follows its first clause, unless the description contains it."""
        if not self.symbol or re.search(rf"(?<!\w){re.escape(self.symbol)}(?!\w)", self.sentence):
            return self.sentence
        end = min(i for i in (self.sentence.find(mark) for mark in ";:.(") if i >= 0)
        clause, rest = self.sentence[:end].rstrip(), self.sentence[end:]
        return f"{clause} ({self.symbol}){' ' if rest.startswith('(') else ''}{rest}"


def parameters_of(*problems: type[BaseModel]) -> dict[str, Parameter]:
    """Return the parameters of some problems by the names of their fields, in the order of declaration."""
    return {name: _parameter_of(name, field) for problem in problems for name, field in problem.model_fields.items()}


def _parameter_of(name: str, field: FieldInfo) -> Parameter:
    """Collect what the metadata and the annotation of a field say."""
    declaration = next((item for item in field.metadata if isinstance(item, _Declaration)), _Declaration())
    types, bounds, literals = _resolve(field.annotation, field.metadata)
    choices = declaration.choices or tuple(value for value in literals if value != ZERO_PLUS)
    kind, limit = _kind(types, choices), ZERO_PLUS in literals
    special_values: tuple[str, ...] = ()
    if kind in ("integer", "number"):
        choices, special_values = (), choices
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    completed = {
        "choices": choices,
        "label": declaration.label or name.replace("_", " ").capitalize(),
        "flat": declaration.flat or name,
    }
    return Parameter(
        name=name,
        kind=kind,
        default=field.get_default(call_default_factory=True),
        sentence=field.description or "",
        bounds=bounds,
        limit=limit,
        special_values=special_values,
        optional=NoneType in types,
        allowed=str(extra.get("allowed") or _allowed(kind, bounds, choices, limit, special_values)),
        **vars(declaration) | completed,
    )


def _resolve(annotation: Any, metadata: list[Any]) -> tuple[set[Any], dict[str, float], tuple[str, ...]]:
    """Return the plain types in an annotation, the bounds on it, and the strings of its literals."""
    bounds = {key: getattr(mark, key) for mark in metadata for key in BOUNDS if getattr(mark, key, None) is not None}
    origin = get_origin(annotation)
    if origin is Literal:
        return {str}, bounds, tuple(str(value) for value in get_args(annotation))
    if origin in (Union, UnionType) or origin is Annotated:
        first, *marks = get_args(annotation)
        members = [(first, list(marks))] if origin is Annotated else [(member, []) for member in get_args(annotation)]
        types: set[Any] = set()
        literals: tuple[str, ...] = ()
        for member, member_marks in members:
            inner = [
                item for mark in member_marks for item in (mark.metadata if isinstance(mark, FieldInfo) else [mark])
            ]
            member_types, member_bounds, member_literals = _resolve(member, inner)
            types, bounds, literals = types | member_types, bounds | member_bounds, (*literals, *member_literals)
        return types, bounds, literals
    return {origin or annotation}, bounds, ()


def _kind(types: set[Any], choices: tuple[str, ...]) -> Kind:
    return next((kind for plain, kind in KINDS.items() if plain in types), "choice" if choices else "other")


def _allowed(
    kind: Kind, bounds: Mapping[str, float], choices: tuple[str, ...], limit: bool, special_values: tuple[str, ...]
) -> str:
    """Describe the allowed values in words."""
    if kind == "choice":
        *first, last = choices
        return f"{', '.join(first)} or {last}" if first else last
    names = {"integer": "an integer", "number": "a number", "switch": "true or false", "numbers": "a list of numbers"}
    limits = " and ".join(pattern.format(f"{bounds[key]:g}") for key, pattern in BOUNDS.items() if key in bounds)
    text = f"{names.get(kind, 'valid')} {limits}".strip()
    text = ", or ".join([text, *special_values])
    return f"{text}, or {ZERO_PLUS} (the limit from above)" if limit else text
