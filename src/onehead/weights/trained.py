"""Laws of trained heads, tied (5) and untied (U3), fitted to a spectrum.

Values are c (x - ε), where x > ε follows the law of a target of relative rank κ₀ freely convolved with a semicircle of
variance s: eigenvalues of a Marchenko-Pastur target for a tied head, singular values of a product of two random
matrices for an untied one. A head of width κ = head_dim/hidden keeps at most the largest share κ of them (3, U2.5), so
that the law contains the zeros that the shape forces.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.numerics.jit import njit
from onehead.spectra.marchenko_pastur import MarchenkoPasturSemicircle
from onehead.spectra.product import ProductSemicircle
from onehead.weights.spacing_likelihood import (
    POINTS_PER_BULK,
    SPACING_VARIANCE,
    LawFit,
    SpectrumData,
    TabulatedLaw,
    angle_grid,
    fitted_law,
    midpoint_cdf,
    rank_log_likelihood,
    spacing_log_likelihood,
    spectrum_data,
)

Array = NDArray[np.float64]

KAPPA0_RANGE = (1e-2, 8.0)
SPREAD_RANGE = (1e-4, 30.0)
MINIMUM_BULK_VALUES = 5  # values of a target: fewer are outliers, not a bulk
DEFAULT_STARTS = 2
INADMISSIBLE_COST = 1e12  # negative log-likelihood of parameters outside their domain
LAW_OF_TIED = {True: "tied", False: "untied"}
PARAMETERS = ("kappa0", "spread", "threshold", "slope")


class _NoisyTarget(NamedTuple):
    """Tabulated law of a target plus semicircle: points, density, distribution function and upper edge.

    The points are densest at the edges, where the density behaves like a square root, so that linear interpolation is
    accurate there.
    """

    kappa0: float
    spread: float
    x: Array
    density: Array
    cdf: Array
    top: float

    def quantile_above(self, mass: float) -> float:
        """Return the point with this share of the law above it."""
        return float(np.interp(1.0 - mass, self.cdf, self.x))


def _tabulate(tied: bool, kappa0: float, spread: float) -> tuple[Array, Array, Array, float]:
    """Return points in ascending order, density and mass of the law of a noisy target, and its upper edge."""
    if not tied:  # singular values are the positive half of a symmetric law
        symmetric = ProductSemicircle(kappa0, spread)
        x, density, mass = symmetric.tabulated(POINTS_PER_BULK)
        return x, 2.0 * density, mass, symmetric.positive_support[-1][1]
    law = MarchenkoPasturSemicircle(kappa0, spread)
    grids = [angle_grid(low, high) for low, high in law.edges]
    x, widths = (np.concatenate(parts) for parts in zip(*grids, strict=True))
    density = law.density(x)
    return x, density, density * widths, law.edges[-1][1]


def _noisy_target(tied: bool, kappa0: float, spread: float) -> _NoisyTarget:
    x, density, mass, top = _tabulate(tied, kappa0, spread)
    low = max(x[0] - 0.5 * (x[1] - x[0]), 0.0) if not tied else x[0] - 0.5 * (x[1] - x[0])
    return _NoisyTarget(
        kappa0,
        spread,
        np.concatenate([[low], x, [top]]),
        np.concatenate([[0.0 if low > 0.0 or tied else density[0]], density, [0.0]]),
        np.concatenate([[0.0], midpoint_cdf(mass), [1.0]]),
        top,
    )


_cached_noisy_target = lru_cache(maxsize=512)(_noisy_target)


class _TrainedLaw(NamedTuple):
    """Law of a trained head: values c (x - ε) of a noisy target above ``cut``, a share ``rank`` of all values."""

    target: _NoisyTarget
    threshold: float
    slope: float
    cut: float
    rank: float

    def density(self, y: Array) -> Array:
        """Return the density of the non-zero values, normalised to one."""
        x = y / self.slope + self.threshold
        density = np.interp(x, self.target.x, self.target.density, left=0.0, right=0.0)
        return np.where(x > self.cut, density, 0.0) / (self.slope * self.rank)

    def cdf(self, y: Array) -> Array:
        """Return the distribution function of the non-zero values."""
        x = y / self.slope + self.threshold
        cdf = np.interp(x, self.target.x, self.target.cdf)
        return np.clip((cdf - 1.0 + self.rank) / self.rank, 0.0, 1.0)

    @property
    def tabulated(self) -> TabulatedLaw:
        """The law on the points of its target above the cut."""
        inside = self.target.x > self.cut
        x = np.concatenate([[self.cut], self.target.x[inside]])
        y = self.slope * (x - self.threshold)
        cdf = self.cdf(y)
        cdf[0] = 0.0
        return TabulatedLaw(self.density, y, cdf)

    @property
    def parameters(self) -> tuple[float, float, float, float]:
        """κ₀, s, ε and c, in the order of `PARAMETERS`."""
        return self.target.kappa0, self.target.spread, self.threshold, self.slope


def _law_at(
    data: SpectrumData,
    theta: Array,
    tied: bool,
    noisy_target: Callable[[bool, float, float], _NoisyTarget] = _noisy_target,
) -> _TrainedLaw | None:
    """Return the law at the coordinates of the search, or None outside the domain of its parameters.

    The coordinates are chosen such that the likelihood has no narrow valleys: ln κ₀, ln s, ln of the upper edge Y = c
    (x₊ - ε), and a number for the lower end. If the data have more zeros than the shape forces, it is the share of
    non-zero values; otherwise it is the lower end c (x_κ - ε), where x_κ is the point with the share κ of the law above
    it.
    """
    kappa0, spread, top = np.exp(theta[:3])
    smallest_kappa0 = max(KAPPA0_RANGE[0], MINIMUM_BULK_VALUES / data.dim)
    if not (smallest_kappa0 <= kappa0 <= KAPPA0_RANGE[1] and SPREAD_RANGE[0] <= spread <= SPREAD_RANGE[1]):
        return None
    target = noisy_target(tied, float(kappa0), float(spread))
    if data.saturated:
        rank, bottom = data.values.size / data.dim, theta[3]
        cut = target.quantile_above(rank)
        if not 0.0 <= bottom < top:
            return None
        slope = (top - bottom) / (target.top - cut)
        threshold = target.top - top / slope
    else:
        rank = theta[3]
        if not 0.0 < rank < 1.0:
            return None
        cut = threshold = target.quantile_above(rank)
        slope = top / (target.top - threshold)
    if threshold < 0.0 or not np.isfinite(slope):
        return None
    return _TrainedLaw(target, float(threshold), float(slope), float(cut), float(rank))


@njit
def _log_likelihood(data, target, law):  # type: ignore[no-untyped-def]
    """Return ln L of descending values under a trained law, in one pass down the values and the table of the target.

    ``data`` are values, background density and background distribution function; ``target`` are points, density and
    distribution function of the noisy target; ``law`` are threshold, slope, cut and rank.
    """
    values, background_density, background_cdf = data
    x, density, cdf = target
    threshold, slope, cut, rank = law
    count, j = values.shape[0], x.shape[0] - 1
    f, share = np.zeros(count), np.zeros(count)
    for i in range(count):
        at = values[i] / slope + threshold
        while j > 0 and x[j] > at:
            j -= 1
        height, mass = 0.0, 1.0
        if at <= x[0]:
            mass = 0.0
        elif at < x[-1]:
            part = (at - x[j]) / (x[j + 1] - x[j])
            height = density[j] + part * (density[j + 1] - density[j])
            mass = cdf[j] + part * (cdf[j + 1] - cdf[j])
        f[i] = height / (slope * rank) if at > cut else 0.0
        share[i] = min(max((mass - 1.0 + rank) / rank, 0.0), 1.0)
    return spacing_log_likelihood(f, share, background_density, background_cdf)


def _negative_log_likelihood(data: SpectrumData, law: _TrainedLaw | None) -> float:
    if law is None:
        return INADMISSIBLE_COST
    likelihood = _log_likelihood(
        (data.values, data.background_density, data.background_cdf),
        (law.target.x, law.target.density, law.target.cdf),
        (law.threshold, law.slope, law.cut, law.rank),
    )
    return -float(likelihood) - rank_log_likelihood(data, law.rank)


def _grid(data: SpectrumData, tied: bool) -> list[tuple[float, Array, _TrainedLaw]]:
    """Return cost, coordinates and law on a coarse grid over κ₀ and s, with ends set by the data, most likely first."""
    top = np.log(1.02 * data.values[0])
    last = 0.98 * data.values[-1] if data.saturated else data.values.size / data.dim
    low = max(1.001 * MINIMUM_BULK_VALUES / data.dim, 0.02)
    found = []
    for kappa0 in np.geomspace(low, max(3.0, 2.0 * low), 9):
        for spread in np.geomspace(3e-4, 30.0, 13):
            theta = np.array([np.log(kappa0), np.log(spread), top, last])
            law = _law_at(data, theta, tied, _cached_noisy_target)
            if law is not None:
                found.append((_negative_log_likelihood(data, law), theta, law))
    return sorted(found, key=lambda item: item[0])


def starting_points(data: SpectrumData, tied: bool, count: int = DEFAULT_STARTS) -> list[Array]:
    """Return the most likely points of a coarse grid, as coordinates of the search."""
    return [theta for _, theta, _ in _grid(data, tied)[:count]]


def _grid_deviation(data: SpectrumData, tied: bool, fitted: Array) -> Array:
    """Return root mean square deviations of parameters and rank from the fit, over the grid weighted by likelihood."""
    grid = _grid(data, tied)
    if not grid:
        return np.zeros(len(PARAMETERS) + 1)
    weight = np.exp([grid[0][0] - cost for cost, _, _ in grid])
    table = np.array([[*law.parameters, law.rank] for _, _, law in grid])
    return np.sqrt(np.average((table - fitted) ** 2, axis=0, weights=weight))


def fit_trained(data: SpectrumData, tied: bool, starts: list[Array], evaluations: int = 300) -> LawFit:
    """Fit the law of a trained head by Nelder-Mead from each start.

    Derivative-free, because the likelihood has kinks where a value crosses an end of the law.
    """
    from scipy.optimize import minimize

    def cost(theta: Array) -> float:
        return _negative_log_likelihood(data, _law_at(data, theta, tied))

    minima: list[Any] = []
    for start in starts:
        steps = np.array([0.3, 0.5, 0.04, -0.2 * start[3] if data.saturated else -0.02])
        simplex = start + np.vstack([np.zeros(4), np.diag(steps)])
        options: Any = {"maxfev": evaluations, "xatol": 1e-3, "fatol": 1e-3, "initial_simplex": simplex}
        minima.append(minimize(cost, start, method="Nelder-Mead", options=options))
    best = min(minima, key=lambda found: float(found.fun), default=None)
    law = _law_at(data, best.x, tied) if best is not None else None
    if law is None:  # no start was admissible: return a fit whose likelihood is lower than that of any other law
        flat = TabulatedLaw(np.zeros_like, np.array([0.0, 1.0]), np.array([0.0, 1.0]))
        return fitted_law(LAW_OF_TIED[tied], data, flat, dict.fromkeys(PARAMETERS, np.nan), np.nan)
    parameters = dict(zip(PARAMETERS, law.parameters, strict=True))
    return fitted_law(LAW_OF_TIED[tied], data, law.tabulated, parameters, law.rank)


def bootstrap_errors(data: SpectrumData, fit: LawFit, count: int, rng: np.random.Generator) -> dict[str, float]:
    """Return standard errors of parameters and rank, from ``count`` spectra sampled from the fitted law and refitted.

    The samples are chains of Wigner spacings, as in the likelihood. The distance to distant laws that fit the data as
    well is added in quadrature, because samples from one fitted law do not show it: κ₀, s and ε can compensate each
    other, above all where a narrow head shows only the largest values of its law.
    """
    if count < 2 or not all(np.isfinite(list(fit.parameters.values()))):
        return {}
    kappa0, spread, threshold, slope = fit.parameters.values()
    tied = fit.law == LAW_OF_TIED[True]
    target = _noisy_target(tied, kappa0, spread)
    cut = max(threshold, target.quantile_above(fit.rank))
    law = _TrainedLaw(target, threshold, slope, cut, fit.rank)
    last = slope * (cut - threshold) if data.saturated else fit.rank
    fitted_start = np.array([np.log(kappa0), np.log(spread), np.log(slope * (target.top - threshold)), last])
    found = []
    for _ in range(count):
        size = data.values.size
        if not data.saturated:
            noise = np.sqrt(SPACING_VARIANCE * data.dim * fit.rank * (1.0 - fit.rank)) * rng.standard_normal()
            size = int(np.clip(round(fit.rank * data.dim + noise), MINIMUM_BULK_VALUES, min(data.dim, data.width) - 1))
        levels = np.cumsum(rng.rayleigh(np.sqrt(2.0 / np.pi), size + 1))
        levels -= 0.5 * levels[0]  # the outer gaps are half a spacing on average
        share = levels[:-1] / (levels[-1] - 0.5 * (levels[-1] - levels[-2]))
        values = np.maximum(law.tabulated.quantile(share)[::-1], 1e-9)
        sampled = spectrum_data(values, data.dim, values.size if data.saturated else data.width)
        # start from the fit, or from a distant point if it is more likely: jumps of parameters that compensate each
        # other are part of their error
        starts = [fitted_start, *starting_points(sampled, tied, 1)]
        start = min(starts, key=lambda theta: _negative_log_likelihood(sampled, _law_at(sampled, theta, tied)))
        refit = fit_trained(sampled, tied, [start], 70)
        found.append([*refit.parameters.values(), refit.rank])
    distant = _grid_deviation(data, tied, np.array([*fit.parameters.values(), fit.rank]))
    errors = np.hypot(np.nanstd(np.array(found), axis=0, ddof=1), distant)
    return dict(zip((*PARAMETERS, "rank"), (float(value) for value in errors), strict=True))
