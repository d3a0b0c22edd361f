"""Training jobs behind the button "Train it": a sweep in a separate process, its store, and the stored runs.

Every finished run is in the store, so a job is cancelled by ending its process; starting again trains only what is
missing.
"""

import math
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from onehead.aim.flat_parameters import parameters_from_problem
from onehead.aim.targets import MarchenkoPastur
from onehead.aim.task import Learner, Task
from onehead.aim.training.instance import problem_as_trained
from onehead.app.knobs import KNOBS
from onehead.app.refusals import explain
from onehead.app.server.workers import end_process, start_process
from onehead.app.state import State
from onehead.errors import OneheadError
from onehead.results.replicates import mean_and_spread

# knobs of the problem that is trained; the branch concerns the theory only, and training has one head
TRAINED_KNOBS = [
    knob
    for knob in KNOBS.values()
    if knob.problem in (MarchenkoPastur, Task, Learner)
    and knob.parameter.name != "branch"
    and (not knob.parameter.verbs or "train" in knob.parameter.verbs)
]
QUANTITIES = ("test_error", "test_error_clean", "train_loss", "rank")


def default_store() -> Path:
    """Return the store used when none is named: a file in the user's data folder."""
    base = os.environ.get("XDG_DATA_HOME")
    if sys.platform == "darwin":
        base = base or str(Path.home() / "Library" / "Application Support")
    return Path(base or Path.home() / ".local" / "share") / "onehead" / "explorer.sqlite"


def training_sweep(state: State) -> tuple[dict[str, Any], dict[str, Any], int]:
    """Return axes, fixed parameters and number of seeds of the sweep that trains the heads of a page."""
    low, high, count = state["alpha_from"], state["alpha_to"], state["train_points"]
    ratios = np.geomspace(low, high, count + 2)[1:-1] if count > 1 else [state["alpha"]]
    fixed = {knob.parameter.flat: state[knob.name] for knob in TRAINED_KNOBS}
    fixed |= {"dim": state["train_dim"], "starts": 1}
    return {"alpha": [float(f"{a:.4g}") for a in ratios]}, fixed, state["train_seeds"]


def realised_widths(state: State, dim: int) -> str:
    """Describe the widths of a run of this dimension where rounding to whole rows changes those of the page."""
    task, learner, _ = problem_as_trained(state.task, state.learner, 1.0, dim)
    trained = {"κ₀": (getattr(task.target, "kappa0", None), state["kappa0"]), "κ": (learner.width, state["width"])}
    return "".join(f"{symbol} = {own:g}, " for symbol, (own, wanted) in trained.items() if own != wanted)


@dataclass(frozen=True, kw_only=True)
class TrainedPoint:
    """Means over the runs at one sample ratio and dimension, with standard errors where there are several seeds."""

    alpha: float
    dim: int
    seeds: int
    mean: dict[str, float]
    error: dict[str, float]
    seconds: float  # of all runs


def _train(path: str, axes: dict[str, Any], fixed: dict[str, Any], seeds: int, pipe: Any) -> None:
    """Run a training job: send None after every run, and at the end an error message, empty on success."""
    from onehead.sweep import sweep

    os.nice(10)
    try:
        step = partial(pipe.send, None)
        sweep("aim.train", axes, fixed=fixed, seeds=seeds, store=path, retry=True, progress=step)
        pipe.send("")
    except OneheadError as error:
        pipe.send(explain(error))


@dataclass
class _Job:
    process: Any
    pipe: Any
    total: int
    known: int  # runs that were stored before
    stored: Callable[[], int]  # counts the runs that are stored now
    begun: float = field(default_factory=time.monotonic)
    finished: int = 0
    sentence: str | None = None

    @property
    def done(self) -> int:
        return self.known + self.finished


