"""Laws that need no training: one random Gram matrix, two independent random matrices, a power law."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from onehead.weights.chain import POINTS, Data, LawFit, Table, angle_grid, cumulate, finish, log_likelihood

__all__ = ["fit_marchenko_pastur", "fit_noise", "fit_power_law"]

Array = NDArray[np.float64]


def _free_rank(data: Data) -> tuple[float, int]:
    """Share of non-zero values of a rival, and what it costs: one parameter if the shape does not force it."""
    return data.values.size / data.dim, 0 if data.saturated else 1


def fit_marchenko_pastur(data: Data) -> LawFit:
    """Most likely width κ₀ <= 1 and scale; κ₀ and 1/κ₀ have the same non-zero part but for the scale."""
    from scipy.optimize import minimize  # noqa: PLC0415

    def table(theta: Array) -> Table:
        root, top = 1.0 / (1.0 + np.exp(-theta[0])), float(np.exp(theta[1]))
        scale = top / (1.0 + root) ** 2
        bottom = scale * (1.0 - root) ** 2

        def f(y: Array) -> Array:
            inside: Array = np.clip((top - y) * (y - bottom), 0.0, None)
            return np.asarray(np.sqrt(inside) / (2.0 * np.pi * root**2 * scale * y))

        x, dx = angle_grid(bottom, top)
        return Table(f, x, cumulate(f(x) * dx))

    def cost(theta: Array) -> float:
        law = table(theta)
        return -log_likelihood(data, law.density(data.values), law.share_below(data.values))

    top, bottom = 1.02 * data.values[0], 0.98 * data.values[-1]
    root = (np.sqrt(top) - np.sqrt(bottom)) / (np.sqrt(top) + np.sqrt(bottom))
    found = minimize(cost, [np.log(root / (1.0 - root)), np.log(top)], method="Nelder-Mead", options={"xatol": 1e-4})
    rank, extra = _free_rank(data)
    root = 1.0 / (1.0 + np.exp(-found.x[0]))
    parameters = {"kappa0": float(root**2), "scale": float(np.exp(found.x[1]) / (1.0 + root) ** 2)}
    return finish("marchenko-pastur", data, table(found.x), parameters, rank, 2 + extra)


def fit_power_law(data: Data) -> LawFit:
    """Most likely exponent above the smallest value, which starts half a spacing below."""
    from scipy.optimize import minimize_scalar  # noqa: PLC0415

    count, low = data.values.size, float(data.values[-1])

    def table(log_slope: float) -> Table:
        slope = float(np.exp(log_slope))  # exponent - 1
        start = low * (1.0 - 0.5 / count) ** (1.0 / slope)
        below = np.linspace(0.0, 1.0 - 1e-6, 2000)

        def f(y: Array) -> Array:
            return np.where(y >= start, slope / start * (np.maximum(y, start) / start) ** (-slope - 1.0), 0.0)

        return Table(f, start * (1.0 - below) ** (-1.0 / slope), below)

    def cost(log_slope: float) -> float:
        law = table(log_slope)
        return -log_likelihood(data, law.density(data.values), law.share_below(data.values))

    guess = float(np.log(count / max(float(np.sum(np.log(data.values / low))), 1e-9)))
    found = minimize_scalar(cost, bounds=(guess - 2.0, guess + 2.0), method="bounded", options={"xatol": 1e-4})
    rank, extra = _free_rank(data)
    law = table(found.x)
    parameters = {"exponent": 1.0 + float(np.exp(found.x)), "smallest": float(law.x[0])}
    return finish("power-law", data, law, parameters, rank, 2 + extra)


@lru_cache(maxsize=64)
def _product_law(ratio: float) -> tuple[Array, Array, Array]:
    """Squared singular values t of W_Q'W_K / (σ_Q σ_K hidden): points, density of the non-zero ones, mass below.

    Edges where dx/dz = 0 on x = (1 + z)(1 + c z)²/z: 2 c z² + c z - 1 = 0.
    """
    c = ratio
    z = (-c + np.array([-1.0, 1.0]) * np.sqrt(c * c + 8.0 * c)) / (4.0 * c)
    low, high = np.sort((1.0 + z) * (1.0 + c * z) ** 2 / z)
    t, dt = angle_grid(max(float(low), 0.0), float(high), 4 * POINTS)
    companion = np.zeros((t.size, 3, 3))
    companion[:, 1, 0] = companion[:, 2, 1] = 1.0
    companion[:, 0, 2] = -t / c**2
    companion[:, 1, 2] = -((1.0 - c) ** 2 - t) / c**2
    companion[:, 2, 2] = -2.0 * c * (1.0 - c) / c**2
    density = np.abs(np.linalg.eigvals(companion).imag).max(axis=1) / (np.pi * t)
    mass = density * dt
    return t, density / mass.sum(), cumulate(mass)


def fit_noise(data: Data) -> LawFit:
    """Most likely scale of the product of two random matrices of the head's shape."""
    from scipy.optimize import minimize_scalar  # noqa: PLC0415

    t, density, below = _product_law(round(data.width / data.dim, 6))
    edge = np.array([t[0] - 0.5 * (t[1] - t[0]), t[-1] + 0.5 * (t[-1] - t[-2])])
    points, heights = np.concatenate([edge[:1], t, edge[1:]]), np.concatenate([[0.0], density, [0.0]])

    def table(log_scale: float) -> Table:
        scale = float(np.exp(log_scale))

        def f(y: Array) -> Array:
            return np.asarray(np.interp((y / scale) ** 2, points, heights, left=0.0, right=0.0) * 2.0 * y / scale**2)

        return Table(f, scale * np.sqrt(t), below)

    def cost(log_scale: float) -> float:
        law = table(log_scale)
        return -log_likelihood(data, law.density(data.values), law.share_below(data.values))

    middle = float(np.log(np.median(data.values) / np.sqrt(np.interp(0.5, below, t))))
    grid = middle + np.linspace(-1.0, 1.0, 41)
    start = float(grid[np.argmin([cost(value) for value in grid])])
    found = minimize_scalar(cost, bounds=(start - 0.05, start + 0.05), method="bounded", options={"xatol": 1e-5})
    rank, extra = _free_rank(data)
    return finish("noise", data, table(found.x), {"scale": float(np.exp(found.x))}, rank, 1 + extra)
