"""Eigenvalues, or singular values, that stand apart from the bulk: learned features, positions and overlaps (5, U3)."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.aim.targets import Discrete
from onehead.aim.verbs.predict import Prediction
from onehead.results import Result
from onehead.spectra.law import Law

__all__ = ["Outlier", "features_apart", "noise_bulk", "outliers_of"]

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Outlier(Result):
    """A learned eigenvalue of its own.

    ``position`` is the eigenvalue of S, ``target`` the one of S* it comes from, and ``overlap`` the squared overlap of its
    eigenvector with the target's; where several target eigenvalues share one interval (``group`` > 1), with their span.
    Untied, read singular values for eigenvalues; ``overlap`` is that of left and of right singular vectors alike.
    """

    position: float
    overlap: float
    target: float
    group: int


class _Apart(NamedTuple):
    middle: float  # of the interval of the support, in x
    first: int  # index of its largest target eigenvalue, from zero
    size: int


def noise_bulk(law: Law) -> tuple[float, float]:
    """The interval of the support that holds most of the mass; of several, the lowest (8.2). Of singular values, above zero."""
    edges = _counted(law)
    above = np.array([law.mass_above(low) for low, _ in edges] + [0.0])
    return edges[int(np.argmax(np.round(above[:-1] - above[1:], 9)))]


def _counted(law: Law) -> tuple[tuple[float, float], ...]:
    """The intervals of the support; of singular values, what they are above zero."""
    if law.sides == 1:
        return law.edges
    return tuple((max(low, 0.0), high) for low, high in law.edges if high > 0.0)


def _apart(law: Law, count: int) -> list[_Apart]:
    """The intervals above the noise bulk, from the top, with the target eigenvalues they hold."""
    top = noise_bulk(law)[1]
    found: list[_Apart] = []
    used = 0
    for low, high in reversed(_counted(law)):
        if low <= top:
            break
        here = round(law.sides * law.mass_above(low) * count) - used
        found.append(_Apart(0.5 * (low + high), used, here))
        used += here
    return found


def features_apart(law: Law, count: int, cut: float) -> int:
    """How many of ``count`` target eigenvalues have left the noise bulk upwards and pass the threshold."""
    return sum(part.size for part in _apart(law, count) if part.middle > cut)


def outliers_of(point: Prediction) -> tuple[Outlier, ...]:
    """Outliers of the trained map, from the largest.

    A target eigenvalue λ_0 outside the noise bulk, with μ the law of the other ones, is found at
    x = λ_0 + s ∫ μ(dt)/(λ_0 - t), learned as slope (x - eps), with squared overlap 1 - s ∫ μ(dt)/(λ_0 - t)².
    Untied, λ are singular values, and μ has both signs of the others (U3); in leading directions λ_0 is the effective one (P5).
    Limiting laws have none. Intervals that hold more than sqrt(d) eigenvalues are bulks, not outliers.
    """
    channel, problem, s = point.channel, point.equations, point.spread
    target, own_target = channel.target, problem.input.target
    if not (isinstance(target, Discrete) and isinstance(own_target, Discrete)) or point.rank == 0.0 or s <= 0.0:
        return ()
    values, true = channel.scale * target.values, own_target.values
    if point.directions and problem.leading:
        # effective eigenvalues stand where the leading ones did, and may have changed places
        true = true[np.argsort(-np.array(target.model_dump()["eigenvalues"]), kind="stable")]
    found = []
    for part in _apart(channel.law(s), len(values)):
        if part.size > np.sqrt(len(values)):
            continue
        own = slice(part.first, part.first + part.size)
        others = np.delete(values, own)
        count = channel.sides * len(values)
        if channel.sides == 2:
            others = np.concatenate([others, -others])
        for value, first in zip(values[own].tolist(), true[own].tolist(), strict=True):
            x = value + s * float(np.sum(1.0 / (value - others))) / count
            lost = s * float(np.sum(1.0 / (value - others) ** 2)) / count
            if x > point.cut:
                found.append(
                    Outlier(
                        position=point.slope * (x - point.threshold),
                        overlap=max(1.0 - lost, 0.0),
                        target=first,
                        group=part.size,
                    )
                )
    return tuple(found)
