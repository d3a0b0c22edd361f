"""Numbers of one head from its thin factors: nothing of size hidden x hidden is ever formed.

With W_Q, W_K of size p x d, the map is A = W_Q'W_K, of rank at most p. From W_Q' = U R and W_K' = V T (thin QR),
A = U (R T') V', so the singular values of A are those of the p x p core R T', and its singular vectors are U and V times
those of the core.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onehead.arguments import an_array
from onehead.errors import InvalidArgument
from onehead.text import Bare

__all__ = ["LARGEST", "Spectra", "check_pair", "effective_ranks", "numerical_rank", "spectra", "symmetric_share"]

Array = NDArray[np.float64]

LARGEST = 1e100  # products of two weights must stay numbers
ZERO = (
    1e-3  # of the largest: a break in the spectrum is looked for there, since weight decay leaves zeros at about 1e-4
)
FEW = 4  # one value in four or fewer above the break may be features on a bulk; more are the bulk itself
GAP = 10.0  # a smaller ratio of two neighbours is no gap
COMPACT = 1e-2  # values of which half lie within this factor of their largest are a bulk; what weight decay leaves covers many decades


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
    for name, matrix in (("query", query), ("key", key)):
        if np.iscomplexobj(np.asarray(matrix)):
            raise InvalidArgument(name, Bare("complex numbers"), "a matrix of real numbers")
        an_array(name, matrix)
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
    """Decompose one head; ``query`` and ``key`` are head_dim x hidden."""
    sizes = [float(np.abs(matrix).max()) or 1.0 for matrix in (query, key)]
    query, key = query / sizes[0], key / sizes[1]
    unit = sizes[0] * sizes[1]
    core = _core(query, key)
    U, values, Vt, angles = core
    overlaps = np.einsum("ij,ij->j", U, angles @ Vt.T)  # u_i.v_i = (left U)_i . (right V)_i
    return Spectra(values * unit, overlaps, _symmetric(query, key) * unit, _share(core, 0))


def symmetric_share(query: Array, key: Array, *, without: int) -> float:
    """The symmetric share of a head without its largest singular components: features say nothing of what the rest is like."""
    sizes = [float(np.abs(matrix).max()) or 1.0 for matrix in (query, key)]
    return _share(_core(query / sizes[0], key / sizes[1]), without)


def _core(query: Array, key: Array) -> tuple[Array, Array, Array, Array]:
    """U, values and V' of the core R T', and the angles between the bases of both factors."""
    left, R = np.linalg.qr(query.T)
    right, T = np.linalg.qr(key.T)
    U, values, Vt = np.linalg.svd(R @ T.T)
    return U, values, Vt, left.T @ right


def _share(core: tuple[Array, Array, Array, Array], without: int) -> float:
    """‖A + A'‖²/(4 ‖A‖²) = (1 + Tr A²/‖A‖²)/2, where the bases of both factors make Tr A² a p x p product."""
    U, values, Vt, angles = core
    inner = (U[:, without:] * values[without:]) @ Vt[without:] @ angles.T
    energy = float(values[without:] @ values[without:])
    share = 0.5 + 0.5 * float(np.sum(inner * inner.T)) / energy if energy > 0.0 else np.nan
    return float(np.clip(share, 0.0, 1.0))


def _symmetric(query: Array, key: Array) -> Array:
    """Eigenvalues of (A + A')/2 in the span of both factors: with [W_Q' W_K'] = B [R T] they are those of (R T' + T R')/2."""
    p = len(query)
    both = np.linalg.qr(np.concatenate([query, key]).T)[1]
    core = both[:, :p] @ both[:, p:].T
    return np.asarray(np.linalg.eigvalsh(0.5 * (core + core.T))[::-1], dtype=np.float64)


def numerical_rank(query: Array, key: Array, values: Array) -> int:
    """How many of the singular values of A = W_Q'W_K, which fall, are not zero.

    Zero is what rounding alone can make: A has no higher rank than either factor, and a factor has as many directions as
    stand out from the rounding of its stored entries; values within the rounding of our own products are zero too. Zero is also
    what weight decay has left: where the spectrum breaks at a thousandth of its largest value, the values below are zeros,
    unless they are as close together as a bulk and either continue what is above or have only few values, features, above.
    """
    most = min(_factor_rank(query), _factor_rank(key))
    rest = values[:most][values[:most] > np.finfo(np.float64).eps * max(query.shape) * values[0]]
    count = 0
    while rest.size:
        above = int(np.sum(rest > ZERO * rest[0]))
        last, rest, count = rest[above - 1], rest[above:], count + above
        if not rest.size or np.median(rest) < COMPACT * rest[0]:
            break
        if last > GAP * rest[0] and count > len(values) // FEW:
            break
    return count


def _factor_rank(matrix: Array) -> int:
    """Singular values beyond the norm of what rounding to the stored precision adds.

    Rounded entries are off by at most u |W_ij|, by u |W_ij|/√3 in the mean square, independently: a matrix of norm at most about
    u/√3 times the largest row norm plus the largest column norm.
    """
    unit = matrix / (float(np.abs(matrix).max()) or 1.0)
    rows, columns = np.linalg.norm(unit, axis=1).max(), np.linalg.norm(unit, axis=0).max()
    limit = _rounding(matrix) / np.sqrt(3.0) * (rows + columns)
    return int(np.sum(np.linalg.svd(unit, compute_uv=False) > limit))


def _rounding(matrix: Array) -> float:
    """Largest relative error of an entry in the shortest format that holds all of them: bfloat16, float16, float32 or float64."""
    with np.errstate(over="ignore", under="ignore"):
        single = matrix.astype(np.float32)
        if (single != matrix).any():
            return 2.0**-53
        if not (single.view(np.uint32) & 0xFFFF).any():
            return 2.0**-8
        return 2.0**-11 if (single.astype(np.float16) == single).all() else 2.0**-24


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
