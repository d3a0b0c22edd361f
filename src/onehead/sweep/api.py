"""Running a sweep, from Python, from the shell and for figures: points in, rows in a store."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from typing import Any

from onehead.errors import InvalidArgument
from onehead.numerics.interrupts import record_interrupts
from onehead.sweep.errors import PointFailed, PointsMissing
from onehead.sweep.executors import Executor, RunSettings, executor_named
from onehead.sweep.executors.chunking import PointQueue
from onehead.sweep.spec import DEFAULT_POINT_LIMIT, Spec
from onehead.sweep.storage.store import Counts, Store
from onehead.sweep.table import Table

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
    limit: int = DEFAULT_POINT_LIMIT,
    progress: Callable[[], None] | None = None,
) -> Table:
    """Solve every combination of some axes and return one tidy row per point.

    Parameters
    ----------
    call : str
        "aim.predict", "aim.train", "sparse.predict", ... (see `onehead.sweep.CALLS`).
    axes : mapping
        From the name of a parameter to its values: a list, one value, or a range as on the command line, such as
        "0.05:2:46". A tuple of names with a list of tuples varies several parameters together.
    fixed : mapping, optional
        Parameters that do not change; those not given have their defaults.
    seeds : int or list of int, optional
        Seeds, for calls that use random numbers; an integer n stands for 0 .. n-1.
    repeats : int
        How often each seed is repeated with fresh random numbers.
    store : path, optional
        File that keeps every finished point; points it holds already are not solved again. Without it the rows are
        kept in memory only.
    on : str or Executor
        "inline", "local" (processes), "slurm", the address of a Dask scheduler, or an executor (see `executor_named`).
    workers : int, optional
        Number of processes of "local"; all cores if not given.
    retry : bool
        Whether to solve failed points of the store again.
    on_error : {"keep", "stop"}
        Keep a failed point as a row with a reason and go on, or stop at the first failure.
    limit : int
        Largest number of points; a larger sweep is refused before any work.
    progress : callable, optional
        Called once for every finished point.

    Returns
    -------
    Table
        Rows in the order of the points. After Ctrl-C every finished point is in the store.

    Raises
    ------
    InvalidArgument
        If a name or a value is not allowed, or the store cannot be used; nothing is solved then.
    PointFailed
        If a point fails and ``on_error`` is "stop".
    OneheadError
        If the store, the workers or the scheduler fail while points are solved; finished points are kept.

    Examples
    --------
    >>> import onehead
    >>> table = onehead.sweep("sparse.align", {"alpha0": "0.5:2:4"}, fixed={"strength": 4.0})
    >>> len(table), [round(float(c), 3) for c in table.column("cos_query")]
    (4, [0.541, 0.753, 0.842, 0.887])
    """
    spec = Spec(call=call, axes=axes, fixed=fixed or {}, seeds=seeds, repeats=repeats, own=True, limit=limit)
    settings: dict[str, Any] = {"on": on, "workers": workers, "retry": retry, "on_error": on_error}
    with solved_sweep(spec, store, progress=_per_point(progress), **settings) as (opened, number):
        return opened.table(number)


@contextmanager
def solved_sweep(
    spec: Spec,
    store: str | PathLike[str] | None = None,
    *,
    on: str | Executor | None = None,
    retry: bool = False,
    on_error: str = "keep",
    progress: Progress | None = None,
    **settings: Any,
) -> Iterator[tuple[Store, int]]:
    """Context manager that solves the missing points of a sweep and gives the open store and the sweep's number in it.

    ``progress`` is called with the counts at the start and after every batch on disk; ``on`` and ``settings``
    choose the executor, as in `executor_for`.
    """
    executor = executor_for(spec, on, **settings)
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
    """Solve the missing points of a sweep with an executor, and write the answers to a store.

    Parameters
    ----------
    spec : Spec
        The sweep.
    store : Store
        A store that is open for writing.
    executor : Executor
        Where points are solved (see `executor_named`).
    retry : bool
        Whether to solve failed points of the store again.
    on_error : {"keep", "stop"}
        Keep a failed point as a row with a reason and go on, or stop at the first failure.
    progress : callable, optional
        Called with the `Counts` of the sweep at the start and after every batch on disk.

    Returns
    -------
    int
        Number of the sweep in the store; no point of it is missing.

    Raises
    ------
    PointFailed
        If a point fails and ``on_error`` is "stop"; finished points are kept.
    PointsMissing
        If the executor ended before every point had an answer.

    Examples
    --------
    >>> from onehead.sweep import Inline, Spec, Store, drive
    >>> with Store.writing(None) as store:
    ...     number = drive(Spec(call="sparse.align", axes={"alpha0": [1.0, 2.0]}), store, Inline())
    ...     print(store.counts(number))
    Counts(done=2, failed=0, missing=0)
    """
    if on_error not in ("keep", "stop"):
        raise InvalidArgument("on_error", on_error, "keep or stop")
    chunk = RunSettings(chunk=spec.run.get("chunk")).chunk
    sweep = store.begin(spec.call, spec.points(), retry=retry)
    counts = store.counts(sweep)
    if progress is not None:
        progress(counts)
    batches = executor.run(spec.call, PointQueue(store.missing(sweep), counts.missing, goal=executor.goal, size=chunk))
    try:
        with record_interrupts():
            for outcomes in batches:
                try:
                    store.save(outcomes)
                except KeyboardInterrupt:  # finished points are kept; saving twice changes nothing
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
            close()  # ends the workers before the store is closed
    unfinished = counts.total - store.verify(sweep).finished
    if unfinished:
        raise PointsMissing(f"{unfinished} of {counts.total} points are missing; run the same sweep again to go on.")
    return sweep


def executor_for(spec: Spec, on: str | Executor | None = None, **settings: Any) -> Executor:
    """Executor of a sweep: the one asked for by ``on`` and ``settings``, else that of its file, else `Inline`."""
    if on is not None and not isinstance(on, str):
        return on
    given = {name: value for name, value in settings.items() if value is not None}
    chosen = {"on": "dask" if "address" in given else "inline", **spec.run, **spec.slurm, **given}
    default = chosen.pop("on")
    return executor_named(on or default, **chosen)


def _per_point(progress: Callable[[], None] | None) -> Progress | None:
    """Function of counts that calls ``progress`` once for every point finished since its last call."""
    if progress is None:
        return None
    last: int | None = None

    def step(counts: Counts) -> None:
        nonlocal last
        for _ in range(0 if last is None else counts.finished - last):
            progress()
        last = counts.finished

    return step
