"""Singular values of a product of two Gaussian matrices plus a semicircle, from their quartic equation (U3).

The singular values of W_Q' W_K / sqrt(m0 d), two independent m0 x d Gaussian matrices with m0 = k d, plus those of a
Gaussian noise of variance s have, with both signs, a Stieltjes transform g with

    x = s g + 1/g + g / (1 - g²/k).

On the support g = r exp(-iφ) is complex. With v = r²/k, σ = s k and y = v / (1 - σ v) the imaginary part of the
equation gives the angle, and its real part gives x, both in closed form:

    sin²φ = [k y (1 + v) - (1 - v)²] / (4 v),   cos²φ = (1 + v) [(1 + v) - k y] / (4 v),
    x = 2 cos φ (1 + σ v²) / (r (1 + v)).

The law is therefore parametrised by log y, from the upper edge of a bulk to its lower edge or to x = 0, and no equation
has to be solved along it. All quantities are analytic in log y up to square roots at the ends, which the substitution
by an angle removes, unless two bulks are about to separate. Edges are the roots of sin²φ, a cubic in v, and x = 0 is
the root of cos²φ. Factors that vanish at the ends of a bulk are computed as products instead of differences: otherwise
digits would cancel for bulks that are narrow in log y, as those of every law close to a semicircle.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.numerics.jit import njit
from onehead.spectra.law import Nodes, SingularValueLaw, drop_empty_panels, gauss_legendre

Array = NDArray[np.float64]

NODES_PER_PANEL = 60
MAX_STEPS = 200
MAX_BRANCH_ANGLE = 1.5  # argument of a branch point in the plane of y, below which the panel is split there


class _Bulk(NamedTuple):
    """One bulk of the positive half.

    It extends from ``y`` to ``y`` exp(``width``), or in v from ``top``, its upper edge, to ``bottom``. The other
    factors of sin²φ are σ v² - ``linear`` v + ``constant``. A bulk that ends above zero has two edges, and the third
    factor is σ (``third_root`` - v).
    """

    y: float
    width: float
    top: float
    bottom: float
    linear: float
    constant: float
    third_root: float  # zero for a bulk that extends down to x = 0


@njit
def _point(angle, k, s, zero, bulk):  # type: ignore[no-untyped-def]
    """Return (x, rho, Re g, -dx/dangle) at log y = log bulk.y + width sin²(angle/2); ``zero`` is the v of x = 0."""
    y, width, top, bottom, linear, constant, third_root = bulk
    sigma = s * k
    sine, cosine = np.sin(0.5 * angle), np.cos(0.5 * angle)
    from_top, to_bottom = width * sine * sine, width * cosine * cosine  # distances in log y from the ends of the bulk
    y_here = y * np.exp(from_top)
    e = 1.0 / (1.0 + sigma * y_here)  # 1 - σ v
    v = y_here * e
    above_top = -v * (top / y) * np.expm1(-from_top)  # v - top
    if third_root > 0.0:
        below_bottom = v * (1.0 - sigma * bottom) * np.expm1(to_bottom)  # bottom - v
        sine2 = above_top * below_bottom * sigma * (third_root - v)
        below_zero = zero - v
    else:
        below_zero = v * (k * zero / (1.0 + zero)) * np.expm1(to_bottom)  # zero - v
        sine2 = above_top * max((sigma * v - linear) * v + constant, 0.0)
    sin_phi = np.sqrt(sine2 / (4.0 * v * e))
    cos_phi = np.sqrt((1.0 + v) * below_zero * (sigma * v + 1.0 / zero) / (4.0 * v * e))
    # -d cos²φ / d log y
    fall = 0.25 * (e / v + v * ((k - 1.0) + sigma * v * (2.0 - sigma * v)) / e + k * sigma * y_here)
    r = np.sqrt(k * v)
    size = 2.0 * (1.0 + sigma * v * v) / (r * (1.0 + v))
    growth = e * (2.0 * sigma * v * v / (1.0 + sigma * v * v) - 0.5 - v / (1.0 + v))  # d log size / d log y
    slope = size * (0.5 * fall / cos_phi - cos_phi * growth) * width * sine * cosine
    return size * cos_phi, r * sin_phi / np.pi, r * cos_phi, slope


@njit
def _panel_nodes(panels, unit, weight, k, s, zero, bulks):  # type: ignore[no-untyped-def]
    """Return x, mass, Re g and rho at the nodes of all panels (bulk, first angle, last angle), x increasing."""
    size = unit.shape[0]
    out = np.empty((4, panels.shape[0] * size))
    for p in range(panels.shape[0]):
        bulk = bulks[int(panels[p, 0])]
        width = panels[p, 2] - panels[p, 1]
        for j in range(size):
            x, rho, real, slope = _point(panels[p, 2] - width * unit[j], k, s, zero, bulk)
            out[0, p * size + j], out[2, p * size + j] = x, real
            out[1, p * size + j] = rho * slope * width * weight[j]
            out[3, p * size + j] = rho
    return out


@njit
def _invert(x, k, s, zero, bulk):  # type: ignore[no-untyped-def]
    """Return (angle, rho) at x inside a bulk, by safeguarded Newton steps."""
    low, high = 0.0, np.pi
    angle = 0.5 * np.pi
    rho = 0.0
    for _ in range(MAX_STEPS):
        x_here, rho, _, slope = _point(angle, k, s, zero, bulk)
        if x_here > x:
            low = angle
        else:
            high = angle
        new = angle + (x_here - x) / slope
        if not low < new < high:
            new = 0.5 * (low + high)
        if abs(new - angle) <= 1e-15 or new == angle:
            break
        angle = new
    return angle, rho


@njit
def _densities(x, k, s, zero, bulks, edges):  # type: ignore[no-untyped-def]
    """Return the density at many points."""
    rho = np.zeros(x.shape[0])
    for i in range(x.shape[0]):
        r = abs(x[i])
        for j in range(bulks.shape[0]):
            if edges[j, 0] <= r < edges[j, 1]:
                rho[i] = _invert(r, k, s, zero, bulks[j])[1]
    return rho


@njit
def _upper_edge(k, sigma):  # type: ignore[no-untyped-def]
    """Return the root of (1 - σ v)(1 - v)² = k v (1 + v) between 0 and min(1, 1/σ), where the difference decreases."""
    low, high = 0.0, min(1.0, 1.0 / sigma)
    v = min(high, 1.0 / (2.0 + sigma + k))
    for _ in range(MAX_STEPS):
        excess = (1.0 - sigma * v) * (1.0 - v) ** 2 - k * v * (1.0 + v)
        slope = -sigma * (1.0 - v) ** 2 - 2.0 * (1.0 - sigma * v) * (1.0 - v) - k * (1.0 + 2.0 * v)
        if excess > 0.0:
            low = v
        else:
            high = v
        new = v - excess / slope
        if not low <= new <= high:
            new = 0.5 * (low + high)
        if abs(new - v) <= 2e-16 * v:
            return new
        v = new
    return v


class ProductSemicircle(SingularValueLaw):
    """Singular values of a product of Gaussian matrices of ratio ``kappa0`` plus a semicircle of variance s > 0."""

    def __init__(self, kappa0: float, s: float) -> None:
        self.kappa0, self.s = float(kappa0), float(s)

    @cached_property
    def _zero(self) -> float:
        """Value of v at x = 0: the root of (1 + v)(1 - σ v) = k v."""
        sigma = self.kappa0 * self.s
        b = (self.kappa0 - 1.0) + sigma
        root = float(np.sqrt(b * b + 4.0 * sigma))
        return 2.0 / (b + root) if b > 0.0 else (root - b) / (2.0 * sigma)

    @cached_property
    def _bulks_and_panels(self) -> tuple[Array, Array]:
        """Bulks of the positive half (rows of `_Bulk`) in decreasing order, and their panels in increasing order."""
        k, sigma, zero = self.kappa0, self.kappa0 * self.s, self._zero
        top = float(_upper_edge(k, sigma))
        y = (1.0 - top) ** 2 / (k * (1.0 + top))
        # the other two roots solve σ v² - linear v + constant = 0
        linear, constant = (1.0 - k) + sigma * (2.0 - top), 1.0 / top
        discriminant = linear * linear - 4.0 * sigma * constant
        if discriminant > 0.0 and linear > 0.0:
            root = linear + float(np.sqrt(discriminant))
            second, third = 2.0 * constant / root, 0.5 * root / sigma
            y2, y1 = ((v - 1.0) ** 2 / (k * (1.0 + v)) for v in (second, third))
            rise = np.log1p(1.0 / zero) + np.log1p(1.0 / third) - 2.0 * np.log1p(-1.0 / third)
            noise_width = float(np.log1p(np.expm1(rise) / (sigma * third)))
            bulks = [
                _Bulk(y, float(np.log(y2 / y)), top, second, 0.0, 0.0, third),
                _Bulk(y1, noise_width, third, zero, sigma * (second + top), 1.0 / third, 0.0),
            ]
            return np.array(bulks), np.array([(1, 0.0, np.pi), (0, 0.0, np.pi)])
        width = float(np.log1p(zero) + np.log1p(top) - 2.0 * np.log1p(-top))
        panels = [(0, 0.0, np.pi)]
        if discriminant < 0.0:  # the density has a minimum near a complex pair of branch points
            branch = complex(linear, np.sqrt(-discriminant)) / (2.0 * sigma)
            branch /= y * (1.0 - sigma * branch)
            split = float(np.log(abs(branch)))
            if abs(np.angle(branch)) < MAX_BRANCH_ANGLE and 0.0 < split < width:
                angle = 2.0 * float(np.arcsin(np.sqrt(split / width)))
                panels = [(0, angle, np.pi), (0, 0.0, angle)]
        return np.array([_Bulk(y, width, top, zero, linear, constant, 0.0)]), np.array(panels)

    @cached_property
    def positive_support(self) -> tuple[tuple[float, float], ...]:
        """Intervals of the support above zero: the noise, and the signal above it if it is separate."""
        return tuple(
            (self._edge(bulk[3]) if bulk[6] > 0.0 else 0.0, self._edge(bulk[2]))
            for bulk in self._bulks_and_panels[0][::-1]
        )

    def _edge(self, v: float) -> float:
        """Return the edge: x at φ = 0 for a root v of sin²φ."""
        return float(2.0 * (1.0 + self.kappa0 * self.s * v * v) / (np.sqrt(self.kappa0 * v) * (1.0 + v)))

    def _inverse(self, x: float, bulk: int) -> float:
        """Return the angle of x in a bulk, from 0 at the upper edge to π at the lower one; x outside is clipped."""
        row = self._bulks_and_panels[0][bulk]
        low, high = self.positive_support[-1 - bulk]
        if x >= high:
            return 0.0
        return float(_invert(x, self.kappa0, self.s, self._zero, row)[0]) if x > low else float(np.pi)

    def density(self, x: Array) -> Array:
        """Return the density rho_s(x)."""
        where = np.atleast_1d(np.asarray(x, dtype=np.float64))
        bulks = self._bulks_and_panels[0]
        ends = np.array(self.positive_support[::-1])
        rho: Array = _densities(where.ravel(), self.kappa0, self.s, self._zero, bulks, ends)
        return rho.reshape(where.shape)

    def positive_nodes(self, low: float, high: float) -> Nodes:
        """Return Gauss-Legendre nodes in the angle on every panel, in which integrands are analytic up to the ends."""
        bulks, panels = self._bulks_and_panels
        ends = {bulk: (self._inverse(high, bulk), self._inverse(low, bulk)) for bulk in range(len(bulks))}
        clipped = np.array([(bulk, *np.clip((start, end), *ends[int(bulk)])) for bulk, start, end in panels])
        clipped = drop_empty_panels(clipped)
        return Nodes(
            *_panel_nodes(clipped, *gauss_legendre(NODES_PER_PANEL), self.kappa0, self.s, self._zero, bulks)[:3]
        )

    def tabulated(self, count: int) -> tuple[Array, Array, Array]:
        """Return x > 0, rho and mass at ``count`` midpoints in the angle of every panel, for drawing curves."""
        bulks, panels = self._bulks_and_panels
        unit, weight = (np.arange(count) + 0.5) / count, np.full(count, 1.0 / count)
        x, mass, _, rho = _panel_nodes(panels.astype(np.float64), unit, weight, self.kappa0, self.s, self._zero, bulks)
        return x, rho, mass
