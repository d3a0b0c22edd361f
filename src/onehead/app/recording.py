"""Recorded answers for a page without a server: over a grid of knobs, and at the settings of presets and tours."""

import gzip
import hashlib
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from onehead import __version__, aim
from onehead.app.knobs import KNOBS, TrainingTime, Value
from onehead.app.presets import PRESETS
from onehead.app.refusals import explain
from onehead.app.server.handlers import number_rows, picture_answer, trained_traces
from onehead.app.server.training_jobs import Trainer, training_sweep
from onehead.app.state import State, read_state
from onehead.app.tours import TOURS, Step
from onehead.app.views import VIEWS
from onehead.app.views.base import Picture, View, failure_report, refusal_picture
from onehead.atomic_io import write_atomically
from onehead.errors import OneheadError
from onehead.numerics.interrupts import raise_if_interrupted, record_interrupts, require_complete
from onehead.results import plain
from onehead.sweep import sweep
from onehead.sweep.storage.version import NUMERICAL

INTERPOLATION_NOTE = (
    "Between computed points the line is off by at most {:.2g} % of its highest value, measured where it curves most."
)
CHECKED_GAPS = 3  # gaps between points of a curve in which the line is checked, those where it curves most
TIME_STOPS = tuple(sorted({*(float(f"{v:.2g}") for v in np.geomspace(0.1, 300.0, 22)), TrainingTime().time}))
OWN_STOPS = {"time": TIME_STOPS}  # knobs that have recorded stops off the grid, in the views that play them
RUN_STOPS = 7  # stops of a knob that a tour moves, other than α, which has stops of its own
ALPHAS = (0.03, 0.045, 0.07, 0.1, 0.15, 0.2, 0.28, 0.38, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0)

Table = dict[str, dict[str, Any]]


class Setting(NamedTuple):
    """A setting off the grid: a view, knobs that differ from their defaults, and one knob with several values."""

    view: str
    values: Mapping[str, Value]
    runs: str = ""
    stops: tuple[float, ...] = ()

    def states(self) -> list[State]:
        """Return the states of the page, one for each stop of the knob that runs."""
        stops = [{self.runs: value} for value in self.stops] if self.runs else [{}]
        return [_state(self.view, {**self.values, **stop}) for stop in stops]


@dataclass(frozen=True, kw_only=True)
class Grid:
    """What is recorded: some views at every combination of the stops of knobs, and settings off this grid."""

    views: tuple[str, ...] = ("head", "curve", "spectrum")
    stops: Mapping[str, tuple[float, ...]] = field(
        default_factory=lambda: {
            "alpha": ALPHAS,
            "kappa0": (0.2, 0.5),
            "noise": (0.1, 0.5, 1.0),
            "weight_decay": (0.003, 0.01, 0.03, 0.1, 0.3),
        }
    )
    settings: tuple[Setting, ...] = ()

    @property
    def total(self) -> int:
        """Number of points that are recorded."""
        return sum(len(chain) for chain in self.chains)

    @cached_property
    def chains(self) -> list[list[list[State]]]:
        """Lists of points that are recorded together; a point is a list of states, and no state occurs twice."""
        names: set[str] = set()

        def new(states: list[State]) -> list[State]:
            found = [state for state in states if self.name(state) not in names]
            names.update(self.name(state) for state in found)
            return found

        chains = [[new(point) for point in chain] for chain in (*self._on_grid(), *self._off_grid())]
        return [points for chain in chains if (points := [point for point in chain if point])]

    def _on_grid(self) -> Iterator[list[list[State]]]:
        others = [name for name in self.stops if name != "alpha"]
        for combination in product(*(self.stops[name] for name in others)):
            values = dict(zip(others, combination, strict=True))
            yield [[_state(view, {**values, "alpha": a}) for view in self.views] for a in self.stops["alpha"]]

    def _off_grid(self) -> Iterator[list[list[State]]]:
        for setting in self.settings:
            yield [[state] for state in setting.states()]

    def name(self, state: State, without: str = "") -> str:
        """Return the name of a recorded answer.

        It consists of the view, the knobs of the grid but for one that is left out, and other knobs that differ from
        their defaults. ``recordName`` in ``assets/knobs.js`` computes the same name.
        """
        own = VIEWS[state.view].knobs
        first = (_text(state[name]) for name in self.stops if name in own and name != without)
        others = [name for name in own if name not in self.stops and state[name] != KNOBS[name].default]
        return " ".join([state.view, *first, *(f"{name}={_text(state[name])}" for name in others)])

    @cached_property
    def trained_names(self) -> frozenset[str]:
        """Names of the settings for which training runs are recorded: presets of views that train."""
        states = [_state(preset.view, preset.values) for preset in PRESETS if VIEWS[preset.view].trains]
        return frozenset(self.name(state) for state in states if state.task.supported_by("train"))

    def off_grid_names(self) -> list[str]:
        """Return the names of the answers at the settings off the grid."""
        return [self.name(state) for setting in self.settings for state in setting.states()]


