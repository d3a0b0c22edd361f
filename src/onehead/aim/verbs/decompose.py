"""Where the error comes from: underfitting, approximation, overfitting and mismatch (8; our definition)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onehead.aim.equations.head import equations_of
from onehead.aim.equations.input import InputChannel
from onehead.aim.equations.plateau import plateau_of
from onehead.aim.equations.state_evolution import StateEvolution
from onehead.aim.equations.unknowns import SpectralMap
from onehead.aim.task import Learner, Task
from onehead.aim.verbs.outliers import noise_bulk
from onehead.aim.verbs.predict import Prediction, predict
from onehead.aim.verbs.response import error_partials
from onehead.arguments import checked, instance
from onehead.errors import InvalidArgument, OutsideDomain
from onehead.results import Certificate, Result
from onehead.spectra.law import gauss_legendre

__all__ = ["SPLIT", "Decomposition", "check_split", "decompose", "distance_parts"]

Array = NDArray[np.float64]

SEGMENT_NODES = 6
SPLIT = "the parts are those of Gaussian logits (leading 0), and add up to its excess error"


@dataclass(frozen=True, kw_only=True)
class Decomposition(Result):
    """The excess test error over the plateau of infinitely many samples, in four parts that sum to it.

    ``underfitting``: directions that weight decay keeps at zero. ``approximation``: learned features, wrong in size or
    direction. ``overfitting``: noise that was learned. ``mismatch``: what an overall change of size accounts for; it
    vanishes to first order at the plateau and may be negative. ``distance`` is |S - c S*|²/d, the first three in units
    of S, and ``gap`` what the four parts miss of the excess, relative to it. Where no map of the learner equals the target, what
    none can hold is no part of the distance: it is in the plateau.
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


@checked(point=instance(Prediction, "the answer of predict"))
def decompose(point: Prediction) -> Decomposition:
    """Split the excess error of a prediction (8.2, 8.3).

    The distance |S - c S*|²/d is an integral over the locations x of the blurred target law, with a non-negative integrand;
    it is cut at the threshold, and above it at the upper edge of the noise bulk. With the partial derivatives of the
    error averaged over the segment from the plateau to (q, m), excess = E_q distance + (E_m + 2 c E_q)(m - c P²) exactly, P²
    being Q0 without what no map can hold. A prediction with leading directions is solved again with Gaussian logits, whose parts these
    are (P8).

    Examples
    --------
    >>> from onehead.aim import Learner, PowerLaw, Task, decompose, predict
    >>> task = Task(target=PowerLaw(gamma=0.75, dim=200))
    >>> parts = decompose(predict(task, Learner(weight_decay=1 / 200), alpha=0.25))
    >>> [round(part / parts.excess_error, 2) for part in (parts.overfitting, parts.underfitting, parts.approximation)]
    [0.84, 0.15, 0.1]
    """
    check_split(point.task, point.learner)
    cautions = point.certificate.warnings
    if point.directions:
        point = predict(point.task, point.learner.gaussian, point.alpha)
        cautions = (*point.certificate.warnings, SPLIT)
    problem = point.equations
    q, m = problem.units.reduced(point.q, point.m)
    end = plateau_of(problem)
    c = end.c
    along_q, along_m = _averaged_partials(problem, end.overlaps, (q, m))
    where = SpectralMap(point.spread, point.threshold, point.cut, point.slope * point.learner.beta)
    under, over, features = distance_parts(problem.input, where, point.rank, c)
    mismatch = (along_m + 2.0 * c * along_q) * (m - c * end.power)
    parts = (along_q * under, along_q * features, along_q * over, mismatch)
    gap = (sum(parts) - point.excess_error) / point.excess_error if point.excess_error else 0.0
    return Decomposition(
        excess_error=point.excess_error,
        underfitting=parts[0],
        approximation=parts[1],
        overfitting=parts[2],
        mismatch=parts[3],
        distance=problem.units.own(under + over + features, 0.0)[0],
        gap=gap,
        certificate=Certificate.of(point.certificate, evaluations=0, warnings=cautions),
        point=point,
    )


