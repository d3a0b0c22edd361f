"""Agreement of theory and training in a figure: the worst deviation in standard errors, and what explains it."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onehead.sweep import Table

FINITE_SIZE_FACTOR = 3.0  # a run of size d differs from the limit by a relative O(1/d), up to 3/d (1.8)
MAX_STANDARD_ERRORS = 3.0  # a larger difference is more than noise
CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One quantity, measured and predicted, with the standard error of the measurement and the setting ``where``."""

    quantity: str
    where: str
    theory: float
    measured: float
    error: float
    dim: int
    runs: int

    @property
    def deviation(self) -> float:
        """Difference (measured - theory) in standard errors."""
        return (self.measured - self.theory) / self.error

    @property
    def relative(self) -> float:
        """Difference (measured - theory) relative to theory."""
        return (self.measured - self.theory) / abs(self.theory) if self.theory else math.inf

    @property
    def covered(self) -> bool:
        """Whether three standard errors and a relative 3/d together cover the difference."""
        finite_size = FINITE_SIZE_FACTOR / self.dim * abs(self.theory)
        return abs(self.measured - self.theory) <= MAX_STANDARD_ERRORS * self.error + finite_size


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Agreement of theory and training in one figure.

    ``worst`` and ``median`` are deviations of the ``pairs`` in standard errors, ``at`` is the pair with the worst one.
    ``bound`` is the value below which the largest of as many deviations of pure noise stays in 19 of 20 cases; it is
    large if the error bars come from few runs. ``open`` counts the pairs that three standard errors and a relative 3/d
    do not cover, and ``words`` explains them.
    """

    pairs: int
    worst: float
    median: float
    bound: float
    open: int
    at: Pair
    words: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def pair(row: dict[str, Any], quantity: str, where: str, theory: float, measured: float, error: float) -> Pair:
    """Return a quantity of a measured row, or one derived from it, with its prediction."""
    runs = int(row.get("seeds") or row.get("trials") or 1)
    found = {"theory": float(theory), "measured": float(measured), "error": float(error)}
    return Pair(quantity=quantity, where=where, **found, dim=int(row["dim"]), runs=runs)


def compare(
    theory: Table, training: Table | None, on: Sequence[str], quantities: Sequence[str] = ("test_error",)
) -> list[Pair]:
    """Pair measured rows with the predictions that have the same values of the columns ``on``.

    Quantities without a standard error are left out.
    """
    if training is None:
        return []
    predictions = {_key(row, on): row for row in theory if row["state"] == "done"}
    pairs = []
    for row in training:
        prediction = predictions.get(_key(row, on))
        if prediction is None or row["state"] != "done":
            continue
        for name in quantities:
            error = row.get(f"{name}_err")
            if error and row.get(name) is not None and prediction.get(name) is not None:
                setting = ", ".join(f"{column} {_format(row[column])}" for column in on if column in row)
                pairs.append(pair(row, name.replace("_", " "), setting, prediction[name], row[name], error))
    return pairs


def _key(row: dict[str, Any], on: Sequence[str]) -> tuple[Any, ...]:
    """Return the values of some columns, floats rounded so that equal settings compare equal."""
    values = (row.get(column) for column in on)
    return tuple(round(value, 9) if isinstance(value, float) else value for value in values)


def _format(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def ks_distance(x: NDArray[Any], density: NDArray[Any], zero_mass: float, values: NDArray[Any]) -> float:
    """Return the Kolmogorov-Smirnov distance of values >= 0 from a law with a tabulated density and an atom at zero.

    Examples
    --------
    >>> line = np.linspace(0.0, 1.0, 50)
    >>> round(ks_distance(line, np.full(50, 0.5), 0.5, np.array([0.0, 0.0, 0.5, 0.5])), 6)
    0.25
    """
    below = zero_mass + np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(x))])
    points = np.unique(values)
    share = np.interp(points, np.append(0.0, x), np.append(zero_mass, below))
    up_to, before = (np.searchsorted(np.sort(values), points, side=side) / len(values) for side in ("right", "left"))
    jumps = points > 0.0  # at zero the law has a jump too, so only the value after it is compared
    return float(np.max(np.abs(np.append(up_to - share, (before - share)[jumps]))))


def noise_bound(count: int, runs: int) -> float:
    """Return the value below which the largest of ``count`` Student deviations stays in 19 of 20 cases.

    The deviations have ``runs`` - 1 degrees of freedom.

    Examples
    --------
    >>> round(noise_bound(1, 1000), 2), round(noise_bound(12, 4), 2)
    (1.96, 7.88)
    """
    from scipy.stats import t

    share = 1.0 - CONFIDENCE ** (1.0 / count)
    return float(t.isf(0.5 * share, max(runs - 1, 1)))


def assess_agreement(pairs: Sequence[Pair], known_deviation: str = "") -> Agreement | None:
    """Return the worst deviation of a figure and its explanation, or None if there are no pairs.

    ``known_deviation`` is the known reason for differences beyond noise and finite size, if there is one.
    """
    if not pairs:
        return None
    bound = noise_bound(len(pairs), min(pair.runs for pair in pairs))
    at = max(pairs, key=lambda pair: abs(pair.deviation))
    uncovered = [pair for pair in pairs if not pair.covered]
    return Agreement(
        pairs=len(pairs),
        worst=at.deviation,
        median=median(abs(pair.deviation) for pair in pairs),
        bound=bound,
        open=len(uncovered),
        at=at,
        words=_explanation(uncovered, bound, known_deviation),
    )


def _explanation(uncovered: Sequence[Pair], bound: float, known_deviation: str) -> str:
    if not uncovered:
        return "all within three standard errors and the finite-size 3/d"
    farthest = max(uncovered, key=lambda pair: abs(pair.deviation))
    counted = f"{len(uncovered)} beyond three standard errors and 3/d"
    if known_deviation:
        return f"{counted}: {known_deviation}"
    if abs(farthest.deviation) <= bound:
        return f"{counted}, as error bars from {farthest.runs} runs allow"
    return f"{counted}, by {farthest.relative:+.1%} at {farthest.where}: not explained"
