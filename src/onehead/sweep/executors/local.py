"""Worker processes on this machine, which may die."""

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

from onehead.fields import word
from onehead.numerics.parallel import cores
from onehead.problem import Problem
from onehead.sweep.executors.feed import Feed
from onehead.sweep.failures import WorkersLost
from onehead.sweep.keys import Point
from onehead.sweep.solve import PINNED, Outcome

__all__ = ["DEATHS", "Local", "Workers"]

DEATHS = 3  # a point that took this many workers with it, while nothing else was under way, is a failed point
EARLY = 3  # workers that may die before they say hello
LOOK = 1.0  # seconds between two looks at workers that say nothing
STOPPED = 5.0  # seconds after which a worker that somebody has stopped (SIGSTOP) is replaced


@dataclass
class _Worker:
    process: "subprocess.Popen[bytes]"
    pipe: "Connection[Any, Any]"
    ready: bool = False
    chunks: deque[dict[str, Point]] = field(default_factory=deque)  # what it has, the one it works on first
    alone: bool = False  # whether no other worker has anything to do
    stopped: float | None = None  # since when it has been stopped


class Workers(Problem):
    """What local processes need."""

    workers: int | None = word(None, "", "Processes; all cores if not given.", ge=1, le=1024)


class Local:
    """Processes on this machine, one thread each.

    A worker that dies, or that somebody stops, is replaced and its points go out again, one by one. A point whose worker dies
    then is a suspect: it is tried last and alone, and if three more workers die of it, it becomes a failed row. So nobody else's
    memory, and nobody who kills workers, makes an innocent point fail. Workers end by themselves when the driver is gone. In a ``with`` block they outlive a sweep: for several
    short ones, where starting workers for each would cost more than its points.

    Parameters
    ----------
    workers : int, optional
        How many; all cores if not given.
    """

    goal = 0.2

    def __init__(self, workers: int | None = None) -> None:
        self.count = Workers(workers=workers).workers or cores()
        self._kept = False
        self._workers: list[_Worker] = []
        self._deaths: Counter[str] = Counter()
        self._early = 0

    def __enter__(self) -> Self:
        self._kept = True
        return self

    def __exit__(self, *_: object) -> None:
        self._kept = False
        self._stop()

    def run(self, call: str, feed: Feed) -> Iterator[list[Outcome]]:
        """Solve every point of the feed."""
        self._deaths.clear()
        over = threading.Event()
        threading.Thread(target=self._watch, args=(over,), daemon=True).start()
        try:
            while True:
                self._fill(call, feed)
                if not any(worker.chunks for worker in self._workers) and feed.left <= 0:
                    return
                ready = wait([worker.pipe for worker in self._workers])
                found: list[Outcome] = []
                for worker in [worker for worker in self._workers if worker.pipe in ready]:
                    found += self._hear(worker, feed)
                if found:
                    feed.learn(found)
                    yield found
        except KeyboardInterrupt:
            found = [outcome for worker in list(self._workers) for outcome in self._last_words(worker, feed)]
            if found:
                yield found  # finished before Ctrl-C
            raise
        finally:
            over.set()
            if not self._kept or any(worker.chunks for worker in self._workers):  # not in the middle of another sweep
                self._stop()

    def _last_words(self, worker: _Worker, feed: Feed) -> list[Outcome]:
        """Answers that have arrived and were not read yet."""
        found: list[Outcome] = []
        while worker in self._workers and worker.pipe.poll():
            found += self._hear(worker, feed)
        return found

    def _fill(self, call: str, feed: Feed) -> None:
        """Start workers and give each something to do; two chunks when points are short, so that none waits for us."""
        wanted = min(self.count, feed.left + len([worker for worker in self._workers if worker.chunks]))
        while len(self._workers) < wanted:
            self._workers.append(_start(call))
        depth = 2 if feed.mean is not None and feed.mean < 0.5 * feed.goal else 1
        for length in range(depth):
            for worker in self._workers:
                if len(worker.chunks) == length and (worker.ready or length == 0):
                    self._hand(worker, call, feed.take(self.count))
        if self._workers and not any(worker.chunks for worker in self._workers):
            self._hand(self._workers[0], call, feed.take_suspect(), alone=True)

    def _hand(self, worker: _Worker, call: str, chunk: list[Point], *, alone: bool = False) -> None:
        if not chunk:
            return
        worker.alone = alone
        worker.chunks.append({point.key: point for point in chunk})
        with suppress(OSError):  # it died; hearing from its pipe tells us next
            worker.pipe.send((call, chunk))

    def _hear(self, worker: _Worker, feed: Feed) -> list[Outcome]:
        """What a worker has to say: hello, answers, or nothing any more."""
        try:
            message = worker.pipe.recv()
        except (EOFError, OSError):
            return self._bury(worker, feed)
        if message is None:
            worker.ready, self._early = True, 0
            return []
        found: list[Outcome] = message
        for outcome in found:
            worker.chunks[0].pop(outcome.key)
            if not worker.chunks[0]:
                worker.chunks.popleft()
        return found

    def _bury(self, worker: _Worker, feed: Feed) -> list[Outcome]:
        """Hand the points of a dead worker out again, or give up on the one that keeps killing."""
        self._workers.remove(worker)
        worker.pipe.close()
        code = worker.process.wait()
        if not worker.ready:
            self._early += 1
            if self._early >= EARLY:
                raise WorkersLost(f"worker processes do not start ({_cause(code)}); try --on inline to see why.")
        failed = []
        if worker.chunks and len(worker.chunks[0]) == 1 and worker.ready and worker.stopped is None:
            (point,) = worker.chunks.popleft().values()
            self._deaths[point.key] += worker.alone
            if self._deaths[point.key] >= DEATHS:
                reason = f"its worker process died {DEATHS} times while nothing else ran, {_cause(code)}"
                failed = [Outcome.failed(point.key, reason)]
            else:
                feed.suspect(point)
        for chunk in worker.chunks:
            feed.give_back(chunk.values())
        return failed

    def _watch(self, over: threading.Event) -> None:
        """End workers that have been stopped for some seconds; in a thread, for one may stop in the middle of a sentence."""
        while not over.wait(LOOK):
            for worker in list(self._workers):
                if not _is_stopped(worker.process.pid):
                    worker.stopped = None
                    continue
                worker.stopped = worker.stopped or time.monotonic()
                if time.monotonic() - worker.stopped > STOPPED:
                    worker.process.kill()

    def _stop(self) -> None:
        for worker in self._workers:
            worker.pipe.close()
            worker.process.kill()
        for worker in self._workers:
            worker.process.wait()
        self._workers = []


def _start(call: str) -> _Worker:
    """A fresh interpreter that reads chunks from a pipe; it shares nothing else with us."""
    ours, theirs = Pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "onehead.sweep.executors.worker", str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        env={**os.environ, **PINNED},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the driver
    )
    theirs.close()
    with suppress(OSError):  # it died at once; we hear of that
        ours.send((call, sys.path))
    return _Worker(process, ours)


def _is_stopped(process: int) -> bool:
    """Whether a child has been stopped and not continued; asking changes nothing."""
    if not hasattr(os, "waitid"):  # not on every system
        return False
    try:
        return os.waitid(os.P_PID, process, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return False


def _cause(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name
    return f"killed by {name}" + (", perhaps for lack of memory" if name == "SIGKILL" else "")
