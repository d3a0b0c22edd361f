"""Where the bulk of a spectrum ends, and what stands beyond it; and the exponent of its tail.

Near a soft edge E the density of N values is N (a/π) sqrt(E - x), whatever the law. Its scale w = (a N)^(-2/3) is that of the
Tracy-Widom law: the j-th largest value lies on average at E - w z_j, with z_1 = 1.2065 and z_j close to
(3π(j - 0.6)/2)^(2/3), and the largest spreads by 1.27 w. A line through the largest values of the bulk against z_j has E as
its intercept and w as its slope, so no law needs to be assumed.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["BEYOND", "Edge", "Tail", "bulk_edge", "power_tail"]

Array = NDArray[np.float64]

# A value is an outlier beyond E + BEYOND w. Tracy-Widom alone would ask for 2.02 at one per cent; the rest pays for E and w
# being fitted to few values, and for trying every number of outliers. The rate it leaves is measured in tests and docs.
BEYOND = 6.0
FEWEST = 16  # values below which no edge is fitted
WINDOW = 8  # fewest values of the line
SHARE = 3  # one third of the bulk makes the line; farther in the density bends away from the square root
LIMIT = 4  # where one value in four or more lies beyond, it is a second bulk and none are outliers

TAIL = 10  # fewest values of a tail


@dataclass(frozen=True)
class Edge:
    """Upper edge E of the bulk, its Tracy-Widom scale w, and how many of the largest values lie beyond E + 6 w."""

    position: float
    width: float
    outliers: int


@dataclass(frozen=True)
class Tail:
    """Density of the largest values ~ σ^-exponent on ``window``: a fit to ``count`` values, with its distance."""

    exponent: float
    error: float
    window: tuple[float, float]
    count: int
    ks: float


def _airy_positions(count: int) -> Array:
    """z_j, the mean distance of the j-th largest value from the edge in units of w (GOE class)."""
    z = np.power(1.5 * np.pi * (np.arange(1.0, count + 1.0) - 0.6), 2.0 / 3.0)
    z[0] = 1.2065
    return z


def _line(values: Array) -> tuple[float, float]:
    """(E, w) from the largest of ``values``, which fall; spacings of outer values are noisier, by z^(-1/2) in variance."""
    count = max(WINDOW, values.size // SHARE)
    z = _airy_positions(count)
    weight = np.sqrt(z)
    mean_z, mean_y = np.average(z, weights=weight), np.average(values[:count], weights=weight)
    slope = float(np.sum(weight * (z - mean_z) * (mean_y - values[:count])) / np.sum(weight * (z - mean_z) ** 2))
    return float(mean_y + slope * mean_z), slope


def bulk_edge(values: Array) -> Edge | None:
    """Edge and outliers of positive values in falling order; none for fewer than 16.

    From the inside outwards: the largest k such that value k lies beyond the edge of those below it. So one outlier cannot
    hide another. Of a long smooth tail the last few values may count, not the tail.

    Examples
    --------
    >>> bulk = np.sqrt(np.linspace(4.0, 1.0, 30))
    >>> bulk_edge(bulk).outliers, bulk_edge(np.concatenate([[5.0, 4.0], bulk])).outliers
    (0, 2)
    """
    if values.size < FEWEST:
        return None
    most = values.size // LIMIT
    for k in range(most, 0, -1):
        edge, width = _line(values[k:])
        limit = edge + BEYOND * width
        if values[k - 1] > limit >= values[k]:  # a bulk that breaks its own line is no bulk
            return Edge(edge, width, k) if k < most else Edge(*_line(values), 0)
    return Edge(*_line(values), 0)


def power_tail(values: Array) -> Tail | None:
    """Exponent of the tail by maximum likelihood, 1 + n / Σ ln(σ/σ_min), its window by the smallest KS distance.

    Its error (exponent - 1)/sqrt(n) takes values as independent; the window is searched over every start that leaves at
    least 10 values, so a tail of few values says little whatever its error.

    Examples
    --------
    >>> values = (np.arange(1, 1001) / 1000.0) ** -0.5  # density ~ σ^-3
    >>> round(power_tail(values).exponent, 1)
    3.0
    """
    if values.size < TAIL or values[TAIL - 1] <= 0.0:
        return None
    best: Tail | None = None
    for count in range(TAIL, values.size + 1):
        low = float(values[count - 1])
        logs = np.log(values[:count] / low) if low > 0.0 else np.zeros(1)
        if not logs.sum() > 0.0:
            continue
        exponent = 1.0 + count / float(logs.sum())
        above = np.exp(-(exponent - 1.0) * logs)  # model share above each value; the data's are 1/n, 2/n, ...
        ranks = np.arange(1, count + 1) / count
        ks = float(np.max(np.maximum(np.abs(above - ranks), np.abs(above - ranks + 1.0 / count))))
        if best is None or ks < best.ks:
            best = Tail(exponent, (exponent - 1.0) / count**0.5, (low, float(values[0])), count, ks)
    return best
