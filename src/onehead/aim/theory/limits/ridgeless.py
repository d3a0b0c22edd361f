"""The limit λ → 0⁺ of a map with a threshold, below interpolation, and the thresholds that follow from it (4).

Below interpolation the labels are fitted exactly, Sigma diverges as 1/λ, and no proximal operator is left: two
equations in (s, eps) remain. They hold for every loss that is smallest where the output equals the label.
"""

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from onehead.aim.theory.order_parameters import INFINITE, Interpolating, LabelStatistics, Overlaps, SpectralMap
from onehead.errors import OutsideDomain
from onehead.numerics.brent import brent_root
from onehead.spectra.law import Law, ThresholdIntegrals, threshold_integrals

if TYPE_CHECKING:
    from onehead.aim.theory.input.eigenvalues import Thresholded

HUGE = 1e11  # variance s, relative to the target's, that stands for infinity
TINY = 1e-9  # variance s of the smallest noise considered; integrals there are good to 1e-8


def _state(s: float, eps: float, part: ThresholdIntegrals, residual: float) -> Interpolating:
    """q = J, m = J + eps B - s A."""
    m = part.J + eps * part.B - s * part.A
    return Interpolating(Overlaps(part.J, m, INFINITE, part.B, part.rank, SpectralMap(s, eps, part.cut, 1.0)), residual)


def interpolating(channel: "Thresholded", labels: LabelStatistics, alpha: float, accuracy: float) -> Interpolating:
    """Solve A(s, eps) = 2 abar and J + 2 eps B = Q + 2 abar s with abar = α J_T (4.1); abar for 2 abar if untied (U4).

    Where tokens are not Gaussian, Q is larger by a multiple of (τ* - B)², and eps has a smallest value other than zero
    (P11.6). Of several roots the one with the largest s is returned. ``accuracy`` is that of log s and of eps; a coarse
    one serves as a start for the equations of λ > 0.
    """
    twice = channel.unit * alpha * labels.informative

    def at(log_s: float) -> tuple[float, ThresholdIntegrals]:
        """The eps with A(s, eps) = 2 abar, and the integrals there; A falls from A(s, 0) to zero at the upper edge."""
        law = channel.law(float(np.exp(log_s)))  # one law for all thresholds: its edges are the expensive part
        top = law.edges[-1][1]

        def A(eps: float) -> float:
            return threshold_integrals(law, eps, channel.width).A - twice

        least = _least(channel, labels, law)
        eps = brent_root(A, least, top, xtol=0.1 * accuracy * (1.0 + top)) if A(least) > 0.0 else least
        return eps, threshold_integrals(law, eps, channel.width)

    def excess(log_s: float) -> float:
        eps, part = at(log_s)
        return part.J + 2.0 * eps * part.B - _power(channel, labels, part) - part.A * float(np.exp(log_s))

    low = high = np.log(channel.target_power)
    while excess(low) > 0.0:
        low -= 2.0
        if low < np.log(TINY * channel.target_power):
            raise OutsideDomain("the labels are fitted by the target itself: recovery is perfect here.")
    while excess(high) < 0.0:
        high += 2.0
    root = brent_root(excess, low, high, xtol=accuracy)
    s, (eps, part) = float(np.exp(root)), at(root)
    power = _power(channel, labels, part)
    wrong = max(abs(part.A / twice - 1.0), abs((part.J + 2.0 * eps * part.B) / (power + twice * s) - 1.0))
    return _state(s, eps, part, wrong)


def interpolation(channel: "Thresholded", labels: LabelStatistics) -> tuple[float, Interpolating | None]:
    """Sample ratio up to which the labels are fitted exactly as λ → 0⁺, and the state there (4.2).

    eps = 0, or the least there is (P11.6), fixes s by J + 2 eps B - s A = Q; then α = A(s, eps) / (2 J_T). Without
    noise s → 0 and the state is the target, if it is representable; otherwise its unrepresentable part acts like noise,
    and s is positive. For a target whose eigenvalues have no positive mean s is infinite.
    """
    return _interpolation(replace(channel, decay=0.0), labels)  # the limit does not depend on the weight decay


