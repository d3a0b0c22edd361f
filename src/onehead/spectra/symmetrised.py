"""The Marchenko-Pastur law with both signs, freely convolved with a semicircle, by subordination (U3, U8).

The target law, with half its weight at each sign, has the Stieltjes transform G(z) = [M(z) - M(-z)]/2, with M that of
the Marchenko-Pastur law. On the support of the convolved law w = a + ib solves F = -Im G(w)/b = 1/s, and there, as for
any law (7),

    x = a + s Re G,   Re g(x) = Re G,   rho(x) = b / (pi s),   dx/da = |1 + s G'|² / Re(1 + s G').

Edges are where b = 0: -G'(a) = 1/s, outside the support of the target. Between the intervals of that support F is
convex and 1/sqrt(F) concave.
"""

from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from onehead.numerics.jit import njit
from onehead.spectra.law import Nodes, SingularValueLaw, drop_empty_panels, edge_rule
from onehead.spectra.panels import flatten_nodes, grow_if_full, push_halves

Array = NDArray[np.float64]

NODES_PER_PANEL = 24
MAX_STEPS = 300
MAX_PENDING_PANELS = 300  # halves of panels that wait to be evaluated
MASS_TOLERANCE = 1e-11  # largest error of the mass of a panel
EDGE_T = 1e-40  # t over s, below which a point is an edge
ROUNDING = 1e-12  # relative
MINIMUM_PANEL_WIDTH = 1e-9  # relative; narrower panels are not halved


@njit
def _marchenko_pastur(z, k):  # type: ignore[no-untyped-def]
    """Return (M, M') of the Marchenko-Pastur law above the real axis, where (z/k) M² - (z + 1/k - k) M + 1 = 0."""
    middle = z + (1.0 / k - k)
    root = np.sqrt(z - (1.0 - k) ** 2 / k) * np.sqrt(z - (1.0 + k) ** 2 / k)
    m = 2.0 / (middle + root) if abs(middle + root) > abs(middle - root) else (middle - root) * k / (2.0 * z)
    return m, -m * (1.0 - m / k) / root


@njit
def _transform(a, b, k):  # type: ignore[no-untyped-def]
    """Return (G, G') of the target law with both signs at a + ib."""
    right, right_slope = _marchenko_pastur(complex(a, b), k)
    left, left_slope = _marchenko_pastur(complex(-a, b), k)  # G(-w) is the complex conjugate of G at -a + ib
    return (
        complex(0.5 * (right.real - left.real), 0.5 * (right.imag + left.imag)),
        complex(0.5 * (right_slope.real + left_slope.real), 0.5 * (right_slope.imag - left_slope.imag)),
    )


@njit
def _F_outside(a, k):  # type: ignore[no-untyped-def]
    """Return F at a real a outside the support of the target."""
    return -_transform(a, 0.0, k)[1].real


@njit
def _solve_t(a, s, k, guess):  # type: ignore[no-untyped-def]
    """Return (t = b², Re G, dx/da) at ``a``: Newton's method on 1/F(t) = s, concave in t, increases from below."""
    t = guess if EDGE_T * s < guess < s else 0.5 * s  # F is at most 1/t
    for _ in range(MAX_STEPS):
        b = np.sqrt(t)
        G, slope = _transform(a, b, k)
        F = -G.imag / b
        spread = 0.5 * (F + slope.real) / t  # -dF/dt
        if t < EDGE_T * s or (not spread > 0.0 and s * F < 1.0 + ROUNDING):  # an edge: t is zero up to rounding errors
            break
        if not spread > 0.0:
            t *= 100.0
            continue
        new = t + (s - 1.0 / F) * F * F / spread
        if not new > 0.0:
            new = 0.01 * t
        if abs(new - t) <= 4e-15 * t:
            break
        t = new
    real = 2.0 * s * t * spread  # Re(1 + s G'), without the terms that cancel
    return t, G.real, real + (s * slope.imag) ** 2 / real


@njit
def _mean_argument(a, b, k):  # type: ignore[no-untyped-def]
    """Return the mean of arg(a + ib - λ) over the Marchenko-Pastur law: Im of M z + k² log(1 - M/k) - log M."""
    z = complex(a, b)
    m = _marchenko_pastur(z, k)[0]
    return (m * z + k * k * np.log(1.0 - m / k) - np.log(m)).imag


