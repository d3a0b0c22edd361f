"""The Marchenko-Pastur law with both signs, freely convolved with a semicircle, by subordination (U3, U8).

The law of the target, half of it at either sign, has a transform in closed form, G(z) = [M(z) - M(-z)]/2 with M that of the
Marchenko-Pastur law. On the support of the blurred law w = a + ib solves F = -Im G(w)/b = 1/s, and there, as for any law (7),

    x = a + s Re G,   Re g(x) = Re G,   rho(x) = b / (pi s),   dx/da = |1 + s G'|² / Re(1 + s G').

Edges are where b = 0: -G'(a) = 1/s, outside the support of the target. Between its parts F is convex and 1/sqrt(F) concave.
"""

from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from onehead.numerics.compiled import njit
from onehead.spectra.law import Nodes, TwoSided, edge_rule, not_empty
from onehead.spectra.panels import columns, halve, with_room

__all__ = ["SymmetrisedMarchenkoPastur"]

Array = NDArray[np.float64]

NODES = 24  # per panel
STEPS = 300
MISSED = 1e-11  # mass by which the nodes of a panel may miss the exact one
NOTHING = 1e-40  # t over s: an edge
ROUNDING = 1e-12
NARROW = 1e-9  # relative width of a panel that is not halved any more


@njit(cache=True, nogil=True, error_model="numpy")
def _one_sided(z, k):  # type: ignore[no-untyped-def]
    """(M, M') of the Marchenko-Pastur law above the real axis: (z/k) M² - (z + 1/k - k) M + 1 = 0."""
    middle = z + (1.0 / k - k)
    root = np.sqrt(z - (1.0 - k) ** 2 / k) * np.sqrt(z - (1.0 + k) ** 2 / k)
    m = 2.0 / (middle + root) if abs(middle + root) > abs(middle - root) else (middle - root) * k / (2.0 * z)
    return m, -m * (1.0 - m / k) / root


@njit(cache=True, nogil=True, error_model="numpy")
def _transform(a, b, k):  # type: ignore[no-untyped-def]
    """(G, G') of the law with both signs at a + ib."""
    right, right_slope = _one_sided(complex(a, b), k)
    left, left_slope = _one_sided(complex(-a, b), k)  # G(-w) is the complex conjugate of that at -a + ib
    return (
        complex(0.5 * (right.real - left.real), 0.5 * (right.imag + left.imag)),
        complex(0.5 * (right_slope.real + left_slope.real), 0.5 * (right_slope.imag - left_slope.imag)),
    )


@njit(cache=True, nogil=True, error_model="numpy")
def _outside(a, k):  # type: ignore[no-untyped-def]
    """F at a real a outside the support of the target."""
    return -_transform(a, 0.0, k)[1].real


@njit(cache=True, nogil=True, error_model="numpy")
def _blur(a, s, k, guess):  # type: ignore[no-untyped-def]
    """(t = b², Re G, dx/da) at ``a``: Newton on 1/F(t) = s, which is concave in t, so that from below it climbs."""
    t = guess if NOTHING * s < guess < s else 0.5 * s  # F is at most 1/t
    for _ in range(STEPS):
        b = np.sqrt(t)
        G, slope = _transform(a, b, k)
        F = -G.imag / b
        spread = 0.5 * (F + slope.real) / t  # -dF/dt
        if t < NOTHING * s or (not spread > 0.0 and s * F < 1.0 + ROUNDING):  # an edge: t is zero, but for rounding
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
    real = 2.0 * s * t * spread  # of 1 + s G', without the terms that cancel
    return t, G.real, real + (s * slope.imag) ** 2 / real


@njit(cache=True, nogil=True, error_model="numpy")
def _argument(a, b, k):  # type: ignore[no-untyped-def]
    """Mean of arg(a + ib - λ) over the Marchenko-Pastur law: Im of M z + k² log(1 - M/k) - log M."""
    z = complex(a, b)
    m = _one_sided(z, k)[0]
    return (m * z + k * k * np.log(1.0 - m / k) - np.log(m)).imag


