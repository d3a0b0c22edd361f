"""Losses on fresh rows of two columns of an untied head with leading directions, without sampling (P13.1).

One row of two columns sees one logit difference, h_a1 - h_a2. Direction k adds its element times x (y_1 - y_2), the
query's coordinate times a difference of keys. Given x the logits are Gaussian, and E exp(-τ² x²) = 1/sqrt(1 + 2 τ²):
everything else is that of `onehead.aim.theory.output.leading_fresh_tied`.
"""

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from onehead.aim.theory.output.leading_fresh_tied import COARSE_FREQUENCY, FREQUENCY_MARGIN, RowLaw, Sines, sines_of
from onehead.numerics.jit import njit

Array = NDArray[np.float64]

ROW_VARIANCE = 2.0  # variance of the logit difference of a row, per unit of variance of a logit (U2.1)
LENGTHS = 35.0  # range of logits in units of the largest element: a mass e^(-35/1.41) = 2e-11 lies beyond


@final
class CrossRowLaw(RowLaw):
    """Law of the logit differences in one row of an untied head.

    A direction adds a product of two normals, of characteristic function 1/sqrt(1 + 2 τ²).
    """

    row_variance = ROW_VARIANCE
    lengths = LENGTHS

    @staticmethod
    def characteristic(w: Array, elements: Array, bulk: float) -> NDArray[np.complex128]:
        """E exp(i w u)."""
        return _characteristic(w, elements, bulk).astype(np.complex128)

    @staticmethod
    def along(sines: Sines, elements: Array, bulk: float) -> Array:
        """E tanh(u/2) upsilon^k: 2 element E x_k² tanh'(u/2), by Stein's lemma given x."""
        turned = _characteristic(sines.w, elements, bulk) / (1.0 + ROW_VARIANCE * (elements[:, None] * sines.w) ** 2)
        return np.asarray(ROW_VARIANCE * elements * (turned @ (sines.w * sines.weight)))

    @staticmethod
    def product(*numbers: Any) -> float:
        """E tanh(u/2) tanh(v/2)."""
        return float(_products(*numbers)[0])


def _characteristic(w: Array, elements: Array, bulk: float) -> Array:
    tau = elements[:, None] * w
    return np.asarray(np.exp(-0.5 * ROW_VARIANCE * bulk * w**2) / np.prod(np.sqrt(1.0 + ROW_VARIANCE * tau**2), axis=0))


@njit
def _products(w, weight, end, one, other, bulk, same):  # type: ignore[no-untyped-def]
    """E tanh(u/2) tanh(v/2), then the same times x_k² of every direction; ``end`` and ``same`` as for two tied
    tokens.
    """
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
                    square[k] = 1.0 + ROW_VARIANCE * (one[k] * w[i] + sign * other[k] * w[j]) ** 2
                    root *= square[k]
                exponent = bulk[0] * w[i] ** 2 + bulk[1] * w[j] ** 2 + 2.0 * sign * bulk[2] * w[i] * w[j]
                value = -0.5 * sign * times * np.exp(-0.5 * ROW_VARIANCE * exponent) / np.sqrt(root)
                found[0] += value
                for k in range(count):
                    found[1 + k] += value / square[k]
    return found


def cross_control_means(law: CrossRowLaw) -> Array | None:
    """Means of `cross_controls`; None where logits are too large for few frequencies."""
    sines = sines_of(law, COARSE_FREQUENCY)
    if sines is None:
        return None
    end, bulks = COARSE_FREQUENCY + FREQUENCY_MARGIN, (law.label_bulk, law.own_bulk, law.shared_bulk)
    return np.concatenate(
        [
            _products(*sines, end, law.label, law.label, (law.label_bulk,) * 3, True),
            _products(*sines, end, law.own, law.own, (law.own_bulk,) * 3, True),
            _products(*sines, end, law.label, law.own, bulks, False),
        ]
    )


def cross_controls(u: Array, v: Array, squares: Array) -> Array:
    """At every node tanh²(u*/2), tanh²(v/2) and their product, each by itself and times x_k² of every direction."""
    label, own = np.tanh(0.5 * u[:, :1]), np.tanh(0.5 * v[:, :1])
    weights = np.hstack([np.ones_like(label), squares])
    return np.hstack([label * label * weights, own * own * weights, label * own * weights])
