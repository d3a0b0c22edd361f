"""One declaration per word of the user: default, bounds, symbol and sentence stand on the field of the problem it belongs to.

Options of the command line, words of sweep files, knobs of the explorer, the glossary, help texts and the sentence that refuses a
value are all made from it. A new word is one line in `Task`, `Learner`, `Protocol` or another `onehead.problem.Problem`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel, Field
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

__all__ = ["LIMIT", "Slider", "Word", "word", "words_of"]

LIMIT = "0+"  # the word for a penalty that goes to zero from above
BOUNDS = {"gt": "> {}", "ge": ">= {}", "lt": "< {}", "le": "<= {}"}

Kind = Literal["number", "integer", "choice", "switch", "numbers", "other"]
KINDS: dict[type, Kind] = {bool: "switch", int: "integer", float: "number", tuple: "numbers"}


class Slider(NamedTuple):
    """What is sensible to drag; what may be typed is what the word allows."""

    low: float
    high: float
    step: float = 0.01
    log: bool = False


def word(
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
    **bounds: Any,
) -> Any:
    """Declare a word on a field of a problem.

    Parameters
    ----------
    default : object
        What is used when the word is not given; ``...`` where it must be.
    symbol, sentence : str
        The letter on paper, and what the word is, in one sentence with its full stop.
    label : str
        Its name on a knob, if it is not the word itself.
    slider : Slider, optional
        With one a number has a knob in the explorer; a choice has one anyway.
    choices : tuple of str
        The words it takes, where the annotation does not list them.
    allowed : str
        What it takes, in words, where bounds do not say it.
    flat : str
        Its name among the flat words of flags and sweep files, if that is another.
    since : str
        The version it came with, if that is later than 1.1: at its default it is then no part of the key of a stored point, so
        that points stored before it existed are still found.
    **bounds
        ``gt``, ``ge``, ``lt``, ``le``, ``min_length``, ``max_length``.
    """
    extra: dict[str, Any] = {"symbol": symbol} if symbol else {}
    if allowed:
        extra["allowed"] = allowed
    found = Field(default, description=sentence, json_schema_extra=extra, **bounds)
    found.metadata.append(_Said(symbol=symbol, label=label, slider=slider, choices=choices, flat=flat, since=since))
    return found


@dataclass(frozen=True, kw_only=True)
class _Said:
    """What a declaration says beyond pydantic, carried along with its bounds."""

    symbol: str = ""
    label: str = ""
    slider: Slider | None = None
    choices: tuple[str, ...] = ()
    flat: str = ""
    since: str = ""


@dataclass(frozen=True, kw_only=True)
class Word(_Said):
    """A word of the user, read off its declaration."""

    name: str
    kind: Kind
    default: Any
    sentence: str
    bounds: Mapping[str, float]
    limit: bool  # whether 0+ is one of its values
    others: tuple[str, ...]  # words that may stand in the place of a number
    optional: bool
    allowed: str

    @property
    def required(self) -> bool:
        """Whether it has no default."""
        return self.default is PydanticUndefined

    @property
    def flag(self) -> str:
        """Its name on the command line."""
        return "--" + self.flat.replace("_", "-")

    @property
    def help(self) -> str:
        """The sentence, with the symbol beside its first part unless it names it already."""
        if not self.symbol or re.search(rf"(?<!\w){re.escape(self.symbol)}(?!\w)", self.sentence):
            return self.sentence
        end = min(i for i in (self.sentence.find(mark) for mark in ";:.") if i >= 0)
        return f"{self.sentence[:end]} ({self.symbol}){self.sentence[end:]}"


def words_of(*problems: type[BaseModel]) -> dict[str, Word]:
    """The words of some problems, by the names of their fields, in the order in which they are declared."""
    return {name: _read(name, field) for problem in problems for name, field in problem.model_fields.items()}


def _read(name: str, field: FieldInfo) -> Word:
    said = next((item for item in field.metadata if isinstance(item, _Said)), _Said())
    kinds, bounds, literals = _parts(field.annotation, field.metadata)
    choices = said.choices or tuple(value for value in literals if value != LIMIT)
    kind, limit = _kind(kinds, choices), LIMIT in literals
    others: tuple[str, ...] = ()
    if kind in ("integer", "number"):
        choices, others = (), choices
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    made = {"choices": choices, "label": said.label or name.replace("_", " ").capitalize(), "flat": said.flat or name}
    return Word(
        name=name,
        kind=kind,
        default=field.get_default(call_default_factory=True),
        sentence=field.description or "",
        bounds=bounds,
        limit=limit,
        others=others,
        optional=NoneType in kinds,
        allowed=str(extra.get("allowed") or _allowed(kind, bounds, choices, limit, others)),
        **vars(said) | made,
    )


def _parts(annotation: Any, metadata: list[Any]) -> tuple[set[Any], dict[str, float], tuple[str, ...]]:
    """The plain types of an annotation, the bounds on it, and the words it lists."""
    bounds = {key: getattr(mark, key) for mark in metadata for key in BOUNDS if getattr(mark, key, None) is not None}
    origin = get_origin(annotation)
    if origin is Literal:
        return {str}, bounds, tuple(str(value) for value in get_args(annotation))
    if origin in (Union, UnionType) or origin is Annotated:
        own, *rest = get_args(annotation)
        members = [(own, list(rest))] if origin is Annotated else [(one, []) for one in get_args(annotation)]
        kinds: set[Any] = set()
        literals: tuple[str, ...] = ()
        for member, marks in members:
            inner = [item for mark in marks for item in (mark.metadata if isinstance(mark, FieldInfo) else [mark])]
            more, limits, listed = _parts(member, inner)
            kinds, bounds, literals = kinds | more, {**bounds, **limits}, (*literals, *listed)
        return kinds, bounds, literals
    return {origin or annotation}, bounds, ()


def _kind(kinds: set[Any], choices: tuple[str, ...]) -> Kind:
    return next((kind for plain, kind in KINDS.items() if plain in kinds), "choice" if choices else "other")


def _allowed(
    kind: Kind, bounds: Mapping[str, float], choices: tuple[str, ...], limit: bool, others: tuple[str, ...]
) -> str:
    """Say in words which values there are."""
    if kind == "choice":
        *first, last = choices
        return f"{', '.join(first)} or {last}" if first else last
    called = {"integer": "an integer", "number": "a number", "switch": "true or false", "numbers": "a list of numbers"}
    limits = " and ".join(pattern.format(f"{bounds[key]:g}") for key, pattern in BOUNDS.items() if key in bounds)
    text = f"{called.get(kind, 'valid')} {limits}".strip()
    text = ", or the word ".join([text, *others])
    return f"{text}, or the word {LIMIT} (the limit from above)" if limit else text