def _state(view: str, values: Mapping[str, Value]) -> State:
    state, wrong = read_state({"view": view, **{name: _text(value) for name, value in values.items()}})
    refused_or_adjusted = {**wrong, **state.adjusted}
    assert refused_or_adjusted == {}, refused_or_adjusted
    return state


def _text(value: Value) -> str:
    """Return a value as JavaScript writes it.

    Examples
    --------
    >>> _text(1.0), _text(0.045), _text(1e-5), _text(True), _text("self")
    ('1', '0.045', '0.00001', '1', 'self')
    """
    if isinstance(value, bool):
        return str(int(value))
    return np.format_float_positional(value, trim="-") if isinstance(value, float) else str(value)


# --- settings off the grid


def knob_run(step: Step, alphas: tuple[float, ...]) -> tuple[str, tuple[float, ...]]:
    """Return the knob that a step of a tour moves and the values it passes; an empty name if it moves none."""
    for name, (start, end) in step.runs.items():
        low, high = sorted((start, end))
        if KNOBS[name].parameter.kind == "integer":
            stops = [float(v) for v in range(round(low), round(high) + 1)]
            return name, tuple(stops if start < end else stops[::-1])
        between = [a for a in alphas if low < a < high] if name == "alpha" else np.geomspace(low, high, RUN_STOPS)[1:-1]
        stops = [low, *(float(f"{v:.3g}") for v in between), high]
        return name, tuple(stops if start < end else stops[::-1])
    return "", ()


def off_grid_settings(alphas: tuple[float, ...] = ALPHAS) -> tuple[Setting, ...]:
    """Return the settings of every panel at its defaults, every preset and every step of a tour."""
    found = [Setting(view.name, _opened(view, name)) for view in VIEWS.values() for name in view.panels]
    found += [Setting(preset.view, preset.values) for preset in PRESETS]
    found += [Setting(step.view, step.values, *knob_run(step, alphas)) for tour in TOURS for step in tour.steps]
    return tuple(_with_alpha_stops(setting, alphas) for setting in found if setting.view != "checkpoint")


def _opened(view: View, panel: str) -> dict[str, Value]:
    """Return the knobs of a view that opens at other values than their defaults."""
    return {**({view.panel: panel} if panel else {}), **({"attention": "cross"} if view.untied else {})}


def _with_alpha_stops(setting: Setting, alphas: tuple[float, ...]) -> Setting:
    """Return a setting whose marked α or marked time, if no other knob runs, can be moved along its axis."""
    if setting.runs:
        return setting
    plays = VIEWS[setting.view].plays
    if plays in OWN_STOPS:
        return setting._replace(runs=plays, stops=OWN_STOPS[plays])
    if setting.view not in Grid.views:
        return setting
    state = _state(setting.view, setting.values)
    low, high = (state["alpha_from"], state["alpha_to"]) if setting.view == "curve" else (0.0, np.inf)
    stops = sorted({state["alpha"], *(a for a in alphas if low <= a <= high)})
    return setting._replace(runs="alpha", stops=tuple(stops))


GRID = Grid(settings=off_grid_settings())


# --- recording


class Recording(NamedTuple):
    """Recorded answers by kind and name, and the largest interpolation error of a learning curve, as a share of its
    highest value.
    """

    table: Table
    error: float


def record(grid: Grid, folder: Path, progress: Callable[[], None]) -> Recording:
    """Record a grid. Finished chains are saved in a folder, so that an interrupted recording can be continued.

    ``progress`` is called once for every point.
    """
    table, worst = _empty(), 0.0
    for chain in grid.chains:
        path = _file(grid, chain, folder)
        found = _read(path)
        if found is None:
            with record_interrupts(), require_complete():
                found = _record_chain(grid, chain, progress)
            folder.mkdir(parents=True, exist_ok=True)
            write_atomically(path, gzip.compress(json.dumps(found).encode(), 6, mtime=0))
        else:
            for _ in chain:
                progress()
        for kind, answers in found.table.items():
            table[kind] |= answers
        worst = max(worst, found.error)
    return Recording(table, worst)


