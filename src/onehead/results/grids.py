"""Maps: results over a grid of any two parameters, common to both theories."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onehead.errors import InvalidArgument, SolveError
from onehead.fields import Parameter
from onehead.numerics.parallel import map_chains
from onehead.numerics.progress import Progress
from onehead.results import FAILED, INTERRUPTED, Grid, Result
from onehead.validation import numbers

Array = NDArray[np.float64]
Axis = tuple[str, Sequence[float]]


@dataclass(frozen=True, kw_only=True)
class MapCell:
    """One cell of a map: a result, or the reason why there is none.

    ``beside`` holds further numbers that were asked for, such as the best weight decay at this cell.
    """

    x: float
    y: float
    point: Result | None = None
    beside: Mapping[str, float | None] = field(default_factory=dict)
    reason: str = field(default=INTERRUPTED, repr=False)

    def value(self, name: str) -> Any:
        """Return one number of the cell; None if the cell failed, an empty string if its result has no such number."""
        if name in ("x", "y"):
            return getattr(self, name)
        if self.point is None:
            return None
        return self.beside[name] if name in self.beside else getattr(self.point, name, "")

    @property
    def status(self) -> str:
        """How the computation ended, in words."""
        return f"{FAILED}: {self.reason}" if self.point is None else self.point.status

    @property
    def cautions(self) -> tuple[str, ...]:
        """Sentences to read before using the numbers of the cell."""
        return () if self.point is None else self.point.cautions

    def __getattr__(self, name: str) -> Any:
        """Return one number of the result, such as ``cell.test_error``."""
        value = "" if name.startswith("_") else self.value(name)
        if isinstance(value, str) and not value:
            raise AttributeError(f"'MapCell' object has no attribute {name!r}")
        return value

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values."""
        if self.point is None:
            return {"status": self.status, "kind": None}
        return {**self.point.to_dict(), **self.beside}


