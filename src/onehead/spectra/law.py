"""Interface of spectral laws, and the integrals of the soft threshold against a law."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.numerics.brent import brent_root

Array = NDArray[np.float64]

MINIMUM_RELATIVE_WIDTH = 1e-13  # of a panel, over its ends; narrower panels are empty
MAX_NEWTON_STEPS = 8  # for a quantile; inside a bulk three are enough


class Nodes(NamedTuple):
    """Quadrature nodes of a law: sum(mass * f(x)) approximates the integral of f; ``hilbert`` is Re g(x)."""

    x: Array
    mass: Array
    hilbert: Array


class Law(ABC):
    """Spectral law rho_s: a target spectrum freely convolved with a semicircle of variance s.

    Its Stieltjes transform is g(x) = int rho(t) / (x - t) dt. A law of singular values contains each one with both
    signs, at half the weight: ``sides`` is then 2, and sums over singular values are twice the integrals over x > 0.
    """

    sides: int = 1

    @property
    @abstractmethod
    def edges(self) -> tuple[tuple[float, float], ...]:
        """Intervals of the support, in increasing order."""

    @abstractmethod
    def density(self, x: Array) -> Array:
        """Return the density rho_s(x)."""

    @abstractmethod
    def nodes(self, low: float = -np.inf, high: float = np.inf) -> Nodes:
        """Return quadrature nodes of the part of the law between ``low`` and ``high``."""

    def eigenvector_overlaps(self, low: float, atoms: Array) -> Array:
        """Return d times the mean squared overlap of eigenvectors of the blurred matrix with those of the target (8.2).

        With a = x - s Re g and b = pi s rho it is s/((a - atom)² + b²): one row per eigenvalue of the target in
        ``atoms``, one column per node above ``low``. The integral of a row over rho is one.
        """
        raise NotImplementedError

    def overlaps_at(self, x: float, atoms: Array) -> tuple[float, float, Array]:
        """Return the density, Re g and the eigenvector overlaps with ``atoms`` at one point x."""
        raise NotImplementedError

    def mass_above(self, low: float) -> float:
        """Return the mass above ``low``, int_low^inf rho_s."""
        return float(self.nodes(low).mass.sum())

    def quantile_above(self, mass: float) -> float:
        """Return the point x with ``mass`` above it; cached, since it is needed for many thresholds."""
        known: dict[float, float] = self.__dict__.setdefault("_quantiles", {})
        if mass not in known:
            known[mass] = self._quantile_above(mass)
        return known[mass]

    def _quantile_above(self, mass: float) -> float:
        """Find a quantile by Newton's method from the nodes of the law, and by Brent's method if that fails."""
        low, high = self.edges[0][0], self.edges[-1][1]
        if mass >= 1.0:
            return low
        tolerance = 1e-13 * (1.0 + high - low)
        nodes = self.nodes()
        above = np.cumsum(nodes.mass[::-1])[::-1] - 0.5 * nodes.mass
        x = float(np.interp(-mass, -above, nodes.x))
        for _ in range(MAX_NEWTON_STEPS):
            density = float(self.density(np.array([x]))[0])
            step = (self.mass_above(x) - mass) / density if density > 0.0 else np.inf
            if not low < x + step < high:
                break
            x += step
            if abs(step) < tolerance:
                return x
        return brent_root(lambda x: self.mass_above(x) - mass, low, high, xtol=tolerance)


class SingularValueLaw(Law):
    """Law of singular values, each with both signs, defined by its positive half."""

    sides = 2

    @property
    @abstractmethod
    def positive_support(self) -> tuple[tuple[float, float], ...]:
        """Intervals of the support above zero, in increasing order; the first may begin at zero."""

    @abstractmethod
    def positive_nodes(self, low: float, high: float) -> Nodes:
        """Return quadrature nodes between ``low`` >= 0 and ``high``, x increasing."""

    @property
    def edges(self) -> tuple[tuple[float, float], ...]:
        """Intervals of the support on both sides of zero; intervals that touch zero are joined."""
        above = self.positive_support
        below = tuple((-high, -low) for low, high in reversed(above))
        return (*below[:-1], (below[-1][0], above[0][1]), *above[1:]) if above[0][0] == 0.0 else below + above

    def nodes(self, low: float = -np.inf, high: float = np.inf) -> Nodes:
        """Return quadrature nodes of the positive half and of its mirror image, between ``low`` and ``high``."""
        above = self.positive_nodes(max(low, 0.0), max(high, 0.0))
        if low >= 0.0:
            return above
        x, mass, hilbert = self.positive_nodes(max(-high, 0.0), -low)
        below = Nodes(-x[::-1], mass[::-1], -hilbert[::-1])
        return Nodes(*(np.concatenate(rows) for rows in zip(below, above, strict=True)))


@lru_cache(maxsize=8)
def gauss_legendre(count: int) -> tuple[Array, Array]:
    """Return nodes and weights of the Gauss-Legendre rule on (0, 1)."""
    x, w = np.polynomial.legendre.leggauss(count)
    return 0.5 * (x + 1.0), 0.5 * w


@lru_cache(maxsize=8)
def edge_rule(count: int) -> tuple[Array, Array]:
    """Return Gauss-Legendre nodes and weights in the angle t of (1 - cos t)/2, for square roots at both ends."""
    unit, weight = gauss_legendre(count)
    angle = np.pi * unit
    return 0.5 * (1.0 - np.cos(angle)), 0.5 * np.pi * np.sin(angle) * weight


def drop_empty_panels(panels: Array) -> Array:
    """Return the panels that are wider than rounding errors; the last two columns of a row are the ends of a panel."""
    panels = panels[panels[:, -1] > panels[:, -2]]  # drops panels with both ends at infinity
    low, high = panels[:, -2], panels[:, -1]
    return np.asarray(panels[high - low > MINIMUM_RELATIVE_WIDTH * np.maximum(np.abs(low), np.abs(high))])


def as_intervals(ends: Array) -> tuple[tuple[float, float], ...]:
    """Group a flat array of ends into intervals."""
    return tuple((float(low), float(high)) for low, high in ends.reshape(-1, 2))


@dataclass(frozen=True, kw_only=True)
class ThresholdIntegrals:
    """Integrals of the soft threshold f(x) = (x - eps)_+ against rho_s (2.3, 3).

    J = int rho f^2,  B = int rho f = -(1/2) dJ/deps,  A = int rho 2 f Re g = dJ/ds,  rank = int rho,

    all over x > ``cut``. The cut is eps, or larger if the width of the learner limits the rank. For singular values the
    threshold is odd, f(x) = sign(x) (|x| - eps)_+, and all four integrals include both signs (U2.2).
    """

    J: float
    B: float
    A: float
    rank: float
    cut: float


def threshold_integrals(law: Law, eps: float, width: float = 1.0) -> ThresholdIntegrals:
    """Compute J, B, A and the rank for a threshold ``eps`` and at most a fraction ``width`` of the eigenvalues."""
    sides = law.sides
    nodes, cut = law.nodes(eps if sides == 1 else max(eps, 0.0)), eps
    rank = sides * float(nodes.mass.sum())
    if sides == 2:
        rank = min(rank, 1.0)  # at eps = 0 it is one up to rounding errors
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
    """Compute A2 = int int rho rho ((f(x) - f(y)) / (x - y))^2 of the soft threshold f (2.8), for both signs (U2.3)."""
    above, below = law.nodes(eps), law.nodes(-np.inf if law.sides == 1 else -eps, eps)
    # the quotient is (x - eps) / (x - y) for x > eps > y, one for x and y above eps, zero for both below
    quotient = (above.x - eps)[:, None] / (above.x[:, None] - below.x[None, :])
    total = float(above.mass.sum() ** 2 + 2.0 * above.mass @ quotient**2 @ below.mass)
    if law.sides == 1:
        return total
    # by symmetry the same below -eps; `across` is the quotient for x > eps and y < -eps
    across = 1.0 - 2.0 * eps / (above.x[:, None] + above.x[None, :])
    return float(2.0 * total + 2.0 * above.mass @ across**2 @ above.mass)


class ScaledLaw(Law):
    """Law of the eigenvalues of another law multiplied by ``scale``."""

    def __init__(self, base: Law, scale: float) -> None:
        self.base, self.scale, self.sides = base, scale, base.sides

    @property
    def edges(self) -> tuple[tuple[float, float], ...]:
        """Intervals of the support, in increasing order."""
        return tuple((self.scale * low, self.scale * high) for low, high in self.base.edges)

    def density(self, x: Array) -> Array:
        """Return the density rho(x / scale) / scale."""
        return self.base.density(np.asarray(x, dtype=float) / self.scale) / self.scale

    def nodes(self, low: float = -np.inf, high: float = np.inf) -> Nodes:
        """Return scaled nodes; Re g scales as an inverse eigenvalue."""
        x, mass, hilbert = self.base.nodes(low / self.scale, high / self.scale)
        return Nodes(self.scale * x, mass, hilbert / self.scale)

    def eigenvector_overlaps(self, low: float, atoms: Array) -> Array:
        """Return the eigenvector overlaps with ``atoms`` at the nodes above ``low``, independent of the scale."""
        return self.base.eigenvector_overlaps(low / self.scale, np.asarray(atoms) / self.scale)

    def overlaps_at(self, x: float, atoms: Array) -> tuple[float, float, Array]:
        """Return the density, Re g and the eigenvector overlaps with ``atoms`` at one point x."""
        rho, hilbert, overlaps = self.base.overlaps_at(x / self.scale, np.asarray(atoms) / self.scale)
        return rho / self.scale, hilbert / self.scale, overlaps

    def mass_above(self, low: float) -> float:
        """Return the mass above ``low``; the base law may know it without quadrature."""
        return self.base.mass_above(low / self.scale)
