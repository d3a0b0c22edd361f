"""The driver: hands points to an executor and writes what comes back, in that order and nobody else."""

from collections.abc import Callable

from onehead.errors import InvalidArgument
from onehead.numerics.interrupts import heard
from onehead.sweep.executors import Executor
from onehead.sweep.executors.feed import Feed
from onehead.sweep.failures import PointFailed
from onehead.sweep.spec import Spec
from onehead.sweep.store import Counts, Store

__all__ = ["drive"]

Progress = Callable[[Counts], None]


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
    the first failed point ends the sweep; everything finished is kept.
    """
    if on_error not in ("keep", "stop"):
        raise InvalidArgument("on_error", on_error, "keep or stop")
    sweep = store.begin(spec.call, spec.points(), retry=retry)
    counts = store.counts(sweep)
    if progress is not None:
        progress(counts)
    feed = Feed(store.missing(sweep), counts.missing, goal=executor.goal, size=spec.run.get("chunk"))
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
    return sweep
