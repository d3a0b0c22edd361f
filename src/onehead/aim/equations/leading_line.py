"""Averages over fresh rows of two columns of an untied head with leading directions, without sampling (P13.1).

One row of two columns sees one logit difference, h_a1 - h_a2. Direction k adds its strength times x (y_1 - y_2), the query's
coordinate times a difference of keys. Given x the logits are Gaussian, and E exp(-τ² x²) = 1/sqrt(1 + 2 τ²): everything else is that of
`onehead.aim.equations.leading_pair`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onehead.aim.equations.leading_pair import BEYOND, ROUGH, RowLaw, Sines, sines_of
from onehead.numerics.compiled import njit

__all__ = ["LineLaw", "line_control_means", "line_controls"]

Array = NDArray[np.float64]

SPREAD = 2.0  # variance of the logit difference of a row, per unit of variance of a logit (U2.1)
LENGTHS = 35.0  # of the largest strength, up to which logits are looked at: e^(-35/1.41) = 2e-11 of them lie beyond


class LineLaw(RowLaw):
    """The same for a row of an untied head: a direction adds a product of two normals, of characteristic function 1/sqrt(1 + 2 τ²)."""

    spread = SPREAD
    lengths = LENGTHS

    @staticmethod
    def characteristic(w: Array, strengths: Array, rest: float) -> NDArray[np.complex128]:
        """E exp(i w u)."""
        return _characteristic(w, strengths, rest).astype(np.complex128)

    @staticmethod
    def along(sines: Sines, strengths: Array, rest: float) -> Array:
        """E tanh(u/2) upsilon^k: 2 strength E x_k² tanh'(u/2), by Stein's lemma given x."""
        turned = _characteristic(sines.w, strengths, rest) / (1.0 + SPREAD * (strengths[:, None] * sines.w) ** 2)
        return np.asarray(SPREAD * strengths * (turned @ (sines.w * sines.weight)))

    @staticmethod
    def product(*numbers: Any) -> float:
        """E tanh(u/2) tanh(v/2)."""
        return float(_products(*numbers)[0])


def _characteristic(w: Array, strengths: Array, rest: float) -> Array:
    tau = strengths[:, None] * w
    return np.asarray(np.exp(-0.5 * SPREAD * rest * w**2) / np.prod(np.sqrt(1.0 + SPREAD * tau**2), axis=0))


@njit(cache=True, nogil=True, error_model="numpy")
def _products(w, weight, end, one, one_rest, other, other_rest, shared, same):  # type: ignore[no-untyped-def]
    """E tanh(u/2) tanh(v/2), then the same times x_k² of every direction; ``end`` and ``same`` as for two tied tokens."""
    count = one.shape[0]
    found, square = np.zeros(1 + count), np.empty(count)
    for i in range(w.shape[0]):
        for j in range(i if same else 0, w.shape[0]):
            if w[i] + w[j] > end:
                break
            times = (2.0 if same and j > i else 1.0) * weight[i] * weight[j]
            for sign in (-1.0, 1.0):  # sin a sin b = [cos(a - b) - cos(a + b)]/2
                root = 1.0
                for k in range(count):
                    square[k] = 1.0 + SPREAD * (one[k] * w[i] + sign * other[k] * w[j]) ** 2
                    root *= square[k]
                exponent = one_rest * w[i] ** 2 + other_rest * w[j] ** 2 + 2.0 * sign * shared * w[i] * w[j]
                value = -0.5 * sign * times * np.exp(-0.5 * SPREAD * exponent) / np.sqrt(root)
                found[0] += value
                for k in range(count):
                    found[1 + k] += value / square[k]
    return found


def line_control_means(law: LineLaw) -> Array | None:
    """Means of `line_controls`; None where logits are too large for few frequencies."""
    sines = sines_of(law, ROUGH)
    if sines is None:
        return None
    label, own, end = (law.label, law.label_rest), (law.own, law.own_rest), ROUGH + BEYOND
    return np.concatenate(
        [
            _products(*sines, end, *label, *label, law.label_rest, True),
            _products(*sines, end, *own, *own, law.own_rest, True),
            _products(*sines, end, *label, *own, law.shared_rest, False),
        ]
    )


def line_controls(u: Array, v: Array, squares: Array) -> Array:
    """At every node tanh²(u*/2), tanh²(v/2) and their product, each by itself and times x_k² of every direction."""
    label, own = np.tanh(0.5 * u[:, :1]), np.tanh(0.5 * v[:, :1])
    weights = np.hstack([np.ones_like(label), squares])
    return np.hstack([label * label * weights, own * own * weights, label * own * weights])
