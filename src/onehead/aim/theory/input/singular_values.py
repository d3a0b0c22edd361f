"""Input channels of untied heads: maps without symmetry, of which only the singular values matter (U2, U8)."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from onehead.aim.theory.input.channel import InputChannel
from onehead.aim.theory.input.eigenvalues import Linear, Thresholded, counted
from onehead.aim.theory.limits import ridgeless
from onehead.aim.theory.order_parameters import Interpolating, LabelStatistics, SpectralMap
from onehead.spectra.law import Law

__all__ = ["CHANNELS", "SingularValues", "UntiedLinear"]

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Untied(InputChannel):
    """Abstract input channel of untied heads: only singular values of target and map matter (U2, U8)."""

    sides = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "target", self.target.unsigned)

    def _target_law(self, s: float) -> Law:
        return self.target.singular_law(s)

    @property
    def free_eigenvector_share(self) -> float:
        """Share of the map's degrees of freedom that are left when its singular values are known (A.3)."""
        return self.target.free_singular_vector_share


@dataclass(frozen=True, kw_only=True)
class SingularValues(Untied, Thresholded):
    """S = W_Q' W_K: weight decay on the factors is λ d |S|_*, which cuts singular values below λ/mhat to zero (U2.2,
    U2.5).

    Every target of a rank up to the width is representable.
    """

    def rank_slopes(self, where: SpectralMap, rank: float, places: Array) -> Array:
        """Return derivatives of twice the mass above the threshold; an atom and its mirror image move in opposite
        directions (P14).
        """
        if self.rank_limited(rank):
            return np.zeros(2 + len(places))
        rho, hilbert, shares = self.law(where.s).overlaps_at(where.eps, np.concatenate([places, -places]))
        own, mirrored = np.split(shares, 2)
        return np.asarray(rho * np.array([2.0 * hilbert, -2.0, *(own - mirrored)]))

    def learned(self, where: SpectralMap, places: Array) -> Array:
        """Return u' S v along singular vectors: c ∫ rho (p_k - p_-k) (x - eps) over x > eps (P14)."""
        return super().learned(where, places) - (0.0 if where.s == 0.0 else super().learned(where, -places))

    def denoise(self, R: Array, sigma_hat: float) -> tuple[Array, float]:
        """Return S = U (r - λ)_+ V'/Sigmahat, and Sigma from its divergence, by quotients of r f over squares (U9)."""
        left, r, right = np.linalg.svd(R)
        f = np.clip(r - self.unit * self.decay, 0.0, None)
        kept = f > 0.0
        gap = r[:, None] ** 2 - r[None, :] ** 2
        np.fill_diagonal(gap, 1.0)
        quotient = ((r * f)[:, None] - (r * f)[None, :]) / gap
        S = (left[:, kept] * f[kept]) @ right[kept] / sigma_hat
        return S, float((quotient.sum() + kept.sum()) / (len(R) ** 2 * sigma_hat))

    def interpolation(self, labels: LabelStatistics) -> tuple[float, Interpolating | None]:
        """Return α J = 1 at full width, where eps = 0 gives A = 1 and noise an infinitely large map (U4)."""
        if self.width < 1.0:
            return ridgeless.interpolation(self, labels)
        return counted(self, labels)


@dataclass(frozen=True, kw_only=True)
class UntiedLinear(Untied, Linear):
    """S itself is trained, any square matrix: as `Linear` with D = Sigmahat + 2λ (U2.4)."""

    @cached_property
    def _mean(self) -> float:
        """Tr S*/d, which is zero for independent left and right singular vectors."""
        return 0.0


# (tied, param) -> channel
CHANNELS: dict[tuple[bool, str], type[InputChannel]] = {
    (True, "factorised"): Thresholded,
    (True, "direct"): Linear,
    (False, "factorised"): SingularValues,
    (False, "direct"): UntiedLinear,
}
