"""Averages of a softmax of independent Gaussian logits, for any number of them and without sampling (2.9).

A softmax divides by the sum Z of exponentials of independent Gaussian logits. With 1/Z^k written as an integral over t
the average factorises over the columns of the row, and integrals over one or two logits remain.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from onehead.errors import OutsideDomain
from onehead.numerics.gaussian import cumulative, density

Array = NDArray[np.float64]
Places = NDArray[np.int64]

# spacing of log t, and largest of a logit. The sum over log t of e^(k log t - t Z) is off by the share
# 2 |Gamma(k + 2 pi i / STEP)| of the integral: 2e-12 for k = 1 and 4e-11 for k = 2; integrands of more variables
# are analytic in strips as wide. Ends (LEFT, RADIUS) cost e^-24, and 6e-14 per column: averages of a row of T columns,
# which lie between zero and one, have errors of about 1e-10 + 1e-13 T
STEP = 0.33
RADIUS = 7.5  # standard deviations of a logit
SHARP = 0.01  # of a deviation: how sharp an order of logits is kept; the 0/1 error loses the square of it
LARGEST_TABLE = 8_000_000  # numbers in a table over two variables t: enough for standard deviations of 60
LARGEST = 700.0  # largest exponent of a float; e^-(e^x) underflows long before
WIDE = 4.0 * STEP  # standard deviation beyond which a Gaussian is smoother than the bump
BUMP = 37.0  # left of this a bump of power one is zero to rounding
LEFT, RIGHT = 24.0, 4.0  # e^x on one side and exp(-e^x) on the other are below 1e-10 there
SHORT_ROW = 64  # columns up to which all rows are integrated over the same line, and share the factors of their columns
MAXIMUM_CACHED_TABLE = 100_000  # numbers in a table of factors that is kept for other rows
INTERPOLATED_PARTS = 6  # of STEP: spacing of a table that polynomials of degree seven interpolate to 1e-10

Line = tuple[float, int]  # first point, and number of points of spacing STEP


@dataclass(frozen=True)
class Column:
    """Exchangeable columns of a row: their number, and the covariance [[Q, m], [m, q]] of label and learner in each."""

    count: int
    Q: float
    q: float
    m: float

    @property
    def slope(self) -> float:
        """Regression slope of the learner's logit on the label's."""
        return self.m / self.Q

    @property
    def spare(self) -> float:
        """Variance of the learner's logit given the label's."""
        return max(self.q - self.m**2 / self.Q, 0.0)


def _bump(power: int, u: Array) -> Array:
    """Return e^(k u - e^u), the factor of a column in t^k e^(-t Z), with t e^h = e^u."""
    return np.exp(power * u - np.exp(np.minimum(u, LARGEST)))


def _normal(deviation: float, finest: float = 0.25) -> tuple[Array, Array]:
    """Return equally spaced nodes and weights of a Gaussian logit, close enough to resolve `_bump`."""
    step = min(0.25, finest, STEP / max(deviation, 1e-12))
    x = step * np.arange(-np.ceil(RADIUS / step), np.ceil(RADIUS / step) + 1.0)
    weights = np.exp(-0.5 * x * x)
    return deviation * x, weights / weights.sum()


def _mean_bump(power: int, x: Array, deviation: float) -> Array:
    """Return the mean of `_bump` over a Gaussian logit that is added to every value of ``x``.

    For a wide Gaussian the nodes cover the bump instead, and the bump of power zero is the integral of that of power
    one.
    """
    if deviation < WIDE:
        h, w = _normal(deviation)
        return np.asarray(_bump(power, np.add.outer(x, h)) @ w)
    u = np.arange(-BUMP, RIGHT, STEP)
    beyond = np.subtract.outer(-x, -u) / deviation
    if power == 0:
        weights = _bump(1, u)
        # the power of many columns would make an error of STEP * sum = 1 + 2 |Gamma(1 + 2 pi i / STEP)| visible
        return np.asarray(cumulative(beyond) @ (weights / weights.sum()))
    return np.asarray(density(beyond) @ (STEP / deviation * _bump(power, u)))


def _means(line: Array, deviation: float) -> tuple[Array, Array]:
    """Return the means of `_bump` of powers one and zero over a Gaussian logit that is added to every value of a
    line.
    """
    if deviation >= WIDE:
        one, none = (
            np.concatenate([_mean_bump(k, part, deviation) for part in np.array_split(line, 1 + len(line) // 20_000)])
            for k in (1, 0)
        )
        return one, none
    free, chances = _normal(deviation)
    centre = np.exp(np.minimum(line, LARGEST))
    one, none = np.zeros_like(line), np.zeros_like(line)
    with np.errstate(over="ignore"):  # far beyond the bump
        for g, w in zip(np.exp(np.minimum(free, LARGEST)), chances, strict=True):
            bump = w * np.exp(-g * centre)
            none += bump
            one += g * bump
    return one * centre, none


def _points(line: Line) -> Array:
    """Return the points of a line."""
    low, count = line
    return np.asarray(low + STEP * np.arange(count), dtype=np.float64)


@lru_cache(maxsize=512)
def _mean_bump_on(line: Line, power: int, variance: float) -> Array:
    """Return the means of `_bump` on a line for a logit of this variance; rows that differ in length share them."""
    return _mean_bump(power, _points(line), float(np.sqrt(variance)))


def _joint_factors(column: Column, left_line: Line, right_line: Line) -> tuple[Array, Array]:
    """Return tables over both variables t of the mean of p y without the normalisation, and of what other columns
    contribute, for one column.

    Given its label, a logit is Gaussian around slope times the label, so that the factor of its column depends on
    log t plus that mean; labels are spaced so that these sums lie on one line.
    """
    left, right = _points(left_line), _points(right_line)
    label, weights, first, steps, line = _on_a_line(column, left)
    own, own_rest = _means(line, float(np.sqrt(column.spare)))
    here, there = (_bump(k, np.add.outer(right, label)).T for k in (1, 0))
    tables = np.empty((2, len(left), len(right)))
    for rows in np.array_split(np.arange(len(left)), 1 + len(left) * len(label) // LARGEST_TABLE):
        places = np.add.outer(first[rows], steps)
        tables[0, rows], tables[1, rows] = (own[places] * weights) @ here, (own_rest[places] * weights) @ there
    return tables[0], tables[1]


_cached_joint_factors = lru_cache(maxsize=8)(_joint_factors)


def _largest_logit_factors(column: Column, line: Line, top: float, step: float) -> tuple[Array, Array]:
    """Return tables over the largest logit and log t for the 0/1 error: the mean of y with the density of the
    column's own logit there, and what a column contributes whose logit lies below.
    """
    t, x = _points(line), top * step * np.arange(-np.ceil(RADIUS / step), np.ceil(RADIUS / step) + 1.0)
    # the step of a learner without independent noise is smoothed over a few nodes, which loses the order of equal
    # logits only
    deviation = max(float(np.sqrt(column.spare)), SHARP * abs(column.slope) * float(np.sqrt(column.Q)), 1e-300)
    finest = deviation / max(abs(column.slope) * float(np.sqrt(column.Q)), 1e-12)
    label, weights = _normal(float(np.sqrt(column.Q)), finest)
    below = cumulative(np.subtract.outer(x, column.slope * label) / deviation)
    rest = (below * weights) @ _bump(0, np.add.outer(label, t))
    spread = float(np.sqrt(max(column.Q - column.m**2 / column.q, 0.0)))
    here = _mean_bump_of_sums(column.m / column.q * x, line, spread)
    return (density(x / np.sqrt(column.q)) / np.sqrt(column.q))[:, None] * here, rest


_cached_largest_logit_factors = lru_cache(maxsize=8)(_largest_logit_factors)


def _mean_bump_of_sums(shifts: Array, line: Line, deviation: float) -> Array:
    """Return the means of `_bump` of power one over a Gaussian logit at all sums of a shift and a point of a line.

    They depend on the sum alone and are interpolated in a table on a finer line. A shift moves every point by the same
    part of its spacing, so that its eight weights are the same at all of them.
    """
    spacing, (low, count) = STEP / INTERPOLATED_PARTS, line
    start = low + float(shifts.min()) - 4.0 * spacing
    size = int(np.ceil((float(np.ptp(shifts)) + STEP * count) / spacing)) + 10
    table, _ = _means(np.asarray(start + spacing * np.arange(size), dtype=np.float64), deviation)
    place = (shifts + low - start) / spacing
    first = np.floor(place).astype(int)
    offsets = np.arange(-3, 5)
    apart = (place - first)[:, None] - offsets
    found = np.zeros((len(shifts), count))
    columns = INTERPOLATED_PARTS * np.arange(count)
    for k, offset in enumerate(offsets):
        others = np.delete(np.arange(8), k)
        weight = np.prod(apart[:, others] / (offset - offsets[others]), axis=1)
        found += weight[:, None] * table[np.add.outer(first + offset, columns)]
    return found


def _on_a_line(column: Column, left: Array) -> tuple[Array, Array, Places, Places, Array]:
    """Return labels with their weights, and all sums of a value of ``left`` and slope times a label on one line of
    spacing STEP.

    The index of a sum is that of the value plus that of the label. Where the slope is so small that the line would be
    longer than the table of sums, the table is returned.
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
    """A row with labels y = softmax(h*) and a learner's output p = softmax(h); logits of different columns are
    independent.
    """

    columns: tuple[Column, ...]

    @property
    def _labels(self) -> list[float]:
        return [column.Q for column in self.columns]

    @property
    def _learner(self) -> list[float]:
        return [column.q for column in self.columns]

    @property
    def widest(self) -> float:
        """Largest variance of a logit."""
        return max(*self._labels, *self._learner)

    @property
    def _shared(self) -> list[float]:
        return [column.m for column in self.columns]

    def _line(self, variances: Sequence[float]) -> Line:
        """Return the values of log t at which the integrand is not negligible, for logits of these variances."""
        deviation = float(np.sqrt(max(variances)))
        tokens = max(sum(column.count for column in self.columns), SHORT_ROW)
        low, high = -RADIUS * deviation - float(np.log(tokens)) - LEFT, RADIUS * deviation + RIGHT
        return low, int(np.ceil((high + STEP - low) / STEP))

    def _of_row(self, part: Sequence[Array], rest: Sequence[Array]) -> list[Array]:
        """Return for each kind of column the product of ``part`` of one column and ``rest`` of all others."""
        found = []
        for i in range(len(self.columns)):
            product = part[i].copy()
            for j, column in enumerate(self.columns):
                product *= rest[j] ** (column.count - (i == j))
            found.append(product)
        return found

    def _moment(self, power: int, variances: Sequence[float]) -> Array:
        """Return E p_b^k for a column of each kind, of a softmax whose logits have these variances."""
        line = self._line(variances)
        shares, rest = ([_mean_bump_on(line, k, variance) for variance in variances] for k in (power, 0))
        return STEP * np.array([line.sum() for line in self._of_row(shares, rest)])

    def _summed(self, moments: Array) -> float:
        return float(sum(column.count * moment for column, moment in zip(self.columns, moments, strict=True)))

    @cached_property
    def moments(self) -> tuple[Array, Array]:
        """E p and E p² for a column of each kind."""
        return self._moment(1, self._learner), self._moment(2, self._learner)

    @property
    def squared_conditional_mean(self) -> Array:
        """E (E p_b given h_b)² for a column of each kind, which two rows that share this logit only have in common."""
        line, found = self._line(self._learner), []
        x, rest = _points(line), [_mean_bump_on(line, 0, variance) for variance in self._learner]
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
        """The row of a learner that equals the label; it does not depend on the learner and is cached."""
        return cached_row(tuple(Column(column.count, column.Q, column.Q, column.Q) for column in self.columns))

    @cached_property
    def py(self) -> float:
        """E sum p y, an integral over two variables t."""
        left, right = self._line(self._learner), self._line(self._labels)
        numbers = left[1] * right[1]
        if numbers > LARGEST_TABLE:
            raise OutsideDomain(
                f"logits of standard deviation {np.sqrt(max(self._learner)):.3g} with labels of "
                f"{np.sqrt(max(self._labels)):.3g} are too "
                "wide for an average over their softmax; use a larger weight_decay, or a smaller beta or beta0."
            )
        factors = _cached_joint_factors if numbers <= MAXIMUM_CACHED_TABLE else _joint_factors
        tables = [factors(replace(column, count=1), left, right) for column in self.columns]
        shares, rest = [share for share, _ in tables], [other for _, other in tables]
        return self._summed(STEP**2 * np.array([table.sum() for table in self._of_row(shares, rest)]))

    @cached_property
    def log_z(self) -> float:
        """E log Z of the learner's logits."""
        line = self._line(self._learner)
        x = _points(line)
        rest = np.ones_like(x)
        for column in self.columns:
            rest *= _mean_bump_on(line, 0, column.q) ** column.count
        return float(STEP * (_bump(0, x) - rest).sum())

    @property
    def log_z_label(self) -> float:
        """E log Z of the labels' logits."""
        return self._of_labels.log_z

    @property
    def ph(self) -> float:
        """E sum p h, by Stein's identity q times E p (1 - p) for every column."""
        return self._summed(np.array(self._learner) * self._spread)

    @property
    def pl(self) -> float:
        """E sum p h*, by Stein's identity m times E p (1 - p) for every column."""
        return self._summed(np.array(self._shared) * self._spread)

    @cached_property
    def yh(self) -> float:
        """E sum y h, by Stein's identity m times E y (1 - y) for every column."""
        return self._summed(np.array(self._shared) * self._of_labels._spread)

    @property
    def yl(self) -> float:
        """E sum y h*, by Stein's identity."""
        return self._of_labels.ph

    @property
    def _spread(self) -> Array:
        """E p (1 - p) for a column of each kind."""
        return self.moments[0] - self.moments[1]

    @cached_property
    def zero_one_error(self) -> float:
        """E (1 - y_b) at the column b of the largest learner's logit: the 0/1 error on a label sampled from y (U7).

        Given the largest logit x the others lie below it independently, and the average factorises again.
        """
        top = float(np.sqrt(max(self._learner)))
        if top == 0.0:  # the learner prefers no column: as good as a random choice
            return 1.0 - 1.0 / sum(column.count for column in self.columns)
        line = self._line(self._labels)
        step = 0.1 * min(1.0, float(np.sqrt(min(column.q for column in self.columns))) / top)
        numbers = line[1] * 2.0 * RADIUS / step
        factors = _cached_largest_logit_factors if numbers <= MAXIMUM_CACHED_TABLE else _largest_logit_factors
        tables = [factors(replace(column, count=1), line, top, step) for column in self.columns]
        shares, rest = [share for share, _ in tables], [other for _, other in tables]
        return 1.0 - self._summed(top * step * STEP * np.array([table.sum() for table in self._of_row(shares, rest)]))


@lru_cache(maxsize=256)
def cached_row(columns: tuple[Column, ...]) -> SoftmaxRow:
    """Return the row of these columns, with the averages computed so far."""
    return SoftmaxRow(columns)
