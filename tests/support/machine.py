"""How busy the machine is, so that tests wait longer where other programs run."""

import os
import time
from functools import cache

import numpy as np

USUAL_SECONDS = 0.3  # of the computation of `_slowness` on an idle core of the machine on which limits were chosen
LONGEST_WAIT = 300.0  # seconds


@cache
def _slowness() -> float:
    """Time of a small fixed computation in units of its usual time; measured once, also sees a slow processor."""
    matrix = np.full((150, 150), 1.0 / 150)
    start = time.perf_counter()
    for _ in range(200):
        np.linalg.eigvalsh(matrix)
    return (time.perf_counter() - start) / USUAL_SECONDS


def machine_factor() -> float:
    """Return how much longer than usual things take: measured slowness or processes per core, at least 1."""
    waiting = os.getloadavg()[0] / (os.cpu_count() or 1) if hasattr(os, "getloadavg") else 1.0
    return max(1.0, _slowness(), waiting)


def scaled_seconds(seconds: float) -> float:
    """Return a time limit for this machine: ``seconds`` times `machine_factor`, at most five minutes."""
    return min(seconds * machine_factor(), max(seconds, LONGEST_WAIT))
