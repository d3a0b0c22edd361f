"""Sentences about refused values and errors, in the terms of the page: a knob is named by its label and symbol."""

import re
from decimal import Decimal
from typing import Any

from onehead.app.knobs import KNOBS, Knob
from onehead.errors import InvalidArgument, OneheadError
from onehead.fields import ZERO_PLUS, Parameter
from onehead.sanitize import quoted, visible

MAX_VALUE_LENGTH = 40  # characters of a value in the address; no number needs more
BOUNDS = {"gt": "greater than {}", "ge": "at least {}", "lt": "less than {}", "le": "at most {}"}
KNOB_OF_ARGUMENT = {"head_count": "heads", "heads": "aim_heads"}  # arguments of the library whose knob has another name
NAMED_VALUE = re.compile(r"\w+(?= = )")  # the name in "at most length = 10"
SEPARATORS = re.compile(r"[\s'’_]")  # characters that people put between groups of digits


def as_sentence(text: str) -> str:
    """Return a text that begins with a capital letter and ends with a full stop.

    Examples
    --------
    >>> as_sentence("converged")
    'Converged.'
    """
    text = text[:1].upper() + text[1:]
    return text if text.endswith(".") else text + "."


def shortened(value: Any) -> str:
    """Return a value as text that is safe to show, cut to ``MAX_VALUE_LENGTH`` characters."""
    text = visible(f"{value:g}" if isinstance(value, float) else str(value))
    return text if len(text) <= MAX_VALUE_LENGTH else text[: MAX_VALUE_LENGTH - 1] + "…"


def explain(error: OneheadError) -> str:
    """Return the sentence of an error; an argument that has a knob is named by the label of the knob.

    Examples
    --------
    >>> explain(InvalidArgument("labels", "hard", "soft here"))
    'Labels must be soft here (now hard).'
    """
    sentence = str(error)
    if isinstance(error, InvalidArgument) and sentence.startswith(f"{error.name} must be "):
        own = KNOBS.get(KNOB_OF_ARGUMENT.get(error.name, ""))
        knob = own or next((knob for knob in KNOBS.values() if knob.parameter.name == error.name), None)
        if knob is not None:
            sentence = _title(knob) + sentence.removeprefix(error.name)
            sentence = sentence.replace(f"; got {quoted(error.got)}", f" (now {shortened(error.got)})")
    return as_sentence(sentence)


def explain_value(knob: Knob, value: Any, allowed: str, *, entered: bool = True) -> str:
    """Return the sentence that refuses the value of a knob; ``entered`` tells whether the user has set it.

    Examples
    --------
    >>> alpha = KNOBS["alpha"]
    >>> explain_value(alpha, "0", alpha.parameter.allowed)
    'Sample ratio α must be greater than 0 and at most 1,000,000 (you entered 0).'
    >>> explain_value(KNOBS["samples"], "1 000", KNOBS["samples"].parameter.allowed)
    'Samples n: cannot read "1 000"; write 1000.'
    """
    parameter = knob.parameter
    if allowed == parameter.allowed and parameter.kind in ("number", "integer"):
        if not _is_number(value):
            return f'{_title(knob)}: cannot read "{shortened(value)}"; write {_correction(parameter, value)}.'
        allowed = _describe_bounds(parameter)
    allowed = NAMED_VALUE.sub(lambda name: _titles().get(name[0], name[0]), allowed)
    return f"{_title(knob)} must be {allowed} ({'you entered' if entered else 'now'} {shortened(value)})."


def _title(knob: Knob) -> str:
    return f"{knob.parameter.label} {knob.symbol}".strip()


def _titles() -> dict[str, str]:
    return {knob.parameter.name: _title(knob) for knob in KNOBS.values()}


def _is_number(value: Any) -> bool:
    try:
        float(str(value))
    except ValueError:
        return False
    return True


def _correction(parameter: Parameter, value: Any) -> str:
    """Return the number that was probably meant, or the kind of value to write."""
    compact = SEPARATORS.sub("", str(value))
    if _is_number(compact):
        return shortened(compact)
    return f"a number or {ZERO_PLUS}" if parameter.limit else "a number"


def _describe_bounds(parameter: Parameter) -> str:
    """Return the values that a number may have, in words."""
    given = parameter.bounds
    bounds = " and ".join(text.format(_plain_number(given[key])) for key, text in BOUNDS.items() if key in given)
    parts = [part for part in ("a whole number" if parameter.kind == "integer" else "", bounds) if part]
    return (", ".join(parts) or "a number") + (f", or {ZERO_PLUS}" if parameter.limit else "")


def _plain_number(bound: float) -> str:
    """Return a number as people write it: 1,000,000 and 0.000001 rather than 1e+06 and 1e-06."""
    return f"{Decimal(repr(float(bound))):,f}".removesuffix(".0")
