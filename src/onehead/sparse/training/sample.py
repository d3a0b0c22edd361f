"""Tokens, labels and signal of a training run, for training of one's own (S1.1, S1.4)."""

import numpy as np

from onehead.sparse.task import PROBLEM, Protocol, Sample, Task, check_model, draw
from onehead.sparse.training.samplers import query_sample, streams
from onehead.sparse.training.train import sample_count
from onehead.validation import Seed, checked, integer, number, optional, seed_number, valid_seed


@checked(**PROBLEM, dim=integer(3), alpha=optional(number(above=0.0)), seed=valid_seed, trial=integer(0))
def sample(
    task: Task,
    protocol: Protocol,
    *,
    model: str = "attention",
    dim: int,
    alpha: float | None = None,
    seed: Seed = 0,
    trial: int = 0,
) -> Sample:
    """Return the sequences with which ``train(..., mode="tokens")`` works, bit for bit.

    For attention the first max(1, round(alpha0 d)) sequences are those of the two gradient steps, the others those of
    the readout; a protocol that fixes the query has none of the first kind, and with ``reuse`` both stages have all of
    them. Linear models have one sample. The signal is the first basis vector.

    Parameters
    ----------
    task : Task
        Data of the classification problem.
    protocol : Protocol
        Sample ratios, and whether the query is given.
    model : {"attention", "pooled", "vectorised"}
        Model that is trained; the linear ones use all alpha0 + alpha1.
    dim : int
        Dimension d of a token, at least 3.
    alpha : float, optional
        Total samples over dimension, divided in the proportion of the protocol; by default those of the protocol.
    seed : int or numpy.random.Generator
        Seed of the random numbers, as in `train`.
    trial : int
        Number of the trial: ``train(..., trials=4)`` has the trials 0, 1, 2 and 3.

    Returns
    -------
    Sample
        Labels (n,), tokens (n, L, d) and the signal direction (d,).

    Raises
    ------
    InvalidArgument
        If an argument is out of range.

    Examples
    --------
    >>> from onehead.sparse import Protocol, Task, sample
    >>> data = sample(Task(length=6), Protocol(alpha0=0.5, alpha1=1.5), dim=20, seed=1)
    >>> data.tokens.shape, data.label.shape, data.signal.shape
    ((40, 6, 20), (40,), (20,))
    """
    plan = protocol if alpha is None else protocol.with_alpha(alpha)
    rng = streams(seed_number(seed), trial + 1)[trial]
    attention = check_model(model) == "attention"
    parts = [query_sample(task, plan, dim, rng)] if attention and plan.cos_query is None and not plan.reuse else []
    parts.append(draw(task, rng, samples=sample_count(plan.readout_samples(model), dim), dim=dim))
    label, tokens = (np.concatenate([getattr(part, name) for part in parts]) for name in ("label", "tokens"))
    return Sample(label, tokens, parts[-1].signal)
