"""Input channels of a map with two sectors, symmetric and antisymmetric, that are learned to different degrees (U5.3).

Weight decay on singular values mixes the sectors; expectation consistency replaces what has no closed form. Weight
decay on the entries of the map does not mix them, and is exact.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from onehead.aim.theory.input.eigenvalues import IsotropicLinear, Thresholded
from onehead.aim.theory.input.expectation_consistency import Groups, consistent_overlaps
from onehead.aim.theory.order_parameters import Hats, Overlaps, SpectralMap
from onehead.numerics.fixed_point import FixedPoint

Array = NDArray[np.float64]

EQUAL_SHARES = np.array([0.5, 0.5])  # of the symmetric and of the antisymmetric part
HEURISTIC = (
    "the two sectors of self-attention are joined by expectation consistency, which is not exact; it was within 0.7 % "
    "of solving for "
    "the map itself, and within sampling error of training"
)


@final
@dataclass(frozen=True, kw_only=True)
class ExpectationConsistent(Thresholded):
    """Weight decay on the singular values of a map whose sectors are known to different degrees: expectation
    consistency (U5.3).

    A Gaussian of the same first two moments stands for the penalty in each sector, and a spectral problem with one
    common precision for the sectors; the two agree about size, overlap and response. Exact where the sectors have the
    same hats.
    """

    sides = 2
    relaxes = False
    by_sigma = False
    heuristic = HEURISTIC

    @cached_property
    def _last_fixed_points(self) -> list[FixedPoint]:
        """Fixed point of the last call, from which the next one starts: its hats are nearly the same."""
        return []

    def _overlaps(self, hats: Hats) -> Overlaps:
        """Return the overlaps of both sectors from their hats."""
        q_hat, m_hat, sigma_hat = hats.sectors
        groups = Groups(q_hat, m_hat, sigma_hat, EQUAL_SHARES)
        found = consistent_overlaps(self, groups, self.integrals, self._last_fixed_points)
        q, m, sigma = (tuple(values.tolist()) for values in found[:3])
        return Overlaps(q, m, sigma, *found[3:])

    def replicon(self, overlaps: Any, hats: Any) -> float | None:
        """Return None: no replicon formula is derived for two sectors."""
        return None


@final
@dataclass(frozen=True, kw_only=True)
class TwoSectorLinear(IsotropicLinear):
    """The map itself is trained: each sector is shrunk by its own D_c = Sigmahat_c + 2λ, which is exact (U5.3)."""

    sides = 2
    by_sigma = False

    def _overlaps(self, hats: Hats) -> Overlaps:
        """q_c = (mhat_c² Q0 + qhat_c)/D_c², m_c = mhat_c Q0/D_c, Sigma_c = 1/D_c."""
        q_hat, m_hat, sigma_hat = hats.sectors
        Q0, D = self.target_power, sigma_hat + 2.0 * self.unit * self.decay
        q, m, slope = (m_hat**2 * Q0 + q_hat) / D**2, m_hat * Q0 / D, float(np.mean(m_hat / D))
        where = SpectralMap(float(q.mean()) / slope**2 - Q0, 0.0, self.lowest, slope)
        return Overlaps(tuple(q.tolist()), tuple(m.tolist()), tuple((1.0 / D).tolist()), slope * self._mean, 1.0, where)

    def replicon(self, overlaps: Any, hats: Any) -> float | None:
        """Return None: no replicon formula is derived for two sectors."""
        return None
