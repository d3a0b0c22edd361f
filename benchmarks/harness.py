"""Rows, budgets, and one timing routine.

A row is a function that is given a `Clock`, lets it time the work, and says how accurate the answer was:

    @row("theory", "one point", budget=Budget(1.0), repeats=7)
    def point(clock):
        return Finding(found_error(clock(lambda: aim.predict(task, learner, 0.5))))

A unit is the time of one numpy.exp over ten million doubles on one thread. It is measured between any two rows, so that
a machine that slows down in the middle of a run slows down both sides of every ratio. CPU time is recorded with wall
time, in units of its own: it is the more reliable one on a shared machine. pytest-benchmark and asv do not fit, since a
row may time several calls and compares units, not seconds.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from checks.tool import ROOT

# group -> the module that registers its rows when it is imported
MODULES = {
    "theory": "benchmarks.theory",
    "shell": "benchmarks.commands",
    "training": "benchmarks.training",
    "plain": "benchmarks.baselines",
    "growth": "benchmarks.growth",
    "figures": "benchmarks.commands",
    "app": "benchmarks.app",
    "weights": "benchmarks.weights",
}
USUAL = ("theory", "shell", "training", "plain", "growth")  # about ten minutes; the others only when asked for
UNIT_SIZE = 10_000_000
UNIT_REPEATS = 4
PATIENCE = 12.0  # seconds of repeats after which no more are begun
WARM_ENOUGH = 0.02  # seconds: what is faster is repeated in a loop, since the clock and the caches wobble
PIN_BLAS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")


class Missing(Exception):
    """Something that a row needs is not installed; the text is the hint."""


@dataclass(frozen=True)
class Budget:
    """At most ``limit`` units, seconds ("s"), or times another row, which is then given; ``name`` is how the table says
    it.
    """

    limit: float
    of: str = "unit"
    name: str = ""

    @property
    def text(self) -> str:
        if self.name:
            return self.name
        if self.of == "unit":
            return f"{self.limit:g} unit{'s' if self.limit != 1.0 else ''}"
        return f"{self.limit:g} s" if self.of == "s" else f"{self.limit:g} × {self.of}"


@dataclass(frozen=True)
class Finding:
    """What a row says besides its time: the error of the answer, in words and, where it is one number, as a number."""

    accuracy: str
    error: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Row:
    """One measured row.

    ``spread`` is the distance of the middle repeat from the best, ``drift`` that of the units before and after; both
    relative.
    """

    group: str
    what: str
    seconds: float
    unit: float
    spread: float | None = None
    drift: float = 0.0
    cpu: float | None = None
    cpu_unit: float | None = None
    cold: float | None = None
    memory_mb: float | None = None
    accuracy: str = ""
    error: float | None = None
    note: str = ""
    budget: str = ""
    verdict: str = ""
    ours: bool = True
    run: dict[str, Any] = field(default_factory=dict)

    @property
    def units(self) -> float:
        return self.seconds / self.unit

    @property
    def cpu_units(self) -> float | None:
        return None if self.cpu is None or self.cpu_unit is None else self.cpu / self.cpu_unit


@dataclass(frozen=True)
class Entry:
    """A row that can be measured."""

    group: str
    what: str
    measure: Callable[["Clock"], Finding]
    budget: Budget | None = None
    repeats: int = 5
    fresh: bool = False
    ours: bool = True


ROWS: dict[str, Entry] = {}


def row(group: str, what: str, **words: Any) -> Callable[[Callable[["Clock"], Finding]], None]:
    """Register a row.

    ``fresh`` also measures it in a process of its own (cold time, memory); a baseline is not ``ours``.
    """

    def register(measure: Callable[[Clock], Finding]) -> None:
        if what in ROWS:
            raise ValueError(f"two rows are called {what!r}")
        ROWS[what] = Entry(group, what, measure, **words)

    return register


def load(groups: Iterable[str]) -> list[Entry]:
    """The rows of some groups, in the order of registration."""
    groups = list(groups)
    for group in groups:
        import_module(MODULES[group])
    return [entry for group in groups for entry in ROWS.values() if entry.group == group]


def certified(found: Any, note: str = "") -> Finding:
    """The error a result states of itself; of several the worst."""
    several = isinstance(found, (list, tuple))
    worst = max(float(one.certificate.quadrature_error) for one in (found if several else [found]))
    return Finding(f"{'worst ' if several else ''}certificate {worst:.0e}", worst, note)


class Clock:
    """Times a call: the best of a few repeats after one that is not counted; a single one when ``repeats`` is 1."""

    def __init__(self, repeats: int) -> None:
        self.repeats = repeats
        self.seconds = float("nan")
        self.cpu: float | None = None
        self.spread: float | None = None

    def __call__(self, work: Callable[[], Any]) -> Any:
        """Run ``work``, note seconds, CPU seconds and spread, and return what it returned last."""
        loops = 1
        if self.repeats > 1:
            first = _timed(work).seconds
            if first < 1.0:  # the first call may have filled caches: the second says how long one takes
                first = _timed(work).seconds
            loops = max(1, int(WARM_ENOUGH / max(first, 1e-7)))
        found: list[Timed] = []
        while len(found) < self.repeats and sum(one.seconds for one in found) * loops < PATIENCE:
            found.append(_timed(work, loops))
        times = [one.seconds for one in found]
        self.seconds, self.cpu = min(times), min(one.cpu for one in found)
        self.spread = statistics.median(times) / self.seconds - 1.0 if len(times) > 1 else None
        return found[-1].answer

    def take(self, seconds: float, cpu: float | None = None) -> None:
        """Note a time that something else has measured."""
        self.seconds, self.cpu, self.spread = seconds, cpu, None


class Timed(NamedTuple):
    """Seconds on the wall and of the processor, each per call, and the last answer."""

    seconds: float
    cpu: float
    answer: Any


def _timed(work: Callable[[], Any], loops: int = 1) -> Timed:
    start, spent = time.perf_counter(), _processor()
    for _ in range(loops):
        answer = work()
    return Timed((time.perf_counter() - start) / loops, (_processor() - spent) / loops, answer)


def _processor() -> float:
    """Seconds of the processor in this process, and in those that it started and that have ended."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


