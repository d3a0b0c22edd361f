"""Upper edge of the bulk of a spectrum, the outliers beyond it, and the exponent of its tail.

Near a soft edge E the density of N values is N (a/π) sqrt(E - x), whatever the law. Its scale w = (a N)^(-2/3) is that
of the Tracy-Widom law: the j-th largest value lies on average at E - w z_j, with z_1 = 1.2065 and z_j close to
(3π(j - 0.6)/2)^(2/3), and the standard deviation of the largest is 1.27 w. A straight line fitted to the largest values
of the bulk against z_j has intercept E and slope -w, so no law needs to be assumed.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# A value is an outlier beyond E + OUTLIER_DISTANCE w. Tracy-Widom alone would need 2.02 for a false-alarm rate of one
# per cent; the larger distance allows for E and w being fitted to few values, and for trying every number of outliers.
# The remaining rate of false alarms is measured in the tests and given in docs/checkpoints.md.
OUTLIER_DISTANCE = 6.0
MINIMUM_VALUES = 16  # values below which no edge is fitted
MINIMUM_LINE_VALUES = 8
LINE_FRACTION = 3  # the line is fitted to one third of the bulk; deeper inside, the density is no longer a square root
OUTLIER_FRACTION = 4  # if one value in four or more lies beyond the edge, these are a second bulk and not outliers
UPPER_BULK_FRACTION = 2  # a second bulk is looked for in the upper half of the values
LARGEST_VALUE_DEVIATION = 1.27  # standard deviation of the largest value of a bulk, in units of w (Tracy-Widom)
ERROR_FRACTION = 9  # the line through one value in nine, whose difference from the first estimates the bias

MINIMUM_TAIL_VALUES = 10


@dataclass(frozen=True)
class Edge:
    """Upper edge E of the bulk, its Tracy-Widom scale w, and how many of the largest values lie beyond E + 6 w.

    ``error`` is the standard error of E: the fluctuation 1.27 w of the largest value and the bias of the line, since a
    density is a square root only near its edge.
    """

    position: float
    width: float
    outliers: int
    error: float


@dataclass(frozen=True)
class Tail:
    """Power law σ^-exponent fitted to the density of the ``count`` largest values, which lie in ``window``.

    ``error`` is the standard error of the exponent and ``ks`` the Kolmogorov-Smirnov distance of the fit.
    """

    exponent: float
    error: float
    window: tuple[float, float]
    count: int
    ks: float


def _airy_positions(count: int) -> Array:
    """Return z_j, the mean distance of the j-th largest value from the edge in units of w (GOE class)."""
    z = np.power(1.5 * np.pi * (np.arange(1.0, count + 1.0) - 0.6), 2.0 / 3.0)
    z[0] = 1.2065
    return z


def _fit_edge(values: Array, fraction: int = LINE_FRACTION) -> tuple[float, float]:
    """Return (E, w), fitted to the largest of ``values`` in descending order, one in ``fraction`` of them.

    The variance of the j-th value is proportional to z_j^(-1/2), which sets the weights.
    """
    count = max(MINIMUM_LINE_VALUES, values.size // fraction)
    z = _airy_positions(count)
    weight = np.sqrt(z)
    mean_z, mean_y = np.average(z, weights=weight), np.average(values[:count], weights=weight)
    slope = float(np.sum(weight * (z - mean_z) * (mean_y - values[:count])) / np.sum(weight * (z - mean_z) ** 2))
    return float(mean_y + slope * mean_z), slope


def _edge_of(values: Array, outliers: int) -> Edge:
    """Return the edge of these values, which contain no outlier, with its error."""
    position, width = _fit_edge(values)
    bias = _fit_edge(values, ERROR_FRACTION)[0] - position
    return Edge(position, width, outliers, float(np.hypot(LARGEST_VALUE_DEVIATION * width, bias)))


def bulk_edge(values: Array) -> Edge | None:
    """Find the upper edge of the bulk of a spectrum and the outliers beyond it.

    The number of outliers is the largest k such that value k lies beyond the edge fitted to the values below it, so
    that one outlier cannot hide another. In a long smooth tail at most the last few values count as outliers. If one
    value in four or more lies beyond such an edge, these values are an upper bulk, whose own edge and outliers are
    returned.

    Parameters
    ----------
    values : array
        Positive values in descending order.

    Returns
    -------
    Edge or None
        Position E with its error, width w and number of outliers; None for fewer than 16 values.

    Examples
    --------
    >>> bulk = np.sqrt(np.linspace(4.0, 1.0, 30))
    >>> bulk_edge(bulk).outliers, bulk_edge(np.concatenate([[5.0, 4.0], bulk])).outliers
    (0, 2)
    """
    if values.size < MINIMUM_VALUES:
        return None
    for k in range(values.size // UPPER_BULK_FRACTION, 0, -1):
        edge, width = _fit_edge(values[k:])
        limit = edge + OUTLIER_DISTANCE * width
        # the second condition: the values below must themselves lie inside the edge that was fitted to them
        if values[k - 1] > limit >= values[k]:
            if k < values.size // OUTLIER_FRACTION:
                return _edge_of(values[k:], k)
            upper = values[:k] if k >= MINIMUM_LINE_VALUES else values
            return (bulk_edge(upper) if upper.size < values.size else None) or _edge_of(upper, 0)
    return _edge_of(values, 0)


def values_beyond(values: Array, distance: float) -> int:
    """Return how many of the largest values lie beyond the edge of those below them by ``distance`` widths.

    At most one value in four counts. For distances below that of `bulk_edge` the answer contains directions that are
    not certain.

    Examples
    --------
    >>> bulk = np.sqrt(np.linspace(4.0, 1.0, 30))
    >>> values_beyond(np.concatenate([[2.3], bulk]), 3.0), values_beyond(bulk, 3.0)
    (1, 0)
    """
    for k in range(values.size // OUTLIER_FRACTION if values.size >= MINIMUM_VALUES else 0, 0, -1):
        edge, width = _fit_edge(values[k:])
        if values[k - 1] > edge + distance * width:
            return k
    return 0


def power_tail(values: Array) -> Tail | None:
    """Fit a power law to the upper tail of a spectrum.

    The exponent is the maximum-likelihood estimate 1 + n / Σ ln(σ/σ_min). The window is the one with the smallest
    Kolmogorov-Smirnov distance among all that contain at least 10 values, so a tail of few values is weak evidence
    whatever its error.

    Parameters
    ----------
    values : array
        Values in descending order, the first 10 of them positive.

    Returns
    -------
    Tail or None
        Exponent with its standard error (exponent - 1)/sqrt(n), which assumes independent values; None for fewer than
        10 positive values or if all are equal.

    Examples
    --------
    >>> values = (np.arange(1, 1001) / 1000.0) ** -0.5  # density ~ σ^-3
    >>> round(power_tail(values).exponent, 1)
    3.0
    """
    if values.size < MINIMUM_TAIL_VALUES or values[MINIMUM_TAIL_VALUES - 1] <= 0.0:
        return None
    best: Tail | None = None
    for count in range(MINIMUM_TAIL_VALUES, values.size + 1):
        low = float(values[count - 1])
        logs = np.log(values[:count] / low) if low > 0.0 else np.zeros(1)
        if not logs.sum() > 0.0:
            continue
        exponent = 1.0 + count / float(logs.sum())
        above = np.exp(-(exponent - 1.0) * logs)  # share above each value in the model; in the data 1/n, 2/n, ...
        ranks = np.arange(1, count + 1) / count
        ks = float(np.max(np.maximum(np.abs(above - ranks), np.abs(above - ranks + 1.0 / count))))
        if best is None or ks < best.ks:
            best = Tail(exponent, (exponent - 1.0) / count**0.5, (low, float(values[0])), count, ks)
    return best
