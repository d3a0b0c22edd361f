"""Numbers of one head from its thin factors: nothing of size hidden x hidden is ever formed.

With W_Q, W_K of size p x d, the map is A = W_Q'W_K, of rank at most p. From W_Q' = U R and W_K' = V T (thin QR),
A = U (R T') V', so the singular values of A are those of the p x p core R T', and its singular vectors are U and V times
those of the core.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onehead.errors import InvalidArgument

__all__ = ["LARGEST", "ZERO", "Spectra", "check_pair", "effective_ranks", "spectra"]

Array = NDArray[np.float64]

LARGEST = 1e100  # products of two weights must stay numbers
ZERO = 1e-3  # of the largest: singular values below count as zero, as in training (weight decay leaves about 1e-4)


@dataclass(frozen=True)
class Spectra:
    """Spectra of A: ``singular_values`` and the cosines ``overlaps`` of left and right vectors, both in falling order.

    ``symmetric_eigenvalues`` are those of (A + A')/2 that the factors can make non-zero, falling; ``symmetric_share`` is
    the part of ‖A‖² (Frobenius) in (A + A')/2: one for a tied head, one half on average for unrelated factors.
    """

    singular_values: Array
    overlaps: Array
    symmetric_eigenvalues: Array
    symmetric_share: float


def check_pair(query: object, key: object) -> tuple[Array, Array]:
    """Two finite matrices of one shape, head_dim x hidden."""
    Q, K = (np.asarray(matrix, dtype=np.float64) for matrix in (query, key))
    for name, matrix in (("query", Q), ("key", K)):
        if matrix.ndim != 2 or min(matrix.shape, default=0) < 1:
            raise InvalidArgument(name, matrix.shape, "a matrix of shape (head_dim, hidden)")
        if not (np.abs(matrix) <= LARGEST).all():
            raise InvalidArgument(name, "an entry beyond", f"an array of finite numbers up to {LARGEST:g}")
    if Q.shape != K.shape:
        raise InvalidArgument("key", K.shape, f"of the same shape as the query, {Q.shape}")
    return Q, K


def spectra(query: Array, key: Array) -> Spectra:
    """Decompose one head; ``query`` and ``key`` are head_dim x hidden.

    ‖A + A'‖²/4 = (‖A‖² + Tr A²)/2 and Tr A² = Tr (W_K W_Q')², a p x p product.
    """
    sizes = [float(np.abs(matrix).max()) or 1.0 for matrix in (query, key)]
    query, key = query / sizes[0], key / sizes[1]
    unit = sizes[0] * sizes[1]
    left, R = np.linalg.qr(query.T)
    right, T = np.linalg.qr(key.T)
    U, values, Vt = np.linalg.svd(R @ T.T)
    # u_i.v_i = (left U)_i . (right V)_i
    overlaps = np.einsum("ij,ij->j", U, (left.T @ right) @ Vt.T)
    energy = float(values @ values)
    cross = key @ query.T
    share = 0.5 + 0.5 * float(np.sum(cross * cross.T)) / energy if energy > 0.0 else np.nan
    return Spectra(values * unit, overlaps, _symmetric(query, key) * unit, float(np.clip(share, 0.0, 1.0)))


def _symmetric(query: Array, key: Array) -> Array:
    """Eigenvalues of (A + A')/2 in the span of both factors: with [W_Q' W_K'] = B [R T] they are those of (R T' + T R')/2."""
    p = len(query)
    both = np.linalg.qr(np.concatenate([query, key]).T)[1]
    core = both[:, :p] @ both[:, p:].T
    return np.asarray(np.linalg.eigvalsh(0.5 * (core + core.T))[::-1], dtype=np.float64)


def effective_ranks(values: Array) -> dict[str, float]:
    """Three ways to count singular values: (Σσ)²/Σσ², Σσ²/σ₁² and exp of the entropy of σ/Σσ."""
    values = values / values[0]
    total, energy = float(values.sum()), float(values @ values)
    shares = values[values > 0.0] / total
    return {
        "nuclear": total**2 / energy,
        "stable": energy,
        "entropy": float(np.exp(-np.sum(shares * np.log(shares)))),
    }
