"""Solving one point, in the same way inline, in a local process and on a cluster."""

import json
import os
import time
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.approximation import without_approximation_warnings
from onehead.errors import OneheadError
from onehead.numerics.interrupts import require_complete
from onehead.results import plain
from onehead.sweep.registry import call_named
from onehead.sweep.registry.base import Call
from onehead.sweep.storage.keys import Point
from onehead.sweep.storage.version import NUMERICAL

# environment of a worker process: it is one of many, so each uses one thread
SINGLE_THREAD_ENVIRONMENT = dict.fromkeys(
    (
        "ONEHEAD_THREADS",
        "OPENBLAS_NUM_THREADS",
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
        "NUMBA_NUM_THREADS",
    ),
    "1",
)


class Outcome(NamedTuple):
    """Outcome of a point, as it is sent to the driver: its row as JSON and its arrays, or the reason of its failure."""

    key: str
    results: str | None
    arrays: dict[str, NDArray[Any]]
    status: str | None
    kind: str | None
    residual: float | None
    reason: str | None
    duration: float

    @classmethod
    def failed(cls, key: str, reason: str, duration: float = 0.0, residual: float | None = None) -> "Outcome":
        """Outcome of a point that failed, with a reason and no numbers."""
        return cls(key, None, {}, "failed", None, residual, reason, duration)


def solve_point(call: Call, point: Point) -> Outcome:
    """Solve one point on its own, never started from a neighbour, so that its bits do not depend on where it runs.

    The parameters of a point were validated when it was made, so they are not checked again. An error becomes a
    failed outcome.
    """
    clock = time.perf_counter()
    try:
        with without_approximation_warnings(), require_complete():  # an answer cut short by Ctrl-C is not stored
            found = call.build(point.parameters).solve(_seed(point))
        row = plain(found.row)
        results = json.dumps(row, allow_nan=False)
    except OneheadError as error:
        residual = plain(getattr(error, "residual", None))
        return Outcome.failed(point.key, str(error), time.perf_counter() - clock, residual)
    except Exception as error:  # a bug in one point must not end the sweep
        reason = f"{type(error).__name__}: {error}"
        return Outcome.failed(point.key, reason, time.perf_counter() - clock)
    status, kind, residual = (row.get(name) for name in ("status", "kind", "residual"))
    return Outcome(point.key, results, found.arrays, status, kind, residual, None, time.perf_counter() - clock)


def _seed(point: Point) -> int:
    """Seed of the random numbers of a point; each repeat of a seed has fresh ones."""
    if point.seed is None:
        return 0
    if point.repeat == 0:
        return point.seed
    return int(np.random.SeedSequence((point.seed, point.repeat)).generate_state(1)[0])


def solve_chunk(name: str, points: Sequence[Point], numerical: str) -> list[Outcome]:
    """Solve several points with one thread, on a worker of a cluster that must have the same numerical version."""
    if numerical != NUMERICAL:
        raise RuntimeError(f"the worker has numerical version {NUMERICAL}, the sweep {numerical}: install one onehead")
    pin_threads()
    call = call_named(name, own=True)
    return [solve_point(call, point) for point in points]


@cache
def pin_threads() -> None:
    """Restrict this process to one thread, in our kernels and in BLAS."""
    os.environ.update(SINGLE_THREAD_ENVIRONMENT)
    from threadpoolctl import threadpool_limits

    threadpool_limits(limits=1)
