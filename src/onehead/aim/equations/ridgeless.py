"""The limit λ → 0⁺ below interpolation, and the thresholds that follow from it (4).

Below interpolation the labels are fitted exactly, Sigma diverges as 1/λ, and no proximal operator is left: two equations
in (s, eps) remain. They hold for every loss that is smallest where the output equals the label.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from onehead.aim.equations.state_evolution import Reduced
from onehead.errors import OutsideDomain
from onehead.spectra.law import ThresholdIntegrals, threshold_integrals

__all__ = ["Interpolating", "bayes_optimal", "direct_threshold", "interpolating", "interpolation", "recovery"]

HUGE = 1e11  # variance s, relative to that of the target, which stands for infinity
TINY = 1e-9  # variance s of the smallest noise considered; integrals there are good to 1e-8


@dataclass(frozen=True, kw_only=True)
class Interpolating:
    """A point where the training labels are fitted exactly."""

    s: float
    eps: float
    integrals: ThresholdIntegrals
    residual: float

    @property
    def q(self) -> float:
        """q = J."""
        return self.integrals.J

    @property
    def m(self) -> float:
        """m = J + eps B - s A."""
        part = self.integrals
        return part.J + self.eps * part.B - self.s * part.A


def interpolating(problem: Reduced, alpha: float, accuracy: float = 1e-13) -> Interpolating:
    """Solve A(s, eps) = 2 abar and J + 2 eps B = Q + 2 abar s with abar = α J_T (4.1).

    ``accuracy`` is that of log s and of eps; a rough one serves to start the equations of λ > 0.
    """
    from scipy.optimize import brentq  # noqa: PLC0415

    twice = 2.0 * alpha * problem.informative

    def at(log_s: float) -> tuple[float, ThresholdIntegrals]:
        """The eps with A(s, eps) = 2 abar, and the integrals there; A falls from A(s, 0) to zero at the upper edge."""
        law = problem.law(float(np.exp(log_s)))  # one law for all thresholds: its edges are the expensive part
        top = law.edges[-1][1]

        def A(eps: float) -> float:
            return threshold_integrals(law, eps, problem.width).A - twice

        eps = float(brentq(A, 0.0, top, xtol=0.1 * accuracy * (1.0 + top))) if A(0.0) > 0.0 else 0.0
        return eps, threshold_integrals(law, eps, problem.width)

    def excess(log_s: float) -> float:
        eps, part = at(log_s)
        return part.J + 2.0 * eps * part.B - problem.label_power - part.A * float(np.exp(log_s))

    low = high = np.log(problem.target_power)
    while excess(low) > 0.0:
        low -= 2.0
        if low < np.log(TINY):
            raise OutsideDomain("the labels are fitted by the target itself: recovery is perfect here.")
    while excess(high) < 0.0:
        high += 2.0
    root = float(brentq(excess, low, high, xtol=accuracy))
    s, (eps, part) = float(np.exp(root)), at(root)
    wrong = max(
        abs(part.A / twice - 1.0),
        abs((part.J + 2.0 * eps * part.B) / (problem.label_power + twice * s) - 1.0),
    )
    return Interpolating(s=s, eps=eps, integrals=part, residual=wrong)


def interpolation(problem: Reduced) -> tuple[float, Interpolating | None]:
    """Sample ratio up to which the labels are fitted exactly as λ → 0⁺, and the state there (4.2).

    eps = 0 fixes s by J(s, 0) - s A(s, 0) = Q; then α = A(s, 0) / (2 J_T). Without noise s → 0 and the state is the target.
    A target whose eigenvalues have no positive mean is never met by one without negative eigenvalues: s is infinite.
    """
    if problem.direct:
        return direct_threshold(problem), None
    return _interpolation(problem if problem.decay == 0.0 else replace(problem, decay=0.0))


@lru_cache(maxsize=256)
def _interpolation(problem: Reduced) -> tuple[float, Interpolating | None]:
    """The same for factors; the limit does not know the weight decay it came from."""
    from scipy.optimize import brentq  # noqa: PLC0415

    def excess(log_s: float) -> float:
        s = float(np.exp(log_s))
        part = problem.integrals(s, 0.0)
        return part.J - s * part.A - problem.label_power

    if problem.noise < 10.0 * TINY * problem.target_power:  # no noise: the root is at s = 0
        s = TINY * problem.target_power  # A approaches its limit like sqrt(s): one step of extrapolation removes that
        A = 2.0 * problem.integrals(0.25 * s, 0.0).A - problem.integrals(s, 0.0).A
        return A / (2.0 * problem.informative), None
    low = high = float(np.log(problem.label_power))  # laws with little blur are the expensive ones: come from above
    while excess(low) > 0.0:
        low, high = low - 4.0, low
    while excess(high) < 0.0:
        low, high = high, high + 4.0
        if high > np.log(HUGE * problem.target_power):
            return problem.integrals(HUGE * problem.target_power, 0.0).A / (2.0 * problem.informative), None
    s = float(np.exp(brentq(excess, low, high, xtol=1e-14)))
    part = problem.integrals(s, 0.0)
    wrong = abs((part.J - s * part.A) / problem.label_power - 1.0)
    return part.A / (2.0 * problem.informative), Interpolating(s=s, eps=0.0, integrals=part, residual=wrong)


def recovery(problem: Reduced) -> float:
    """Sample ratio beyond which λ → 0⁺ finds the target exactly, without noise (4.4).

    With k the rank of the target and w the semicircle density on (-2, 2), c solves
    (1 - k) int_c^2 (t - c) w = k c and abar = k - k²/2 + (1 - k)²/2 int_c^2 t (t - c) w; 1/2 for k = 1.
    A learner too narrow to keep all of t > c cuts the integrals at its own width.
    """
    from scipy.optimize import brentq  # noqa: PLC0415

    k = problem.target.rank
    if problem.direct or k >= 1.0:
        return direct_threshold(problem)
    if problem.width < k:
        raise OutsideDomain("a learner narrower than the target never recovers it.")
    spare = (problem.width - k) / (1.0 - k)
    narrow = -2.0 if spare >= 1.0 else brentq(lambda t: _tail(t, 0.0)[0] - spare, -2.0, 2.0, xtol=1e-15)

    def balance(c: float) -> float:
        cut = max(c, narrow)
        return (1.0 - k) * _tail(cut, c)[1] - k * c

    c = brentq(balance, 0.0, 2.0, xtol=1e-15)
    ratio = k - 0.5 * k**2 + 0.5 * (1.0 - k) ** 2 * _tail(max(c, narrow), c)[2]
    return float(ratio / problem.informative)


def _tail(cut: float, c: float) -> tuple[float, float, float]:
    """int_cut^2 of w, (t - c) w and t (t - c) w with w(t) = sqrt(4 - t²)/(2 pi)."""
    # t = 2 sin x turns the integrands into trigonometric polynomials
    x = float(np.arcsin(min(1.0, 0.5 * cut)))
    mass = 0.5 - (x + 0.5 * np.sin(2.0 * x)) / np.pi
    first = 4.0 / (3.0 * np.pi) * np.cos(x) ** 3
    second = 0.5 - (x - 0.25 * np.sin(4.0 * x)) / np.pi
    return float(mass), float(first - c * mass), float(second - c * first)


def bayes_optimal(problem: Reduced) -> float:
    """Strong recovery by the Bayes-optimal learner, abar = k - k²/2 (k < 1), 1/2 otherwise (4.5; not re-derived)."""
    k = min(problem.target.rank, 1.0)
    return (k - 0.5 * k**2) / problem.informative


def direct_threshold(problem: Reduced) -> float:
    """Interpolation and recovery of direct training: abar = 1/2 whatever the target (4.5, 6)."""
    return 0.5 / problem.informative
