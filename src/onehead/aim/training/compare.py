"""compare(): theory beside training at several sizes, z-scores, and the limit of infinite dimension."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from onehead.aim.task import Learner, Task
from onehead.aim.training.results import TrainingResult, TrainingRun
from onehead.aim.training.settings import Method, Variant
from onehead.aim.training.train import train
from onehead.aim.verbs.bayes import BestCurve, bayes_curve, check_beside
from onehead.aim.verbs.predict import Prediction, predict
from onehead.aim.words import posed
from onehead.arguments import numbers, whole, wholes
from onehead.best import laid_beside
from onehead.measured import SideBySide, side_by_side

__all__ = ["Comparison", "compare"]


@dataclass(frozen=True, kw_only=True)
class Comparison(SideBySide[Prediction, TrainingResult]):
    """Theory and training side by side; ``best`` is the best possible learner at every sample ratio, if asked."""

    task: Task
    learner: Learner
    best: BestCurve | None = None

    def to_rows(self) -> list[dict[str, Any]]:
        """A row per sample ratio and dimension, and one for the limit of infinite dimension."""
        return laid_beside(super().to_rows(), self.best or ())


@posed(
    alphas=numbers(),
    dims=wholes(2),
    seeds=wholes(1, single=True),
    seed=whole(0),
)
def compare(
    task: Task,
    learner: Learner,
    alphas: Sequence[float],
    dims: Sequence[int] = (60, 100),
    seeds: int | Sequence[int] = 4,
    *,
    seed: int = 0,
    variant: Variant | None = None,
    method: Method | None = None,
    bayes: bool = False,
    workers: int = 1,
    progress: Callable[[TrainingRun], None] | None = None,
) -> Comparison:
    """Train at several dimensions and lay the result over the prediction, with z-scores.

    Every run stands beside the prediction for the numbers of samples and rows that it had, and for the kurtosis of its tokens. It differs from it by O(1/d); with two dimensions or more the table ends in the
    extrapolation to 1/d → 0, its standard error, and its distance from theory in standard errors.

    Parameters
    ----------
    task : Task
    learner : Learner
    alphas : sequence of float
    dims : sequence of int
    seeds : int or one per dimension
    seed : int
        Root of the random numbers; dimensions get independent instances.
    variant, method, workers, progress
        As for `train`.
    bayes : bool
        Lay the best possible learner beside both.

    Examples
    --------
    >>> from onehead.aim import Learner, Task
    >>> table = compare(Task(), Learner(), alphas=[1.0], dims=[20, 30], seeds=3)
    >>> [row["dim"] for row in table.to_rows()]
    [20, 30, None]
    """

    def measured(alpha: float, dim: int, count: int) -> TrainingResult:
        return train(
            task,
            learner,
            dim=dim,
            alpha=alpha,
            seeds=count,
            seed=seed + dim,
            variant=variant,
            method=method,
            workers=workers,
            progress=progress,
        )

    def solved(theory: Prediction, run: TrainingResult) -> Prediction:
        same = run.trained == (theory.task, theory.learner, theory.alpha)
        return theory if same else predict(*run.trained)

    own = (variant or Variant()).told(task)
    if bayes:
        check_beside(own, learner)
    best = bayes_curve(own, alphas) if bayes else None  # first, because it may be refused
    points = side_by_side(
        alphas,
        dims,
        seeds,
        called="seeds",
        predicted=lambda alpha: predict(own, learner, alpha),
        measured=measured,
        solved=solved,
    )
    setting = str((variant or Variant()).of(task))
    return Comparison(points=points, setting=setting, task=task, learner=learner, best=best)