def check_split(task: Task, learner: Learner) -> None:
    """Refuse to split the error of a map of two sectors, or one whose trace is seen differently."""
    if task.sees_kurtosis:
        raise InvalidArgument("kurtosis", task.kurtosis, "3 for an error that is split into parts")
    if equations_of(task, learner).output.geometry.sectors > 1:
        raise OutsideDomain(
            "the error of self-attention that sees its own logit depends on two sectors of the map and is not split; use attention "
            "cross, mask strict, or a tied head."
        )


def _averaged_partials(
    problem: StateEvolution, start: tuple[float, float], end: tuple[float, float]
) -> tuple[float, float]:
    """(E_q, E_m) averaged over the segment, by Gauss-Legendre."""
    if start == end:  # the plateau itself: nothing to split
        return 0.0, 0.0
    place, weight = gauss_legendre(SEGMENT_NODES)
    at = np.array(start) + place[:, None] * (np.array(end) - np.array(start))
    partials = np.array([error_partials(problem, float(q), float(m)) for q, m in at])
    along_q, along_m = weight @ partials
    return float(along_q), float(along_m)


def distance_parts(channel: InputChannel, where: SpectralMap, rank: float, c: float) -> tuple[float, float, float]:
    """∫ rho [s_x² - 2 c s_x E(λ|x) + c² E(λ²|x)] over x below the threshold, in the noise bulk, and above it (8.2).

    E(λ|x) = x - 2 s Re g and E(λ²|x) = a² - b² - 2 a (x - a) + s with a = x - s Re g, b = pi s rho; s_x is the learned
    eigenvalue, slope (x - eps)_+, in reduced units. Of what no map can hold, negative eigenvalues are left out of E(λ²|x), and
    positive ones beyond the width are taken off the first part, which they are always in: so no part is negative. Of singular
    values the learned one is odd in x, and both signs count (U3).
    """
    s, eps, cut, slope = where
    if rank == 0.0:
        return c * c * channel.reachable_power, 0.0, 0.0
    if s <= 0.0:  # the target itself
        return 0.0, 0.0, (1.0 - c) ** 2 * channel.target_power
    law = channel.law(s)
    if law.sides == 2:
        cut = max(cut, 0.0)
    top = max(noise_bulk(law)[1], cut)
    bounds = ((-np.inf if law.sides == 1 else 0.0, cut), (cut, top), (top, np.inf))
    sums, lost = [], []
    for low, high in bounds:
        x, mass, hilbert = law.nodes(low, high)
        mass = law.sides * mass
        a, b = x - s * hilbert, np.pi * s * law.density(x)
        learned = slope * (x - eps) if high > cut else np.zeros(x.shape)
        second = a**2 - b**2 - 2.0 * a * (x - a) + s
        sums.append(float(mass @ (learned**2 - 2.0 * c * learned * (2.0 * a - x) + c * c * second)))
        lost.append(_negative_power(channel, s * mass, a, b) if high > cut else 0.0)
    lost[0] = channel.target_power - channel.reachable_power - sum(lost)  # the rest of it, exactly
    under, over, features = (part - c * c * gone for part, gone in zip(sums, lost, strict=True))
    return under, over, features


def _negative_power(channel: InputChannel, weight: Array, a: Array, b: Array) -> float:
    """∫ rho E(λ²|x) of negative eigenvalues that no map can hold; λ has the share w s/((a - λ)² + b²) at x (8.2)."""
    places, masses = channel.lost
    total = 0.0
    for value, mass in zip(places[places < 0.0], masses[places < 0.0], strict=True):  # there may be many of x and λ
        total += float(mass * value**2 * np.sum(weight / ((a - value) ** 2 + b**2)))
    return total
