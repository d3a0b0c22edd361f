"""Any set of eigenvalues freely convolved with a semicircle, by subordination (7).

With weights w_i on atoms λ_i, and a real a on whose support t = b² > 0 solves F = sum_i w_i r_i = 1/s,
r_i = 1 / ((a - λ_i)² + t), the law has, at x = a + s Re G,

    Re g(x) = Re G = sum_i w_i (a - λ_i) r_i,     rho(x) = b / (pi s),     dx/da = 2 s (t S2 + S1² / S2),

S1 = sum w (a - λ) r², S2 = sum w r². (The last is the derivative of x(a) without the terms that cancel.)
Edges are where t = 0: h(a) = (sum_i w_i / (a - λ_i)²)^(-1/2) = sqrt s. Between atoms h is concave, a power
mean of linear functions, so Newton from an atom climbs to the first root without overshooting, or finds that
there is none.
"""

from functools import cached_property, partial

import numpy as np
from numba import float64, types
from numpy.typing import ArrayLike, NDArray

from onehead.errors import InvalidArgument
from onehead.numerics.compiled import compile_pointer, njit
from onehead.spectra.law import Law, Nodes, edge_rule, intervals, not_empty
from onehead.spectra.panels import columns, halve, with_room

__all__ = ["AtomsSemicircle"]

Array = NDArray[np.float64]

NODES = 16  # per panel
MERGE = 1e-13  # atoms closer than this, relative to the largest, are one
STEPS = 200
ROUNDING = 1e-15  # of t over the scale on which it changes F: at an edge, where t is zero, nothing else ends a search
NARROW = 0.1  # clusters of atoms up to this many times sqrt(s weight) wide are replaced by two atoms
MISSED = 1e-9  # mass by which the nodes of a panel may miss the exact one
WIDE = 1.5  # panels may be joined up to this many times the distance b to the nearest singularity

# Sums over atoms are kept in four lanes, so that the processor can work on all of them at once. A compiler that is left to choose the
# order of a sum chooses another one from process to process, and bits would depend on what was compiled before.
_vector, _matrix = (types.Array(float64, dimensions, "C", readonly=True) for dimensions in (1, 2))
_BLUR = float64(float64, float64, _vector, _vector, float64)
_POINT = types.UniTuple(float64, 2)(float64, float64, float64, _vector, _vector)
_blur_pointer, _point_pointer = types.FunctionType(_BLUR), types.FunctionType(_POINT)


@njit(cache=True, nogil=True, error_model="numpy")
def _clustered(s, atoms, weights):  # type: ignore[no-untyped-def]
    """Clusters of atoms that the blur cannot resolve, each as the two atoms with its first four moments.

    Everywhere on the support a stays sqrt(s w) away from a cluster of weight w, or t is as large; so the terms
    left out of sum w / (a - λ + i b) are of relative size NARROW^4 / 100 or less, 1e-6 at the very edge and
    far below elsewhere.
    """
    count = atoms.shape[0]
    places, shares = np.empty(count), np.empty(count)
    used, i = 0, 0
    while i < count:
        j, weight = i + 1, weights[i]
        while j < count and atoms[j] - atoms[i] <= NARROW * np.sqrt(s * (weight + weights[j])):
            weight += weights[j]
            j += 1
        if j - i <= 2:
            for k in range(i, j):
                places[used], shares[used], used = atoms[k], weights[k], used + 1
        else:
            mean, second, third = 0.0, 0.0, 0.0
            for k in range(i, j):
                mean += weights[k] * (atoms[k] - atoms[i])
            mean /= weight
            for k in range(i, j):
                gap = atoms[k] - atoms[i] - mean
                second += weights[k] * gap**2
                third += weights[k] * gap**3
            second /= weight
            skew = 0.5 * third / weight / second
            root = np.sqrt(second + skew**2)
            low, high = skew - root, skew + root  # their product is minus the variance
            places[used], shares[used] = atoms[i] + mean + low, weight * high / (high - low)
            places[used + 1], shares[used + 1] = atoms[i] + mean + high, -weight * low / (high - low)
            used += 2
        i = j
    return places[:used], shares[:used]


