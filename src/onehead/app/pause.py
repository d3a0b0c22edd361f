"""Long work of the explorer asks between two points whether anyone still wants it."""

from collections.abc import Callable

__all__ = ["Stopped", "on_pause", "pause"]


class Stopped(Exception):
    """The page has moved on: nobody waits for this answer."""


_wanted: list[Callable[[], bool]] = [lambda: True]


def on_pause(wanted: Callable[[], bool]) -> None:
    """Say how to find out whether the answer is still wanted; by default it always is."""
    _wanted[0] = wanted


def pause() -> None:
    """Go on, or stop here.

    Examples
    --------
    >>> pause()
    """
    if not _wanted[0]():
        raise Stopped