@njit(cache=True, nogil=True, error_model="numpy")
def _above(a, t, real, k):  # type: ignore[no-untyped-def]
    """Mass of the law above x(a), exact, from the potential."""
    b = np.sqrt(t)
    return (0.5 * (np.pi + _argument(a, b, k) - _argument(-a, b, k)) - b * real) / np.pi


@njit(cache=True, nogil=True, error_model="numpy")
def _crossing(start, sign, far, s, k):  # type: ignore[no-untyped-def]
    """The a between start and start + sign far where F passes 1/s, larger next to ``start``: bisection of log |a - start|."""
    low, high = max(1e-18 * far, 4e-16 * start), far
    for _ in range(STEPS):
        middle = np.sqrt(low * high)
        if not low < middle < high:
            break
        if _outside(start + sign * middle, k) * s > 1.0:
            low = middle
        else:
            high = middle
    return start + sign * high


@njit(cache=True, nogil=True, error_model="numpy")
def _least(low, high, k):  # type: ignore[no-untyped-def]
    """Where F is least between two parts of the target: golden section."""
    golden = 0.5 * (np.sqrt(5.0) - 1.0)
    one, other = high - golden * (high - low), low + golden * (high - low)
    at_one, at_other = _outside(one, k), _outside(other, k)
    for _ in range(STEPS):
        if high - low <= 1e-9 * high:
            break
        if at_one < at_other:
            high, other, at_other = other, one, at_one
            one = high - golden * (high - low)
            at_one = _outside(one, k)
        else:
            low, one, at_one = one, other, at_other
            other = low + golden * (high - low)
            at_other = _outside(other, k)
    return 0.5 * (low + high)


@njit(cache=True, nogil=True, error_model="numpy")
def _fill(panels, place, jacobian, first, s, k):  # type: ignore[no-untyped-def]
    """x, masses and Re g over all panels, x increasing; one whose nodes miss its exact mass, or that of its half, is halved.

    ``first`` times the masses is the mass of the first half; two checks are seldom passed by chance.
    """
    size = place.shape[0]
    nodes = np.empty((2 * panels.shape[0] + 64, size, 3))
    stack = np.empty((STEPS, 2))
    used = 0
    for p in range(panels.shape[0]):
        stack[0] = panels[p]
        waiting = 1
        while waiting > 0:
            waiting -= 1
            low, high = stack[waiting]
            nodes = with_room(nodes, used)
            middle = 0.5 * (low + high)
            t, real, _ = _blur(low, s, k, 0.0)
            exact, total, part = _above(low, t, real, k), 0.0, 0.0
            for j in range(size):
                a = low + (high - low) * place[j]
                t, real, slope = _blur(a, s, k, t)
                mass = np.sqrt(t) / (np.pi * s) * slope * (high - low) * jacobian[j]
                nodes[used, j, 0], nodes[used, j, 1], nodes[used, j, 2] = a + s * real, mass, real
                total += mass
                part += first[j] * mass
            t, real, _ = _blur(middle, s, k, 0.0)
            part -= exact - _above(middle, t, real, k)
            t, real, _ = _blur(high, s, k, t)
            total -= exact - _above(high, t, real, k)
            if max(abs(total), abs(part)) > MISSED and waiting + 2 < STEPS and high - low > NARROW * high:
                waiting = halve(stack, waiting, low, middle, high)
            else:
                used += 1
    return columns(nodes, used)


@njit(cache=True, nogil=True, error_model="numpy")
def _locate(x, low, high, s, k):  # type: ignore[no-untyped-def]
    """(a, t) with x(a) = x in a bulk: safeguarded Newton."""
    a, t = 0.5 * (low + high), 0.0
    for _ in range(STEPS):
        t, real, slope = _blur(a, s, k, t)
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


