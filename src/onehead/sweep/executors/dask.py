"""Workers of any Dask cluster: streamed, re-submitted when lost, never gathered at the end."""

import logging
import queue
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from onehead.errors import InvalidArgument, MissingExtra
from onehead.fields import word
from onehead.problem import Problem
from onehead.sweep.executors.feed import Feed
from onehead.sweep.failures import LostScheduler, WorkersLost
from onehead.sweep.keys import Point
from onehead.sweep.solve import Outcome, solve_chunk
from onehead.sweep.version import NUMERICAL

__all__ = ["Dask", "Scheduler"]

POLL = 1.0  # seconds between two looks at the health of the connection
PATIENCE = 10.0  # seconds to find the scheduler, or to find it again
AHEAD = 2  # chunks per thread that the scheduler holds
ADDRESS = "the address of a running Dask scheduler, such as tcp://127.0.0.1:8786"
PLACE = re.compile(r"inproc://\S+|(?:\w+://)?(?:\[[0-9a-fA-F:.]+\]|[\w.-]+):\d{1,5}(?:/\S*)?", re.ASCII)
TASKS = 200.0  # tasks a second that a scheduler takes with ease: more workers get longer chunks


class Scheduler(Problem):
    """What a Dask cluster needs."""

    address: str = word(..., "", "Dask scheduler, for example tcp://127.0.0.1:8786.")


class Dask:
    """A Dask scheduler, by its address or by a cluster object.

    Parameters
    ----------
    address : str or cluster
        For example "tcp://10.0.0.1:8786".
    """

    goal = 0.5  # a task costs the scheduler a millisecond or two

    def __init__(self, address: Any = None) -> None:
        if address is None:
            raise InvalidArgument("address", None, f"given with dask: {ADDRESS}")
        if isinstance(address, str) and not PLACE.fullmatch(address):  # a client that was half made cannot be ended
            raise InvalidArgument("address", address, ADDRESS)
        self._address = address
        self._finished: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._chunks: dict[str, tuple[Any, list[Point]]] = {}
        self._counted, self._threads = float("-inf"), 0

    def run(self, call: str, feed: Feed) -> Iterator[list[Outcome]]:
        """Solve every point of the feed."""
        with self._connected() as client:
            while True:
                self._submit(client, call, feed)
                if not self._chunks:
                    return
                found = self._collect(client, feed)
                if found:
                    feed.learn(found)
                    yield found

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """A client for the time of the run; losing the scheduler is said in one sentence."""
        try:
            make: Any = import_module("distributed").Client  # two seconds; only who asks for a cluster pays
        except ImportError:
            raise MissingExtra("distributed", "cluster") from None
        talk = logging.getLogger("distributed")  # it would say in many lines what we say in one
        level = talk.level
        talk.setLevel(logging.CRITICAL)
        try:
            client = make(self._address, timeout=PATIENCE, set_as_default=False)
        except (OSError, TimeoutError) as failure:
            talk.setLevel(level)
            raise InvalidArgument("address", str(self._address), ADDRESS) from failure
        try:
            yield client
        finally:
            with suppress(Exception):  # a scheduler that is gone must not hide why we stop
                client.cancel([future for future, _ in self._chunks.values()], force=True)
            self._chunks.clear()
            with suppress(Exception):
                client.close(timeout=2)
            talk.setLevel(level)

    def _submit(self, client: Any, call: str, feed: Feed) -> None:
        """Keep a few chunks per thread with the scheduler."""
        threads = self._count(client)
        feed.goal = max(self.goal, threads / TASKS)
        while feed.left > 0 and len(self._chunks) < AHEAD * max(1, threads):
            chunk = feed.take(max(1, threads))
            if not chunk:
                return
            future = client.submit(solve_chunk, call, chunk, NUMERICAL, pure=False)
            self._chunks[future.key] = future, chunk
            future.add_done_callback(self._finished.put)

    def _count(self, client: Any) -> int:
        """Threads of all workers; the scheduler is asked once in a while."""
        now = time.monotonic()
        if now - self._counted > POLL:
            try:
                workers = client.scheduler_info(n_workers=-1)["workers"]
            except (OSError, TimeoutError) as failure:
                raise self._lost(failure) from None
            self._counted, self._threads = now, sum(int(worker["nthreads"]) for worker in workers.values())
        return self._threads

    def _collect(self, client: Any, feed: Feed) -> list[Outcome]:
        """Wait for the next finished chunks and fetch them together."""
        futures = []
        try:
            futures.append(self._finished.get(timeout=POLL))
            while True:
                futures.append(self._finished.get_nowait())
        except queue.Empty:
            pass
        if not futures:
            self._check(client)
            return []
        found: list[Outcome] = []
        done = [future for future in futures if future.status == "finished"]
        for future, outcomes in zip(done, self._fetched(client, done), strict=True):
            self._chunks.pop(future.key)
            found += outcomes
            future.release()  # the answer is ours now; the worker need not keep it
        for future in futures:
            if future.status not in ("finished", "pending"):
                found += self._rescue(client, future, feed)
        return found

    def _fetched(self, client: Any, futures: list[Any]) -> list[list[Outcome]]:
        """Answers of finished chunks; a worker that dies meanwhile has its chunk solved again by the scheduler."""
        if not futures:
            return []
        try:
            answers: list[list[Outcome]] = client.gather(futures)
        except (OSError, TimeoutError) as failure:
            raise self._lost(failure) from None
        return answers

    def _rescue(self, client: Any, future: Any, feed: Feed) -> list[Outcome]:
        """A chunk without an answer: its points go out again one by one, a single one that killed its workers fails."""
        _, chunk = self._chunks.pop(future.key, (None, []))
        if future.status == "error":
            failure = future.exception()
            if type(failure).__name__ != "KilledWorker":
                raise WorkersLost(f"a worker cannot solve points: {failure}.")
            if len(chunk) == 1:
                return [Outcome.failed(chunk[0].key, f"its worker process died again and again: {failure}")]
        self._check(client)
        feed.give_back(chunk)
        return []

    def _check(self, client: Any) -> None:
        """Raise when the scheduler is gone."""
        deadline = time.monotonic() + PATIENCE
        while client.status in ("connecting", "newly-created"):
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)
        if client.status != "running":
            raise self._lost(client.status)

    def _lost(self, reason: object) -> LostScheduler:
        address = self._address if isinstance(self._address, str) else "of the cluster"
        return LostScheduler(
            f"the scheduler {address} is gone ({reason}); every point counted so far is kept, "
            "start it again and run the same command."
        )
