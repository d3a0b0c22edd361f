"""One instance of a task: a target with its training and test samples."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onehead.aim.task import Task, check_alpha
from onehead.aim.training.data import Samples, draw_target
from onehead.aim.training.settings import Method, Variant
from onehead.errors import InvalidArgument

__all__ = ["Instance", "sample_count"]

Array = NDArray[np.float64]


def sample_count(alpha: float, dim: int) -> int:
    """n = α d² samples, at least two."""
    count = round(check_alpha(alpha) * dim**2)
    if count < 2:
        raise InvalidArgument("alpha", alpha, f"at least 2/dim² = {2 / dim**2:g}")
    return count


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
        """Draw target, training and test samples from three children of one seed."""
        variant, method = variant or Variant(), method or Method()
        of_target, of_train, of_test = (
            np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, child)) for child in range(3)
        )
        S = draw_target(task.target, dim, np.random.default_rng(of_target)) if target is None else target

        def samples(count: int, seed: np.random.SeedSequence) -> Samples:
            return Samples(
                task=task,
                target=S,
                count=count,
                law=variant.tokens,
                seed=seed,
                dtype=method.number,
                memory=method.memory,
            )

        return cls(target=S, train=samples(count, of_train), test=samples(method.test_samples, of_test))