@partial(compile_pointer, _BLUR)
def _blur(a, s, atoms, weights, guess):  # type: ignore[no-untyped-def]
    """t = b² at ``a``: Newton on 1/F(t) = s, concave in t, so that it climbs from any lower bound."""
    low, whole = 0.0, atoms.shape[0] - atoms.shape[0] % 4
    for i in range(atoms.shape[0]):
        low = max(low, s * weights[i] - (a - atoms[i]) ** 2)
    t = max(low, guess)
    for _ in range(STEPS):
        f0, f1, f2, f3, g0, g1, g2, g3 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for i in range(0, whole, 4):
            d0, d1, d2, d3 = a - atoms[i], a - atoms[i + 1], a - atoms[i + 2], a - atoms[i + 3]
            # on an atom t is at least s w > 0
            r0, r1, r2, r3 = 1.0 / (d0 * d0 + t), 1.0 / (d1 * d1 + t), 1.0 / (d2 * d2 + t), 1.0 / (d3 * d3 + t)
            h0, h1, h2, h3 = weights[i] * r0, weights[i + 1] * r1, weights[i + 2] * r2, weights[i + 3] * r3
            f0, f1, f2, f3 = f0 + h0, f1 + h1, f2 + h2, f3 + h3
            g0, g1, g2, g3 = g0 + h0 * r0, g1 + h1 * r1, g2 + h2 * r2, g3 + h3 * r3
        total, slope = (f0 + f1) + (f2 + f3), (g0 + g1) + (g2 + g3)
        for i in range(whole, atoms.shape[0]):
            r = 1.0 / ((a - atoms[i]) ** 2 + t)
            total += weights[i] * r
            slope += weights[i] * r * r
        move = (s - 1.0 / total) * total * total / slope
        new = max(t + move, low)
        if abs(new - t) <= 1e-14 * new + ROUNDING * total / slope:
            return new
        t = new
    return t


@partial(compile_pointer, _POINT)
def _point(a, t, s, atoms, weights):  # type: ignore[no-untyped-def]
    """(Re G, dx/da) at ``a``."""
    whole = atoms.shape[0] - atoms.shape[0] % 4
    e0, e1, e2, e3, f0, f1, f2, f3, g0, g1, g2, g3 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(0, whole, 4):
        d0, d1, d2, d3 = a - atoms[i], a - atoms[i + 1], a - atoms[i + 2], a - atoms[i + 3]
        r0, r1, r2, r3 = 1.0 / (d0 * d0 + t), 1.0 / (d1 * d1 + t), 1.0 / (d2 * d2 + t), 1.0 / (d3 * d3 + t)
        h0, h1, h2, h3 = weights[i] * r0, weights[i + 1] * r1, weights[i + 2] * r2, weights[i + 3] * r3
        e0, e1, e2, e3 = e0 + h0 * d0, e1 + h1 * d1, e2 + h2 * d2, e3 + h3 * d3
        k0, k1, k2, k3 = h0 * r0, h1 * r1, h2 * r2, h3 * r3
        f0, f1, f2, f3 = f0 + k0 * d0, f1 + k1 * d1, f2 + k2 * d2, f3 + k3 * d3
        g0, g1, g2, g3 = g0 + k0, g1 + k1, g2 + k2, g3 + k3
    real, s1, s2 = (e0 + e1) + (e2 + e3), (f0 + f1) + (f2 + f3), (g0 + g1) + (g2 + g3)
    for i in range(whole, atoms.shape[0]):
        gap = a - atoms[i]
        r = 1.0 / (gap * gap + t)
        real += weights[i] * gap * r
        s1 += weights[i] * gap * r * r
        s2 += weights[i] * r * r
    return real, 2.0 * s * (t * s2 + s1 * s1 / s2)


@njit(cache=True, nogil=True, error_model="numpy")
def _climb(atom, sign, end, s, atoms, weights):  # type: ignore[no-untyped-def]
    """First root of h(a) = sqrt s on the way from an atom in direction ``sign``; nan when h turns before."""
    root = np.sqrt(s)
    a = atoms[atom] + sign * np.sqrt(s * weights[atom])
    for _ in range(STEPS):
        if not (end - a) * sign > 0.0:
            return np.nan
        f, slope = 0.0, 0.0
        for i in range(atoms.shape[0]):
            inverse = 1.0 / (a - atoms[i])
            f += weights[i] * inverse * inverse
            slope += weights[i] * inverse**3
        h = 1.0 / np.sqrt(f)
        rise = sign * slope * h**3  # derivative of h in the direction of the walk
        if h >= root:
            return a
        if rise <= 0.0:
            return np.nan
        new = a + sign * (root - h) / rise
        if abs(new - a) <= 4e-16 * abs(a):  # nothing but rounding is left
            return new
        a = new
    return np.nan  # slower than any simple root: the gap is about to close


