"""Repeats of a measurement: means with their spreads, beside a prediction, and in the limit of infinite dimension."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from onehead.errors import InvalidArgument
from onehead.results import Result, Rows

__all__ = [
    "FINITE_SIZE",
    "Agreement",
    "Extrapolation",
    "Measured",
    "Point",
    "SideBySide",
    "extrapolate",
    "side_by_side",
    "spreads",
]

FINITE_SIZE = 3.0  # times 1/d: the bias of a run relative to the limit, where samples are not few (1.8)
LOUD = 3.0  # standard errors beyond which a difference is more than noise
ROUNDING = 1e-12  # a difference below it is none, whatever the standard error


def spreads(runs: Sequence[Any], names: Sequence[str]) -> tuple[dict[str, float], dict[str, float]]:
    """Means over runs, and the standard deviation and standard error of each number.

    Examples
    --------
    >>> from types import SimpleNamespace as Run
    >>> spreads([Run(q=1.0), Run(q=3.0)], ["q"])
    ({'q': 2.0}, {'q_std': 1.4142135623730951, 'q_err': 1.0})
    """
    means, found = {}, {}
    for name in names:
        values = np.array([getattr(run, name) for run in runs])
        means[name] = float(values.mean())
        std = float(values.std(ddof=1)) if len(values) > 1 else np.nan
        found[f"{name}_std"], found[f"{name}_err"] = std, std / float(np.sqrt(len(values)))
    return means, found


@dataclass(frozen=True, kw_only=True)
class Agreement(Result):
    """One number beside its prediction: how far off, and whether that is more than noise."""

    quantity: str
    measured: float
    standard_error: float
    predicted: float
    difference: float
    z: float
    verdict: str


class Measured(Result):
    """Base of every mean over repeats; ``spread`` has for each number its ``_std`` over repeats and the ``_err`` of the mean.

    ``_REPEATS`` is the field that counts them, ``_COMPARED`` are the numbers that a theory predicts, and the spread of one
    run falls as d to the power -``_FALL``, that is as one over the square root of the number of samples.
    """

    _NESTED: ClassVar[tuple[str, ...]] = ("certificate", "spread")
    _REPEATS: ClassVar[str] = "seeds"
    _COMPARED: ClassVar[tuple[str, ...]] = ("test_error",)
    _FALL: ClassVar[float] = 1.0

    dim: int
    spread: dict[str, float]

    def _named(self) -> dict[str, float]:
        """``test_error_std`` and its like are what ``spread`` holds under this name."""
        return self.spread

    @property
    def repeats(self) -> int:
        """How many runs the means are taken over."""
        return int(getattr(self, self._REPEATS))

    @property
    def finite_size(self) -> float:
        """What a run of this size may differ from the limit, relative to it."""
        return FINITE_SIZE / self.dim

    @cached_property
    def errors(self) -> dict[str, float]:
        """The standard error of every mean."""
        return {key.removesuffix("_err"): value for key, value in self.spread.items() if key.endswith("_err")}

    def _comparable(self) -> tuple[str, ...]:
        """The numbers that vary from run to run and have a prediction."""
        return tuple(name for name in self._COMPARED if getattr(self, name) is not None)

    def against(self, prediction: Result) -> tuple[Agreement, ...]:
        """Lay the runs beside a prediction, number by number.

        z = (measured - predicted) / standard error; zero where nothing varies and both agree. A run of size d differs from the
        limit by a relative O(1/d): a difference below 3 standard errors plus ``finite_size`` of the value is not held against the
        theory.
        """
        return tuple(self._agreement(name, float(getattr(prediction, name))) for name in self._comparable())

    def _agreement(self, name: str, predicted: float) -> Agreement:
        measured, error = float(getattr(self, name)), self.errors[name]
        difference = measured - predicted
        still = 0.0 if abs(difference) <= ROUNDING else np.nan
        z = still if error == 0.0 else difference / error
        if not np.isfinite(error):
            verdict = f"unknown: one {self._REPEATS.removesuffix('s')} has no standard error"
        elif abs(difference) <= max(LOUD * error, ROUNDING):
            verdict = "agrees within noise"
        elif abs(difference) <= LOUD * error + self.finite_size * abs(predicted):
            verdict = "agrees within noise and the finite-size bias"
        else:
            verdict = "differs by more than noise"
        return Agreement(
            quantity=name,
            measured=measured,
            standard_error=error,
            predicted=predicted,
            difference=difference,
            z=z,
            verdict=verdict,
        )


@dataclass(frozen=True, kw_only=True)
class Extrapolation(Result):
    """Value at infinite dimension from a + b/d, its standard error, and its distance from theory."""

    quantity: str
    value: float
    standard_error: float
    slope: float
    predicted: float
    z: float


def extrapolate(
    quantity: str, results: Sequence[Measured], predicted: float, own: Sequence[float] | None = None
) -> Extrapolation:
    """Weighted fit of a + b/d over the mean of every dimension.

    A run of size d solves a problem of whole numbers: ``own`` are the predictions for what was solved, and what they differ from
    that of the problem asked for is taken off.
    The spread of one run is taken to fall as a power of d: its size is pooled over all dimensions, since a handful of
    repeats alone would give erratic weights.
    """
    fall = results[0]._FALL
    d = np.array([result.dim for result in results], dtype=np.float64)
    repeats = np.array([result.repeats for result in results], dtype=np.float64)
    mean = np.array([float(getattr(result, quantity)) for result in results])
    mean -= 0.0 if own is None else np.array(own) - predicted
    std = np.array([result.spread[f"{quantity}_std"] for result in results])
    known = np.isfinite(std)
    pooled = np.sum((repeats[known] - 1.0) * (std[known] * d[known] ** fall) ** 2) / max(
        np.sum(repeats[known] - 1.0), 1.0
    )
    design, weight = np.stack([np.ones_like(d), 1.0 / d], axis=1), repeats * d ** (2.0 * fall)
    covariance = np.linalg.inv(design.T @ (weight[:, None] * design))
    value, slope = covariance @ design.T @ (weight * mean)
    standard_error = float(np.sqrt(pooled * covariance[0, 0]))
    z = (float(value) - predicted) / standard_error if standard_error > 0.0 else np.nan
    return Extrapolation(
        quantity=quantity,
        value=float(value),
        standard_error=standard_error,
        slope=float(slope),
        predicted=predicted,
        z=z,
    )


Theory = TypeVar("Theory", bound=Result)
Runs = TypeVar("Runs", bound=Measured)


@dataclass(frozen=True, kw_only=True)
class Point(Result, Generic[Theory, Runs]):
    """One sample ratio: the prediction, training at every dimension, and the limits (one per number).

    ``beside`` has for every run the prediction of the problem that it solved, with its whole numbers of samples and rows.
    """

    _HIDDEN: ClassVar[tuple[str, ...]] = ("prediction", "runs", "beside")

    alpha: float
    prediction: Theory
    runs: tuple[Runs, ...]
    beside: tuple[Theory, ...]
    limits: tuple[Extrapolation, ...]

    def rows(self) -> list[dict[str, Any]]:
        """A row per dimension; the extrapolated one, if any, has no dimension."""
        rows = []
        for run, theory in zip(self.runs, self.beside, strict=True):
            row = {"alpha": self.alpha, "dim": run.dim, run._REPEATS: run.repeats, "status": run.status}
            for item in run.against(theory):
                if item.quantity == run._MAIN:
                    row["verdict"] = item.verdict
                row |= _cells(item.quantity, item.measured, item.standard_error, item.predicted, item.z)
            rows.append(row)
        if self.limits:
            total = sum(run.repeats for run in self.runs)
            row = {"alpha": self.alpha, "dim": None, self.runs[0]._REPEATS: total, "status": "1/d → 0"}
            for limit in self.limits:
                row |= _cells(limit.quantity, limit.value, limit.standard_error, limit.predicted, limit.z)
            rows.append(row)
        return rows


def _cells(name: str, value: float, error: float, predicted: float, z: float) -> dict[str, float]:
    return {name: value, f"{name}_err": error, f"{name}_theory": predicted, f"{name}_z": z}


@dataclass(frozen=True, kw_only=True)
class SideBySide(Rows, Result, Generic[Theory, Runs]):
    """Base of a comparison: theory and training beside each other."""

    _SHOWN: ClassVar[tuple[str, ...]] = ("alpha", "dim", "test_error_theory", "test_error", "test_error_z", "verdict")

    points: tuple[Point[Theory, Runs], ...]
    setting: str

    def to_rows(self) -> list[dict[str, Any]]:
        """A row per sample ratio and dimension, and one for the limit of infinite dimension."""
        return [row for point in self.points for row in point.rows()]

    def __repr__(self) -> str:
        rows = [row for row in self.to_rows() if row["dim"] is not None]
        off = sum(row["verdict"] == "differs by more than noise" for row in rows)
        return (
            f"{type(self).__name__}({len(rows)} measurements, {off} off by more than noise, setting={self.setting!r})"
        )


def side_by_side(
    alphas: Sequence[float],
    dims: Sequence[int],
    repeats: int | Sequence[int],
    *,
    called: str,
    predicted: Callable[[float], Theory],
    measured: Callable[[float, int, int], Runs],
    solved: Callable[[Theory, Runs], Theory] = lambda theory, _: theory,
) -> tuple[Point[Theory, Runs], ...]:
    """Predict every sample ratio, measure it at every dimension (ratio, dimension, repeats), extrapolate in 1/d.

    ``called`` is the name of the argument that says how many repeats; ``solved`` gives the prediction for what a run solved, from
    that of what was asked for.
    Ctrl-C within a measurement ends the work there: its point has no further dimension and no limit.
    """
    counts = [repeats] * len(dims) if isinstance(repeats, int) else list(repeats)
    if len(counts) != len(dims) or not dims:
        raise InvalidArgument(called, repeats, "one number, or one per dimension")
    if not alphas:
        raise InvalidArgument("alphas", alphas, "at least one sample ratio")
    points: list[Point[Theory, Runs]] = []
    for alpha in alphas:
        theory = predicted(alpha)
        runs: list[Runs] = []
        interrupted = False
        for dim, count in zip(dims, counts, strict=True):
            runs.append(measured(alpha, dim, count))
            trust = runs[-1]._trust
            interrupted = trust is not None and trust.interrupted
            if interrupted:
                break
        beside = tuple(solved(theory, run) for run in runs)
        limits: tuple[Extrapolation, ...] = ()
        if len(set(dims)) > 1 and max(counts) > 1 and not interrupted:
            limits = tuple(
                extrapolate(name, runs, float(getattr(theory, name)), [float(getattr(own, name)) for own in beside])
                for name in runs[0]._comparable()
            )
        points.append(Point(alpha=alpha, prediction=theory, runs=tuple(runs), beside=beside, limits=limits))
        if interrupted:
            break
    return tuple(points)