@njit
def _mass_above(a, t, real, k):  # type: ignore[no-untyped-def]
    """Return the exact mass above x(a), from the potential."""
    b = np.sqrt(t)
    return (0.5 * (np.pi + _mean_argument(a, b, k) - _mean_argument(-a, b, k)) - b * real) / np.pi


@njit
def _find_edge(start, sign, distance, s, k):  # type: ignore[no-untyped-def]
    """Return the a between start and start + sign distance at which F falls to 1/s, by bisection of log |a - start|."""
    low, high = max(1e-18 * distance, 4e-16 * start), distance
    for _ in range(MAX_STEPS):
        middle = np.sqrt(low * high)
        if not low < middle < high:
            break
        if _F_outside(start + sign * middle, k) * s > 1.0:
            low = middle
        else:
            high = middle
    return start + sign * high


@njit
def _F_minimum(high, k):  # type: ignore[no-untyped-def]
    """Return the minimum of F between the two intervals of the target, below ``high``, by golden section."""
    low, golden = 0.0, 0.5 * (np.sqrt(5.0) - 1.0)
    one, other = high - golden * (high - low), low + golden * (high - low)
    at_one, at_other = _F_outside(one, k), _F_outside(other, k)
    for _ in range(MAX_STEPS):
        if high - low <= 1e-9 * high:
            break
        if at_one < at_other:
            high, other, at_other = other, one, at_one
            one = high - golden * (high - low)
            at_one = _F_outside(one, k)
        else:
            low, one, at_one = one, other, at_other
            other = low + golden * (high - low)
            at_other = _F_outside(other, k)
    return 0.5 * (low + high)


@njit
def _panel_nodes(panels, unit, jacobian, first, s, k):  # type: ignore[no-untyped-def]
    """Return x, mass and Re g at the nodes of all panels, x increasing.

    A panel whose nodes do not sum to its exact mass is halved, and also one whose first half has a wrong mass, which
    ``first`` times the masses gives: a single check may be passed by chance.
    """
    size = unit.shape[0]
    nodes = np.empty((2 * panels.shape[0] + 64, size, 3))
    stack = np.empty((MAX_PENDING_PANELS, 2))
    used = 0
    for p in range(panels.shape[0]):
        stack[0] = panels[p]
        height = 1
        while height > 0:
            height -= 1
            low, high = stack[height]
            nodes = grow_if_full(nodes, used)
            middle = 0.5 * (low + high)
            t, real, _ = _solve_t(low, s, k, 0.0)
            exact, total, part = _mass_above(low, t, real, k), 0.0, 0.0
            for j in range(size):
                a = low + (high - low) * unit[j]
                t, real, slope = _solve_t(a, s, k, t)
                mass = np.sqrt(t) / (np.pi * s) * slope * (high - low) * jacobian[j]
                nodes[used, j, 0], nodes[used, j, 1], nodes[used, j, 2] = a + s * real, mass, real
                total += mass
                part += first[j] * mass
            t, real, _ = _solve_t(middle, s, k, 0.0)
            part -= exact - _mass_above(middle, t, real, k)
            t, real, _ = _solve_t(high, s, k, t)
            total -= exact - _mass_above(high, t, real, k)
            if (
                max(abs(total), abs(part)) > MASS_TOLERANCE
                and height + 2 < MAX_PENDING_PANELS
                and high - low > MINIMUM_PANEL_WIDTH * high
            ):
                height = push_halves(stack, height, low, middle, high)
            else:
                used += 1
    return flatten_nodes(nodes, used)


@njit
def _invert(x, low, high, s, k):  # type: ignore[no-untyped-def]
    """Return (a, t) with x(a) = x in a bulk, by safeguarded Newton steps."""
    a, t = 0.5 * (low + high), 0.0
    for _ in range(MAX_STEPS):
        t, real, slope = _solve_t(a, s, k, t)
        excess = a + s * real - x
        if excess > 0.0:
            high = a
        else:
            low = a
        new = a - excess / slope
        if not low < new < high:
            new = 0.5 * (low + high)
        if abs(new - a) <= 1e-15 * abs(a) or new == a:
            break
        a = new
    return a, t


