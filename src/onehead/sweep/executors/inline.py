"""In this process, one point after the other."""

import time
from collections.abc import Iterator

from onehead.numerics.interrupts import check
from onehead.sweep.calls import call_named
from onehead.sweep.executors.feed import Feed
from onehead.sweep.solve import Outcome, solve_point

__all__ = ["Inline"]

FLUSH = 0.2  # seconds: an answer waits no longer than this for its neighbours


class Inline:
    """In this process, one point after the other."""

    goal = FLUSH

    def run(self, call: str, feed: Feed) -> Iterator[list[Outcome]]:
        """Solve every point of the feed."""
        solver = call_named(call, own=True)
        ready: list[Outcome] = []
        clock = time.monotonic()
        try:
            while chunk := feed.take():
                for point in chunk:
                    found = solve_point(solver, point)
                    if found.reason is not None:
                        check()  # no failure of the point: Ctrl-C, which compiled code turned into an error
                    ready.append(found)
                    check()
                    if ready[-1].reason is not None or time.monotonic() - clock > FLUSH:
                        feed.learn(ready)
                        yield ready
                        ready, clock = [], time.monotonic()
                feed.learn(ready)
        except KeyboardInterrupt:
            if ready:
                yield ready  # finished before Ctrl-C
            raise
        if ready:
            yield ready
