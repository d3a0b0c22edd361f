"""curve(): predictions at many sample ratios, each started from its neighbour, on all cores."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onehead.aim.flat_parameters import validate_problem
from onehead.aim.task import Learner, Task, check_alpha
from onehead.aim.verbs.bayes import BestCurve, bayes_curve, check_bayes_comparison
from onehead.aim.verbs.predict import Prediction, predict
from onehead.aim.verbs.tune import best_decay
from onehead.errors import InvalidArgument, SolveError
from onehead.numerics.parallel import map_chains
from onehead.numerics.progress import Progress
from onehead.results import INTERRUPTED, Column, FailedPoint
from onehead.results.bayes_gap import CurveWithBayes
from onehead.validation import number, numbers, optional

CHAINS = 8  # chains of neighbouring sample ratios; fixed, so that results do not depend on the number of threads
DECAY = "weight_decay"


@dataclass(frozen=True, kw_only=True)
class Failure(FailedPoint):
    """Point of a curve that could not be solved, with the reason."""

    _EMPTY: ClassVar[tuple[str, ...]] = (
        "alpha", "test_error", "test_error_clean", "train_loss", "rank", "q", "m", "sigma", "q_hat", "m_hat",
        "sigma_hat", "residual",
    )  # fmt: skip

    alpha: float


@dataclass(frozen=True, kw_only=True)
class Curve(CurveWithBayes[Prediction, Failure]):
    """A learning curve: predictions in the order of the sample ratios asked for.

    Every number of a `Prediction` is a column, such as ``curve.test_error``; so is ``weight_decay``.

    Attributes
    ----------
    task, learner : Task, Learner
        The problem.
    points : tuple of Prediction or Failure
        One per sample ratio; a failed point has a reason.
    tuned : bool
        Whether every point has its own best weight decay.
    best : BestCurve or None
        The best possible learner at each sample ratio, if asked for; its numbers are the columns ``bayes_test_error``
        and ``bayes_overlap``.
    """

    _SUMMARY_FIELDS: ClassVar[tuple[str, ...]] = ("alpha", "test_error", "train_loss", "rank", "status")
    _PER_POINT: ClassVar[tuple[str, ...]] = ("points", "best")
    _BAYES_COLUMNS: ClassVar[tuple[str, ...]] = ("test_error", "overlap")

    task: Task
    learner: Learner
    points: tuple[Prediction | Failure, ...]
    tuned: bool = False
    best: BestCurve | None = None

    alpha = Column()
    test_error = Column()
    test_error_clean = Column()
    train_loss = Column()
    rank = Column()
    q = Column()
    m = Column()
    sigma = Column()
    q_hat = Column()
    m_hat = Column()
    sigma_hat = Column()
    test_loss = Column()
    test_cross_entropy = Column()
    zero_one_error = Column()
    excess_error = Column()
    spread = Column()
    threshold = Column()
    cut = Column()
    slope = Column()
    unasked_scale = Column()
    unasked_share = Column()
    weight_decay = Column()
    bayes_test_error = Column()
    bayes_overlap = Column()
    test_error_err = Column()
    test_error_clean_err = Column()
    test_loss_err = Column()
    test_cross_entropy_err = Column()
    excess_error_err = Column()
    train_loss_err = Column()
    rank_err = Column()
    q_err = Column()
    m_err = Column()
    sigma_err = Column()
    q_hat_err = Column()
    m_hat_err = Column()
    sigma_hat_err = Column()
    spread_err = Column()
    threshold_err = Column()
    slope_err = Column()

    def column(self, name: str) -> NDArray[np.float64]:
        """One quantity along the points, NaN where a point failed or does not have it."""
        if name == DECAY:
            return np.array([self._decay(point) for point in self.points], dtype=float)  # None becomes NaN
        return super().column(name)

    def _decay(self, point: Prediction | Failure) -> float | None:
        """Weight decay of a point, or None if it failed."""
        return point.learner.decay if isinstance(point, Prediction) else None

    def _rows(self) -> list[dict[str, Any]]:
        rows = super()._rows()
        if not self.tuned:
            return rows
        return [row | {DECAY: self._decay(point)} for row, point in zip(rows, self.points, strict=True)]


@validate_problem(alphas=numbers(single=True), accuracy=optional(number(above=0.0)))
def curve(
    task: Task,
    learner: Learner,
    alphas: Sequence[float] | NDArray[np.float64],
    *,
    tuned: bool = False,
    bayes: bool = False,
    accuracy: float | None = None,
    progress: Progress = None,
) -> Curve:
    """Predict a learning curve by continuation in α, from many samples to few.

    Each core takes chains of neighbouring sample ratios. A point that fails becomes a row with a reason; the others are
    kept. Ctrl-C ends the work and returns the points solved so far; the missing ones are rows that say so. A point with
    two tokens takes about 40 ms of one core, one of a tied head with three or more about a second; (L6) has a table.

    Parameters
    ----------
    task : Task
        What is learned.
    learner : Learner
        The head that learns it.
    alphas : sequence of float
        Sample ratios α = n/d², in any order; the points come back in the same order.
    tuned : bool
        Whether to use the best weight decay at every point.
    bayes : bool
        Whether to add the best possible learner at every point.
    accuracy : float, optional
        Wanted relative error of the test error, as in `predict`. Values above the default of 1e-4 save time with two
        tokens only. Smaller values cost more: 1e-5 took 3 times the time of the default with two tokens and 16 to 40
        times with three and five, where quadrature points are sampled.
    progress : callable or True, optional
        Called once for every finished point; True for a line on the terminal. Curves that take more than some seconds
        also log their progress with level INFO to the logger ``onehead``.

    Returns
    -------
    Curve
        One point per sample ratio.

    Raises
    ------
    InvalidArgument
        If an argument is not allowed.

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
    length = max(1, int(np.ceil(len(order) / CHAINS)))
    chains = [order[i : i + length] for i in range(0, len(order), length)]

    def step(i: int, near: Prediction | None) -> tuple[Prediction | Failure, Prediction | None]:
        try:
            solve = best_decay if tuned else predict
            point = solve(task, learner, ratios[i], near=near, accuracy=accuracy)
        except SolveError as failure:
            return Failure(alpha=ratios[i], reason=str(failure)), near
        return point, point

    if bayes:
        check_bayes_comparison(task, learner)
    best = bayes_curve(task, ratios) if bayes else None  # before the predictions, because it may be refused
    points = map_chains(step, chains, progress)
    return Curve(
        task=task,
        learner=learner,
        points=tuple(points.get(i, Failure(alpha=ratio, reason=INTERRUPTED)) for i, ratio in enumerate(ratios)),
        tuned=tuned,
        best=best,
    )
