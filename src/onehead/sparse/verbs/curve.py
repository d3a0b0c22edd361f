"""Learning curves: predictions at many sample ratios, split between query and readout as in the protocol."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onehead.errors import InvalidArgument, SolveError
from onehead.numerics.interrupts import raise_if_interrupted, record_interrupts
from onehead.numerics.progress import Progress, counter
from onehead.results import INTERRUPTED, Column, FailedPoint
from onehead.results.bayes_gap import CurveWithBayes
from onehead.sparse.task import PROBLEM, Protocol, Task, check_model
from onehead.sparse.verbs.bayes import Best
from onehead.sparse.verbs.bayes import bayes as best_of
from onehead.sparse.verbs.predict import Prediction, predict
from onehead.validation import checked, number, numbers, optional


@dataclass(frozen=True, kw_only=True)
class Failure(FailedPoint):
    """A point of a curve that could not be solved, and the reason."""

    _EMPTY: ClassVar[tuple[str, ...]] = (
        "alpha", "test_error", "train_loss", "train_error", "cos_query", "sharpness", "residual",
    )  # fmt: skip

    alpha: float


@dataclass(frozen=True, kw_only=True)
class Curve(CurveWithBayes[Prediction, Failure]):
    """A learning curve: one point per sample ratio, in the given order; ``best`` holds Bayes-optimal learners."""

    _PER_POINT: ClassVar[tuple[str, ...]] = ("points", "alphas", "best")
    _SUMMARY_FIELDS: ClassVar[tuple[str, ...]] = ("alpha", "test_error", "train_loss", "train_error", "status")

    task: Task
    protocol: Protocol
    model: str
    alphas: tuple[float, ...]
    points: tuple[Prediction | Failure, ...]
    best: tuple[Best, ...] = ()

    alpha = Column()
    test_error = Column()
    train_loss = Column()
    train_error = Column()
    cos_query = Column()
    sharpness = Column()
    query_weight = Column()
    signal_weight = Column()
    bias = Column()
    rest_norm = Column()
    step = Column()
    bayes_test_error = Column()
    test_error_err = Column()
    train_loss_err = Column()
    train_error_err = Column()
    query_weight_err = Column()
    signal_weight_err = Column()
    bias_err = Column()
    rest_norm_err = Column()
    step_err = Column()

    def column(self, name: str) -> NDArray[np.float64]:
        """Return one quantity along the curve; NaN where a point failed."""
        return np.array(self.alphas) if name == "alpha" else super().column(name)

    def _rows(self) -> list[dict[str, Any]]:
        return [{"alpha": a, **row} for a, row in zip(self.alphas, super()._rows(), strict=True)]


@checked(**PROBLEM, alphas=numbers(single=True), accuracy=optional(number(above=0.0)))
def curve(
    task: Task,
    protocol: Protocol,
    alphas: Sequence[float] | NDArray[np.float64],
    *,
    model: str = "attention",
    accuracy: float | None = None,
    bayes: bool = False,
    progress: Progress = None,
) -> Curve:
    """Predict a learning curve along total sample ratios, split between query and readout as in the protocol.

    A point that cannot be solved becomes a row with the reason. Ctrl-C stops the computation and returns the points
    solved so far.

    Parameters
    ----------
    task : Task
        Data of the classification problem.
    protocol : Protocol
        Training protocol.
    alphas : sequence of float
        Sample ratios α = n/d in any order; the points are returned in the same order.
    model : {"attention", "pooled", "vectorised"}
        Model to predict.
    accuracy : float, optional
        Wanted relative error of the test error; see `predict`.
    bayes : bool
        Whether to add the Bayes-optimal learner of the same data to every point, as ``bayes_test_error``.
    progress : callable or True, optional
        Called once for every finished point.

    Returns
    -------
    Curve
        One point per sample ratio.

    Raises
    ------
    InvalidArgument
        If an argument is out of range.

    Examples
    --------
    >>> from onehead.sparse import Protocol, Task, curve
    >>> found = curve(Task(), Protocol(ridge=1e-5), [1.0, 4.0], model="pooled")
    >>> [round(float(e), 4) for e in found.column("test_error")]
    [0.3536, 0.2908]
    """
    check_model(model)
    ratios = [float(alpha) for alpha in np.atleast_1d(alphas)]
    if not ratios or not all(alpha > 0.0 for alpha in ratios):
        raise InvalidArgument("alphas", ratios, "at least one sample ratio, each > 0")
    # computed first, so that invalid problems fail before the curve
    best = tuple(best_of(task, alpha) for alpha in ratios) if bayes else ()
    points: list[Prediction | Failure] = []
    finished = counter(progress, "points", len(ratios))
    try:
        with record_interrupts():
            for alpha in ratios:
                try:
                    points.append(predict(task, protocol.with_alpha(alpha), model=model, accuracy=accuracy))
                except SolveError as failure:
                    points.append(Failure(alpha=alpha, reason=str(failure)))
                raise_if_interrupted()
                finished()
    except KeyboardInterrupt:
        points += [Failure(alpha=alpha, reason=INTERRUPTED) for alpha in ratios[len(points) :]]
    return Curve(task=task, protocol=protocol, model=model, alphas=tuple(ratios), points=tuple(points), best=best)
