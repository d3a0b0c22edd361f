"""One instance of a task: a target with its training and test samples."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onehead.aim.targets import MarchenkoPastur, Product
from onehead.aim.task import Learner, Task, check_alpha
from onehead.aim.training.data import Samples, draw_target, rows_of
from onehead.aim.training.settings import Method, Variant
from onehead.errors import InvalidArgument

__all__ = ["Instance", "as_trained", "sample_count"]

Array = NDArray[np.float64]


def sample_count(alpha: float, dim: int) -> int:
    """n = α d² samples, at least two."""
    count = round(check_alpha(alpha) * dim**2)
    if count < 2:
        raise InvalidArgument("alpha", alpha, f"at least 2/dim² = {2 / dim**2:g}")
    return count


def as_trained(
    task: Task, learner: Learner, alpha: float, dim: int, variant: Variant | None = None
) -> tuple[Task, Learner, float]:
    """The problem that a run of this dimension solves: samples, width and target width are whole numbers there (1.8).

    Tokens of a ``variant`` have the kurtosis of their law (P11).

    Examples
    --------
    >>> task, learner, alpha = as_trained(Task(), Learner(width=0.01), 0.1, 25)
    >>> task.target.kappa0, learner.width, alpha
    (0.48, 0.04, 0.0992)
    """
    if isinstance(task.target, (MarchenkoPastur, Product)):
        task = task.changed(target=task.target.changed(kappa0=rows_of(task.target.kappa0, dim) / dim))
    if variant is not None:
        task = variant.told(task)
    if learner.param == "factorised":
        learner = learner.changed(width=rows_of(learner.width, dim) / dim)
    return task, learner, sample_count(alpha, dim) / dim**2


@dataclass(frozen=True, kw_only=True)
class Instance:
    """One target with its training and test samples."""

    target: Array
    train: Samples
    test: Samples

    @classmethod
    def draw(
        cls,
        task: Task,
        dim: int,
        count: int,
        seed: np.random.SeedSequence,
        *,
        variant: Variant | None = None,
        method: Method | None = None,
        target: Array | None = None,
    ) -> "Instance":
        """Draw target, training and test samples from three children of one seed.

        Fresh samples keep the probabilities of their labels: what is measured on them is then a mean over the labels drawn (U7).
        """
        variant, method = variant or Variant(), method or Method()
        of_target, of_train, of_test = (
            np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, child)) for child in range(3)
        )
        if target is None:
            target = draw_target(task.target, dim, np.random.default_rng(of_target), tied=task.tied)

        def samples(task: Task, count: int, seed: np.random.SeedSequence) -> Samples:
            return Samples(
                task=task,
                target=target,
                count=count,
                law=variant.tokens,
                seed=seed,
                dtype=method.number,
                memory=method.memory,
            )

        fresh = task.changed(labels="soft")
        return cls(
            target=target,
            train=samples(task, count, of_train),
            test=samples(fresh, method.test_samples, of_test),
        )
