"""The family of results: the problem answered, its numbers, and a certificate."""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from html import escape
from inspect import getdoc
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from onehead.errors import InvalidArgument
from onehead.shown import SHOWN, badge, cell, flat, frame, in_lines, load_pandas, table
from onehead.text import likely

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "FAILED",
    "INTERRUPTED",
    "Certificate",
    "Grid",
    "Kind",
    "Lost",
    "NoAnswer",
    "Point",
    "Points",
    "Result",
    "Rows",
    "in_lines",
    "numbers_of",
    "plain",
]

INTERRUPTED = "interrupted before it was solved."
FAILED = "failed"  # how the status of a point without an answer begins
FEW = 4  # numbers in one line

Kind = Literal["theorem", "claim", "conjecture", "heuristic", "measurement"]


def plain(value: Any) -> Any:
    """Turn a value into what JSON can hold; what is not finite becomes ``None``."""
    if isinstance(value, BaseModel):
        return {name: plain(getattr(value, name)) for name in type(value).model_fields}
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return str(value)


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """How far a number can be trusted.

    ``status`` says in words how the solve ended, ``kind`` what sort of truth the theory behind it is,
    ``residual`` is the undamped residual of the equations (largest relative change of an unknown),
    ``quadrature_error`` the estimated error of the main number, ``errors`` those of all numbers that have one, and
    ``warnings`` are sentences a reader should see before using the number.
    """

    status: str
    kind: Kind
    residual: float = 0.0
    quadrature_error: float = 0.0
    evaluations: int = 0
    errors: dict[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, other: "Certificate", **changes: Any) -> Self:
        """The certificate of what follows from another number: the fields that both have, with changes.

        Examples
        --------
        >>> known = Certificate(status="converged", kind="claim", residual=1e-9)
        >>> Certificate.of(known, kind="heuristic").residual
        1e-09
        """
        own = {field.name for field in fields(cls)}
        return cls(**{f.name: getattr(other, f.name) for f in fields(other) if f.name in own} | changes)

    @property
    def converged(self) -> bool:
        """Whether the solve ended where it should."""
        return self.status.startswith("converged")

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it."""
        return self.status.startswith("interrupted")

    @property
    def clean(self) -> bool:
        """Whether nothing needs a second look."""
        return self.converged and "approximate" not in self.status and not self.warnings


class _OneLine:
    """Whoever derives from it prints one line, where a dataclass would print every field."""

    def __init_subclass__(cls, **words: Any) -> None:
        super().__init_subclass__(**words)
        if "__repr__" not in vars(cls):  # a dataclass leaves what stands in its own class
            cls.__repr__ = cls.__repr__  # type: ignore[method-assign]


@dataclass(frozen=True, kw_only=True)
class Result(_OneLine):
    """Base of every result.

    Fields named in ``_NESTED`` are merged into the top level of the dict, those in ``_HIDDEN`` left out. ``_SHOWN`` stand in
    the one line that a result prints of itself (its first numbers where it names none), ``_MAIN`` is the number that the
    quadrature error of the certificate belongs to, and ``MEANINGS`` say what a number is.
    """

    _NESTED: ClassVar[tuple[str, ...]] = ("certificate",)
    _HIDDEN: ClassVar[tuple[str, ...]] = ()
    _SHOWN: ClassVar[tuple[str, ...]] = ()
    _MAIN: ClassVar[str] = "test_error"
    MEANINGS: ClassVar[dict[str, str]] = {}

    @property
    def _trust(self) -> Certificate | None:
        trust: Certificate | None = vars(self).get("certificate")
        return trust

    @property
    def status(self) -> str:
        """How the work ended, in words; empty where there is no certificate."""
        return "" if self._trust is None else self._trust.status

    @property
    def kind(self) -> Kind | None:
        """What kind of truth this is; None where there is no certificate."""
        return self._trust.kind if self._trust is not None else None

    @cached_property
    def errors(self) -> dict[str, float]:
        """The error of every number that has one: of quadrature where it is predicted, standard where it is measured."""
        if self._trust is None:
            return {}
        own = {one.name for one in fields(self)}
        main = {self._MAIN: self._trust.quadrature_error} if isinstance(getattr(self, self._MAIN, None), float) else {}
        return main | {name: error for name, error in self._trust.errors.items() if name in own}

    def _named(self) -> dict[str, float]:
        """Errors under names of their own: ``test_error_err`` and its like."""
        return {f"{name}_err": error for name, error in self.errors.items()}

    if not TYPE_CHECKING:  # attributes that the type checker knows are those of the fields

        def __getattr__(self, name: str) -> float:
            """The error of a number by its name, ``test_error_err``."""
            if name.endswith(("_std", "_err")) and name in (named := self._named()):
                return named[name]
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _numbers(self) -> dict[str, float]:
        """The numbers of the result itself, not those of problem and certificate."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in self._HIDDEN}
        return {name: v for name, v in values.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}

    def _said(self, name: str) -> str:
        """A number with its error, or a word."""
        value, error = getattr(self, name), self.errors.get(name, math.nan)
        if not isinstance(value, float):
            return repr(value)
        return f"{value:.5g}" + (f" ± {error:.2g}" if error > 0.0 else "")

    def __repr__(self) -> str:
        names = self._SHOWN or tuple(self._numbers())[:FEW]
        parts = [f"{name}={self._said(name)}" for name in names if getattr(self, name) is not None]
        status = [f"status={self.status!r}"] if self.status else []
        return f"{type(self).__name__}({', '.join(parts + status)})"

    def explain(self) -> str:
        """Say in words what this is, what its numbers mean, and how far they can be trusted.

        Examples
        --------
        >>> from onehead.sparse import Protocol, Task, align
        >>> print(align(Task(), Protocol()).explain().splitlines()[1])
        cos_query = 0.88371: cosine of the query with the signal.
        """
        what = _described(type(self))
        numbers = self._numbers()
        names = [name for name in self.MEANINGS if name in numbers] or list(numbers)[:SHOWN]
        meant = {name: f": {self.MEANINGS[name]}." if name in self.MEANINGS else "." for name in names}
        return in_lines([what, *(f"{name} = {self._said(name)}{meant[name]}" for name in names), *self._closing()])

    def _closing(self) -> list[str]:
        """What the certificate says."""
        if self._trust is None:
            return []
        notes = [f"Note: {warning}" for warning in self._trust.warnings]
        return [*notes, f"Status: {self._trust.status}. Kind of truth: {self._trust.kind}."]

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, errors of numbers under names that end in ``_err``; infinities become ``None``."""
        row: dict[str, Any] = {}
        for name in (one.name for one in fields(self) if one.name not in self._HIDDEN):
            value = plain(getattr(self, name))
            if name in self._NESTED and isinstance(value, dict):
                value.pop("errors", None)
                row |= value
            else:
                row[name] = value
        stated = self._trust.errors if self._trust is not None else {}
        return row | {f"{name}_err": plain(error) for name, error in stated.items() if name in row}

    def to_json(self) -> str:
        """Return one JSON object."""
        return json.dumps(self.to_dict(), allow_nan=False)

    def _repr_html_(self) -> str:
        """A small table with a badge, for notebooks: the first numbers, not the problem."""
        trust, words = self._trust, ""
        numbers = {name: value for name, value in self.to_dict().items() if name not in ("status", "kind", "warnings")}
        cells = [
            f"<td>{escape(name)}</td><td style='text-align:right'>{cell(value)}</td>"
            for name, value in numbers.items()
            if value is None or isinstance(value, (bool, int, float))
        ]
        if trust is not None:
            notes = "".join(f"<br><small>{escape(text)}</small>" for text in trust.warnings)
            words = f"{badge(trust.status, trust.clean)} {escape(trust.kind)}{notes}"
        return table(f"{type(self).__name__} {words}", cells, columns=2)

    def to_series(self) -> "pd.Series[Any]":
        """Return one pandas row, parameters of the problem flattened to dotted names."""
        made: pd.Series[Any] = load_pandas().Series(dict(flat("", self.to_dict())))
        return made

    def to_frame(self) -> "pd.DataFrame":
        """Return a pandas table with this one row."""
        return frame([self.to_dict()])


class Rows(_OneLine, ABC):
    """Base of every result with many points: one dict per point, a pandas table, and a small table in a notebook."""

    _SHOWN: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def to_rows(self) -> list[dict[str, Any]]:
        """One dict per point, a point that failed with its reason."""

    def to_frame(self) -> "pd.DataFrame":
        """Return a pandas table with one row per point, parameters of the problem flattened to dotted names."""
        return frame(self.to_rows())

    def _names(self, rows: list[dict[str, Any]]) -> tuple[str, ...]:
        """The columns that are shown."""
        return self._SHOWN or tuple(rows[0] if rows else ())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({_solved(self.to_rows())[0]})"

    def _column(self, name: str) -> NDArray[np.float64]:
        """A quantity of all rows; not a number where there is none."""
        rows = self.to_rows()
        known = dict.fromkeys(key for row in rows for key, value in row.items() if _is_finite(value))
        if name not in known:
            raise InvalidArgument("name", name, "a number of the rows", known)
        return np.array([value if _is_finite(value := row.get(name)) else math.nan for row in rows], dtype=float)

    def __getattr__(self, name: str) -> NDArray[np.float64]:
        """A quantity of all points as an array, by its name: ``curve.test_error``."""
        if not name.startswith("_"):
            try:
                return self._column(name)
            except InvalidArgument as failure:
                told = f"{likely(name, failure.known)}; columns: {', '.join(map(str, failure.known)) or 'none'}"
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{told}") from None
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def explain(self) -> str:
        """Say in words what this is, between which values its numbers lie, and what to know before they are used.

        Examples
        --------
        >>> from onehead.sparse import Protocol, Task, curve
        >>> print(curve(Task(), Protocol(), [1.0, 4.0], model="pooled").explain().splitlines()[2])
        alpha: from 1 to 4.
        """
        rows = self.to_rows()
        lines = [f"{_described(type(self))} {_solved(rows)[0].capitalize()}."]
        for name in self._names(rows)[:SHOWN]:
            values: list[Any] = [value for row in rows if _is_finite(value := row.get(name))]
            if values:
                lines.append(f"{name}: from {min(values):.5g} to {max(values):.5g}.")
        noted = [text for row in rows for text in row.get("warnings") or ()]
        lines += [f"Note: {text} ({noted.count(text)} of {len(rows)})" for text in dict.fromkeys(noted)]
        lost = [row["status"] for row in rows if str(row.get("status", "")).startswith(FAILED)]
        return in_lines(
            [*lines, *(f"Note: {text} ({lost.count(text)} of {len(rows)})" for text in dict.fromkeys(lost))]
        )

    def _repr_html_(self) -> str:
        rows = self.to_rows()
        names, (good, all_good) = self._names(rows), _solved(rows)
        head = "".join(f"<th>{escape(name)}</th>" for name in names)
        body = ["".join(f"<td style='text-align:right'>{cell(row.get(name))}</td>" for name in names) for row in rows]
        return table(f"{type(self).__name__} {badge(good, all_good)}", body, columns=len(names), head=head)


@dataclass(frozen=True, kw_only=True)
class NoAnswer:
    """Base of every point that could not be solved, with the reason."""

    _EMPTY: ClassVar[tuple[str, ...]] = ()

    reason: str

    def to_dict(self) -> dict[str, Any]:
        """A row with a reason, and nothing where a solved point has numbers."""
        own = {field.name: plain(getattr(self, field.name)) for field in fields(self) if field.name != "reason"}
        return {**dict.fromkeys(self._EMPTY), **own, "status": f"{FAILED}: {self.reason}", "kind": None}


Point = TypeVar("Point", bound=Result)
Lost = TypeVar("Lost", bound=NoAnswer)


class Points(Rows, Generic[Point, Lost]):
    """Base of every result along one axis: points in the order asked for, those without an answer in their places."""

    points: tuple[Point | Lost, ...]

    def __iter__(self) -> Iterator[Point | Lost]:
        return iter(self.points)

    @overload
    def __getitem__(self, place: int) -> Point | Lost: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Point | Lost, ...]: ...
    def __getitem__(self, place: int | slice) -> "Point | Lost | tuple[Point | Lost, ...]":
        return self.points[place]

    def _column(self, name: str) -> NDArray[np.float64]:
        return self.column(name)

    def __len__(self) -> int:
        return len(self.points)

    @property
    def failures(self) -> tuple[Lost, ...]:
        """The points without an answer."""
        return tuple(point for point in self.points if isinstance(point, NoAnswer))

    def column(self, name: str) -> NDArray[np.float64]:
        """One quantity along the points; not a number where a point failed, or does not have it."""
        found = [getattr(point, name, None if isinstance(point, NoAnswer) else "") for point in self.points]
        values = [math.nan if value is None else value for value in found]
        return numbers_of(name, values, [point for point in self.points if not isinstance(point, NoAnswer)])

    def to_rows(self) -> list[dict[str, Any]]:
        """One dict per point."""
        return self._rows()

    def _rows(self) -> list[dict[str, Any]]:
        return [point.to_dict() for point in self.points]


class _Plain(Protocol):
    def to_dict(self) -> dict[str, Any]: ...


Cell = TypeVar("Cell", bound=_Plain)


class Grid(Rows, Generic[Cell]):
    """Base of every result over two axes: cells row by row, the axis across running fastest; a failed one has its reason.

    ``_VALUE`` is the number that a cell without an answer lacks.
    """

    _VALUE: ClassVar[str] = "test_error"

    cells: tuple[Cell, ...]

    @property
    @abstractmethod
    def axes(self) -> dict[str, tuple[float, ...]]:
        """The two axes with their values, the one across first, the one down second."""

    def __iter__(self) -> Iterator[Cell]:
        return iter(self.cells)

    def __getitem__(self, place: int) -> Cell:
        return self.cells[place]

    def _column(self, name: str) -> NDArray[np.float64]:
        return self.grid(name)

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def failures(self) -> tuple[Cell, ...]:
        """Cells without a value."""
        return tuple(cell for cell in self.cells if getattr(cell, self._VALUE) is None)

    def grid(self, name: str) -> NDArray[np.float64]:
        """One quantity as an array, a row per value of the axis down; not a number where a cell failed."""
        values = [math.nan if (value := getattr(cell, name, "")) is None else value for cell in self.cells]
        across, down = self.axes.values()
        return numbers_of(name, values, self.cells).reshape(len(down), len(across))

    def to_rows(self) -> list[dict[str, Any]]:
        """One dict per cell."""
        return [cell.to_dict() for cell in self.cells]


def numbers_of(name: str, values: Sequence[Any], points: Sequence[_Plain]) -> NDArray[np.float64]:
    """Values of a number of the points, or a sentence that names those there are."""
    if not all(isinstance(value, (int, float)) for value in values):
        known = [key for key in points[0].to_dict() if isinstance(getattr(points[0], key, None), (int, float))]
        raise InvalidArgument("name", name, f"a number of the points: {', '.join(known)}", known)
    return np.array(values, dtype=float)


def _described(kind: type) -> str:
    """What a result is: the first paragraph of its docstring."""
    return " ".join((getdoc(kind) or "").partition("\n\n")[0].replace("``", "").split())


def _is_finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _solved(rows: list[dict[str, Any]]) -> tuple[str, bool]:
    """How many rows have an answer, in words, and whether all have."""
    failed = sum(str(row.get("status", "")).startswith(FAILED) for row in rows)
    return f"{len(rows) - failed} of {len(rows)} solved", not failed
