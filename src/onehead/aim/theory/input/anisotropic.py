"""Input channels for tokens whose covariance is not the identity (D7, D8).

The output channel sees the whitened map S~ = C_q^1/2 S C_k^1/2, in whose entries the noise is white, and the penalty
acts on S: entry ij of S~ has the level kappa_ij = c_i c'_j, the product of the eigenvalues of its query and its key
direction. Eigenvalues have mean one. Order parameters are those of S~; rank and mean singular value those of S. The
singular vectors of the target have no relation to those of the tokens.
"""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import sqrt
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from onehead.aim.task import Learner, Task
from onehead.aim.theory.input.channel import InputChannel
from onehead.aim.theory.input.eigenvalues import Linear, Thresholded
from onehead.aim.theory.input.expectation_consistency import Groups, consistent_overlaps
from onehead.aim.theory.input.sampled_map import SampledMap
from onehead.aim.theory.input.singular_values import SingularValues
from onehead.aim.theory.order_parameters import (
    INFINITE,
    Hats,
    Interpolating,
    LabelStatistics,
    Overlaps,
    SpectralMap,
)
from onehead.aim.token_spectrum import eigenvalues, spectrum_levels, subspace_share
from onehead.errors import InvalidArgument, OutsideDomain
from onehead.numerics.brent import brent_root
from onehead.numerics.fixed_point import FixedPoint

Array = NDArray[np.float64]

MAX_LEVELS_CONSISTENT = 600  # bins of the levels of a factorised map, whose error against all of them was 4e-6
MAX_LEVELS_DIRECT = 250_000  # levels of a map that is trained directly: those of 500 dimensions
DIMENSION = 100  # of sampled maps where neither target nor tokens have one
HEURISTIC = (
    "the levels of the tokens' covariance are joined by expectation consistency, which is not exact: against the exact "
    "sampled map the test error was within 2 %, the training loss within 2.5 %, q and m within 3 %, the rank within "
    "0.05, and the mean singular value within 14 %"
)


@lru_cache(maxsize=32)
def levels_of(queries: str, keys: str, most: int) -> tuple[Array, Array]:
    """Return the levels kappa_ij, whose mean is one, and the share of entries of each.

    More than ``most`` levels are put into bins of equally many, each with its mean.
    """
    (one, one_share), (other, other_share) = spectrum_levels(queries), spectrum_levels(keys)
    levels, shares = np.outer(one, other).ravel(), np.outer(one_share, other_share).ravel()
    if len(levels) <= most:
        return levels, shares
    order = np.argsort(levels, kind="stable")
    bins = np.array_split(order, most)
    weights = np.array([shares[part].sum() for part in bins])
    return np.array([shares[part] @ levels[part] for part in bins]) / weights, weights


def anisotropic_channel(task: Task, learner: Learner, decay: float) -> InputChannel:
    """Return the input channel for the token spectra of a task, at a weight decay in reduced units.

    Direct training is exact (D8.1), and so is a subspace that queries and keys fill (D8.2); all else is solved by
    expectation consistency (D8.4).

    Raises
    ------
    InvalidArgument
        For heads without a theory of the covariance of their tokens.
    """
    queries, keys = task.token_spectrum, task.keys_spectrum
    if task.tied or task.own_logit:
        if task.token_spectrum == "isotropic":
            raise InvalidArgument("key_spectrum", task.key_spectrum, "queries unless attention is cross")
        raise InvalidArgument(
            "token_spectrum", queries, "isotropic unless attention is cross, or self with mask strict"
        )
    settings: dict[str, Any] = {"scale": task.beta0, "decay": decay, "width": learner.width, "unit": 1.0}
    if learner.param == "direct":
        return LevelledLinear(target=task.target, queries=queries, keys=keys, **settings)
    share = subspace_share(queries)
    inside = task.target.within_subspace(share) if share is not None and share == subspace_share(keys) else None
    if share is not None and inside is not None:
        if learner.sampled:
            raise InvalidArgument("sampled", learner.sampled, "0 for a subspace: the theory is exact here")
        return Subspace(target=inside, share=share, **settings)
    if decay == 0.0:
        raise InvalidArgument(
            "weight_decay", "0+", "a number > 0 with a token spectrum, except for direct training and subspaces"
        )
    if learner.width < 1.0:
        raise InvalidArgument(
            "width", learner.width, "at least 1 with a token spectrum, except for direct training and subspaces"
        )
    dim = task.dimension or DIMENSION
    levels, shares = levels_of(queries, keys, MAX_LEVELS_CONSISTENT)
    return LevelledSingularValues(
        target=task.target,
        queries=queries,
        keys=keys,
        level_spread=float(shares @ (levels - 1.0) ** 2),
        draws=learner.sampled,
        dim=dim,
        **settings,
    )


