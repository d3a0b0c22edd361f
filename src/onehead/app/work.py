"""Workers: processes beside the server that solve what takes longer than a tenth of a second, each within a time limit.

A worker that exceeds its limit is ended and replaced, so that no request hangs. A page that moves on takes its older questions
back: one that waits is dropped, one that runs stops at its next pause (work of a view pauses between two points), and a worker
that has not stopped after a moment is ended and replaced.
"""

import multiprocessing
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from onehead.app.state import State
from onehead.errors import OneheadError
from onehead.numerics.parallel import cores

__all__ = ["BEYOND", "INSIDE", "LIMITS", "Stopped", "Workers", "end", "pause", "start"]

LIMITS = {"report": 30.0, "picture": 90.0, "checkpoint": 120.0, "sample": 120.0}  # seconds from question to answer
KEPT = 400  # answers
GRACE = 1.0  # seconds in which work that nobody waits for may come to its next pause
NICE = 10  # of 19: the server's own sketches come first, whatever is solved beside them
BEYOND = "these values are too extreme for double precision; move the last knob back."
INSIDE = "something went wrong inside ({}); turn a knob to try again."

_wanted: list[Callable[[], bool]] = []  # of a worker: how to find out whether its answer is still wanted


class Stopped(Exception):
    """The page has moved on: nobody waits for this answer."""


def pause() -> None:
    """Go on, or stop here.

    Examples
    --------
    >>> pause()
    """
    if not all(wanted() for wanted in _wanted):
        raise Stopped


