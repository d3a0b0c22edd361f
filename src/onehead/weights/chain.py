"""How likely a spectrum is under a law: the likelihood of a chain of repelling values.

Singular values repel each other, so they are not independent draws: between neighbours the counting function n F grows by
spacings that follow Wigner's surmise p(s) = (π/2) s exp(-π s²/4) for every generic real matrix, whatever F. Hence

    ln L = Σ ln p(n F(y_i) - n F(y_i+1)) + Σ ln n f(y_i) - (π/4)(first gap² + last gap²),

which weighs a wrong F four times as heavily as independent draws would, and less than the full rigidity of a spectrum allows.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.numerics.compiled import njit
from onehead.results import Result

__all__ = [
    "Data",
    "LawFit",
    "Table",
    "angle_grid",
    "chain_likelihood",
    "cumulate",
    "describe",
    "finish",
    "log_likelihood",
]

Array = NDArray[np.float64]

POINTS = 160  # of a tabulated law, per bulk; its quantiles are then good to 2e-4 of the width
SPACING_VARIANCE = 4.0 / np.pi - 1.0  # of Wigner's surmise, whose mean is one


@dataclass(frozen=True, kw_only=True)
class LawFit(Result):
    """One law at its most likely parameters.

    ``parameters`` of the trained law: ``kappa0`` (κ₀), ``spread`` (s), ``threshold`` (ε) in the target's units and ``slope``
    (c). ``errors`` are their standard errors. ``expected`` are the values the law puts at each rank.
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


class Data(NamedTuple):
    """Non-zero values (falling), out of ``dim`` of which at most ``width`` can be non-zero; a weak background for strays.

    ``stray`` and ``stray_below`` are density and distribution function of the background at the values.
    """

    values: Array
    dim: int
    width: int
    stray: Array
    stray_below: Array

    @property
    def saturated(self) -> bool:
        """Whether all values that the shape allows are non-zero."""
        return self.values.size >= min(self.dim, self.width)


class Table(NamedTuple):
    """A density on positive values: its support, where it is known, and the mass below each point."""

    density: Callable[[Array], Array]
    x: Array
    below: Array

    def share_below(self, y: Array) -> Array:
        """F(y)."""
        return np.interp(y, self.x, self.below, left=0.0, right=1.0)

    def quantile(self, share: Array) -> Array:
        """The inverse of F."""
        return np.interp(share, self.below, self.x)


def describe(values: Array, dim: int, width: int) -> Data:
    """The background is log-normal with the moments of the data: the same for every law."""
    from scipy.special import ndtr  # noqa: PLC0415

    logs = np.log(values)
    spread = max(float(logs.std()), 1e-3)
    score = (logs - logs.mean()) / spread
    stray = np.exp(-0.5 * score**2) / (values * spread * np.sqrt(2.0 * np.pi))
    return Data(values, dim, width, stray, ndtr(score))


def log_likelihood(data: Data, density: Array, below: Array) -> float:
    """ln L of the chain of spacings; one value in n + 1 comes from the background, so that no single stray vetoes a law."""
    return float(chain_likelihood(density, below, data.stray, data.stray_below))


@njit(cache=True, nogil=True, error_model="numpy")
def chain_likelihood(density, below, stray, stray_below):  # type: ignore[no-untyped-def]
    """The same from densities and distribution functions of law and background at the values, which fall."""
    count = density.shape[0]
    weight = 1.0 / (count + 1.0)
    total, last = 0.0, 0.0
    for i in range(count):
        place = count * ((1.0 - weight) * below[i] + weight * stray_below[i])
        gap = count - place if i == 0 else max(last - place, 1e-300)
        total += np.log(count * ((1.0 - weight) * density[i] + weight * stray[i])) - 0.25 * np.pi * gap * gap
        if i > 0:
            total += np.log(0.5 * np.pi * gap)
        last = place
    return total - 0.25 * np.pi * last * last


def count_likelihood(data: Data, rank: float) -> float:
    """Log-likelihood of the number of non-zero values, when the shape does not force it; Gaussian, as for a chain."""
    if data.saturated:
        return 0.0
    variance = SPACING_VARIANCE * data.dim * max(rank * (1.0 - rank), 1.0 / data.dim)
    return -0.5 * ((data.values.size - data.dim * rank) ** 2 / variance + float(np.log(2.0 * np.pi * variance)))


def finish(law: str, data: Data, table: Table, parameters: dict[str, float], rank: float | None = None) -> LawFit:
    """Likelihood, BIC, distance and expected values of a fitted law.

    One that predicts no rank takes that of the data, and pays a parameter for it unless the shape forces it.
    """
    count, free = data.values.size, len(parameters)
    if rank is None:
        rank, free = count / data.dim, free if data.saturated else free + 1
    below = table.share_below(data.values)
    likelihood = log_likelihood(data, table.density(data.values), below) + count_likelihood(data, rank)
    steps = 1.0 - np.arange(count) / count  # share of the data up to each value, which fall
    ks = float(np.max(np.maximum(np.abs(below - steps), np.abs(below - steps + 1.0 / count))))
    size = count if data.saturated else data.dim
    return LawFit(
        law=law,
        parameters=parameters,
        log_likelihood=likelihood,
        bic=free * float(np.log(size)) - 2.0 * likelihood,
        ks=ks,
        rank=rank,
        expected=table.quantile(1.0 - (np.arange(count) + 0.5) / count),
    )


def angle_grid(low: float, high: float, points: int = POINTS) -> tuple[Array, Array]:
    """Points x(θ) = low + (high - low)(1 - cos θ)/2 and dx: dense at both edges, where densities have roots or poles."""
    angle = (np.arange(points) + 0.5) * np.pi / points
    return low + (high - low) * 0.5 * (1.0 - np.cos(angle)), (high - low) * 0.5 * np.sin(angle) * np.pi / points


def cumulate(mass: Array) -> Array:
    """Mass below each midpoint, the whole normalised to one."""
    below: Array = (np.cumsum(mass) - 0.5 * mass) / mass.sum()
    return below
