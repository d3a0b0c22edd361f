"""What a page without a server knows: answers recorded over a grid of knobs, and at the places of presets and tours."""

import gzip
import hashlib
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onehead import __version__, aim
from onehead.app.answers import drawn, told_numbers
from onehead.app.knobs import KNOBS, Value
from onehead.app.presets import PRESETS
from onehead.app.state import State, read_state
from onehead.app.tours import TOURS, Step
from onehead.app.views import VIEWS
from onehead.app.views.base import Picture, failed, refused
from onehead.errors import OneheadError
from onehead.files import write_whole
from onehead.numerics.interrupts import check, entire, heard
from onehead.results import plain
from onehead.sweep.version import NUMERICAL

__all__ = ["GRID", "Grid", "Place", "Recording", "places", "record", "run_of"]

OFF = "Between its solved points a line is at most {:.2%} off, looked at where it bends most."
CHECKED = 3  # gaps of a curve that are looked into: those where it bends most
RUN = 7  # stops of a knob that a tour runs along, unless it is that of the samples, which has stops already
ALPHAS = (0.03, 0.045, 0.07, 0.1, 0.15, 0.2, 0.28, 0.38, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0)

Table = dict[str, dict[str, Any]]


class Place(NamedTuple):
    """A setting off the grid: a view, knobs that are not at their defaults, and a knob with several values."""

    view: str
    values: Mapping[str, Value]
    runs: str = ""
    stops: tuple[float, ...] = ()

    def states(self) -> list[State]:
        """The states of the page there."""
        along = [{self.runs: value} for value in self.stops] if self.runs else [{}]
        return [_state(self.view, {**self.values, **moved}) for moved in along]


@dataclass(frozen=True, kw_only=True)
class Grid:
    """What is recorded: views over the stops of knobs, and places off the grid."""

    views: tuple[str, ...] = ("head", "curve", "spectrum")
    stops: Mapping[str, tuple[float, ...]] = field(
        default_factory=lambda: {
            "alpha": ALPHAS,
            "kappa0": (0.2, 0.5),
            "noise": (0.1, 0.5, 1.0),
            "weight_decay": (0.003, 0.01, 0.03, 0.1, 0.3),
        }
    )
    places: tuple[Place, ...] = ()

    @property
    def total(self) -> int:
        """Points that are recorded."""
        return sum(len(chain) for chain in self.chains)

    @cached_property
    def chains(self) -> list[list[list[State]]]:
        """Points that are recorded together, each with the states of its views; nothing twice."""
        seen: set[str] = set()

        def fresh(states: list[State]) -> list[State]:
            new = [state for state in states if self.name(state) not in seen]
            seen.update(self.name(state) for state in new)
            return new

        points = [[fresh(point) for point in chain] for chain in (*self._on_grid(), *self._off_grid())]
        return [kept for chain in points if (kept := [point for point in chain if point])]

    def _on_grid(self) -> Iterator[list[list[State]]]:
        others = [name for name in self.stops if name != "alpha"]
        for combination in product(*(self.stops[name] for name in others)):
            words = dict(zip(others, combination, strict=True))
            yield [[_state(view, {**words, "alpha": a}) for view in self.views] for a in self.stops["alpha"]]

    def _off_grid(self) -> Iterator[list[list[State]]]:
        for place in self.places:
            yield [[state] for state in place.states()]

    def name(self, state: State) -> str:
        """What an answer is found by: the view, the values of the grid's knobs, and others that are not at their defaults."""
        own = VIEWS[state.view].knobs
        first = (_text(state[name]) for name in self.stops if name in own)
        rest = [name for name in own if name not in self.stops and state[name] != KNOBS[name].default]
        return " ".join([state.view, *first, *(f"{name}={_text(state[name])}" for name in rest)])

    def off_grid(self) -> list[str]:
        """The names of the places."""
        return [self.name(state) for place in self.places for state in place.states()]


def _state(view: str, values: Mapping[str, Value]) -> State:
    state, wrong = read_state({"view": view, **{name: _text(value) for name, value in values.items()}})
    refused_or_moved = {**wrong, **state.moved}
    assert refused_or_moved == {}, refused_or_moved
    return state


def _text(value: Value) -> str:
    """A value as JavaScript writes it.

    Examples
    --------
    >>> _text(1.0), _text(0.045), _text(1e-5), _text(True), _text("self")
    ('1', '0.045', '0.00001', '1', 'self')
    """
    if isinstance(value, bool):
        return str(int(value))
    return np.format_float_positional(value, trim="-") if isinstance(value, float) else str(value)


# --- places


def run_of(step: Step, alphas: tuple[float, ...]) -> tuple[str, tuple[float, ...]]:
    """The knob that a step of a tour runs, and where it stops on its way; nothing where it runs none."""
    for name, (start, end) in step.runs.items():
        low, high = sorted((start, end))
        between = [a for a in alphas if low < a < high] if name == "alpha" else np.geomspace(low, high, RUN)[1:-1]
        way = [low, *(float(f"{v:.3g}") for v in between), high]
        return name, tuple(way if start < end else way[::-1])
    return "", ()


