"""Sampled tokens of both classes in descending order, over which the Bayes rule is averaged (S4.3)."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from onehead.numerics.replicate_error import error_from_replicates
from onehead.sparse.losses import Array
from onehead.sparse.theory.features import MIN_LOG2_POINTS, REPLICATES, sample_sorted_tokens

MAX_LOG2_NORMALS = 21  # upper limit of log2 of the normal numbers per class
SCRAMBLING_SEED = 0  # seed of the Sobol points


@dataclass(frozen=True, kw_only=True)
class TokenSample:
    """Noise of sampled tokens: signal (N, R) and other (N, L - R) tokens of positives, all (N, L) tokens of negatives.

    The weights of each class sum to one. The rows are REPLICATES independent samples of equal size in sequence.
    """

    signal: Array
    noise: Array
    minus: Array
    weight_plus: Array
    weight_minus: Array

    @property
    def length(self) -> int:
        """Number of tokens L of a sequence."""
        return int(self.minus.shape[1])

    @property
    def signal_tokens(self) -> int:
        """Number of signal tokens R of a positive sequence."""
        return int(self.signal.shape[1])

    def average(self, values: Array, weight: Array) -> tuple[float, float]:
        """Return the weighted mean and its error from the spread of the replicates."""
        means = REPLICATES * np.sum((weight * values).reshape(REPLICATES, -1), axis=1)
        return float(means.mean()), float(error_from_replicates(means - means.mean()))


@lru_cache(maxsize=4)
def token_sample(length: int, signal_tokens: int, log2_points: int) -> TokenSample:
    """Return 2^log2_points sequences of each class, or fewer for long sequences."""
    affordable = MAX_LOG2_NORMALS - int(np.ceil(np.log2(length + 1)))
    size = max(MIN_LOG2_POINTS, min(log2_points, affordable)) - int(np.log2(REPLICATES))
    replicates = [
        sample_sorted_tokens(length, signal_tokens, size, SCRAMBLING_SEED, replicate) for replicate in range(REPLICATES)
    ]
    return TokenSample(
        signal=np.concatenate([replicate.signal for replicate in replicates]),
        noise=np.concatenate([replicate.noise for replicate in replicates]),
        minus=np.concatenate([replicate.minus for replicate in replicates]),
        weight_plus=np.concatenate([replicate.weight_plus for replicate in replicates]) / REPLICATES,
        weight_minus=np.concatenate([replicate.weight_minus for replicate in replicates]) / REPLICATES,
    )
