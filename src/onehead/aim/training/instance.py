"""One random instance of a task: a target map with its training and test samples."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onehead.aim.targets.sampling import factor_rows
from onehead.aim.task import Learner, Task, check_alpha
from onehead.aim.token_spectrum import rounded_spectrum
from onehead.aim.training.data import Samples, fitted_target
from onehead.aim.training.layer import draw_targets
from onehead.aim.training.settings import Method, Variant
from onehead.errors import InvalidArgument

Array = NDArray[np.float64]


def sample_count(alpha: float, dim: int) -> int:
    """Number of samples n = α d², rounded; refused below two."""
    count = round(check_alpha(alpha) * dim**2)
    if count < 2:
        raise InvalidArgument("alpha", alpha, f"at least 2/dim² = {2 / dim**2:g}")
    return count


def problem_as_trained(
    task: Task, learner: Learner, alpha: float, dim: int, variant: Variant | None = None
) -> tuple[Task, Learner, float]:
    """Task, learner and sample ratio of a run of this dimension, with n, κ d and κ₀ d rounded to integers (1.8).

    The tokens have the kurtosis of the law of ``variant`` (P11).

    Examples
    --------
    >>> task, learner, alpha = problem_as_trained(Task(), Learner(width=0.01), 0.1, 25)
    >>> task.target.kappa0, learner.width, alpha
    (0.48, 0.04, 0.0992)
    """
    task = task.changed(target=task.target.at_dimension(dim))
    if not task.isotropic:
        task = task.changed(
            token_spectrum=rounded_spectrum(task.token_spectrum, dim),
            key_spectrum=rounded_spectrum(task.key_spectrum, dim),
        )
    if variant is not None:
        task = variant.task_with_token_kurtosis(task)
    if learner.param == "factorised":
        learner = learner.changed(width=factor_rows(learner.width, dim) / dim)
    return task, learner, sample_count(alpha, dim) / dim**2


@dataclass(frozen=True, kw_only=True)
class Instance:
    """A target map, or one for each head, with its training and test samples."""

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
        """Sample target, training and test samples from three children of one seed.

        Test samples have soft labels also for hard-label tasks: errors measured on them are averages over the hard
        labels (U7).
        """
        variant, method = variant or Variant(), method or Method()
        target_seed, train_seed, test_seed = (
            np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, child)) for child in range(3)
        )
        if target is None:
            rng = np.random.default_rng(target_seed)
            target = draw_targets(task, dim, rng) if task.heads > 1 else task.target.draw(dim, rng, tied=task.tied)
        if task.heads == 1:
            target = fitted_target(task, target)

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

        soft = task.changed(labels="soft")
        return cls(
            target=target,
            train=samples(task, count, train_seed),
            test=samples(soft, method.test_samples, test_seed),
        )
