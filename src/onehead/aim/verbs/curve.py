"""Learning curves: many sample ratios, each started from its neighbour, on all cores."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onehead.aim.task import Learner, Task, check_alpha
from onehead.aim.verbs.bayes import BestCurve, bayes_curve, check_beside
from onehead.aim.verbs.predict import Prediction, predict
from onehead.aim.verbs.tune import best_decay
from onehead.aim.words import posed
from onehead.arguments import number, numbers, optional
from onehead.best import WithBest
from onehead.errors import InvalidArgument, SolveError
from onehead.numerics.parallel import walk_chains
from onehead.results import INTERRUPTED, NoAnswer

__all__ = ["Curve", "Failure", "curve"]

STRETCHES = 8
DECAY = "weight_decay"


@dataclass(frozen=True, kw_only=True)
class Failure(NoAnswer):
    """A point of a curve that could not be solved, with the reason."""

    _EMPTY: ClassVar[tuple[str, ...]] = (
        "alpha", "test_error", "test_error_clean", "train_loss", "rank", "q", "m", "sigma", "q_hat", "m_hat", "sigma_hat",
        "residual",
    )  # fmt: skip

    alpha: float


@dataclass(frozen=True, kw_only=True)
class Curve(WithBest[Prediction, Failure]):
    """A learning curve: points in the order of the sample ratios asked for.

    ``best`` is the best possible learner at each, if asked; its numbers are columns too, ``bayes_test_error`` and the like. So is
    the ``weight_decay``, which a ``tuned`` curve has chosen at every point.
    """

    _SHOWN: ClassVar[tuple[str, ...]] = ("alpha", "test_error", "train_loss", "rank", "status")
    _BESIDE: ClassVar[tuple[str, ...]] = ("test_error", "overlap")

    task: Task
    learner: Learner
    points: tuple[Prediction | Failure, ...]
    tuned: bool = False
    best: BestCurve | None = None

    def column(self, name: str) -> NDArray[np.float64]:
        """One quantity along the points; not a number where a point failed, or does not have it."""
        if name == DECAY:
            return np.array([self._decay(point) for point in self.points], dtype=float)  # None is not a number
        return super().column(name)

    def _decay(self, point: Prediction | Failure) -> float | None:
        return point.learner.decay if isinstance(point, Prediction) else None

    def _rows(self) -> list[dict[str, Any]]:
        rows = super()._rows()
        if not self.tuned:
            return rows
        return [row | {DECAY: self._decay(point)} for row, point in zip(rows, self.points, strict=True)]


@posed(alphas=numbers(single=True), accuracy=optional(number(above=0.0)))
def curve(
    task: Task,
    learner: Learner,
    alphas: Sequence[float] | NDArray[np.float64],
    *,
    tuned: bool = False,
    bayes: bool = False,
    accuracy: float | None = None,
    progress: Callable[[], None] | None = None,
) -> Curve:
    """Predict a learning curve by continuation in α, from many samples to few.

    Each core takes one stretch of neighbouring sample ratios. A point that fails is a row with a reason; the others stay.
    Ctrl-C ends the work and returns the points solved so far, the missing ones as rows that say so.

    Parameters
    ----------
    task : Task
    learner : Learner
    alphas : sequence of float
        Sample ratios α = n/d², in any order; the points come back in the same order.
    tuned : bool
        Use the best weight decay at every point, found at the first of each stretch and followed from there.
    bayes : bool
        Lay the best possible learner beside every point.
    accuracy : float, optional
        Wanted error of the test error, relative, as in `predict`.
    progress : callable, optional
        Called once for every finished point.

    Examples
    --------
    >>> from onehead.aim import Learner, Task, curve
    >>> found = curve(Task(), Learner(), alphas=[0.5, 1.0])
    >>> [round(float(e), 3) for e in found.column("test_error")]
    [0.136, 0.102]
    """
    ratios = [check_alpha(float(alpha)) for alpha in np.atleast_1d(alphas)]
    if not ratios:
        raise InvalidArgument("alphas", list(alphas), "at least one sample ratio")
    order = sorted(range(len(ratios)), key=lambda i: -ratios[i])
    # short enough to share the hard part; their number is fixed, so that the answer does not depend on that of the threads
    stretch = max(1, int(np.ceil(len(order) / STRETCHES)))
    stretches = [order[i : i + stretch] for i in range(0, len(order), stretch)]

    def step(i: int, near: Prediction | None) -> tuple[Prediction | Failure, Prediction | None]:
        try:
            solve = best_decay if tuned else predict
            point = solve(task, learner, ratios[i], near=near, accuracy=accuracy)
        except SolveError as failure:
            return Failure(alpha=ratios[i], reason=str(failure)), near
        return point, point

    if bayes:
        check_beside(task, learner)
    best = bayes_curve(task, ratios) if bayes else None  # first, because it may be refused
    points = walk_chains(step, stretches, progress)
    return Curve(
        task=task,
        learner=learner,
        points=tuple(points.get(i, Failure(alpha=ratio, reason=INTERRUPTED)) for i, ratio in enumerate(ratios)),
        tuned=tuned,
        best=best,
    )
