"""Base classes of results with many points: rows of a table, points along one axis, cells over two axes."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, Protocol, Self, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray

from onehead.errors import InvalidArgument
from onehead.results.base import FAILED, OneLineRepr, Result, plain
from onehead.results.formatting import (
    MAX_ITEMS,
    data_frame,
    first_paragraph,
    html_badge,
    html_cell,
    html_table,
    wrap_sentences,
)
from onehead.sanitize import did_you_mean

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Column", "Failed", "FailedPoint", "Grid", "Point", "Points", "Rows", "number_array"]


class Rows(OneLineRepr, ABC):
    """Base class of results with many points: one dict per point, a pandas table, and an HTML table in notebooks."""

    _SUMMARY_FIELDS: ClassVar[tuple[str, ...]] = ()  # columns of tables in notebooks; if empty, all

    @abstractmethod
    def to_rows(self) -> list[dict[str, Any]]:
        """Return one dict per point; the status of a failed point says why."""

    def to_frame(self) -> "pd.DataFrame":
        """Return a pandas table with one row per point; parameters of the problem have dotted names."""
        return data_frame(self.to_rows())

    def _names(self, rows: list[dict[str, Any]]) -> tuple[str, ...]:
        """Columns of the table in a notebook."""
        return self._SUMMARY_FIELDS or tuple(rows[0] if rows else ())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({_solved(self.to_rows())[0]})"

    def _column(self, name: str) -> NDArray[np.float64]:
        """One quantity of all rows as an array; nan where a row does not have it."""
        rows = self.to_rows()
        known = self._column_names()
        if name not in known:
            raise InvalidArgument("name", name, "a number of the rows", known)
        return np.array([value if _is_finite(value := row.get(name)) else math.nan for row in rows], dtype=float)

    def _column_names(self) -> list[str]:
        """Names of the quantities that are attributes of this result."""
        return list(dict.fromkeys(key for row in self.to_rows() for key, value in row.items() if _is_finite(value)))

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._column_names()})

    if not TYPE_CHECKING:  # type checkers know the attributes that are declared, and report all others

        def __getattr__(self, name: str) -> NDArray[np.float64]:
            """Return one quantity of all points as an array, such as ``curve.test_error``."""
            if not name.startswith("_"):
                try:
                    return self._column(name)
                except InvalidArgument as failure:
                    columns = (
                        f"{did_you_mean(name, failure.known)}; columns: {', '.join(map(str, failure.known)) or 'none'}"
                    )
                    raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{columns}") from None
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def explain(self) -> str:
        """Describe in words what the result is, the range of its numbers, and its warnings and failures.

        Examples
        --------
        >>> from onehead.sparse import Protocol, Task, curve
        >>> print(curve(Task(), Protocol(), [1.0, 4.0], model="pooled").explain().splitlines()[2])
        alpha: from 1 to 4.
        """
        rows = self.to_rows()
        lines = [f"{first_paragraph(type(self))} {_solved(rows)[0].capitalize()}."]
        for name in self._names(rows)[:MAX_ITEMS]:
            values: list[Any] = [value for row in rows if _is_finite(value := row.get(name))]
            if values:
                lines.append(f"{name}: from {min(values):.5g} to {max(values):.5g}.")
        notes = [text for row in rows for text in row.get("warnings") or ()]
        notes += [row["status"] for row in rows if str(row.get("status", "")).startswith(FAILED)]
        lines += [f"Note: {text} ({notes.count(text)} of {len(rows)})" for text in dict.fromkeys(notes)]
        return wrap_sentences(lines)

    def _repr_html_(self) -> str:
        rows = self.to_rows()
        names, (solved, all_solved) = self._names(rows), _solved(rows)
        head = "".join(f"<th>{escape(name)}</th>" for name in names)
        body = [
            "".join(f"<td style='text-align:right'>{html_cell(row.get(name))}</td>" for name in names) for row in rows
        ]
        return html_table(
            f"{type(self).__name__} {html_badge(solved, all_solved)}", body, columns=len(names), head=head
        )


@dataclass(frozen=True, kw_only=True)
class FailedPoint:
    """Base class of points that could not be solved; ``reason`` says why."""

    _EMPTY: ClassVar[tuple[str, ...]] = ()  # columns of a solved point that are empty here

    reason: str

    def to_dict(self) -> dict[str, Any]:
        """Return a row with the reason as its status; the numbers of a solved point are None."""
        own = {field.name: plain(getattr(self, field.name)) for field in fields(self) if field.name != "reason"}
        return {**dict.fromkeys(self._EMPTY), **own, "status": self.status, "kind": None}

    @property
    def status(self) -> str:
        """The word "failed" and the reason."""
        return f"{FAILED}: {self.reason}"

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse a number of a solved point; type checkers therefore accept ``curve[0].test_error``."""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}: {vars(self).get('reason')}")


Point = TypeVar("Point", bound=Result)
Failed = TypeVar("Failed", bound=FailedPoint)


