"""What every spectral law offers, and the integrals of the soft threshold against it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.numerics.line import root_between

__all__ = [
    "Law",
    "Nodes",
    "Scaled",
    "ThresholdIntegrals",
    "TwoSided",
    "gauss_legendre",
    "replicon_integral",
    "threshold_integrals",
]

Array = NDArray[np.float64]

NO_WIDTH = 1e-13  # relative, of the ends of a panel
NEWTON = 8  # steps for a quantile: three are enough inside a bulk


class Nodes(NamedTuple):
    """Quadrature of a law: sum(mass * f(x)) integrates f; ``hilbert`` is Re g(x), the principal value."""

    x: Array
    mass: Array
    hilbert: Array


class Law(ABC):
    """A spectral law rho_s: some target spectrum, freely convolved with a semicircle of variance s.

    Its Stieltjes transform is g(x) = int rho(t) / (x - t) dt. A law of singular values has each with both signs, half the weight on
    either: ``sides`` is then 2, and sums over singular values are twice those over x > 0.
    """

    sides: int = 1

    @property
    @abstractmethod
    def edges(self) -> tuple[tuple[float, float], ...]:
        """The intervals of the support, in increasing order."""

    @abstractmethod
    def density(self, x: Array) -> Array:
        """rho_s(x)."""

    @abstractmethod
    def nodes(self, low: float = -np.inf, high: float = np.inf) -> Nodes:
        """Quadrature of the part of the law between ``low`` and ``high``."""

    def shares(self, low: float, places: Array) -> Array:
        """For each of ``places``, how much more likely than on average an atom there is the source of what lies at each node above ``low`` (8.2).

        With a = x - s Re g and b = pi s rho, s/((a - place)² + b²): a row per place, whose integral over rho is one.
        """
        raise NotImplementedError

    def at(self, x: float, places: Array) -> tuple[float, float, Array]:
        """At one point the density, Re g, and the same shares."""
        raise NotImplementedError

    def mass_above(self, low: float) -> float:
        """int_low^inf rho_s."""
        return float(self.nodes(low).mass.sum())

    def quantile_above(self, mass: float) -> float:
        """The point x with ``mass`` above it; asked for again and again with thresholds that differ, and found once."""
        known: dict[float, float] = self.__dict__.setdefault("_quantiles", {})
        if mass not in known:
            known[mass] = self._quantile_above(mass)
        return known[mass]

    def _quantile_above(self, mass: float) -> float:
        """Newton's method from where the nodes of the whole law put it; bisection where that does not help."""
        low, high = self.edges[0][0], self.edges[-1][1]
        if mass >= 1.0:
            return low
        close = 1e-13 * (1.0 + high - low)
        nodes = self.nodes()
        above = np.cumsum(nodes.mass[::-1])[::-1] - 0.5 * nodes.mass
        x = float(np.interp(-mass, -above, nodes.x))
        for _ in range(NEWTON):
            density = float(self.density(np.array([x]))[0])
            move = (self.mass_above(x) - mass) / density if density > 0.0 else np.inf
            if not low < x + move < high:
                break
            x += move
            if abs(move) < close:
                return x
        return root_between(lambda x: self.mass_above(x) - mass, low, high, xtol=close)


class TwoSided(Law):
    """A law of singular values, known by its positive half."""

    sides = 2

    @property
    @abstractmethod
    def half(self) -> tuple[tuple[float, float], ...]:
        """The intervals of the support above zero, in increasing order; the first may begin at zero."""

    @abstractmethod
    def half_nodes(self, low: float, high: float) -> Nodes:
        """Quadrature of the part between ``low`` >= 0 and ``high``, x increasing."""

    @property
    def edges(self) -> tuple[tuple[float, float], ...]:
        """The half and its mirror image; what touches zero from both sides is one interval."""
        above = self.half
        below = tuple((-high, -low) for low, high in reversed(above))
        return (*below[:-1], (below[-1][0], above[0][1]), *above[1:]) if above[0][0] == 0.0 else below + above

    def nodes(self, low: float = -np.inf, high: float = np.inf) -> Nodes:
        """Those of the half, and their mirror image."""
        above = self.half_nodes(max(low, 0.0), max(high, 0.0))
        if low >= 0.0:
            return above
        x, mass, hilbert = self.half_nodes(max(-high, 0.0), -low)
        below = Nodes(-x[::-1], mass[::-1], -hilbert[::-1])
        return Nodes(*(np.concatenate(rows) for rows in zip(below, above, strict=True)))


@lru_cache(maxsize=8)
def gauss_legendre(count: int) -> tuple[Array, Array]:
    """Nodes and weights on (0, 1)."""
    x, w = np.polynomial.legendre.leggauss(count)
    return 0.5 * (x + 1.0), 0.5 * w