@njit(cache=True, nogil=True, error_model="numpy")
def _densities(x, half, bulks, s, k):  # type: ignore[no-untyped-def]
    """rho at many points."""
    rho = np.zeros(x.shape[0])
    for i in range(x.shape[0]):
        place = abs(x[i])
        for j in range(bulks.shape[0]):
            if half[j, 0] <= place < half[j, 1]:
                rho[i] = np.sqrt(_locate(place, bulks[j, 0], bulks[j, 1], s, k)[1]) / (np.pi * s)
    return rho


@lru_cache(maxsize=1)
def _first_half(count: int) -> Array:
    """What part of each mass of a Gauss-Legendre rule belongs to the first half, from the polynomial through the nodes."""
    x, _ = np.polynomial.legendre.leggauss(count)
    degree = np.arange(count)
    at_zero = np.polynomial.legendre.legvander(np.zeros(1), count)[0]
    integral = np.append(
        1.0, (at_zero[2:] - at_zero[:-2]) / (2.0 * degree[1:] + 1.0)
    )  # of each polynomial over (-1, 0)
    shares: Array = np.polynomial.legendre.legvander(x, count - 1) @ ((degree + 0.5) * integral)
    return shares


class SymmetrisedMarchenkoPastur(TwoSided):
    """Eigenvalues of a Marchenko-Pastur target (ratio ``kappa0``) with both signs, plus a semicircle of variance ``s`` > 0."""

    def __init__(self, kappa0: float, s: float) -> None:
        self.kappa0, self.s = float(kappa0), float(s)
        self._k = float(np.sqrt(kappa0))

    @cached_property
    def _bulks(self) -> tuple[Array, list[tuple[float, float]]]:
        """Bulks of the positive half in a, from the bottom, and their panels: a single one is split where it dips."""
        k, s = self._k, self.s
        low, high = (1.0 - k) ** 2 / k, (1.0 + k) ** 2 / k
        top = float(_crossing(high, 1.0, np.sqrt(s), s, k))  # F is at most 1/(a - high)²
        dip = 0.0 if k >= 1.0 else float(_least(0.0, low, k))
        whole = [(0.0, top)]
        if low > 0.0 and _outside(dip, k) * s < 1.0:
            whole = [(float(_crossing(low, -1.0, low - dip, s, k)), top)]
            if dip > 0.0:
                whole.insert(0, (0.0, float(_crossing(0.0, 1.0, dip, s, k))))
            return np.array(whole), whole
        return np.array(whole), [(0.0, dip), (dip, top)] if dip > ROUNDING * top else whole

    @cached_property
    def half(self) -> tuple[tuple[float, float], ...]:
        """The noise from zero up, if there are zeros or it is large enough, and the rest, if it is apart."""
        s, k = self.s, self._k
        ends = [
            [a + s * _transform(a, 0.0, k)[0].real if a > 0.0 else 0.0 for a in bulk]
            for bulk in self._bulks[0].tolist()
        ]
        return tuple((float(low), float(high)) for low, high in ends)

    def density(self, x: Array) -> Array:
        """rho_s(x) = b / (pi s)."""
        where = np.atleast_1d(np.asarray(x, dtype=np.float64))
        rho: Array = _densities(where.ravel(), np.array(self.half), self._bulks[0], self.s, self._k)
        return rho.reshape(where.shape)

    def half_nodes(self, low: float, high: float) -> Nodes:
        """Gauss-Legendre nodes in the angle of a = l + (h - l)(1 - cos t)/2 on every panel."""
        ends = np.clip(np.array(self._bulks[1]), self._located(low), self._located(high))
        ends = not_empty(ends)
        return Nodes(*_fill(ends, *edge_rule(NODES), _first_half(NODES), self.s, self._k))

    def _located(self, x: float) -> float:
        """The a with x(a) = x; between bulks the edge above x, and the top for what is beyond."""
        bulks = self._bulks[0].tolist()
        for (low, high), bulk in zip(self.half, bulks, strict=True):
            if x <= low:
                return float(bulk[0])
            if x < high:
                return float(_locate(x, *bulk, self.s, self._k)[0])
        return float(bulks[-1][1])
