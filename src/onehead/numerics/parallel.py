"""Threads for compiled kernels that release the interpreter lock; results do not depend on the number of threads."""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import lru_cache
from typing import TypeVar

from onehead.numerics.interrupts import raise_if_interrupted, record_interrupts
from onehead.numerics.progress import Progress, counter

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Start = TypeVar("Start")


def threads() -> int:
    """Number of threads to use: ``ONEHEAD_THREADS`` if set, else `cores`."""
    setting = os.environ.get("ONEHEAD_THREADS", "")
    if setting.isdigit():
        return max(1, int(setting))
    return cores()


def cores() -> int:
    """Number of cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@lru_cache(maxsize=4)
def _pool(workers: int, name: str, process: int) -> ThreadPoolExecutor:
    # threads do not survive a fork: the process number is part of the cache key
    return ThreadPoolExecutor(workers, thread_name_prefix=name)


def thread_map(function: Callable[[Item], Answer], items: Sequence[Item], *, level: str = "kernel") -> list[Answer]:
    """Apply a function to every item on all threads, and return the answers in the order of the items.

    ``level`` names the pool: work that itself uses threads must not wait in the pool it uses.
    """
    workers = min(threads(), len(items))
    if workers <= 1:
        return [function(item) for item in items]
    pool = _pool(threads(), level, os.getpid())
    # each task has its own copy of the context variables, as if it were called here
    futures = [pool.submit(copy_context().run, function, item) for item in items]
    try:
        return [future.result() for future in futures]
    except BaseException:  # also after Ctrl-C, tasks that have not begun must not keep the program alive
        for future in futures:
            future.cancel()
        raise


def map_chains(
    step: Callable[[Item, Start | None], tuple[Answer, Start | None]],
    chains: Sequence[Sequence[Item]],
    progress: Progress = None,
    *,
    title: str = "points",
) -> dict[Item, Answer]:
    """Solve chains of items: chains in parallel, the items of a chain in order, each starting from the one before.

    Parameters
    ----------
    step : callable
        Takes an item and the start that the previous item of the chain left (None for the first), and returns its
        answer and the start for the next item.
    chains : sequence of sequences
        Items; each must be hashable.
    progress : callable or True, optional
        Called after every item; True for a line on the terminal.
    title : str
        What the items are, in messages about progress.

    Returns
    -------
    dict
        Answers by item. After Ctrl-C those of the items solved so far.
    """
    answers: dict[Item, Answer] = {}
    stop = threading.Event()
    finished = counter(progress, title, sum(map(len, chains)))

    def solve_chain(chain: Sequence[Item]) -> None:
        start: Start | None = None
        for item in chain:
            if stop.is_set():
                return
            answers[item], start = step(item, start)
            raise_if_interrupted()
            finished()

    try:
        with record_interrupts():
            thread_map(solve_chain, chains, level="curve")
    except KeyboardInterrupt:
        stop.set()
    return answers
