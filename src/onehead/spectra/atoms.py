"""Any set of eigenvalues (atoms), freely convolved with a semicircle, by subordination (7).

With weights w_i on atoms λ_i, and a real a on whose support t = b² > 0 solves F = sum_i w_i r_i = 1/s,
r_i = 1 / ((a - λ_i)² + t), the law has, at x = a + s Re G,

    Re g(x) = Re G = sum_i w_i (a - λ_i) r_i,     rho(x) = b / (pi s),     dx/da = 2 s (t S2 + S1² / S2),

S1 = sum w (a - λ) r², S2 = sum w r². (The last is the derivative of x(a) without the terms that cancel.)
Edges are where t = 0: h(a) = (sum_i w_i / (a - λ_i)²)^(-1/2) = sqrt s. Between atoms h is concave, a power
mean of linear functions, so Newton's method from an atom converges to the first root from below, or shows
that there is none.
"""

from functools import cached_property, partial

import numpy as np
from numba import float64, types
from numpy.typing import ArrayLike, NDArray

from onehead.errors import InvalidArgument
from onehead.numerics.jit import compile_pointer, njit
from onehead.spectra.law import Law, Nodes, as_intervals, drop_empty_panels, edge_rule
from onehead.spectra.panels import flatten_nodes, grow_if_full, push_halves

Array = NDArray[np.float64]

NODES_PER_PANEL = 16
MERGE_DISTANCE = 1e-13  # relative to the largest atom; closer atoms are merged
MAX_STEPS = 200
MAX_PENDING_PANELS = 200  # halves of panels that wait to be evaluated
T_TOLERANCE = 1e-15  # of t, over the scale on which it changes F; ends the search at an edge, where t is zero
CLUSTER_WIDTH = 0.1  # in units of sqrt(s weight); narrower clusters of atoms are replaced by two atoms
MASS_TOLERANCE = 1e-9  # largest error of the mass of a panel
MAX_PANEL_WIDTH = 1.5  # of joined panels, in units of the distance b to the nearest singularity

# Sums over atoms use four accumulators, so that the processor can vectorise them in a fixed order. If the compiler may
# reorder a sum, the order can differ between processes, and the last bits would depend on what was compiled before.
_vector, _matrix = (types.Array(float64, dimensions, "C", readonly=True) for dimensions in (1, 2))
_SOLVE_T = float64(float64, float64, _vector, _vector, float64)
_REAL_AND_SLOPE = types.UniTuple(float64, 2)(float64, float64, float64, _vector, _vector)
_solve_t_type, _real_and_slope_type = types.FunctionType(_SOLVE_T), types.FunctionType(_REAL_AND_SLOPE)


@njit
def _merge_clusters(s, atoms, weights):  # type: ignore[no-untyped-def]
    """Replace clusters of atoms that are narrow compared to the semicircle by two atoms with the same four moments.

    On the support a is at least sqrt(s w) away from a cluster of weight w, or t is at least s w. The neglected
    terms of sum w / (a - λ + i b) are therefore at most CLUSTER_WIDTH^4 / 100 in relative size: 1e-6 at an edge and
    much less elsewhere.
    """
    count = atoms.shape[0]
    positions, masses = np.empty(count), np.empty(count)
    used, i = 0, 0
    while i < count:
        j, weight = i + 1, weights[i]
        while j < count and atoms[j] - atoms[i] <= CLUSTER_WIDTH * np.sqrt(s * (weight + weights[j])):
            weight += weights[j]
            j += 1
        if j - i <= 2:
            for k in range(i, j):
                positions[used], masses[used], used = atoms[k], weights[k], used + 1
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
            positions[used], masses[used] = atoms[i] + mean + low, weight * high / (high - low)
            positions[used + 1], masses[used + 1] = atoms[i] + mean + high, -weight * low / (high - low)
            used += 2
        i = j
    return positions[:used], masses[:used]


