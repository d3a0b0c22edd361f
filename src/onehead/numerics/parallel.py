"""Threads for compiled kernels that release the interpreter lock; the result never depends on their number."""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TypeVar

from onehead.numerics.interrupts import check, heard

__all__ = ["cores", "thread_map", "threads", "walk_chains"]

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Near = TypeVar("Near")


def threads() -> int:
    """Threads to use: ``ONEHEAD_THREADS`` if set, else the cores this process may run on."""
    wish = os.environ.get("ONEHEAD_THREADS", "")
    if wish.isdigit():
        return max(1, int(wish))
    return cores()


def cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@lru_cache(maxsize=4)
def _pool(workers: int, name: str, process: int) -> ThreadPoolExecutor:
    # the process number is part of the key: threads do not survive a fork
    return ThreadPoolExecutor(workers, thread_name_prefix=name)


def thread_map(function: Callable[[Item], Answer], items: Sequence[Item], *, level: str = "kernel") -> list[Answer]:
    """Apply a function to every item on all threads, answers in the order of the items.

    ``level`` names the pool: work that itself uses threads must not wait in the pool it uses.
    """
    workers = min(threads(), len(items))
    if workers <= 1:
        return [function(item) for item in items]
    futures = [_pool(threads(), level, os.getpid()).submit(function, item) for item in items]
    try:
        return [future.result() for future in futures]
    except BaseException:  # Ctrl-C included: what has not begun must not keep the program alive
        for future in futures:
            future.cancel()
        raise


def walk_chains(
    step: Callable[[Item, Near | None], tuple[Answer, Near | None]],
    chains: Sequence[Sequence[Item]],
    progress: Callable[[], None] | None = None,
) -> dict[Item, Answer]:
    """Answer every item of every chain, chains side by side, each item with what the one before it left for its neighbour.

    Ctrl-C ends the work and returns the answers there are.
    """
    found: dict[Item, Answer] = {}
    stop = threading.Event()

    def walk(chain: Sequence[Item]) -> None:
        near: Near | None = None
        for item in chain:
            if stop.is_set():
                return
            found[item], near = step(item, near)
            check()
            if progress is not None:
                progress()

    try:
        with heard():
            thread_map(walk, chains, level="curve")
    except KeyboardInterrupt:
        stop.set()
    return found
