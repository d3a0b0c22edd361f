"""Real training runs behind the curves: a sweep in a process of its own, its store, and what the store holds for a page.

The store survives whatever dies, so cancelling is ending the process: every finished run is kept, and starting again does only
what is missing.
"""

import math
import os
import sys
import threading
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from onehead.aim.targets import MarchenkoPastur
from onehead.aim.task import Learner, Task
from onehead.aim.training.instance import as_trained
from onehead.aim.words import words_from_problem
from onehead.app.knobs import KNOBS
from onehead.app.state import State
from onehead.app.work import end, start
from onehead.errors import OneheadError
from onehead.measured import spreads

__all__ = ["Run", "Trainer", "default_store", "rounded", "training_axes"]

# words of the problem that is trained; the branch is the theory's alone
WORDS = [
    knob for knob in KNOBS.values() if knob.problem in (MarchenkoPastur, Task, Learner) and knob.said.name != "branch"
]
QUANTITIES = ("test_error", "test_error_clean", "train_loss", "rank")


def default_store() -> Path:
    """Where runs are kept if no file is named: the user's own data folder."""
    base = os.environ.get("XDG_DATA_HOME")
    if sys.platform == "darwin":
        base = base or str(Path.home() / "Library" / "Application Support")
    return Path(base or Path.home() / ".local" / "share") / "onehead" / "explorer.sqlite"


def training_axes(state: State) -> tuple[dict[str, Any], dict[str, Any], int]:
    """Axes, fixed words and seeds of the sweep that trains this page."""
    low, high, count = state["alpha_from"], state["alpha_to"], state["train_points"]
    ratios = np.geomspace(low, high, count + 2)[1:-1] if count > 1 else [state["alpha"]]
    fixed = {knob.said.flat: state[knob.name] for knob in WORDS} | {"dim": state["train_dim"], "starts": 1}
    return {"alpha": [float(f"{a:.4g}") for a in ratios]}, fixed, state["train_seeds"]


def rounded(state: State, dim: int) -> str:
    """The widths that a run of this dimension has, where they are not those of the page."""
    task, learner, _ = as_trained(state.task, state.learner, 1.0, dim)
    trained = {"κ₀": (getattr(task.target, "kappa0", None), state["kappa0"]), "κ": (learner.width, state["width"])}
    return "".join(f"{symbol} = {own:g}, " for symbol, (own, asked) in trained.items() if own != asked)


@dataclass(frozen=True, kw_only=True)
class Run:
    """Runs at one sample ratio and dimension: means over seeds, and their standard errors where there are several."""

    alpha: float
    dim: int
    seeds: int
    mean: dict[str, float]
    error: dict[str, float]


def _train(path: str, axes: dict[str, Any], fixed: dict[str, Any], seeds: int, pipe: Any) -> None:
    """The process of a training job: None for every run, at the end a sentence if something is wrong."""
    from onehead.sweep import sweep  # noqa: PLC0415

    os.nice(10)
    try:
        step = partial(pipe.send, None)
        sweep("aim.train", axes, fixed=fixed, seeds=seeds, store=path, retry=True, progress=step)
        pipe.send("")
    except OneheadError as error:
        pipe.send(str(error))


@dataclass
class _Job:
    process: Any
    pipe: Any
    total: int
    known: int  # runs that the store had before
    steps: int = 0
    sentence: str | None = None

    @property
    def done(self) -> int:
        return self.known + self.steps


class Trainer:
    """One training job at a time, and the store it writes to."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self._lock = threading.Lock()
        self._job: _Job | None = None
        self._seen: tuple[Any, list[dict[str, Any]]] | None = None

    def start(self, state: State) -> str:
        """Begin to train what the page shows; a sentence if that is not possible now."""
        axes, fixed, seeds = training_axes(state)
        with self._lock:
            if self._job is not None and self._job.sentence is None and self._job.process.is_alive():
                return "a training run is under way; cancel it or wait until it is done."
            try:
                self.store.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                return f"the store {self.store.name} cannot be written: {error.strerror}."
            total = len(axes["alpha"]) * seeds
            known = self._done(state, axes["alpha"], seeds)
            process, pipe = start("onehead-training", _train, str(self.store), axes, fixed, seeds)
            self._job = _Job(process, pipe, total, known)
        return ""

    def _done(self, state: State, alphas: list[float], seeds: int) -> int:
        """How many runs of a job the store has already."""
        rows = self._matching(state)
        return sum(row["alpha"] in alphas and row["dim"] == state["train_dim"] and row["seed"] < seeds for row in rows)

    def cancel(self) -> None:
        """End the job; finished runs stay in the store."""
        with self._lock:
            job = self._job
            if job is None or job.sentence is not None:
                return
            end(job.process)
            job.sentence = f"cancelled after {job.done} of {job.total} runs; they are kept."

    def look(self) -> dict[str, Any]:
        """How far the job is."""
        with self._lock:
            job = self._job
            if job is None:
                return {"running": False, "done": 0, "total": 0, "sentence": ""}
            with suppress(EOFError, OSError):
                while job.pipe.poll():
                    said = job.pipe.recv()
                    if said is None:
                        job.steps += 1
                    elif job.sentence is None:
                        job.sentence = said or f"{job.total} runs are in the store."
            if job.sentence is None and not job.process.is_alive():
                job.sentence = "the training process ended early; finished runs are kept. Start again to go on."
            running = job.sentence is None
            return {"running": running, "done": job.done, "total": job.total, "sentence": job.sentence or ""}

    def _rows(self) -> list[dict[str, Any]]:
        """All training rows of the store, read again when its files have changed."""
        from onehead.sweep import Store  # noqa: PLC0415

        if not self.store.is_file():
            return []
        files = (self.store, self.store.with_name(self.store.name + "-wal"))
        stamp = tuple((f.stat().st_mtime_ns, f.stat().st_size) if f.exists() else None for f in files)
        if self._seen is None or self._seen[0] != stamp:
            try:
                with Store.reading(self.store) as store:
                    rows = [row for row in store.rows() if row["call"] == "aim.train" and row["state"] == "done"]
            except OneheadError:
                return []
            self._seen = (stamp, rows)
        return self._seen[1]

    def _matching(self, state: State) -> list[dict[str, Any]]:
        target = words_from_problem(state.task, state.learner)["target"]

        def plain(row: dict[str, Any]) -> bool:
            return row.get("target", "mp") == target and not row.get("untied") and row.get("output", "label") == "label"

        def same(row: dict[str, Any]) -> bool:
            return all(_equal(row.get(knob.said.flat, knob.default), state[knob.name]) for knob in WORDS)

        return [row for row in self._rows() if plain(row) and same(row)]

    def runs(self, state: State) -> list[Run]:
        """What the store holds for the problem of this page."""
        groups: dict[tuple[int, float], list[dict[str, Any]]] = defaultdict(list)
        for row in self._matching(state):
            groups[row["dim"], row["alpha"]].append(row)
        found = []
        for (dim, alpha), rows in sorted(groups.items()):
            mean, spread = spreads([SimpleNamespace(**row) for row in rows], QUANTITIES)
            error = {name: spread[f"{name}_err"] for name in QUANTITIES}
            trained = rows[0].get("samples", alpha * dim**2) / dim**2  # a whole number of samples
            found.append(Run(alpha=trained, dim=dim, seeds=len(rows), mean=mean, error=error))
        return found


def _equal(stored: Any, wanted: Any) -> bool:
    if isinstance(stored, (int, float)) and isinstance(wanted, (int, float)):
        return math.isclose(stored, wanted, rel_tol=1e-12)
    return bool(stored == wanted)
