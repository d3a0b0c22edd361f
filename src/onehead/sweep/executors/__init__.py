"""Where points are solved: one interface, and the places there are, each registered once with what it needs.

An executor is given a call and a feed of points, and yields batches of answers as they arrive. It never writes: the
driver does, and asks for the next batch only after the last one is on disk.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from onehead.errors import InvalidArgument
from onehead.fields import word
from onehead.problem import Problem
from onehead.sweep.executors.dask import Dask, Scheduler
from onehead.sweep.executors.feed import Feed
from onehead.sweep.executors.inline import Inline
from onehead.sweep.executors.local import Local, Workers
from onehead.sweep.executors.slurm import Jobs, Slurm
from onehead.sweep.settings import Nothing
from onehead.sweep.solve import Outcome
from onehead.sweep.spec import MOST, POINTS

__all__ = ["PLACES", "Executor", "Inline", "Local", "Place", "Run", "executor_named"]


class Executor(Protocol):
    """A place where points are solved."""

    goal: float  # seconds of work in one chunk

    def run(self, call: str, feed: Feed) -> Iterator[list[Outcome]]:
        """Solve every point of the feed; closing the iterator stops the work."""
        ...


class Place(NamedTuple):
    """An executor and the words it needs."""

    executor: Callable[..., Executor]
    needs: type[Problem]


PLACES = {
    "inline": Place(Inline, Nothing),
    "local": Place(Local, Workers),
    "dask": Place(Dask, Scheduler),
    "slurm": Place(Slurm, Jobs),
}


class Run(Problem):
    """Where the points of a sweep file are solved, and how they are handed out."""

    on: str = word("inline", "", "Where to solve.", choices=tuple(PLACES))
    chunk: int | None = word(None, "", "Points in one chunk; found by itself if left out.", ge=1)
    limit: int = word(POINTS, "", "Points that a sweep may have; more are refused before any work.", ge=1, le=MOST)


def executor_named(on: str, **asked: Any) -> Executor:
    """The executor a word stands for: inline, local, dask, slurm, or the address of a Dask scheduler.

    Each takes the words it needs (``workers`` of local, ``address`` of dask, ``partition``, ``time``, ``cores``,
    ``memory`` and ``jobs`` of slurm) and leaves the others alone.

    Examples
    --------
    >>> type(executor_named("inline")).__name__, executor_named("local", workers=2).count
    ('Inline', 2)
    """
    if "://" in on:
        on, asked = "dask", {"address": on}
    if on not in PLACES:
        allowed = f"{', '.join(PLACES)}, or the address of a Dask scheduler such as tcp://127.0.0.1:8786"
        raise InvalidArgument("on", on, allowed)
    place = PLACES[on]
    return place.executor(**{name: asked[name] for name in place.needs.model_fields if asked.get(name) is not None})
