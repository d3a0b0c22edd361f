"""Null model: means and standard deviations of the spectrum and of the symmetric share of random heads.

Spectra of random matrices are rigid. Two statistics of the width of a spectrum,

    spread = ln sqrt(mean σ²) - ln(mean σ),     top = ln sqrt(mean σ⁴) - ln(mean σ²),

have, for n = min(head_dim, hidden) values and c = head_dim/hidden, the mean g(c) + a(c)/n and the standard deviation
b(c)/n. Here g(c) belongs to the law of two random matrices; a and b are in the table below, which
`studies/initial_heads.py` measures, with a for normal and for uniform entries. Other common initialisations lie between
these two up to a scale, on which nothing here depends. The symmetric share (1 + Tr A²/|A|²)/2 has mean 1/2 + 1/(2d) and
standard deviation 1/(sqrt(2) d), d = hidden, for any entries.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from onehead.weights.spacing_likelihood import angle_grid

Array = NDArray[np.float64]

GRID_POINTS = 640  # of the tabulated product law

# columns: c; a of spread and top for normal entries; a of both for uniform entries; b of both; their correlation
FINITE_SIZE_TABLE: tuple[tuple[float, ...], ...] = (
    (1 / 64, 0.0038, 0.0147, -0.0008, -0.0029, 0.0079, 0.0310, 0.9942),
    (1 / 32, 0.0079, 0.0300, -0.0017, -0.0064, 0.0154, 0.0591, 0.9877),
    (1 / 16, 0.0154, 0.0547, -0.0023, -0.0087, 0.0316, 0.1163, 0.9780),
    (1 / 12, 0.0214, 0.0731, -0.0056, -0.0205, 0.0406, 0.1461, 0.9690),
    (1 / 8, 0.0305, 0.0988, -0.0069, -0.0240, 0.0617, 0.2123, 0.9556),
    (1 / 6, 0.0448, 0.1404, -0.0054, -0.0191, 0.0816, 0.2718, 0.9416),
    (0.2500, 0.0593, 0.1598, -0.0098, -0.0329, 0.1195, 0.3732, 0.9162),
    (1 / 3, 0.0825, 0.2080, -0.0018, -0.0220, 0.1594, 0.4689, 0.8993),
    (0.5000, 0.1227, 0.2560, -0.0011, -0.0243, 0.2332, 0.6234, 0.8662),
    (2 / 3, 0.1698, 0.3224, 0.0134, -0.0056, 0.3048, 0.7806, 0.8474),
    (1.0000, 0.3668, 0.5040, 0.1721, 0.1303, 0.4100, 1.0036, 0.8194),
    (1.5000, 0.2070, 0.3370, 0.0743, 0.0622, 0.3518, 0.8621, 0.8186),
    (2.0000, 0.1842, 0.3091, 0.0996, 0.1304, 0.3308, 0.8039, 0.8236),
    (4.0000, 0.1735, 0.2801, 0.1180, 0.1596, 0.2917, 0.6751, 0.8091),
)  # fmt: skip


def product_edges(ratio: float) -> tuple[float, float]:
    """Return the edges of the law of `product_law`: the extrema of t = (1 + z)(1 + c z)²/z, at 2 c z² + c z - 1 = 0."""
    c = ratio
    z = (-c + np.array([-1.0, 1.0]) * np.sqrt(c * c + 8.0 * c)) / (4.0 * c)
    low, high = np.sort((1.0 + z) * (1.0 + c * z) ** 2 / z)
    return max(float(low), 0.0), float(high)


@lru_cache(maxsize=64)
def product_law(ratio: float) -> tuple[Array, Array, Array]:
    """Return the law of the squared singular values t of W_Q'W_K / (σ_Q σ_K hidden) for random factors.

    The arrays are points t, the density of the non-zero values there, and the mass of each point. With the Stieltjes
    transform g and c = ``ratio`` = head_dim/hidden, G = t g(t) solves c²G³ + 2c(1-c)G² + ((1-c)² - t)G + t = 0, which
    is the product of two free Marchenko-Pastur laws.
    """
    c = ratio
    t, dt = angle_grid(*product_edges(c), GRID_POINTS)
    companion = np.zeros((t.size, 3, 3))
    companion[:, 1, 0] = companion[:, 2, 1] = 1.0
    companion[:, 0, 2] = -t / c**2
    companion[:, 1, 2] = -((1.0 - c) ** 2 - t) / c**2
    companion[:, 2, 2] = -2.0 * c * (1.0 - c) / c**2
    density = np.abs(np.linalg.eigvals(companion).imag).max(axis=1) / (np.pi * t)
    mass = density * dt
    return t, density / mass.sum(), mass / mass.sum()


def spread_statistics(values: Array) -> tuple[float, float]:
    """Return the statistics ``spread`` and ``top`` of positive values, which do not depend on their scale."""
    values = values / values.max()
    return _from_moments(*(float(np.mean(values**k)) for k in (1, 2, 4)))


def _from_moments(first: float, second: float, fourth: float) -> tuple[float, float]:
    return 0.5 * float(np.log(second)) - float(np.log(first)), 0.5 * float(np.log(fourth)) - float(np.log(second))


@lru_cache(maxsize=256)
def limiting_statistics(ratio: float) -> tuple[float, float]:
    """Return g(c), the statistics ``spread`` and ``top`` of a random head of infinite size."""
    t, _, mass = product_law(ratio)
    return _from_moments(*(float(mass @ t ** (0.5 * k)) for k in (1, 2, 4)))


def _finite_size(ratio: float) -> Array:
    """Return the table interpolated at c = ``ratio``.

    Below its first row all columns but the correlation are taken proportional to c.
    """
    table = np.array(FINITE_SIZE_TABLE)
    c, rows = table[:, 0], table[:, 1:]
    scaled = np.concatenate([rows[:, :-1] / c[:, None], rows[:, -1:]], axis=1)
    found = np.array([np.interp(np.log(ratio), np.log(c), column) for column in scaled.T])
    found[:-1] *= min(ratio, c[-1])
    return found


def bulk_deviation(values: Array, head_dim: int, hidden: int) -> float:
    """Return the distance of a spectrum from those of random heads of this shape, in standard deviations.

    This is the Mahalanobis distance of the two statistics (`spread_statistics`) from the closest mixture of the means
    for normal and for uniform entries. For random heads its square is between one and two on average.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> values = np.linalg.svd(rng.standard_normal((384, 32)) @ rng.standard_normal((32, 384)), compute_uv=False)[:32]
    >>> bulk_deviation(values, 32, 384) < 4 < bulk_deviation(values**1.2, 32, 384)
    True
    """
    count, ratio = min(head_dim, hidden), round(head_dim / hidden, 6)
    row = _finite_size(ratio)
    offset = count * (np.array(spread_statistics(values)) - limiting_statistics(ratio))
    errors, correlation = row[4:6], min(row[6], 0.999)
    covariance = np.outer(errors, errors) * np.array([[1.0, correlation], [correlation, 1.0]])
    root = np.linalg.cholesky(covariance)
    normal, uniform = (np.linalg.solve(root, offset - shift) for shift in (row[:2], row[2:4]))
    step = uniform - normal
    part = np.clip(-float(normal @ step) / max(float(step @ step), 1e-300), 0.0, 1.0)
    return float(np.linalg.norm(normal + part * step))


def share_deviation(share: float, hidden: int) -> float:
    """Return the signed deviation of a symmetric share from that of random heads, in standard deviations."""
    return float(np.sqrt(2.0) * (hidden * (share - 0.5) - 0.5))


def random_effective_rank(head_dim: int, hidden: int) -> float:
    """Return the effective rank (Σσ)²/Σσ² of random heads of this shape."""
    return min(head_dim, hidden) * float(np.exp(-2.0 * limiting_statistics(round(head_dim / hidden, 6))[0]))
