"""Definition of a sweep: a call, fixed parameters, axes, seeds and repeats, and the points they make."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

import numpy as np

from onehead.deprecation import warn_renamed
from onehead.errors import InvalidArgument
from onehead.sweep.axes import MAX_AXIS_VALUES, axis_values
from onehead.sweep.registry import call_named
from onehead.sweep.registry.base import Call
from onehead.sweep.storage.keys import Point

MAX_POINTS_CHECKED_FIRST = (
    20_000  # sweeps up to this size are checked point by point before they begin, in a few seconds
)
MAX_SEED = 2**63 - 1  # largest integer of SQLite
SEEDS_ALLOWED = f"an integer from 1 to {MAX_AXIS_VALUES} or a list of integers from 0 to 2^63 - 1"
REPEATS_ALLOWED = "an integer >= 1"
DEFAULT_POINT_LIMIT = 1_000_000
MAX_POINT_LIMIT = 1_000_000_000  # a store of this size takes about 500 GB


@dataclass(frozen=True, kw_only=True)
class Spec:
    """A sweep: every combination of the axes, times the seeds, times the repeats.

    Parameters
    ----------
    call : str
        What to solve at every point, for example "aim.predict".
    axes : mapping
        From the name of a parameter to its values: a list, one value, or a range such as "0.05:2:46". A tuple of names
        with a list of tuples varies several parameters together.
    fixed : mapping
        Parameters that do not change.
    seeds : int or list of int, optional
        Seeds of the random numbers; an integer n stands for 0 .. n-1. Only for calls that use random numbers.
    repeats : int
        How often each seed is repeated with fresh random numbers.
    run, slurm : mapping
        Settings of the executor, as given in the ``[run]`` and ``[slurm]`` sections of a sweep file.
    own : bool
        Whether to allow ``module:function`` as a call. A sweep file never may.
    limit : int
        Largest number of points; a larger sweep is refused.
    locate_error : callable, optional
        Replaces the error of a refused value by one that also says where the value was written, for example the
        line of a sweep file.
    told : callable, optional
        Deprecated name of ``locate_error``.

    Raises
    ------
    InvalidArgument
        If the call is unknown, seeds are given for a call without random numbers, or there are more points than
        ``limit``. Values of parameters are checked by `check`, or when the points are made.

    Examples
    --------
    >>> spec = Spec(call="aim.predict", axes={"alpha": "0.1:1:10", "noise": [0.0, 0.5]}, fixed={"weight_decay": 0.01})
    >>> len(spec), next(spec.points()).parameters["noise"]
    (20, 0.0)
    """

    call: str
    axes: Mapping[str | tuple[str, ...], Any]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    seeds: Any = None
    repeats: int = 1
    run: Mapping[str, Any] = field(default_factory=dict)
    slurm: Mapping[str, Any] = field(default_factory=dict)
    own: bool = False
    limit: int = DEFAULT_POINT_LIMIT
    locate_error: Callable[[InvalidArgument], InvalidArgument] = lambda error: error
    told: InitVar[Callable[[InvalidArgument], InvalidArgument] | None] = None

    def __post_init__(self, told: Callable[[InvalidArgument], InvalidArgument] | None) -> None:
        if told is not None:
            warn_renamed("told of Spec", "locate_error")
            object.__setattr__(self, "locate_error", told)
        for name in ("axes", "fixed"):
            if not isinstance(getattr(self, name), Mapping):
                raise InvalidArgument(name, getattr(self, name), "a mapping from names of parameters to values")
        if not self.solver.seeded and (self.seeds is not None or self.repeats != 1):
            name = "seeds" if self.seeds is not None else "repeats"
            raise InvalidArgument(name, getattr(self, name), f"left out: {self.call} uses no random numbers")
        if isinstance(self.repeats, bool) or not isinstance(self.repeats, int) or self.repeats < 1:
            raise InvalidArgument("repeats", self.repeats, REPEATS_ALLOWED)
        if not isinstance(self.limit, int) or isinstance(self.limit, bool) or not 1 <= self.limit <= MAX_POINT_LIMIT:
            raise InvalidArgument("limit", self.limit, f"an integer from 1 to {MAX_POINT_LIMIT}")
        if self._total > self.limit:
            allowed = (
                f"a sweep of at most {self.limit} points; raise its limit (--limit, or limit in [run]) to solve more"
            )
            raise InvalidArgument("grid", self._total, allowed)

    @property
    def solver(self) -> Call:
        """The registered call that solves each point."""
        return call_named(self.call, own=self.own)

    @cached_property
    def _axis_settings(self) -> list[list[dict[str, Any]]]:
        """For every axis, the parameters that each of its values sets."""
        settings, names_used = [], set(self.fixed)
        for axis, given in self.axes.items():
            names = axis if isinstance(axis, tuple) else (axis,)
            for name in names:
                if name in names_used:
                    raise InvalidArgument("axes", name, "parameters that are not set twice")
                names_used.add(name)
            if isinstance(axis, tuple):
                rows = [tuple(values) for values in _list_of_lists(axis, given)]
                if not rows or any(len(values) != len(names) for values in rows):
                    raise InvalidArgument("axes", axis, f"given {len(names)} values each")
            else:
                rows = [(value,) for value in axis_values(axis, given, integer=self.solver.is_integer(axis))]
            _require_distinct(" and ".join(names), rows)
            settings.append([dict(zip(names, values, strict=True)) for values in rows])
        return settings

    @cached_property
    def _seeds(self) -> list[int]:
        """Seeds as a list; [0] if none are given."""
        seeds = self.seeds
        if seeds is None:
            return [0]
        if isinstance(seeds, (int, np.integer)) and not isinstance(seeds, bool):
            if not 1 <= int(seeds) <= MAX_AXIS_VALUES:
                raise InvalidArgument("seeds", seeds, SEEDS_ALLOWED)
            return list(range(int(seeds)))
        values = axis_values("seeds", seeds, integer=True)
        if any(isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= MAX_SEED for seed in values):
            raise InvalidArgument("seeds", seeds, SEEDS_ALLOWED)
        return values

    def __len__(self) -> int:
        return self._total

    @cached_property
    def _total(self) -> int:
        return len(self._seeds) * prod(len(axis) for axis in self._axis_settings) * self.repeats

    def points(self) -> Iterator[Point]:
        """Iterate over all points: the repeats vary fastest, then the seeds, then the last axis.

        Every point is checked when it is made; those of a sweep of up to 20,000 points are made once and kept.
        """
        return iter(self._all_points) if len(self) <= MAX_POINTS_CHECKED_FIRST else self._generate_points()

    @cached_property
    def _all_points(self) -> list[Point]:
        return list(self._generate_points())

    def _generate_points(self) -> Iterator[Point]:
        call = self.solver
        for combination in product(*self._axis_settings):
            try:
                prepared = call.prepare(self._parameters(combination))
            except InvalidArgument as error:
                raise self.locate_error(error) from None
            for root in self._seeds:
                for repeat in range(self.repeats):
                    seed = root if call.seeded else None
                    yield Point(call.key(prepared, seed, repeat), prepared.parameters, seed, repeat)

    def check(self) -> None:
        """Check the parameters before anything is solved.

        Up to 20,000 points all of them are checked. In a larger sweep values of each axis are checked with the
        first value of the other axes; every point is checked later, when the store registers all of them or none.
        """
        if len(self) <= MAX_POINTS_CHECKED_FIRST:
            _ = self._all_points
            return
        first = [axis[0] for axis in self._axis_settings]
        for number, axis in enumerate(self._axis_settings):
            for setting in axis[:: -(-len(axis) // MAX_POINTS_CHECKED_FIRST)]:
                self.solver.prepare(self._parameters([*first[:number], setting, *first[number + 1 :]]))

    def _parameters(self, combination: Iterable[dict[str, Any]]) -> dict[str, Any]:
        """Fixed parameters together with those that one value of every axis sets."""
        parameters = dict(self.fixed)
        for setting in combination:
            parameters.update(setting)
        return parameters


def _list_of_lists(axis: tuple[str, ...], given: Any) -> list[Any]:
    """Values of an axis of several parameters, which are a list of lists."""
    given = given.tolist() if isinstance(given, np.ndarray) else given
    if not isinstance(given, (list, tuple)) or not all(isinstance(values, (list, tuple)) for values in given):
        raise InvalidArgument("axes", axis, "given a list with one list of values for each point")
    return list(given)


def _require_distinct(name: str, rows: list[tuple[Any, ...]]) -> None:
    """Refuse equal values on one axis: they would be one point, and the table would have fewer rows than asked for."""
    numeric = all(isinstance(value, (int, float)) for row in rows for value in row)
    if numeric and len(set(rows)) == len(rows):  # linear in the number of values, but needs hashable ones
        return
    earlier: list[Any] = []
    for row in rows:
        if row in earlier:
            got = row if len(row) > 1 else row[0]
            raise InvalidArgument(name, got, "different values; seeds and repeats solve a point more than once")
        earlier.append(row)
