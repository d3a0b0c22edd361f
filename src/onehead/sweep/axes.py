"""Values of one axis of a sweep: a list, one value, or a range written as on the command line."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from onehead.errors import InvalidArgument

MAX_AXIS_VALUES = 1_000_000
ALLOWED = f"a value, a list, start:stop:count, log:start:stop:count or a comma list, at most {MAX_AXIS_VALUES} values"


def axis_values(name: str, given: Any, *, integer: bool = False) -> list[Any]:
    """Return the values of an axis in order.

    Parameters
    ----------
    name : str
        Name of the parameter, for the error message.
    given : object
        A list, an array, one value, ``"start:stop:count"``, ``"log:start:stop:count"`` or a comma list.
    integer : bool
        Whether to round the points of a range to integers.

    Returns
    -------
    list
        The values, in the order given.

    Raises
    ------
    InvalidArgument
        If the range cannot be read, is empty, or has more than a million values.

    Examples
    --------
    >>> axis_values("alpha", "log:0.01:1:3")
    [0.01, 0.1, 1.0]
    >>> axis_values("tokens", "2:4:3", integer=True), axis_values("loss", "squared,cross-entropy")
    ([2, 3, 4], ['squared', 'cross-entropy'])
    """
    if hasattr(given, "__array__"):  # an array, or a column of a table
        given = np.asarray(given).tolist()
    if isinstance(given, str):
        values = _parse(name, given, integer)
    elif isinstance(given, Sequence):
        values = [item.item() if isinstance(item, np.generic) else item for item in given]
    else:
        values = [given.item() if isinstance(given, np.generic) else given]
    if not 1 <= len(values) <= MAX_AXIS_VALUES:
        raise InvalidArgument(name, given, ALLOWED)
    return values


def _parse(name: str, text: str, integer: bool) -> list[Any]:
    """Values of a range, of a comma list, or of a single item."""
    logarithmic = text.startswith("log:")
    parts = text.removeprefix("log:").split(":")
    if len(parts) == 1 and not logarithmic:
        return [_number_or_text(item.strip()) for item in text.split(",")]
    try:
        low, high, count = float(parts[0]), float(parts[1]), int(parts[2])
        if len(parts) != 3 or not 1 <= count <= MAX_AXIS_VALUES or not np.isfinite([low, high]).all():
            raise ValueError
        if logarithmic and min(low, high) <= 0.0:
            raise ValueError
    except (ValueError, IndexError):
        raise InvalidArgument(name, text, ALLOWED) from None
    points = (np.geomspace if logarithmic else np.linspace)(low, high, count).tolist()
    return [round(point) for point in points] if integer else points


def _number_or_text(item: str) -> Any:
    """An integer or a float if the item reads as one, else the text itself."""
    for kind in (int, float):
        try:
            return kind(item)
        except ValueError:
            continue
    return item
