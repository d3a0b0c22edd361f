"""The Marchenko-Pastur law freely convolved with a semicircle, from its cubic equation (5).

With k = sqrt(kappa0), the eigenvalues of W'W / sqrt(m0 d), W an m0 x d Gaussian matrix with m0 = kappa0 d, plus those
of an independent semicircle of variance s have a Stieltjes transform g with

    x = s g + k / (1 - g/k) + 1/g,
    (s/k) g^3 - (x/k + s) g^2 + (x + 1/k - k) g - 1 = 0.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from onehead.numerics.jit import njit
from onehead.spectra.law import MINIMUM_RELATIVE_WIDTH, Law, Nodes, as_intervals, edge_rule

Array = NDArray[np.float64]

RELATIVE_TOLERANCE = 1e-15  # of a root of the cubic
# 140 and 100 give the same integrals to 1e-10, since panels are split at the minimum of the density
NODES_PER_PANEL = 120


@njit
def _transform(x, k, s):  # type: ignore[no-untyped-def]
    """Return (rho, Re g) at a real x; outside the support rho is zero and Re g has no meaning."""
    b2, b1, b0 = -(x / s + k), (x + 1.0 / k - k) * k / s, -k / s
    # depressed cubic t^3 + p t + q with g = t - b2/3; it has one real root inside the support
    shift = b2 / 3.0
    p = b1 - b2 * b2 / 3.0
    q = 2.0 * shift**3 - shift * b1 + b0
    discriminant = 0.25 * q * q + p**3 / 27.0
    if discriminant <= 0.0:
        root = 2.0 * np.sqrt(max(-p / 3.0, 0.0))
        angle = np.arccos(min(1.0, max(-1.0, 3.0 * q / (p * root)))) if root > 0.0 else 0.0
        t = root * np.cos(angle / 3.0) - shift
        # of three real roots choose the one far from the other two, which become the complex pair inside the support
        largest_gap = -1.0
        for j in range(3):
            candidate = root * np.cos((angle - 2.0 * np.pi * j) / 3.0)
            other1 = root * np.cos((angle - 2.0 * np.pi * (j + 1)) / 3.0)
            other2 = root * np.cos((angle - 2.0 * np.pi * (j + 2)) / 3.0)
            gap = min(abs(candidate - other1), abs(candidate - other2))
            if gap > largest_gap:
                largest_gap, t = gap, candidate - shift
    else:
        radical = np.sqrt(discriminant)
        u = np.cbrt(-0.5 * q - radical) if q > 0.0 else np.cbrt(-0.5 * q + radical)
        t = u - p / (3.0 * u) - shift
    for _ in range(3):
        slope = (3.0 * t + 2.0 * b2) * t + b1
        if slope == 0.0:
            break
        step = (((t + b2) * t + b1) * t + b0) / slope
        t -= step
        if abs(step) < RELATIVE_TOLERANCE * abs(t):
            break
    # the complex pair from the product and the sum of the roots, in the form without cancellation
    modulus2 = -b0 / t
    re = (b1 - modulus2) / (2.0 * t) if abs(t) > 0.5 * abs(b2) else -0.5 * (b2 + t)
    im = np.sqrt(max(modulus2 - re * re, 0.0))
    # Newton steps at re + i im, in real arithmetic: complex division would dominate the time
    for _ in range(4 if im > 0.0 else 0):
        square_re, square_im = re * re - im * im, 2.0 * re * im
        slope_re, slope_im = 3.0 * square_re + 2.0 * b2 * re + b1, 3.0 * square_im + 2.0 * b2 * im
        value_re = re * square_re - im * square_im + b2 * square_re + b1 * re + b0
        value_im = re * square_im + im * square_re + b2 * square_im + b1 * im
        slope2, size = slope_re * slope_re + slope_im * slope_im, re * re + im * im
        if slope2 == 0.0:
            break
        step_re = (value_re * slope_re + value_im * slope_im) / slope2
        step_im = (value_im * slope_re - value_re * slope_im) / slope2
        step2 = step_re * step_re + step_im * step_im
        if step2 >= 0.01 * size:
            break
        re, im = re - step_re, im - step_im
        if step2 < RELATIVE_TOLERANCE**2 * size:
            break
    return abs(im) / np.pi, re


@njit
def _transforms(x, k, s):  # type: ignore[no-untyped-def]
    """Return `_transform` at many points."""
    rho, hilbert = np.empty(x.shape[0]), np.empty(x.shape[0])
    for i in range(x.shape[0]):
        rho[i], hilbert[i] = _transform(x[i], k, s)
    return rho, hilbert


@njit
def _nodes(panels, low, high, unit, jacobian, k, s):  # type: ignore[no-untyped-def]
    """Return x, mass and Re g at the nodes of all panels, clipped to ``low`` and ``high``."""
    count, used = unit.shape[0], 0
    x, mass, hilbert = (
        np.empty(panels.size // 2 * count),
        np.empty(panels.size // 2 * count),
        np.empty(panels.size // 2 * count),
    )
    for panel in range(panels.shape[0]):
        left, right = min(max(panels[panel, 0], low), high), min(max(panels[panel, 1], low), high)
        if not right - left > MINIMUM_RELATIVE_WIDTH * max(abs(left), abs(right)):
            continue
        for i in range(count):
            x[used] = left + (right - left) * unit[i]
            rho, hilbert[used] = _transform(x[used], k, s)
            mass[used] = (right - left) * jacobian[i] * rho
            used += 1
    return x[:used], mass[:used], hilbert[:used]


class MarchenkoPasturSemicircle(Law):
    """Marchenko-Pastur law of ratio ``kappa0``, freely convolved with a semicircle of variance ``s`` > 0."""

    def __init__(self, kappa0: float, s: float) -> None:
        self.kappa0, self.s = float(kappa0), float(s)
        self._k = float(np.sqrt(kappa0))

    @cached_property
    def _critical(self) -> tuple[Array, float | None]:
        """Edges, and the split point of a single bulk.

        At the edges x(g) is stationary: s g^2 P^2 + g^2 - P^2 = 0 with P = 1 - g/k. A single bulk is split at the real
        part of its complex stationary points, near the minimum of the density.
        """
        k, s = self._k, self.s
        companion = np.diag(np.ones(3), -1)  # twice as fast as numpy.roots, which computes the same eigenvalues
        companion[0] = np.array([2.0 * k, (1.0 - k**2) / s - k**2, -2.0 * k / s, k**2 / s])
        roots = np.linalg.eigvals(companion).astype(complex)
        x = s * roots + k / (1.0 - roots / k) + 1.0 / roots
        real = np.abs(roots.imag) <= 1e-9 * np.abs(roots)
        edges = np.sort(x[real].real)
        split = float(x[~real][0].real) if edges.size == 2 else None
        return edges, split

    @property
    def edges(self) -> tuple[tuple[float, float], ...]:
        """Intervals of the support: two if s is so small that the zeros of the target form a bulk of their own."""
        return as_intervals(self._critical[0])

    @cached_property
    def _panels(self) -> Array:
        """Panels of the quadrature; a single bulk is split, since three digits would be lost after two bulks merge."""
        split = self._critical[1]
        panels: list[tuple[float, float]] = []
        for low, high in self.edges:
            panels += [(low, split), (split, high)] if split is not None and low < split < high else [(low, high)]
        return np.array(panels)

    def density(self, x: Array) -> Array:
        """Return the density rho_s(x)."""
        x = np.atleast_1d(np.asarray(x, dtype=float))
        rho = np.zeros(x.shape)
        for low, high in self.edges:
            inside = (x > low) & (x < high)
            rho[inside] = _transforms(np.ascontiguousarray(x[inside]), self._k, self.s)[0]
        return rho

    def nodes(self, low: float = -np.inf, high: float = np.inf) -> Nodes:
        """Return Gauss-Legendre nodes in the angle t of x = a + (b - a)(1 - cos t)/2 on every panel."""
        return Nodes(*_nodes(self._panels, low, high, *edge_rule(NODES_PER_PANEL), self._k, self.s))
