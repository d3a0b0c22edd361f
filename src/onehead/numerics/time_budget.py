"""Time limits of computations that may stop early."""

import time
from collections.abc import Callable


def stopwatch(seconds: float) -> Callable[[], bool]:
    """Start a time limit, and return a function that says whether it is exceeded.

    The CPU time of this thread is limited to ``seconds`` and wall time to twice that, so that a busy machine makes an
    answer late rather than incomplete.
    """
    cpu_end, wall_end = time.thread_time() + seconds, time.monotonic() + 2.0 * seconds
    return lambda: time.thread_time() > cpu_end or time.monotonic() > wall_end
