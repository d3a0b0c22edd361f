"""Random matrices with given eigenvalues or singular values, of which targets are sampled (1.1, U1)."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def factor_rows(width: float, dim: int) -> int:
    """Number of rows m = κ d of a factor, rounded, at least one."""
    return max(1, round(width * dim))


def _random_basis(dim: int, rng: np.random.Generator) -> Array:
    """Random orthogonal matrix, uniform on the orthogonal group."""
    basis, upper = np.linalg.qr(rng.standard_normal((dim, dim)))
    basis *= np.sign(np.diag(upper))  # QR with a positive diagonal gives the uniform measure
    return basis


def map_with_eigenvalues(values: Array, rng: np.random.Generator) -> Array:
    """Symmetric map with these eigenvalues and uniformly random eigenvectors."""
    basis = _random_basis(len(values), rng)
    return np.asarray((basis * values) @ basis.T)


def map_with_singular_values(values: Array, rng: np.random.Generator) -> Array:
    """Map with these singular values and independent, uniformly random left and right singular vectors."""
    left, right = _random_basis(len(values), rng), _random_basis(len(values), rng)
    S: Array = (left * values) @ right.T
    return S
