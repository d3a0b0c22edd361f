"""The input channel: from the hats to the order parameters of the map that weight decay selects (2.3, 3, 6, U2).

The parametrisation of the map decides which eigenvalues are learned, what the penalty is, when the map is zero and what
remains as λ → 0⁺. One class per parametrisation holds all of it, in reduced units. `InputChannel` is abstract; tied
heads are in `onehead.aim.theory.input.eigenvalues`, untied heads in `onehead.aim.theory.input.singular_values`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onehead.aim.targets import Target
from onehead.aim.theory.order_parameters import Hats, Interpolating, LabelStatistics, Overlaps, SpectralMap
from onehead.errors import OutsideDomain
from onehead.spectra.law import Law, ScaledLaw

if TYPE_CHECKING:
    from onehead.aim.theory.input.sampled_map import SampledMap

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class InputChannel(ABC):
    """Abstract parametrisation of a map.

    Attributes
    ----------
    target : Target
        Spectrum of the target.
    scale : float
        β₀, which multiplies the target's eigenvalues.
    decay : float
        λ in reduced units; zero stands for the limit λ → 0⁺.
    width : float
        Width of the learner divided by d.
    unit : float
        Unit of the geometry of logits: 2 for symmetric maps, 1 for others.
    spectral_shift : float
        Shift of all eigenvalues of the target as the data show them, where tokens are not Gaussian (P11.3).
    share : float
        Share of the dimensions that the map acts on.
    degree : int
        The penalty is homogeneous of this degree in S, which decides how λ scales with β (1.5).
    """

    degree: ClassVar[int]
    relaxes: ClassVar[bool]  # whether a solution can be reached by letting λ fall from where the map vanishes
    lowest: ClassVar[float]  # smallest eigenvalue that a map can have
    by_sigma: ClassVar[bool] = True  # whether the equations can be solved at a given Sigma
    heuristic: ClassVar[str | None] = None  # what is not exact about the channel, for the certificate
    sides: ClassVar[int]  # 1; 2 for untied heads, whose laws are those of singular values taken with both signs
    limited_by_width: ClassVar[bool]  # whether the width of the learner limits the rank of the map

    target: Target
    scale: float
    decay: float
    width: float
    unit: float
    spectral_shift: float = 0.0
    share: float = 1.0

    def __post_init__(self) -> None:
        if self.sides == 2:  # only singular values matter (U2, U8)
            object.__setattr__(self, "target", self.target.unsigned)

    @cached_property
    def target_power(self) -> float:
        """Q0 in reduced units."""
        return self.scale**2 * self.target.second_moment

    @property
    @abstractmethod
    def unrepresentable_spectrum(self) -> tuple[Array, Array]:
        """Positions and masses of the target's eigenvalues that no map of this parametrisation can have; empty if one
        equals the target.
        """

    @property
    @abstractmethod
    def misfit_reason(self) -> str | None:
        """Reason why no map of this parametrisation equals the target; None if one does."""

    @cached_property
    def representable_power(self) -> float:
        """Tr P²/d of the best representable map P: the target without its unrepresentable eigenvalues (8.1)."""
        x, mass = self.unrepresentable_spectrum
        return max(self.target_power - float(mass @ x**2), 0.0) if x.size else self.target_power

    def rank_limited(self, rank: float) -> bool:
        """Whether the width of the learner limits a map of this rank, which makes the theory a heuristic (3)."""
        return self.limited_by_width and self.width < self.share and rank >= self.width * (1.0 - 1e-12)

    @property
    def sampled_maps(self) -> "tuple[SampledMap, ...]":
        """Sampled maps that take the place of the channel, where it is approximate and the learner asks for them."""
        return ()

    @property
    def at_full_width(self) -> "InputChannel":
        """The channel of a learner whose width does not limit the map."""
        return replace(self, width=max(self.width, 1.0))

    def law(self, s: float) -> Law:
        """Return rho_s, the law of the target blurred by a semicircle of variance s; the last law is cached."""
        known = self.__dict__.get("_law")
        if known is not None and known[0] == s:
            return known[1]  # type: ignore[no-any-return]
        law = self._law_at(s)
        self.__dict__["_law"] = (s, law)
        return law

    def _law_at(self, s: float) -> Law:
        if not 1e-20 < s / self.target_power < 1e13:
            raise OutsideDomain(f"the blur s = {s:.1e} of the target spectrum is out of any sensible range.")
        if self.scale == 1.0:
            return self._target_law(s)
        return ScaledLaw(self._target_law(s / self.scale**2), self.scale)

    def _target_law(self, s: float) -> Law:
        return self.target.law(s) if self.sides == 1 else self.target.singular_law(s)

    @property
    def free_eigenvector_share(self) -> float:
        """Share of the map's degrees of freedom that are left when its eigenvalues or singular values are known (4.5,
        A.3).
        """
        return self.target.free_eigenvector_share if self.sides == 1 else self.target.free_singular_vector_share

    def overlaps(self, hats: Any) -> Any:
        """Return the overlaps of the map from its hats.

        Raises
        ------
        OutsideDomain
            If a hat of some sector is not positive, or the map is zero.
        """
        if not float(hats.sectors.min()) > 0.0:
            raise OutsideDomain(
                f"the output channel gave hats that are not positive ({hats.q:.2e}, {hats.m:.2e}, {hats.sigma:.2e}); "
                "the iterate has left the domain of the equations."
            )
        return self._overlaps(hats)

    @abstractmethod
    def _overlaps(self, hats: Hats) -> Overlaps: ...

    @abstractmethod
    def map_at(self, hats: Hats) -> SpectralMap:
        """Return the spectral map of these hats for a learner of full width."""

    @abstractmethod
    def rank_slopes(self, where: SpectralMap, rank: float, places: Array) -> Array:
        """Return derivatives of the rank in s, in eps and, times d, in atoms of mass 1/d of the target at ``places``
        (2.3).
        """

    @abstractmethod
    def learned(self, where: SpectralMap, places: Array) -> Array:
        """Return the diagonal elements of S along eigenvectors of the target whose eigenvalues are ``places`` (P4)."""

    @abstractmethod
    def penalty(self, overlaps: Any) -> float:
        """Return the penalty in the training loss over d²."""

    @abstractmethod
    def replicon(self, overlaps: Any, hats: Any) -> float | None:
        """Return the spectral factor of the replicon eigenvalue (2.8); None where the width of the learner limits the
        rank.
        """

    @abstractmethod
    def denoise(self, R: Array, sigma_hat: float) -> tuple[Array, float]:
        """Return the map and Sigma of one instance from its field R: the input half of message passing (9)."""

    @property
    @abstractmethod
    def emerges(self) -> bool:
        """Whether weight decay can keep the map at zero (4.6)."""

    @abstractmethod
    def vanishes(self, s: float, m_hat: float) -> bool:
        """Whether the map is zero for blur s and field mhat (4.6)."""

    @abstractmethod
    def largest_decay(self, s: float, m_hat: float) -> float:
        """Return the λ at which the map vanishes (4.6); for direct training one at which it is negligible."""

    @property
    @abstractmethod
    def largest_sigma(self) -> float:
        """Largest Sigma that weight decay allows."""

    @abstractmethod
    def ratio_at_sigma(self, unit: Hats, sigma: float) -> float:
        """Return the largest α at which Sigma is ``sigma``, for hats α times ``unit`` (2.8)."""

    @abstractmethod
    def decay_at_sigma(self, hats: Hats, sigma: float) -> float:
        """Return the λ at which Sigma is ``sigma`` (2.8)."""

    @abstractmethod
    def interpolating(self, labels: LabelStatistics, alpha: float, accuracy: float = 1e-13) -> Interpolating:
        """Return the state of the limit λ → 0⁺ below interpolation (4.1)."""

    @abstractmethod
    def interpolation(self, labels: LabelStatistics) -> tuple[float, Interpolating | None]:
        """Return the sample ratio up to which λ → 0⁺ fits every label, and the state there, or None if it has none
        (4.2).
        """

    @abstractmethod
    def recovery(self, labels: LabelStatistics) -> float:
        """Return the sample ratio from which on λ → 0⁺ finds the target exactly (4.4); infinite with noise."""

    @property
    def recovered(self) -> Overlaps:
        """Order parameters of a map that equals the target."""
        Q0, tau = self.target_power, self.scale * self.target.mean
        return Overlaps(Q0, Q0, 0.0, tau, self.target.rank, SpectralMap(0.0, 0.0, self.lowest, 1.0))
