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

    @property
    def cautions(self) -> tuple[str, ...]:
        """Empty: there are no numbers."""
        return ()

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse a number of a solved point; type checkers therefore accept ``curve[0].test_error``."""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}: {vars(self).get('reason')}")


class _HasStatus(Protocol):
    @property
    def status(self) -> str: ...
    def to_dict(self) -> dict[str, Any]: ...


Point = TypeVar("Point", bound=Result)
Failed = TypeVar("Failed", bound=FailedPoint)
Item = TypeVar("Item")
Solvable = TypeVar("Solvable", bound=_HasStatus)
Unsolved = TypeVar("Unsolved", bound=_HasStatus)


class Items(Rows, Generic[Item]):
    """Base class of tables that are also a sequence, with one item per row."""

    _ITEMS: ClassVar[str] = "points"  # name of the field with the items

    def _items(self) -> tuple[Item, ...]:
        items: tuple[Item, ...] = getattr(self, self._ITEMS)
        return items

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items())

    def __len__(self) -> int:
        return len(self._items())

    def __getitem__(self, index: int) -> Item:
        return self._items()[index]


class SolvedItems(Items[Solvable], Generic[Solvable, Unsolved]):
    """Base class of tables of problems of which some may have no solution."""

    @property
    def failures(self) -> tuple[Unsolved, ...]:
        """Items that could not be solved."""
        return tuple(cast("Unsolved", item) for item in self if item.status.startswith(FAILED))

    @property
    def cautions(self) -> tuple[str, ...]:
        """Sentences to read before using the numbers, of all items."""
        return tuple(dict.fromkeys(text for item in self for text in getattr(item, "cautions", ())))

    def _numbers(self, name: str) -> NDArray[np.float64]:
        """One quantity of all items; nan where an item failed or does not have it."""
        values, solved = [], []
        for item in self:
            failed = item.status.startswith(FAILED)
            values.append(getattr(item, name, None if failed else ""))
            solved += [] if failed else [item]
        return _number_array(name, [math.nan if value is None else value for value in values], solved)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one dict per item."""
        return self._rows()

    def _rows(self) -> list[dict[str, Any]]:
        """Rows of the items themselves, to which a subclass may add columns."""
        return [item.to_dict() for item in self]


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


class Points(SolvedItems[Point | Failed, Failed], Generic[Point, Failed]):
    """Base class of results along one axis: points in the order asked for, solved or failed."""

    _PER_POINT: ClassVar[tuple[str, ...]] = ("points",)  # fields with one item per point, which a slice divides

    points: tuple[Point | Failed, ...]

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

    def column(self, name: str) -> NDArray[np.float64]:
        """Return one quantity along the points; nan where a point failed or does not have it."""
        return self._numbers(name)


Cell = TypeVar("Cell", bound=_HasStatus)


class Grid(SolvedItems[Cell, Cell], Generic[Cell]):
    """Base class of results over two axes: cells row by row, the first axis running fastest."""

    _ITEMS: ClassVar[str] = "cells"

    cells: tuple[Cell, ...]

    @property
    @abstractmethod
    def axes(self) -> dict[str, tuple[float, ...]]:
        """Names and values of the horizontal and the vertical axis."""

    def _column(self, name: str) -> NDArray[np.float64]:
        return self.grid(name)

    def grid(self, name: str) -> NDArray[np.float64]:
        """Return one quantity as an array with one row per value of the vertical axis; nan where a cell failed."""
        horizontal, vertical = self.axes.values()
        return self._numbers(name).reshape(len(vertical), len(horizontal))


def _number_array(name: str, values: Sequence[Any], points: Sequence[_HasStatus]) -> NDArray[np.float64]:
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
