"""The one way to run a sweep, from Python, from the shell and for figures: points in, rows in a store."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from typing import Any

from onehead.errors import InvalidArgument
from onehead.numerics.interrupts import heard
from onehead.sweep.executors import Executor, Run, executor_named
from onehead.sweep.executors.feed import Feed
from onehead.sweep.failures import PointFailed, PointsMissing
from onehead.sweep.spec import POINTS, Spec
from onehead.sweep.store import Counts, Store
from onehead.sweep.table import Table

__all__ = ["drive", "executor_for", "solved", "sweep"]

Progress = Callable[[Counts], None]


def sweep(
    call: str,
    axes: Mapping[Any, Any],
    *,
    fixed: Mapping[str, Any] | None = None,
    seeds: Any = None,
    repeats: int = 1,
    store: str | PathLike[str] | None = None,
    on: str | Executor = "inline",
    workers: int | None = None,
    retry: bool = False,
    on_error: str = "keep",
    limit: int = POINTS,
    progress: Callable[[], None] | None = None,
) -> Table:
    """Solve every combination of some axes and return one tidy row per point.

    Parameters
    ----------
    call : str
        "aim.predict", "aim.train", "sparse.predict", ... (see `onehead.sweep.CALLS`).
    axes : mapping
        Word to values: a list, one value, or a range as on the command line, such as "0.05:2:46". A tuple of words with
        a list of tuples moves them together.
    fixed : mapping, optional
        Words that do not change; what is not given has its default.
    seeds : int or list of int, optional
        Roots of the random numbers, for calls that draw at random; an integer n stands for 0 .. n-1.
    repeats : int
        How often each seed is repeated with fresh random numbers.
    store : path, optional
        File that keeps every finished point; what it holds already is not solved again. Without it, memory.
    on : str or Executor
        "inline", "local" (processes), "slurm", the address of a Dask scheduler, or an executor (see `executor_named`).
    workers : int, optional
        Processes of "local"; all cores if not given.
    retry : bool
        Solve failed points of the store again.
    on_error : {"keep", "stop"}
        Keep a failed point as a row with a reason and go on, or stop at the first.
    limit : int
        Points that the sweep may have; more are refused before any work.
    progress : callable, optional
        Called once for every finished point.

    Returns
    -------
    Table
        Rows in the order of the points. Ctrl-C leaves every finished point in the store.

    Examples
    --------
    >>> import onehead
    >>> table = onehead.sweep("sparse.align", {"alpha0": "0.5:2:4"}, fixed={"strength": 4.0})
    >>> len(table), [round(float(c), 3) for c in table.column("cos_query")]
    (4, [0.541, 0.753, 0.842, 0.887])
    """
    spec = Spec(call=call, axes=axes, fixed=fixed or {}, seeds=seeds, repeats=repeats, own=True, limit=limit)
    told = _steps(progress)
    with solved(spec, store, on=on, workers=workers, retry=retry, on_error=on_error, progress=told) as (opened, number):
        return opened.table(number)


@contextmanager
def solved(
    spec: Spec,
    store: str | PathLike[str] | None = None,
    *,
    on: str | Executor | None = None,
    retry: bool = False,
    on_error: str = "keep",
    progress: Progress | None = None,
    **needs: Any,
) -> Iterator[tuple[Store, int]]:
    """Solve what is missing of a sweep, and hand over the open store and the number of the sweep in it.

    ``progress`` is called with the counts at the start and after every batch that is on disk; for ``on`` and ``needs`` see
    `executor_for`.
    """
    executor = executor_for(spec, on, **needs)
    with Store.writing(store) as opened:
        yield opened, drive(spec, opened, executor, retry=retry, on_error=on_error, progress=progress)


def drive(
    spec: Spec,
    store: Store,
    executor: Executor,
    *,
    retry: bool = False,
    on_error: str = "keep",
    progress: Progress | None = None,
) -> int:
    """Solve what is missing of a sweep and return its number in the store.

    ``progress`` is called with the counts at the start and after every batch that is on disk. With ``on_error="stop"``
    the first failed point ends the sweep; everything finished is kept. When this returns, no point is missing.
    """
    if on_error not in ("keep", "stop"):
        raise InvalidArgument("on_error", on_error, "keep or stop")
    chunk = Run(chunk=spec.run.get("chunk")).chunk
    sweep = store.begin(spec.call, spec.points(), retry=retry)
    counts = store.counts(sweep)
    if progress is not None:
        progress(counts)
    feed = Feed(store.missing(sweep), counts.missing, goal=executor.goal, size=chunk)
    batches = executor.run(spec.call, feed)
    try:
        with heard():
            for outcomes in batches:
                try:
                    store.save(outcomes)
                except KeyboardInterrupt:  # what is finished is kept; saving twice changes nothing
                    store.save(outcomes)
                    raise
                failed = [outcome for outcome in outcomes if outcome.reason is not None]
                counts = Counts(
                    done=counts.done + len(outcomes) - len(failed),
                    failed=counts.failed + len(failed),
                    missing=counts.missing - len(outcomes),
                )
                if progress is not None:
                    progress(counts)
                if failed and on_error == "stop":
                    raise PointFailed(f"stopped at the first failed point: {failed[0].reason}")
    finally:
        close = getattr(batches, "close", None)
        if close is not None:
            close()  # ends workers before the store is closed
    left = counts.total - store.counts(sweep).finished
    if left:
        raise PointsMissing(f"{left} of {counts.total} points are missing; run the same sweep again to go on.")
    return sweep


def executor_for(spec: Spec, on: str | Executor | None = None, **needs: Any) -> Executor:
    """Where a sweep is solved: what is asked for, else what its file says, else in this process."""
    if on is not None and not isinstance(on, str):
        return on
    asked = {name: value for name, value in needs.items() if value is not None}
    words = {"on": "dask" if "address" in asked else "inline", **spec.run, **spec.slurm, **asked}
    said = words.pop("on")
    return executor_named(on or said, **words)


def _steps(progress: Callable[[], None] | None) -> Progress | None:
    """Turn counts into one call per point finished since the last."""
    if progress is None:
        return None
    seen: list[int] = []

    def step(counts: Counts) -> None:
        finished = counts.finished
        for _ in range(finished - seen[-1] if seen else 0):
            progress()
        seen[:] = [finished]

    return step
