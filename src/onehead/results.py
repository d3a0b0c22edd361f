"""The family of results: the problem answered, its numbers, and a certificate."""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from onehead.errors import InvalidArgument

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["INTERRUPTED", "Certificate", "Kind", "NoAnswer", "Points", "Result", "Rows", "plain"]

INTERRUPTED = "interrupted before it was solved."
SHOWN = 10  # numbers that a result shows of itself in a notebook, and rows

Kind = Literal["theorem", "claim", "conjecture", "heuristic", "measurement"]


def plain(value: Any) -> Any:
    """Turn a value into what JSON can hold; what is not finite becomes ``None``."""
    if isinstance(value, BaseModel):
        return {name: plain(getattr(value, name)) for name in type(value).model_fields}
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return [plain(item) for item in value.tolist()]
    if isinstance(value, np.generic):
        return plain(value.item())
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
    ``quadrature_error`` the estimated error of the main number from a second quadrature rule, and
    ``warnings`` are sentences a reader should see before using the number.
    """

    status: str
    kind: Kind
    residual: float = 0.0
    quadrature_error: float = 0.0
    evaluations: int = 0
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Result:
    """Base of every result.

    Fields named in ``_NESTED`` are merged into the top level of the dict, those in ``_HIDDEN`` left out.
    """

    _NESTED: ClassVar[tuple[str, ...]] = ("certificate",)
    _HIDDEN: ClassVar[tuple[str, ...]] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values; infinities become ``None``."""
        row: dict[str, Any] = {}
        for field in fields(self):
            value = plain(getattr(self, field.name))
            if field.name in self._HIDDEN:
                continue
            if field.name in self._NESTED and isinstance(value, dict):
                row.update(value)
            else:
                row[field.name] = value
        return row

    def to_json(self) -> str:
        """Return one JSON object."""
        return json.dumps(self.to_dict(), allow_nan=False)

    def _repr_html_(self) -> str:
        """A small table with a badge, for notebooks: the first numbers, not the problem."""
        row = self.to_dict()
        status, kind = row.get("status"), row.get("kind")
        cells = [
            f"<tr><td>{escape(name)}</td><td style='text-align:right'>{_short(value)}</td></tr>"
            for name, value in row.items()
            if name not in ("status", "kind", "warnings") and (value is None or isinstance(value, (bool, int, float)))
        ]
        more = f"<tr><td colspan=2>and {len(cells) - SHOWN} more</td></tr>" if len(cells) > SHOWN else ""
        badge = ""
        if status is not None:
            good = status.startswith("converged") and "approximate" not in status and not row.get("warnings")
            badge = f"{_badge(status, good)} {escape(kind or '')}"
        notes = "".join(f"<br><small>{escape(text)}</small>" for text in row.get("warnings") or ())
        return f"<table><caption>{type(self).__name__} {badge}{notes}</caption>{''.join(cells[:SHOWN])}{more}</table>"

    def to_series(self) -> "pd.Series[Any]":
        """Return one pandas row, parameters of the problem flattened to dotted names."""
        import pandas as pd  # noqa: PLC0415  (half a second; only who asks for a row pays)

        return pd.Series(dict(_flat("", self.to_dict())))


class Rows(ABC):
    """Base of every result with many points: one dict per point, a pandas table, and a small table in a notebook."""

    _SHOWN: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def to_rows(self) -> list[dict[str, Any]]:
        """One dict per point, a point that failed with its reason."""

    def to_frame(self) -> "pd.DataFrame":
        """Return a pandas table with one row per point, parameters of the problem flattened to dotted names."""
        import pandas as pd  # noqa: PLC0415

        return pd.DataFrame([dict(_flat("", row)) for row in self.to_rows()])

    def _repr_html_(self) -> str:
        rows = self.to_rows()
        failed = sum(str(row.get("status", "")).startswith("failed") for row in rows)
        head = "".join(f"<th>{escape(name)}</th>" for name in self._SHOWN)
        body = "".join(
            "<tr>"
            + "".join(f"<td style='text-align:right'>{_cell(row.get(name))}</td>" for name in self._SHOWN)
            + "</tr>"
            for row in rows[:SHOWN]
        )
        more = f"<tr><td colspan={len(self._SHOWN)}>and {len(rows) - SHOWN} more</td></tr>" if len(rows) > SHOWN else ""
        good = f"{len(rows) - failed} of {len(rows)} solved"
        return f"<table><caption>{type(self).__name__} {_badge(good, not failed)}</caption><tr>{head}</tr>{body}{more}</table>"


@dataclass(frozen=True, kw_only=True)
class NoAnswer:
    """Base of every point that could not be solved, with the reason."""

    _EMPTY: ClassVar[tuple[str, ...]] = ()

    reason: str

    def to_dict(self) -> dict[str, Any]:
        """A row with a reason, and nothing where a solved point has numbers."""
        own = {field.name: plain(getattr(self, field.name)) for field in fields(self) if field.name != "reason"}
        return {**dict.fromkeys(self._EMPTY), **own, "status": f"failed: {self.reason}", "kind": None}


Point = TypeVar("Point", bound=Result)
Lost = TypeVar("Lost", bound=NoAnswer)


class Points(Rows, Generic[Point, Lost]):
    """Base of every result along one axis: points in the order asked for, those without an answer in their places."""

    points: tuple[Point | Lost, ...]

    def __iter__(self) -> Iterator[Point | Lost]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)

    @property
    def failures(self) -> tuple[Lost, ...]:
        """The points without an answer."""
        return tuple(point for point in self.points if isinstance(point, NoAnswer))

    def column(self, name: str) -> NDArray[np.float64]:
        """One quantity along the points; not a number where a point failed."""
        values = [getattr(point, name, math.nan if isinstance(point, NoAnswer) else None) for point in self.points]
        if not all(isinstance(value, (int, float)) for value in values):
            solved = next(point for point in self.points if not isinstance(point, NoAnswer))
            numbers = [key for key in solved.to_dict() if isinstance(getattr(solved, key, None), (int, float))]
            raise InvalidArgument("name", name, f"a number of the points: {', '.join(numbers)}")
        return np.array(values, dtype=float)

    def to_rows(self) -> list[dict[str, Any]]:
        """One dict per point."""
        return [point.to_dict() for point in self.points]


def _badge(text: str, good: bool) -> str:
    """A coloured word: green when nothing needs a second look."""
    style = f"background:{'#2e7d4f' if good else '#b3661a'};color:white;border-radius:3px;padding:1px 6px"
    return f"<span style='{style}'>{escape(text)}</span>"


def _cell(value: Any) -> str:
    """A number or a word in a narrow table."""
    return _short(value) if value is None or isinstance(value, (bool, int, float)) else escape(str(value))


def _short(value: float | bool | None) -> str:
    """A number in a narrow table."""
    if value is None:
        return "–"
    return str(value) if isinstance(value, (bool, int)) else f"{value:.6g}"


def _flat(prefix: str, value: dict[str, Any]) -> list[tuple[str, Any]]:
    """Flatten nested dicts to dotted keys."""
    rows: list[tuple[str, Any]] = []
    for key, item in value.items():
        name = f"{prefix}{key}"
        rows += _flat(f"{name}.", item) if isinstance(item, dict) else [(name, item)]
    return rows