class Trainer:
    """The training job of the server, at most one at a time, and the store it writes to."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self._lock = threading.Lock()
        self._job: _Job | None = None
        self._cached_rows: tuple[Any, list[dict[str, Any]]] | None = None  # time stamps of the files, rows

    def start(self, state: State) -> str:
        """Start to train the heads of a page; return the reason where that is not possible, else an empty text."""
        try:
            state.task.check_verb("train")
        except OneheadError as error:
            return explain(error)
        axes, fixed, seeds = training_sweep(state)
        with self._lock:
            if self._job is not None and self._job.sentence is None and self._job.process.is_alive():
                return "A training job is running; cancel it, or wait until it ends."
            try:
                self.store.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                return f"Cannot write the store {self.store.name}: {error.strerror}."
            total = len(axes["alpha"]) * seeds
            stored = partial(self._stored, state, axes["alpha"], seeds)
            known = stored()
            process, pipe = start_process("onehead-training", _train, str(self.store), axes, fixed, seeds)
            self._job = _Job(process, pipe, total, known, stored)
        return ""

    def _stored(self, state: State, alphas: list[float], seeds: int) -> int:
        """Count the runs of a job that are in the store already."""
        rows = self._matching(state)
        return sum(row["alpha"] in alphas and row["dim"] == state["train_dim"] and row["seed"] < seeds for row in rows)

    def cancel(self) -> None:
        """End the job; finished runs stay in the store."""
        with self._lock:
            job = self._job
            if job is None or job.sentence is not None:
                return
            end_process(job.process)
            _receive(job)
            job.finished = job.stored() - job.known  # the process may have stored runs that it did not report
            job.sentence = job.sentence or f"Cancelled. Finished runs are kept ({job.done} of {job.total})."

    def status(self) -> dict[str, Any]:
        """Return the progress of the job."""
        with self._lock:
            job = self._job
            if job is None:
                return {"running": False, "done": 0, "total": 0, "sentence": ""}
            _receive(job)
            if job.sentence is None and not job.process.is_alive():
                job.sentence = (
                    "The training process ended early; finished runs are kept. Press “Train it” again to go on."
                )
            running = job.sentence is None
            seconds = round(time.monotonic() - job.begun)
            sentence = job.sentence or ""
            return {"running": running, "done": job.done, "total": job.total, "sentence": sentence, "seconds": seconds}

    def _rows(self) -> list[dict[str, Any]]:
        """Return all training rows of the store, read again only when its files have changed."""
        from onehead.sweep import Store

        if not self.store.is_file():
            return []
        files = (self.store, self.store.with_name(self.store.name + "-wal"))
        stamp = tuple((f.stat().st_mtime_ns, f.stat().st_size) if f.exists() else None for f in files)
        if self._cached_rows is None or self._cached_rows[0] != stamp:
            try:
                with Store.reading(self.store) as store:
                    rows = [row for row in store.rows() if row["call"] == "aim.train" and row["state"] == "done"]
            except OneheadError:
                return []
            self._cached_rows = (stamp, rows)
        return self._cached_rows[1]

    def _matching(self, state: State) -> list[dict[str, Any]]:
        """Return the stored runs of the problem of a page, at any sample ratio and dimension."""
        target = parameters_from_problem(state.task, state.learner)["target"]

        def has_plain_output(row: dict[str, Any]) -> bool:
            return row.get("target", "mp") == target and not row.get("untied") and row.get("output", "label") == "label"

        def has_same_parameters(row: dict[str, Any]) -> bool:
            return all(_equal(row.get(knob.parameter.flat, knob.default), state[knob.name]) for knob in TRAINED_KNOBS)

        return [row for row in self._rows() if has_plain_output(row) and has_same_parameters(row)]

    def trained_points(self, state: State) -> list[TrainedPoint]:
        """Return the stored runs of the problem of a page, averaged over seeds."""
        if not state.task.supported_by("train"):
            return []
        groups: dict[tuple[int, float], list[dict[str, Any]]] = defaultdict(list)
        for row in self._matching(state):
            groups[row["dim"], row["alpha"]].append(row)
        points = []
        for (dim, alpha), rows in sorted(groups.items()):
            mean, spread = mean_and_spread([SimpleNamespace(**row) for row in rows], QUANTITIES)
            error = {name: spread[f"{name}_err"] for name in QUANTITIES}
            trained = rows[0].get("samples", alpha * dim**2) / dim**2  # a run has a whole number of samples
            seconds = sum(row.get("seconds") or 0.0 for row in rows)
            points.append(
                TrainedPoint(alpha=trained, dim=dim, seeds=len(rows), mean=mean, error=error, seconds=seconds)
            )
        return points


def _receive(job: _Job) -> None:
    """Read the messages that the process of a job has sent."""
    with suppress(EOFError, OSError):
        while job.pipe.poll():
            message = job.pipe.recv()
            if message is None:
                job.finished += 1
            elif job.sentence is None:
                runs = f"{job.total} run{'' if job.total == 1 else 's'}"
                job.sentence = message or f"Training finished; {runs} stored."


def _equal(stored: Any, wanted: Any) -> bool:
    if isinstance(stored, (int, float)) and isinstance(wanted, (int, float)):
        return math.isclose(stored, wanted, rel_tol=1e-12)
    return bool(stored == wanted)
