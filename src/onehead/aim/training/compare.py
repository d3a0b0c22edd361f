"""compare(): predictions and trained heads at several dimensions, z-scores, extrapolation to infinite dimension."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from typing import Any

from onehead.aim.flat_parameters import validate_problem
from onehead.aim.solve.certificate import OtherSolution
from onehead.aim.task import Learner, Task
from onehead.aim.training.results import TrainingResult, TrainingRun, solution_reached
from onehead.aim.training.settings import Method, Start, Variant
from onehead.aim.training.train import train
from onehead.aim.verbs.bayes import BestCurve, bayes_curve, check_bayes_comparison
from onehead.aim.verbs.predict import Prediction, predict
from onehead.results.bayes_gap import add_bayes_columns
from onehead.results.replicates import Point, TheoryComparison, compare_with_runs
from onehead.validation import Seed, integers, numbers, seed_number, valid_seed

ComparedPoint = Point[Prediction | OtherSolution, TrainingResult]


@dataclass(frozen=True, kw_only=True)
class Comparison(TheoryComparison[Prediction | OtherSolution, TrainingResult]):
    """Predictions and trained heads side by side, with z-scores.

    Attributes
    ----------
    points : tuple
        One per sample ratio: prediction, training results at every dimension, and their differences.
    setting : str
        The variant, in words. With ``Method(start="both")`` every sample ratio has a point for each start.
    task, learner : Task, Learner
        The problem.
    best : BestCurve or None
        The best possible learner at every sample ratio, if asked for.
    """

    task: Task
    learner: Learner
    best: BestCurve | None = None

    def to_rows(self) -> list[dict[str, Any]]:
        """One dict per sample ratio and dimension, and one for the limit of infinite dimension."""
        return add_bayes_columns(super().to_rows(), self.best or ())


@validate_problem(
    alphas=numbers(),
    dims=integers(2),
    seeds=integers(1, single=True),
    seed=valid_seed,
)
def compare(
    task: Task,
    learner: Learner,
    alphas: Sequence[float],
    dims: Sequence[int] = (60, 100),
    seeds: int | Sequence[int] = 4,
    *,
    seed: Seed = 0,
    variant: Variant | None = None,
    method: Method | None = None,
    bayes: bool = False,
    workers: int = 1,
    progress: Callable[[TrainingRun], None] | None = None,
) -> Comparison:
    """Train at several dimensions and compare the results with predictions, by z-scores.

    Every run is compared with the prediction for the integer numbers of samples and rows that it had, and for the
    kurtosis of its tokens. Differences are O(1/d); with two dimensions or more the table ends in the extrapolation to
    1/d → 0, its standard error, and its distance from theory in standard errors. Where the objective has several
    minima, training is compared with the one that its start leads to (4.7).

    Parameters
    ----------
    task : Task
        What is learned.
    learner : Learner
        The head.
    alphas : sequence of float
        Sample ratios α = n/d².
    dims : sequence of int
        Dimensions d.
    seeds : int or sequence of int
        Number of instances, for all dimensions or for each.
    seed : int or numpy.random.Generator
        Seed of all random numbers; dimensions get independent instances.
    variant : Variant, optional
        Deviations of the layer from the assumptions of the theory.
    method : Method, optional
        Optimiser, start, tolerance, precision, memory.
    bayes : bool
        Whether to add the best possible learner.
    workers : int
        Number of threads, each of which trains one seed at a time.
    progress : callable, optional
        Called with every finished run.

    Returns
    -------
    Comparison
        A row per sample ratio and dimension, and the extrapolation.

    Raises
    ------
    InvalidArgument
        If an argument is not allowed.
    SolveError
        If a prediction could not be solved.

    Examples
    --------
    >>> from onehead.aim import Learner, Task
    >>> table = compare(Task(), Learner(), alphas=[1.0], dims=[20, 30], seeds=3)
    >>> [row["dim"] for row in table.to_rows()]
    [20, 30, None]
    """
    first_seed = seed_number(seed)

    @cache  # runs from all starts come from one call
    def measure(alpha: float, dim: int, count: int) -> TrainingResult:
        return train(
            task,
            learner,
            dim=dim,
            alpha=alpha,
            seeds=count,
            seed=first_seed + dim,
            variant=variant,
            method=method,
            workers=workers,
            progress=progress,
        )

    @cache
    def predict_at(alpha: float) -> Prediction:
        return predict(own, learner, alpha)

    predictions: dict[tuple[float, int], Prediction] = {}

    def predict_run(run: TrainingResult) -> Prediction:
        """Prediction for the problem as it was trained."""
        if (at := (run.alpha, run.dim)) not in predictions:
            theory, trained = predict_at(run.alpha), run.trained
            same = trained == (theory.task, theory.learner, theory.alpha)
            predictions[at] = theory if same else predict(*trained)
        return predictions[at]

    def points_from(start: Start) -> tuple[ComparedPoint, ...]:
        """Comparison of the runs from one start with the solution that it leads to."""
        found = compare_with_runs(
            alphas,
            dims,
            seeds,
            repeats_name="seeds",
            predict=lambda alpha: solution_reached(predict_at(alpha), start),
            measure=lambda alpha, dim, count: measure(alpha, dim, count).from_start(start),
            predict_run=lambda _, run: solution_reached(predict_run(run), start),
        )
        return tuple(replace(point, start=start) for point in found) if len(starts) > 1 else found

    own = (variant or Variant()).task_with_token_kurtosis(task)
    if bayes:
        check_bayes_comparison(own, learner)
    best = bayes_curve(own, alphas) if bayes else None  # before training, because it may be refused
    starts = (method or Method()).single_starts
    points = tuple(chain.from_iterable(zip(*map(points_from, starts), strict=True)))
    setting = (variant or Variant()).for_task(task).describe(task)
    return Comparison(points=points, setting=setting, task=task, learner=learner, best=best)
