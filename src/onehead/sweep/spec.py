"""What a sweep is: a call, fixed words, axes, seeds and repeats; from Python or from a TOML file."""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from onehead.errors import InvalidArgument
from onehead.sweep.axes import LIMIT, axis_values
from onehead.sweep.call import Call
from onehead.sweep.calls import call_named
from onehead.sweep.failures import BadSpec
from onehead.sweep.points import Point

__all__ = ["Spec", "read_spec"]

CHECKED = 20_000  # points that are all checked before a sweep begins; a few seconds
SECTIONS = {
    "call": 'a name such as "aim.predict"',
    "fixed": "a table of words",
    "grid": "a table of axes",
    "zip": "a table of axes of equal length",
    "seeds": f"an integer from 1 to {LIMIT} or a list of integers >= 0",
    "repeats": "an integer >= 1",
    "run": "a table",
    "slurm": "a table",
}
MOST = 1_000_000_000  # points of a sweep
RUN = {"on": str, "workers": int, "chunk": int, "address": str}
SLURM = {"partition": str, "time": str, "cores": int, "memory": str, "jobs": int}


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
    told: Callable[[InvalidArgument], InvalidArgument] = lambda failure: failure

    def __post_init__(self) -> None:
        call = self.solver
        if not call.seeded and (self.seeds is not None or self.repeats != 1):
            name = "seeds" if self.seeds is not None else "repeats"
            raise InvalidArgument(name, getattr(self, name), f"left out: {self.call} draws nothing at random")
        _at_least_one("repeats", self.repeats)
        object.__setattr__(self, "_roots", _roots(self.seeds))
        object.__setattr__(self, "_axes", self._read_axes(call))
        if self._total > MOST:
            raise InvalidArgument("grid", self._total, f"at most {MOST:,} points")

    def _read_axes(self, call: Call) -> list[list[dict[str, Any]]]:
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
                found.append([dict(zip(names, values, strict=True)) for values in rows])
            else:
                found.append([{name: value} for value in axis_values(name, given, whole=name in call.whole)])
        return found

    @property
    def solver(self) -> Call:
        """The call itself."""
        return call_named(self.call, own=self.own)

    def __len__(self) -> int:
        return self._total

    @property
    def _total(self) -> int:
        axes, roots = self._axes, self._roots  # type: ignore[attr-defined]
        return prod(len(axis) for axis in axes) * len(roots) * self.repeats

    def points(self) -> Iterator[Point]:
        """Every point in order, checked, the last axis varying fastest, then the seeds, then the repeats."""
        call = self.solver
        roots: list[int] = self._roots  # type: ignore[attr-defined]
        for moves in product(*self._axes):  # type: ignore[attr-defined]
            try:
                ready = call.ready(self._words(moves))
            except InvalidArgument as failure:
                raise self.told(failure) from None
            for root in roots:
                for repeat in range(self.repeats):
                    seed = root if call.seeded else None
                    yield Point(call.key(ready, seed, repeat), ready.parameters, seed, repeat)

    def check(self) -> None:
        """Check every point before anything is done; of a very large sweep every value of every axis.

        The combinations of a very large sweep are checked when its points are registered, all or none.
        """
        axes: list[list[dict[str, Any]]] = self._axes  # type: ignore[attr-defined]
        if len(self) <= CHECKED:
            for _ in self.points():
                pass
            return
        first = [axis[0] for axis in axes]
        for number, axis in enumerate(axes):
            for move in axis:
                self.solver.ready(self._words([*first[:number], move, *first[number + 1 :]]))

    def _words(self, moves: Iterable[dict[str, Any]]) -> dict[str, Any]:
        words = dict(self.fixed)
        for move in moves:
            words.update(move)
        return words


def _roots(seeds: Any) -> list[int]:
    """Seeds as a list; nothing stands for one seed, 0."""
    if seeds is None:
        return [0]
    if isinstance(seeds, (int, np.integer)) and not isinstance(seeds, bool):
        if not 1 <= int(seeds) <= LIMIT:
            raise InvalidArgument("seeds", seeds, SECTIONS["seeds"])
        return list(range(int(seeds)))
    roots = axis_values("seeds", seeds, whole=True)
    if any(isinstance(root, bool) or not isinstance(root, int) or root < 0 for root in roots):
        raise InvalidArgument("seeds", seeds, SECTIONS["seeds"])
    return roots


