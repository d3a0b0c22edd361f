"""Ctrl-C that is never lost.

Python tells of Ctrl-C by an exception that may be raised anywhere, also on the way into compiled code. There it can vanish, or
come out as another error. Who promises to stop on Ctrl-C therefore works inside `heard` and asks `check` after every step.

A verb with many points answers Ctrl-C by returning those it has. Who needs all of them asks within `entire`; who shows what
there is compares `presses` before and after.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["check", "entire", "heard", "presses"]

_pressed = threading.Event()  # Ctrl-C was pressed, and nobody has seen the exception yet
_presses: list[int] = []  # one entry for every Ctrl-C of this process


def _remember(number: int, frame: Any) -> None:
    _pressed.set()
    _presses.append(number)
    signal.default_int_handler(number, frame)


@contextmanager
def heard() -> Iterator[None]:
    """Remember Ctrl-C while this block runs, and give back its true name to an error that it became.

    Blocks may be nested. Threads other than the main one, and programs with a way of their own to treat Ctrl-C, are left alone.

    Examples
    --------
    >>> with heard():
    ...     check()  # nobody pressed anything
    """
    handler = signal.getsignal(signal.SIGINT)
    outermost = handler is signal.default_int_handler and threading.current_thread() is threading.main_thread()
    if outermost:
        _pressed.clear()
        signal.signal(signal.SIGINT, _remember)
    try:
        yield
    except KeyboardInterrupt:
        _pressed.clear()
        raise
    except Exception:  # on its way through compiled code it has become many things
        check()
        raise
    finally:
        if outermost:
            signal.signal(signal.SIGINT, handler)


def check() -> None:
    """Raise the exception of a Ctrl-C that nobody has seen; in the main thread, where Python raises it too."""
    if _pressed.is_set() and threading.current_thread() is threading.main_thread():
        _pressed.clear()
        raise KeyboardInterrupt


def presses() -> int:
    """How often Ctrl-C was pressed in a `heard` block of this process, whatever became of it.

    Examples
    --------
    >>> presses() >= 0
    True
    """
    return len(_presses)


@contextmanager
def entire() -> Iterator[None]:
    """A block whose answers must be whole: raise the exception again that somebody in it answered with a part of them.

    Ctrl-C whose exception nobody saw has cut nothing short; it is left to `check`.

    Examples
    --------
    >>> with entire():
    ...     pass  # nobody pressed anything
    """
    before = presses()
    try:
        yield
    finally:
        if presses() > before and not _pressed.is_set():
            raise KeyboardInterrupt
