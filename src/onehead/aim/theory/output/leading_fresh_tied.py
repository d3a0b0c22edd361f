"""Losses on fresh samples of two tied tokens with leading directions, without sampling: by characteristic functions
(P5.1).

One row of two tokens sees one logit difference, h_11 - h_12. Direction k adds its element times x_1² - 1 - x_1 x_2,
whose characteristic function is exp(-i t)/sqrt(1 - 2 i t + t²); the bulk is Gaussian. A sigmoid is a series of sines,

    tanh(u/2) = (4 pi/P) sum_j sin(w_j u)/sinh(pi w_j),   w_j = (2j + 1) pi/P,   |u| < P/2,

so that an average of two of them is a double sum over frequencies of a product of K + 1 known functions.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from onehead.numerics.jit import njit
from onehead.spectra.law import gauss_legendre

Array = NDArray[np.float64]

ROW_VARIANCE = 3.0  # variance of the logit difference of a row, per unit of variance of a coordinate (1.4)
HIGHEST_FREQUENCY = 7.5  # in the series of a sigmoid: the terms beyond sum to e^(-7.5 pi), 6e-11
COARSE_FREQUENCY = 4.5  # in the series of a sigmoid where an error of 1e-6 is enough, in the range of logits too
# range of logits in deviations of the Gaussian part and in units of the largest element: a mass e^(-60/2.41) = 2e-11
# lies beyond
DEVIATIONS, LENGTHS = 8.0, 60.0
SHORTEST_PERIOD = 20.0  # of the series, for logits that hardly differ from zero
FREQUENCY_MARGIN = 1.0  # pairs of frequencies whose sum exceeds the highest by more contribute nothing
MAXIMUM_FREQUENCIES = 700
FREQUENCY_NODES = 200  # of an integral over frequencies


class Sines(NamedTuple):
    """Frequencies of a sigmoid and their weights."""

    w: Array
    weight: Array


@dataclass(frozen=True, eq=False)
class RowLaw(ABC):
    """Abstract law of the logit differences of label and learner in one row of two columns.

    Attributes
    ----------
    label, own : array
        Elements of target and map in the leading directions.
    label_bulk, own_bulk, shared_bulk : float
        Variances of label and learner and their covariance in the Gaussian bulk.
    """

    row_variance: ClassVar[float]  # of the logit difference, per unit of variance of the bulk
    lengths: ClassVar[float]  # range of logits, in units of the largest element

    label: Array
    own: Array
    label_bulk: float
    own_bulk: float
    shared_bulk: float

    @staticmethod
    @abstractmethod
    def characteristic(w: Array, elements: Array, bulk: float) -> NDArray[np.complex128]:
        """E exp(i w u)."""

    @staticmethod
    @abstractmethod
    def along(sines: Sines, elements: Array, bulk: float) -> Array:
        """E tanh(u/2) upsilon^k of every direction."""

    @staticmethod
    @abstractmethod
    def product(*numbers: Any) -> float:
        """E tanh(u/2) tanh(v/2)."""


@final
class TiedRowLaw(RowLaw):
    """Law of the logit differences in one row of two tied tokens."""

    row_variance = ROW_VARIANCE
    lengths = LENGTHS

    @staticmethod
    def characteristic(w: Array, elements: Array, bulk: float) -> NDArray[np.complex128]:
        """E exp(i w u)."""
        return _characteristic(w, elements, bulk)

    @staticmethod
    def along(sines: Sines, elements: Array, bulk: float) -> Array:
        """E tanh(u/2) upsilon^k of every direction."""
        return _along(sines, elements, bulk)

    @staticmethod
    def product(*numbers: Any) -> float:
        """E tanh(u/2) tanh(v/2)."""
        return float(_product(*numbers))


def sines_of(law: RowLaw, highest: float) -> Sines | None:
    """Return as many frequencies as logits of this law need; None if these are more than `MAXIMUM_FREQUENCIES`."""
    size, share = max(law.label_bulk, law.own_bulk, 0.0), highest / HIGHEST_FREQUENCY
    longest = float(max(np.abs(law.label).max(), np.abs(law.own).max()))
    reach = DEVIATIONS * np.sqrt(share * law.row_variance * size) + law.lengths * share * longest
    period = max(2.0 * reach, SHORTEST_PERIOD)
    count = int(np.ceil(highest * period / (2.0 * np.pi)))
    if count > MAXIMUM_FREQUENCIES:
        return None
    w = (2.0 * np.arange(count) + 1.0) * np.pi / period
    return Sines(w, 4.0 * np.pi / period / np.sinh(np.pi * w))


def _products(law: RowLaw, highest: float) -> tuple[float, float, float] | None:
    """E of tanh(u*/2)², tanh(v/2)² and tanh(u*/2) tanh(v/2)."""
    sines = sines_of(law, highest)
    if sines is None:
        return None
    end = highest + FREQUENCY_MARGIN
    return (
        _label_product(type(law), tuple(law.label.tolist()), law.label_bulk, highest),
        law.product(*sines, end, law.own, law.own, (law.own_bulk,) * 3, True),
        law.product(*sines, end, law.label, law.own, (law.label_bulk, law.own_bulk, law.shared_bulk), False),
    )


@lru_cache(maxsize=64)
def _label_product(kind: type[RowLaw], target: tuple[float, ...], bulk: float, highest: float) -> float:
    """E of tanh(u*/2)², which does not depend on the state of the learner."""
    label = np.array(target)
    sines = sines_of(kind(label, label, bulk, bulk, bulk), highest)
    assert sines is not None  # the learner's logits are no smaller
    return kind.product(*sines, highest + FREQUENCY_MARGIN, label, label, (bulk,) * 3, True)


def squared_error(law: RowLaw, highest: float = HIGHEST_FREQUENCY) -> float | None:
    """E |softmax(v) - softmax(u*)|² over both rows, E (tanh(v/2) - tanh(u*/2))²; None where logits are too large for
    few frequencies.
    """
    found = _products(law, highest)
    # of the label itself what is left is rounding, of either sign
    return None if found is None else max(found[0] + found[1] - 2.0 * found[2], 0.0)


def cross_entropy(law: RowLaw, highest: float = HIGHEST_FREQUENCY) -> float | None:
    """E of the cross-entropy over both rows, each log(2 cosh(v/2)) - tanh(u*/2) v/2 (P5.1); None where logits are too
    large for few frequencies.

    With phi the characteristic function of v, E log cosh(v/2) = ∫ (1 - Re phi)/(w sinh(pi w)) over w > 0.
    """
    sines = sines_of(law, highest)
    if sines is None:
        return None
    place, weight = gauss_legendre(FREQUENCY_NODES)
    w = highest * place
    turned = law.characteristic(w, law.own, law.own_bulk).real
    size = float(weight @ ((1.0 - turned) / (w * np.sinh(np.pi * w)))) * highest
    slope = law.characteristic(sines.w, law.label, law.label_bulk).real @ (sines.w * sines.weight)  # E of tanh(u*/2)'
    along = float(law.own @ law.along(sines, law.label, law.label_bulk)) + law.row_variance * law.shared_bulk * float(
        slope
    )
    return float(2.0 * (np.log(2.0) + size - 0.5 * along))


def _characteristic(w: Array, elements: Array, bulk: float) -> NDArray[np.complex128]:
    """E exp(i w u)."""
    tau = elements[:, None] * w
    return np.asarray(
        np.exp(-0.5 * ROW_VARIANCE * bulk * w**2 - 1j * tau.sum(axis=0))
        / np.prod(np.sqrt(1.0 - 2.0j * tau + tau**2), axis=0)
    )


@njit
def _product(w, weight, end, one, other, bulk, same):  # type: ignore[no-untyped-def]
    """E tanh(u/2) tanh(v/2), over pairs of frequencies whose sum is below ``end``.

    ``one`` and ``other`` are the elements of u and v in the directions, ``bulk`` holds the bulk powers of u and v and
    their covariance, and ``same`` says that u is v.
    """
    total, phase, phase_other = 0.0, one.sum(), other.sum()
    for i in range(w.shape[0]):
        inner = 0.0
        for j in range(i if same else 0, w.shape[0]):
            if w[i] + w[j] > end:
                break
            both = 0.0
            for sign in (-1.0, 1.0):  # sin a sin b = [cos(a - b) - cos(a + b)]/2
                real, imaginary, square = 1.0, 0.0, 1.0  # of the product of all roots
                for k in range(one.shape[0]):
                    tau = one[k] * w[i] + sign * other[k] * w[j]
                    part, length = 1.0 + tau * tau, np.sqrt((1.0 + tau * tau) ** 2 + 4.0 * tau * tau)
                    x = np.sqrt(0.5 * (length + part))  # of the root of 1 - 2 i tau + tau², whose real part is positive
                    y = -tau / x
                    real, imaginary, square = real * x - imaginary * y, real * y + imaginary * x, square * length
                exponent = bulk[0] * w[i] ** 2 + bulk[1] * w[j] ** 2 + 2.0 * sign * bulk[2] * w[i] * w[j]
                angle = phase * w[i] + sign * phase_other * w[j]
                size = np.exp(-0.5 * ROW_VARIANCE * exponent) / square
                both -= 0.5 * sign * size * (np.cos(angle) * real - np.sin(angle) * imaginary)
            inner += (2.0 if same and j > i else 1.0) * weight[j] * both
        total += weight[i] * inner
    return total


def _along(sines: Sines, elements: Array, bulk: float) -> Array:
    """E tanh(u/2) upsilon^k of every direction: the derivative of the characteristic function in its strength."""
    tau = elements[:, None] * sines.w
    turned = _characteristic(sines.w, elements, bulk) * ((1.0 + 1j * tau) / (1.0 - 2.0j * tau + tau**2) - 1.0)
    return np.asarray(turned.imag @ sines.weight)


@njit
def controls(u, v, upsilon, out):  # type: ignore[no-untyped-def]
    """Fill the control variates of two tokens at every node; their means are those of `control_means`."""
    count = upsilon.shape[1]
    for node in range(u.shape[0]):
        out[node, : 3 + 2 * count] = 0.0
        for i in range(2):
            label, own = np.tanh(0.5 * u[node, i]), np.tanh(0.5 * v[node, i])
            out[node, 0] += label * label
            out[node, 1] += own * own
            out[node, 2] += label * own
            for k in range(count):
                out[node, 3 + k] += label * upsilon[node, k, i]
                out[node, 3 + count + k] += own * upsilon[node, k, i]


def control_means(law: RowLaw) -> Array | None:
    """Return the means of `controls`, summed over both rows; None where logits are too large for few frequencies."""
    sines, products = sines_of(law, COARSE_FREQUENCY), _products(law, COARSE_FREQUENCY)
    if sines is None or products is None:
        return None
    along = [_along(sines, law.label, law.label_bulk), _along(sines, law.own, law.own_bulk)]
    return 2.0 * np.concatenate([products, *along])
