"""Executor on a Dask cluster: outcomes are streamed as they finish, and lost chunks are submitted again."""

import logging
import queue
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from onehead.errors import InvalidArgument, MissingExtra
from onehead.fields import parameter
from onehead.problem import Problem
from onehead.sweep.errors import LostScheduler, WorkersLost
from onehead.sweep.executors.chunking import PointQueue
from onehead.sweep.solve import Outcome, solve_chunk
from onehead.sweep.storage.keys import Point
from onehead.sweep.storage.version import NUMERICAL

POLL_SECONDS = 1.0  # interval between two checks of the connection and of the number of workers
CONNECT_SECONDS = 10.0  # time allowed for connecting, and for connecting again
CHUNKS_PER_THREAD = 2  # chunks that are submitted ahead for each thread of the cluster
MAX_TASKS_PER_SECOND = 200.0  # load that a scheduler takes easily; with more workers the chunks get longer
ADDRESS_ALLOWED = "the address of a running Dask scheduler, such as tcp://127.0.0.1:8786"
ADDRESS_PATTERN = re.compile(r"inproc://\S+|(?:\w+://)?(?:\[[0-9a-fA-F:.]+\]|[\w.-]+):\d{1,5}(?:/\S*)?", re.ASCII)


class DaskSettings(Problem):
    """Settings of the Dask executor."""

    address: str = parameter(..., "", "Address of a Dask scheduler, for example tcp://127.0.0.1:8786.")


class Dask:
    """Executor on a Dask cluster, given by the address of its scheduler or as a cluster object.

    Parameters
    ----------
    address : str or cluster
        For example "tcp://10.0.0.1:8786".
    """

    goal = 0.5  # long compared with the one or two milliseconds that a task costs the scheduler

    def __init__(self, address: Any = None) -> None:
        if address is None:
            raise InvalidArgument(
                "address",
                None,
                f"given with dask: {ADDRESS_ALLOWED} (the commands dask scheduler and dask worker start one); without "
                "a cluster, local uses all cores of this machine",
            )
        # checked before a client is made: one that fails half-way cannot be closed
        if isinstance(address, str) and not ADDRESS_PATTERN.fullmatch(address):
            raise InvalidArgument("address", address, ADDRESS_ALLOWED)
        self._address = address
        self._finished: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._chunks: dict[str, tuple[Any, list[Point]]] = {}
        self._counted_at, self._threads = float("-inf"), 0

    def run(self, call: str, points: PointQueue) -> Iterator[list[Outcome]]:
        """Solve every point of the queue."""
        with self._connect() as client:
            while True:
                self._submit(client, call, points)
                if not self._chunks:
                    return
                outcomes = self._collect(client, points)
                if outcomes:
                    points.record_durations(outcomes)
                    yield outcomes

    @contextmanager
    def _connect(self) -> Iterator[Any]:
        """Client for the duration of the run."""
        try:
            client_class: Any = import_module("distributed").Client  # takes two seconds, so only when it is needed
        except ImportError:
            raise MissingExtra("distributed", "cluster") from None
        logger = logging.getLogger("distributed")  # would repeat our one error message in many lines
        level = logger.level
        logger.setLevel(logging.CRITICAL)
        try:
            client = client_class(self._address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, TimeoutError) as error:
            logger.setLevel(level)
            raise InvalidArgument("address", str(self._address), ADDRESS_ALLOWED) from error
        try:
            yield client
        finally:
            with suppress(Exception):  # an error of a lost scheduler must not hide the error that ended the run
                client.cancel([future for future, _ in self._chunks.values()], force=True)
            self._chunks.clear()
            with suppress(Exception):
                client.close(timeout=2)
            logger.setLevel(level)

    def _submit(self, client: Any, call: str, points: PointQueue) -> None:
        """Submit chunks until the scheduler holds a few for each thread."""
        threads = self._count_threads(client)
        points.goal = max(self.goal, threads / MAX_TASKS_PER_SECOND)
        while points.remaining > 0 and len(self._chunks) < CHUNKS_PER_THREAD * max(1, threads):
            chunk = points.take(max(1, threads))
            if not chunk:
                return
            future = client.submit(solve_chunk, call, chunk, NUMERICAL, pure=False)
            self._chunks[future.key] = future, chunk
            future.add_done_callback(self._finished.put)

    def _count_threads(self, client: Any) -> int:
        """Number of threads of all workers, asked of the scheduler once per second."""
        now = time.monotonic()
        if now - self._counted_at > POLL_SECONDS:
            try:
                workers = client.scheduler_info(n_workers=-1)["workers"]
            except (OSError, TimeoutError) as error:
                raise self._lost_scheduler(error) from None
            self._counted_at, self._threads = now, sum(int(worker["nthreads"]) for worker in workers.values())
        return self._threads

    def _collect(self, client: Any, points: PointQueue) -> list[Outcome]:
        """Wait for the next finished chunks and fetch their outcomes together."""
        futures = []
        try:
            futures.append(self._finished.get(timeout=POLL_SECONDS))
            while True:
                futures.append(self._finished.get_nowait())
        except queue.Empty:
            pass
        if not futures:
            self._check_connection(client)
            return []
        outcomes: list[Outcome] = []
        done = [future for future in futures if future.status == "finished"]
        for future, solved in zip(done, self._gather(client, done), strict=True):
            self._chunks.pop(future.key)
            outcomes += solved
            future.release()  # frees the memory of the worker
        for future in futures:
            if future.status not in ("finished", "pending"):
                outcomes += self._resubmit(client, future, points)
        return outcomes

    def _gather(self, client: Any, futures: list[Any]) -> list[list[Outcome]]:
        """Outcomes of finished chunks; if a worker dies meanwhile, the scheduler has its chunk solved again."""
        if not futures:
            return []
        try:
            outcomes: list[list[Outcome]] = client.gather(futures)
        except (OSError, TimeoutError) as error:
            raise self._lost_scheduler(error) from None
        return outcomes

    def _resubmit(self, client: Any, future: Any, points: PointQueue) -> list[Outcome]:
        """Queue the points of a lost chunk again; a single point that killed its workers becomes a failed outcome."""
        _, chunk = self._chunks.pop(future.key, (None, []))
        if future.status == "error":
            error = future.exception()
            if type(error).__name__ != "KilledWorker":
                raise WorkersLost(f"a worker cannot solve points: {error}.")
            if len(chunk) == 1:
                return [Outcome.failed(chunk[0].key, f"its worker process died again and again: {error}")]
        self._check_connection(client)
        points.give_back(chunk)
        return []

    def _check_connection(self, client: Any) -> None:
        """Raise if the scheduler is gone."""
        deadline = time.monotonic() + CONNECT_SECONDS
        while client.status in ("connecting", "newly-created"):
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)
        if client.status != "running":
            raise self._lost_scheduler(client.status)

    def _lost_scheduler(self, reason: object) -> LostScheduler:
        address = self._address if isinstance(self._address, str) else "of the cluster"
        return LostScheduler(
            f"the scheduler {address} is gone ({reason}); every point counted so far is kept, "
            "start it again and run the same command."
        )
