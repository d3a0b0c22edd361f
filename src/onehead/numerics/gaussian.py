"""Quadrature rules for standard normal vectors: lattices, scrambled Sobol points and independent samples.

Every rule has variants (offsets, seeds), so that the error of an average can be estimated from the difference of two.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from onehead.numerics.sobol import BITS, scrambled_net


@dataclass(frozen=True, kw_only=True)
class GaussianRule:
    """Quadrature rule for E f(g), g ~ N(0, I): nodes of shape (points, dim) and weights of shape (points,)."""

    nodes: NDArray[np.float64]
    weights: NDArray[np.float64]

    def average(self, values: NDArray[np.float64]) -> float:
        """Return the weighted sum of values at the nodes."""
        return float(self.weights @ values)


@lru_cache(maxsize=16)
def lattice(
    dim: int, *, spacing: float, radius: float, offset: float, folded: int = 0, checkerboard: bool = False
) -> GaussianRule:
    """Return a rectangular lattice inside a ball, with Gaussian weights that sum to one.

    This trapezoidal rule converges faster than any power of the spacing for smooth functions. ``offset`` (0 or 1/2, in
    units of the spacing) shifts the lattice. For functions that are invariant when coordinates i and i + dim/2 change
    sign together, for each i < ``folded``, only the non-negative half of coordinate i is needed.

    A ``checkerboard`` keeps the points whose indices have an even sum. In four dimensions this is the lattice D4: its
    dual has no vector shorter than that of the rectangular lattice of the same spacing, so that half of the points
    resolve the same frequencies. An even number of coordinates that change sign together keeps the parity.

    Examples
    --------
    >>> rule = lattice(2, spacing=0.5, radius=6.0, offset=0.5)
    >>> bool(abs(rule.average(rule.nodes[:, 0] ** 2) - 1.0) < 1e-6)
    True
    """
    steps = int(np.ceil(radius / spacing)) + 1
    line = np.arange(-steps, steps + 1)
    lines = [line[line + offset > -1e-12] if axis < folded else line for axis in range(dim)]
    index = np.stack([axis.ravel() for axis in np.meshgrid(*lines, indexing="ij")], axis=1)
    if checkerboard:
        index = index[index.sum(axis=1) % 2 == 0]
    grid = (index + offset) * spacing
    square = np.einsum("ij,ij->i", grid, grid)
    grid, square = grid[square < radius**2], square[square < radius**2]
    weights = np.exp(-0.5 * square)
    for axis in range(folded):
        weights[grid[:, axis] > 1e-12] *= 2.0
    return GaussianRule(nodes=np.ascontiguousarray(grid), weights=weights / weights.sum())


@lru_cache(maxsize=8)  # fine rules of many coordinates take many megabytes
def sobol(dim: int, *, log2_points: int, seed: int, parts: int = 1) -> GaussianRule:
    """Return scrambled Sobol points under the normal quantile, with antithetic copies and exact second moments.

    The same seed gives the same points (common random numbers), so that a map averaged over them is smooth and can be
    solved to any tolerance; another seed gives an independent estimate of the error. The points consist of ``parts``
    independent scramblings of equal size, one after another; the spread of an average over the parts estimates its
    error. The points are multiplied by the inverse root of their own covariance, which makes averages of quadratic
    functions exact.

    Examples
    --------
    >>> rule = sobol(6, log2_points=8, seed=0)
    >>> rule.nodes.shape
    (512, 6)
    >>> bool(np.allclose(rule.nodes.T @ (rule.weights[:, None] * rule.nodes), np.eye(6)))
    True
    """
    from scipy.special import ndtri  # scipy is loaded when first needed

    seeds: list[int | list[int]] = [seed] if parts == 1 else [[seed, part] for part in range(parts)]
    scrambled = [scrambled_net(dim, log2_points - int(np.log2(parts)), s) for s in seeds]
    cube = np.concatenate(scrambled) * 2.0**-BITS
    points = ndtri(np.clip(cube, 1e-12, 1.0 - 1e-12))
    if len(points) >= 4 * dim:  # with fewer points the sample covariance is too far from the identity to be inverted
        values, vectors = np.linalg.eigh(points.T @ points / len(points))
        points = points @ (vectors / np.sqrt(values)) @ vectors.T
    by_part = points.reshape(parts, -1, dim)
    nodes = np.concatenate([by_part, -by_part], axis=1).reshape(-1, dim)
    return GaussianRule(nodes=np.ascontiguousarray(nodes), weights=np.full(len(nodes), 1.0 / len(nodes)))


@lru_cache(maxsize=16)
def monte_carlo(dim: int, *, log2_points: int, seed: int, parts: int) -> GaussianRule:
    """Return independent normal samples with antithetic copies, where there are too many coordinates for `sobol`."""
    points = np.random.default_rng([seed, dim]).standard_normal((parts, 2**log2_points // parts, dim))
    nodes = np.concatenate([points, -points], axis=1).reshape(-1, dim)
    return GaussianRule(nodes=nodes, weights=np.full(len(nodes), 1.0 / len(nodes)))


def density(z: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """Density phi(z) of the standard normal distribution."""
    return np.asarray(np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi))


def cumulative(z: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """Distribution function Phi(z) of the standard normal distribution."""
    from scipy.special import ndtr

    return np.asarray(ndtr(z))
