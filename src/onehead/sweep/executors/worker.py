"""A local worker process: reads chunks of points from a pipe, sends outcomes back, and ends when the driver is gone."""

import os
import queue
import sys
import threading
import time
from multiprocessing.connection import Connection
from typing import Any

BATCH_SECONDS = 0.2  # longest time that an outcome waits for others before the batch is sent


def main(handle: int) -> None:
    """Solve the chunks that one driver sends through the pipe with this file descriptor."""
    pipe: Connection[Any, Any] = Connection(handle)
    call_name, path = pipe.recv()
    sys.path[:] = path  # functions of the user are found where the driver found them
    from onehead.sweep.registry import call_named  # after the path is set
    from onehead.sweep.solve import pin_threads, solve_point

    pin_threads()
    call_named(call_name, own=True)  # fails here, before anything is solved, if the call cannot be imported
    pipe.send(None)
    chunks: queue.SimpleQueue[tuple[str, list[Any]]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(pipe, chunks), daemon=True).start()
    while True:
        ready, clock = [], time.monotonic()
        name, points = chunks.get()
        call = call_named(name, own=True)
        for point in points:
            ready.append(solve_point(call, point))
            if time.monotonic() - clock > BATCH_SECONDS:
                pipe.send(ready)
                ready, clock = [], time.monotonic()
        if ready:
            pipe.send(ready)


def _listen(pipe: "Connection[Any, Any]", chunks: "queue.SimpleQueue[tuple[str, list[Any]]]") -> None:
    """Move chunks from the pipe to the queue; end the process when the driver has closed the pipe."""
    while True:
        try:
            chunks.put(pipe.recv())
        except (EOFError, OSError):
            os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
