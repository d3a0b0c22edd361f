"""Averages of a softmax of independent Gaussian logits, for any number of them and without sampling (2.9).

A softmax divides by the sum Z of exponentials of independent Gaussian logits. With 1/Z^k written as an integral over t the average
factorises over the columns of the row, and what is left are integrals over one or two logits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

__all__ = ["Column", "SoftmaxRow"]

Array = NDArray[np.float64]

STEP = 0.33  # of log t, and at most of a logit: integrands are analytic in a strip of half-width π/2, so that e^-30 is lost
RADIUS = 7.5  # standard deviations of a logit
LEFT, RIGHT = 24.0, 4.0  # e^x on one side and exp(-e^x) on the other are below 1e-10 there


@dataclass(frozen=True)
class Column:
    """Columns of a row whose logits have the same variance, in units of the overlap that belongs to it, and how many."""

    variance: float
    count: int


def _bump(power: int, u: Array) -> Array:
    """e^(k u - e^u), the share of a column in t^k e^(-t Z), t e^h = e^u."""
    return np.exp(power * u - np.exp(u))


def _normal(deviation: float) -> tuple[Array, Array]:
    """Nodes and weights of a Gaussian logit: equally spaced, no wider apart than what the bump can stand."""
    step = min(0.25, STEP / max(deviation, 1e-12))
    x = step * np.arange(-np.ceil(RADIUS / step), np.ceil(RADIUS / step) + 1.0)
    weights = np.exp(-0.5 * x * x)
    return deviation * x, weights / weights.sum()


@dataclass(frozen=True)
class SoftmaxRow:
    """One row of labels y = softmax(h*) and of a learner's answer p = softmax(h).

    Logits of different columns are independent; those of one have the covariance [[Q, m], [m, q]] times its variance.
    """

    columns: tuple[Column, ...]
    Q: float
    q: float
    m: float

    def _line(self, power: float) -> Array:
        """Values of log t at which something happens, for logits of this power."""
        deviation = float(np.sqrt(power * max(column.variance for column in self.columns)))
        tokens = sum(column.count for column in self.columns)
        low, high = -RADIUS * deviation - np.log(tokens) - LEFT, RADIUS * deviation + RIGHT
        return np.arange(low, high + STEP, STEP)

    def _of_row(self, part: Sequence[Array], rest: Sequence[Array]) -> list[Array]:
        """For each kind of column: one of it taken as ``part``, all others of the row as ``rest``."""
        found = []
        for i in range(len(self.columns)):
            product = part[i].copy()
            for j, column in enumerate(self.columns):
                product *= rest[j] ** (column.count - (i == j))
            found.append(product)
        return found

    def _moment(self, power: int, of: float) -> Array:
        """E p_b^k for a column of each kind, of a softmax whose logits have variance ``of``."""
        x = self._line(of)
        nodes = [_normal(float(np.sqrt(of * column.variance))) for column in self.columns]
        shares, rest = ([_bump(k, np.add.outer(x, h)) @ w for h, w in nodes] for k in (power, 0))
        return STEP * np.array([line.sum() for line in self._of_row(shares, rest)])

    def _summed(self, moments: Array) -> float:
        return float(sum(column.count * moment for column, moment in zip(self.columns, moments, strict=True)))

    @cached_property
    def pp(self) -> float:
        """E sum p²."""
        return self._summed(self._moment(2, self.q))

    @cached_property
    def yy(self) -> float:
        """E sum y²."""
        return self._summed(self._moment(2, self.Q))

    @cached_property
    def py(self) -> float:
        """E sum p y, an integral over two variables t."""
        left, right = self._line(self.q), self._line(self.Q)
        slope, spare = self.m / self.Q, max(self.q - self.m**2 / self.Q, 0.0)
        shares, rest = [], []
        for column in self.columns:
            label, weights = _normal(float(np.sqrt(self.Q * column.variance)))
            free, chances = _normal(float(np.sqrt(spare * column.variance)))
            centre = np.exp(
                np.add.outer(left, slope * label)
            )  # given its label, the logit is Gaussian around log of this
            own, own_rest = np.zeros_like(centre), np.zeros_like(centre)
            for g, w in zip(np.exp(free), chances, strict=True):
                bump = w * np.exp(-g * centre)
                own_rest += bump
                own += g * bump
            shares.append((own * centre * weights) @ _bump(1, np.add.outer(right, label)).T)
            rest.append((own_rest * weights) @ _bump(0, np.add.outer(right, label)).T)
        return self._summed(STEP**2 * np.array([table.sum() for table in self._of_row(shares, rest)]))

    @cached_property
    def log_z(self) -> float:
        """E log Z of the learner's logits."""
        x = self._line(self.q)
        rest = np.ones_like(x)
        for column in self.columns:
            h, w = _normal(float(np.sqrt(self.q * column.variance)))
            rest *= (_bump(0, np.add.outer(x, h)) @ w) ** column.count
        return float(STEP * (_bump(0, x) - rest).sum())

    @cached_property
    def yh(self) -> float:
        """E sum y h, by Stein's identity m times the variance of a column times E y (1 - y)."""
        spread = self._moment(1, self.Q) - self._moment(2, self.Q)
        return self.m * self._summed(np.array([column.variance for column in self.columns]) * spread)
