"""Likelihood of a spectrum under a law, as a chain of level spacings.

Singular values repel each other, so they are not independent samples: between neighbours the counting function n F
grows by spacings that follow Wigner's surmise p(s) = (π/2) s exp(-π s²/4) for every generic real matrix, whatever F.
Hence

    ln L = Σ ln p(n F(y_i) - n F(y_i+1)) + Σ ln n f(y_i) - (π/4)(first gap² + last gap²),

which penalises a wrong F four times as strongly as the likelihood of independent samples, and less than the full
rigidity of a spectrum would allow. The laws themselves are in `onehead.weights.law` and `onehead.weights.trained`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.numerics.jit import njit
from onehead.results import Result

Array = NDArray[np.float64]

POINTS_PER_BULK = 160  # of a tabulated law; its quantiles are then accurate to 2e-4 of the width
SPACING_VARIANCE = 4.0 / np.pi - 1.0  # of Wigner's surmise, whose mean is one


@dataclass(frozen=True, kw_only=True)
class LawFit(Result):
    """Maximum-likelihood fit of one law to a spectrum, an element of the result of `fit_laws`.

    Attributes
    ----------
    law : str
        Name of the law: untied, tied, marchenko-pastur, noise or power-law.
    parameters, errors : dict
        Parameters and, for the law of the head's own kind, their standard errors. Laws of trained heads have ``kappa0``
        (κ₀), ``spread`` (s), ``threshold`` (ε), both in units of the target, and ``slope`` (c).
    log_likelihood, bic : float
        ln L and the Bayesian information criterion k ln n - 2 ln L.
    ks : float
        Kolmogorov-Smirnov distance between the data and the law.
    rank : float
        Share of non-zero values in the law.
    expected : array
        Value that the law expects at each rank, in descending order.
    """

    _HIDDEN: ClassVar[tuple[str, ...]] = ("expected",)

    law: str
    parameters: dict[str, float]
    errors: dict[str, float] = field(default_factory=dict)
    log_likelihood: float
    bic: float
    ks: float
    rank: float
    expected: Array


class SpectrumData(NamedTuple):
    """Spectrum to which laws are fitted: the non-zero ``values`` in descending order.

    There are ``dim`` values in all, of which the shape allows at most ``width`` to be non-zero. ``background_density``
    and ``background_cdf`` are the density and the distribution function, at the values, of a weak background that makes
    the likelihood robust against single stray values.
    """

    values: Array
    dim: int
    width: int
    background_density: Array
    background_cdf: Array

    @property
    def saturated(self) -> bool:
        """Whether all values that the shape allows are non-zero."""
        return self.values.size >= min(self.dim, self.width)


class TabulatedLaw(NamedTuple):
    """Law of positive values: its density as a function, and its distribution function F at the points ``x``."""

    density: Callable[[Array], Array]
    x: Array
    cdf_values: Array

    def cdf(self, y: Array) -> Array:
        """Return the distribution function F(y)."""
        return np.interp(y, self.x, self.cdf_values, left=0.0, right=1.0)

    def quantile(self, share: Array) -> Array:
        """Return the inverse of F at ``share``."""
        return np.interp(share, self.cdf_values, self.x)


def spectrum_data(values: Array, dim: int, width: int) -> SpectrumData:
    """Return values in descending order with a log-normal background of the same moments, common to all laws."""
    from scipy.special import ndtr

    logs = np.log(values)
    spread = max(float(logs.std()), 1e-3)
    score = (logs - logs.mean()) / spread
    background = np.exp(-0.5 * score**2) / (values * spread * np.sqrt(2.0 * np.pi))
    return SpectrumData(values, dim, width, background, ndtr(score))


def log_likelihood(data: SpectrumData, density: Array, cdf: Array) -> float:
    """Return ln L for a law with this density and distribution function at the values of ``data``."""
    return float(spacing_log_likelihood(density, cdf, data.background_density, data.background_cdf))


@njit
def spacing_log_likelihood(density, cdf, background_density, background_cdf):  # type: ignore[no-untyped-def]
    """Return ln L from densities and distribution functions at values in descending order.

    The law is mixed with the background at the weight 1/(n + 1), so that no single stray value can rule it out.
    """
    count = density.shape[0]
    weight = 1.0 / (count + 1.0)
    total, last = 0.0, 0.0
    for i in range(count):
        level = count * ((1.0 - weight) * cdf[i] + weight * background_cdf[i])
        gap = count - level if i == 0 else max(last - level, 1e-300)
        mixture = (1.0 - weight) * density[i] + weight * background_density[i]
        total += np.log(count * mixture) - 0.25 * np.pi * gap * gap
        if i > 0:
            total += np.log(0.5 * np.pi * gap)
        last = level
    return total - 0.25 * np.pi * last * last


def rank_log_likelihood(data: SpectrumData, rank: float) -> float:
    """Return the log-likelihood of the number of non-zero values, zero if the shape forces it.

    The number is taken as Gaussian, with the variance of a chain of spacings.
    """
    if data.saturated:
        return 0.0
    variance = SPACING_VARIANCE * data.dim * max(rank * (1.0 - rank), 1.0 / data.dim)
    return -0.5 * ((data.values.size - data.dim * rank) ** 2 / variance + float(np.log(2.0 * np.pi * variance)))


def fitted_law(
    name: str, data: SpectrumData, law: TabulatedLaw, parameters: dict[str, float], rank: float | None = None
) -> LawFit:
    """Return the fit of a law at its most likely parameters, with likelihood, BIC, distance and expected values.

    A law that predicts no rank (None) takes that of the data, which counts as one more parameter unless the shape
    forces the rank.
    """
    count, free = data.values.size, len(parameters)
    if rank is None:
        rank, free = count / data.dim, free if data.saturated else free + 1
    cdf = law.cdf(data.values)
    likelihood = log_likelihood(data, law.density(data.values), cdf) + rank_log_likelihood(data, rank)
    empirical = 1.0 - np.arange(count) / count  # share of the data up to each value
    ks = float(np.max(np.maximum(np.abs(cdf - empirical), np.abs(cdf - empirical + 1.0 / count))))
    size = count if data.saturated else data.dim
    return LawFit(
        law=name,
        parameters=parameters,
        log_likelihood=likelihood,
        bic=free * float(np.log(size)) - 2.0 * likelihood,
        ks=ks,
        rank=rank,
        expected=law.quantile(1.0 - (np.arange(count) + 0.5) / count),
    )


def angle_grid(low: float, high: float, points: int = POINTS_PER_BULK) -> tuple[Array, Array]:
    """Return points x(θ) = low + (high - low)(1 - cos θ)/2 and their widths dx.

    They are densest at both edges, where densities vanish or diverge.
    """
    angle = (np.arange(points) + 0.5) * np.pi / points
    return low + (high - low) * 0.5 * (1.0 - np.cos(angle)), (high - low) * 0.5 * np.sin(angle) * np.pi / points


def midpoint_cdf(mass: Array) -> Array:
    """Return the share of the total mass below the middle of each cell."""
    cdf: Array = (np.cumsum(mass) - 0.5 * mass) / mass.sum()
    return cdf