@partial(compile_pointer, _SOLVE_T)
def _solve_t(a, s, atoms, weights, guess):  # type: ignore[no-untyped-def]
    """Solve F(t) = 1/s for t = b² at ``a``: Newton's method on 1/F, concave in t, increases from any lower bound."""
    low, vectorised = 0.0, atoms.shape[0] - atoms.shape[0] % 4
    for i in range(atoms.shape[0]):
        low = max(low, s * weights[i] - (a - atoms[i]) ** 2)
    t = max(low, guess)
    for _ in range(MAX_STEPS):
        f0, f1, f2, f3, g0, g1, g2, g3 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for i in range(0, vectorised, 4):
            d0, d1, d2, d3 = a - atoms[i], a - atoms[i + 1], a - atoms[i + 2], a - atoms[i + 3]
            # on an atom t is at least s w > 0
            r0, r1, r2, r3 = 1.0 / (d0 * d0 + t), 1.0 / (d1 * d1 + t), 1.0 / (d2 * d2 + t), 1.0 / (d3 * d3 + t)
            h0, h1, h2, h3 = weights[i] * r0, weights[i + 1] * r1, weights[i + 2] * r2, weights[i + 3] * r3
            f0, f1, f2, f3 = f0 + h0, f1 + h1, f2 + h2, f3 + h3
            g0, g1, g2, g3 = g0 + h0 * r0, g1 + h1 * r1, g2 + h2 * r2, g3 + h3 * r3
        total, slope = (f0 + f1) + (f2 + f3), (g0 + g1) + (g2 + g3)
        for i in range(vectorised, atoms.shape[0]):
            r = 1.0 / ((a - atoms[i]) ** 2 + t)
            total += weights[i] * r
            slope += weights[i] * r * r
        step = (s - 1.0 / total) * total * total / slope
        new = max(t + step, low)
        if abs(new - t) <= 1e-14 * new + T_TOLERANCE * total / slope:
            return new
        t = new
    return t


@partial(compile_pointer, _REAL_AND_SLOPE)
def _real_and_slope(a, t, s, atoms, weights):  # type: ignore[no-untyped-def]
    """Return (Re G, dx/da) at ``a``."""
    vectorised = atoms.shape[0] - atoms.shape[0] % 4
    e0, e1, e2, e3, f0, f1, f2, f3, g0, g1, g2, g3 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(0, vectorised, 4):
        d0, d1, d2, d3 = a - atoms[i], a - atoms[i + 1], a - atoms[i + 2], a - atoms[i + 3]
        r0, r1, r2, r3 = 1.0 / (d0 * d0 + t), 1.0 / (d1 * d1 + t), 1.0 / (d2 * d2 + t), 1.0 / (d3 * d3 + t)
        h0, h1, h2, h3 = weights[i] * r0, weights[i + 1] * r1, weights[i + 2] * r2, weights[i + 3] * r3
        e0, e1, e2, e3 = e0 + h0 * d0, e1 + h1 * d1, e2 + h2 * d2, e3 + h3 * d3
        k0, k1, k2, k3 = h0 * r0, h1 * r1, h2 * r2, h3 * r3
        f0, f1, f2, f3 = f0 + k0 * d0, f1 + k1 * d1, f2 + k2 * d2, f3 + k3 * d3
        g0, g1, g2, g3 = g0 + k0, g1 + k1, g2 + k2, g3 + k3
    real, s1, s2 = (e0 + e1) + (e2 + e3), (f0 + f1) + (f2 + f3), (g0 + g1) + (g2 + g3)
    for i in range(vectorised, atoms.shape[0]):
        gap = a - atoms[i]
        r = 1.0 / (gap * gap + t)
        real += weights[i] * gap * r
        s1 += weights[i] * gap * r * r
        s2 += weights[i] * r * r
    return real, 2.0 * s * (t * s2 + s1 * s1 / s2)


@njit
def _find_edge(atom, sign, end, s, atoms, weights):  # type: ignore[no-untyped-def]
    """Return the first root of h(a) = sqrt s from an atom in direction ``sign``; nan if h has its maximum before."""
    root = np.sqrt(s)
    a = atoms[atom] + sign * np.sqrt(s * weights[atom])
    for _ in range(MAX_STEPS):
        if not (end - a) * sign > 0.0:
            return np.nan
        f, slope = 0.0, 0.0
        for i in range(atoms.shape[0]):
            inverse = 1.0 / (a - atoms[i])
            f += weights[i] * inverse * inverse
            slope += weights[i] * inverse**3
        h = 1.0 / np.sqrt(f)
        rise = sign * slope * h**3  # derivative of h in direction ``sign``
        if h >= root:
            return a
        if rise <= 0.0:
            return np.nan
        new = a + sign * (root - h) / rise
        if abs(new - a) <= 4e-16 * abs(a):  # converged to rounding errors
            return new
        a = new
    return np.nan  # no simple root: the gap between two bulks is about to close


