"""A call of a sweep: from flat parameters to a checked problem, and from its result to one flat row and its arrays."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onehead.deprecation import warn_renamed
from onehead.errors import InvalidArgument
from onehead.fields import Parameter, parameters_of
from onehead.problem import Problem
from onehead.results import Result
from onehead.sweep.storage.keys import key_of

NAMES_IN_KEYS = {"averaged_heads": "heads"}  # names of version 2, so that points that it stored are still found
MAX_LIST_IN_ROW = 32  # a longer list of numbers is kept as an array beside the row
PROBLEM_FIELDS = (
    "task",
    "learner",
    "protocol",
    "point",
)  # repeat the parameters of the row, and are left out of the results


@dataclass(frozen=True, kw_only=True)
class PointResult:
    """Result of one point: numbers and text for its row, arrays for the folder beside the store."""

    row: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


# takes the task, its learner or protocol, the settings of the call, and the seed (None if nothing is random)
Solver = Callable[[Any, Any, Any, Any], PointResult]


@dataclass(frozen=True, kw_only=True)
class PreparedCall:
    """A checked problem that is ready to be solved.

    Parameters
    ----------
    parameters : dict
        All parameters as validated, defaults included.
    solve : callable
        Solves the problem for a given seed.
    omitted_from_key : frozenset of str
        Parameters that do not enter the key (see `omitted_from_key`).
    """

    parameters: dict[str, Any]
    solve: Callable[[int], PointResult]
    omitted_from_key: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Call:
    """A function of the library that a sweep can call.

    Parameters
    ----------
    name : str
        For example "aim.predict".
    parameters : mapping or None
        Declarations of the allowed parameters; None allows any name.
    seeded : bool
        Whether the call uses random numbers.
    build : callable
        Makes a `PreparedCall` from a dict of parameters.
    given : tuple of str
        Parameters whose names are also results; their columns are called ``given_...``.
    growth : int
        Power of the dimension with which the time of a point grows; 0 if it does not, or if the power is unknown.
    """

    name: str
    parameters: Mapping[str, Parameter] | None
    seeded: bool
    build: Callable[[dict[str, Any]], PreparedCall]
    given: tuple[str, ...] = ()
    growth: int = 0

    @property
    def words(self) -> Mapping[str, Parameter] | None:
        """Deprecated name of `parameters`."""
        warn_renamed("Call.words", "Call.parameters")
        return self.parameters

    def is_integer(self, name: str) -> bool:
        """Whether a parameter of this call takes integers only."""
        return self.parameters is not None and name in self.parameters and self.parameters[name].kind == "integer"

    def prepare(self, values: Mapping[str, Any]) -> PreparedCall:
        """Check names and values of the parameters, and build the problem."""
        return self.build({name: self._read(name, value) for name, value in values.items()})

    def _read(self, name: str, value: Any) -> Any:
        """Value in the form its declaration takes; a list of numbers may be written as text, such as "6,3,1.8"."""
        if self.parameters is None:
            return value
        if name not in self.parameters:
            known = sorted(self.parameters)
            raise InvalidArgument(f"parameter of {self.name}", name, f"one of {', '.join(known)}", known)
        declared = self.parameters[name]
        if declared.choices and not isinstance(value, (str, Problem)):
            hint = "; an object of your own is swept by a function, call='module:function'"
            raise InvalidArgument(name, value, f"{' or '.join(declared.choices)} in a sweep{hint}")
        return value.split(",") if declared.kind == "numbers" and isinstance(value, str) else value

    def key(self, prepared: PreparedCall, seed: int | None, repeat: int = 0) -> str:
        """Key under which the result of a prepared problem is stored."""
        omitted = prepared.omitted_from_key
        hashed = {name: value for name, value in prepared.parameters.items() if name not in omitted}
        for name, older in NAMES_IN_KEYS.items():
            if name in prepared.parameters and older not in hashed:
                hashed[older] = prepared.parameters[name]
                hashed.pop(name, None)
        return key_of(self.name, hashed, seed, repeat)

    def columns(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Parameters under the column names they have in a row."""
        return {f"given_{name}" if name in self.given else name: value for name, value in parameters.items()}


def point_result(result: Result, **arrays: NDArray[Any]) -> PointResult:
    """Row and arrays of a result; lists of more than 32 numbers become arrays."""
    row: dict[str, Any] = {}
    long = {name: np.asarray(value) for name, value in arrays.items()}
    for name, value in result.to_dict().items():
        if name in PROBLEM_FIELDS:
            continue
        if name == "warnings":
            row[name] = "; ".join(value)
        elif isinstance(value, list) and len(value) > MAX_LIST_IN_ROW:
            long[name] = np.array(value, dtype=float)
        else:
            row[name] = value
    return PointResult(row=row, arrays=long)


def verb_solver(package: ModuleType, name: str) -> Solver:
    """Solver that calls the function of ``package`` with the name of the call, its settings being the arguments."""

    def solve(task: Any, other: Any, settings: Problem, seed: int | None) -> PointResult:
        arguments = {field: getattr(settings, field) for field in type(settings).model_fields}
        if seed is not None:
            arguments["seed"] = seed
        return point_result(getattr(package, name.partition(".")[2])(task, other, **arguments))

    return solve


def omitted_from_key(*problems: Problem) -> frozenset[str]:
    """Parameters that do not enter the key: added after version 1.1 (``since``) and at their default.

    Points stored before such a parameter existed therefore keep their keys.
    """
    return frozenset(
        flat
        for problem in problems
        for name, flat, default in _added_later(type(problem))
        if getattr(problem, name) == default
    )


@cache
def _added_later(problem: type[Problem]) -> tuple[tuple[str, str, Any], ...]:
    """Name, flat name and default of every parameter that is declared with ``since``."""
    parameters = parameters_of(problem)
    return tuple((name, declared.flat, declared.default) for name, declared in parameters.items() if declared.since)
