"""How long a quick answer may take."""

import time
from collections.abc import Callable

__all__ = ["stopwatch"]


def stopwatch(seconds: float) -> Callable[[], bool]:
    """Whether this thread has worked for so long, or twice as long has passed on the wall.

    Work is what counts: on a busy machine a picture is late rather than incomplete.
    """
    work, wall = time.thread_time() + seconds, time.monotonic() + 2.0 * seconds
    return lambda: time.thread_time() > work or time.monotonic() > wall
