"""Escape untrusted text (file names, content of stores, sweep files and checkpoints) for terminals and error messages.

Exceptions use it when they are converted to text, and the command line when it prints; no other module has to.
"""

from collections.abc import Iterable

MAX_VALUE_LENGTH = 200  # characters of a value in a message


class Unquoted(str):
    """Text whose repr() has no quotation marks, so that it can stand in a message in place of a value."""

    __slots__ = ()
    __repr__ = str.__str__


def did_you_mean(name: object, known: Iterable[object]) -> str:
    """Suggest the known name closest to a mistyped one, in brackets; an empty string where none is close.

    Examples
    --------
    >>> did_you_mean("wieght_decay", ["width", "weight_decay"]), did_you_mean("x", ["width"])
    (' (did you mean weight_decay?)', '')
    """
    from difflib import get_close_matches  # loaded for messages only

    close = get_close_matches(name, [str(one) for one in known], n=1, cutoff=0.6) if isinstance(name, str) else []
    return f" (did you mean {close[0]}?)" if close and close[0] != name else ""


def visible(text: str) -> str:
    r"""Escape every character that a terminal would interpret, hide or reorder; tabs stay.

    Examples
    --------
    >>> print(visible("a\x1b]0;title\x07b"), visible("log\u202egpj.exe"), visible("κ₀ = ½"))
    a\x1b]0;title\x07b log\u202egpj.exe κ₀ = ½
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode() for c in text)


def quoted(value: object) -> str:
    """Write a value for a message: on one line, cut to a readable length.

    Examples
    --------
    >>> quoted("a\\nb"), quoted(10**9999), len(quoted([0.5] * 10**5))
    ("'a\\\\nb'", 'an integer of about 9999 digits', 203)
    """
    try:
        text = " ".join(line.strip() for line in repr(value).splitlines())
    except (ValueError, RecursionError):  # an integer of thousands of digits, or a value that nests without end
        if not isinstance(value, int):
            return f"a {type(value).__name__} that cannot be written out"
        return f"an integer of about {round(value.bit_length() * 0.30103)} digits"
    return text if len(text) <= MAX_VALUE_LENGTH else f"{text[:MAX_VALUE_LENGTH]}..."
