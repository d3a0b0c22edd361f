"""Executor that solves points in this process, one after another."""

import time
from collections.abc import Iterator

from onehead.numerics.interrupts import raise_if_interrupted
from onehead.sweep.executors.chunking import PointQueue
from onehead.sweep.registry import call_named
from onehead.sweep.solve import Outcome, solve_point

BATCH_SECONDS = 0.2  # longest time that an outcome waits for others before the batch is yielded


class Inline:
    """Executor that solves points in this process, one after another.

    Examples
    --------
    >>> import onehead
    >>> len(onehead.sweep("sparse.align", {"alpha0": [1.0, 2.0]}, on=onehead.sweep.Inline()))
    2
    """

    goal = BATCH_SECONDS

    def run(self, call: str, points: PointQueue) -> Iterator[list[Outcome]]:
        """Solve every point of the queue."""
        solver = call_named(call, own=True)
        ready: list[Outcome] = []
        clock = time.monotonic()
        try:
            while chunk := points.take():
                for point in chunk:
                    outcome = solve_point(solver, point)
                    if outcome.reason is not None:
                        # compiled code may have turned Ctrl-C into an error of the point
                        raise_if_interrupted()
                    ready.append(outcome)
                    raise_if_interrupted()
                    if outcome.reason is not None or time.monotonic() - clock > BATCH_SECONDS:
                        points.record_durations(ready)
                        yield ready
                        ready, clock = [], time.monotonic()
                points.record_durations(ready)
        except KeyboardInterrupt:
            if ready:
                yield ready  # finished before Ctrl-C
            raise
        if ready:
            yield ready
