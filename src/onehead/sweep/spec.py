"""What a sweep is: a call, fixed words, axes, seeds and repeats, and every point they make."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

import numpy as np

from onehead.errors import InvalidArgument
from onehead.sweep.axes import LIMIT, axis_values
from onehead.sweep.calls import call_named
from onehead.sweep.calls.base import Call
from onehead.sweep.keys import Point

__all__ = ["MOST", "POINTS", "REPEATS", "SEEDS", "Spec"]

CHECKED = 20_000  # points that are all checked before a sweep begins; a few seconds
LARGEST_SEED = 2**63 - 1  # that a store can hold
SEEDS = f"an integer from 1 to {LIMIT} or a list of integers from 0 to 2^63 - 1"
REPEATS = "an integer >= 1"
POINTS = 1_000_000  # of a sweep, unless its limit is raised
MOST = 1_000_000_000  # to which it may be raised; a store of so many has about 500 GB


@dataclass(frozen=True, kw_only=True)
class Spec:
    """A sweep: every combination of the axes, times the seeds, times the repeats.

    Parameters
    ----------
    call : str
        What to solve at every point, for example "aim.predict".
    axes : mapping
        Name of a word, and its values: a list, one value, or a range such as "0.05:2:46". A tuple of names with a list
        of tuples moves several words together.
    fixed : mapping
        Words that do not change.
    seeds : int or list of int, optional
        Roots of the random numbers; an integer n stands for 0 .. n-1. Only for calls that draw at random.
    repeats : int
        How often each seed is repeated with fresh random numbers.
    run, slurm : mapping
        Settings of the executor that a file may bring along.
    own : bool
        Allow ``module:function`` as a call. A file never may.
    limit : int
        Points that it may have; more are refused.
    told : callable, optional
        Says where a value that is refused stands.

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
    limit: int = POINTS
    told: Callable[[InvalidArgument], InvalidArgument] = lambda failure: failure

    def __post_init__(self) -> None:
        if not self.solver.seeded and (self.seeds is not None or self.repeats != 1):
            name = "seeds" if self.seeds is not None else "repeats"
            raise InvalidArgument(name, getattr(self, name), f"left out: {self.call} draws nothing at random")
        if isinstance(self.repeats, bool) or not isinstance(self.repeats, int) or self.repeats < 1:
            raise InvalidArgument("repeats", self.repeats, REPEATS)
        if not isinstance(self.limit, int) or isinstance(self.limit, bool) or not 1 <= self.limit <= MOST:
            raise InvalidArgument("limit", self.limit, f"an integer from 1 to {MOST}")
        if self._total > self.limit:
            allowed = (
                f"a sweep of at most {self.limit} points; raise its limit (--limit, or limit in [run]) to solve more"
            )
            raise InvalidArgument("grid", self._total, allowed)

    @cached_property
    def _moves(self) -> list[list[dict[str, Any]]]:
        """For every axis the words it sets, value by value."""
        found, seen = [], set(self.fixed)
        for name, given in self.axes.items():
            names = name if isinstance(name, tuple) else (name,)
            for word in names:
                if word in seen:
                    raise InvalidArgument("axes", word, "words that are not set twice")
                seen.add(word)
            if isinstance(name, tuple):
                rows = [tuple(values) for values in given]
                if not rows or any(len(values) != len(names) for values in rows):
                    raise InvalidArgument("axes", name, f"given {len(names)} values each")
                found.append([dict(zip(names, values, strict=True)) for values in _once(" and ".join(names), rows)])
            else:
                found.append(
                    [{name: value} for value in _once(name, axis_values(name, given, whole=self.solver.whole(name)))]
                )
        return found

    @property
    def solver(self) -> Call:
        """The call itself."""
        return call_named(self.call, own=self.own)

    @cached_property
    def _roots(self) -> list[int]:
        """Seeds as a list; nothing stands for one seed, 0."""
        seeds = self.seeds
        if seeds is None:
            return [0]
        if isinstance(seeds, (int, np.integer)) and not isinstance(seeds, bool):
            if not 1 <= int(seeds) <= LIMIT:
                raise InvalidArgument("seeds", seeds, SEEDS)
            return list(range(int(seeds)))
        roots = axis_values("seeds", seeds, whole=True)
        if any(isinstance(root, bool) or not isinstance(root, int) or not 0 <= root <= LARGEST_SEED for root in roots):
            raise InvalidArgument("seeds", seeds, SEEDS)
        return roots

    def __len__(self) -> int:
        return self._total

    @cached_property
    def _total(self) -> int:
        return len(self._roots) * prod(len(axis) for axis in self._moves) * self.repeats

    def points(self) -> Iterator[Point]:
        """Every point in order, the last axis varying fastest, then the seeds, then the repeats; each is checked once."""
        return iter(self._few) if len(self) <= CHECKED else self._made()

    @cached_property
    def _few(self) -> list[Point]:
        return list(self._made())

    def _made(self) -> Iterator[Point]:
        call = self.solver
        for moves in product(*self._moves):
            try:
                ready = call.ready(self._words(moves))
            except InvalidArgument as failure:
                raise self.told(failure) from None
            for root in self._roots:
                for repeat in range(self.repeats):
                    seed = root if call.seeded else None
                    yield Point(call.key(ready, seed, repeat), ready.parameters, seed, repeat)

    def check(self) -> None:
        """Check every point before anything is done; of a very large sweep values of every axis, spread over all of it.

        The points of a very large sweep are checked when they are registered, all or none.
        """
        if len(self) <= CHECKED:
            _ = self._few
            return
        first = [axis[0] for axis in self._moves]
        for number, axis in enumerate(self._moves):
            for move in axis[:: -(-len(axis) // CHECKED)]:
                self.solver.ready(self._words([*first[:number], move, *first[number + 1 :]]))

    def _words(self, moves: Iterable[dict[str, Any]]) -> dict[str, Any]:
        words = dict(self.fixed)
        for move in moves:
            words.update(move)
        return words


def _once(name: str, values: list[Any]) -> list[Any]:
    """Values of an axis, which would be one point if two were equal."""
    plain = all(isinstance(value, (int, float)) for value in values)
    if plain and len(set(values)) == len(values):  # quick, where there are many
        return values
    seen: list[Any] = []
    for value in values:
        if value in seen:
            raise InvalidArgument(name, value, "different values; seeds and repeats solve a point more than once")
        seen.append(value)
    return values