@dataclass(frozen=True, kw_only=True)
class Map(Grid[MapCell]):
    """Results over a grid of two parameters, row by row of the second one.

    ``of`` is the number that figures and tables show, ``setting`` describes the parameters that are the same in all
    cells.
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
        """Names of the two parameters with their values."""
        return {self.x_name: self.x_values, self.y_name: self.y_values}

    def _names(self, _: list[dict[str, Any]]) -> tuple[str, ...]:
        return tuple(dict.fromkeys([self.x_name, self.y_name, self.of, *self._SUMMARY_FIELDS]))

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one dict per cell, the two parameters first."""
        return [
            {self.x_name: cell.x, self.y_name: cell.y} | cell.to_dict() | {self.x_name: cell.x, self.y_name: cell.y}
            for cell in self.cells
        ]

    def lines(self) -> dict[str, list[tuple[float, float]]]:
        """Return lines to draw into the map by their labels, such as thresholds, as points (x, y)."""
        return {}

    def regions(self) -> dict[str, NDArray[np.bool_]]:
        """Return masks of cells by their labels, such as regions where the theory is a conjecture."""
        return {}

    def valley(self, name: str, along: str) -> tuple[float, ...]:
        """Return the value of ``along`` with the smallest number ``name``, for every value of the other parameter.

        The minimum is that of a parabola in log ``along`` through the smallest cell and its two neighbours; nan where
        the smallest cell lies at an end.

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
        with np.errstate(divide="ignore", invalid="ignore"):  # zero, such as the weight decay 0+, has no logarithm
            logs = np.log(np.array(values, dtype=float)[order])
        return tuple(float(np.exp(_parabola_minimum(logs, row[order]))) for row in rows)


def _parabola_minimum(x: Array, y: Array) -> float:
    """Return the minimum of the parabola through the smallest value and its two neighbours; nan without both."""
    if np.isnan(y).all():
        return math.nan
    i = int(np.nanargmin(y))
    if not 0 < i < len(y) - 1 or not (np.isfinite(x[i - 1 : i + 2]).all() and np.isfinite(y[i - 1 : i + 2]).all()):
        return math.nan
    curvature, slope, _ = np.polyfit(x[i - 1 : i + 2] - x[i], y[i - 1 : i + 2], 2)
    return float(x[i] - 0.5 * slope / curvature) if curvature > 0.0 else float(x[i])


def check_axis(name: str, axis: Any) -> None:
    """Check that an axis is a pair of a parameter and its values."""
    if not (isinstance(axis, tuple) and len(axis) == 2 and isinstance(axis[0], str)):
        raise InvalidArgument(name, axis, "a pair of a parameter and its values, such as ('alpha', [0.1, 1.0])")
    numbers()(name, axis[1])


def check_axes(x: Axis, y: Axis, parameters: Mapping[str, Parameter]) -> None:
    """Check that two axes are different numeric parameters with at least one value each."""
    known = [name for name, parameter in parameters.items() if parameter.kind in ("number", "integer")]
    for axis, (name, values) in (("x", x), ("y", y)):
        if name not in known:
            raise InvalidArgument(axis, name, " or ".join(known), known)
        if len(values) == 0:
            raise InvalidArgument(axis, [], "at least one value")
    if x[0] == y[0]:
        raise InvalidArgument("y", y[0], f"a parameter other than that of x ({x[0]})")


def axis_values(values: Sequence[float]) -> tuple[float, ...]:
    """Return the values of an axis as floats."""
    return tuple(float(value) for value in values)


def describe_setting(
    values: Mapping[str, Any], parameters: Mapping[str, Parameter], *, always: Sequence[str], moved: Sequence[str]
) -> str:
    """List the parameters that are the same in all cells, by their symbols.

    Listed are those in ``always`` and those not at their default; parameters in ``moved`` vary over the map and are
    left out.
    """
    fixed = [
        name
        for name, value in values.items()
        if name in parameters
        and name not in moved
        and (name in always or value != parameters[name].default)
        and isinstance(value, (int, float, str))
    ]
    texts = {name: f"{value:g}" if isinstance(value, float) else f"{value}" for name, value in values.items()}
    symbols = {name: parameters[name].symbol.partition(" =")[0] for name in fixed}
    return ", ".join(f"{symbols[name]} = {texts[name]}" if symbols[name] else texts[name] for name in fixed)


SolveCell = Callable[[float, float, Result | None], tuple[Result, dict[str, float | None]]]


def solve_grid(x: Axis, y: Axis, solve: SolveCell, continued: Sequence[str], progress: Progress) -> tuple[MapCell, ...]:
    """Solve every cell of a map, starting each from a neighbour where that helps.

    Along the first parameter of ``continued`` that is an axis, cells are solved from the largest value down, each
    starting from the solution before it. A cell that cannot be solved keeps the reason; after Ctrl-C the remaining
    cells are marked as interrupted.
    """
    x_values, y_values = (list(map(float, axis[1])) for axis in (x, y))
    along = next((name for name in continued if name in (x[0], y[0])), None)
    x_order = sorted(range(len(x_values)), key=lambda i: -x_values[i])
    y_order = sorted(range(len(y_values)), key=lambda j: -y_values[j])
    if along == x[0]:
        chains = [[(j, i) for i in x_order] for j in range(len(y_values))]
    elif along is not None:
        chains = [[(j, i) for j in y_order] for i in range(len(x_values))]
    else:
        chains = [[(j, i)] for j in range(len(y_values)) for i in range(len(x_values))]

    def step(index: tuple[int, int], near: Result | None) -> tuple[MapCell, Result | None]:
        a, b = x_values[index[1]], y_values[index[0]]
        try:
            point, beside = solve(a, b, near)
        except SolveError as failure:
            return MapCell(x=a, y=b, reason=str(failure)), near
        return MapCell(x=a, y=b, point=point, beside=beside), point

    cells = map_chains(step, chains, progress, title="cells")
    return tuple(
        cells.get((j, i)) or MapCell(x=x_values[i], y=y_values[j])
        for j in range(len(y_values))
        for i in range(len(x_values))
    )
