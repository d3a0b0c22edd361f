"""Averages over fresh samples of two tokens with leading directions, without sampling: from characteristic functions (P5.1).

One row of two tokens sees one logit difference, h_11 - h_12. Direction k adds its strength times x_1² - 1 - x_1 x_2, whose
characteristic function is exp(-i t)/sqrt(1 - 2 i t + t²); the rest is Gaussian. A sigmoid is a series of sines,

    tanh(u/2) = (4 pi/P) sum_j sin(w_j u)/sinh(pi w_j),   w_j = (2j + 1) pi/P,   |u| < P/2,

so that an average of two of them is a double sum over frequencies of a product of K + 1 known functions.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.spectra.law import gauss_legendre

__all__ = ["HIGHEST", "ROUGH", "RowLaw", "control_means", "controls", "cross_entropy", "squared_error"]

Array = NDArray[np.float64]

SPREAD = 3.0  # variance of the logit difference of a row, per unit of variance of a coordinate (1.4)
HIGHEST = 7.5  # frequency: what is left of a sigmoid beyond is e^(-7.5 pi), 6e-11
DEVIATIONS, LENGTHS = 8.0, 60.0  # of the Gaussian part and of the largest strength, up to which logits are looked at
SHORTEST = 20.0  # period, of logits that hardly differ from zero
ROUGH = 4.5  # the same where 1e-6 is enough
MOST = 700  # frequencies
NODES = 200  # of an integral over frequencies


class RowLaw(NamedTuple):
    """Logit differences of label and learner in one row: strengths of both in the leading directions, variances and covariance of the rest."""

    label: Array
    own: Array
    label_rest: float
    own_rest: float
    shared_rest: float


class _Sines(NamedTuple):
    """Frequencies of a sigmoid and their weights."""

    w: Array
    weight: Array


def _sines(law: RowLaw, highest: float) -> _Sines | None:
    """As many as logits of this law need; None if they are too large for few."""
    size = max(law.label_rest, law.own_rest, 0.0)
    longest = float(max(np.abs(law.label).max(), np.abs(law.own).max()))
    period = max(2.0 * (DEVIATIONS * np.sqrt(SPREAD * size) + LENGTHS * longest), SHORTEST)
    count = int(np.ceil(highest * period / (2.0 * np.pi)))
    if count > MOST:
        return None
    w = (2.0 * np.arange(count) + 1.0) * np.pi / period
    return _Sines(w, 4.0 * np.pi / period / np.sinh(np.pi * w))


def _products(law: RowLaw, highest: float) -> tuple[float, float, float] | None:
    """E of tanh(u*/2)², tanh(v/2)² and tanh(u*/2) tanh(v/2)."""
    sines = _sines(law, highest)
    if sines is None:
        return None
    label, own = (law.label, law.label_rest), (law.own, law.own_rest)
    return (
        _product(sines, *label, *label, law.label_rest),
        _product(sines, *own, *own, law.own_rest),
        _product(sines, *label, *own, law.shared_rest),
    )


def squared_error(law: RowLaw, highest: float = HIGHEST) -> float | None:
    """E |softmax(v) - softmax(u*)|² over both rows, E (tanh(v/2) - tanh(u*/2))²; None where logits are too large for few frequencies."""
    found = _products(law, highest)
    return None if found is None else found[0] + found[1] - 2.0 * found[2]


def cross_entropy(law: RowLaw, highest: float = HIGHEST) -> float | None:
    """E of the cross-entropy over both rows, each log(2 cosh(v/2)) - tanh(u*/2) v/2 (P5.1); None as above.

    With phi the characteristic function of v, E log cosh(v/2) = ∫ (1 - Re phi)/(w sinh(pi w)) over w > 0.
    """
    sines = _sines(law, highest)
    if sines is None:
        return None
    place, weight = gauss_legendre(NODES)
    w = highest * place
    size = float(weight @ ((1.0 - _characteristic(w, law.own, law.own_rest).real) / (w * np.sinh(np.pi * w)))) * highest
    slope = _characteristic(sines.w, law.label, law.label_rest).real @ (sines.w * sines.weight)  # E of tanh(u*/2)'
    along = float(law.own @ _along(sines, law.label, law.label_rest)) + SPREAD * law.shared_rest * float(slope)
    return float(2.0 * (np.log(2.0) + size - 0.5 * along))


def _characteristic(w: Array, strengths: Array, rest: float) -> NDArray[np.complex128]:
    """E exp(i w u)."""
    tau = strengths[:, None] * w
    return np.asarray(
        np.exp(-0.5 * SPREAD * rest * w**2 - 1j * tau.sum(axis=0)) / np.prod(np.sqrt(1.0 - 2.0j * tau + tau**2), axis=0)
    )


def _product(sines: _Sines, one: Array, one_rest: float, other: Array, other_rest: float, shared: float) -> float:
    """E tanh(u/2) tanh(v/2)."""
    along, across = np.meshgrid(sines.w, sines.w, indexing="ij")
    total = np.zeros(along.shape)
    for sign in (-1.0, 1.0):  # sin a sin b = [cos(a - b) - cos(a + b)]/2
        exponent = one_rest * along**2 + other_rest * across**2 + 2.0 * sign * shared * along * across
        phase, log_size = np.zeros(along.shape), -0.5 * SPREAD * exponent
        for s, t in zip(one.tolist(), other.tolist(), strict=True):
            tau = s * along + sign * t * across
            # 1 - 2 i tau + tau², whose real part is positive: half its logarithm, and the shift by minus one
            log_size -= 0.25 * np.log((1.0 + tau**2) ** 2 + 4.0 * tau**2)
            phase += 0.5 * np.arctan2(2.0 * tau, 1.0 + tau**2) - tau
        total -= 0.5 * sign * np.exp(log_size) * np.cos(phase)
    return float(sines.weight @ total @ sines.weight)


def _along(sines: _Sines, strengths: Array, rest: float) -> Array:
    """E tanh(u/2) upsilon^k of every direction: the derivative of the characteristic function in its strength."""
    tau = strengths[:, None] * sines.w
    turned = _characteristic(sines.w, strengths, rest) * ((1.0 + 1j * tau) / (1.0 - 2.0j * tau + tau**2) - 1.0)
    return np.asarray(turned.imag @ sines.weight)


def controls(u: Array, v: Array, upsilon: Array) -> Array:
    """At every node of a sample of two tokens, numbers whose means `control_means` knows."""
    label, own = np.tanh(0.5 * u), np.tanh(0.5 * v)
    squares = [np.einsum("ni,ni->n", a, b) for a, b in ((label, label), (own, own), (label, own))]
    along = [np.einsum("ni,nki->nk", sigmoid, upsilon) for sigmoid in (label, own)]
    return np.column_stack([*squares, *along])


def control_means(law: RowLaw) -> Array | None:
    """Their means, over both rows."""
    sines, products = _sines(law, ROUGH), _products(law, ROUGH)
    if sines is None or products is None:
        return None
    along = [_along(sines, law.label, law.label_rest), _along(sines, law.own, law.own_rest)]
    return 2.0 * np.concatenate([products, *along])
