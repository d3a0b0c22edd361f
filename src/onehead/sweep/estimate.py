"""Estimate of the duration of a sweep, from a few of its points."""

import time
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np

from onehead.numerics.interrupts import raise_if_interrupted
from onehead.sweep.registry.base import Call
from onehead.sweep.solve import Outcome, solve_point
from onehead.sweep.spec import Spec
from onehead.sweep.storage.keys import Point

TRIAL_POINTS = 5
TRIAL_SECONDS = 10.0  # time to spend on trial points
FIRST_TRIAL_DIM = 100  # dimension of the first training that is tried in place of a larger one
TRIAL_DIM_FACTOR = 1.5  # ratio of the dimensions of successive trials


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Number of points of a sweep, and mean and largest duration of the points that were tried.

    Trainings that would take too long are tried in smaller dimensions and extrapolated from the largest, ``tried_dim``.
    """

    points: int
    tried: int
    seconds_per_point: float
    slowest: float
    failed: tuple[str, ...]
    tried_dim: int | None = None

    @property
    def seconds(self) -> float:
        """Estimated duration of all points in one process."""
        return self.points * self.seconds_per_point

    def seconds_on(self, workers: int) -> float:
        """Estimated duration of all points on several processes; a single point runs in one process."""
        return max(self.seconds / workers, self.seconds_per_point)


def estimate(spec: Spec) -> Estimate:
    """Solve a few points spread evenly over the sweep and time them; nothing is stored."""
    call, total = spec.solver, len(spec)
    positions = sorted({round(at) for at in np.linspace(0, total - 1, min(TRIAL_POINTS, total))})
    trials: list[_Trial] = []
    start = time.monotonic()
    points = spec.points()
    last = -1
    for at in positions:
        point = next(islice(points, at - last - 1, None))
        last = at
        trials.append(_trial(call, point, first=at == positions[0]))
        if time.monotonic() - start > TRIAL_SECONDS:
            break
    seconds = [trial.seconds for trial in trials]
    smaller_dims = [trial.dim for trial in trials if trial.dim is not None]
    return Estimate(
        points=total,
        tried=len(trials),
        seconds_per_point=float(np.mean(seconds)),
        slowest=max(seconds),
        failed=tuple(trial.failed for trial in trials if trial.failed is not None),
        tried_dim=min(smaller_dims) if smaller_dims else None,
    )


class _Trial(NamedTuple):
    """Duration of a point, the reason if it fails, and the dimension of the trial if that was smaller."""

    seconds: float
    failed: str | None
    dim: int | None = None


def _trial(call: Call, point: Point, *, first: bool) -> _Trial:
    """Time a point; a large training is extrapolated from smaller ones, as large as the time for trials allows."""
    own_dim, dim = point.parameters.get("dim") or 0, FIRST_TRIAL_DIM
    while call.growth and dim < own_dim:
        outcome = _solve_warm(call, point._replace(parameters={**point.parameters, "dim": dim}), first=first)
        first = False
        if outcome.reason is not None:  # the target fixes the dimension
            break
        if outcome.duration * TRIAL_DIM_FACTOR**call.growth > TRIAL_SECONDS:
            return _Trial(outcome.duration * (own_dim / dim) ** call.growth, None, dim)
        dim = round(TRIAL_DIM_FACTOR * dim)
    outcome = _solve_warm(call, point, first=first)
    return _Trial(outcome.duration, outcome.reason)


def _solve_warm(call: Call, point: Point, *, first: bool) -> Outcome:
    """Solve a point; the first point is solved twice, because its first duration includes loading the kernels."""
    outcome = solve_point(call, point)
    if first and outcome.duration < TRIAL_SECONDS / 2:
        outcome = solve_point(call, point)
    raise_if_interrupted()
    return outcome