@njit
def _densities(x, support, bulks, s, k):  # type: ignore[no-untyped-def]
    """Return the density at many points."""
    rho = np.zeros(x.shape[0])
    for i in range(x.shape[0]):
        r = abs(x[i])
        for j in range(bulks.shape[0]):
            if support[j, 0] <= r < support[j, 1]:
                rho[i] = np.sqrt(_invert(r, bulks[j, 0], bulks[j, 1], s, k)[1]) / (np.pi * s)
    return rho


@cache
def _first_half() -> Array:
    """Return the weights of the first half of a panel, relative to those of a Gauss-Legendre rule over the panel."""
    count = NODES_PER_PANEL
    x, _ = np.polynomial.legendre.leggauss(count)
    degree = np.arange(count)
    at_zero = np.polynomial.legendre.legvander(np.zeros(1), count)[0]
    # of each Legendre polynomial over (-1, 0)
    integral = np.append(1.0, (at_zero[2:] - at_zero[:-2]) / (2.0 * degree[1:] + 1.0))
    weights: Array = np.polynomial.legendre.legvander(x, count - 1) @ ((degree + 0.5) * integral)
    return weights


class SymmetrisedMarchenkoPastur(SingularValueLaw):
    """Marchenko-Pastur law of ratio ``kappa0`` with both signs, plus a free semicircle of variance ``s`` > 0."""

    def __init__(self, kappa0: float, s: float) -> None:
        self.kappa0, self.s = float(kappa0), float(s)
        self._k = float(np.sqrt(kappa0))

    @cached_property
    def _bulks(self) -> tuple[Array, list[tuple[float, float]]]:
        """Bulks of the positive half in a, in increasing order, and their panels; one bulk is split near the
        minimum.
        """
        k, s = self._k, self.s
        low, high = (1.0 - k) ** 2 / k, (1.0 + k) ** 2 / k
        top = float(_find_edge(high, 1.0, np.sqrt(s), s, k))  # F is at most 1/(a - high)²
        minimum = 0.0 if k >= 1.0 else float(_F_minimum(low, k))
        bulks = [(0.0, top)]
        if low > 0.0 and _F_outside(minimum, k) * s < 1.0:
            bulks = [(float(_find_edge(low, -1.0, low - minimum, s, k)), top)]
            if minimum > 0.0:
                bulks.insert(0, (0.0, float(_find_edge(0.0, 1.0, minimum, s, k))))
            return np.array(bulks), bulks
        return np.array(bulks), [(0.0, minimum), (minimum, top)] if minimum > ROUNDING * top else bulks

    @cached_property
    def positive_support(self) -> tuple[tuple[float, float], ...]:
        """Intervals of the support above zero; one begins at zero if the target has zeros or s is large."""
        s, k = self.s, self._k
        ends = [
            [a + s * _transform(a, 0.0, k)[0].real if a > 0.0 else 0.0 for a in bulk]
            for bulk in self._bulks[0].tolist()
        ]
        return tuple((float(low), float(high)) for low, high in ends)

    def density(self, x: Array) -> Array:
        """Return the density rho_s(x) = b / (pi s)."""
        where = np.atleast_1d(np.asarray(x, dtype=np.float64))
        rho: Array = _densities(where.ravel(), np.array(self.positive_support), self._bulks[0], self.s, self._k)
        return rho.reshape(where.shape)

    def positive_nodes(self, low: float, high: float) -> Nodes:
        """Return Gauss-Legendre nodes in the angle t of a = l + (h - l)(1 - cos t)/2 on every panel."""
        ends = np.clip(np.array(self._bulks[1]), self._inverse(low), self._inverse(high))
        ends = drop_empty_panels(ends)
        return Nodes(*_panel_nodes(ends, *edge_rule(NODES_PER_PANEL), _first_half(), self.s, self._k))

    def _inverse(self, x: float) -> float:
        """Return the a with x(a) = x; between bulks the edge above x, and the upper edge for larger x."""
        bulks = self._bulks[0].tolist()
        for (low, high), bulk in zip(self.positive_support, bulks, strict=True):
            if x <= low:
                return float(bulk[0])
            if x < high:
                return float(_invert(x, *bulk, self.s, self._k)[0])
        return float(bulks[-1][1])
