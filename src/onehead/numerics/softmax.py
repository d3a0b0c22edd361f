"""Averages of a softmax of independent Gaussian logits, for any number of them and without sampling (2.9).

A softmax divides by the sum Z of exponentials of independent Gaussian logits. With 1/Z^k written as an integral over t the average
factorises over the columns of the row, and what is left are integrals over one or two logits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from onehead.errors import OutsideDomain
from onehead.numerics.gaussian import cumulative, density

__all__ = ["Column", "SoftmaxRow"]

Array = NDArray[np.float64]
Places = NDArray[np.int64]

STEP = 0.33  # of log t, and at most of a logit: integrands are analytic in a strip of half-width π/2, so that e^-30 is lost
RADIUS = 7.5  # standard deviations of a logit
SHARP = 0.01  # of a deviation: how sharp an order of logits is kept; the 0/1 error loses the square of it
LARGEST_TABLE = 8_000_000  # numbers of a table over two variables t: standard deviations of 60 of logits and labels
LARGEST = 700.0  # exponent that a number can hold; e^-(e^x) is nothing long before
WIDE = 4.0 * STEP  # deviation from which on a Gaussian is smoother than a bump
BUMP = 37.0  # to the left a bump of power one has ended here, to rounding
LEFT, RIGHT = 24.0, 4.0  # e^x on one side and exp(-e^x) on the other are below 1e-10 there


@dataclass(frozen=True)
class Column:
    """Columns of a row that are alike: how many, and the covariance [[Q, m], [m, q]] of label and learner in each."""

    count: int
    Q: float
    q: float
    m: float

    @property
    def slope(self) -> float:
        """Of the learner's logit on the label's."""
        return self.m / self.Q

    @property
    def spare(self) -> float:
        """Variance that the label does not explain."""
        return max(self.q - self.m**2 / self.Q, 0.0)


def _bump(power: int, u: Array) -> Array:
    """e^(k u - e^u), the share of a column in t^k e^(-t Z), t e^h = e^u."""
    return np.exp(power * u - np.exp(np.minimum(u, LARGEST)))


def _normal(deviation: float, finest: float = 0.25) -> tuple[Array, Array]:
    """Nodes and weights of a Gaussian logit: equally spaced, no wider apart than what the bump can stand."""
    step = min(0.25, finest, STEP / max(deviation, 1e-12))
    x = step * np.arange(-np.ceil(RADIUS / step), np.ceil(RADIUS / step) + 1.0)
    weights = np.exp(-0.5 * x * x)
    return deviation * x, weights / weights.sum()


def _mean_bump(power: int, x: Array, deviation: float) -> Array:
    """Mean of a bump over a Gaussian logit that is added to every value of ``x``.

    Of a wide one nodes are laid over the bump, which is narrow, and the bump of power zero is the integral of that of power one.
    """
    if deviation < WIDE:
        h, w = _normal(deviation)
        return np.asarray(_bump(power, np.add.outer(x, h)) @ w)
    u = np.arange(-BUMP, RIGHT, STEP)
    beyond = np.subtract.outer(-x, -u) / deviation
    if power == 0:
        return np.asarray(cumulative(beyond) @ (STEP * _bump(1, u)))
    return np.asarray(density(beyond) @ (STEP / deviation * _bump(power, u)))


def _means(line: Array, deviation: float) -> tuple[Array, Array]:
    """Means of the bumps of powers one and zero over a Gaussian logit that is added to every value of a line."""
    if deviation >= WIDE:
        one, none = (
            np.concatenate([_mean_bump(k, part, deviation) for part in np.array_split(line, 1 + len(line) // 20_000)])
            for k in (1, 0)
        )
        return one, none
    free, chances = _normal(deviation)
    centre = np.exp(np.minimum(line, LARGEST))
    one, none = np.zeros_like(line), np.zeros_like(line)
    with np.errstate(over="ignore"):  # far beyond where the bump has ended
        for g, w in zip(np.exp(np.minimum(free, LARGEST)), chances, strict=True):
            bump = w * np.exp(-g * centre)
            none += bump
            one += g * bump
    return one * centre, none


def _on_a_line(column: Column, left: Array) -> tuple[Array, Array, Places, Places, Array]:
    """Labels with their weights; and all sums of a value of ``left``, STEP apart, and slope times a label, on a line of values: the
    place of a sum is that of the value plus that of the label.

    Where the slope is so small that the line would be longer than the table of sums, it is the table.
    """
    deviation, slope = float(np.sqrt(column.Q)), column.slope
    label, weights = _normal(deviation)
    apart = float(label[1] - label[0])
    parts = int(np.ceil(STEP / max(abs(slope) * apart, 1e-300))) if abs(slope) * apart * len(label) > STEP else 0
    if parts == 0:
        sums = np.add.outer(left, slope * label)
        return label, weights, np.arange(len(left)) * len(label), np.arange(len(label)), sums.ravel()
    apart = STEP / (parts * abs(slope))
    count = int(np.ceil(RADIUS * deviation / apart))
    steps = np.arange(-count, count + 1)
    label = np.asarray(apart * steps, dtype=np.float64)
    weights = np.exp(-0.5 * (label / deviation) ** 2)
    line = left[0] + STEP / parts * (np.arange(parts * (len(left) - 1) + 2 * count + 1) - count)
    turned = count + int(np.sign(slope)) * steps
    return label, weights / weights.sum(), parts * np.arange(len(left)), turned, line


@dataclass(frozen=True)
class SoftmaxRow:
    """One row of labels y = softmax(h*) and of a learner's answer p = softmax(h); logits of different columns are independent."""

    columns: tuple[Column, ...]

    @property
    def _labels(self) -> list[float]:
        return [column.Q for column in self.columns]

    @property
    def _learner(self) -> list[float]:
        return [column.q for column in self.columns]

    @property
    def widest(self) -> float:
        """The largest variance of a logit."""
        return max(*self._labels, *self._learner)

    @property
    def _shared(self) -> list[float]:
        return [column.m for column in self.columns]

    def _line(self, variances: Sequence[float]) -> Array:
        """Values of log t at which something happens, for logits of these variances."""
        deviation = float(np.sqrt(max(variances)))
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

    def _moment(self, power: int, variances: Sequence[float]) -> Array:
        """E p_b^k for a column of each kind, of a softmax whose logits have these variances."""
        x = self._line(variances)
        shares, rest = ([_mean_bump(k, x, float(np.sqrt(variance))) for variance in variances] for k in (power, 0))
        return STEP * np.array([line.sum() for line in self._of_row(shares, rest)])

    def _summed(self, moments: Array) -> float:
        return float(sum(column.count * moment for column, moment in zip(self.columns, moments, strict=True)))

    @cached_property
    def moments(self) -> tuple[Array, Array]:
        """E p and E p² for a column of each kind."""
        return self._moment(1, self._learner), self._moment(2, self._learner)

    @property
    def given_square(self) -> Array:
        """E (E p_b given h_b)² for a column of each kind: two rows that share this logit and no other."""
        x, found = self._line(self._learner), []
        rest = [_mean_bump(0, x, float(np.sqrt(variance))) for variance in self._learner]
        for variance, others in zip(self._learner, self._of_row([np.ones_like(x)] * len(rest), rest), strict=True):
            h, weights = _normal(float(np.sqrt(variance)))
            found.append(float(weights @ (STEP * _bump(1, np.add.outer(h, x)) @ others) ** 2))
        return np.array(found)

    @property
    def pp(self) -> float:
        """E sum p²."""
        return self._summed(self.moments[1])

    @property
    def yy(self) -> float:
        """E sum y²."""
        return self._of_labels.pp

    @property
    def _of_labels(self) -> "SoftmaxRow":
        """The row of a learner that is the label itself: the same whoever learns, and asked for again and again."""
        return _remembered(tuple(Column(column.count, column.Q, column.Q, column.Q) for column in self.columns))

    @cached_property
    def py(self) -> float:
        """E sum p y, an integral over two variables t.

        Given its label, a logit is Gaussian around slope times it: what its column adds depends on log t plus that alone, and labels
        are taken so far apart that these sums lie on one line.
        """
        left, right = self._line(self._learner), self._line(self._labels)
        if len(left) * len(right) > LARGEST_TABLE:
            raise OutsideDomain(
                f"logits of standard deviation {np.sqrt(max(self._learner)):.3g} with labels of {np.sqrt(max(self._labels)):.3g} are too "
                "wide for an average over their softmax; use a larger weight_decay, or a smaller beta or beta0."
            )
        shares, rest = [], []
        for column in self.columns:
            label, weights, first, steps, line = _on_a_line(column, left)
            own, own_rest = _means(line, float(np.sqrt(column.spare)))
            here, there = (_bump(k, np.add.outer(right, label)).T for k in (1, 0))
            tables = np.empty((2, len(left), len(right)))
            for rows in np.array_split(np.arange(len(left)), 1 + len(left) * len(label) // LARGEST_TABLE):
                places = np.add.outer(first[rows], steps)
                tables[0, rows], tables[1, rows] = (own[places] * weights) @ here, (own_rest[places] * weights) @ there
            shares.append(tables[0])
            rest.append(tables[1])
        return self._summed(STEP**2 * np.array([table.sum() for table in self._of_row(shares, rest)]))

    @cached_property
    def log_z(self) -> float:
        """E log Z of the learner's logits."""
        x = self._line(self._learner)
        rest = np.ones_like(x)
        for column in self.columns:
            rest *= _mean_bump(0, x, float(np.sqrt(column.q))) ** column.count
        return float(STEP * (_bump(0, x) - rest).sum())

    @property
    def log_label(self) -> float:
        """E log Z of the labels' logits."""
        return self._of_labels.log_z

    @property
    def ph(self) -> float:
        """E sum p h, by Stein's identity q times E p (1 - p) for every column."""
        return self._summed(np.array(self._learner) * self._spread)

    @property
    def pl(self) -> float:
        """E sum p h*, of the labels' logits h*: the same with m for q."""
        return self._summed(np.array(self._shared) * self._spread)

    @cached_property
    def yh(self) -> float:
        """E sum y h: m times E y (1 - y) for every column."""
        return self._summed(np.array(self._shared) * self._of_labels._spread)

    @property
    def yl(self) -> float:
        """E sum y h*."""
        return self._of_labels.ph

    @property
    def _spread(self) -> Array:
        """E p (1 - p) for a column of each kind."""
        return self.moments[0] - self.moments[1]

    @cached_property
    def missed(self) -> float:
        """E (1 - y_b) at the column b of the largest learner's logit: the 0/1 error on a label drawn from y (U7).

        Given the largest logit x the others lie below it, each with a probability of its own, and the average factorises again.
        """
        top = float(np.sqrt(max(self._learner)))
        if top == 0.0:  # nothing is preferred: as good as drawn
            return 1.0 - 1.0 / sum(column.count for column in self.columns)
        t = self._line(self._labels)
        step = 0.1 * min(1.0, float(np.sqrt(min(column.q for column in self.columns))) / top)
        x = top * step * np.arange(-np.ceil(RADIUS / step), np.ceil(RADIUS / step) + 1.0)
        shares, rest = [], []
        for column in self.columns:
            # the step that a learner without noise of its own makes is as wide as a few nodes: no order is lost but among equals
            deviation = max(float(np.sqrt(column.spare)), SHARP * abs(column.slope) * float(np.sqrt(column.Q)), 1e-300)
            finest = deviation / max(abs(column.slope) * float(np.sqrt(column.Q)), 1e-12)
            label, weights = _normal(float(np.sqrt(column.Q)), finest)
            below = cumulative(np.subtract.outer(x, column.slope * label) / deviation)
            rest.append((below * weights) @ _bump(0, np.add.outer(label, t)))
            given, chances = _normal(float(np.sqrt(max(column.Q - column.m**2 / column.q, 0.0))))
            centre = np.add.outer(column.m / column.q * x, t)
            here = sum(w * _bump(1, centre + g) for g, w in zip(given, chances, strict=True))
            shares.append((density(x / np.sqrt(column.q)) / np.sqrt(column.q))[:, None] * here)
        return 1.0 - self._summed(top * step * STEP * np.array([table.sum() for table in self._of_row(shares, rest)]))


@lru_cache(maxsize=64)
def _remembered(columns: tuple[Column, ...]) -> SoftmaxRow:
    """A row that is kept with what is known of it."""
    return SoftmaxRow(columns)
