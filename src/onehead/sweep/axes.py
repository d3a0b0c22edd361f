"""The values of one axis: a list, one value, or a range written as on the command line."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from onehead.errors import InvalidArgument

__all__ = ["LIMIT", "axis_values"]

LIMIT = 1_000_000  # values of one axis
ALLOWED = f"a value, a list, start:stop:count, log:start:stop:count or a comma list, at most {LIMIT} values"


def axis_values(name: str, given: Any, *, whole: bool = False) -> list[Any]:
    """Return the values of an axis in order; ``whole`` rounds the points of a range to integers.

    Examples
    --------
    >>> axis_values("alpha", "log:0.01:1:3")
    [0.01, 0.1, 1.0]
    >>> axis_values("tokens", "2:4:3", whole=True), axis_values("loss", "squared,cross-entropy")
    ([2, 3, 4], ['squared', 'cross-entropy'])
    """
    if hasattr(given, "__array__"):  # an array, or a column of a table
        given = np.asarray(given).tolist()
    if isinstance(given, str):
        values = _parsed(name, given, whole)
    elif isinstance(given, Sequence):
        values = [item.item() if isinstance(item, np.generic) else item for item in given]
    else:
        values = [given.item() if isinstance(given, np.generic) else given]
    if not 1 <= len(values) <= LIMIT:
        raise InvalidArgument(name, given, ALLOWED)
    return values


def _parsed(name: str, text: str, whole: bool) -> list[Any]:
    """A range, a comma list or one word."""
    logarithmic = text.startswith("log:")
    parts = text.removeprefix("log:").split(":")
    if len(parts) == 1 and not logarithmic:
        return [_value(item.strip()) for item in text.split(",")]
    try:
        low, high, count = float(parts[0]), float(parts[1]), int(parts[2])
        if len(parts) != 3 or not 1 <= count <= LIMIT or not np.isfinite([low, high]).all():
            raise ValueError
        if logarithmic and min(low, high) <= 0.0:
            raise ValueError
    except (ValueError, IndexError):
        raise InvalidArgument(name, text, ALLOWED) from None
    points = (np.geomspace if logarithmic else np.linspace)(low, high, count).tolist()
    return [round(point) for point in points] if whole else points


def _value(word: str) -> Any:
    """An integer, a number, or the word itself."""
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word
