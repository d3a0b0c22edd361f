"""Worker processes that solve whatever takes longer than a tenth of a second, each question within a time limit.

Limits count the processor time of the worker, so that a busy computer does not change which questions are answered; a
worker that exceeds its limit is ended and replaced, so that no request hangs. When a page asks something new, its
older questions are superseded: one that waits is dropped; one that runs stops between two points, where views call
`stop_if_superseded`; a worker that has not stopped after ``STOP_GRACE`` seconds is ended and replaced.
"""

import multiprocessing
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onehead.app.refusals import explain
from onehead.app.state import State
from onehead.approximation import without_approximation_warnings
from onehead.errors import OneheadError
from onehead.numerics.parallel import cores

TIME_LIMITS = {"report": 30.0, "picture": 90.0, "checkpoint": 120.0, "sample": 120.0}  # seconds of processor time
MAXIMUM_WAIT_FACTOR = (
    8.0  # longest wait for an answer, in units of its time limit: the share of a core on a busy computer
)
POLL_SECONDS = 0.5  # between two looks at the processor time of a worker
MAX_CACHED_ANSWERS = 400
STOP_GRACE = 1.0  # seconds that superseded work may take to reach `stop_if_superseded`
NICENESS = 5  # of 19: drafts, which the server itself computes, have priority over exact solves
TOO_EXTREME = "These values are too extreme for double precision; move the last knob back."
TOO_SLOW = "No answer within {:g} s of computing. Fewer tokens or more weight decay are faster."
TOO_BUSY = "No answer within {:g} s: other programs keep this computer busy. Try again when they have finished."
INTERNAL_ERROR = "Internal error ({}); move a knob to try again."

_still_wanted: list[Callable[[], bool]] = []  # in a worker: a test whether the current answer is still wanted


def processor_seconds(pid: int) -> float | None:
    """Return the processor time that a process has used; None where the system has no ``/proc`` or the process ended.

    Examples
    --------
    >>> processor_seconds(-1) is None
    True
    """
    try:
        # the second field, the name of the program, may contain spaces and closes with the last parenthesis
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


class Superseded(Exception):
    """The page has asked something newer, so this answer is not needed any more."""


def stop_if_superseded() -> None:
    """Raise `Superseded` if the page that asked has moved on.

    Examples
    --------
    >>> stop_if_superseded()
    """
    if not all(wanted() for wanted in _still_wanted):
        raise Superseded


