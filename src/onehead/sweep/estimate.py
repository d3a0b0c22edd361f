"""How long a sweep will take, from a few of its points."""

import time
from dataclasses import dataclass
from itertools import islice

import numpy as np

from onehead.numerics.interrupts import check
from onehead.sweep.solve import solve_point
from onehead.sweep.spec import Spec

__all__ = ["Estimate", "estimate"]

TRIED = 5
PATIENCE = 10.0  # seconds to spend on trying


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Points of a sweep and the seconds one takes: the mean and the slowest of those tried."""

    points: int
    tried: int
    seconds_per_point: float
    slowest: float
    failed: tuple[str, ...]

    @property
    def seconds(self) -> float:
        """All points in one process."""
        return self.points * self.seconds_per_point


def estimate(spec: Spec) -> Estimate:
    """Solve a few points spread evenly over the sweep and time them; nothing is kept."""
    call, total = spec.solver, len(spec)
    chosen = sorted({round(at) for at in np.linspace(0, total - 1, min(TRIED, total))})
    durations: list[float] = []
    failed: list[str] = []
    start = time.monotonic()
    points = spec.points()
    last = -1
    for at in chosen:
        point = next(islice(points, at - last - 1, None))
        last = at
        outcome = solve_point(call, point)
        if at == chosen[0] and outcome.duration < PATIENCE / 2:
            outcome = solve_point(call, point)  # the first solve of a process also loads the kernels
        check()
        durations.append(outcome.duration)
        failed += [outcome.reason] if outcome.reason is not None else []
        if time.monotonic() - start > PATIENCE:
            break
    return Estimate(
        points=total,
        tried=len(durations),
        seconds_per_point=float(np.mean(durations)),
        slowest=max(durations),
        failed=tuple(failed),
    )