@final
@dataclass(frozen=True, kw_only=True)
class LevelledLinear(Linear):
    """The map itself is trained: entries of level kappa are divided by D = Sigmahat + 2λ/kappa, which is exact (D8.1).

    ``tau`` of the overlaps is |S|²/d.
    """

    sides = 2
    by_sigma = False

    queries: str
    keys: str

    @cached_property
    def _levels(self) -> tuple[Array, Array]:
        """Levels above zero, and their shares: entries of level zero do not exist for the data."""
        levels, shares = levels_of(self.queries, self.keys, MAX_LEVELS_DIRECT)
        return levels[levels > 0.0], shares[levels > 0.0]

    def _overlaps(self, hats: Hats) -> Overlaps:
        levels, shares = self._levels
        kept = levels / (hats.sigma * levels + 2.0 * self.decay)  # 1/D
        power = hats.m**2 * self.target_power * levels + hats.q
        q, m = float(shares @ (power * kept**2)), hats.m * self.target_power * float(shares @ (levels * kept))
        sigma, norm = float(shares @ kept), float(shares @ (power * kept**2 / levels))
        return Overlaps(q, m, sigma, norm, float(shares.sum()), self._map(q, m))

    def _map(self, q: float, m: float) -> SpectralMap:
        """Return the spectral map of an isotropic head with the same q and m."""
        slope = m / self.target_power
        return SpectralMap(max(q / slope**2 - self.target_power, 0.0), 0.0, self.lowest, slope)

    def map_at(self, hats: Hats) -> SpectralMap:
        """Return the spectral map of an isotropic head with the same q and m."""
        return self._overlaps(hats).map

    def penalty(self, overlaps: Any) -> float:
        """Return λ |S|²/d."""
        return float(self.decay * overlaps.tau)

    def replicon(self, overlaps: Any, hats: Any) -> float | None:
        """Return the mean of 1/D²."""
        levels, shares = self._levels
        return float(shares @ (levels / (hats.sigma * levels + 2.0 * self.decay)) ** 2)

    def interpolating(self, labels: LabelStatistics, alpha: float, accuracy: float = 1e-13) -> Interpolating:
        """Return the minimum-norm solution, from mean kappa/(kappa + y) = abar (D8.1)."""
        levels, shares = self._levels
        abar = alpha * labels.informative
        if abar >= shares.sum():
            raise OutsideDomain(
                "at its interpolation threshold direct training has an infinite test error; move alpha."
            )

        def gap(log_y: float) -> float:
            return float(shares @ (levels / (levels + np.exp(log_y)))) - abar

        low = high = 0.0
        while gap(low) < 0.0:
            low -= 2.0
        while gap(high) > 0.0:
            high += 2.0
        y = float(np.exp(brent_root(gap, low, high, xtol=1e-14)))
        kept = levels / (levels + y)
        spread, Q0 = float(shares @ kept**2) / abar, self.target_power
        m = Q0 * float(shares @ (levels * kept))
        q = (Q0 * float(shares @ (levels * kept**2)) + spread * (labels.power - 2.0 * m)) / (1.0 - spread)
        norm = INFINITE  # of no use: the penalty vanishes in this limit
        return Interpolating(Overlaps(q, m, INFINITE, norm, float(shares.sum()), self._map(q, m)), 0.0)

    def interpolation(self, labels: LabelStatistics) -> tuple[float, Interpolating | None]:
        """Return α J = share of levels above zero: as many combinations as entries that the data see."""
        state = None if labels.noise > 0.0 else Interpolating(self.recovered, 0.0)
        return float(self._levels[1].sum()) / labels.informative, state


@final
@dataclass(frozen=True, kw_only=True)
class LevelledSingularValues(Thresholded):
    """Weight decay on the singular values of S: levels of the covariance joined by expectation consistency (D8.4)."""

    sides = 2
    relaxes = False
    by_sigma = False
    heuristic = HEURISTIC

    queries: str
    keys: str
    draws: int = 0
    dim: int = 0

    @cached_property
    def sampled_maps(self) -> tuple[SampledMap, ...]:
        """Maps of the dimension of the tokens, each with a target and a noise of its own (D8.3).

        Every target has the power Q0 of the theory as the tokens see it.
        """
        c, other = (eigenvalues(text, self.dim) for text in (self.queries, self.keys))
        found = []
        for seed in range(self.draws):
            rng = np.random.default_rng(seed)
            target = self.target.draw(self.dim, rng, tied=False)
            seen = float(np.sum(np.outer(c, other) * target**2)) / self.dim
            found.append(SampledMap(target * sqrt(self.target_power / seen), c, other, self.decay, rng))
        return tuple(found)

    @property
    def _levels(self) -> tuple[Array, Array]:
        return levels_of(self.queries, self.keys, MAX_LEVELS_CONSISTENT)

    @cached_property
    def _last_fixed_points(self) -> list[FixedPoint]:
        """Fixed point of the last call, from which the next one starts: its hats are nearly the same."""
        return []

    def _overlaps(self, hats: Hats) -> Overlaps:
        """Return the overlaps of the whitened map: sums over levels of kappa times those of S."""
        levels, shares = self._levels
        groups = Groups(hats.q * levels, hats.m * levels, hats.sigma * levels, shares)
        groups.check()
        found = consistent_overlaps(self, groups, self.integrals, self._last_fixed_points)
        q, m, sigma = (float((shares * levels) @ values) for values in found[:3])
        return Overlaps(q, m, sigma, *found[3:])

    def replicon(self, overlaps: Any, hats: Any) -> float | None:
        """Return None: no replicon formula is derived for several levels."""
        return None


