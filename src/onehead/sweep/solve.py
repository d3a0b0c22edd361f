"""Solving points, wherever that happens: the same few lines inline, in a local process and on a cluster."""

import json
import os
import time
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.errors import OneheadError
from onehead.numerics.interrupts import entire
from onehead.results import plain
from onehead.sweep.calls import call_named
from onehead.sweep.calls.base import Call
from onehead.sweep.keys import Point
from onehead.sweep.version import NUMERICAL

__all__ = ["PINNED", "Outcome", "pin_threads", "solve_chunk", "solve_point"]

# every worker is one of many: a point uses one thread
PINNED = dict.fromkeys(
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
    """The answer of a point as it travels to the writer: its row as JSON, its arrays, or the reason of its failure."""

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
        """A row with a reason and no numbers."""
        return cls(key, None, {}, "failed", None, residual, reason, duration)


def solve_point(call: Call, point: Point) -> Outcome:
    """Solve one point on its own, never from a neighbour, so that its bits do not depend on where it runs.

    Its words were checked when the point was made, and are those that its problem gave back.
    """
    clock = time.perf_counter()
    try:
        with entire():  # half an answer is not a point
            found = call.prepare(point.parameters).solve(_seed(point))
        row = plain(found.row)
        results = json.dumps(row, allow_nan=False)
    except OneheadError as failure:
        residual = plain(getattr(failure, "residual", None))
        return Outcome.failed(point.key, str(failure), time.perf_counter() - clock, residual)
    except Exception as failure:  # a bug in one point must not end the others
        reason = f"{type(failure).__name__}: {failure}"
        return Outcome.failed(point.key, reason, time.perf_counter() - clock)
    status, kind, residual = (row.get(name) for name in ("status", "kind", "residual"))
    return Outcome(point.key, results, found.arrays, status, kind, residual, None, time.perf_counter() - clock)


def _seed(point: Point) -> int:
    """The root of a point's random numbers; repeats of a seed draw fresh ones."""
    if point.seed is None:
        return 0
    if point.repeat == 0:
        return point.seed
    return int(np.random.SeedSequence((point.seed, point.repeat)).generate_state(1)[0])


def solve_chunk(name: str, points: Sequence[Point], numerical: str) -> list[Outcome]:
    """Solve several points on a worker of a cluster, one thread each."""
    if numerical != NUMERICAL:
        raise RuntimeError(f"the worker has numerical version {NUMERICAL}, the sweep {numerical}: install one onehead")
    pin_threads()
    call = call_named(name, own=True)
    return [solve_point(call, point) for point in points]


@cache
def pin_threads() -> None:
    """Leave one thread to this process: kernels, BLAS and everything built on them."""
    os.environ.update(PINNED)
    from threadpoolctl import threadpool_limits  # noqa: PLC0415

    threadpool_limits(limits=1)
