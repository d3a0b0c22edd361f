"""Text of others (names of files, words of stores, sweep files and checkpoints), made fit to be shown.

Errors pass through here when they become text, and the command line when it prints: nothing else need think of it.
"""

__all__ = ["quoted", "visible"]

LONGEST = 200  # characters of a value in a sentence


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
