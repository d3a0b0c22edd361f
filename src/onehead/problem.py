"""Frozen descriptions of problems, and the one sentence a bad value gets."""

from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from onehead.errors import InvalidArgument

__all__ = ["Problem"]

_BOUNDS = {"gt": "> {}", "ge": ">= {}", "lt": "< {}", "le": "<= {}"}


class Problem(BaseModel):
    """A frozen, validated description; two equal descriptions are the same problem.

    The allowed set of a field is read off its own declaration, so the sentence that refuses a value
    cannot drift from the check. A field may state it in words with ``json_schema_extra={"allowed": ...}``.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, arbitrary_types_allowed=True, validate_default=True
    )

    if not TYPE_CHECKING:  # keep the signature that the type checker derives from the fields

        def __init__(self, **data: Any) -> None:
            try:
                super().__init__(**data)
            except ValidationError as failure:
                raise _sentence(type(self), failure) from None

    def changed(self, **changes: Any) -> Self:
        """A copy with some fields changed, checked again."""
        return type(self)(**{**{name: getattr(self, name) for name in type(self).model_fields}, **changes})


def _sentence(problem: type[Problem], failure: ValidationError) -> InvalidArgument:
    """Turn the first complaint of pydantic into a name, a value and an allowed set."""
    first = failure.errors(include_url=False)[0]
    raised = first.get("ctx", {}).get("error")
    if isinstance(raised, InvalidArgument):  # a check of several fields at once has its own sentence
        return raised
    name = str(first["loc"][0]) if first["loc"] else problem.__name__
    field = problem.model_fields.get(name)
    if first["type"] == "extra_forbidden" or field is None:
        return InvalidArgument(f"argument of {problem.__name__}", name, f"one of {', '.join(problem.model_fields)}")
    if first["type"] == "missing":
        return InvalidArgument(name, None, f"given: {_allowed(field)}")
    return InvalidArgument(name, first["input"], _allowed(field))


def _allowed(field: FieldInfo) -> str:
    """Say in words which values a field takes."""
    extra = field.json_schema_extra
    if isinstance(extra, dict) and "allowed" in extra:
        return str(extra["allowed"])
    kinds: dict[Any, str] = {int: "an integer", float: "a number", str: "a word"}
    kind = kinds.get(field.annotation, "valid")
    bounds = [
        pattern.format(f"{getattr(mark, key):g}")
        for mark in field.metadata
        for key, pattern in _BOUNDS.items()
        if getattr(mark, key, None) is not None
    ]
    return " ".join([kind, " and ".join(bounds)]).strip()
