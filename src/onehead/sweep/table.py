"""The answers of a sweep as a table: one tidy row per point."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onehead.results import FAILED, Rows
from onehead.shown import load_pandas

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Table"]

SHOWN_COLUMNS = 12
DULL = ("key", "version", "numerical_version", "finished_at", "duration", "arrays", "call", "status")


class Table(Rows):
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

    def to_rows(self) -> list[dict[str, Any]]:
        """One dict per point, a failed one with its reason as status."""
        return [
            row | {"status": f"{FAILED}: {row['reason']}"} if row["state"] == "failed" else row for row in self.rows
        ]

    def _names(self, _: list[dict[str, Any]]) -> tuple[str, ...]:
        return tuple(self.telling)

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
        made: pd.DataFrame = load_pandas().DataFrame(list(self.rows), columns=self.columns)
        return made

    def __repr__(self) -> str:
        calls = ", ".join(dict.fromkeys(row["call"] for row in self.rows))
        return f"Table({calls}: {len(self)} rows, {len(self.failed)} failed)"

    def _varies(self, name: str) -> bool:
        values = [row.get(name) for row in self.rows]
        plain = all(not isinstance(value, (list, dict)) for value in values)
        return plain and (len(values) == 1 or any(value != values[0] for value in values))
