"""Ctrl-C that is never lost.

Python tells of Ctrl-C by an exception that may be raised anywhere, also on the way into compiled code. There it can vanish, or
come out as another error. Who promises to stop on Ctrl-C therefore works inside `heard` and asks `check` after every step.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["check", "heard"]

# what the exception has been seen to become on its way through compiled code
DISGUISES = (SystemError, TypeError)

_pressed = threading.Event()  # Ctrl-C was pressed, and nobody has seen the exception yet


def _remember(number: int, frame: Any) -> None:
    _pressed.set()
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
    except DISGUISES:
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