@njit
def _density_minimum(left, right, atoms, weights):  # type: ignore[no-untyped-def]
    """Return the minimum of sum w/(a - λ)² between two atoms, near the minimum of the density."""
    a = 0.5 * (left + right)
    for _ in range(MAX_STEPS):
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


@njit
def _support(s, atoms, weights):  # type: ignore[no-untyped-def]
    """Return the edges in a, two per interval, and the break points of the panels inside the intervals."""
    count = atoms.shape[0]
    edges, breaks = np.empty(2 * count), np.empty(count)
    edges[0] = _find_edge(0, -1.0, -np.inf, s, atoms, weights)
    used, break_count = 1, 0
    for i in range(count - 1):
        left, right = np.nan, np.nan
        if np.sqrt(s * weights[i]) + np.sqrt(s * weights[i + 1]) < atoms[i + 1] - atoms[i]:
            left = _find_edge(i, 1.0, atoms[i + 1], s, atoms, weights)
            if not np.isnan(left):
                right = _find_edge(i + 1, -1.0, atoms[i], s, atoms, weights)
        if left < right:
            edges[used], edges[used + 1] = left, right
            used += 2
        else:
            breaks[break_count] = _density_minimum(atoms[i], atoms[i + 1], atoms, weights)
            break_count += 1
    edges[used] = _find_edge(count - 1, 1.0, np.inf, s, atoms, weights)
    return edges[: used + 1], breaks[:break_count]