def start_process(name: str, target: Callable[..., None], *arguments: Any) -> tuple[Any, Any]:
    """Start ``target(*arguments, pipe)`` in a daemon process; return the process and our end of the pipe."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(*arguments, theirs), daemon=True, name=name)
    process.start()
    theirs.close()
    return process, ours


def end_process(process: Any) -> None:
    """Terminate a process and wait until it has ended."""
    process.terminate()
    process.join(10.0)


def _serve(pipe: Any) -> None:
    """Run the loop of a worker: receive a question, send its answer; a message in between supersedes the question."""
    os.nice(NICENESS)
    from onehead.sweep.solve import pin_threads

    pin_threads()  # numerical libraries read the number of threads when they are loaded
    from onehead.app.views import VIEWS
    from onehead.app.views.checkpoint import survey_heads
    from onehead.app.views.sample import sample_heads

    file_jobs: dict[str, Callable[..., Any]] = {"checkpoint": survey_heads, "sample": sample_heads}
    _still_wanted.append(lambda: not pipe.poll())
    while True:
        try:
            question = pipe.recv()
        except (EOFError, OSError):
            return
        if question is None:  # the request to stop arrived after the answer was sent
            continue
        number, job, argument = question
        answer: Any
        try:
            with without_approximation_warnings():  # views show them
                answer = (
                    file_jobs[job](*argument)
                    if job in file_jobs
                    else getattr(VIEWS[argument[0]], job)(State(*argument))
                )
        except Exception as error:  # an error in one view must not end the worker
            answer = _picklable(error)
        with suppress(BrokenPipeError):
            pipe.send((number, answer))


def _picklable(error: Exception) -> Exception:
    """Return an error that survives the pipe: its sentence in a plain `OneheadError`, since others do not unpickle."""
    if isinstance(error, Superseded):
        return error
    if isinstance(error, OneheadError):
        return OneheadError(explain(error))
    if isinstance(error, MemoryError):
        return OneheadError("The problem does not fit into the memory of this machine; make it smaller.")
    return OneheadError(
        TOO_EXTREME if isinstance(error, ArithmeticError) else INTERNAL_ERROR.format(type(error).__name__)
    )


@dataclass
class _Worker:
    process: Any
    pipe: Any
    source: tuple[str, str] | None = None  # page and job of the current question
    number: int = 0


def _start_worker() -> _Worker:
    return _Worker(*start_process("onehead-worker", _serve))


class Workers:
    """A pool of worker processes with a cache of their answers."""

    def __init__(self, count: int | None = None) -> None:
        self._count = count or max(2, cores())
        self._free = threading.Condition()
        self._idle = [_start_worker() for _ in range(self._count)]
        self._busy: list[_Worker] = []
        self._newest: dict[tuple[str, str], int] = {}
        self._number = 0
        self._answers: OrderedDict[Hashable, Any] = OrderedDict()
        self._closed = False

    def ask(self, job: str, argument: Any, *, page: str, key: Hashable = None, limit: float | None = None) -> Any:
        """Return the answer to a question, from the cache if ``key`` was asked before.

        Raises
        ------
        Superseded
            If the same page has asked something newer meanwhile.
        OneheadError
            If there is no solution, the time limit is exceeded, or no worker is free in time.
        """
        with self._free:
            if key is not None and key in self._answers:
                self._answers.move_to_end(key)
                return self._answers[key]
        limit = TIME_LIMITS[job] if limit is None else limit
        source = (page, job)
        with self._free:
            self._number += 1
            number = self._newest[source] = self._number
            self._stop([worker for worker in self._busy if worker.source == source])
        try:
            worker = self._take(job, source, number, time.monotonic() + limit)
            try:
                answer = self._exchange(worker, number, (job, argument), limit)
            except OneheadError:
                if self._newest.get(source) != number:  # the worker was ended because the question is superseded
                    raise Superseded from None
                raise
            finally:
                self._give_back(worker)
        finally:
            with self._free:  # also when no worker was free in time
                if self._newest.get(source) == number:
                    del self._newest[source]
        if isinstance(answer, Exception):
            raise answer
        if key is not None:
            with self._free:
                self._answers[key] = answer
                while len(self._answers) > MAX_CACHED_ANSWERS:
                    self._answers.popitem(last=False)
        return answer

    def supersede(self, page: str) -> None:
        """Supersede all older questions of a page."""
        with self._free:
            for source in [source for source in self._newest if source[0] == page]:
                del self._newest[source]
            self._stop([worker for worker in self._busy if worker.source is not None and worker.source[0] == page])

    def _stop(self, workers: list[_Worker]) -> None:
        """Ask workers to stop, and end those that do not within ``STOP_GRACE``; the caller holds the lock."""
        for worker in workers:
            with suppress(OSError):
                worker.pipe.send(None)
            late = threading.Timer(STOP_GRACE, self._end_late, (worker, worker.number))
            late.daemon = True
            late.start()
        self._free.notify_all()

    def _end_late(self, worker: _Worker, number: int) -> None:
        with self._free:
            late = worker in self._busy and worker.number == number
        if late:
            worker.process.terminate()

    def _take(self, job: str, source: tuple[str, str], number: int, until: float) -> _Worker:
        """Wait for an idle worker; one worker is always left free for reports, which are short."""
        with self._free:
            while True:
                if self._newest.get(source) != number:
                    raise Superseded
                if len(self._idle) > (0 if job == "report" else 1 if self._count > 1 else 0) and not self._closed:
                    worker = self._idle.pop()
                    worker.source, worker.number = source, number
                    self._busy.append(worker)
                    return worker
                left = until - time.monotonic()
                if left <= 0.0 or self._closed:
                    raise OneheadError("The explorer is busy with other pages; try again in a moment.")
                self._free.wait(left)

    def _exchange(self, worker: _Worker, number: int, question: tuple[str, Any], limit: float) -> Any:
        """Send a question and wait for its answer within ``limit`` seconds of processor time of the worker."""
        begin, used_before = time.monotonic(), processor_seconds(worker.process.pid)
        try:
            worker.pipe.send((number, *question))
            while True:
                if worker.pipe.poll(min(POLL_SECONDS, limit)):
                    answered, answer = worker.pipe.recv()
                    if answered == number:
                        return answer
                now, used = time.monotonic(), processor_seconds(worker.process.pid)
                # without processor times the limit is one of waiting
                spent = now - begin if used is None or used_before is None else used - used_before
                if spent >= limit or now - begin >= MAXIMUM_WAIT_FACTOR * limit:
                    break
            why = TOO_SLOW.format(limit) if spent >= limit else TOO_BUSY.format(now - begin)
        except (EOFError, OSError):
            why = "The solver process ended unexpectedly; move a knob to try again."
        end_process(worker.process)
        raise OneheadError(why)

    def _give_back(self, worker: _Worker) -> None:
        with self._free:
            self._busy.remove(worker)
            closed = self._closed
        if closed:
            return
        if not worker.process.is_alive():
            worker.pipe.close()
            worker = _start_worker()
        worker.source = None
        with self._free:
            self._idle.append(worker)
            self._free.notify_all()

    def close(self) -> None:
        """End every worker."""
        with self._free:
            self._closed = True
            workers = [*self._idle, *self._busy]
            self._free.notify_all()
        for worker in workers:
            end_process(worker.process)
