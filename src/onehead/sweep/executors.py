"""Where points are solved: one interface, four places.

An executor is given a call and a feed of points, and yields batches of answers as they arrive. It never writes: the
driver does, and asks for the next batch only after the last one is on disk.
"""

import time
from collections.abc import Iterator
from typing import Protocol

from onehead.errors import InvalidArgument
from onehead.numerics.interrupts import check
from onehead.sweep.calls import call_named
from onehead.sweep.feed import Feed
from onehead.sweep.solve import Outcome, solve_point

__all__ = ["PLACES", "Executor", "Inline", "executor_named"]

PLACES = ("inline", "local", "dask", "slurm")
FLUSH = 0.2  # seconds: an answer waits no longer than this for its neighbours


class Executor(Protocol):
    """A place where points are solved."""

    goal: float  # seconds of work in one chunk

    def run(self, call: str, feed: Feed) -> Iterator[list[Outcome]]:
        """Solve every point of the feed; closing the iterator stops the work."""
        ...


class Inline:
    """In this process, one point after the other."""

    goal = FLUSH

    def run(self, call: str, feed: Feed) -> Iterator[list[Outcome]]:
        """Solve every point of the feed."""
        solver = call_named(call, own=True)
        ready: list[Outcome] = []
        clock = time.monotonic()
        try:
            while chunk := feed.take():
                for point in chunk:
                    found = solve_point(solver, point)
                    if found.reason is not None:
                        check()  # no failure of the point: Ctrl-C, which compiled code turned into an error
                    ready.append(found)
                    check()
                    if ready[-1].reason is not None or time.monotonic() - clock > FLUSH:
                        feed.learn(ready)
                        yield ready
                        ready, clock = [], time.monotonic()
                feed.learn(ready)
        except KeyboardInterrupt:
            if ready:
                yield ready  # finished before Ctrl-C
            raise
        if ready:
            yield ready


def executor_named(on: str, *, workers: int | None = None) -> Executor:
    """The executor a word stands for: ``inline``, ``local``, or the address of a Dask scheduler.

    Examples
    --------
    >>> type(executor_named("inline")).__name__
    'Inline'
    """
    if on == "inline":
        return Inline()
    if on == "local":
        from onehead.sweep.local import Local  # noqa: PLC0415

        return Local(workers)
    if "://" in on:
        from onehead.sweep.dask import Dask  # noqa: PLC0415

        return Dask(on)
    raise InvalidArgument("on", on, "inline, local, or the address of a Dask scheduler such as tcp://127.0.0.1:8786")
