"""Text of others on a terminal."""

import re

__all__ = ["clean"]

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # would move the cursor or rename the window


def clean(text: str) -> str:
    """Text of others (names in a file, reasons in a store) without what a terminal would obey."""
    return CONTROL.sub("\ufffd", text)
