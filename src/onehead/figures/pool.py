"""Processes that outlive a sweep: a figure makes several short ones, and starting workers for each would cost more."""

import multiprocessing
import signal
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool

from onehead.errors import OneheadError
from onehead.sweep.feed import Feed
from onehead.sweep.solve import Outcome, solve_chunk
from onehead.sweep.version import NUMERICAL

__all__ = ["Pool"]


class Pool:
    """An executor of sweeps with worker processes of its own, one thread each; use it in a ``with`` block."""

    goal = 0.2

    def __init__(self, workers: int) -> None:
        self.count = workers
        self._before = {child.pid for child in multiprocessing.active_children()}
        # a fresh interpreter: a forked copy of a process with threads may hang
        self._pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_deaf)

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *_: object) -> None:
        """End the workers at once, also in the middle of a point."""
        workers = [child for child in multiprocessing.active_children() if child.pid not in self._before]
        self._pool.shutdown(wait=False, cancel_futures=True)
        for child in workers:
            child.kill()
        for child in workers:
            child.join()

    def run(self, call: str, feed: Feed) -> Iterator[list[Outcome]]:
        """Solve every point of the feed."""
        running: set[Future[list[Outcome]]] = set()
        try:
            while True:
                while len(running) < self.count and (chunk := feed.take(self.count)):
                    running.add(self._pool.submit(solve_chunk, call, chunk, NUMERICAL))
                if not running:
                    return
                done, running = wait(running, return_when=FIRST_COMPLETED)
                found = [outcome for future in done for outcome in future.result()]
                feed.learn(found)
                yield found
        except BrokenProcessPool:
            raise OneheadError(
                "a worker process died; every finished point is kept, run the same command again."
            ) from None
        finally:
            for future in running:
                future.cancel()


def _deaf() -> None:
    """Ctrl-C is for the driver, which then ends its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
