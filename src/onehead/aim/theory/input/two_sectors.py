"""Input channels of a map with two sectors, symmetric and antisymmetric, that are learned to different degrees (U5.3).

Weight decay on singular values mixes the sectors; expectation consistency replaces what has no closed form. Weight
decay on the entries of the map does not mix them, and is exact.
"""

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from onehead.aim.theory.input.singular_values import SingularValues, UntiedLinear
from onehead.aim.theory.order_parameters import Hats, Overlaps, SpectralMap
from onehead.errors import NotConverged, OutsideDomain, SolveError
from onehead.numerics.fixed_point import FixedPoint, fixed_point

__all__ = ["ExpectationConsistent", "TwoSectorLinear"]

Array = NDArray[np.float64]

# residual of the fixed point of expectation consistency, in units of the hats: wanted, and accepted
TOLERANCE, ACCEPTED_RESIDUAL = 1e-11, 3e-8
HEURISTIC = (
    "the two sectors of self-attention are joined by expectation consistency, which is not exact; it was within 0.7 % "
    "of solving for "
    "the map itself, and within sampling error of training"
)


def _sectors(hats: Hats) -> tuple[Array, Array, Array]:
    """Return (qhat, mhat, Sigmahat) of both sectors.

    Raises
    ------
    OutsideDomain
        If one of them is not positive.
    """
    if not float(hats.sectors.min()) > 0.0:
        raise OutsideDomain(
            "the output channel gave hats that are not positive; the iterate has left the domain of the equations."
        )
    q, m, sigma = hats.sectors
    return q, m, sigma


@final
@dataclass(frozen=True, kw_only=True)
class ExpectationConsistent(SingularValues):
    """Weight decay on the singular values of a map whose sectors are known to different degrees: expectation
    consistency (U5.3).

    A Gaussian of the same first two moments stands for the penalty in each sector, and a spectral problem with one
    common precision for the sectors; the two agree about size, overlap and response. Exact where the sectors have the
    same hats.
    """

    relaxes = False
    by_sigma = False
    heuristic = HEURISTIC

    @cached_property
    def _last_fixed_points(self) -> list[FixedPoint]:
        """Fixed point of the last call, from which the next one starts: its hats are nearly the same."""
        return []

    def _start(self, hats: Hats) -> Array:
        """Return the unknowns where the sectors share one spectral problem, which is exact close to emergence."""
        spread = hats.q + float(np.var(hats.sectors[1])) * self.target_power
        A = self.integrals(spread / hats.m**2, self.decay / hats.m).A
        return np.array([-np.log(min(A, 1.0)) if A > 0.0 else 0.0, 0.0, 0.0])

    def overlaps(self, hats: Hats) -> Overlaps:
        """Return the overlaps of both sectors from their hats."""
        q_hat, m_hat, sigma_hat = _sectors(hats)
        Q0, unit = self.target_power, np.array([sigma_hat.mean(), m_hat.mean(), q_hat.mean()])
        last: dict[str, tuple[Any, ...]] = {}

        def sweep(x: Array) -> Array:
            g1, mu1, nu1 = unit * [np.expm1(x[0]), x[1], x[2]]
            chi = float(np.mean(1.0 / (sigma_hat + g1)))
            g2, w = 1.0 / chi - g1, 1.0 / (chi * (sigma_hat + g1))
            means = w * m_hat + (w - 1.0) * mu1
            mu2 = float(means.mean())
            nu2 = float(np.mean(w**2 * q_hat + (w - 1.0) ** 2 * nu1 + (means - mu2) ** 2 * Q0))
            if not (mu2 > 0.0 and nu2 > 0.0 and g2 > 0.0):
                raise OutsideDomain("the two sectors could not be made consistent here.")
            s, eps, slope = nu2 / mu2**2, self.decay / mu2, mu2 / g2
            part = self.integrals(s, eps)
            if not part.A > 0.0:
                raise OutsideDomain("every singular value fell below the threshold: the map is zero here.")
            overlap = part.J + eps * part.B - s * part.A
            last["spectral"] = (slope * part.B, part.rank, SpectralMap(s, eps, part.cut, slope))
            g1, mu1 = g2 / part.A - g2, mu2 * (overlap / (part.A * Q0) - 1.0)
            nu1 = mu2**2 * ((part.J - overlap**2 / Q0) / part.A**2 - s)
            last["gaussian"] = (g1, mu1, nu1)
            return np.array([np.log1p(max(g1, 0.0) / unit[0]), mu1 / unit[1], nu1 / unit[2]])

        how: dict[str, Any] = {"tolerance": TOLERANCE, "damping": 0.5, "max_evaluations": 400, "limit": 1e9}
        found = None
        if self._last_fixed_points:
            with suppress(SolveError):
                found = fixed_point(
                    sweep, self._last_fixed_points[0].value, secants=self._last_fixed_points[0].secants, **how
                )
        try:
            self._last_fixed_points[:] = [found or fixed_point(sweep, self._start(hats), **how)]
        except NotConverged as failure:  # a law that is next to its atoms is not as smooth
            if not failure.residual < ACCEPTED_RESIDUAL:
                raise
        g1, mu1, nu1 = last["gaussian"]
        sigma = 1.0 / (sigma_hat + g1)
        q, m = ((m_hat + mu1) ** 2 * Q0 + q_hat + nu1) * sigma**2, (m_hat + mu1) * Q0 * sigma
        return Overlaps(tuple(q.tolist()), tuple(m.tolist()), tuple(sigma.tolist()), *last["spectral"])

    def replicon(self, overlaps: Any, hats: Any) -> float | None:
        """Return None: no replicon formula is derived for two sectors."""
        return None


@final
@dataclass(frozen=True, kw_only=True)
class TwoSectorLinear(UntiedLinear):
    """The map itself is trained: each sector is shrunk by its own D_c = Sigmahat_c + 2λ, which is exact (U5.3)."""

    by_sigma = False

    def overlaps(self, hats: Hats) -> Overlaps:
        """q_c = (mhat_c² Q0 + qhat_c)/D_c², m_c = mhat_c Q0/D_c, Sigma_c = 1/D_c."""
        q_hat, m_hat, sigma_hat = _sectors(hats)
        Q0, D = self.target_power, sigma_hat + 2.0 * self.unit * self.decay
        q, m, slope = (m_hat**2 * Q0 + q_hat) / D**2, m_hat * Q0 / D, float(np.mean(m_hat / D))
        where = SpectralMap(float(q.mean()) / slope**2 - Q0, 0.0, self.lowest, slope)
        return Overlaps(tuple(q.tolist()), tuple(m.tolist()), tuple((1.0 / D).tolist()), slope * self._mean, 1.0, where)

    def replicon(self, overlaps: Any, hats: Any) -> float | None:
        """Return None: no replicon formula is derived for two sectors."""
        return None
