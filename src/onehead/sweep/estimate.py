"""How long a sweep will take, from a few of its points."""

import time
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np

from onehead.numerics.interrupts import check
from onehead.sweep.calls.base import Call
from onehead.sweep.keys import Point
from onehead.sweep.solve import Outcome, solve_point
from onehead.sweep.spec import Spec

__all__ = ["Estimate", "estimate"]

TRIED = 5
PATIENCE = 10.0  # seconds to spend on trying
FIRST = 100  # dimension of the first training that is tried in the place of a larger one
LARGER = 1.5  # times that of the one before, of each next one


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Points of a sweep and the seconds one takes: the mean and the slowest of those tried.

    Trainings that would take too long are tried in a smaller dimension, ``tried_dim``, and continued from there.
    """

    points: int
    tried: int
    seconds_per_point: float
    slowest: float
    failed: tuple[str, ...]
    tried_dim: int | None = None

    @property
    def seconds(self) -> float:
        """All points in one process."""
        return self.points * self.seconds_per_point

    def seconds_on(self, workers: int) -> float:
        """All points on several processes; a point is not divided."""
        return max(self.seconds / workers, self.seconds_per_point)


def estimate(spec: Spec) -> Estimate:
    """Solve a few points spread evenly over the sweep and time them; nothing is kept."""
    call, total = spec.solver, len(spec)
    chosen = sorted({round(at) for at in np.linspace(0, total - 1, min(TRIED, total))})
    trials: list[_Trial] = []
    start = time.monotonic()
    points = spec.points()
    last = -1
    for at in chosen:
        point = next(islice(points, at - last - 1, None))
        last = at
        trials.append(_tried(call, point, cold=at == chosen[0]))
        if time.monotonic() - start > PATIENCE:
            break
    seconds, smaller = [trial.seconds for trial in trials], [trial.dim for trial in trials if trial.dim is not None]
    return Estimate(
        points=total,
        tried=len(trials),
        seconds_per_point=float(np.mean(seconds)),
        slowest=max(seconds),
        failed=tuple(trial.failed for trial in trials if trial.failed is not None),
        tried_dim=min(smaller) if smaller else None,
    )


class _Trial(NamedTuple):
    """Seconds that a point takes, why it fails, and the dimension it was tried in, if that was smaller than its own."""

    seconds: float
    failed: str | None
    dim: int | None = None


def _tried(call: Call, point: Point, *, cold: bool) -> _Trial:
    """Solve a point; in the place of a large training smaller ones, as large as patience allows."""
    own, size = point.parameters.get("dim") or 0, FIRST
    while call.growth and size < own:
        outcome = _solved(call, point._replace(parameters={**point.parameters, "dim": size}), cold=cold)
        cold = False
        if outcome.reason is not None:  # a target that has a dimension of its own
            break
        if outcome.duration * LARGER**call.growth > PATIENCE:
            return _Trial(outcome.duration * (own / size) ** call.growth, None, size)
        size = round(LARGER * size)
    outcome = _solved(call, point, cold=cold)
    return _Trial(outcome.duration, outcome.reason)


def _solved(call: Call, point: Point, *, cold: bool) -> Outcome:
    """Solve a point; twice, where the first time would also be that of loading the kernels."""
    outcome = solve_point(call, point)
    if cold and outcome.duration < PATIENCE / 2:
        outcome = solve_point(call, point)
    check()
    return outcome