class Column:
    """Attribute of a class of `Points` that is one quantity of all points, as an array of floats.

    Declared columns are known to editors and type checkers; ``column(name)`` computes them.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, points: None, owner: type) -> "Column": ...
    @overload
    def __get__(self, points: "Points[Any, Any]", owner: type) -> NDArray[np.float64]: ...
    def __get__(self, points: "Points[Any, Any] | None", owner: type) -> "Column | NDArray[np.float64]":
        if points is None:
            return self
        try:
            return points.column(self._name)
        except InvalidArgument:  # `Rows.__getattr__` then says which columns there are
            raise AttributeError(self._name) from None


class Points(Rows, Generic[Point, Failed]):
    """Base class of results along one axis: points in the order asked for, solved or failed."""

    _PER_POINT: ClassVar[tuple[str, ...]] = ("points",)  # fields with one item per point, which a slice divides

    points: tuple[Point | Failed, ...]

    def __iter__(self) -> Iterator[Point | Failed]:
        return iter(self.points)

    @overload
    def __getitem__(self, index: int) -> Point | Failed: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> "Point | Failed | Self":
        if not isinstance(index, slice):
            return self.points[index]
        own: Any = self  # a dataclass, as every subclass is
        parts = {name: getattr(self, name) for name in self._PER_POINT}
        return cast("Self", replace(own, **{name: part[index] for name, part in parts.items() if part is not None}))

    def _column(self, name: str) -> NDArray[np.float64]:
        return self.column(name)

    @property
    def status(self) -> tuple[str, ...]:
        """How the computation of each point ended, in words."""
        return tuple(point.status for point in self.points)

    @property
    def cautions(self) -> tuple[str, ...]:
        """Sentences to read before using the numbers, of all points."""
        found = (text for point in self.points if isinstance(point, Result) for text in point.cautions)
        return tuple(dict.fromkeys(found))

    def __len__(self) -> int:
        return len(self.points)

    @property
    def failures(self) -> tuple[Failed, ...]:
        """Points that could not be solved."""
        return tuple(point for point in self.points if isinstance(point, FailedPoint))

    def column(self, name: str) -> NDArray[np.float64]:
        """Return one quantity along the points; nan where a point failed or does not have it."""
        found = [getattr(point, name, None if isinstance(point, FailedPoint) else "") for point in self.points]
        values = [math.nan if value is None else value for value in found]
        return number_array(name, values, [point for point in self.points if not isinstance(point, FailedPoint)])

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one dict per point."""
        return self._rows()

    def _rows(self) -> list[dict[str, Any]]:
        """Rows of the points themselves, to which a subclass may add columns."""
        return [point.to_dict() for point in self.points]


class _HasDict(Protocol):
    def to_dict(self) -> dict[str, Any]: ...


Cell = TypeVar("Cell", bound=_HasDict)


class Grid(Rows, Generic[Cell]):
    """Base class of results over two axes: cells row by row, the first axis running fastest."""

    _VALUE: ClassVar[str] = "test_error"  # number that is None in a failed cell

    cells: tuple[Cell, ...]

    @property
    @abstractmethod
    def axes(self) -> dict[str, tuple[float, ...]]:
        """Names and values of the horizontal and the vertical axis."""

    def __iter__(self) -> Iterator[Cell]:
        return iter(self.cells)

    def __getitem__(self, index: int) -> Cell:
        return self.cells[index]

    def _column(self, name: str) -> NDArray[np.float64]:
        return self.grid(name)

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def failures(self) -> tuple[Cell, ...]:
        """Cells that could not be solved."""
        return tuple(cell for cell in self.cells if getattr(cell, self._VALUE) is None)

    def grid(self, name: str) -> NDArray[np.float64]:
        """Return one quantity as an array with one row per value of the vertical axis; nan where a cell failed."""
        values = [math.nan if (value := getattr(cell, name, "")) is None else value for cell in self.cells]
        horizontal, vertical = self.axes.values()
        return number_array(name, values, self.cells).reshape(len(vertical), len(horizontal))

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one dict per cell."""
        return [cell.to_dict() for cell in self.cells]


def number_array(name: str, values: Sequence[Any], points: Sequence[_HasDict]) -> NDArray[np.float64]:
    """Return the values of one quantity as an array; refuse a name that is not a number of the points."""
    if not all(isinstance(value, (int, float)) for value in values):
        known = [key for key in points[0].to_dict() if isinstance(getattr(points[0], key, None), (int, float))]
        raise InvalidArgument("name", name, f"a number of the points: {', '.join(known)}", known)
    return np.array(values, dtype=float)


def _is_finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _solved(rows: list[dict[str, Any]]) -> tuple[str, bool]:
    """Return how many rows are solved, in words, and whether all are."""
    failed = sum(str(row.get("status", "")).startswith(FAILED) for row in rows)
    return f"{len(rows) - failed} of {len(rows)} solved", not failed