def _empty() -> Table:
    return {"figures": {}, "draw": {}, "report": {}, "trained": {}}


def recorded_files(grid: Grid, folder: Path) -> list[Path]:
    """Return the files in which `record` saves the chains of a grid."""
    return [_file(grid, chain, folder) for chain in grid.chains]


def _file(grid: Grid, chain: list[list[State]], folder: Path) -> Path:
    """Return the file of a chain, whose name depends on its points and on the version."""
    names = [grid.name(state) for point in chain for state in point]
    name = hashlib.sha256(json.dumps([__version__, NUMERICAL, names]).encode()).hexdigest()[:24]
    return folder / f"{name}.json.gz"


def _read(path: Path) -> Recording | None:
    """Return a chain recorded before, or None if its file is missing or damaged."""
    try:
        return Recording(*json.loads(gzip.decompress(path.read_bytes())))
    except (OSError, EOFError, ValueError, TypeError, zlib.error):
        return None


def _record_chain(grid: Grid, chain: list[list[State]], progress: Callable[[], None]) -> Recording:
    """Record every point of a chain; pictures that differ only in their marked line are stored once."""
    table, worst, shared = _empty(), 0.0, dict[str, str]()
    runs = _varying_knob(chain)
    for point in chain:
        for state in point:
            name, own = grid.name(state), VIEWS[state.view]
            report = _report_or_failure(state)
            table["report"][name] = {"badge": plain(list(report.badge)), "numbers": number_rows(report.numbers)}
            code: dict[str, Any] = own.code(state)._asdict()
            if state.view not in shared:
                picture = _picture_or_refusal(state)
                figure = _rounded(picture_answer(state, picture, picture.figure))
                if state.view == "curve":
                    error = _interpolation_error(state, picture)
                    figure["note"] = INTERPOLATION_NOTE.format(100.0 * max(error, 1e-4))
                    worst = max(worst, error)
                if picture.figure["layout"].get("meta", {}).get("by") == runs:
                    shared[state.view] = name
                    table["figures"][name] = figure
                else:
                    code |= figure
            if state.view in shared:
                code |= {"drawing": shared[state.view], "at": state[runs]}
            table["draw"][name] = code
            if name in grid.trained_names:
                table["trained"][grid.name(state, without="alpha")] = _trained(state)
            raise_if_interrupted()
        progress()
    return Recording(table, worst)


def _trained(state: State) -> dict[str, Any]:
    """Train the heads of a page as the server does, and return their points and how long all runs took."""
    axes, fixed, seeds = training_sweep(state)
    with TemporaryDirectory() as folder:
        store = Path(folder) / "runs.sqlite"
        sweep("aim.train", axes, fixed=fixed, seeds=seeds, store=store)
        points = Trainer(store).trained_points(state)
    seconds = sum(point.seconds for point in points)
    return {"traces": _rounded(trained_traces(state, points)), "seeds": seeds, "seconds": round(seconds, 1)}


def _varying_knob(chain: list[list[State]]) -> str:
    """Return the knob that differs from point to point of a chain."""
    first, last = chain[0][0], chain[-1][0]
    return next((name for name in KNOBS if first[name] != last[name]), "")


def _picture_or_refusal(state: State) -> Picture:
    try:
        return VIEWS[state.view].picture(state)
    except OneheadError as error:
        return refusal_picture(explain(error))


def _report_or_failure(state: State) -> Any:
    try:
        return VIEWS[state.view].report(state)
    except OneheadError as error:
        return failure_report(error)


def _rounded(value: Any) -> Any:
    """Round every number of a nested value to five digits, more than a screen resolves."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value


def _interpolation_error(state: State, picture: Picture) -> float:
    """Return how far the line between computed points is off, in the middle of its most curved gaps.

    The unit is the highest value of the curve, so that it is a distance in the picture: relative to the error itself it
    would be large wherever the error falls to zero.
    """
    if picture.refusal:
        return 0.0
    first = picture.figure["data"][0]
    pairs = [(x, y) for x, y in zip(first["x"], first["y"], strict=True) if y is not None]
    alphas, errors = np.array(pairs).T
    found: list[float] = []
    for k in np.argsort(np.abs(np.diff(errors, 2)))[::-1]:
        try:
            true = aim.predict(state.task, state.learner, float(np.sqrt(alphas[k] * alphas[k + 1]))).test_error
        except OneheadError:  # no solution there: check the next gap
            continue
        found.append(abs(0.5 * (errors[k] + errors[k + 1]) - true) / errors.max())
        if len(found) == CHECKED_GAPS:
            break
    return float(max(found, default=0.0))