@lru_cache(maxsize=256)
def _interpolation(channel: "Thresholded", labels: LabelStatistics) -> tuple[float, Interpolating | None]:
    twice = channel.unit * labels.informative

    def at(s: float) -> tuple[float, ThresholdIntegrals]:
        eps = _least(channel, labels, channel.law(s))
        return eps, channel.integrals(s, eps)

    def excess(log_s: float) -> float:
        s = float(np.exp(log_s))
        eps, part = at(s)
        return part.J + 2.0 * eps * part.B - s * part.A - _power(channel, labels, part)

    if labels.power - channel.representable_power < 5.0 * TINY * channel.target_power:  # the target is found at s = 0
        s = TINY * channel.target_power  # A approaches its limit like sqrt(s): one step of extrapolation removes that
        A = 2.0 * at(0.25 * s)[1].A - at(s)[1].A
        return A / twice, Interpolating(channel.recovered, 0.0)
    low = high = float(np.log(labels.power))  # laws with little blur are expensive: bracket from above
    while excess(low) > 0.0:
        low, high = low - 4.0, low
    while excess(high) < 0.0:
        low, high = high, high + 4.0
        if high > np.log(HUGE * channel.target_power):
            return at(HUGE * channel.target_power)[1].A / twice, None
    s = float(np.exp(brent_root(excess, low, high, xtol=1e-14)))
    eps, part = at(s)
    wrong = abs((part.J + 2.0 * eps * part.B - s * part.A) / _power(channel, labels, part) - 1.0)
    return part.A / twice, _state(s, eps, part, wrong)


def _power(channel: "Thresholded", labels: LabelStatistics, part: ThresholdIntegrals) -> float:
    """Return Q plus the contribution of the part of the trace that is not learned (P11.6)."""
    return labels.power + labels.trace_gain * (channel.scale * channel.target.mean - part.B) ** 2


def _least(channel: "Thresholded", labels: LabelStatistics, law: Law) -> float:
    """Return the threshold without weight decay: eps = - gain (τ* - B), which has one root because the gain is above -1
    (P11.6).
    """
    if labels.trace_gain == 0.0:
        return 0.0
    told, reach = channel.scale * channel.target.mean, law.edges[-1][1] - law.edges[0][0] + abs(law.edges[0][0])

    def gap(eps: float) -> float:
        return eps + labels.trace_gain * (told - threshold_integrals(law, eps, channel.width).B)

    low = -reach
    while gap(low) > 0.0:
        low *= 2.0
    high = reach
    while gap(high) < 0.0:
        high *= 2.0
    return brent_root(gap, low, high, xtol=1e-14 * reach)


def recovery(channel: "Thresholded", labels: LabelStatistics) -> float:
    """Return the sample ratio beyond which λ → 0⁺ finds a representable target exactly, without noise (4.4).

    With k the rank of the target and w the semicircle density on (-2, 2), c solves
    (1 - k) int_c^2 (t - c) w = k c and abar = k - k²/2 + (1 - k)²/2 int_c^2 t (t - c) w; 1/2 for k = 1.
    Untied, integrals count both signs and abar is twice as large: the statistical dimension of the nuclear norm (U4).
    For a learner narrower than the mass of t > c the integrals are cut at its width.
    """
    k, sides = channel.target.rank, channel.sides
    if k >= 1.0:
        return 1.0 / channel.unit / labels.informative
    spare = max(channel.width - k, 0.0) / (1.0 - k)
    narrow = -2.0 if spare >= 1.0 else brent_root(lambda t: sides * _tail(t, 0.0)[0] - spare, -2.0, 2.0, xtol=1e-15)

    def balance(c: float) -> float:
        cut = max(c, narrow)
        return (1.0 - k) * sides * _tail(cut, c)[1] - k * c

    c = brent_root(balance, 0.0, 2.0, xtol=1e-15)
    ratio = k - 0.5 * k**2 + 0.5 * (1.0 - k) ** 2 * sides * _tail(max(c, narrow), c)[2]
    return float(sides * ratio / labels.informative)


def _tail(cut: float, c: float) -> tuple[float, float, float]:
    """int_cut^2 of w, (t - c) w and t (t - c) w with w(t) = sqrt(4 - t²)/(2 pi)."""
    # t = 2 sin x turns the integrands into trigonometric polynomials
    x = float(np.arcsin(min(1.0, 0.5 * cut)))
    mass = 0.5 - (x + 0.5 * np.sin(2.0 * x)) / np.pi
    first = 4.0 / (3.0 * np.pi) * np.cos(x) ** 3
    second = 0.5 - (x - 0.25 * np.sin(4.0 * x)) / np.pi
    return float(mass), float(first - c * mass), float(second - c * first)