@final
@dataclass(frozen=True, kw_only=True)
class Subspace(InputChannel):
    """Tokens that fill a share r of the dimensions evenly: an isotropic head of r d dimensions (D8.2).

    The head in the subspace has α/r², λ/sqrt r, width κ/r and hats that are smaller by r²; q, m and Sigma are its own,
    rank and mean singular value r and r^1.5 times those of its own. ``target`` is the target in the subspace.
    """

    degree = 1
    relaxes = True
    lowest = 0.0
    sides = 2
    limited_by_width = True

    @cached_property
    def _inside(self) -> SingularValues:
        """The channel of the isotropic head in the subspace."""
        return SingularValues(
            target=self.target,
            scale=self.scale,
            decay=self.decay / sqrt(self.share),
            width=self.width / self.share,
            unit=self.unit,
        )

    def _outside(self, overlaps: Overlaps) -> Overlaps:
        """Return overlaps with the rank and the mean singular value of the whole map."""
        return replace(overlaps, rank=self.share * overlaps.rank, tau=self.share**1.5 * overlaps.tau)

    def _own_hats(self, hats: Hats) -> Hats:
        """Return the hats of the head in the subspace."""
        return hats.times(self.share**-2.0)

    @property
    def unrepresentable_spectrum(self) -> tuple[Array, Array]:
        """Singular values of the target in the subspace beyond the width."""
        return self._inside.unrepresentable_spectrum

    @property
    def misfit_reason(self) -> str | None:
        """Reason why the head in the subspace cannot represent the target; None if it can."""
        return self._inside.misfit_reason

    def _overlaps(self, hats: Hats) -> Overlaps:
        return self._outside(self._inside.overlaps(self._own_hats(hats)))

    def map_at(self, hats: Hats) -> SpectralMap:
        """Return the spectral map of the head in the subspace."""
        return self._inside.map_at(self._own_hats(hats))

    def rank_slopes(self, where: SpectralMap, rank: float, places: Array) -> Array:
        """Return r times those of the head in the subspace."""
        return self.share * self._inside.rank_slopes(where, rank / self.share, places)

    def learned(self, where: SpectralMap, places: Array) -> Array:
        """Return those of the head in the subspace."""
        return self._inside.learned(where, places)

    def penalty(self, overlaps: Any) -> float:
        """Return λ times the mean singular value of S."""
        return float(self.decay * overlaps.tau)

    def replicon(self, overlaps: Any, hats: Any) -> float | None:
        """Return the replicon of the head in the subspace divided by r²."""
        own = replace(overlaps, rank=overlaps.rank / self.share)
        found = self._inside.replicon(own, self._own_hats(hats))
        return None if found is None else found / self.share**2

    def denoise(self, R: Array, sigma_hat: float) -> tuple[Array, float]:
        """Refuse: message passing is not derived for tokens with a covariance."""
        raise OutsideDomain("message passing is not derived for tokens with a covariance.")

    @property
    def emerges(self) -> bool:
        """Whether there is weight decay."""
        return self._inside.emerges

    def vanishes(self, s: float, m_hat: float) -> bool:
        """Whether the head in the subspace is zero."""
        return self._inside.vanishes(self.share**2 * s, m_hat / self.share**2)

    def largest_decay(self, s: float, m_hat: float) -> float:
        """Return sqrt r times that of the head in the subspace."""
        return sqrt(self.share) * self._inside.largest_decay(self.share**2 * s, m_hat / self.share**2)

    @property
    def largest_sigma(self) -> float:
        """Infinite: weight decay on the factors does not bound Sigma."""
        return self._inside.largest_sigma

    def ratio_at_sigma(self, unit: Hats, sigma: float) -> float:
        """Return r² times that of the head in the subspace."""
        return self.share**2 * self._inside.ratio_at_sigma(unit, sigma)

    def decay_at_sigma(self, hats: Hats, sigma: float) -> float:
        """Return sqrt r times that of the head in the subspace."""
        return sqrt(self.share) * self._inside.decay_at_sigma(self._own_hats(hats), sigma)

    def interpolating(self, labels: LabelStatistics, alpha: float, accuracy: float = 1e-13) -> Interpolating:
        """Return the state of the head in the subspace at α/r²."""
        found = self._inside.interpolating(labels, alpha / self.share**2, accuracy)
        return found._replace(overlaps=self._outside(found.overlaps))

    def interpolation(self, labels: LabelStatistics) -> tuple[float, Interpolating | None]:
        """Return r² times the ratio of the head in the subspace."""
        ratio, state = self._inside.interpolation(labels)
        own = None if state is None else state._replace(overlaps=self._outside(state.overlaps))
        return self.share**2 * ratio, own

    def recovery(self, labels: LabelStatistics) -> float:
        """Return r² times that of the head in the subspace."""
        return self.share**2 * self._inside.recovery(labels)