def _at_least_one(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidArgument(name, value, "an integer >= 1")
    return value


def read_spec(path: str) -> Spec:
    """Read a sweep from a TOML file and check every point of it; a mistake is told with its line."""
    file = Path(path)
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as failure:
        reason = failure.strerror if isinstance(failure, OSError) else "it is not text"
        raise InvalidArgument("spec", path, f"a sweep file that can be read ({reason})") from None
    return parse_spec(text, str(path))


def parse_spec(text: str, name: str = "spec") -> Spec:
    """Read a sweep from TOML text."""
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as failure:
        raise _syntax(name, text, str(failure)) from None
    except (RecursionError, ValueError):
        raise BadSpec(name, 1, "it is nested too deeply, or holds a number with thousands of digits.") from None
    lines = text.splitlines()

    def wrong(sentence: str, *keys: str) -> BadSpec:
        return BadSpec(name, _line(lines, *keys), sentence)

    def told(failure: InvalidArgument) -> InvalidArgument:
        return failure if isinstance(failure, BadSpec) else wrong(str(failure), *_where(failure, tree))

    for key in tree:
        if key not in SECTIONS:
            raise wrong(f"{key!r} is not known; allowed: {', '.join(SECTIONS)}.", key)
    for key in ("fixed", "grid", "zip", "run", "slurm"):
        if not isinstance(tree.get(key, {}), dict):
            raise wrong(f"{key} must be {SECTIONS[key]}; got {tree[key]!r}.", key)
    for section, kinds in (("run", RUN), ("slurm", SLURM)):
        for key, value in tree.get(section, {}).items():
            if key not in kinds:
                raise wrong(f"{key!r} is not known in [{section}]; allowed: {', '.join(kinds)}.", section, key)
            if not isinstance(value, kinds[key]) or isinstance(value, bool):
                raise wrong(f"{key} must be {_kind(kinds[key])}; got {value!r}.", section, key)
    if not isinstance(tree.get("call"), str):
        raise wrong(f"call must be {SECTIONS['call']}; got {tree.get('call')!r}.", "call")
    try:
        call = call_named(tree["call"])
        axes: dict[Any, Any] = {**_together(tree, call)}
        for axis, given in tree.get("grid", {}).items():
            axes[axis] = axis_values(axis, given, whole=axis in call.whole)
        spec = Spec(
            call=tree["call"],
            axes=axes,
            fixed=tree.get("fixed", {}),
            seeds=tree.get("seeds"),
            repeats=tree.get("repeats", 1),
            run=tree.get("run", {}),
            slurm=tree.get("slurm", {}),
            told=told,
        )
        spec.check()
    except InvalidArgument as failure:
        raise told(failure) from None
    return spec


def _kind(kind: type) -> str:
    return "an integer" if kind is int else "a word in quotes"


def _together(tree: dict[str, Any], call: Call) -> dict[tuple[str, ...], Any]:
    """The axes that move together, as one axis."""
    zipped = tree.get("zip", {})
    if not zipped:
        return {}
    columns = {name: axis_values(name, given, whole=name in call.whole) for name, given in zipped.items()}
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} has {count}" for name, count in lengths.items())
        raise InvalidArgument("zip", told, "axes of equal length")
    return {tuple(columns): list(zip(*columns.values(), strict=True))}


def _where(failure: InvalidArgument, tree: dict[str, Any]) -> tuple[str, ...]:
    """The keys under which the value that was refused stands."""
    for word in (failure.name, str(failure.got)):
        for section in ("grid", "zip", "fixed"):
            if word in tree.get(section, {}):
                return section, word
        if word in tree:
            return (word,)
    return ("call",)


def _line(lines: list[str], *keys: str) -> int:
    """The line on which a key stands, or the one of its section, or the first."""
    section, here = (keys[0], keys[1]) if len(keys) == 2 else ("", keys[0])
    inside, header = "", 1
    for number, line in enumerate(lines, 1):
        if found := re.match(r"\s*\[\s*([\w.-]+)\s*\]", line):
            inside = found[1]
            if inside in keys:
                header = number
                if len(keys) == 1:
                    return number
            continue
        if inside == section and re.match(rf"\s*[\"']?{re.escape(here)}[\"']?\s*[=.]", line):
            return number
        if (
            not inside
            and section
            and re.match(rf"\s*{re.escape(section)}\s*(\.\s*{re.escape(here)}\b|=.*\b{re.escape(here)}\b)", line)
        ):
            return number
    return header


def _syntax(name: str, text: str, message: str) -> BadSpec:
    """A mistake against TOML itself; the parser knows the line."""
    found = re.search(r"\(at line (\d+), column \d+\)", message)
    line = int(found[1]) if found else max(1, len(text.splitlines()))
    return BadSpec(name, line, f"{re.sub(r' ?[(]at [^)]*[)]', '', message).rstrip('.')}.")