def places(alphas: tuple[float, ...] = ALPHAS) -> tuple[Place, ...]:
    """Every panel as it is at first, every preset and every step of a tour; a marked α has its stops there too."""
    found = [Place(view.name, {view.panel: name} if name else {}) for view in VIEWS.values() for name in view.panels]
    found += [Place(preset.view, preset.values) for preset in PRESETS]
    found += [Place(step.view, step.values, *run_of(step, alphas)) for tour in TOURS for step in tour.steps]
    return tuple(_along(place, alphas) for place in found if place.view != "checkpoint")


def _along(place: Place, alphas: tuple[float, ...]) -> Place:
    """A place where the marked α can be moved, if it has one: on its axis."""
    if place.runs or place.view not in Grid.views:
        return place
    own = _state(place.view, place.values)
    low, high = (own["alpha_from"], own["alpha_to"]) if place.view == "curve" else (0.0, np.inf)
    return place._replace(runs="alpha", stops=tuple(sorted({own["alpha"], *(a for a in alphas if low <= a <= high)})))


GRID = Grid(places=places())


# --- recording


class Recording(NamedTuple):
    """Answers by their kind and name, and how far the lines between solved points of a curve are off at most."""

    table: Table
    error: float


def record(grid: Grid, folder: Path, progress: Callable[[], None]) -> Recording:
    """Record a grid. What is finished is kept in a folder, whatever happens, and is not recorded again.

    ``progress`` is called once for every point.
    """
    table, worst = _empty(), 0.0
    for chain in grid.chains:
        kept = folder / f"{_mark(grid, chain)}.json.gz"
        found = _read(kept)
        if found is None:
            with heard(), entire():
                found = _record_chain(grid, chain, progress)
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(kept, gzip.compress(json.dumps(found).encode(), 6, mtime=0))
        else:
            for _ in chain:
                progress()
        for kind, answers in found.table.items():
            table[kind] |= answers
        worst = max(worst, found.error)
    return Recording(table, worst)


def _empty() -> Table:
    return {"figures": {}, "draw": {}, "report": {}}


def _mark(grid: Grid, chain: list[list[State]]) -> str:
    """The name of a chain's file: another one for other points and other versions."""
    names = [grid.name(state) for point in chain for state in point]
    return hashlib.sha256(json.dumps([__version__, NUMERICAL, names]).encode()).hexdigest()[:24]


def _read(path: Path) -> Recording | None:
    """A chain that was recorded before; none if its file is not there, or damaged."""
    try:
        return Recording(*json.loads(gzip.decompress(path.read_bytes())))
    except (OSError, EOFError, ValueError, TypeError, zlib.error):
        return None


def _record_chain(grid: Grid, chain: list[list[State]], progress: Callable[[], None]) -> Recording:
    """Every point of a chain; pictures that differ in their marked line alone are kept once."""
    table, worst, shared = _empty(), 0.0, dict[str, str]()
    runs = _moving(chain)
    for point in chain:
        for state in point:
            name, own = grid.name(state), VIEWS[state.view]
            report = _reported(state)
            table["report"][name] = {"badge": plain(list(report.badge)), "numbers": told_numbers(report.numbers)}
            code: dict[str, Any] = own.code(state)._asdict()
            if state.view not in shared:
                picture = _pictured(state)
                figure = _rounded(drawn(state, picture, picture.figure))
                if state.view == "curve":
                    off = _interpolation(state, picture)
                    figure["note"] = OFF.format(max(off, 1e-4))
                    worst = max(worst, off)
                if picture.figure["layout"].get("meta", {}).get("by") == runs:
                    shared[state.view] = name
                    table["figures"][name] = figure
                else:
                    code |= figure
            if state.view in shared:
                code |= {"drawing": shared[state.view], "at": state[runs]}
            table["draw"][name] = code
            check()
        progress()
    return Recording(table, worst)


def _moving(chain: list[list[State]]) -> str:
    """The knob that differs from point to point."""
    first, last = chain[0][0], chain[-1][0]
    return next((name for name in KNOBS if first[name] != last[name]), "")


def _pictured(state: State) -> Picture:
    try:
        return VIEWS[state.view].picture(state)
    except OneheadError as error:
        return refused(str(error))


def _reported(state: State) -> Any:
    try:
        return VIEWS[state.view].report(state)
    except OneheadError as error:
        return failed(error)


def _rounded(value: Any) -> Any:
    """Five digits are more than a screen shows."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value


def _interpolation(state: State, picture: Picture) -> float:
    """How far the line between solved points of a curve is off, over the error itself, half way across the gaps where it bends most."""
    if picture.refusal:
        return 0.0
    first = picture.figure["data"][0]
    pairs = [(x, y) for x, y in zip(first["x"], first["y"], strict=True) if y is not None]
    alphas, errors = np.array(pairs).T
    found: list[float] = []
    for k in np.argsort(np.abs(np.diff(errors, 2)))[::-1]:
        try:
            true = aim.predict(state.task, state.learner, float(np.sqrt(alphas[k] * alphas[k + 1]))).test_error
        except OneheadError:  # nothing is known there: the next gap
            continue
        if true > 1e-3 * errors.max():  # where nothing is left of an error, it has no relative one
            found.append(abs(0.5 * (errors[k] + errors[k + 1]) - true) / true)
        if len(found) == CHECKED:
            break
    return float(max(found, default=0.0))
