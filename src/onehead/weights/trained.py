"""Laws of trained heads, tied (5) and untied (U3), fitted to a spectrum.

Values are c (x - ε), where x > ε follows the law of a target of relative rank κ₀ freely convolved with a semicircle of variance s:
eigenvalues over a Marchenko-Pastur target for a tied head, singular values over a product of two random matrices for an untied one.
A head of width κ = head_dim/hidden keeps at most the top share κ of them (3, U2.5): this is how zeros that the shape forces enter.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.numerics.compiled import njit
from onehead.spectra.marchenko_pastur import MarchenkoPasturSemicircle
from onehead.spectra.product import ProductSemicircle
from onehead.weights import chain
from onehead.weights.chain import Data, LawFit, Table, chain_likelihood

__all__ = ["BULK", "bootstrap_errors", "fit_trained", "trained_starts"]

Array = NDArray[np.float64]

KAPPA0 = (1e-2, 8.0)
SPREAD = (1e-4, 30.0)
BULK = 5  # fewest values that a target may have: fewer are outliers, not a bulk
STARTS = 2
REFUSED = 1e12  # minus log-likelihood of parameters without meaning
NAMES = {True: "tied", False: "untied"}
PARAMETERS = ("kappa0", "spread", "threshold", "slope")


class _Blurred(NamedTuple):
    """The law of a target plus semicircle, tabulated: points, density, mass below, upper edge.

    Points lie densest at the edges, so that straight lines between them follow the square root there.
    """

    kappa0: float
    spread: float
    x: Array
    density: Array
    below: Array
    top: float

    def quantile_above(self, mass: float) -> float:
        return float(np.interp(1.0 - mass, self.below, self.x))


def _tabulated(tied: bool, kappa0: float, spread: float) -> tuple[Array, Array, Array, float]:
    """Points, density and mass of the blurred law, and its upper edge; both in rising order."""
    if not tied:  # singular values are half of a law with both signs
        both = ProductSemicircle(kappa0, spread)
        x, density, mass = both.tabulated(chain.POINTS)
        return x, 2.0 * density, mass, both.half[-1][1]
    law = MarchenkoPasturSemicircle(kappa0, spread)
    grids = [chain.angle_grid(low, high) for low, high in law.edges]
    x, widths = (np.concatenate(parts) for parts in zip(*grids, strict=True))
    density = law.density(x)
    return x, density, density * widths, law.edges[-1][1]


def _blurred(tied: bool, kappa0: float, spread: float) -> _Blurred:
    x, density, mass, top = _tabulated(tied, kappa0, spread)
    low = max(x[0] - 0.5 * (x[1] - x[0]), 0.0) if not tied else x[0] - 0.5 * (x[1] - x[0])
    below = chain.cumulate(mass)
    return _Blurred(
        kappa0,
        spread,
        np.concatenate([[low], x, [top]]),
        np.concatenate([[0.0 if low > 0.0 or tied else density[0]], density, [0.0]]),
        np.concatenate([[0.0], below, [1.0]]),
        top,
    )


_blurred_once = lru_cache(maxsize=512)(_blurred)


class _Place(NamedTuple):
    """The trained law at one set of parameters."""

    blurred: _Blurred
    threshold: float
    slope: float
    cut: float
    rank: float

    def density(self, y: Array) -> Array:
        """Density of the non-zero values, normalised to one."""
        x = y / self.slope + self.threshold
        density = np.interp(x, self.blurred.x, self.blurred.density, left=0.0, right=0.0)
        return np.where(x > self.cut, density, 0.0) / (self.slope * self.rank)

    def share_below(self, y: Array) -> Array:
        """F(y)."""
        x = y / self.slope + self.threshold
        below = np.interp(x, self.blurred.x, self.blurred.below)
        return np.clip((below - 1.0 + self.rank) / self.rank, 0.0, 1.0)

    @property
    def table(self) -> Table:
        """Tabulated between its ends."""
        inside = self.blurred.x > self.cut
        x = np.concatenate([[self.cut], self.blurred.x[inside]])
        y = self.slope * (x - self.threshold)
        below = self.share_below(y)
        below[0] = 0.0
        return Table(self.density, y, below)


def _place(
    data: Data, theta: Array, tied: bool, make: Callable[[bool, float, float], _Blurred] = _blurred
) -> _Place | None:
    """Parameters from coordinates in which the likelihood is round: ln κ₀, ln s, ln of the upper edge, and the lower end.

    The upper edge Y is c (x₊ - ε). The last coordinate is the share of non-zero values if the data have zeros to spare, and
    otherwise the lower end c (x_κ - ε), x_κ being the point with the share κ of the law above it.
    """
    kappa0, spread, top = np.exp(theta[:3])
    low_kappa0 = max(KAPPA0[0], BULK / data.dim)
    if not (low_kappa0 <= kappa0 <= KAPPA0[1] and SPREAD[0] <= spread <= SPREAD[1]):
        return None
    blurred = make(tied, float(kappa0), float(spread))
    if data.saturated:
        rank, bottom = data.values.size / data.dim, theta[3]
        cut = blurred.quantile_above(rank)
        if not 0.0 <= bottom < top:
            return None
        slope = (top - bottom) / (blurred.top - cut)
        threshold = blurred.top - top / slope
    else:
        rank = theta[3]
        if not 0.0 < rank < 1.0:
            return None
        cut = threshold = blurred.quantile_above(rank)
        slope = top / (blurred.top - threshold)
    if threshold < 0.0 or not np.isfinite(slope):
        return None
    return _Place(blurred, float(threshold), float(slope), float(cut), float(rank))


@njit(cache=True, nogil=True, error_model="numpy")
def _likelihood(values, stray, stray_below, x, density, below, threshold, slope, cut, rank):  # type: ignore[no-untyped-def]
    """The likelihood of falling values under the law (x, density, below) at one place: one walk down both tables."""
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
            mass = below[j] + part * (below[j + 1] - below[j])
        f[i] = height / (slope * rank) if at > cut else 0.0
        share[i] = min(max((mass - 1.0 + rank) / rank, 0.0), 1.0)
    return chain_likelihood(f, share, stray, stray_below)


def _trained_cost(data: Data, place: _Place | None) -> float:
    if place is None:
        return REFUSED
    law = place.blurred
    likelihood = _likelihood(
        data.values, data.stray, data.stray_below, law.x, law.density, law.below, place.threshold, place.slope, place.cut, place.rank
    )  # fmt: skip
    return -float(likelihood) - chain.count_likelihood(data, place.rank)


def _grid(data: Data, tied: bool) -> list[tuple[float, Array, _Place]]:
    """Minus log-likelihood on a coarse grid over κ₀ and s, ends set by the data, most likely first."""
    top = np.log(1.02 * data.values[0])
    last = 0.98 * data.values[-1] if data.saturated else data.values.size / data.dim
    low = max(1.001 * BULK / data.dim, 0.02)
    found = []
    for kappa0 in np.geomspace(low, max(3.0, 2.0 * low), 9):
        for spread in np.geomspace(3e-4, 30.0, 13):
            theta = np.array([np.log(kappa0), np.log(spread), top, last])
            place = _place(data, theta, tied, _blurred_once)
            if place is not None:
                found.append((_trained_cost(data, place), theta, place))
    return sorted(found, key=lambda item: item[0])


def trained_starts(data: Data, tied: bool, count: int = STARTS) -> list[Array]:
    """The best points of the grid."""
    return [theta for _, theta, _ in _grid(data, tied)[:count]]


def _ambiguity(data: Data, tied: bool, fitted: Array) -> Array:
    """How far from the fit far away laws are, over the grid, each point weighed by its likelihood."""
    grid = _grid(data, tied)
    if not grid:
        return np.zeros(len(PARAMETERS) + 1)
    weight = np.exp([grid[0][0] - cost for cost, _, _ in grid])
    table = np.array([[*_numbers(place), place.rank] for _, _, place in grid])
    return np.sqrt(np.average((table - fitted) ** 2, axis=0, weights=weight))


def _numbers(place: _Place) -> tuple[float, float, float, float]:
    return place.blurred.kappa0, place.blurred.spread, place.threshold, place.slope


def fit_trained(data: Data, tied: bool, starts: list[Array], evaluations: int = 300) -> LawFit:
    """Nelder-Mead from each start; the likelihood has kinks where a value crosses an end of the law."""
    from scipy.optimize import minimize  # noqa: PLC0415

    def cost(theta: Array) -> float:
        return _trained_cost(data, _place(data, theta, tied))

    minima: list[Any] = []
    for start in starts:
        steps = np.array([0.3, 0.5, 0.04, -0.2 * start[3] if data.saturated else -0.02])
        simplex = start + np.vstack([np.zeros(4), np.diag(steps)])
        options: Any = {"maxfev": evaluations, "xatol": 1e-3, "fatol": 1e-3, "initial_simplex": simplex}
        minima.append(minimize(cost, start, method="Nelder-Mead", options=options))
    best = min(minima, key=lambda found: float(found.fun), default=None)
    place = _place(data, best.x, tied) if best is not None else None
    if place is None:  # no start had a meaning: say so by a likelihood that cannot win
        table = Table(np.zeros_like, np.array([0.0, 1.0]), np.array([0.0, 1.0]))
        return chain.finish(NAMES[tied], data, table, dict.fromkeys(PARAMETERS, np.nan), np.nan)
    parameters = dict(zip(PARAMETERS, _numbers(place), strict=True))
    return chain.finish(NAMES[tied], data, place.table, parameters, place.rank)


def bootstrap_errors(data: Data, fit: LawFit, count: int, rng: np.random.Generator) -> dict[str, float]:
    """Standard deviations of the parameters over spectra drawn from the fitted law and refitted.

    Drawn are chains of Wigner spacings, as in the likelihood. Added in quadrature is the distance to far away laws that fit the
    data as well, which draws from one fitted law do not see: κ₀, s and ε can trade off, above all where a narrow head shows only
    the top of its law.
    """
    if count < 2 or not all(np.isfinite(list(fit.parameters.values()))):
        return {}
    kappa0, spread, threshold, slope = fit.parameters.values()
    tied = fit.law == NAMES[True]
    blurred = _blurred(tied, kappa0, spread)
    cut = max(threshold, blurred.quantile_above(fit.rank))
    place = _Place(blurred, threshold, slope, cut, fit.rank)
    last = slope * (cut - threshold) if data.saturated else fit.rank
    start = np.array([np.log(kappa0), np.log(spread), np.log(slope * (blurred.top - threshold)), last])
    found = []
    for _ in range(count):
        size = data.values.size
        if not data.saturated:
            noise = np.sqrt(chain.SPACING_VARIANCE * data.dim * fit.rank * (1.0 - fit.rank)) * rng.standard_normal()
            size = int(np.clip(round(fit.rank * data.dim + noise), BULK, min(data.dim, data.width) - 1))
        steps = np.cumsum(rng.rayleigh(np.sqrt(2.0 / np.pi), size + 1))
        steps -= 0.5 * steps[0]  # the outer gaps are half a spacing on average
        share = steps[:-1] / (steps[-1] - 0.5 * (steps[-1] - steps[-2]))
        values = np.maximum(place.table.quantile(share)[::-1], 1e-9)
        drawn = chain.describe(values, data.dim, values.size if data.saturated else data.width)
        # from the fit or from a far start that is more likely: parameters that trade off may jump, and that is their error
        begins = [start, *trained_starts(drawn, tied, 1)]
        begin = min(begins, key=lambda theta: _trained_cost(drawn, _place(drawn, theta, tied)))
        again = fit_trained(drawn, tied, [begin], 70)
        found.append([*again.parameters.values(), again.rank])
    far = _ambiguity(data, tied, np.array([*fit.parameters.values(), fit.rank]))
    spreads = np.hypot(np.nanstd(np.array(found), axis=0, ddof=1), far)
    return dict(zip((*PARAMETERS, "rank"), (float(value) for value in spreads), strict=True))
