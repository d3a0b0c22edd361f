"""Frozen descriptions of problems: documents that read back equal, and the one sentence a bad value gets."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from textwrap import fill
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from onehead.arguments import called
from onehead.errors import InvalidArgument, Unchangeable, WrongCall
from onehead.fields import word, words_of
from onehead.text import Bare

__all__ = ["Accuracy", "Problem"]

LARGEST = 10**18 - 1
NUMERIC = ("number", "integer", "numbers")
FEW = 8  # numbers of a list that are written out


class Problem(BaseModel):
    """A frozen, validated description; two equal descriptions are the same problem.

    The allowed set of a field is read off its own declaration (`onehead.fields.word`), so the sentence that refuses a value
    cannot drift from the check; the parameters in the docstring of a problem are made from the same declarations.
    """

    NATURAL: ClassVar[tuple[str, ...]] = ()  # fields that may be given without their names, in this order

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, arbitrary_types_allowed=True, validate_default=True
    )

    if not TYPE_CHECKING:  # keep the signature that the type checker derives from the fields

        def __init__(self, *natural: Any, **data: Any) -> None:
            try:
                super().__init__(**self._named(natural, data))
            except ValidationError as failure:
                raise _sentence(type(self), failure) from None

        def __setattr__(self, name: str, value: Any) -> None:
            if name not in type(self).model_fields:
                super().__setattr__(name, value)
                return
            raise Unchangeable(
                f"{name} of {called(type(self))} cannot be set, because problems do not change; make another one with "
                f"changed({name}=...)."
            )

    @classmethod
    def _named(cls, natural: tuple[Any, ...], data: dict[str, Any]) -> dict[str, Any]:
        """The fields of a call, those given without a name included."""
        if len(natural) > len(cls.NATURAL):
            few = f"{' and '.join(cls.NATURAL)} alone" if cls.NATURAL else "nothing"
            shown = next(name for name in cls.model_fields if name != "kind")
            raise WrongCall(f"{cls.__name__} takes {few} without a name; write {cls.__name__}({shown}=...).")
        places = dict(zip(cls.NATURAL, natural, strict=False))
        for name in places:
            if name in data:
                raise WrongCall(f"{cls.__name__} is given {name} twice.")
        return {**places, **data}

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Say in the docstring what each field is, from its declaration."""
        words = [said for name, said in words_of(cls).items() if said.sentence and name != "kind"]
        own = (cls.__doc__ or "").rstrip()
        if words and "Parameters\n" not in own:
            lines = [
                f"    {said.name} : {said.allowed}"
                + ("" if said.required else f", default {_shown(said.default)}")
                + "\n"
                + fill(said.help, width=110, initial_indent=" " * 8, subsequent_indent=" " * 8)
                for said in words
            ]
            before, examples, after = own.partition("    Examples\n")
            cls.__doc__ = "\n".join([before.rstrip(), "", "    Parameters", "    ----------", *lines, ""]) + (
                f"\n{examples}{after}\n    " if examples else "\n    "
            )

    @model_validator(mode="before")
    @classmethod
    def _numbers_are_numbers(cls, data: Any) -> Any:
        """Refuse what pydantic would take: true and false for 1 and 0, and integers that nothing can count."""
        for name, allowed in _numeric(cls).items():
            value = data.get(name) if isinstance(data, dict) else None
            several = value if isinstance(value, (list, tuple, np.ndarray)) else (value,)
            if any(isinstance(one, (bool, np.bool_)) for one in several):
                raise InvalidArgument(name, value, allowed)
            if isinstance(value, int) and abs(value) > LARGEST:
                raise InvalidArgument(name, value, f"{allowed}, of at most 18 digits")
        return data

    @classmethod
    def read(cls, document: "str | bytes | Mapping[str, Any]") -> Self:
        """The problem that a document describes: JSON text, or a dict of plain values such as `to_dict` of a result holds.

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
            except ValueError:
                raise InvalidArgument(f"document of {cls.__name__}", document, "JSON") from None
        if not isinstance(document, Mapping):
            raise InvalidArgument(f"document of {cls.__name__}", document, "an object with named values")
        return cls(**{str(key): value for key, value in document.items()})

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Fields as they are shown; of a long list the ends."""
        for name, value in super().__repr_args__():
            long = isinstance(value, tuple) and len(value) > FEW
            yield name, Bare(f"({value[0]}, ..., {value[-1]}; {len(value)} numbers)") if long else value

    def changed(self, **changes: Any) -> Self:
        """A copy with some fields changed, checked again."""
        return type(self)(**{**{name: getattr(self, name) for name in type(self).model_fields}, **changes})


@cache
def _numeric(problem: type[Problem]) -> dict[str, str]:
    """The words of a problem that are numbers, and what each takes."""
    return {name: said.allowed for name, said in words_of(problem).items() if said.kind in NUMERIC}


def _sentence(problem: type[Problem], failure: ValidationError) -> InvalidArgument:
    """Turn the first complaint of pydantic into a name, a value and an allowed set."""
    first = failure.errors(include_url=False)[0]
    raised = first.get("ctx", {}).get("error")
    if isinstance(raised, InvalidArgument):  # a check of several fields at once has its own sentence
        return raised
    name = str(first["loc"][0]) if first["loc"] else problem.__name__
    words = words_of(problem)
    if first["type"] == "extra_forbidden" or name not in words:
        return InvalidArgument(f"argument of {problem.__name__}", name, f"one of {', '.join(words)}", words)
    if first["type"] == "missing":
        return InvalidArgument(name, None, f"given: {words[name].allowed}")
    return InvalidArgument(name, first["input"], words[name].allowed, words[name].choices)


def _shown(default: Any) -> str:
    """A default as a reader writes it."""
    return f"{default:g}" if isinstance(default, float) else str(default)


class Accuracy(Problem):
    """How exact an answer should be: a word of both halves."""

    accuracy: float = word(
        1e-4, "", "Wanted error of the test error, relative; a finer rule is used until it is met.", gt=0.0, le=1.0
    )
