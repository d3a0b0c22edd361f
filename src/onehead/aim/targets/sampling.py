"""Random maps with the spectrum of a target (1.1, U1)."""

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from onehead.aim.targets.base import Target
from onehead.aim.targets.discrete import Discrete
from onehead.aim.targets.limiting import MarchenkoPastur, Product
from onehead.errors import InvalidArgument

__all__ = ["draw_target", "factor_rows"]

Array = NDArray[np.float64]


def factor_rows(width: float, dim: int) -> int:
    """Number of rows m = κ d of a factor, rounded, at least one."""
    return max(1, round(width * dim))


def draw_target(target: Target, dim: int, rng: np.random.Generator, *, tied: bool = True) -> Array:
    """Sample a target map S* (1.1): a symmetric dim x dim matrix, or for an untied head one without symmetry (U1).

    Marchenko-Pastur: W'W / sqrt(m0 d) with W an m0 x d standard normal matrix, m0 = κ₀ d rounded. Product: W_Q' W_K /
    sqrt(m0 d) with two of them. A target given by eigenvalues gets a uniformly random eigenbasis. For an untied head
    the eigenvalues of a symmetric target become singular values, with independent left and right bases.

    Examples
    --------
    >>> from onehead.aim import MarchenkoPastur
    >>> S = draw_target(MarchenkoPastur(kappa0=0.5), 40, np.random.default_rng(0))
    >>> S.shape, int(np.linalg.matrix_rank(S))
    ((40, 40), 20)
    """
    if isinstance(target, Product):
        width = factor_rows(target.kappa0, dim)
        Q, K = rng.standard_normal((2, width, dim))
        return np.asarray(Q.T @ K / sqrt(width * dim))
    if isinstance(target, MarchenkoPastur):
        width = factor_rows(target.kappa0, dim)
        W = rng.standard_normal((width, dim))
        S: Array = W.T @ W / sqrt(width * dim)
        return S if tied else _with_singular_values(np.asarray(np.linalg.eigvalsh(S)), rng)
    assert isinstance(target, Discrete)
    if len(target.values) != dim:
        raise InvalidArgument("dim", dim, f"{len(target.values)}, the number of eigenvalues of the target")
    if not tied:
        return _with_singular_values(target.values, rng)
    basis = _random_basis(dim, rng)
    return np.asarray((basis * target.values) @ basis.T)


def _random_basis(dim: int, rng: np.random.Generator) -> Array:
    """Random orthogonal matrix, uniform on the orthogonal group."""
    basis, upper = np.linalg.qr(rng.standard_normal((dim, dim)))
    basis *= np.sign(np.diag(upper))  # QR with a positive diagonal gives the uniform measure
    return basis


def _with_singular_values(values: Array, rng: np.random.Generator) -> Array:
    """Map with these singular values and independent, uniformly random left and right singular vectors."""
    left, right = _random_basis(len(values), rng), _random_basis(len(values), rng)
    S: Array = (left * values) @ right.T
    return S
