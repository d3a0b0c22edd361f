"""compare(): theory beside training at several sizes, z-scores, and the limit of infinite dimension."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onehead.aim.task import Learner, Task
from onehead.aim.training.results import Method, TrainingResult, TrainingRun, Variant
from onehead.aim.training.train import train
from onehead.aim.verbs.predict import Prediction, predict
from onehead.arguments import checked, instance, numbers, whole, wholes
from onehead.errors import InvalidArgument
from onehead.results import Result

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Comparison", "Extrapolation", "Point", "compare", "extrapolate"]

Array = NDArray[np.float64]

SHOWN = ("test_error", "test_error_clean", "train_loss", "rank", "q", "m")


@dataclass(frozen=True, kw_only=True)
class Extrapolation(Result):
    """Value at infinite dimension from a + b/d, its standard error, and its distance from theory."""

    quantity: str
    value: float
    standard_error: float
    slope: float
    predicted: float
    z: float


def extrapolate(quantity: str, results: Sequence[TrainingResult], predicted: float) -> Extrapolation:
    """Weighted fit of a + b/d over the mean of every dimension.

    The spread of one run is taken to fall as 1/d: its size is pooled over all dimensions, since a handful of
    seeds alone would give erratic weights.
    """
    d = np.array([result.dim for result in results], dtype=np.float64)
    seeds = np.array([result.seeds for result in results], dtype=np.float64)
    mean = np.array([float(getattr(result, quantity)) for result in results])
    std = np.array([result.spread[f"{quantity}_std"] for result in results])
    known = np.isfinite(std)
    pooled = np.sum((seeds[known] - 1.0) * (std[known] * d[known]) ** 2) / max(np.sum(seeds[known] - 1.0), 1.0)
    design, weight = np.stack([np.ones_like(d), 1.0 / d], axis=1), seeds * d**2
    covariance = np.linalg.inv(design.T @ (weight[:, None] * design))
    value, slope = covariance @ design.T @ (weight * mean)
    standard_error = float(np.sqrt(pooled * covariance[0, 0]))
    z = (float(value) - predicted) / standard_error if standard_error > 0.0 else np.nan
    return Extrapolation(
        quantity=quantity,
        value=float(value),
        standard_error=standard_error,
        slope=float(slope),
        predicted=predicted,
        z=z,
    )


@dataclass(frozen=True, kw_only=True)
class Point(Result):
    """One sample ratio: the prediction, training at every dimension, and the limits (one per number)."""

    _HIDDEN: ClassVar[tuple[str, ...]] = ("prediction", "runs")

    alpha: float
    prediction: Prediction
    runs: tuple[TrainingResult, ...]
    limits: tuple[Extrapolation, ...]

    def rows(self) -> list[dict[str, Any]]:
        """A row per dimension; the extrapolated one, if any, has no dimension."""
        rows = []
        for run in self.runs:
            row: dict[str, Any] = {
                "alpha": self.alpha,
                "dim": run.dim,
                "seeds": run.seeds,
                "status": run.status,
            }
            for item in run.against(self.prediction):
                if item.quantity == "test_error":
                    row["verdict"] = item.verdict
                row |= _cells(item.quantity, item.measured, item.standard_error, item.predicted, item.z)
            rows.append(row)
        if self.limits:
            row = {
                "alpha": self.alpha,
                "dim": None,
                "seeds": sum(run.seeds for run in self.runs),
                "status": "1/d → 0",
            }
            for limit in self.limits:
                row |= _cells(limit.quantity, limit.value, limit.standard_error, limit.predicted, limit.z)
            rows.append(row)
        return rows


def _cells(name: str, value: float, error: float, predicted: float, z: float) -> dict[str, float]:
    return {name: value, f"{name}_err": error, f"{name}_theory": predicted, f"{name}_z": z}


@dataclass(frozen=True, kw_only=True)
class Comparison(Result):
    """Theory and training side by side."""

    points: tuple[Point, ...]
    setting: str
    task: Task
    learner: Learner

    def to_rows(self) -> list[dict[str, Any]]:
        """A row per sample ratio and dimension, and one for the limit of infinite dimension."""
        return [row for point in self.points for row in point.rows()]

    def to_frame(self) -> "pd.DataFrame":
        """The same as a pandas table."""
        import pandas as pd  # noqa: PLC0415

        return pd.DataFrame(self.to_rows())


@checked(
    task=instance(Task, "Task()"),
    learner=instance(Learner, "Learner()"),
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
    workers: int = 1,
    progress: Callable[[TrainingRun], None] | None = None,
) -> Comparison:
    """Train at several dimensions and lay the result over the prediction, with z-scores.

    A run of size d differs from the limit by O(1/d); with two dimensions or more the table ends in the
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

    Examples
    --------
    >>> from onehead.aim import Learner, Task
    >>> table = compare(Task(), Learner(), alphas=[1.0], dims=[20, 30], seeds=3)
    >>> [row["dim"] for row in table.to_rows()]
    [20, 30, None]
    """
    counts = [seeds] * len(dims) if isinstance(seeds, int) else list(seeds)
    if len(counts) != len(dims) or not dims:
        raise InvalidArgument("seeds", seeds, "one number, or one per dimension")
    if not alphas:
        raise InvalidArgument("alphas", alphas, "at least one sample ratio")
    points = []
    for alpha in alphas:
        theory = predict(task, learner, alpha)
        runs = tuple(
            train(
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
            for dim, count in zip(dims, counts, strict=True)
        )
        limits: tuple[Extrapolation, ...] = ()
        if len(set(dims)) > 1 and max(counts) > 1:
            limits = tuple(extrapolate(name, runs, float(getattr(theory, name))) for name in SHOWN)
        points.append(Point(alpha=alpha, prediction=theory, runs=runs, limits=limits))
        if any(run.status.startswith("interrupted") for run in runs):
            break
    return Comparison(points=tuple(points), setting=str(variant or Variant()), task=task, learner=learner)
