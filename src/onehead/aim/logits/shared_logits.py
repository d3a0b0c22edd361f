"""Heads without a mask: all rows in one block, because logits of different rows are equal or correlated."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self, final

import numpy as np
from numpy.typing import NDArray

from onehead.aim.logits.blocks import SHORTEST_RULE, Block
from onehead.aim.logits.row import ColumnGroup, Row

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class SharedLogits(Block):
    """Abstract block of all rows of a head without a mask, whose logits are equal or correlated."""

    shares_logits = True

    tokens: int
    multiplicity: float = 1.0
    on_lattice: bool = False

    @property
    def length(self) -> int:
        """Number of tokens."""
        return self.tokens

    @property
    def row_count(self) -> int:
        """Number of tokens."""
        return self.tokens

    @property
    def log2_points(self) -> int:
        """log2 of the number of points: fewer for many tokens, whose rows average themselves."""
        return max(13 - self.tokens.bit_length() + 2, SHORTEST_RULE)

    @property
    def label_kinds(self) -> int:
        """Two: a row sees its own token."""
        return 2

    @property
    def sampled(self) -> Self:
        """The block itself: rows that share logits are sampled at every length."""
        return self

    @property
    def at_half_length(self) -> Self:
        """The block itself."""
        return self


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class TiedBlock(SharedLogits):
    """All rows of a tied head: the logit of two tokens occurs in two rows, and coordinates are u = h_ab - h_12 over the
    other pairs a <= b (1.6).
    """

    @property
    def dim(self) -> int:
        """T(T+1)/2 - 1."""
        return self.tokens * (self.tokens + 1) // 2 - 1

    @property
    def sector_count(self) -> int:
        """One: the map is symmetric."""
        return 1

    @cached_property
    def _pairs(self) -> list[tuple[int, int]]:
        """Pairs a <= b of the coordinates."""
        return [(a, b) for a in range(self.tokens) for b in range(a, self.tokens) if (a, b) != (0, 1)]

    @cached_property
    def select(self) -> NDArray[np.int64]:
        """Indices of the coordinates, row by row."""
        number = {pair: i for i, pair in enumerate(self._pairs)}
        tokens = range(self.tokens)
        return np.array([[number.get((min(a, b), max(a, b)), -1) for b in tokens] for a in tokens], dtype=np.int64)

    @cached_property
    def sectors(self) -> tuple[Array, ...]:
        """C = diag(1 + δ_ab) + 1 1'."""
        return (np.diag([2.0 if a == b else 1.0 for a, b in self._pairs]) + 1.0,)

    @cached_property
    def field_covariance(self) -> Array:
        """Covariance for fields: the logit of two tokens has both fields, relative to those of the first pair."""
        fields = np.zeros((self.dim, self.tokens))
        for i, (a, b) in enumerate(self._pairs):
            fields[i, a] += 1.0
            fields[i, b] += 1.0
        fields[:, :2] -= 1.0
        return np.asarray(fields @ fields.T)

    @property
    def variances(self) -> Array:
        """Variances of the logits ab, a <= b: two for a token with itself, one for others."""
        return np.concatenate([[2.0, *[1.0] * (self.tokens - 1 - a)] for a in range(self.tokens)])

    @property
    def normal_groups(self) -> NDArray[np.int64]:
        """Zero for all: there is one group, up to the factors of `variances`."""
        return np.zeros(self.dim + 1, dtype=np.int64)

    @property
    def group_weights(self) -> Array:
        """One."""
        return np.eye(1)

    def logits_of(self, normals: Array) -> Array:
        """Return the logits ab, a <= b: each once."""
        return normals

    @cached_property
    def row(self) -> Row:
        """One row, the token itself first."""
        return Row(columns=(ColumnGroup((2.0,), 1), ColumnGroup((1.0,), self.tokens - 1)))


def _exchanged(tokens: int) -> tuple[Array, ...]:
    """Return the covariances of the T(T-1) coordinates u_ab = h_ab - h_aa of unmasked self-attention, per unit of each
    sector.
    """
    pairs = [(a, b) for a in range(tokens) for b in range(tokens) if a != b]

    def logits(one: tuple[int, int], other: tuple[int, int], sign: float) -> float:
        """Covariance of two logits per unit of variance of a sector."""
        return 0.5 * (float(one == other) + sign * float(one == other[::-1]))

    def coordinates(one: tuple[int, int], other: tuple[int, int], sign: float) -> float:
        own, others = (one[0], one[0]), (other[0], other[0])
        return (
            logits(one, other, sign) - logits(one, others, sign) - logits(own, other, sign) + logits(own, others, sign)
        )

    return tuple(np.array([[coordinates(p, r, sign) for r in pairs] for p in pairs]) for sign in (1.0, -1.0))


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class UnmaskedSelfAttention(SharedLogits):
    """All rows of untied self-attention without a mask: the logits ab and ba are correlated."""

    @property
    def dim(self) -> int:
        """T(T-1)."""
        return self.tokens * (self.tokens - 1)

    @property
    def sector_count(self) -> int:
        """Number of sectors: symmetric and antisymmetric."""
        return 2

    @cached_property
    def select(self) -> NDArray[np.int64]:
        """Indices of the coordinates u_ab = h_ab - h_aa, row by row."""
        found = np.full((self.tokens, self.tokens), -1, dtype=np.int64)
        found[~np.eye(self.tokens, dtype=bool)] = np.arange(self.dim)
        return found

    @cached_property
    def sectors(self) -> tuple[Array, ...]:
        """Covariances of the coordinates per unit of variance of each sector."""
        return _exchanged(self.tokens)

    @cached_property
    def field_covariance(self) -> Array:
        """Covariance of g_b - g_a."""
        fields = np.zeros((self.dim, self.tokens))
        for a, row in enumerate(self.select):
            for b, i in enumerate(row):
                if i >= 0:
                    fields[i, b], fields[i, a] = 1.0, -1.0
        return np.asarray(fields @ fields.T)

    @property
    def variances(self) -> Array:
        """One for each logit."""
        return np.ones(self.tokens**2)

    @property
    def normal_groups(self) -> NDArray[np.int64]:
        """Sectors of the normals: own logits are symmetric, then for every pair a < b comes its symmetric and its
        antisymmetric part.
        """
        pairs = self.tokens * (self.tokens - 1) // 2
        return np.concatenate([np.zeros(self.tokens, dtype=np.int64), np.tile([0, 1], pairs)])

    @property
    def group_weights(self) -> Array:
        """Identity: the groups are the sectors."""
        return np.eye(2)

    def logits_of(self, normals: Array) -> Array:
        """Return the logits of own tokens, and h_ab, h_ba = (symmetric part ± antisymmetric part)/sqrt 2."""
        tokens, found = self.tokens, np.empty((len(normals), self.tokens, self.tokens))
        found[:, range(tokens), range(tokens)] = normals[:, :tokens]
        above, even, odd = np.triu_indices(tokens, 1), normals[:, tokens::2], normals[:, tokens + 1 :: 2]
        found[:, above[0], above[1]] = np.sqrt(0.5) * (even + odd)
        found[:, above[1], above[0]] = np.sqrt(0.5) * (even - odd)
        return found.reshape(len(normals), -1)

    @cached_property
    def row(self) -> Row:
        """One row, the token itself last."""
        return Row(columns=(ColumnGroup((0.5, 0.5), self.tokens - 1), ColumnGroup((1.0, 0.0), 1)))