_UNIT: list[Any] = []


def unit() -> tuple[float, float]:
    """Seconds of one numpy.exp over ten million doubles, on the wall and of the processor."""
    if not _UNIT:
        x = np.linspace(-3.0, 3.0, UNIT_SIZE)
        _UNIT.extend((x, np.empty_like(x)))
    found = [_timed(lambda: np.exp(_UNIT[0], out=_UNIT[1])) for _ in range(UNIT_REPEATS)]
    return min(one.seconds for one in found), min(one.cpu for one in found)


def shell(*words: str, **extra: str) -> str:
    """Run this Python with some words in a fresh process, one thread for BLAS, this project importable; what it
    printed.

    Imports are kept compiled, as they are wherever nobody forbids it.
    """
    quiet = {**os.environ, **dict.fromkeys(PIN_BLAS, "1"), "PYTHONPATH": str(ROOT), **extra}
    quiet.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.run([sys.executable, *words], check=True, capture_output=True, text=True, env=quiet).stdout


def measure(entries: Iterable[Entry], *, run: dict[str, Any] | None = None) -> Iterator[Row]:
    """Measure rows one by one, the unit before and after each; a row that cannot be measured says why and is left
    out.
    """
    run = {} if run is None else run
    (before, before_cpu), hints = unit(), set()
    run["unit_ms"] = [1e3 * before]
    for entry in entries:
        clock = Clock(entry.repeats)
        try:
            finding, cold, memory = _measured(entry, clock)
        except Missing as hint:
            if str(hint) not in hints:
                print(f"note: {hint}", file=sys.stderr)
            hints.add(str(hint))
            continue
        except Exception as failure:  # the other rows of a long run are still wanted
            print(f"failed: {entry.what}: {failure!r}", file=sys.stderr)
            run.setdefault("failed", []).append(entry.what)
            continue
        after, after_cpu = unit()
        run["unit_ms"].append(1e3 * after)
        yield Row(
            group=entry.group,
            what=entry.what,
            seconds=clock.seconds,
            unit=min(before, after),
            spread=clock.spread,
            drift=max(before, after) / min(before, after) - 1.0,
            cpu=clock.cpu,
            cpu_unit=min(before_cpu, after_cpu),
            cold=cold,
            memory_mb=memory,
            **asdict(finding),
            budget=entry.budget.text if entry.budget else "",
            ours=entry.ours,
            run=run,
        )
        before, before_cpu = after, after_cpu


def _measured(entry: Entry, clock: Clock) -> tuple[Finding, float | None, float | None]:
    """What a row found, its cold time, and its memory in MB; what is slow is done once, in the fresh process alone."""
    if not entry.fresh:
        return entry.measure(clock), None, None
    start = time.perf_counter()
    alone = "import sys; from benchmarks.harness import alone; alone(*sys.argv[1:])"
    out = json.loads(shell("-c", alone, entry.group, entry.what).splitlines()[-1])
    cold = time.perf_counter() - start
    if entry.repeats > 1:
        return entry.measure(clock), cold, out["memory_mb"]
    clock.take(out["seconds"], out["cpu"])
    return Finding(**out["finding"]), cold, out["memory_mb"]


def alone(group: str, what: str) -> None:
    """One row in this process, which is to be fresh: its peak above the imports is the memory of the row."""
    load([group])
    before, clock = peak_mb(), Clock(1)
    finding = ROWS[what].measure(clock)
    times = {"seconds": clock.seconds, "cpu": clock.cpu}
    print(json.dumps({"memory_mb": peak_mb() - before, **times, "finding": asdict(finding)}))


def peak_mb() -> float:
    """Highest resident memory of this process, MB.

    Linux keeps the peak of the parent in ru_maxrss of a child, so the peak of the process's own memory is read there.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024.0
    import resource  # not on every system

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def judged(rows: Iterable[Row]) -> list[Row]:
    """The same rows with verdicts on their budgets, which may name another row of the same list."""
    rows = list(rows)
    seconds = {found.what: found.seconds for found in rows}
    return [replace(found, verdict=_verdict(found, seconds)) for found in rows]


def _verdict(found: Row, seconds: dict[str, float]) -> str:
    entry = ROWS.get(found.what)
    if entry is None or entry.budget is None:
        return found.verdict
    of = {"unit": found.unit, "s": 1.0}.get(entry.budget.of, seconds.get(entry.budget.of))
    if of is None:
        return "not measured"
    used = found.seconds / of / entry.budget.limit
    return "met" if used <= 1.0 else f"over by {100.0 * (used - 1.0):.0f} %"
