"""Any two words over a grid: what a map of answers is, whichever theory answers."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onehead.arguments import numbers
from onehead.errors import InvalidArgument, SolveError
from onehead.fields import Word
from onehead.numerics.parallel import walk_chains
from onehead.results import FAILED, INTERRUPTED, Grid, Result, numbers_of

__all__ = ["Axis", "Map", "MapCell", "an_axis", "check_axes", "floats", "mapped", "setting_of"]

Array = NDArray[np.float64]
Axis = tuple[str, Sequence[float]]


@dataclass(frozen=True, kw_only=True)
class MapCell:
    """One cell: an answer with what was asked for beside it, or a reason."""

    x: float
    y: float
    point: Result | None = None
    beside: Mapping[str, float | None] = field(default_factory=dict)
    reason: str = field(default=INTERRUPTED, repr=False)

    def value(self, name: str) -> Any:
        """A number of the answer; None where there is no answer, an empty word where the answer has no such number."""
        if name in ("x", "y"):
            return getattr(self, name)
        if self.point is None:
            return None
        return self.beside[name] if name in self.beside else getattr(self.point, name, "")

    @property
    def status(self) -> str:
        """How the work ended, in words."""
        return f"{FAILED}: {self.reason}" if self.point is None else self.point.status

    def __getattr__(self, name: str) -> Any:
        """A number of the answer by its name, ``cell.test_error``."""
        value = "" if name.startswith("_") else self.value(name)
        if isinstance(value, str) and not value:
            raise AttributeError(f"'MapCell' object has no attribute {name!r}")
        return value

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain values."""
        if self.point is None:
            return {"status": self.status, "kind": None}
        return {**self.point.to_dict(), **self.beside}


@dataclass(frozen=True, kw_only=True)
class Map(Grid[MapCell]):
    """Answers over two words, row by row of the second; ``of`` is the number that pictures and tables show, ``setting`` says what is
    the same in all cells.
    """

    x_name: str
    y_name: str
    x_values: tuple[float, ...]
    y_values: tuple[float, ...]
    of: str
    setting: str
    cells: tuple[MapCell, ...]

    @property
    def axes(self) -> dict[str, tuple[float, ...]]:
        """The two words with their values."""
        return {self.x_name: self.x_values, self.y_name: self.y_values}

    def _names(self, _: list[dict[str, Any]]) -> tuple[str, ...]:
        return tuple(dict.fromkeys([self.x_name, self.y_name, self.of, *self._SHOWN]))

    @property
    def failures(self) -> tuple[MapCell, ...]:
        """Cells without an answer."""
        return tuple(cell for cell in self.cells if cell.point is None)

    def grid(self, name: str) -> Array:
        """One quantity as an array, a row per value of the second word; not a number where a cell failed."""
        values = [math.nan if (value := cell.value(name)) is None else value for cell in self.cells]
        found = numbers_of(name, values, [cell.point for cell in self.cells if cell.point is not None])
        return found.reshape(len(self.y_values), len(self.x_values))

    def to_rows(self) -> list[dict[str, Any]]:
        """One dict per cell, the two words first."""
        return [
            {self.x_name: cell.x, self.y_name: cell.y} | cell.to_dict() | {self.x_name: cell.x, self.y_name: cell.y}
            for cell in self.cells
        ]

    def lines(self) -> dict[str, list[tuple[float, float]]]:
        """Where something changes, as points (x, y)."""
        return {}

    def regions(self) -> dict[str, NDArray[np.bool_]]:
        """Parts of the map that a reader should know of, cell by cell."""
        return {}

    def valley(self, name: str, along: str) -> tuple[float, ...]:
        """For every value of the other word, the value of ``along`` with the smallest number: by a parabola through three cells in the
        logarithm; not a number where the smallest is at an end.

        Examples
        --------
        >>> from onehead import aim
        >>> found = aim.map(
        ...     aim.Task(), aim.Learner(), x=("alpha", [0.5, 1.0]), y=("weight_decay", [0.01, 0.03, 0.09, 0.27])
        ... )
        >>> [round(decay, 3) for decay in found.valley("test_error", "weight_decay")]
        [0.042, 0.054]
        """
        table = self.grid(name)
        if along == self.x_name:
            values, rows = self.x_values, table
        elif along == self.y_name:
            values, rows = self.y_values, table.T
        else:
            raise InvalidArgument("along", along, f"{self.x_name} or {self.y_name}")
        order = np.argsort(values)
        place = np.log(np.array(values, dtype=float)[order])
        return tuple(float(np.exp(_bottom(place, row[order]))) for row in rows)


