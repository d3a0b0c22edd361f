"""How results show themselves: sentences for a terminal, small tables for a notebook, rows for pandas."""

from collections.abc import Sequence
from html import escape
from importlib import import_module
from textwrap import fill
from typing import TYPE_CHECKING, Any

from onehead.errors import MissingExtra

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SHOWN", "badge", "cell", "flat", "frame", "in_lines", "load_pandas", "table"]

SHOWN = 10  # numbers that a result shows of itself in a notebook, and rows
WIDTH = 84  # of a line of words


def in_lines(sentences: Sequence[str]) -> str:
    """Sentences below each other, broken for a terminal."""
    return "\n".join(fill(sentence, width=WIDTH, subsequent_indent="  ") for sentence in sentences)


def load_pandas() -> Any:
    """The package pandas, half a second and fifty megabytes; only who asks for a frame pays."""
    try:
        return import_module("pandas")
    except ImportError:
        raise MissingExtra("pandas", "tables") from None


def frame(rows: list[dict[str, Any]]) -> "pd.DataFrame":
    """A pandas table with one line per row, nested values under dotted names."""
    made: pd.DataFrame = load_pandas().DataFrame([dict(flat("", row)) for row in rows])
    return made


def badge(text: str, good: bool) -> str:
    """A coloured word: green when nothing needs a second look."""
    style = f"background:{'#2e7d4f' if good else '#b3661a'};color:white;border-radius:3px;padding:1px 6px"
    return f"<span style='{style}'>{escape(text)}</span>"


def cell(value: Any) -> str:
    """A number or a word in a narrow table."""
    if value is None:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else escape(str(value))


def table(caption: str, rows: list[str], *, columns: int, head: str | None = None) -> str:
    """The first rows, and how many more there are."""
    more = [f"<td colspan={columns}>and {len(rows) - SHOWN} more</td>"] if len(rows) > SHOWN else []
    body = "".join(f"<tr>{row}</tr>" for row in ([] if head is None else [head]) + rows[:SHOWN] + more)
    return f"<table><caption>{caption}</caption>{body}</table>"


def flat(prefix: str, value: dict[str, Any]) -> list[tuple[str, Any]]:
    """Flatten nested dicts to dotted keys."""
    rows: list[tuple[str, Any]] = []
    for key, item in value.items():
        name = f"{prefix}{key}"
        rows += flat(f"{name}.", item) if isinstance(item, dict) else [(name, item)]
    return rows
