"""A local worker process: reads chunks of points from a pipe, sends answers back, ends when the driver is gone."""

import os
import queue
import sys
import threading
import time
from multiprocessing.connection import Connection
from typing import Any

__all__ = ["main"]

FLUSH = 0.2  # seconds between two messages at most, when there is something to say


def main(handle: int) -> None:
    """Serve one driver."""
    pipe: Connection[Any, Any] = Connection(handle)
    call_name, path = pipe.recv()
    sys.path[:] = path  # a call of the driver's own is found where the driver found it
    from onehead.sweep.calls import call_named  # noqa: PLC0415  (after the path is set)
    from onehead.sweep.solve import pin_threads, solve_point  # noqa: PLC0415

    pin_threads()
    call_named(call_name, own=True)  # a call that cannot be found here is told before anything is solved
    pipe.send(None)
    chunks: queue.SimpleQueue[tuple[str, list[Any]]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(pipe, chunks), daemon=True).start()
    while True:
        ready, clock = [], time.monotonic()
        name, points = chunks.get()
        call = call_named(name, own=True)
        for point in points:
            ready.append(solve_point(call, point))
            if time.monotonic() - clock > FLUSH:
                pipe.send(ready)
                ready, clock = [], time.monotonic()
        if ready:
            pipe.send(ready)


def _listen(pipe: "Connection[Any, Any]", chunks: "queue.SimpleQueue[tuple[str, list[Any]]]") -> None:
    """Take chunks from the pipe; when the driver is gone there is nobody left to work for."""
    while True:
        try:
            chunks.put(pipe.recv())
        except (EOFError, OSError):
            os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
