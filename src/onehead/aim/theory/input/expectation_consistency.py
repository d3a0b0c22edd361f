"""Expectation consistency: weight decay on the singular values of a map whose entries have several precisions (U5.3,
D8.4).

The entries of the map fall into groups with hats of their own: the two sectors of self-attention, or the products of
the tokens' eigenvalues. A Gaussian of the same first two moments stands for the penalty in each group, and a spectral
problem with one common precision for the groups; the two agree about size, overlap and response. Exact where all groups
have the same hats.
"""

from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.aim.theory.input.channel import InputChannel
from onehead.aim.theory.order_parameters import SpectralMap
from onehead.errors import NotConverged, OutsideDomain, SolveError
from onehead.numerics.fixed_point import FixedPoint, fixed_point
from onehead.spectra.law import ThresholdIntegrals

Array = NDArray[np.float64]

# residual of the fixed point of expectation consistency, in units of the hats: wanted, and accepted
TOLERANCE, ACCEPTED_RESIDUAL = 1e-11, 3e-8


class Groups(NamedTuple):
    """Hats of the groups of entries, and the share of entries in each."""

    q: Array
    m: Array
    sigma: Array
    weights: Array

    def mean(self, values: Array) -> float:
        """Mean over the entries."""
        return float(self.weights @ values)

    def check(self) -> None:
        """Refuse hats that are not positive on the average, or negative.

        Raises
        ------
        OutsideDomain
            If an iterate has left the domain of the equations.
        """
        if not min(float(self.q.min()), float(self.m.min()), float(self.sigma.min())) >= 0.0 or not (
            self.mean(self.q) > 0.0 and self.mean(self.m) > 0.0 and self.mean(self.sigma) > 0.0
        ):
            raise OutsideDomain(
                "the output channel gave hats that are not positive; the iterate has left the domain of the equations."
            )


class Consistent(NamedTuple):
    """Overlaps q, m and Sigma of every group, and mean singular value, rank and spectral map of the whole map."""

    q: Array
    m: Array
    sigma: Array
    tau: float
    rank: float
    map: SpectralMap


def consistent_overlaps(channel: InputChannel, groups: Groups, integrals: Any, last: list[FixedPoint]) -> Consistent:
    """Return the overlaps of every group from their hats.

    Parameters
    ----------
    channel : InputChannel
        Channel with the weight decay and the power of the target.
    groups : Groups
        Hats of the groups.
    integrals : callable
        Threshold integrals of the blurred target at (s, eps).
    last : list of FixedPoint
        Fixed point of the last call, from which this one starts; it is replaced.

    Raises
    ------
    OutsideDomain
        If the groups could not be made consistent, or the map is zero.
    """
    q_hat, m_hat, sigma_hat, _ = groups
    mean, Q0 = groups.mean, channel.target_power
    unit = np.array([mean(sigma_hat), mean(m_hat), mean(q_hat)])
    found_parts: dict[str, tuple[Any, ...]] = {}

    def sweep(x: Array) -> Array:
        g1, mu1, nu1 = unit * [np.expm1(x[0]), x[1], x[2]]
        chi = mean(1.0 / (sigma_hat + g1))
        g2, w = 1.0 / chi - g1, 1.0 / (chi * (sigma_hat + g1))
        means = w * m_hat + (w - 1.0) * mu1
        mu2 = mean(means)
        nu2 = mean(w**2 * q_hat + (w - 1.0) ** 2 * nu1 + (means - mu2) ** 2 * Q0)
        if not (mu2 > 0.0 and nu2 > 0.0 and g2 > 0.0):
            raise OutsideDomain("the groups of entries could not be made consistent here.")
        s, eps, slope = nu2 / mu2**2, channel.decay / mu2, mu2 / g2
        part: ThresholdIntegrals = integrals(s, eps)
        if not part.A > 0.0:
            raise OutsideDomain("every singular value fell below the threshold: the map is zero here.")
        overlap = part.J + eps * part.B - s * part.A
        found_parts["spectral"] = (slope * part.B, part.rank, SpectralMap(s, eps, part.cut, slope))
        g1, mu1 = g2 / part.A - g2, mu2 * (overlap / (part.A * Q0) - 1.0)
        nu1 = mu2**2 * ((part.J - overlap**2 / Q0) / part.A**2 - s)
        found_parts["gaussian"] = (g1, mu1, nu1)
        return np.array([np.log1p(max(g1, 0.0) / unit[0]), mu1 / unit[1], nu1 / unit[2]])

    how: dict[str, Any] = {"tolerance": TOLERANCE, "damping": 0.5, "max_evaluations": 400, "limit": 1e9}
    found = None
    if last:
        with suppress(SolveError):
            found = fixed_point(sweep, last[0].value, secants=last[0].secants, **how)
    try:
        last[:] = [found or fixed_point(sweep, _start(channel, groups, integrals), **how)]
    except NotConverged as failure:  # a law that is next to its atoms is not as smooth
        if not failure.residual < ACCEPTED_RESIDUAL:
            raise
    g1, mu1, nu1 = found_parts["gaussian"]
    sigma = 1.0 / (sigma_hat + g1)
    q, m = ((m_hat + mu1) ** 2 * Q0 + q_hat + nu1) * sigma**2, (m_hat + mu1) * Q0 * sigma
    return Consistent(q, m, sigma, *found_parts["spectral"])


def _start(channel: InputChannel, groups: Groups, integrals: Any) -> Array:
    """Return the unknowns where the groups share one spectral problem, which is exact close to emergence."""
    m = groups.mean(groups.m)
    spread = groups.mean(groups.q) + groups.mean((groups.m - m) ** 2) * channel.target_power
    A = integrals(spread / m**2, channel.decay / m).A
    return np.array([-np.log(min(A, 1.0)) if A > 0.0 else 0.0, 0.0, 0.0])
