"""Spectrum, rank and symmetric share of one head, from its thin factors: no hidden x hidden matrix is ever formed.

With W_Q, W_K of size p x d, the map is A = W_Q'W_K, of rank at most p. From W_Q' = U R and W_K' = V T (thin QR), A = U
(R T') V', so the singular values of A are those of the p x p core R T', and its singular vectors are U and V times
those of the core.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from onehead.errors import InvalidArgument
from onehead.sanitize import Unquoted
from onehead.validation import array_like
from onehead.weights.null_model import product_edges

Array = NDArray[np.float64]

MAX_WEIGHT = 1e100  # so that products of two weights do not overflow
# a break in the spectrum is looked for at this ratio to the largest value; weight decay leaves its zeros at about 1e-4
BREAK_RATIO = 1e-3
FEATURE_FRACTION = 4  # up to one value in four above the break may be features on a bulk; more are the bulk itself
MINIMUM_GAP = 10.0  # ratio of two neighbouring values from which on they are separated by a gap
# values of which half lie within this factor of their largest are a bulk; what weight decay leaves covers many decades
BULK_COMPACTNESS = 1e-2
# below this ratio to the largest value, no value is the lower end of a law that is continuous down to zero: such laws
# have a value there in less than one head in a thousand
LAW_END_RATIO = 1e-7
# smallest over largest singular value of a large random head, below which its law reaches down to the break
HARD_EDGE_RATIO = 1e-2


@dataclass(frozen=True)
class Spectra:
    """Spectra of the map A of a head.

    ``singular_values`` are in descending order, ``overlaps`` are the cosines between their left and right singular
    vectors. ``symmetric_eigenvalues`` are those of (A + A')/2 that the factors can make non-zero, in descending order.
    ``symmetric_share`` is the part of ‖A‖² (Frobenius) in (A + A')/2: one for a tied head, one half on average for
    independent factors.
    """

    singular_values: Array
    overlaps: Array
    symmetric_eigenvalues: Array
    symmetric_share: float


def check_pair(query: object, key: object) -> tuple[Array, Array]:
    """Return query and key as finite float64 matrices of equal shape head_dim x hidden, or raise InvalidArgument."""
    for name, matrix in (("query", query), ("key", key)):
        if np.iscomplexobj(np.asarray(matrix)):
            raise InvalidArgument(name, Unquoted("complex numbers"), "a matrix of real numbers")
        array_like(name, matrix)
    Q, K = (np.asarray(matrix, dtype=np.float64) for matrix in (query, key))
    for name, matrix in (("query", Q), ("key", K)):
        if matrix.ndim != 2 or min(matrix.shape, default=0) < 1:
            raise InvalidArgument(name, matrix.shape, "a matrix of shape (head_dim, hidden)")
        if not (np.abs(matrix) <= MAX_WEIGHT).all():
            raise InvalidArgument(name, "an entry beyond", f"an array of finite numbers up to {MAX_WEIGHT:g}")
    if Q.shape != K.shape:
        raise InvalidArgument("key", K.shape, f"of the same shape as the query, {Q.shape}")
    return Q, K


def spectra(query: Array, key: Array) -> Spectra:
    """Return the spectra of one head; ``query`` and ``key`` are head_dim x hidden."""
    sizes = [float(np.abs(matrix).max()) or 1.0 for matrix in (query, key)]
    query, key = query / sizes[0], key / sizes[1]
    unit = sizes[0] * sizes[1]
    core = _core(query, key)
    U, values, Vt, angles = core
    # u_i.v_i = (left U)_i . (right V)_i
    overlaps = np.einsum("ij,ij->j", U, angles @ Vt.T)
    return Spectra(values * unit, overlaps, _symmetric(query, key) * unit, _share(core, 0))


def symmetric_share(query: Array, key: Array, *, without: int) -> float:
    """Return the symmetric share of a head without its ``without`` largest singular components."""
    sizes = [float(np.abs(matrix).max()) or 1.0 for matrix in (query, key)]
    return _share(_core(query / sizes[0], key / sizes[1]), without)


def _core(query: Array, key: Array) -> tuple[Array, Array, Array, Array]:
    """Return U, values and V' of the core R T', and the cosines between the orthonormal bases of both factors."""
    left, R = np.linalg.qr(query.T)
    right, T = np.linalg.qr(key.T)
    U, values, Vt = np.linalg.svd(R @ T.T)
    return U, values, Vt, left.T @ right


def _share(core: tuple[Array, Array, Array, Array], without: int) -> float:
    """Return the symmetric share ‖A + A'‖²/(4 ‖A‖²) = (1 + Tr A²/‖A‖²)/2 without the largest components.

    In the bases of the factors, Tr A² needs p x p matrices only.
    """
    U, values, Vt, angles = core
    inner = (U[:, without:] * values[without:]) @ Vt[without:] @ angles.T
    energy = float(values[without:] @ values[without:])
    share = 0.5 + 0.5 * float(np.sum(inner * inner.T)) / energy if energy > 0.0 else np.nan
    return float(np.clip(share, 0.0, 1.0))


def _symmetric(query: Array, key: Array) -> Array:
    """Return the eigenvalues of (A + A')/2 in the span of both factors.

    With the QR decomposition [W_Q' W_K'] = B [R T] they are those of (R T' + T R')/2.
    """
    p = len(query)
    both = np.linalg.qr(np.concatenate([query, key]).T)[1]
    core = both[:, :p] @ both[:, p:].T
    return np.asarray(np.linalg.eigvalsh(0.5 * (core + core.T))[::-1], dtype=np.float64)


def numerical_rank(query: Array, key: Array, values: Array) -> int:
    """Return how many of the singular ``values`` of A = W_Q'W_K, in descending order, are not zero.

    Values that rounding alone can produce count as zero: A has no higher rank than either factor, the rank of a factor
    is the number of its directions above the rounding error of its stored entries, and values within the rounding error
    of the products formed here are zero. Values that weight decay has left count as zero too: below a break in the
    spectrum at a thousandth of its largest value, all values are zeros, unless they are as close together as a bulk and
    either continue the values above or lie below only a few features, or unless they are so few that they are the lower
    end of the values above: a law that is continuous down to zero has a value below the break now and then, and a
    square random head has several.
    """
    most = min(_factor_rank(query), _factor_rank(key))
    remaining = values[:most][values[:most] > np.finfo(np.float64).eps * max(query.shape) * values[0]]
    count = 0
    while remaining.size:
        top, above = remaining[0], int(np.sum(remaining > BREAK_RATIO * remaining[0]))
        last, remaining, count = remaining[above - 1], remaining[above:], count + above
        if (
            remaining.size
            and remaining[-1] > LAW_END_RATIO * top
            and remaining.size <= _values_below_break(query.shape)
        ):
            return count + int(remaining.size)
        if not remaining.size or np.median(remaining) < BULK_COMPACTNESS * remaining[0]:
            break
        if last > MINIMUM_GAP * remaining[0] and count > len(values) // FEATURE_FRACTION:
            break
    return count


@lru_cache(maxsize=256)
def _values_below_break(shape: tuple[int, int]) -> int:
    """Return how many values below `BREAK_RATIO` a law without zeros may leave in a head of this shape.

    One for a law of constant density at zero, such as that of a trained head above its threshold. The squared singular
    values t of a square random head have the density sqrt(3)/(2π) t^(-2/3) near zero and end at 27/4, so that n F of
    its n values are below the break, F = 3 sqrt(3)/(2π) (27/4)^(1/3) BREAK_RATIO^(2/3); of heads that are almost
    square, twice this number and one more are allowed.
    """
    low, high = product_edges(shape[0] / shape[1])
    if low > HARD_EDGE_RATIO**2 * high:
        return 1
    below = min(shape) * 1.5 * np.sqrt(3.0) / np.pi * 6.75 ** (1.0 / 3.0) * BREAK_RATIO ** (2.0 / 3.0)
    return 1 + int(np.ceil(2.0 * below))


def _factor_rank(matrix: Array) -> int:
    """Return the number of singular values above the norm of the rounding errors of the stored entries.

    The rounding error of an entry is at most u |W_ij|, its root mean square u |W_ij|/√3. Independent errors of this
    size form a matrix of norm at most about u/√3 times the sum of the largest row norm and the largest column norm.
    """
    unit = matrix / (float(np.abs(matrix).max()) or 1.0)
    rows, columns = np.linalg.norm(unit, axis=1).max(), np.linalg.norm(unit, axis=0).max()
    limit = _unit_roundoff(matrix) / np.sqrt(3.0) * (rows + columns)
    return int(np.sum(np.linalg.svd(unit, compute_uv=False) > limit))


def _unit_roundoff(matrix: Array) -> float:
    """Return the unit roundoff of the shortest format that holds all entries: bfloat16, float16, float32 or float64."""
    with np.errstate(over="ignore", under="ignore"):
        single = matrix.astype(np.float32)
        if (single != matrix).any():
            return 2.0**-53
        if not (single.view(np.uint32) & 0xFFFF).any():
            return 2.0**-8
        return 2.0**-11 if (single.astype(np.float16) == single).all() else 2.0**-24


def effective_ranks(values: Array) -> dict[str, float]:
    """Return effective ranks: ``nuclear`` (Σσ)²/Σσ², ``stable`` Σσ²/σ₁² and ``entropy``, exp of the entropy of σ/Σσ."""
    values = values / values[0]
    total, energy = float(values.sum()), float(values @ values)
    shares = values[values > 0.0] / total
    return {
        "nuclear": total**2 / energy,
        "stable": energy,
        "entropy": float(np.exp(-np.sum(shares * np.log(shares)))),
    }
