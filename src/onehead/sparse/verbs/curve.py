"""Learning curves of a sparse-token classifier: many sample ratios, split as the protocol splits them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onehead.arguments import checked, number, numbers, optional
from onehead.best import WithBest
from onehead.errors import InvalidArgument, SolveError
from onehead.numerics.interrupts import check, heard
from onehead.results import INTERRUPTED, NoAnswer
from onehead.sparse.task import PROBLEM, Protocol, Task, check_model
from onehead.sparse.verbs.bayes import Best
from onehead.sparse.verbs.bayes import bayes as best_of
from onehead.sparse.verbs.predict import Prediction, predict

__all__ = ["Curve", "Failure", "curve"]


@dataclass(frozen=True, kw_only=True)
class Failure(NoAnswer):
    """A point of a curve that could not be solved, with the reason."""

    _EMPTY: ClassVar[tuple[str, ...]] = (
        "alpha", "test_error", "train_loss", "train_error", "cos_query", "sharpness", "residual",
    )  # fmt: skip

    alpha: float


@dataclass(frozen=True, kw_only=True)
class Curve(WithBest[Prediction, Failure]):
    """A learning curve: points in the order of the sample ratios asked for; ``best`` holds the best possible learner, where asked for."""

    _SHOWN: ClassVar[tuple[str, ...]] = ("alpha", "test_error", "train_loss", "train_error", "status")

    task: Task
    protocol: Protocol
    model: str
    alphas: tuple[float, ...]
    points: tuple[Prediction | Failure, ...]
    best: tuple[Best, ...] = ()

    def column(self, name: str) -> NDArray[np.float64]:
        """One quantity along the curve; not a number where a point failed."""
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
    progress: Callable[[], None] | None = None,
) -> Curve:
    """Predict a learning curve along ``alphas``, all samples over dimension, split as the protocol splits them.

    A point that fails is a row with a reason; the others stay. Ctrl-C ends the work and returns the points solved so far.

    Parameters
    ----------
    task : Task
    protocol : Protocol
    alphas : sequence of float
        Sample ratios α = n/d, in any order; the points come back in the same order.
    model : {"attention", "pooled", "vectorised"}
    accuracy : float, optional
        Wanted error of the test error, relative, as in `predict`.
    bayes : bool
        Whether to lay the best possible learner of the same data beside every point, as ``bayes_test_error``.
    progress : callable, optional
        Called once for every finished point.

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
    beside = tuple(best_of(task, alpha) for alpha in ratios) if bayes else ()  # first, because it may be refused
    points: list[Prediction | Failure] = []
    try:
        with heard():
            for alpha in ratios:
                try:
                    points.append(predict(task, protocol.with_alpha(alpha), model=model, accuracy=accuracy))
                except SolveError as failure:
                    points.append(Failure(alpha=alpha, reason=str(failure)))
                check()
                if progress is not None:
                    progress()
    except KeyboardInterrupt:
        points += [Failure(alpha=alpha, reason=INTERRUPTED) for alpha in ratios[len(points) :]]
    return Curve(task=task, protocol=protocol, model=model, alphas=tuple(ratios), points=tuple(points), best=beside)
