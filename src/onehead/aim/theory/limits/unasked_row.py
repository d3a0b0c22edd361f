"""The row of the map along the mean of the queries, which carries the unasked field: its outlier and its pull (D3).

The row has one of d entries of the spectrum. With e the direction of the mean and r the row, the blurred target has a
row t r/|r| along e, chosen such that the soft threshold of the singular values leaves the row r. Singular values of the
map along the row have the law nu, whose transform in the variable x² is H/(1 - t² H), with H = g(x)/x and g the
Stieltjes transform of the symmetrised law rho_s.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.numerics.brent import brent_root
from onehead.spectra.law import Law

Array = NDArray[np.float64]


class UnaskedRow(NamedTuple):
    """The row along the mean, in the units of the map.

    Attributes
    ----------
    blurred : float
        t, length of the row in the blurred target.
    position : float or None
        Singular value of the outlier; None where the row stays within the bulk.
    query_overlap, key_overlap : float
        Squared overlaps of its left singular vector with the mean and of its right one with the field; zero without an
        outlier.
    pull : float
        g1, derivative of the nuclear norm of the map in the length of the row.
    """

    blurred: float
    position: float | None
    query_overlap: float
    key_overlap: float
    pull: float


def unasked_row(law: Law, eps: float, slope: float, length: float) -> UnaskedRow:
    """Return the row of a map with singular values slope (x - eps)_+, x from ``law``, whose length is ``length`` (D3).

    Parameters
    ----------
    law : Law
        Symmetrised law rho_s of the blurred singular values.
    eps, slope : float
        Threshold, zero for direct training, and factor of the map.
    length : float
        Length |r| of the row.
    """
    every, kept, edge = law.nodes(0.0), law.nodes(eps), law.edges[-1][1]  # all singular values, and those not cut
    x = kept.x
    transform = (kept.hilbert - 1j * np.pi * law.density(x)) / x

    def outside(square: float, power: int = 1) -> float:
        return 2.0 * float(np.sum(every.mass / (square - every.x**2) ** power))

    at_edge = outside(edge * edge)

    def law_along(t: float) -> tuple[Array, float | None, float]:
        """Return the masses of nu at the nodes that are not cut, and place and mass of its outlier."""
        bulk = 2.0 * kept.mass / np.abs(1.0 - t * t * transform) ** 2
        if t * t * at_edge <= 1.0:
            return bulk, None, 0.0
        square = brent_root(lambda z: t * t * outside(z) - 1.0, edge * edge, edge * edge + t * t, xtol=1e-13 * t * t)
        return bulk, float(np.sqrt(square)), 1.0 / (t**4 * outside(square, 2))

    def learned(t: float) -> float:
        bulk, place, weight = law_along(t)
        found = float(bulk @ (1.0 - eps / x))
        return slope * t * (found + (weight * max(1.0 - eps / place, 0.0) if place is not None else 0.0))

    high = length / slope + eps + edge
    while learned(high) < length:
        high *= 2.0
    t = brent_root(lambda t: learned(t) - length, 0.0, high, xtol=1e-12 * high)
    bulk, place, weight = law_along(t)
    pull = t * float(bulk @ (1.0 / x))
    if place is None or place <= eps:
        return UnaskedRow(t, None, 0.0, 0.0, pull)
    return UnaskedRow(t, slope * (place - eps), t * t * weight / place**2, weight, pull + t * weight / place)
