"""Progress of long computations: a function of the caller, a line on the terminal, and messages for `logging`."""

import logging
import sys
import threading
from collections.abc import Callable
from time import perf_counter

LOGGER = logging.getLogger("onehead")
LOG_SECONDS = 5.0  # between two messages about the same computation, and before the first
LINE_SECONDS = 0.2  # between two updates of the line on the terminal

Progress = Callable[[], None] | bool | None  # a function called at every step, True for a line on the terminal


def counter(progress: Progress, title: str, total: int) -> Callable[[], None]:
    """Return a function to call after every step of a computation with ``total`` steps.

    It calls ``progress``, or writes a line on standard error if that is True. Computations of more than some seconds
    also log messages of level INFO to the logger ``onehead``.

    Examples
    --------
    >>> done = []
    >>> step = counter(lambda: done.append("step"), "points", 2)
    >>> step(), step(), done
    (None, None, ['step', 'step'])
    """
    started = logged = shown = perf_counter()
    count, lock = 0, threading.Lock()

    def step() -> None:
        nonlocal count, logged, shown
        with lock:
            count += 1
            now = perf_counter()
            left = (now - started) * (total - count) / count
            text = f"{title}: {count} of {total}, " + (f"about {left:.0f} s left" if count < total else "finished")
            if now - logged > LOG_SECONDS:
                logged = now
                LOGGER.info("%s", text)
            if progress is True and (now - shown > LINE_SECONDS or count == total):
                shown = now
                sys.stderr.write(f"\r{text}\x1b[K" + ("\n" if count == total else ""))
                sys.stderr.flush()
        if callable(progress):
            progress()

    return step
