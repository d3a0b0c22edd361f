"""The Python door: a call, its axes, a table back."""

from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any

from onehead.sweep.executors import Executor, executor_named
from onehead.sweep.run import drive
from onehead.sweep.spec import Spec
from onehead.sweep.store import Counts, Store
from onehead.sweep.table import Table

__all__ = ["sweep"]


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
        "inline", "local" (processes), the address of a Dask scheduler, or an executor.
    workers : int, optional
        Processes of "local"; all cores if not given.
    retry : bool
        Solve failed points of the store again.
    on_error : {"keep", "stop"}
        Keep a failed point as a row with a reason and go on, or stop at the first.
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
    spec = Spec(call=call, axes=axes, fixed=fixed or {}, seeds=seeds, repeats=repeats, own=True)
    executor = executor_named(on, workers=workers) if isinstance(on, str) else on
    with Store.writing(store) as opened:
        number = drive(spec, opened, executor, retry=retry, on_error=on_error, progress=_steps(progress))
        return Table(list(opened.rows(number)), opened.arrays.get)


def _steps(progress: Callable[[], None] | None) -> Callable[[Counts], None] | None:
    """Turn counts into one call per point finished since the last."""
    if progress is None:
        return None
    seen: list[int] = []

    def step(counts: Counts) -> None:
        finished = counts.done + counts.failed
        for _ in range(finished - seen[-1] if seen else 0):
            progress()
        seen[:] = [finished]

    return step
