"""Text of others (names of files, words of stores, sweep files and checkpoints), made fit to be shown.

Errors pass through here when they become text, and the command line when it prints: nothing else need think of it.
"""

from collections.abc import Iterable

__all__ = ["Bare", "likely", "quoted", "visible"]

LONGEST = 200  # characters of a value in a sentence


class Bare(str):
    """Words that stand in a sentence as they are, where a value would be quoted."""

    __slots__ = ()
    __repr__ = str.__str__


def likely(word: object, known: Iterable[object]) -> str:
    """The known word that somebody meant who wrote another one, in brackets; nothing where none is close.

    Examples
    --------
    >>> likely("wieght_decay", ["width", "weight_decay"]), likely("x", ["width"])
    (' (did you mean weight_decay?)', '')
    """
    from difflib import get_close_matches  # noqa: PLC0415  (only who errs pays)

    names = [str(name) for name in known]
    close = get_close_matches(word, names, n=1, cutoff=0.6) if isinstance(word, str) else []
    return f" (did you mean {close[0]}?)" if close and close[0] != word else ""


def visible(text: str) -> str:
    r"""One line in which whatever a terminal would obey, or would hide or reorder, is written out; tabs stay.

    Examples
    --------
    >>> print(visible("a\x1b]0;title\x07b"), visible("log\u202egpj.exe"), visible("κ₀ = ½"))
    a\x1b]0;title\x07b log\u202egpj.exe κ₀ = ½
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode() for c in text)


def quoted(value: object) -> str:
    """A value as it may stand in a sentence: on one line, and not longer than a reader would read.

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
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