def start(name: str, target: Callable[..., None], *arguments: Any) -> tuple[Any, Any]:
    """A process that ends with this one, and our end of the pipe that is its last argument."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(*arguments, theirs), daemon=True, name=name)
    process.start()
    theirs.close()
    return process, ours


def end(process: Any) -> None:
    """End a process, and wait until it has."""
    process.terminate()
    process.join(10.0)


def _serve(pipe: Any) -> None:
    """The loop of a worker: a question in, an answer out; a message in between means that nobody waits any more."""
    os.nice(NICE)
    from onehead.sweep.solve import pin_threads  # noqa: PLC0415

    pin_threads()  # before anything heavy is loaded
    from onehead.app.views import VIEWS  # noqa: PLC0415
    from onehead.app.views.checkpoint import survey_file  # noqa: PLC0415
    from onehead.app.views.sample import sample_heads  # noqa: PLC0415

    files: dict[str, Callable[..., Any]] = {"checkpoint": survey_file, "sample": sample_heads}
    _wanted.append(lambda: not pipe.poll())
    while True:
        try:
            question = pipe.recv()
        except (EOFError, OSError):
            return
        if question is None:  # a stop that came after the answer
            continue
        number, job, argument = question
        answer: Any
        try:
            answer = files[job](*argument) if job in files else getattr(VIEWS[argument[0]], job)(State(*argument))
        except Exception as error:  # a bug in one view must not end the others
            answer = _portable(error)
        with suppress(BrokenPipeError):
            pipe.send((number, answer))


def _portable(error: Exception) -> Exception:
    """Errors travel as sentences: some of them cannot be made again from their text alone."""
    if isinstance(error, Stopped):
        return error
    if isinstance(error, OneheadError):
        return OneheadError(str(error))
    if isinstance(error, MemoryError):
        return OneheadError("the problem does not fit into the memory of this machine; make it smaller.")
    return OneheadError(BEYOND if isinstance(error, ArithmeticError) else INSIDE.format(type(error).__name__))


@dataclass
class _Worker:
    process: Any
    pipe: Any
    asks: tuple[str, str] | None = None
    number: int = 0


def _worker() -> _Worker:
    return _Worker(*start("onehead-worker", _serve))


class Workers:
    """A few worker processes behind one door."""

    def __init__(self, count: int | None = None) -> None:
        self._count = count or max(2, cores())
        self._free = threading.Condition()
        self._idle = [_worker() for _ in range(self._count)]
        self._busy: list[_Worker] = []
        self._newest: dict[tuple[str, str], int] = {}
        self._number = 0
        self._answers: OrderedDict[Hashable, Any] = OrderedDict()
        self._closed = False

    def ask(self, job: str, argument: Any, *, page: str, key: Hashable = None, limit: float | None = None) -> Any:
        """The answer, from memory if it was given before.

        Raises
        ------
        Stopped
            When the same page asked again meanwhile.
        OneheadError
            What the question ended in: no solution, too slow, too busy.
        """
        with self._free:
            if key is not None and key in self._answers:
                self._answers.move_to_end(key)
                return self._answers[key]
        limit = LIMITS[job] if limit is None else limit
        until, asks = time.monotonic() + limit, (page, job)
        with self._free:
            self._number += 1
            number = self._newest[asks] = self._number
            self._stop([worker for worker in self._busy if worker.asks == asks])
        try:
            worker = self._take(job, asks, number, until)
            try:
                answer = self._converse(worker, number, (job, argument), until, limit)
            except OneheadError:
                if self._newest.get(asks) != number:  # it was ended because nobody waits
                    raise Stopped from None
                raise
            finally:
                self._give_back(worker)
        finally:
            with self._free:  # also when no worker was free in time: what nobody waits for is forgotten
                if self._newest.get(asks) == number:
                    del self._newest[asks]
        if isinstance(answer, Exception):
            raise answer
        if key is not None:
            with self._free:
                self._answers[key] = answer
                while len(self._answers) > KEPT:
                    self._answers.popitem(last=False)
        return answer

    def supersede(self, page: str) -> None:
        """A page has moved on: none of its older questions is answered any more."""
        with self._free:
            for asks in [asks for asks in self._newest if asks[0] == page]:
                del self._newest[asks]
            self._stop([worker for worker in self._busy if worker.asks is not None and worker.asks[0] == page])

    def _stop(self, workers: list[_Worker]) -> None:
        """Ask workers to stop, and end those that do not; the caller holds the lock."""
        for worker in workers:
            with suppress(OSError):
                worker.pipe.send(None)
            late = threading.Timer(GRACE, self._end_late, (worker, worker.number))
            late.daemon = True
            late.start()
        self._free.notify_all()

    def _end_late(self, worker: _Worker, number: int) -> None:
        with self._free:
            late = worker in self._busy and worker.number == number
        if late:
            worker.process.terminate()

    def _take(self, job: str, asks: tuple[str, str], number: int, until: float) -> _Worker:
        """Wait for a worker; long work leaves one of them free for short questions."""
        with self._free:
            while True:
                if self._newest.get(asks) != number:
                    raise Stopped
                if len(self._idle) > (0 if job == "report" else 1 if self._count > 1 else 0) and not self._closed:
                    worker = self._idle.pop()
                    worker.asks, worker.number = asks, number
                    self._busy.append(worker)
                    return worker
                left = until - time.monotonic()
                if left <= 0.0 or self._closed:
                    raise OneheadError("the explorer is busy with other pages; try again in a moment.")
                self._free.wait(left)

    def _converse(self, worker: _Worker, number: int, question: tuple[str, Any], until: float, limit: float) -> Any:
        try:
            worker.pipe.send((number, *question))
            while worker.pipe.poll(max(0.0, until - time.monotonic())):
                answered, answer = worker.pipe.recv()
                if answered == number:
                    return answer
            why = f"no answer within {limit:g} s; fewer tokens, a larger weight decay or another alpha are quicker."
        except (EOFError, OSError):
            why = "the worker was ended while it solved this; turn a knob to try again."
        end(worker.process)
        raise OneheadError(why)

    def _give_back(self, worker: _Worker) -> None:
        with self._free:
            self._busy.remove(worker)
            closed = self._closed
        if closed:
            return
        if not worker.process.is_alive():
            worker.pipe.close()
            worker = _worker()
        worker.asks = None
        with self._free:
            self._idle.append(worker)
            self._free.notify_all()

    def close(self) -> None:
        """End every worker."""
        with self._free:
            self._closed = True
            everyone = [*self._idle, *self._busy]
            self._free.notify_all()
        for worker in everyone:
            end(worker.process)
