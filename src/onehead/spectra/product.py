"""Singular values of a product of two Gaussian matrices, freely convolved with a semicircle, from their quartic equation (U3).

The singular values of W_Q' W_K / sqrt(m0 d), two independent m0 x d Gaussian matrices with m0 = k d, plus those of a Gaussian
noise of variance s have, with both signs, a Stieltjes transform g with

    x = s g + 1/g + g / (1 - g²/k).

On the support g = r exp(-iφ) is complex. With v = r²/k, σ = s k and y = v / (1 - σ v) the imaginary part of the equation gives
the angle and its real part the place, both in closed form:

    sin²φ = [k y (1 + v) - (1 - v)²] / (4 v),   cos²φ = (1 + v) [(1 + v) - k y] / (4 v),   x = 2 cos φ (1 + σ v²) / (r (1 + v)).

So nothing is solved along the law: log y runs from the upper edge of a bulk to its lower one, or to x = 0, and all is analytic in
it but for square roots at the ends, which an angle removes, unless two bulks are about to part. Edges are the roots of sin²φ, a cubic in v, and x = 0
is that of cos²φ; factors that vanish at the ends of a bulk are products here, never differences, so that nothing cancels where a
bulk is narrow in log y, which it is for every law close to a semicircle.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.numerics.compiled import njit
from onehead.spectra.law import Nodes, TwoSided, gauss_legendre, not_empty

__all__ = ["ProductSemicircle"]

Array = NDArray[np.float64]

NODES = 60  # per panel
STEPS = 200
NEAR = 1.5  # angle of a branch point in the plane of y, up to which it is worth a split


class _Bulk(NamedTuple):
    """One bulk of the positive half: y from ``y`` to ``y`` exp(``width``), v from ``top`` (its upper edge) to ``bottom``.

    The other factors of sin²φ are σ v² - ``linear`` v + ``constant``; a bulk that ends above zero has two edges, and
    σ (``apart`` - v) is its third factor.
    """

    y: float
    width: float
    top: float
    bottom: float
    linear: float
    constant: float
    apart: float  # zero for a bulk that reaches down to zero


@njit(cache=True, nogil=True, error_model="numpy")
def _point(angle, k, s, zero, bulk):  # type: ignore[no-untyped-def]
    """(x, rho, Re g, -dx/dangle) at log y = log bulk.y + width sin²(angle/2); ``zero`` is the v of x = 0."""
    y, width, top, bottom, linear, constant, apart = bulk
    sigma = s * k
    sine, cosine = np.sin(0.5 * angle), np.cos(0.5 * angle)
    move, left = width * sine * sine, width * cosine * cosine  # from the upper end, to the lower one
    here = y * np.exp(move)
    e = 1.0 / (1.0 + sigma * here)  # 1 - σ v
    v = here * e
    up = -v * (top / y) * np.expm1(-move)  # v - top
    if apart > 0.0:
        down = v * (1.0 - sigma * bottom) * np.expm1(left)  # bottom - v
        sine2 = up * down * sigma * (apart - v)
        rest = zero - v
    else:
        rest = v * (k * zero / (1.0 + zero)) * np.expm1(left)  # the v of zero, less v
        sine2 = up * max((sigma * v - linear) * v + constant, 0.0)
    sin_phi = np.sqrt(sine2 / (4.0 * v * e))
    cos_phi = np.sqrt((1.0 + v) * rest * (sigma * v + 1.0 / zero) / (4.0 * v * e))
    fall = 0.25 * (e / v + v * ((k - 1.0) + sigma * v * (2.0 - sigma * v)) / e + k * sigma * here)  # of cos²φ, in log y
    r = np.sqrt(k * v)
    size = 2.0 * (1.0 + sigma * v * v) / (r * (1.0 + v))
    growth = e * (2.0 * sigma * v * v / (1.0 + sigma * v * v) - 0.5 - v / (1.0 + v))  # of log size
    slope = size * (0.5 * fall / cos_phi - cos_phi * growth) * width * sine * cosine
    return size * cos_phi, r * sin_phi / np.pi, r * cos_phi, slope


@njit(cache=True, nogil=True, error_model="numpy")
def _fill(panels, place, weight, k, s, zero, bulks):  # type: ignore[no-untyped-def]
    """x, masses, Re g and rho over all panels (bulk, first angle, last angle), x increasing."""
    size = place.shape[0]
    out = np.empty((4, panels.shape[0] * size))
    for p in range(panels.shape[0]):
        bulk = bulks[int(panels[p, 0])]
        width = panels[p, 2] - panels[p, 1]
        for j in range(size):
            x, rho, real, slope = _point(panels[p, 2] - width * place[j], k, s, zero, bulk)
            out[0, p * size + j], out[2, p * size + j] = x, real
            out[1, p * size + j] = rho * slope * width * weight[j]
            out[3, p * size + j] = rho
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def _locate(x, k, s, zero, bulk):  # type: ignore[no-untyped-def]
    """(angle, rho) at x inside a bulk: safeguarded Newton."""
    low, high = 0.0, np.pi
    angle = 0.5 * np.pi
    rho = 0.0
    for _ in range(STEPS):
        here, rho, _, slope = _point(angle, k, s, zero, bulk)
        if here > x:
            low = angle
        else:
            high = angle
        new = angle + (here - x) / slope
        if not low < new < high:
            new = 0.5 * (low + high)
        if abs(new - angle) <= 1e-15 or new == angle:
            break
        angle = new
    return angle, rho


@njit(cache=True, nogil=True, error_model="numpy")
def _densities(x, k, s, zero, bulks, edges):  # type: ignore[no-untyped-def]
    """rho at many points."""
    rho = np.zeros(x.shape[0])
    for i in range(x.shape[0]):
        place = abs(x[i])
        for j in range(bulks.shape[0]):
            if edges[j, 0] <= place < edges[j, 1]:
                rho[i] = _locate(place, k, s, zero, bulks[j])[1]
    return rho


@njit(cache=True, nogil=True, error_model="numpy")
def _upper_edge(k, sigma):  # type: ignore[no-untyped-def]
    """The root of (1 - σ v)(1 - v)² = k v (1 + v) between zero and both 1 and 1/σ, where the difference falls."""
    low, high = 0.0, min(1.0, 1.0 / sigma)
    v = min(high, 1.0 / (2.0 + sigma + k))
    for _ in range(STEPS):
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


class ProductSemicircle(TwoSided):
    """Singular values of a product of Gaussian matrices (ratio ``kappa0``), with both signs, plus a semicircle of variance s > 0."""

    def __init__(self, kappa0: float, s: float) -> None:
        self.kappa0, self.s = float(kappa0), float(s)

    @cached_property
    def _zero(self) -> float:
        """The v of x = 0: (1 + v)(1 - σ v) = k v."""
        sigma = self.kappa0 * self.s
        b = (self.kappa0 - 1.0) + sigma
        root = float(np.sqrt(b * b + 4.0 * sigma))
        return 2.0 / (b + root) if b > 0.0 else (root - b) / (2.0 * sigma)

    @cached_property
    def _parts(self) -> tuple[Array, Array]:
        """Bulks of the positive half from the top (rows of `_Bulk`), and their panels from the bottom."""
        k, sigma, zero = self.kappa0, self.kappa0 * self.s, self._zero
        top = float(_upper_edge(k, sigma))
        y = (1.0 - top) ** 2 / (k * (1.0 + top))
        # the other two roots solve σ v² - linear v + constant = 0
        linear, constant = (1.0 - k) + sigma * (2.0 - top), 1.0 / top
        inside = linear * linear - 4.0 * sigma * constant
        if inside > 0.0 and linear > 0.0:
            root = linear + float(np.sqrt(inside))
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
        if inside < 0.0:  # a complex pair of branch points: the law dips there
            branch = complex(linear, np.sqrt(-inside)) / (2.0 * sigma)
            branch /= y * (1.0 - sigma * branch)
            dip = float(np.log(abs(branch)))
            if abs(np.angle(branch)) < NEAR and 0.0 < dip < width:
                angle = 2.0 * float(np.arcsin(np.sqrt(dip / width)))
                panels = [(0, angle, np.pi), (0, 0.0, angle)]
        return np.array([_Bulk(y, width, top, zero, linear, constant, 0.0)]), np.array(panels)

    @cached_property
    def half(self) -> tuple[tuple[float, float], ...]:
        """The noise from zero up, and the signal above it if it is apart."""
        return tuple(
            (self._edge(bulk[3]) if bulk[6] > 0.0 else 0.0, self._edge(bulk[2])) for bulk in self._parts[0][::-1]
        )

    def _edge(self, v: float) -> float:
        """x where φ = 0."""
        return float(2.0 * (1.0 + self.kappa0 * self.s * v * v) / (np.sqrt(self.kappa0 * v) * (1.0 + v)))

    def _located(self, x: float, bulk: int) -> float:
        """The angle of x in a bulk, zero at its upper end; its ends for what is beyond."""
        row = self._parts[0][bulk]
        low, high = self.half[-1 - bulk]
        if x >= high:
            return 0.0
        return float(_locate(x, self.kappa0, self.s, self._zero, row)[0]) if x > low else float(np.pi)

    def density(self, x: Array) -> Array:
        """rho_s(x)."""
        where = np.atleast_1d(np.asarray(x, dtype=np.float64))
        bulks = self._parts[0]
        ends = np.array(self.half[::-1])
        rho: Array = _densities(where.ravel(), self.kappa0, self.s, self._zero, bulks, ends)
        return rho.reshape(where.shape)

    def half_nodes(self, low: float, high: float) -> Nodes:
        """Gauss-Legendre nodes in the angle on every panel, analytic up to its ends wherever it is cut."""
        bulks, panels = self._parts
        ends = {bulk: (self._located(high, bulk), self._located(low, bulk)) for bulk in range(len(bulks))}
        clipped = np.array([(bulk, *np.clip((start, end), *ends[int(bulk)])) for bulk, start, end in panels])
        clipped = not_empty(clipped)
        return Nodes(*_fill(clipped, *gauss_legendre(NODES), self.kappa0, self.s, self._zero, bulks)[:3])

    def tabulated(self, count: int) -> tuple[Array, Array, Array]:
        """x > 0, rho and mass at ``count`` midpoints in the angle of every panel, dense at its ends: what a curve needs."""
        bulks, panels = self._parts
        place, weight = (np.arange(count) + 0.5) / count, np.full(count, 1.0 / count)
        x, mass, _, rho = _fill(panels.astype(np.float64), place, weight, self.kappa0, self.s, self._zero, bulks)
        return x, rho, mass
