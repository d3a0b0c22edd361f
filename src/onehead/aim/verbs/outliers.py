"""Outliers: eigenvalues or singular values of the trained map above the noise bulk, with their overlaps (5, U3)."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.aim.theory.limits.unasked_row import unasked_row
from onehead.aim.verbs.predict import Prediction
from onehead.results import Result
from onehead.spectra.law import Law

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Outlier(Result):
    """An eigenvalue of the trained map outside the bulk: a learned feature.

    For an untied head, read singular values for eigenvalues; ``overlap`` is then the same for left and right singular
    vectors.

    Attributes
    ----------
    position : float
        Eigenvalue of S.
    overlap : float
        Squared overlap of its eigenvector with that of the target, or, for ``group`` > 1, with the span of the group.
    target : float
        Eigenvalue of S* that it comes from.
    group : int
        Number of target eigenvalues that share its interval of the support.
    """

    position: float
    overlap: float
    target: float
    group: int


@dataclass(frozen=True, kw_only=True)
class UnaskedOutlier(Result):
    """The row of the trained map along the mean of the queries, and the singular value that it adds to the spectrum.

    At a finite dimension d the row adds about λ ``length``/d to the training loss and 1/d to the rank, and its pull
    lowers the scale of the unasked logits by λ ``pull``/(d sqrt(G M) Σhat) (D3).

    Attributes
    ----------
    position : float or None
        Singular value outside the bulk; None where the row adds none.
    query_overlap, key_overlap : float
        Squared overlaps of its singular vectors with the mean of the queries and with the target's unasked field.
    length : float
        Length of the row.
    pull : float
        Derivative of the nuclear norm of the map in the length of the row.
    """

    position: float | None
    query_overlap: float
    key_overlap: float
    length: float
    pull: float


class _Interval(NamedTuple):
    """Interval of the support above the noise bulk, and the target eigenvalues in it."""

    middle: float  # in x
    first: int  # index of its largest target eigenvalue, from zero
    size: int  # number of target eigenvalues


def noise_bulk(law: Law) -> tuple[float, float]:
    """Interval of the support with the largest mass, the lowest of several (8.2); of singular values, above zero."""
    edges = _support(law)
    above = np.array([law.mass_above(low) for low, _ in edges] + [0.0])
    return edges[int(np.argmax(np.round(above[:-1] - above[1:], 9)))]


def _support(law: Law) -> tuple[tuple[float, float], ...]:
    """Intervals of the support; for singular values, their parts above zero."""
    if law.sides == 1:
        return law.edges
    return tuple((max(low, 0.0), high) for low, high in law.edges if high > 0.0)


def _intervals_above_bulk(law: Law, count: int) -> list[_Interval]:
    """Intervals above the noise bulk, in decreasing order, with the target eigenvalues in each."""
    bulk_edge = noise_bulk(law)[1]
    found: list[_Interval] = []
    used = 0
    for low, high in reversed(_support(law)):
        if low <= bulk_edge:
            break
        size = round(law.sides * law.mass_above(low) * count) - used
        found.append(_Interval(0.5 * (low + high), used, size))
        used += size
    return found


def count_features(law: Law, count: int, cut: float) -> int:
    """Number of the ``count`` target eigenvalues that lie above the noise bulk and above the cut."""
    return sum(interval.size for interval in _intervals_above_bulk(law, count) if interval.middle > cut)


def unasked_outlier_of(point: Prediction) -> UnaskedOutlier | None:
    """Row of the map along the mean of the queries (D3); None without a mean, and where the law of the map is not that
    of a blurred target.
    """
    task = point.task
    known = task.unasked and not task.own_logit and point.rank > 0.0 and point.spread > 0.0
    if not known or point.equations.input.rank_limited(point.rank):
        return None
    length = point.unasked_scale * float(np.sqrt(task.unasked_variance / task.token_mean))
    row = unasked_row(point.channel.law(point.spread), max(point.threshold, 0.0), point.slope, length)
    return UnaskedOutlier(
        position=row.position,
        query_overlap=row.query_overlap,
        key_overlap=row.key_overlap,
        length=length,
        pull=row.pull,
    )


def outliers_of(point: Prediction) -> tuple[Outlier, ...]:
    """Outliers of the trained map, in decreasing order.

    A target eigenvalue λ_0 outside the noise bulk, with μ the law of the other ones, moves to x = λ_0 + s ∫ μ(dt)/(λ_0
    - t) and is learned as slope (x - eps), with squared overlap 1 - s ∫ μ(dt)/(λ_0 - t)². For an untied head λ are
    singular values, and μ has both signs of the others (U3); in leading directions λ_0 is the effective eigenvalue
    (P5). Limiting laws have no outliers. Intervals with more than sqrt(d) eigenvalues are bulks, not outliers.
    """
    channel, problem, s = point.channel, point.equations, point.spread
    seen, original = channel.target.values, problem.input.target.values
    if seen is None or original is None or point.rank == 0.0 or s <= 0.0:
        return ()
    values = channel.scale * seen
    if point.directions and problem.directions.sampled:
        # effective eigenvalues replace the leading ones in the list, and may be in another order
        original = original[np.argsort(-np.array(channel.target.model_dump()["eigenvalues"]), kind="stable")]
    found = []
    for interval in _intervals_above_bulk(channel.law(s), len(values)):
        if interval.size > np.sqrt(len(values)):
            continue
        own = slice(interval.first, interval.first + interval.size)
        others = np.delete(values, own)
        count = channel.sides * len(values)
        if channel.sides == 2:
            others = np.concatenate([others, -others])
        for value, target_value in zip(values[own].tolist(), original[own].tolist(), strict=True):
            x = value + s * float(np.sum(1.0 / (value - others))) / count
            lost_overlap = s * float(np.sum(1.0 / (value - others) ** 2)) / count
            if x > point.cut:
                found.append(
                    Outlier(
                        position=point.slope * (x - point.threshold),
                        overlap=max(1.0 - lost_overlap, 0.0),
                        target=target_value,
                        group=interval.size,
                    )
                )
    return tuple(found)
