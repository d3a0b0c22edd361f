"""Executor with worker processes on this machine; workers that die are replaced.

Written here and not taken from ``concurrent.futures``: there one worker that dies ends the pool with all its points,
and nothing tells which point it was solving.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, Self

from onehead.fields import parameter
from onehead.numerics.parallel import cores
from onehead.problem import Problem
from onehead.sweep.errors import WorkersLost
from onehead.sweep.executors.chunking import PointQueue
from onehead.sweep.solve import SINGLE_THREAD_ENVIRONMENT, Outcome
from onehead.sweep.storage.keys import Point

MAX_DEATHS_ALONE = 3  # a point fails after this many workers died of it while nothing else ran
MAX_FAILED_STARTS = 3  # workers in a row that may die before they report that they are ready
WATCH_SECONDS = 1.0  # interval at which stopped workers are looked for
MAX_STOPPED_SECONDS = 5.0  # time after which a worker that was stopped (SIGSTOP) is killed and replaced


@dataclass
class _Worker:
    """A worker process, the pipe to it, and the chunks it was given."""

    process: "subprocess.Popen[bytes]"
    pipe: "Connection[Any, Any]"
    ready: bool = False
    chunks: deque[dict[str, Point]] = field(default_factory=deque)  # the first is being solved
    alone: bool = False  # whether no other worker has anything to do
    stopped_since: float | None = None


class LocalSettings(Problem):
    """Settings of the local executor."""

    workers: int | None = parameter(None, "", "Worker processes; all cores if not given.", ge=1, le=1024)


class Local:
    """Executor with processes on this machine, one thread each.

    A worker that dies or is stopped is replaced, and its points are handed out again one by one. A point whose
    worker dies then is tried last and alone; it is marked failed only if three workers in a row die while running
    it alone. Neither the memory use of other points nor a killed worker therefore makes a good point fail. Workers
    end when the driver is gone. In a ``with`` block they outlive a sweep, which saves their start-up time in
    several short sweeps.

    Parameters
    ----------
    workers : int, optional
        Number of processes; all cores if not given.
    """

    goal = 0.2

    def __init__(self, workers: int | None = None) -> None:
        self.count = LocalSettings(workers=workers).workers or cores()
        self._keep_workers = False
        self._workers: list[_Worker] = []
        self._deaths: Counter[str] = Counter()
        self._failed_starts = 0

    def __enter__(self) -> Self:
        self._keep_workers = True
        return self

    def __exit__(self, *_: object) -> None:
        self._keep_workers = False
        self._stop()

    def run(self, call: str, points: PointQueue) -> Iterator[list[Outcome]]:
        """Solve every point of the queue."""
        self._deaths.clear()
        finished = threading.Event()
        threading.Thread(target=self._kill_stopped_workers, args=(finished,), daemon=True).start()
        try:
            while True:
                self._assign_chunks(call, points)
                if not any(worker.chunks for worker in self._workers) and points.remaining <= 0:
                    return
                readable = wait([worker.pipe for worker in self._workers])
                outcomes: list[Outcome] = []
                for worker in [worker for worker in self._workers if worker.pipe in readable]:
                    outcomes += self._receive(worker, points)
                if outcomes:
                    points.record_durations(outcomes)
                    yield outcomes
        except KeyboardInterrupt:
            outcomes = [outcome for worker in list(self._workers) for outcome in self._drain(worker, points)]
            if outcomes:
                yield outcomes  # finished before Ctrl-C
            raise
        finally:
            finished.set()
            # busy workers are not kept: their outcomes would reach the next sweep
            if not self._keep_workers or any(worker.chunks for worker in self._workers):
                self._stop()

    def _drain(self, worker: _Worker, points: PointQueue) -> list[Outcome]:
        """Outcomes that have arrived and were not read yet."""
        outcomes: list[Outcome] = []
        while worker in self._workers and worker.pipe.poll():
            outcomes += self._receive(worker, points)
        return outcomes

    def _assign_chunks(self, call: str, points: PointQueue) -> None:
        """Start workers and give each a chunk; two when points are short, so that no worker waits for the driver."""
        wanted = min(self.count, points.remaining + len([worker for worker in self._workers if worker.chunks]))
        while len(self._workers) < wanted:
            self._workers.append(_start_worker(call))
        mean = points.mean_duration
        depth = 2 if mean is not None and mean < 0.5 * points.goal else 1
        for length in range(depth):
            for worker in self._workers:
                if len(worker.chunks) == length and (worker.ready or length == 0):
                    self._send_chunk(worker, call, points.take(self.count))
        if self._workers and not any(worker.chunks for worker in self._workers):
            self._send_chunk(self._workers[0], call, points.take_suspect(), alone=True)

    def _send_chunk(self, worker: _Worker, call: str, chunk: list[Point], *, alone: bool = False) -> None:
        if not chunk:
            return
        worker.alone = alone
        worker.chunks.append({point.key: point for point in chunk})
        with suppress(OSError):  # the worker died; the next read from its pipe handles that
            worker.pipe.send((call, chunk))

    def _receive(self, worker: _Worker, points: PointQueue) -> list[Outcome]:
        """Read one message of a worker: that it is ready, outcomes, or the end of its pipe."""
        try:
            message = worker.pipe.recv()
        except (EOFError, OSError):
            return self._remove_dead(worker, points)
        if message is None:
            worker.ready, self._failed_starts = True, 0
            return []
        outcomes: list[Outcome] = message
        for outcome in outcomes:
            worker.chunks[0].pop(outcome.key)
            if not worker.chunks[0]:
                worker.chunks.popleft()
        return outcomes

    def _remove_dead(self, worker: _Worker, points: PointQueue) -> list[Outcome]:
        """Queue the points of a dead worker again; a point that keeps killing workers becomes a failed outcome."""
        self._workers.remove(worker)
        worker.pipe.close()
        code = worker.process.wait()
        if not worker.ready:
            self._failed_starts += 1
            if self._failed_starts >= MAX_FAILED_STARTS:
                raise WorkersLost(
                    f"worker processes do not start ({_describe_exit(code)}); try --on inline to see why."
                )
        failed = []
        if worker.chunks and len(worker.chunks[0]) == 1 and worker.ready and worker.stopped_since is None:
            (point,) = worker.chunks.popleft().values()
            self._deaths[point.key] += worker.alone
            if self._deaths[point.key] >= MAX_DEATHS_ALONE:
                reason = (
                    f"its worker process died {MAX_DEATHS_ALONE} times while nothing else ran, {_describe_exit(code)}"
                )
                failed = [Outcome.failed(point.key, reason)]
            else:
                points.defer_suspect(point)
        for chunk in worker.chunks:
            points.give_back(chunk.values())
        return failed

    def _kill_stopped_workers(self, finished: threading.Event) -> None:
        """Kill workers that have been stopped for some seconds.

        Runs in a thread because a worker may be stopped while it writes to its pipe, and the driver then blocks in
        a read.
        """
        while not finished.wait(WATCH_SECONDS):
            for worker in list(self._workers):
                if not _is_stopped(worker.process.pid):
                    worker.stopped_since = None
                    continue
                worker.stopped_since = worker.stopped_since or time.monotonic()
                if time.monotonic() - worker.stopped_since > MAX_STOPPED_SECONDS:
                    worker.process.kill()

    def _stop(self) -> None:
        for worker in self._workers:
            worker.pipe.close()
            worker.process.kill()
        for worker in self._workers:
            worker.process.wait()
        self._workers = []


def _start_worker(call: str) -> _Worker:
    """Start a fresh interpreter that reads chunks from a pipe; it shares nothing else with this process."""
    ours, theirs = Pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "onehead.sweep.executors.worker", str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        env={**os.environ, **SINGLE_THREAD_ENVIRONMENT},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C goes to the driver only
    )
    theirs.close()
    with suppress(OSError):  # the worker died at once; the next read from its pipe handles that
        ours.send((call, sys.path))
    return _Worker(process, ours)


def _is_stopped(process: int) -> bool:
    """Whether a child process has been stopped and not continued; its wait status is left unread."""
    if not hasattr(os, "waitid"):  # missing on some systems
        return False
    try:
        return os.waitid(os.P_PID, process, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return False


def _describe_exit(code: int) -> str:
    """How a process ended, as text for a message."""
    if code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name
    return f"killed by {name}" + (", perhaps for lack of memory" if name == "SIGKILL" else "")
