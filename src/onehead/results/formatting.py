"""Output of results: sentences wrapped for a terminal, HTML tables for notebooks, pandas tables."""

from collections.abc import Sequence
from html import escape
from importlib import import_module
from inspect import getdoc
from textwrap import fill
from typing import TYPE_CHECKING, Any

from onehead.errors import MissingExtra

if TYPE_CHECKING:
    import pandas as pd

MAX_ITEMS = 10  # numbers of a result, or rows of a table, that are written out
LINE_WIDTH = 84  # characters


def wrap_sentences(sentences: Sequence[str]) -> str:
    """Join sentences, each on a line of its own and wrapped for a terminal."""
    return "\n".join(fill(sentence, width=LINE_WIDTH, subsequent_indent="  ") for sentence in sentences)


def first_paragraph(kind: type) -> str:
    """Return the first paragraph of the docstring of a class, which says what a result is."""
    return " ".join((getdoc(kind) or "").partition("\n\n")[0].replace("``", "").split())


def load_pandas() -> Any:
    """Import pandas on demand: it takes half a second and 50 MB, and is optional."""
    try:
        return import_module("pandas")
    except ImportError:
        raise MissingExtra("pandas", "tables") from None


def data_frame(rows: list[dict[str, Any]]) -> "pd.DataFrame":
    """Return a pandas table of the rows; nested values have dotted names."""
    table: pd.DataFrame = load_pandas().DataFrame([dict(flatten("", row)) for row in rows])
    return table


def html_badge(text: str, good: bool) -> str:
    """Return a coloured label in HTML: green if good, orange otherwise."""
    style = f"background:{'#2e7d4f' if good else '#b3661a'};color:white;border-radius:3px;padding:1px 6px"
    return f"<span style='{style}'>{escape(text)}</span>"


def html_cell(value: Any) -> str:
    """Format a value for a cell of an HTML table."""
    if value is None:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else escape(str(value))


def html_table(caption: str, rows: list[str], *, columns: int, head: str | None = None) -> str:
    """Return an HTML table of the first rows, with a last row that counts the others."""
    more = [f"<td colspan={columns}>and {len(rows) - MAX_ITEMS} more</td>"] if len(rows) > MAX_ITEMS else []
    body = "".join(f"<tr>{row}</tr>" for row in ([] if head is None else [head]) + rows[:MAX_ITEMS] + more)
    return f"<table><caption>{caption}</caption>{body}</table>"


def flatten(prefix: str, value: dict[str, Any]) -> list[tuple[str, Any]]:
    """Flatten nested dicts to pairs of a dotted key and a value."""
    rows: list[tuple[str, Any]] = []
    for key, item in value.items():
        name = f"{prefix}{key}"
        rows += flatten(f"{name}.", item) if isinstance(item, dict) else [(name, item)]
    return rows
