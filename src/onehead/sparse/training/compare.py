"""Comparison of theory and training at several dimensions: z-scores, and the limit of infinite dimension."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from onehead.results.bayes_gap import add_bayes_columns
from onehead.results.replicates import TheoryComparison, compare_with_runs
from onehead.sparse.task import PROBLEM, Protocol, Task
from onehead.sparse.training.train import TrainingResult, train
from onehead.sparse.verbs.bayes import Best
from onehead.sparse.verbs.bayes import bayes as best_of
from onehead.sparse.verbs.joint import JointTraining, OtherMinimum, joint
from onehead.sparse.verbs.predict import Prediction, predict
from onehead.validation import Seed, checked, integers, numbers, optional, seed_number, valid_seed

Theory = Prediction | JointTraining | OtherMinimum


@dataclass(frozen=True, kw_only=True)
class Comparison(TheoryComparison[Theory, TrainingResult]):
    """Predictions and training runs at the same sample ratios; ``best`` holds Bayes-optimal learners if requested."""

    _HIDDEN: ClassVar[tuple[str, ...]] = ("best",)

    task: Task
    protocol: Protocol
    best: tuple[Best, ...] = ()

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one row per sample ratio and dimension, and one for the limit of infinite dimension."""
        return add_bayes_columns(super().to_rows(), self.best)


@checked(
    **PROBLEM,
    alphas=optional(numbers()),
    dims=integers(3),
    trials=integers(1, single=True),
    seed=valid_seed,
)
def compare(
    task: Task,
    protocol: Protocol,
    alphas: Sequence[float] | None = None,
    dims: Sequence[int] = (500, 1000),
    trials: int | Sequence[int] = 8,
    *,
    model: str = "attention",
    seed: Seed = 0,
    mode: str = "reduced",
    test_length: int | None = None,
    bayes: bool = False,
    progress: Callable[[], None] | None = None,
) -> Comparison:
    """Train at several dimensions and compare the results with the prediction.

    A run of size d differs from the limit by O(1/d); with two dimensions or more the table ends in the
    extrapolation to 1/d → 0, its standard error, and its distance from theory in standard errors.

    Parameters
    ----------
    task : Task
        Data of the classification problem.
    protocol : Protocol
        Training protocol.
    alphas : sequence of float, optional
        Total samples over dimension, split between query and readout as in the protocol; by default those of the
        protocol.
    dims : sequence of int
        Dimensions d to train at, each at least 3.
    trials : int or sequence of int
        Number of trials, or one number per dimension.
    model, mode, test_length, progress
        See `train`.
    seed : int or numpy.random.Generator
        Seed of the random numbers; dimensions get independent instances.
    bayes : bool
        Whether to add the Bayes-optimal learner of the same data to every row, as ``bayes_test_error``.

    Returns
    -------
    Comparison
        One point per sample ratio, with its prediction and one run per dimension.

    Raises
    ------
    InvalidArgument
        If an argument is out of range.
    SolveError
        If the theory has no solution at a sample ratio.

    Examples
    --------
    >>> plan = Protocol(alpha1=2.0, cos_query=0.9, sharpness=2.0, ridge=0.1, loss="square")
    >>> table = compare(Task(), plan, dims=[100, 200], trials=6)
    >>> [row["dim"] for row in table.to_rows()], abs(table.to_rows()[1]["test_error_z"]) < 4.0
    ([100, 200, None], True)
    """
    first_seed = seed_number(seed)

    def plan(alpha: float) -> Protocol:
        return protocol if alphas is None else protocol.with_alpha(alpha)

    def measured(alpha: float, dim: int, count: int) -> TrainingResult:
        return train(
            task,
            plan(alpha),
            model=model,
            dim=dim,
            trials=count,
            seed=first_seed + dim,
            mode=mode,
            test_length=test_length,
            progress=progress,
        )

    def predicted(alpha: float) -> Theory:
        if mode == "joint":
            return joint(task, plan(alpha)).trained
        return predict(task, plan(alpha), model=model, test_length=test_length)

    ratios = [protocol.alpha] if alphas is None else alphas
    best = (
        tuple(best_of(task, alpha) for alpha in ratios) if bayes else ()
    )  # computed first, so that invalid problems fail before any training
    points = compare_with_runs(
        ratios,
        dims,
        trials,
        repeats_name="trials",
        predict=predicted,
        measure=measured,
    )
    return Comparison(points=points, setting=f"{model} model, {mode} samples", task=task, protocol=protocol, best=best)
