"""training_time(): singular values of the query-key map after a finite time of gradient descent (M9)."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.aim.task import Learner, Task
from onehead.aim.verbs.predict import Prediction
from onehead.errors import InvalidArgument
from onehead.numerics.brent import brent_root
from onehead.results import Certificate, Result
from onehead.spectra.law import Law
from onehead.validation import checked, instance, number

Array = NDArray[np.float64]

MAX_START = 1e6  # singular value at the start
GRID = 400  # points of the tabulated density, in the logarithm of a singular value
LEFT_SHARE = 0.1  # share of the cut directions that may still lie above the cut at `time_needed`
DECADES_OF_ADAM = 2.0  # over which the law also held for Adam, in its own time
FOR_ADAM = (
    "the law holds for gradient descent; with Adam singular values fade as predicted over about two decades, and much "
    "more slowly beyond"
)
FROZEN = (
    "singular vectors are taken as those of the minimum: single singular values scatter by a factor of order one, the "
    "faintest by up to a decade"
)


@dataclass(frozen=True, kw_only=True)
class FiniteTimeSpectrum(Result):
    """Singular values of the map of an untied head after a time t of gradient descent.

    No singular value is zero at a finite time: those that weight decay removes fade exponentially, each with its own
    rate, so that their logarithms are spread evenly.

    Attributes
    ----------
    time : float
        λ t, the sum over the steps of learning rate times weight decay of the objective.
    start : float
        Singular value of the map at the start.
    cut : float
        Value above which singular values are counted.
    rank_above : float
        Share of singular values above the cut.
    rank : float
        Share that is not zero at the minimum, after an infinite time.
    faintest, largest : float
        Smallest and largest singular value.
    decades : float
        Decades over which the directions that fade are spread, 2 λ t/ln 10.
    time_needed : float
        λ t from which on a tenth of the fading directions is left above the cut.
    mean, second_moment : float
        Mean singular value and mean squared singular value.
    x, density_values : array
        Singular values, and their density per decade.
    certificate : Certificate
        Certificate of the prediction, with what limits this law.
    point : Prediction
        The minimum that training approaches.
    """

    _HIDDEN: ClassVar[tuple[str, ...]] = ("density_values",)
    MEANINGS: ClassVar[dict[str, str]] = {
        "time": "λ t, learning rate times weight decay, summed over the steps",
        "rank_above": "share of singular values above the cut",
        "rank": "share that is not zero at the minimum",
        "faintest": "smallest singular value",
        "largest": "largest singular value",
        "decades": "over which fading singular values are spread",
        "time_needed": "λ t from which on a tenth of the fading ones is above the cut",
        "mean": "mean singular value",
        "second_moment": "Tr S'S/d",
    }

    time: float
    start: float
    cut: float
    rank_above: float
    rank: float
    faintest: float
    largest: float
    decades: float
    time_needed: float
    mean: float
    second_moment: float
    x: Array
    density_values: Array
    certificate: Certificate
    point: Prediction

    def to_dict(self) -> dict[str, Any]:
        """Result as a dictionary of plain values; the tabulated density is called ``density``."""
        return super().to_dict() | {"density": self.density_values.tolist(), "point": self.point.to_dict()}

    @cached_property
    def _relaxation(self) -> "Relaxation":
        return relaxation_of(self.point, self.start)

    def value_at(self, source: Array) -> Array:
        """Singular values that come from these places of the blurred target law (M9.3)."""
        return self._relaxation.value(self.time, np.asarray(source, dtype=float))

    def quantiles(self, count: int) -> Array:
        """Return ``count`` typical singular values, the largest first.

        Examples
        --------
        >>> from onehead import aim
        >>> point = aim.predict(aim.Task(attention="cross"), aim.Learner(weight_decay=0.3), 1.0)
        >>> values = aim.training_time(point, 30.0, start=0.09).quantiles(60)
        >>> np.round(np.log10(values[[0, 40]]), 1).tolist()
        [0.2, -12.3]
        """
        return self.value_at(self._relaxation.quantile_sources(count))


class Relaxation(NamedTuple):
    """Singular values of a map under gradient descent, from its minimum (M9.3).

    The singular values of the minimum are slope (x - threshold) for x > threshold and zero below, with x of the blurred
    target ``law``; training starts with singular values ``start``.
    """

    law: Law
    slope: float
    threshold: float
    start: float

    def value(self, time: float, source: Array) -> Array:
        """Singular values after the time λ t = ``time`` from the places ``source`` of the blurred target law."""
        excess = source / self.threshold - 1.0
        excess = np.where(np.abs(excess) < 1e-9, 1e-9, excess)  # at the threshold, 1/t
        final = self.slope * self.threshold * excess
        passed = np.clip(2.0 * time * np.abs(excess), 0.0, 700.0)
        fading, faded = np.exp(-passed), -np.expm1(-passed)  # accurate where next to no time has passed
        kept = final / (faded + final / self.start * fading)
        cut = final * fading / (final / self.start - faded)
        return np.asarray(np.where(final > 0.0, kept, cut))

    def one_value(self, time: float, source: float) -> float:
        """Singular value from one place."""
        return float(self.value(time, np.array([source]))[0])

    def quantile_sources(self, count: int) -> Array:
        """Places from which ``count`` typical singular values come, the largest first."""
        shares = (np.arange(count) + 0.5) / count
        return np.array([self.law.quantile_above(0.5 * share) for share in shares])

    def share_above(self, time: float, level: float) -> float:
        """Share of singular values above a level."""
        top = self.law.edges[-1][1]
        if self.one_value(time, 0.0) >= level:
            return 1.0
        if self.one_value(time, top) <= level:
            return 0.0
        source = brent_root(lambda x: self.one_value(time, x) - level, 0.0, top, xtol=1e-12)
        return min(2.0 * self.law.mass_above(source), 1.0)


def relaxation_of(point: Prediction, start: float) -> Relaxation:
    """Return the relaxation towards a minimum."""
    return Relaxation(point.channel.law(point.spread), point.slope, point.threshold, start)


def check_relaxation(task: Task, learner: Learner, time: float) -> None:
    """Refuse heads for which the law of finite times does not hold."""
    if learner.width < 1.0:
        raise InvalidArgument(
            "width", learner.width, "at least 1 for singular values in time, which a narrow learner has fewer of"
        )
    plain = task.single_sector and task.standard_tokens
    if task.tied or not plain or learner.param == "direct" or task.heads > 1 or learner.values == "learnt":
        raise InvalidArgument(
            "time", time, "left out unless one untied head with one sector is trained through its factors"
        )


def check_minimum(rank: float, spread: float, decay: float, time: float) -> None:
    """Refuse minima that are zero, or the target itself."""
    if not (rank > 0.0 and spread > 0.0 and decay > 0.0):
        raise InvalidArgument("time", time, "left out where the map is zero or the target itself")


@checked(
    point=instance(Prediction, "a result of predict"),
    time=number(above=0.0),
    start=number(above=0.0, most=MAX_START),
    cut=number(above=0.0),
)
def training_time(point: Prediction, time: float, *, start: float = 0.1, cut: float = 1e-3) -> FiniteTimeSpectrum:
    """Law of the singular values of a trained map after a finite time of gradient descent.

    Each direction of the map follows s' = 2 s (mhat x - λ - Sigmahat s) with its own x of the blurred target law. Kept
    directions relax with the rate 2 λ (x/ε - 1), the others fade with 2 λ (1 - x/ε): the rank of the minimum is
    approached as 1/t and never reached (M9.3).

    Parameters
    ----------
    point : Prediction
        The minimum, of an untied head trained with weight decay on query and key.
    time : float
        λ t, the sum over the steps of learning rate times weight decay.
    start : float
        Singular value of the map at the start, in units of S.
    cut : float
        Value above which singular values are counted.

    Returns
    -------
    FiniteTimeSpectrum
        Rank above the cut, extreme values, moments, density and quantiles.

    Raises
    ------
    InvalidArgument
        If the law does not hold for this head: it is tied, narrow, trained directly, has several heads, or is zero.

    Examples
    --------
    >>> from onehead import aim
    >>> point = aim.predict(aim.Task(attention="cross"), aim.Learner(weight_decay=0.3), 1.0)
    >>> early, late = (aim.training_time(point, time) for time in (3.0, 30.0))
    >>> round(point.rank, 3), round(late.rank_above, 3), round(early.rank_above, 3)
    (0.484, 0.502, 0.838)
    """
    check_relaxation(point.task, point.learner, time)
    if point.directions:
        raise InvalidArgument("time", time, "left out where leading directions are averaged exactly; set leading to 0")
    check_minimum(point.rank, point.spread, point.learner.decay, time)
    relaxation = relaxation_of(point, start)
    law = relaxation.law
    nodes = law.nodes(0.0)
    values = relaxation.value(time, nodes.x)
    faintest, largest = (relaxation.one_value(time, x) for x in (0.0, law.edges[-1][1]))
    levels = np.geomspace(max(faintest, 1e-300), largest, GRID)
    above = np.array([relaxation.share_above(time, level) for level in levels])
    density = -np.gradient(above, np.log10(levels))
    fading = 1.0 - point.rank
    left = law.quantile_above(0.5 * (point.rank + LEFT_SHARE * fading))
    estimate = np.log(start / cut) / 2.0 / (1.0 - left / point.threshold) if start > cut else 0.0

    def excess(log_time: float) -> float:
        return float(np.log(relaxation.one_value(float(np.exp(log_time)), left) / cut))

    centre = np.log(estimate) if estimate > 0.0 else 0.0
    reaches = estimate > 0.0 and excess(centre + 3.0) < 0.0 < excess(centre - 3.0)
    needed = np.exp(brent_root(excess, centre - 3.0, centre + 3.0, xtol=1e-6)) if reaches else estimate
    certificate = Certificate.of(
        point.certificate, kind="conjecture", evaluations=0, warnings=(*point.certificate.warnings, FROZEN)
    )
    if 2.0 * time / np.log(10.0) > DECADES_OF_ADAM:
        certificate = Certificate.of(certificate, warnings=(*certificate.warnings, FOR_ADAM))
    return FiniteTimeSpectrum(
        time=time,
        start=start,
        cut=cut,
        rank_above=relaxation.share_above(time, cut),
        rank=point.rank,
        faintest=faintest,
        largest=largest,
        decades=2.0 * time / float(np.log(10.0)),
        time_needed=float(needed),
        mean=2.0 * float(nodes.mass @ values),
        second_moment=2.0 * float(nodes.mass @ values**2),
        x=levels,
        density_values=density,
        certificate=certificate,
        point=point,
    )
