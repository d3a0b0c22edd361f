"""Averages over standard normal vectors: nodes and weights, twice each, so that the error can be seen."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from onehead.numerics.sobol import BITS, net

__all__ = ["GaussianRule", "cumulative", "density", "lattice", "normals", "sobol"]


@dataclass(frozen=True, kw_only=True)
class GaussianRule:
    """Nodes (points, dim) and weights (points,) with sum(weights * f(nodes)) close to E f(g), g ~ N(0, I)."""

    nodes: NDArray[np.float64]
    weights: NDArray[np.float64]

    def average(self, values: NDArray[np.float64]) -> float:
        """Weighted sum of the values at the nodes."""
        return float(self.weights @ values)


@lru_cache(maxsize=16)
def lattice(dim: int, *, spacing: float, radius: float, offset: float, folded: int = 0) -> GaussianRule:
    """Equally spaced lattice cut to a ball, with Gaussian weights that sum to one.

    The trapezoidal rule converges faster than any power of the spacing for smooth functions. ``offset`` (0 or 1/2, in
    units of the spacing) moves the lattice. Functions that stay the same when coordinates i and i + dim/2 change sign together, for each
    i < ``folded``, need only the non-negative half of coordinate i.

    Examples
    --------
    >>> rule = lattice(2, spacing=0.5, radius=6.0, offset=0.5)
    >>> bool(abs(rule.average(rule.nodes[:, 0] ** 2) - 1.0) < 1e-6)
    True
    """
    reach = int(np.ceil(radius / spacing)) + 1
    line = (np.arange(-reach, reach + 1) + offset) * spacing
    lines = [line[line > -1e-12] if axis < folded else line for axis in range(dim)]
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*lines, indexing="ij")], axis=1)
    square = np.einsum("ij,ij->i", grid, grid)
    grid, square = grid[square < radius**2], square[square < radius**2]
    weights = np.exp(-0.5 * square)
    for axis in range(folded):
        weights[grid[:, axis] > 1e-12] *= 2.0
    return GaussianRule(nodes=np.ascontiguousarray(grid), weights=weights / weights.sum())


@lru_cache(maxsize=8)  # many points of many coordinates are many megabytes
def sobol(dim: int, *, log2_points: int, seed: int, parts: int = 1) -> GaussianRule:
    """Scrambled Sobol points through the normal quantile, each with its antithetic copy, second moments matched.

    The same seed gives the same points (common random numbers), so a map averaged over them is smooth and can be
    solved to any tolerance; another seed gives an independent estimate of the error. With ``parts`` the points are that many
    independent scramblings of equal size, one after the other: the spread of an average over them shows its error. The points
    are multiplied by the inverse root of their own covariance, which makes every quadratic function exact.

    Examples
    --------
    >>> rule = sobol(6, log2_points=8, seed=0)
    >>> rule.nodes.shape
    (512, 6)
    >>> bool(np.allclose(rule.nodes.T @ (rule.weights[:, None] * rule.nodes), np.eye(6)))
    True
    """
    from scipy.special import ndtri  # noqa: PLC0415  (scipy is loaded when first needed)

    seeds: list[int | list[int]] = [seed] if parts == 1 else [[seed, part] for part in range(parts)]
    scrambled = [net(dim, log2_points - int(np.log2(parts)), s) for s in seeds]
    cube = np.concatenate(scrambled) * 2.0**-BITS
    half = ndtri(np.clip(cube, 1e-12, 1.0 - 1e-12))
    if len(half) >= 4 * dim:  # with fewer points the sample covariance says more about the sample than the law
        values, vectors = np.linalg.eigh(half.T @ half / len(half))
        half = half @ (vectors / np.sqrt(values)) @ vectors.T
    halves = half.reshape(parts, -1, dim)
    nodes = np.concatenate([halves, -halves], axis=1).reshape(-1, dim)
    return GaussianRule(nodes=np.ascontiguousarray(nodes), weights=np.full(len(nodes), 1.0 / len(nodes)))


@lru_cache(maxsize=16)
def normals(dim: int, *, log2_points: int, seed: int, parts: int) -> GaussianRule:
    """Independent normals in the place of `sobol` points, each with its antithetic copy; for more coordinates than points."""
    half = np.random.default_rng([seed, dim]).standard_normal((parts, 2**log2_points // parts, dim))
    nodes = np.concatenate([half, -half], axis=1).reshape(-1, dim)
    return GaussianRule(nodes=nodes, weights=np.full(len(nodes), 1.0 / len(nodes)))


def density(z: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """phi(z) of a standard normal."""
    return np.asarray(np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi))


def cumulative(z: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """Phi(z) of a standard normal, the probability of lying below z."""
    from scipy.special import ndtr  # noqa: PLC0415

    return np.asarray(ndtr(z))
