"""Theory beside training in one number: the worst deviation of a figure in standard errors, and what explains it."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onehead.sweep import Table

__all__ = ["Agreement", "Pair", "compare", "judge", "ks_distance", "noise_bound", "pair"]

FINITE_SIZE = 3.0  # a run of size d differs from the limit by a relative O(1/d), up to 3/d (1.8)
LOUD = 3.0  # standard errors beyond which a difference is more than noise
CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One number measured and predicted."""

    quantity: str
    where: str
    theory: float
    measured: float
    error: float
    dim: int
    runs: int

    @property
    def deviation(self) -> float:
        """(measured - theory) in standard errors."""
        return (self.measured - self.theory) / self.error

    @property
    def relative(self) -> float:
        """(measured - theory) over theory."""
        return (self.measured - self.theory) / abs(self.theory) if self.theory else math.inf

    @property
    def covered(self) -> bool:
        """Whether three standard errors and a relative 3/d together cover the difference."""
        return abs(self.measured - self.theory) <= LOUD * self.error + FINITE_SIZE / self.dim * abs(self.theory)


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """The verdict on a figure.

    ``bound`` is what the largest of ``pairs`` deviations of pure noise stays below in 19 of 20 cases, which is a lot when an
    error bar comes from few runs; ``open`` counts the pairs that three standard errors and a relative 3/d do not cover.
    """

    pairs: int
    worst: float
    median: float
    bound: float
    open: int
    at: Pair
    words: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def pair(row: dict[str, Any], quantity: str, where: str, theory: float, measured: float, error: float) -> Pair:
    """A number of a measured row, or one made from it, beside its prediction."""
    runs = int(row.get("seeds") or row.get("trials") or 1)
    found = {"theory": float(theory), "measured": float(measured), "error": float(error)}
    return Pair(quantity=quantity, where=where, **found, dim=int(row["dim"]), runs=runs)


def compare(
    theory: Table, training: Table | None, on: Sequence[str], quantities: Sequence[str] = ("test_error",)
) -> list[Pair]:
    """Lay measured rows beside the predictions with the same values of ``on``; what has no standard error is left out."""
    if training is None:
        return []
    predicted = {_place(row, on): row for row in theory if row["state"] == "done"}
    pairs = []
    for row in training:
        there = predicted.get(_place(row, on))
        if there is None or row["state"] != "done":
            continue
        for name in quantities:
            error = row.get(f"{name}_err")
            if error and row.get(name) is not None and there.get(name) is not None:
                place = ", ".join(f"{word} {_short(row[word])}" for word in on if word in row)
                pairs.append(pair(row, name.replace("_", " "), place, there[name], row[name], error))
    return pairs


def _place(row: dict[str, Any], on: Sequence[str]) -> tuple[Any, ...]:
    values = (row.get(word) for word in on)
    return tuple(round(value, 9) if isinstance(value, float) else value for value in values)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def ks_distance(x: NDArray[Any], density: NDArray[Any], zero_mass: float, values: NDArray[Any]) -> float:
    """Kolmogorov-Smirnov distance of values >= 0 from a law with a tabulated density and an atom at zero.

    Examples
    --------
    >>> line = np.linspace(0.0, 1.0, 50)
    >>> round(ks_distance(line, np.full(50, 0.5), 0.5, np.array([0.0, 0.0, 0.5, 0.5])), 6)
    0.25
    """
    below = zero_mass + np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(x))])
    places = np.unique(values)
    share = np.interp(places, np.append(0.0, x), np.append(zero_mass, below))
    up_to, before = (np.searchsorted(np.sort(values), places, side=side) / len(values) for side in ("right", "left"))
    jumps = places > 0.0  # at zero the law jumps as well
    return float(np.max(np.abs(np.append(up_to - share, (before - share)[jumps]))))


def noise_bound(count: int, runs: int) -> float:
    """What the largest of ``count`` Student deviations with ``runs`` - 1 degrees of freedom stays below, 19 times of 20.

    Examples
    --------
    >>> round(noise_bound(1, 1000), 2), round(noise_bound(12, 4), 2)
    (1.96, 7.88)
    """
    from scipy.stats import t  # noqa: PLC0415  (a second; only who judges pays)

    share = 1.0 - CONFIDENCE ** (1.0 / count)
    return float(t.isf(0.5 * share, max(runs - 1, 1)))


def judge(pairs: Sequence[Pair], outliers: str = "") -> Agreement | None:
    """The worst deviation of a figure and its explanation; nothing without pairs."""
    if not pairs:
        return None
    bound = noise_bound(len(pairs), min(pair.runs for pair in pairs))
    at = max(pairs, key=lambda pair: abs(pair.deviation))
    left = [pair for pair in pairs if not pair.covered]
    return Agreement(
        pairs=len(pairs),
        worst=at.deviation,
        median=median(abs(pair.deviation) for pair in pairs),
        bound=bound,
        open=len(left),
        at=at,
        words=_words(left, bound, outliers),
    )


def _words(left: Sequence[Pair], bound: float, outliers: str) -> str:
    if not left:
        return "all within three standard errors and the finite-size 3/d"
    farthest = max(left, key=lambda pair: abs(pair.deviation))
    counted = f"{len(left)} beyond three standard errors and 3/d"
    if outliers:
        return f"{counted}: {outliers}"
    if abs(farthest.deviation) <= bound:
        return f"{counted}, as error bars from {farthest.runs} runs allow"
    return f"{counted}, by {farthest.relative:+.1%} at {farthest.where}: not explained"
