"""The answers of a sweep as a table: one tidy row per point."""

from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Table"]

SHOWN_ROWS, SHOWN_COLUMNS = 10, 12
DULL = ("key", "version", "numerical_version", "finished_at", "duration", "arrays", "call", "status")


class Table:
    """Rows of a sweep in the order of its points: parameters, results, certificate, origin.

    A failed point is a row with a ``reason`` and without results.
    """

    def __init__(
        self, rows: Sequence[dict[str, Any]], arrays: Callable[[str], dict[str, NDArray[Any]]] = lambda _: {}
    ) -> None:
        self.rows = tuple(rows)
        self._arrays = arrays

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.rows[index]

    @property
    def columns(self) -> list[str]:
        """Names of all columns, in the order in which they first appear."""
        return list(dict.fromkeys(name for row in self.rows for name in row))

    @property
    def failed(self) -> tuple[dict[str, Any], ...]:
        """The rows without an answer; each has a ``reason``."""
        return tuple(row for row in self.rows if row["state"] == "failed")

    def column(self, name: str) -> NDArray[Any]:
        """One column; numbers come as floats, not a number where a point failed."""
        if name not in self.columns:
            raise KeyError(f"{name!r} is not a column; there are {', '.join(self.columns)}")
        values = [row.get(name) for row in self.rows]
        if all(value is None or isinstance(value, (int, float)) for value in values):
            return np.array([np.nan if value is None else value for value in values], dtype=float)
        column = np.empty(len(values), dtype=object)
        column[:] = values
        return column

    @property
    def telling(self) -> list[str]:
        """Names of a few columns worth a look: those that vary."""
        return [name for name in self.columns if name not in DULL and self._varies(name)][:SHOWN_COLUMNS]

    def arrays(self, index: int) -> dict[str, NDArray[Any]]:
        """The large arrays of a row, for example ``x`` and ``density`` of a spectrum."""
        name = self.rows[index]["arrays"]
        return {} if name is None else self._arrays(name)

    def to_frame(self) -> "pd.DataFrame":
        """All rows as a pandas frame."""
        import pandas as pd  # noqa: PLC0415  (half a second; only who asks for a frame pays)

        return pd.DataFrame(list(self.rows), columns=self.columns)

    def __repr__(self) -> str:
        calls = ", ".join(dict.fromkeys(row["call"] for row in self.rows))
        return f"Table({calls}: {len(self)} rows, {len(self.failed)} failed)"

    def _repr_html_(self) -> str:
        """The columns that vary, the first rows."""
        names = self.telling
        head = "".join(f"<th>{escape(name)}</th>" for name in names)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(_short(row.get(name)))}</td>" for name in names) + "</tr>"
            for row in self.rows[:SHOWN_ROWS]
        )
        more = f"<p>{escape(repr(self))}, first {min(len(self), SHOWN_ROWS)} shown</p>"
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"

    def _varies(self, name: str) -> bool:
        values = [row.get(name) for row in self.rows]
        plain = all(not isinstance(value, (list, dict)) for value in values)
        return plain and (len(values) == 1 or any(value != values[0] for value in values))


def _short(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float) else "" if value is None else str(value)
