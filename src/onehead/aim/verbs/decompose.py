"""decompose(): the excess test error as underfitting, approximation, overfitting and mismatch (8; our definition)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onehead.aim.task import Learner, Task
from onehead.aim.theory.build import build_state_evolution
from onehead.aim.theory.input.channel import InputChannel
from onehead.aim.theory.limits.infinite_data import plateau_of
from onehead.aim.theory.order_parameters import SpectralMap
from onehead.aim.theory.state_evolution import StateEvolution
from onehead.aim.verbs.implicit_derivatives import error_partials
from onehead.aim.verbs.outliers import noise_bulk
from onehead.aim.verbs.predict import Prediction, predict
from onehead.errors import InvalidArgument, OutsideDomain
from onehead.results import Certificate, Result
from onehead.spectra.law import gauss_legendre
from onehead.validation import checked, instance

Array = NDArray[np.float64]

SEGMENT_NODES = 6  # Gauss-Legendre nodes on the segment from the plateau to (q, m)
GAUSSIAN_PARTS = "the parts are computed with Gaussian logits (leading 0) and add up to the excess error of these"


@dataclass(frozen=True, kw_only=True)
class Decomposition(Result):
    """The excess test error over the plateau of infinitely many samples, in four parts that sum to it.

    Where no map of the learner equals the target, the part of the target that none can represent belongs to the
    plateau.

    Attributes
    ----------
    excess_error : float
        Test error minus its limit for infinitely many samples.
    underfitting : float
        Part from directions that weight decay keeps at zero.
    approximation : float
        Part from learned features that are wrong in size or direction; logits that all queries share count as one.
    overfitting : float
        Part from noise that was learned.
    mismatch : float
        Part from an overall change of size; it vanishes to first order at the plateau and may be negative.
    distance : float
        |S - c S*|²/d in the units of S, the distance that the first three parts belong to.
    gap : float
        Sum of the four parts minus the excess error, relative to it.
    certificate : Certificate
        Certificate of the prediction.
    point : Prediction
        The prediction.
    """

    excess_error: float
    underfitting: float
    approximation: float
    overfitting: float
    mismatch: float
    distance: float
    gap: float
    certificate: Certificate
    point: Prediction


@checked(point=instance(Prediction, "a result of predict"))
def decompose(point: Prediction) -> Decomposition:
    """Split the excess error of a prediction into four parts (8.2, 8.3).

    The distance |S - c S*|²/d is an integral over x of the blurred target law, with a non-negative integrand; the range
    of x is divided at the threshold and at the upper edge of the noise bulk. With the partial derivatives of the error
    averaged over the segment from the plateau to (q, m), excess = E_q distance + (E_m + 2 c E_q)(m - c P²) exactly,
    where P² is the part of Q0 that the learner can represent. Where queries have a mean, q, m and P² are those of whole
    rows (D2.1), and the distance has one more term, (c_u - c)² G, from the scale c_u of the logits that all queries
    share. A prediction with leading directions is solved again with
    Gaussian logits (P8).

    Parameters
    ----------
    point : Prediction
        A prediction of `predict`.

    Returns
    -------
    Decomposition
        The four parts, their sum and the remaining gap.

    Raises
    ------
    InvalidArgument
        If the tokens have a kurtosis other than 3 that the head depends on.
    OutsideDomain
        If the map has two sectors.

    Examples
    --------
    >>> from onehead.aim import Learner, PowerLaw, Task, decompose, predict
    >>> task = Task(target=PowerLaw(gamma=0.75, dim=200))
    >>> parts = decompose(predict(task, Learner(weight_decay=1 / 200), alpha=0.25))
    >>> [round(part / parts.excess_error, 2) for part in (parts.overfitting, parts.underfitting, parts.approximation)]
    [0.84, 0.15, 0.1]
    """
    check_decomposable(point.task, point.learner)
    warnings = point.certificate.warnings
    if point.directions:
        point = predict(point.task, point.learner.gaussian, point.alpha)
        warnings = (*point.certificate.warnings, GAUSSIAN_PARTS)
    problem = point.equations
    q, m = problem.units.reduced(point.q, point.m)
    end = plateau_of(problem)
    c, known = end.c, problem.directions
    learned, power = np.array(known.learned_of(point, problem.units)), end.power + known.separate_power
    q, m = known.output_values(np.array([q]), np.array([m]), learned)
    by_q, by_m = _averaged_partials(problem, (c * c * power, c * power), (q, m))
    spectral_map = SpectralMap(point.spread, point.threshold, point.cut, point.slope * point.learner.beta)
    under, over, features = distance_parts(problem.input, spectral_map, point.rank, c)
    features += float(np.sum((learned - c * np.array(known.target_eigenvalues)) ** 2))
    mismatch = (by_m + 2.0 * c * by_q) * (m - c * power)
    parts = (by_q * under, by_q * features, by_q * over, mismatch)
    gap = (sum(parts) - point.excess_error) / point.excess_error if point.excess_error else 0.0
    return Decomposition(
        excess_error=point.excess_error,
        underfitting=parts[0],
        approximation=parts[1],
        overfitting=parts[2],
        mismatch=parts[3],
        distance=problem.units.own(under + over + features, 0.0)[0],
        gap=gap,
        certificate=Certificate.of(point.certificate, evaluations=0, warnings=warnings),
        point=point,
    )


def check_decomposable(task: Task, learner: Learner) -> None:
    """Refuse a head with two sectors, and tokens of another kurtosis or with a mean that enter a token's own logit: no
    decomposition is derived for these.
    """
    if task.own_field:
        raise InvalidArgument(
            "unasked", task.unasked, "0 to split the error of a head that sees its own logit into parts"
        )
    if task.depends_on_kurtosis:
        raise InvalidArgument("kurtosis", task.kurtosis, "3 to split the error into parts")
    if build_state_evolution(task, learner).output.geometry.sectors > 1:
        raise OutsideDomain(
            "the error of self-attention that sees its own logit depends on two sectors of the map and is not split; "
            "use attention "
            "cross, mask strict, or a tied head."
        )


def _averaged_partials(
    problem: StateEvolution, start: tuple[float, float], end: tuple[float, float]
) -> tuple[float, float]:
    """Partial derivatives (E_q, E_m) averaged over a segment of overlaps, by Gauss-Legendre quadrature."""
    if start == end:  # at the plateau the excess is zero
        return 0.0, 0.0
    node, weight = gauss_legendre(SEGMENT_NODES)
    pairs = np.array(start) + node[:, None] * (np.array(end) - np.array(start))
    partials = np.array([error_partials(problem, float(q), float(m)) for q, m in pairs])
    by_q, by_m = weight @ partials
    return float(by_q), float(by_m)


def distance_parts(
    channel: InputChannel, spectral_map: SpectralMap, rank: float, c: float
) -> tuple[float, float, float]:
    """Integrals ∫ rho [s_x² - 2 c s_x E(λ|x) + c² E(λ²|x)] below the threshold, in the noise bulk, and above it (8.2).

    E(λ|x) = x - 2 s Re g and E(λ²|x) = a² - b² - 2 a (x - a) + s with a = x - s Re g, b = pi s rho; s_x is the learned
    eigenvalue, slope (x - eps)_+, in reduced units. Eigenvalues that no map can represent do not count: negative ones
    are left out of E(λ²|x), positive ones beyond the width are subtracted from the first part, which contains them; so
    no part is negative. For singular values the learned one is odd in x, and both signs count (U3).
    """
    s, eps, cut, slope = spectral_map
    if rank == 0.0:
        return c * c * channel.representable_power, 0.0, 0.0
    if s <= 0.0:  # the target itself
        return 0.0, 0.0, (1.0 - c) ** 2 * channel.target_power
    law = channel.law(s)
    if law.sides == 2:
        cut = max(cut, 0.0)
    top = max(noise_bulk(law)[1], cut)
    bounds = ((-np.inf if law.sides == 1 else 0.0, cut), (cut, top), (top, np.inf))
    sums, unrepresentable = [], []
    for low, high in bounds:
        x, mass, hilbert = law.nodes(low, high)
        mass = law.sides * mass
        a, b = x - s * hilbert, np.pi * s * law.density(x)
        learned = slope * (x - eps) if high > cut else np.zeros(x.shape)
        second = a**2 - b**2 - 2.0 * a * (x - a) + s
        sums.append(float(mass @ (learned**2 - 2.0 * c * learned * (2.0 * a - x) + c * c * second)))
        unrepresentable.append(_negative_power(channel, s * mass, a, b) if high > cut else 0.0)
    # the first part takes what remains, so that the sum is exact
    unrepresentable[0] = channel.target_power - channel.representable_power - sum(unrepresentable)
    under, over, features = (part - c * c * power for part, power in zip(sums, unrepresentable, strict=True))
    return under, over, features


def _negative_power(channel: InputChannel, weight: Array, a: Array, b: Array) -> float:
    """Integral ∫ rho E(λ²|x) over negative eigenvalues λ, which have the share w s/((a - λ)² + b²) at x (8.2)."""
    values, masses = channel.unrepresentable_spectrum
    total = 0.0
    # a loop over λ, because an array over both x and λ may be too large
    for value, mass in zip(values[values < 0.0], masses[values < 0.0], strict=True):
        total += float(mass * value**2 * np.sum(weight / ((a - value) ** 2 + b**2)))
    return total
