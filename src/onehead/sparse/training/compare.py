"""compare(): theory beside training at several dimensions, z-scores, and the limit of infinite dimension."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from onehead.arguments import checked, numbers, optional, whole, wholes
from onehead.best import laid_beside
from onehead.measured import SideBySide, side_by_side
from onehead.renamed import renamed
from onehead.sparse.task import PROBLEM, Protocol, Task
from onehead.sparse.training.train import TrainingResult, train
from onehead.sparse.verbs.bayes import Best
from onehead.sparse.verbs.bayes import bayes as best_of
from onehead.sparse.verbs.predict import Prediction, predict

__all__ = ["Comparison", "compare"]


@dataclass(frozen=True, kw_only=True)
class Comparison(SideBySide[Prediction, TrainingResult]):
    """Theory and training side by side; ``best`` holds the best possible learner of every point, where asked for."""

    _HIDDEN: ClassVar[tuple[str, ...]] = ("best",)

    _OLD: ClassVar[dict[str, str]] = {
        "prediction": "points[0].prediction",
        "measurement": "points[0].runs[-1]",
        "test_error_deviation": "to_rows()[0]['test_error_z']",
        "train_loss_deviation": "to_rows()[0]['train_loss_z']",
        "cos_query_deviation": "to_rows()[0]['cos_query_z']",
    }

    task: Task
    protocol: Protocol
    best: tuple[Best, ...] = ()

    def to_rows(self) -> list[dict[str, Any]]:
        """A row per sample ratio and dimension, and one for the limit of infinite dimension."""
        return laid_beside(super().to_rows(), self.best)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Names from before 2.0, when a comparison was one point at one dimension."""
            if name not in self._OLD:
                return super().__getattr__(name)
            renamed(f"Comparison.{name}", f"Comparison.{self._OLD[name]}")
            point = self.points[0]
            if not name.endswith("_deviation"):
                return point.prediction if name == "prediction" else point.runs[-1]
            found = {item.quantity: item.z for item in point.runs[-1].against(point.prediction)}
            return found.get(name.removesuffix("_deviation"))


@checked(
    **PROBLEM,
    alphas=optional(numbers()),
    dims=wholes(3),
    trials=wholes(1, single=True),
    seed=whole(0),
    dim=optional(whole(3)),
)
def compare(
    task: Task,
    protocol: Protocol,
    alphas: Sequence[float] | None = None,
    dims: Sequence[int] = (500, 1000),
    trials: int | Sequence[int] = 8,
    *,
    model: str = "attention",
    seed: int = 0,
    mode: str = "reduced",
    test_length: int | None = None,
    bayes: bool = False,
    progress: Callable[[], None] | None = None,
    dim: int | None = None,
) -> Comparison:
    """Train at several dimensions and lay the result over the prediction, with z-scores.

    A run of size d differs from the limit by O(1/d); with two dimensions or more the table ends in the
    extrapolation to 1/d → 0, its standard error, and its distance from theory in standard errors.

    Parameters
    ----------
    task : Task
    protocol : Protocol
    alphas : sequence of float, optional
        All samples over dimension, split as the protocol splits them; its own number where none is given.
    dims : sequence of int
    trials : int or one per dimension
    seed : int
        Root of the random numbers; dimensions get independent instances.
    model, mode, test_length, progress
        As for `train`.
    bayes : bool
        Whether to lay the best possible learner of the same data beside every row, as ``bayes_test_error``.
    dim : int
        One dimension, as it was called before 2.0.

    Examples
    --------
    >>> plan = Protocol(alpha1=2.0, cos_query=0.9, sharpness=2.0, ridge=0.1, loss="square")
    >>> table = compare(Task(), plan, dims=[100, 200], trials=6)
    >>> [row["dim"] for row in table.to_rows()], abs(table.to_rows()[1]["test_error_z"]) < 4.0
    ([100, 200, None], True)
    """
    if dim is not None:
        renamed(f"compare(dim={dim})", f"compare(dims=[{dim}])", depth=2)
        dims, seed = [dim], seed - dim

    def plan(alpha: float) -> Protocol:
        return protocol if alphas is None else protocol.with_alpha(alpha)

    def measured(alpha: float, dim: int, count: int) -> TrainingResult:
        return train(
            task,
            plan(alpha),
            model=model,
            dim=dim,
            trials=count,
            seed=seed + dim,
            mode=mode,
            test_length=test_length,
            progress=progress,
        )

    ratios = [protocol.alpha] if alphas is None else alphas
    best = tuple(best_of(task, alpha) for alpha in ratios) if bayes else ()  # first, because it may be refused
    points = side_by_side(
        ratios,
        dims,
        trials,
        called="trials",
        predicted=lambda alpha: predict(task, plan(alpha), model=model, test_length=test_length),
        measured=measured,
    )
    return Comparison(points=points, setting=f"{model} model, {mode} samples", task=task, protocol=protocol, best=best)