@njit(types.Array(float64, 2, "C")(_solve_t_type, _vector, _vector, float64, _vector, _vector))
def _panels(solve_t, edges, breaks, s, atoms, weights):  # type: ignore[no-untyped-def]
    """Return the ends of the panels, joined where the law is smooth on the scale of the joined panel."""
    panels = np.empty((breaks.shape[0] + edges.shape[0] // 2, 2))
    used, k, t = 0, 0, 0.0
    for j in range(0, edges.shape[0], 2):
        start, distance = edges[j], np.inf
        while k < breaks.shape[0] and breaks[k] < edges[j + 1]:
            t = solve_t(breaks[k], s, atoms, weights, t)
            following = breaks[k + 1] if k + 1 < breaks.shape[0] else np.inf
            distance = min(distance, np.sqrt(t))
            # the first and the last panel of an interval have a square-root singularity at an end and are not joined
            if start == edges[j] or following >= edges[j + 1] or following - start > MAX_PANEL_WIDTH * distance:
                panels[used, 0], panels[used, 1] = start, breaks[k]
                start, distance, used = breaks[k], np.sqrt(t), used + 1
            k += 1
        panels[used, 0], panels[used, 1] = start, edges[j + 1]
        used += 1
    return panels[:used]


@njit
def _mass_above(a, t, atoms, weights):  # type: ignore[no-untyped-def]
    """Return the exact mass above x(a), from the potential: [sum_i w_i arg(a - λ_i + i b) - b Re G] / pi."""
    b = np.sqrt(t)
    total = 0.0
    for i in range(atoms.shape[0]):
        gap = a - atoms[i]
        total += weights[i] * (np.arctan2(b, gap) - (b * gap / (gap * gap + t) if t > 0.0 else 0.0))
    return total / np.pi


@njit(
    types.UniTuple(types.Array(float64, 1, "C"), 4)(
        _solve_t_type, _real_and_slope_type, _matrix, _vector, _vector, float64, _vector, _vector
    )
)
def _panel_nodes(solve_t, real_and_slope, panels, unit, jacobian, s, atoms, weights):  # type: ignore[no-untyped-def]
    """Return x, mass, Re g and t at the nodes of all panels; panels with a wrong mass are halved.

    A light atom that is about to separate from the bulk has branch points close to the real axis, where a rule of fixed
    order is not accurate.
    """
    size = unit.shape[0]
    nodes = np.empty((2 * panels.shape[0] + 64, size, 4))
    stack = np.empty((MAX_PENDING_PANELS, 2))
    used, t = 0, 0.0
    for p in range(panels.shape[0]):
        stack[0] = panels[p]
        height = 1
        while height > 0:
            height -= 1
            low, high = stack[height]
            nodes = grow_if_full(nodes, used)
            t_low = t = solve_t(low, s, atoms, weights, t)
            total = 0.0
            for j in range(size):
                a = low + (high - low) * unit[j]
                t = solve_t(a, s, atoms, weights, t)
                real, slope = real_and_slope(a, t, s, atoms, weights)
                mass = np.sqrt(t) / (np.pi * s) * slope * (high - low) * jacobian[j]
                nodes[used, j, 0], nodes[used, j, 1], nodes[used, j, 2], nodes[used, j, 3] = a + s * real, mass, real, t
                total += mass
            t = solve_t(high, s, atoms, weights, t)
            exact = _mass_above(low, t_low, atoms, weights) - _mass_above(high, t, atoms, weights)
            middle = 0.5 * (low + high)
            if abs(total - exact) > MASS_TOLERANCE and height + 2 < MAX_PENDING_PANELS and low < middle < high:
                height = push_halves(stack, height, low, middle, high)
            else:
                used += 1
    x, mass, real = flatten_nodes(nodes, used)
    return x, mass, real, nodes[:used, :, 3].copy().ravel()


@njit
def _invert(solve_t, real_and_slope, x, edges, edges_x, s, atoms, weights):  # type: ignore[no-untyped-def]
    """Return the a with x(a) = x, and its t, by safeguarded Newton steps; in a gap of the support the edge above x."""
    for j in range(0, edges.shape[0], 2):
        if x <= edges_x[j]:
            return edges[j], 0.0
        if x >= edges_x[j + 1]:
            continue
        low, high, t = edges[j], edges[j + 1], 0.0
        a = low + (high - low) * (x - edges_x[j]) / (edges_x[j + 1] - edges_x[j])
        for _ in range(MAX_STEPS):
            t = solve_t(a, s, atoms, weights, t)
            real, slope = real_and_slope(a, t, s, atoms, weights)
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
    types.UniTuple(float64, 2)(
        _solve_t_type, _real_and_slope_type, float64, _vector, _vector, float64, _vector, _vector
    )
)
def _inverse(solve_t, real_and_slope, x, edges, edges_x, s, atoms, weights):  # type: ignore[no-untyped-def]
    """Return `_invert` of one point, for calls from Python."""
    return _invert(solve_t, real_and_slope, x, edges, edges_x, s, atoms, weights)


@njit(
    types.Array(float64, 1, "C")(
        _solve_t_type, _real_and_slope_type, _vector, _vector, _vector, float64, _vector, _vector
    )
)
def _densities(solve_t, real_and_slope, x, edges, edges_x, s, atoms, weights):  # type: ignore[no-untyped-def]
    """Return the density at many points."""
    rho = np.empty(x.shape[0])
    for k in range(x.shape[0]):
        rho[k] = np.sqrt(_invert(solve_t, real_and_slope, x[k], edges, edges_x, s, atoms, weights)[1]) / (np.pi * s)
    return rho


class AtomsSemicircle(Law):
    """Law of weighted atoms, freely convolved with a semicircle of variance ``s`` > 0.

    Parameters
    ----------
    eigenvalues : array
        Positions of the atoms; equal ones are merged.
    s : float
        Variance of the semicircle.
    weights : array, optional
        Positive weights with sum one; equal weights if not given.
    sides : int
        2 for singular values: each is placed at both signs, with half its weight (U3).

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
        masses: Array = np.full(values.size, 1.0 / values.size)
        if weights is not None:
            masses = np.asarray(weights, dtype=np.float64)
            if masses.shape != values.shape or not (masses > 0.0).all() or abs(masses.sum() - 1.0) > 1e-9:
                raise InvalidArgument("weights", "other numbers", "positive, one per eigenvalue, with sum 1")
        if sides == 2:
            values, masses = np.concatenate([values, -values]), np.tile(0.5 * masses, 2)
        self.s, self.sides = float(s), sides
        self._atoms, self._weights = _merge_clusters(self.s, *_merge_equal(values, masses))

    @cached_property
    def _support_and_panels(self) -> tuple[Array, Array, Array]:
        """Edges in a, edges in x, and panels in a, computed once."""
        edges, breaks = _support(self.s, self._atoms, self._weights)
        edges_x = edges + self.s * (self._weights / (edges[:, None] - self._atoms)).sum(axis=1)
        return edges, edges_x, _panels(_solve_t, edges, breaks, self.s, self._atoms, self._weights)

    @property
    def edges(self) -> tuple[tuple[float, float], ...]:
        """Intervals of the support, in increasing order."""
        return as_intervals(self._support_and_panels[1])

    def density(self, x: Array) -> Array:
        """Return the density rho_s(x) = b / (pi s)."""
        edges, edges_x, _ = self._support_and_panels
        where = np.atleast_1d(np.asarray(x, dtype=np.float64))
        law = self.s, self._atoms, self._weights
        rho: Array = _densities(_solve_t, _real_and_slope, where.ravel(), edges, edges_x, *law)
        return rho.reshape(where.shape)

    def nodes(self, low: float = -np.inf, high: float = np.inf) -> Nodes:
        """Return Gauss-Legendre nodes in the angle t of a = l + (h - l)(1 - cos t)/2 on every panel, cached."""
        return self._nodes_and_t(low, high)[0]

    def _nodes_and_t(self, low: float, high: float) -> tuple[Nodes, Array]:
        """Return the nodes between ``low`` and ``high``, and t at the nodes."""
        cached: tuple[tuple[float, float], tuple[Nodes, Array]] | None = self.__dict__.get("_nodes")
        if cached is not None and cached[0] == (low, high):
            return cached[1]
        ends = np.clip(self._support_and_panels[2], self._inverse(low)[0], self._inverse(high)[0])
        law = self.s, self._atoms, self._weights
        *rows, t = _panel_nodes(_solve_t, _real_and_slope, drop_empty_panels(ends), *edge_rule(NODES_PER_PANEL), *law)
        found = Nodes(*rows), t
        self.__dict__["_nodes"] = ((low, high), found)
        return found

    def eigenvector_overlaps(self, low: float, atoms: Array) -> Array:
        """Return s/((a - atom)² + b²) at the nodes above ``low``, one row per atom (8.2)."""
        nodes, t = self._nodes_and_t(low, np.inf)
        a = nodes.x - self.s * nodes.hilbert
        return np.asarray(self.s / ((a - np.asarray(atoms)[:, None]) ** 2 + t))

    def overlaps_at(self, x: float, atoms: Array) -> tuple[float, float, Array]:
        """Return the density, Re g and the eigenvector overlaps with ``atoms`` at one point x."""
        a, t = self._inverse(x)
        overlaps = self.s / ((a - np.asarray(atoms)) ** 2 + t)
        return float(np.sqrt(t)) / (np.pi * self.s), (x - a) / self.s, overlaps

    def mass_above(self, low: float) -> float:
        """Return the mass above ``low``, exact."""
        return float(_mass_above(*self._inverse(low), self._atoms, self._weights))

    def _inverse(self, x: float) -> tuple[float, float]:
        """Return the a with x(a) = x, and its t."""
        edges, edges_x, _ = self._support_and_panels
        if np.isinf(x):
            return float(edges[0 if x < 0.0 else -1]), 0.0
        a, t = _inverse(_solve_t, _real_and_slope, float(x), edges, edges_x, self.s, self._atoms, self._weights)
        return float(a), float(t)


def _merge_equal(values: Array, masses: Array) -> tuple[Array, Array]:
    """Sort the atoms and merge those that are equal up to rounding errors."""
    order = np.argsort(values)
    values, masses = values[order], masses[order]
    scale = max(float(np.abs(values).max()), 1e-300)
    first = np.concatenate([[True], np.diff(values) > MERGE_DISTANCE * scale])
    group = np.cumsum(first) - 1
    weights: Array = np.bincount(group, weights=masses).astype(np.float64)
    return np.bincount(group, weights=masses * values) / weights, weights
