"""Sampled tokens of both classes in falling order, in independent parts: what the best rule is averaged over (S4.3)."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from onehead.numerics.parts import error_of_parts
from onehead.sparse.equations.features import FEWEST, PARTS, draw_tokens
from onehead.sparse.losses import Array

__all__ = ["LONGEST", "Draws", "draws"]

LONGEST = 20_000  # tokens of a sampled sequence
MOST = 21  # log2 of the normal numbers drawn for a class
SCRAMBLING = 0  # seed of the points


@dataclass(frozen=True, kw_only=True)
class Draws:
    """Noise of the signal tokens (N, R) and of the others (N, L - R) of positive sequences, of all tokens (N, L) of negative ones.

    The weights of each class sum to one; the rows are PARTS independent samples of equal size, one after the other.
    """

    signal: Array
    noise: Array
    minus: Array
    weight_plus: Array
    weight_minus: Array

    @property
    def length(self) -> int:
        """L."""
        return int(self.minus.shape[1])

    @property
    def signal_tokens(self) -> int:
        """R."""
        return int(self.signal.shape[1])

    def average(self, values: Array, weight: Array) -> tuple[float, float]:
        """The mean, and its error by the spread of the parts."""
        parts = PARTS * np.sum((weight * values).reshape(PARTS, -1), axis=1)
        return float(parts.mean()), float(error_of_parts(parts - parts.mean()))


@lru_cache(maxsize=4)
def draws(length: int, signal_tokens: int, log2_points: int) -> Draws:
    """2^log2_points sequences of each class, or fewer where they are long."""
    size = max(FEWEST, min(log2_points, MOST - int(np.ceil(np.log2(length + 1))))) - int(np.log2(PARTS))
    parts = [draw_tokens(length, signal_tokens, size, SCRAMBLING, part) for part in range(PARTS)]
    return Draws(
        signal=np.concatenate([part.signal for part in parts]),
        noise=np.concatenate([part.noise for part in parts]),
        minus=np.concatenate([part.minus for part in parts]),
        weight_plus=np.concatenate([part.weight_plus for part in parts]) / PARTS,
        weight_minus=np.concatenate([part.weight_minus for part in parts]) / PARTS,
    )
