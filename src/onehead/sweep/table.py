"""Results of a sweep as a table with one tidy row per point."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onehead.results import FAILED, Items
from onehead.results.formatting import load_pandas

if TYPE_CHECKING:
    import pandas as pd

MAX_SHOWN_COLUMNS = 12
BOOKKEEPING_COLUMNS = ("key", "version", "numerical_version", "finished_at", "duration", "arrays", "call", "status")


class Table(Items[dict[str, Any]]):
    """Rows of a sweep in the order of its points: parameters, results, certificate, origin.

    A failed point is a row with a ``reason`` and without results.

    Parameters
    ----------
    rows : sequence of dict
        One dict per point.
    arrays : callable
        Returns the arrays of a row from the name in its column ``arrays``.

    Examples
    --------
    >>> import onehead
    >>> table = onehead.sweep("sparse.align", {"alpha0": [1.0, 2.0]})
    >>> table
    Table(sparse.align: 2 rows, 0 failed)
    >>> table.column("alpha0").tolist()
    [1.0, 2.0]
    """

    _ITEMS = "rows"

    def __init__(
        self, rows: Sequence[dict[str, Any]], arrays: Callable[[str], dict[str, NDArray[Any]]] = lambda _: {}
    ) -> None:
        self.rows = tuple(rows)
        self._arrays = arrays

    @property
    def columns(self) -> list[str]:
        """Names of all columns, in the order in which they first appear."""
        return list(dict.fromkeys(name for row in self.rows for name in row))

    @property
    def failed(self) -> tuple[dict[str, Any], ...]:
        """Rows of the failed points; each has a ``reason``."""
        return tuple(row for row in self.rows if row["state"] == "failed")

    def to_rows(self) -> list[dict[str, Any]]:
        """One dict per point; a failed point has its reason as status."""
        return [
            row | {"status": f"{FAILED}: {row['reason']}"} if row["state"] == "failed" else row for row in self.rows
        ]

    def _names(self, _: list[dict[str, Any]]) -> tuple[str, ...]:
        return tuple(self.telling)

    def column(self, name: str) -> NDArray[Any]:
        """Values of one column; numbers as floats, with nan where a point failed."""
        if name not in self.columns:
            raise KeyError(f"{name!r} is not a column; the columns are {', '.join(self.columns)}")
        values = [row.get(name) for row in self.rows]
        if all(value is None or isinstance(value, (int, float)) for value in values):
            return np.array([np.nan if value is None else value for value in values], dtype=float)
        column = np.empty(len(values), dtype=object)
        column[:] = values
        return column

    @property
    def telling(self) -> list[str]:
        """Names of the columns that vary between the rows, at most twelve and without bookkeeping."""
        return [name for name in self.columns if name not in BOOKKEEPING_COLUMNS and self._varies(name)][
            :MAX_SHOWN_COLUMNS
        ]

    def arrays(self, index: int) -> dict[str, NDArray[Any]]:
        """Large arrays of a row, for example ``x`` and ``density`` of a spectrum."""
        name = self.rows[index]["arrays"]
        return {} if name is None else self._arrays(name)

    def to_frame(self) -> "pd.DataFrame":
        """All rows as a pandas DataFrame."""
        made: pd.DataFrame = load_pandas().DataFrame(list(self.rows), columns=self.columns)
        return made

    def __repr__(self) -> str:
        calls = ", ".join(dict.fromkeys(row["call"] for row in self.rows))
        return f"Table({calls}: {len(self)} rows, {len(self.failed)} failed)"

    def _varies(self, name: str) -> bool:
        values = [row.get(name) for row in self.rows]
        plain = all(not isinstance(value, (list, dict)) for value in values)
        return plain and (len(values) == 1 or any(value != values[0] for value in values))
