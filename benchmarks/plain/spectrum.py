"""The plain law of the trained map: eigenvalues of sampled matrices S* + sqrt(s) GOE, thresholded."""

import numpy as np
from numpy.typing import NDArray

from onehead.aim import MarchenkoPastur, Prediction

Array = NDArray[np.float64]


def eigenvalues(point: Prediction, dim: int, rng: np.random.Generator) -> Array:
    """Eigenvalues of one draw, ascending: slope (x - threshold)_+ with x those of S* plus symmetric noise (5)."""
    target = point.task.target
    assert isinstance(target, MarchenkoPastur)
    width = round(target.kappa0 * dim)
    W = rng.standard_normal((width, dim))
    noise = rng.standard_normal((dim, dim))
    S = W.T @ W / np.sqrt(width * dim) + np.sqrt(point.spread / (2.0 * dim)) * (noise + noise.T)
    x = np.linalg.eigvalsh(S)
    return point.slope * np.maximum(x - point.threshold, 0.0)


def distances(values: Array, cdf: Array, edge: float) -> tuple[float, float]:
    """Kolmogorov-Smirnov distance of sorted values to a law whose ``cdf`` is given there, and of the largest to the
    edge.
    """
    n = len(values)
    steps = np.arange(n + 1) / n
    positive = values > 0.0  # the atom at zero is one step of both
    gap = np.maximum(np.abs(cdf - steps[:-1]), np.abs(cdf - steps[1:]))[positive]
    return float(gap.max()), float(abs(values[-1] - edge))
