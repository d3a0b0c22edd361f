"""sample(): the tokens, labels and target of a training run, as arrays."""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from onehead.aim.flat_parameters import validate_problem
from onehead.aim.task import Task
from onehead.aim.training.data import Chunk
from onehead.aim.training.instance import Instance, sample_count
from onehead.aim.training.settings import Method, Variant
from onehead.validation import Seed, instance, integer, one_of, optional, seed_number, valid_seed

Array = NDArray[np.float64]
PARTS = ("train", "test")


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Labelled sequences of a task and the target map that made their labels.

    Attributes
    ----------
    tokens : array of shape (n, T, d)
        Sequences of tokens; the queries, if there are separate keys.
    labels : array of shape (n, T, T)
        Attention matrices to learn: y = softmax(β₀ (h(S*) + noise)) row by row, or one-hot rows for hard labels.
    clean_labels : array of shape (n, T, T)
        Labels without noise.
    target : array of shape (d, d)
        The map S*.
    keys : array of shape (n, T, d) or None
        Tokens that are attended to, in cross-attention.
    task : Task
        The task.
    dim : int
        Dimension d of a token.
    """

    tokens: Array = field(repr=False)
    labels: Array = field(repr=False)
    clean_labels: Array = field(repr=False)
    target: Array = field(repr=False)
    keys: Array | None = field(repr=False)
    task: Task
    dim: int

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        return f"Sample({len(self)} sequences, T = {self.task.tokens}, d = {self.dim})"


@validate_problem(
    dim=integer(2),
    seed=valid_seed,
    run=integer(0),
    part=one_of(PARTS),
    variant=optional(instance(Variant, "Variant()")),
    method=optional(instance(Method, "Method()")),
)
def sample(
    task: Task,
    dim: int,
    alpha: float,
    seed: Seed = 0,
    *,
    run: int = 0,
    part: Literal["train", "test"] = "train",
    variant: Variant | None = None,
    method: Method | None = None,
) -> Sample:
    """Return the tokens, labels and target with which `train` works, for training of one's own.

    Parameters
    ----------
    task : Task
        What is learned.
    dim : int
        Dimension d of a token.
    alpha : float
        Sample ratio; there are n = α d² samples, rounded.
    seed : int or numpy.random.Generator
        Seed of all random numbers, as in `train`.
    run : int
        Number of the run: ``train(..., seeds=4)`` has the runs 0, 1, 2 and 3.
    part : {"train", "test"}
        The training samples, or the fresh samples on which `train` measures its errors. The labels of fresh samples
        are soft also for a task with hard labels.
    variant : Variant, optional
        Deviations from the assumptions of the theory, such as another law of the tokens.
    method : Method, optional
        Number of fresh samples (``test_samples``) and precision of the tokens.

    Returns
    -------
    Sample
        Arrays, equal to those of `train` bit for bit.

    Raises
    ------
    InvalidArgument
        If an argument is not allowed.
    TooLarge
        If the samples do not fit into memory.

    Examples
    --------
    >>> from onehead.aim import Task
    >>> data = sample(Task(tokens=2), dim=20, alpha=0.5)
    >>> data, data.tokens.shape, data.labels.shape, data.target.shape
    (Sample(200 sequences, T = 2, d = 20), (200, 2, 20), (200, 2, 2), (20, 20))
    """
    own = (variant or Variant()).for_task(task)
    own.tokens.check_dim(dim)
    drawn = Instance.draw(
        task,
        dim,
        sample_count(alpha, dim),
        np.random.SeedSequence(seed_number(seed), spawn_key=(run,)),
        variant=own,
        method=method,
    )
    samples = drawn.train if part == "train" else drawn.test
    chunks: list[Chunk] = list(samples)

    def joined(parts: list[Any]) -> Array:
        """Samples of all chunks, with the number of the sample first."""
        return np.ascontiguousarray(np.concatenate(parts, axis=1).swapaxes(0, 1))

    return Sample(
        tokens=joined([chunk.tokens for chunk in chunks]),
        labels=np.concatenate([chunk.labels for chunk in chunks]),
        clean_labels=np.concatenate([chunk.clean for chunk in chunks]),
        target=drawn.target,
        keys=None if chunks[0].keys is None else joined([chunk.keys for chunk in chunks]),
        task=task,
        dim=dim,
    )
