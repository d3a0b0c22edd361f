"""Reliable handling of Ctrl-C around compiled code.

Python reports Ctrl-C by an exception that can be raised anywhere, also on the way into compiled code, where it may be
lost or turned into another exception. Code that must stop on Ctrl-C therefore runs inside `record_interrupts` and calls
`raise_if_interrupted` after every step.

A function with many points handles Ctrl-C by returning the points it has. A caller that needs all of them uses
`require_complete`; a caller that accepts some of them compares `interrupt_count` before and after.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_pending = threading.Event()  # set by Ctrl-C until its exception has been handled
_interrupts: list[int] = []  # one entry per Ctrl-C of this process


def _record(number: int, frame: Any) -> None:
    _pending.set()
    _interrupts.append(number)
    signal.default_int_handler(number, frame)


@contextmanager
def record_interrupts() -> Iterator[None]:
    """Record Ctrl-C during a block, and re-raise as KeyboardInterrupt an exception that a swallowed Ctrl-C turned into.

    Blocks may be nested. Threads other than the main one, and programs with a signal handler of their own, are not
    affected.

    Examples
    --------
    >>> with record_interrupts():
    ...     raise_if_interrupted()  # Ctrl-C was not pressed
    """
    handler = signal.getsignal(signal.SIGINT)
    outermost = handler is signal.default_int_handler and threading.current_thread() is threading.main_thread()
    if outermost:
        _pending.clear()
        signal.signal(signal.SIGINT, _record)
    try:
        yield
    except KeyboardInterrupt:
        _pending.clear()
        raise
    except Exception:  # compiled code may have replaced the exception of Ctrl-C by any other
        raise_if_interrupted()
        raise
    finally:
        if outermost:
            signal.signal(signal.SIGINT, handler)


def raise_if_interrupted() -> None:
    """Raise KeyboardInterrupt, in the main thread only, if Ctrl-C was pressed and its exception was lost."""
    if _pending.is_set() and threading.current_thread() is threading.main_thread():
        _pending.clear()
        raise KeyboardInterrupt


def interrupt_count() -> int:
    """Return how often Ctrl-C was pressed inside a `record_interrupts` block of this process.

    Examples
    --------
    >>> interrupt_count() >= 0
    True
    """
    return len(_interrupts)


@contextmanager
def require_complete() -> Iterator[None]:
    """Raise KeyboardInterrupt at the end of a block in which Ctrl-C made a function return an incomplete answer.

    A Ctrl-C whose exception was lost has cut nothing short; it is left to `raise_if_interrupted`.

    Examples
    --------
    >>> with require_complete():
    ...     pass  # Ctrl-C was not pressed
    """
    before = interrupt_count()
    try:
        yield
    finally:
        if interrupt_count() > before and not _pending.is_set():
            raise KeyboardInterrupt