@njit(cache=True, nogil=True, error_model="numpy")
def _dip(left, right, atoms, weights):  # type: ignore[no-untyped-def]
    """Where sum w/(a - λ)² is least between two atoms: the density dips there."""
    a = 0.5 * (left + right)
    for _ in range(STEPS):
        slope, curvature = 0.0, 0.0
        for i in range(atoms.shape[0]):
            inverse = 1.0 / (a - atoms[i])
            slope -= 2.0 * weights[i] * inverse**3
            curvature += 6.0 * weights[i] * inverse**4
        if slope > 0.0:
            right = a
        else:
            left = a
        new = a - slope / curvature
        if not left < new < right:
            new = 0.5 * (left + right)
        if abs(new - a) <= 1e-6 * (right - left) or new == a:
            return new
        a = new
    return a


@njit(cache=True, nogil=True, error_model="numpy")
def _support(s, atoms, weights):  # type: ignore[no-untyped-def]
    """Edges in a, two per interval; and break points of the panels inside the intervals."""
    count = atoms.shape[0]
    edges, breaks = np.empty(2 * count), np.empty(count)
    edges[0] = _climb(0, -1.0, -np.inf, s, atoms, weights)
    used, broken = 1, 0
    for i in range(count - 1):
        left, right = np.nan, np.nan
        if np.sqrt(s * weights[i]) + np.sqrt(s * weights[i + 1]) < atoms[i + 1] - atoms[i]:
            left = _climb(i, 1.0, atoms[i + 1], s, atoms, weights)
            if not np.isnan(left):
                right = _climb(i + 1, -1.0, atoms[i], s, atoms, weights)
        if left < right:
            edges[used], edges[used + 1] = left, right
            used += 2
        else:
            breaks[broken] = _dip(atoms[i], atoms[i + 1], atoms, weights)
            broken += 1
    edges[used] = _climb(count - 1, 1.0, np.inf, s, atoms, weights)
    return edges[: used + 1], breaks[:broken]