def _bottom(x: Array, y: Array) -> float:
    """Where a parabola through the smallest value and its neighbours is lowest."""
    if np.isnan(y).all():
        return math.nan
    i = int(np.nanargmin(y))
    if not 0 < i < len(y) - 1 or np.isnan(y[i - 1 : i + 2]).any():
        return math.nan
    curve, slope, _ = np.polyfit(x[i - 1 : i + 2] - x[i], y[i - 1 : i + 2], 2)
    return float(x[i] - 0.5 * slope / curve) if curve > 0.0 else float(x[i])


def an_axis(name: str, axis: Any) -> None:
    """A pair of a word and its values."""
    if not (isinstance(axis, tuple) and len(axis) == 2 and isinstance(axis[0], str)):
        raise InvalidArgument(name, axis, "a pair of a word and its values, such as ('alpha', [0.1, 1.0])")
    numbers()(name, axis[1])


def check_axes(x: Axis, y: Axis, words: Mapping[str, Word]) -> None:
    """Two different words that are numbers, with at least one value each."""
    known = [name for name, said in words.items() if said.kind in ("number", "integer")]
    for axis, (name, values) in (("x", x), ("y", y)):
        if name not in known:
            raise InvalidArgument(axis, name, " or ".join(known), known)
        if len(values) == 0:
            raise InvalidArgument(axis, [], "at least one value")
    if x[0] == y[0]:
        raise InvalidArgument("y", y[0], f"a word other than that of x, {x[0]}")


def floats(values: Sequence[float]) -> tuple[float, ...]:
    """Values of an axis."""
    return tuple(float(value) for value in values)


def setting_of(
    values: Mapping[str, Any], words: Mapping[str, Word], *, always: Sequence[str], moved: Sequence[str]
) -> str:
    """What is the same all over a map, in symbols: what is always said, and what is not as usual."""
    said = [
        name
        for name, value in values.items()
        if name in words
        and name not in moved
        and (name in always or value != words[name].default)
        and isinstance(value, (int, float, str))
    ]
    shown = {name: f"{value:g}" if isinstance(value, float) else f"{value}" for name, value in values.items()}
    symbols = {name: words[name].symbol.partition(" =")[0] for name in said}
    return ", ".join(f"{symbols[name]} = {shown[name]}" if symbols[name] else shown[name] for name in said)


Solved = Callable[[float, float, Result | None], tuple[Result, dict[str, float | None]]]


def mapped(
    x: Axis, y: Axis, solve: Solved, walk: Sequence[str], progress: Callable[[], None] | None
) -> tuple[MapCell, ...]:
    """Solve every cell, those along the first word of ``walk`` that is an axis in chains from the largest value down.

    A cell that cannot be solved keeps its reason; Ctrl-C leaves those that are not solved yet marked.
    """
    across, down = (list(map(float, axis[1])) for axis in (x, y))
    along = next((name for name in walk if name in (x[0], y[0])), None)
    columns = sorted(range(len(across)), key=lambda i: -across[i])
    rows = sorted(range(len(down)), key=lambda j: -down[j])
    if along == x[0]:
        chains = [[(j, i) for i in columns] for j in range(len(down))]
    elif along is not None:
        chains = [[(j, i) for j in rows] for i in range(len(across))]
    else:
        chains = [[(j, i)] for j in range(len(down)) for i in range(len(across))]

    def step(place: tuple[int, int], near: Result | None) -> tuple[MapCell, Result | None]:
        a, b = across[place[1]], down[place[0]]
        try:
            point, beside = solve(a, b, near)
        except SolveError as failure:
            return MapCell(x=a, y=b, reason=str(failure)), near
        return MapCell(x=a, y=b, point=point, beside=beside), point

    found = walk_chains(step, chains, progress)
    return tuple(
        found.get((j, i)) or MapCell(x=across[i], y=down[j]) for j in range(len(down)) for i in range(len(across))
    )