@lru_cache(maxsize=8)
def edge_rule(count: int) -> tuple[Array, Array]:
    """Places and weights on (0, 1), Gauss-Legendre in the angle t of (1 - cos t)/2: exact for roots at both ends."""
    unit, weight = gauss_legendre(count)
    angle = np.pi * unit
    return 0.5 * (1.0 - np.cos(angle)), 0.5 * np.pi * np.sin(angle) * weight


def not_empty(panels: Array) -> Array:
    """Panels, as rows that end in where they begin and end, that are wider than rounding: others have no mass, and no density either."""
    panels = panels[panels[:, -1] > panels[:, -2]]  # ends at infinity leave nothing between them
    low, high = panels[:, -2], panels[:, -1]
    return np.asarray(panels[high - low > NO_WIDTH * np.maximum(np.abs(low), np.abs(high))])


def intervals(ends: Array) -> tuple[tuple[float, float], ...]:
    """Ends, two and two."""
    return tuple((float(low), float(high)) for low, high in ends.reshape(-1, 2))


@dataclass(frozen=True, kw_only=True)
class ThresholdIntegrals:
    """Integrals of the soft threshold f(x) = (x - eps)_+ against rho_s (2.3, 3).

    J = int rho f^2,  B = int rho f = -(1/2) dJ/deps,  A = int rho 2 f Re g = dJ/ds, all over x > ``cut``;
    ``rank`` = int_cut^inf rho. The cut is eps unless the width of the learner is the tighter limit. Of singular values the threshold
    is odd, f(x) = sign(x) (|x| - eps)_+, and all four count both signs (U2.2).
    """

    J: float
    B: float
    A: float
    rank: float
    cut: float


def threshold_integrals(law: Law, eps: float, width: float = 1.0) -> ThresholdIntegrals:
    """J, B, A and the rank for a threshold ``eps``, keeping at most the top fraction ``width`` of eigenvalues, or singular values."""
    sides = law.sides
    nodes, cut = law.nodes(eps if sides == 1 else max(eps, 0.0)), eps
    rank = sides * float(nodes.mass.sum())
    if sides == 2:
        rank = min(rank, 1.0)  # at eps = 0 it is one, but for rounding
    if rank > width:
        cut = max(eps, law.quantile_above(width / sides))
        nodes, rank = law.nodes(cut), width
    f = nodes.x - eps
    weighted = nodes.mass * f
    return ThresholdIntegrals(
        J=sides * float(weighted @ f),
        B=sides * float(weighted.sum()),
        A=sides * float(2.0 * weighted @ nodes.hilbert),
        rank=rank,
        cut=cut,
    )


def replicon_integral(law: Law, eps: float) -> float:
    """A2 = int int rho rho ((f(x) - f(y)) / (x - y))^2 with f(x) = (x - eps)_+ (2.8), odd for singular values (U2.3)."""
    above, below = law.nodes(eps), law.nodes(-np.inf if law.sides == 1 else -eps, eps)
    # for x > eps > y the quotient is (x - eps) / (x - y); for both above it is one; for both below zero
    quotient = (above.x - eps)[:, None] / (above.x[:, None] - below.x[None, :])
    total = float(above.mass.sum() ** 2 + 2.0 * above.mass @ quotient**2 @ below.mass)
    if law.sides == 1:
        return total
    # the same once more below -eps, and x on one side of it all, -y on the other
    across = 1.0 - 2.0 * eps / (above.x[:, None] + above.x[None, :])
    return float(2.0 * total + 2.0 * above.mass @ across**2 @ above.mass)


class Scaled(Law):
    """The law of ``scale`` times an eigenvalue of another law."""

    def __init__(self, base: Law, scale: float) -> None:
        self.base, self.scale, self.sides = base, scale, base.sides

    @property
    def edges(self) -> tuple[tuple[float, float], ...]:
        """Scaled intervals."""
        return tuple((self.scale * low, self.scale * high) for low, high in self.base.edges)

    def density(self, x: Array) -> Array:
        """rho(x / scale) / scale."""
        return self.base.density(np.asarray(x, dtype=float) / self.scale) / self.scale

    def nodes(self, low: float = -np.inf, high: float = np.inf) -> Nodes:
        """Scaled nodes; the transform has the dimension of an inverse eigenvalue."""
        x, mass, hilbert = self.base.nodes(low / self.scale, high / self.scale)
        return Nodes(self.scale * x, mass, hilbert / self.scale)

    def shares(self, low: float, places: Array) -> Array:
        """Those of the base: they have no dimension."""
        return self.base.shares(low / self.scale, np.asarray(places) / self.scale)

    def at(self, x: float, places: Array) -> tuple[float, float, Array]:
        """Those of the base, scaled."""
        rho, hilbert, shares = self.base.at(x / self.scale, np.asarray(places) / self.scale)
        return rho / self.scale, hilbert / self.scale, shares

    def mass_above(self, low: float) -> float:
        """That of the base, which may know it without nodes."""
        return self.base.mass_above(low / self.scale)
