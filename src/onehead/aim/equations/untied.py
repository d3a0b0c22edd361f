"""The input channel of untied heads: a map without symmetry, of which only singular values matter (U2, U8)."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from onehead.aim.equations import ridgeless
from onehead.aim.equations.input import InputChannel, Linear, Thresholded, counted
from onehead.aim.equations.unknowns import Interpolating, Labels, SpectralMap
from onehead.spectra.law import Law

__all__ = ["CHANNELS", "SingularValues", "UntiedLinear"]

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Untied(InputChannel):
    """What untied heads share: only singular values matter, of the target and of the map (U2, U8)."""

    sides = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "target", self.target.unsigned)

    def _target_law(self, s: float) -> Law:
        return self.target.singular_law(s)

    @property
    def apart(self) -> float:
        """The same, left and right singular vectors being free of each other (A.3)."""
        return self.target.singular_apart


@dataclass(frozen=True, kw_only=True)
class SingularValues(Untied, Thresholded):
    """S = W_Q' W_K: weight decay on the factors is λ d |S|_*, which cuts singular values below λ/mhat to zero (U2.2, U2.5).

    Nothing of a target is out of its reach but for the width.
    """

    def rank_slopes(self, where: SpectralMap, rank: float, places: Array) -> Array:
        """Of twice what lies above the threshold; an atom moves one way and its mirror image, each of half its mass, the other (P14)."""
        if self.narrow(rank):
            return np.zeros(2 + len(places))
        rho, hilbert, shares = self.law(where.s).at(where.eps, np.concatenate([places, -places]))
        own, mirrored = np.split(shares, 2)
        return np.asarray(rho * np.array([2.0 * hilbert, -2.0, *(own - mirrored)]))

    def learned(self, where: SpectralMap, places: Array) -> Array:
        """u' S v along singular vectors: c ∫ rho p_k f over both signs, c ∫ rho (p_k - p_-k) (x - eps) over x > eps (P14)."""
        return super().learned(where, places) - (0.0 if where.s == 0.0 else super().learned(where, -places))

    def pass_on(self, R: Array, sigma_hat: float) -> tuple[Array, float]:
        """S = U (r - λ)_+ V'/Sigmahat; Sigma from the divergence of that, quotients of r f over squares (U9)."""
        left, r, right = np.linalg.svd(R)
        f = np.clip(r - self.unit * self.decay, 0.0, None)
        kept = f > 0.0
        gap = r[:, None] ** 2 - r[None, :] ** 2
        np.fill_diagonal(gap, 1.0)
        quotient = ((r * f)[:, None] - (r * f)[None, :]) / gap
        S = (left[:, kept] * f[kept]) @ right[kept] / sigma_hat
        return S, float((quotient.sum() + kept.sum()) / (len(R) ** 2 * sigma_hat))

    def interpolation(self, labels: Labels) -> tuple[float, Interpolating | None]:
        """α J = 1 at full width, as no sign is ruled out: there eps = 0 gives A = 1, and noise an infinitely large map (U4)."""
        if self.width < 1.0:
            return ridgeless.interpolation(self, labels)
        return counted(self, labels)


@dataclass(frozen=True, kw_only=True)
class UntiedLinear(Untied, Linear):
    """S itself is trained, any square matrix: D = Sigmahat + 2λ, and nothing else changes (U2.4)."""

    @cached_property
    def _mean(self) -> float:
        """Tr S*/d, which vanishes where left and right singular vectors are free of each other."""
        return 0.0


# by whether query and key are tied, and by what is trained
CHANNELS: dict[tuple[bool, str], type[InputChannel]] = {
    (True, "factorised"): Thresholded,
    (True, "direct"): Linear,
    (False, "factorised"): SingularValues,
    (False, "direct"): UntiedLinear,
}