@njit(
    types.Array(float64, 2, "C")(_blur_pointer, _vector, _vector, float64, _vector, _vector),
    cache=True,
    nogil=True,
    error_model="numpy",
)
def _panels(blur, edges, breaks, s, atoms, weights):  # type: ignore[no-untyped-def]
    """Ends of the panels, breaks left out where the law is smooth on the scale of the joined panel."""
    panels = np.empty((breaks.shape[0] + edges.shape[0] // 2, 2))
    used, k, t = 0, 0, 0.0
    for j in range(0, edges.shape[0], 2):
        start, reach = edges[j], np.inf
        while k < breaks.shape[0] and breaks[k] < edges[j + 1]:
            t = blur(breaks[k], s, atoms, weights, t)
            following = breaks[k + 1] if k + 1 < breaks.shape[0] else np.inf
            reach = min(reach, np.sqrt(t))
            # the first and the last panel of an interval end at a root singularity: they stay as they are
            if start == edges[j] or following >= edges[j + 1] or following - start > WIDE * reach:
                panels[used, 0], panels[used, 1] = start, breaks[k]
                start, reach, used = breaks[k], np.sqrt(t), used + 1
            k += 1
        panels[used, 0], panels[used, 1] = start, edges[j + 1]
        used += 1
    return panels[:used]


@njit(cache=True, nogil=True, error_model="numpy")
def _above(a, t, atoms, weights):  # type: ignore[no-untyped-def]
    """Mass of the law above x(a): [sum_i w_i arg(a - λ_i + i b) - b Re G] / pi, exact, from the potential."""
    b = np.sqrt(t)
    total = 0.0
    for i in range(atoms.shape[0]):
        gap = a - atoms[i]
        total += weights[i] * (np.arctan2(b, gap) - (b * gap / (gap * gap + t) if t > 0.0 else 0.0))
    return total / np.pi


@njit(
    types.UniTuple(types.Array(float64, 1, "C"), 4)(
        _blur_pointer, _point_pointer, _matrix, _vector, _vector, float64, _vector, _vector
    ),
    cache=True,
    nogil=True,
    error_model="numpy",
)
def _fill(blur, point, panels, place, jacobian, s, atoms, weights):  # type: ignore[no-untyped-def]
    """Nodes x, masses, Re g and t over all panels; one whose nodes miss its exact mass is halved.

    A light atom about to leave the bulk puts branch points close to the axis, where no rule of fixed order is good.
    """
    size = place.shape[0]
    nodes = np.empty((2 * panels.shape[0] + 64, size, 4))
    stack = np.empty((STEPS, 2))
    used, t = 0, 0.0
    for p in range(panels.shape[0]):
        stack[0] = panels[p]
        waiting = 1
        while waiting > 0:
            waiting -= 1
            low, high = stack[waiting]
            nodes = with_room(nodes, used)
            start = t = blur(low, s, atoms, weights, t)
            total = 0.0
            for j in range(size):
                a = low + (high - low) * place[j]
                t = blur(a, s, atoms, weights, t)
                real, slope = point(a, t, s, atoms, weights)
                mass = np.sqrt(t) / (np.pi * s) * slope * (high - low) * jacobian[j]
                nodes[used, j, 0], nodes[used, j, 1], nodes[used, j, 2], nodes[used, j, 3] = a + s * real, mass, real, t
                total += mass
            t = blur(high, s, atoms, weights, t)
            exact = _above(low, start, atoms, weights) - _above(high, t, atoms, weights)
            middle = 0.5 * (low + high)
            if abs(total - exact) > MISSED and waiting + 2 < STEPS and low < middle < high:
                waiting = halve(stack, waiting, low, middle, high)
            else:
                used += 1
    x, mass, real = columns(nodes, used)
    return x, mass, real, nodes[:used, :, 3].copy().ravel()


@njit(
    types.UniTuple(float64, 2)(_blur_pointer, _point_pointer, float64, _vector, _vector, float64, _vector, _vector),
    cache=True,
    nogil=True,
    error_model="numpy",
)
def _locate(blur, point, x, edges, places, s, atoms, weights):  # type: ignore[no-untyped-def]
    """The a with x(a) = x and its t: safeguarded Newton; between intervals the edge above x."""
    for j in range(0, edges.shape[0], 2):
        if x <= places[j]:
            return edges[j], 0.0
        if x >= places[j + 1]:
            continue
        low, high, t = edges[j], edges[j + 1], 0.0
        a = low + (high - low) * (x - places[j]) / (places[j + 1] - places[j])
        for _ in range(STEPS):
            t = blur(a, s, atoms, weights, t)
            real, slope = point(a, t, s, atoms, weights)
            excess = a + s * real - x
            if excess > 0.0:
                high = a
            else:
                low = a
            new = a - excess / slope
            if not low < new < high:
                new = 0.5 * (low + high)
            if abs(new - a) <= 1e-15 * (abs(a) + abs(x)) or new == a:
                break
            a = new
        return a, t
    return edges[-1], 0.0


@njit(
    types.Array(float64, 1, "C")(_blur_pointer, _point_pointer, _vector, _vector, _vector, float64, _vector, _vector),
    cache=True,
    nogil=True,
    error_model="numpy",
)
def _densities(blur, point, x, edges, places, s, atoms, weights):  # type: ignore[no-untyped-def]
    """rho at many points."""
    rho = np.empty(x.shape[0])
    for k in range(x.shape[0]):
        rho[k] = np.sqrt(_locate(blur, point, x[k], edges, places, s, atoms, weights)[1]) / (np.pi * s)
    return rho


class AtomsSemicircle(Law):
    """Atoms with weights, plus a free semicircle of variance ``s`` > 0.

    Parameters
    ----------
    eigenvalues : array
    s : float
    weights : array, optional
        Positive, summing to one; equal when not given. Equal eigenvalues are merged.
    sides : int
        2 for singular values: each is put at both signs, with half its weight (U3).

    Examples
    --------
    >>> law = AtomsSemicircle([0.0, 0.0, 2.0], s=0.01)
    >>> len(law.edges), round(law.mass_above(1.0), 9)
    (2, 0.333333333)
    """

    def __init__(self, eigenvalues: ArrayLike, s: float, weights: ArrayLike | None = None, *, sides: int = 1) -> None:
        values: Array = np.asarray(eigenvalues, dtype=np.float64)
        if values.ndim != 1 or values.size == 0 or not np.isfinite(values).all():
            raise InvalidArgument("eigenvalues", f"an array {values.shape}", "a list of finite numbers")
        if not (np.isfinite(s) and s > 0.0):
            raise InvalidArgument("s", s, "a number > 0")
        share: Array = np.full(values.size, 1.0 / values.size)
        if weights is not None:
            share = np.asarray(weights, dtype=np.float64)
            if share.shape != values.shape or not (share > 0.0).all() or abs(share.sum() - 1.0) > 1e-9:
                raise InvalidArgument("weights", "other numbers", "positive, one per eigenvalue, with sum 1")
        if sides == 2:
            values, share = np.concatenate([values, -values]), np.tile(0.5 * share, 2)
        self.s, self.sides = float(s), sides
        self._atoms, self._weights = _clustered(self.s, *_merged(values, share))

    @cached_property
    def _frame(self) -> tuple[Array, Array, Array]:
        """Edges in a, edges in x, and panels in a."""
        edges, breaks = _support(self.s, self._atoms, self._weights)
        places = edges + self.s * (self._weights / (edges[:, None] - self._atoms)).sum(axis=1)
        return edges, places, _panels(_blur, edges, breaks, self.s, self._atoms, self._weights)

    @property
    def edges(self) -> tuple[tuple[float, float], ...]:
        """The intervals of the support."""
        return intervals(self._frame[1])

    def density(self, x: Array) -> Array:
        """rho_s(x) = b / (pi s)."""
        edges, places, _ = self._frame
        where = np.atleast_1d(np.asarray(x, dtype=np.float64))
        rho: Array = _densities(_blur, _point, where.ravel(), edges, places, self.s, self._atoms, self._weights)
        return rho.reshape(where.shape)

    def nodes(self, low: float = -np.inf, high: float = np.inf) -> Nodes:
        """Gauss-Legendre nodes in the angle of a = l + (h - l)(1 - cos t)/2 on every panel; the last ones are kept."""
        return self._filled(low, high)[0]

    def _filled(self, low: float, high: float) -> tuple[Nodes, Array]:
        """Nodes, and t at them."""
        known: tuple[tuple[float, float], tuple[Nodes, Array]] | None = self.__dict__.get("_nodes")
        if known is not None and known[0] == (low, high):
            return known[1]
        ends = np.clip(self._frame[2], self._located(low)[0], self._located(high)[0])
        ends = not_empty(ends)
        *rows, t = _fill(_blur, _point, ends, *edge_rule(NODES), self.s, self._atoms, self._weights)
        found = Nodes(*rows), t
        self.__dict__["_nodes"] = ((low, high), found)
        return found

    def shares(self, low: float, places: Array) -> Array:
        """s/((a - place)² + b²), a row for every place, at the nodes above ``low``."""
        nodes, t = self._filled(low, np.inf)
        a = nodes.x - self.s * nodes.hilbert
        return np.asarray(self.s / ((a - np.asarray(places)[:, None]) ** 2 + t))

    def at(self, x: float, places: Array) -> tuple[float, float, Array]:
        """From the a with x(a) = x, and its t."""
        a, t = self._located(x)
        shares = self.s / ((a - np.asarray(places)) ** 2 + t)
        return float(np.sqrt(t)) / (np.pi * self.s), (x - a) / self.s, shares

    def mass_above(self, low: float) -> float:
        """int_low^inf rho, exact."""
        return float(_above(*self._located(low), self._atoms, self._weights))

    def _located(self, x: float) -> tuple[float, float]:
        """The a with x(a) = x, and its t."""
        edges, places, _ = self._frame
        if np.isinf(x):
            return float(edges[0 if x < 0.0 else -1]), 0.0
        a, t = _locate(_blur, _point, float(x), edges, places, self.s, self._atoms, self._weights)
        return float(a), float(t)


def _merged(values: Array, share: Array) -> tuple[Array, Array]:
    """Sorted atoms, those that cannot be told apart made one."""
    order = np.argsort(values)
    values, share = values[order], share[order]
    scale = max(float(np.abs(values).max()), 1e-300)
    first = np.concatenate([[True], np.diff(values) > MERGE * scale])
    group = np.cumsum(first) - 1
    weights: Array = np.bincount(group, weights=share).astype(np.float64)
    return np.bincount(group, weights=share * values) / weights, weights
