"""Executors: where the points of a sweep are solved, each registered once with the settings it takes.

An executor is given a call and a queue of points, and yields batches of outcomes as they arrive. It never writes to
the store: `onehead.sweep.drive` does, and asks for the next batch only after the last one is on disk.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from onehead.errors import InvalidArgument
from onehead.fields import parameter
from onehead.problem import Problem
from onehead.sweep.executors.chunking import PointQueue
from onehead.sweep.executors.dask import Dask, DaskSettings
from onehead.sweep.executors.inline import Inline
from onehead.sweep.executors.local import Local, LocalSettings
from onehead.sweep.executors.slurm import Slurm, SlurmSettings
from onehead.sweep.settings import NoSettings
from onehead.sweep.solve import Outcome
from onehead.sweep.spec import DEFAULT_POINT_LIMIT, MAX_POINT_LIMIT

__all__ = ["EXECUTORS", "Executor", "ExecutorEntry", "Inline", "Local", "RunSettings", "executor_named"]


class Executor(Protocol):
    """Interface of the objects that solve points: an attribute ``goal`` and a method ``run``.

    Parameters
    ----------
    goal : float
        Seconds of work that one chunk of points should hold.

    Examples
    --------
    >>> from onehead.sweep import Executor, Inline
    >>> executor: Executor = Inline()
    >>> executor.goal
    0.2
    """

    goal: float

    def run(self, call: str, points: PointQueue, /) -> Iterator[list[Outcome]]:
        """Solve every point of the queue and yield the outcomes in batches; closing the iterator stops the work."""
        ...


class ExecutorEntry(NamedTuple):
    """An executor class and the settings it takes."""

    executor: Callable[..., Executor]
    settings: type[Problem]


EXECUTORS = {
    "inline": ExecutorEntry(Inline, NoSettings),
    "local": ExecutorEntry(Local, LocalSettings),
    "dask": ExecutorEntry(Dask, DaskSettings),
    "slurm": ExecutorEntry(Slurm, SlurmSettings),
}


class RunSettings(Problem):
    """Settings of the ``[run]`` section of a sweep file that every executor shares."""

    on: str = parameter("inline", "", "Where to solve the points.", choices=tuple(EXECUTORS))
    chunk: int | None = parameter(None, "", "Points in one chunk; chosen automatically if left out.", ge=1)
    limit: int = parameter(
        DEFAULT_POINT_LIMIT,
        "",
        "Largest number of points; a larger sweep is refused before any work.",
        ge=1,
        le=MAX_POINT_LIMIT,
    )


def executor_named(on: str, **settings: Any) -> Executor:
    """Make an executor from its name.

    Parameters
    ----------
    on : str
        "inline", "local", "dask", "slurm", or the address of a Dask scheduler.
    **settings
        ``workers`` of local, ``address`` of dask, ``partition``, ``time``, ``cores``, ``memory`` and ``jobs`` of
        slurm. Settings that the executor does not take are ignored.

    Returns
    -------
    Executor
        An executor for `onehead.sweep` or `drive`.

    Raises
    ------
    InvalidArgument
        If the name is unknown or a setting is not allowed.

    Examples
    --------
    >>> type(executor_named("inline")).__name__, executor_named("local", workers=2).count
    ('Inline', 2)
    """
    if "://" in on:
        on, settings = "dask", {"address": on}
    if on not in EXECUTORS:
        allowed = f"{', '.join(EXECUTORS)}, or the address of a Dask scheduler such as tcp://127.0.0.1:8786"
        raise InvalidArgument("on", on, allowed)
    entry = EXECUTORS[on]
    taken = entry.settings.model_fields
    return entry.executor(**{name: settings[name] for name in taken if settings.get(name) is not None})
