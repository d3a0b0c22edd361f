"""Means over repeated measurements: spread, comparison with a prediction, and limit of infinite dimension."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from onehead.errors import InvalidArgument
from onehead.results import Result, Rows

FINITE_SIZE_BIAS = 3.0  # relative difference of a run from the limit, in units of 1/d, where samples are not few (1.8)
SIGNIFICANCE = 3.0  # standard errors beyond which a difference is more than noise
ROUNDING = 1e-12  # differences below it are rounding errors


def mean_and_spread(runs: Sequence[Any], names: Sequence[str]) -> tuple[dict[str, float], dict[str, float]]:
    """Return means over runs, and the standard deviation and standard error of each number.

    Examples
    --------
    >>> from types import SimpleNamespace as Run
    >>> mean_and_spread([Run(q=1.0), Run(q=3.0)], ["q"])
    ({'q': 2.0}, {'q_std': 1.4142135623730951, 'q_err': 1.0})
    """
    means, spread = {}, {}
    for name in names:
        values = np.array([getattr(run, name) for run in runs])
        means[name] = float(values.mean())
        std = float(values.std(ddof=1)) if len(values) > 1 else np.nan
        spread[f"{name}_std"], spread[f"{name}_err"] = std, std / float(np.sqrt(len(values)))
    return means, spread


@dataclass(frozen=True, kw_only=True)
class Agreement(Result):
    """Comparison of one measured number with its prediction, and whether they differ by more than noise."""

    quantity: str
    measured: float
    standard_error: float
    predicted: float
    difference: float
    z: float
    verdict: str


class Measured(Result):
    """Base class of means over repeated runs.

    ``spread`` holds, for each number, the standard deviation over the runs (``_std``) and the standard error of the
    mean (``_err``).
    """

    _NESTED: ClassVar[tuple[str, ...]] = ("certificate", "spread")
    _REPEATS: ClassVar[str] = "seeds"  # field with the number of runs
    _COMPARED: ClassVar[tuple[str, ...]] = ("test_error",)  # numbers that a theory predicts
    _SPREAD_EXPONENT: ClassVar[float] = 1.0  # the spread of one run falls as d to minus this power, as 1/sqrt(samples)

    dim: int
    spread: dict[str, float]

    def _error_attributes(self) -> dict[str, float]:
        """Spreads as attributes, such as ``test_error_std``."""
        return self.spread

    @property
    def repeats(self) -> int:
        """Number of runs in the means."""
        return int(getattr(self, self._REPEATS))

    @property
    def finite_size(self) -> float:
        """Largest relative difference from the limit of infinite dimension that is expected of a run of this size."""
        return FINITE_SIZE_BIAS / self.dim

    @cached_property
    def errors(self) -> dict[str, float]:
        """Standard errors of the means, by name."""
        return {key.removesuffix("_err"): value for key, value in self.spread.items() if key.endswith("_err")}

    def _comparable(self) -> tuple[str, ...]:
        """Measured numbers that the theory predicts, by name."""
        return tuple(name for name in self._COMPARED if getattr(self, name) is not None)

    def against(self, prediction: Result) -> tuple[Agreement, ...]:
        """Compare the means with a prediction, number by number.

        z = (measured - predicted) / standard error, and 0 where nothing varies and both agree. A run of size d differs
        from the limit by a relative O(1/d): a difference below 3 standard errors plus ``finite_size`` times the value
        counts as agreement. Numbers that the prediction lacks are left out.
        """
        known = (name for name in self._comparable() if hasattr(prediction, name))
        return tuple(self._agreement(name, float(getattr(prediction, name))) for name in known)

    def _agreement(self, name: str, predicted: float) -> Agreement:
        measured, error = float(getattr(self, name)), self.errors[name]
        difference = measured - predicted
        z_without_error = 0.0 if abs(difference) <= ROUNDING else np.nan
        z = z_without_error if error == 0.0 else difference / error
        if not np.isfinite(error):
            verdict = f"unknown: one {self._REPEATS.removesuffix('s')} has no standard error"
        elif abs(difference) <= max(SIGNIFICANCE * error, ROUNDING):
            verdict = "agrees within noise"
        elif abs(difference) <= SIGNIFICANCE * error + self.finite_size * abs(predicted):
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
    """Value at infinite dimension from a fit of a + b/d, its standard error, and its deviation from the prediction."""

    quantity: str
    value: float
    standard_error: float
    slope: float
    predicted: float
    z: float


def extrapolate(
    quantity: str, results: Sequence[Measured], predicted: float, run_predictions: Sequence[float] | None = None
) -> Extrapolation:
    """Extrapolate the means at several dimensions to infinite dimension, by a weighted fit of a + b/d.

    A run of size d rounds samples and ranks to integers. ``run_predictions`` are the predictions for the rounded
    problems; their differences from ``predicted`` are subtracted from the means. The spread of one run is assumed to
    fall as a power of d, and its size is pooled over all dimensions: estimates from the few runs of one dimension would
    give erratic weights.
    """
    exponent = results[0]._SPREAD_EXPONENT
    d = np.array([result.dim for result in results], dtype=np.float64)
    repeats = np.array([result.repeats for result in results], dtype=np.float64)
    mean = np.array([float(getattr(result, quantity)) for result in results])
    mean -= 0.0 if run_predictions is None else np.array(run_predictions) - predicted
    std = np.array([result.spread[f"{quantity}_std"] for result in results])
    known = np.isfinite(std)
    pooled = np.sum((repeats[known] - 1.0) * (std[known] * d[known] ** exponent) ** 2) / max(
        np.sum(repeats[known] - 1.0), 1.0
    )
    design, weight = np.stack([np.ones_like(d), 1.0 / d], axis=1), repeats * d ** (2.0 * exponent)
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
    """One sample ratio of a comparison: the prediction, training at every dimension, and the limits (one per number).

    ``beside`` holds, for every entry of ``runs``, the prediction for the problem with integer numbers of samples and
    rows that was trained. ``start`` names the start of training, where runs from several starts are compared.
    """

    _HIDDEN: ClassVar[tuple[str, ...]] = ("prediction", "runs", "beside")

    alpha: float
    prediction: Theory
    runs: tuple[Runs, ...]
    beside: tuple[Theory, ...]
    limits: tuple[Extrapolation, ...]
    start: str | None = None

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per dimension, and a row without dimension for the extrapolation."""
        rows = []
        began = {} if self.start is None else {"start": self.start}
        for run, theory in zip(self.runs, self.beside, strict=True):
            row = {"alpha": self.alpha, "dim": run.dim, **began, run._REPEATS: run.repeats, "status": run.status}
            for item in run.against(theory):
                if item.quantity == run._MAIN:
                    row["verdict"] = item.verdict
                row |= _cells(item.quantity, item.measured, item.standard_error, item.predicted, item.z)
            rows.append(row)
        if self.limits:
            total = sum(run.repeats for run in self.runs)
            row = {"alpha": self.alpha, "dim": None, **began, self.runs[0]._REPEATS: total, "status": "1/d → 0"}
            for limit in self.limits:
                row |= _cells(limit.quantity, limit.value, limit.standard_error, limit.predicted, limit.z)
            rows.append(row)
        return rows


def _cells(name: str, value: float, error: float, predicted: float, z: float) -> dict[str, float]:
    return {name: value, f"{name}_err": error, f"{name}_theory": predicted, f"{name}_z": z}


@dataclass(frozen=True, kw_only=True)
class TheoryComparison(Rows, Result, Generic[Theory, Runs]):
    """Base class of comparisons of theory with training."""

    _SUMMARY_FIELDS: ClassVar[tuple[str, ...]] = (
        "alpha",
        "dim",
        "test_error_theory",
        "test_error",
        "test_error_z",
        "verdict",
    )

    points: tuple[Point[Theory, Runs], ...]
    setting: str

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one row per sample ratio and dimension, and one per sample ratio for infinite dimension."""
        return [row for point in self.points for row in point.rows()]

    def __repr__(self) -> str:
        rows = [row for row in self.to_rows() if row["dim"] is not None]
        differing = sum(row["verdict"] == "differs by more than noise" for row in rows)
        counts = f"{len(rows)} measurements, {differing} off by more than noise"
        return f"{type(self).__name__}({counts}, setting={self.setting!r})"


def compare_with_runs(
    alphas: Sequence[float],
    dims: Sequence[int],
    repeats: int | Sequence[int],
    *,
    repeats_name: str,
    predict: Callable[[float], Theory],
    measure: Callable[[float, int, int], Runs],
    predict_run: Callable[[Theory, Runs], Theory] = lambda theory, _: theory,
) -> tuple[Point[Theory, Runs], ...]:
    """Predict every sample ratio, measure it at every dimension, and extrapolate the measurements in 1/d.

    Parameters
    ----------
    alphas, dims : sequences
        Sample ratios and dimensions.
    repeats : int or sequence of int
        Number of runs, for all dimensions or for each.
    repeats_name : str
        Name of the argument ``repeats`` in error messages.
    predict : callable
        Prediction for a sample ratio.
    measure : callable
        Mean over runs for a sample ratio, a dimension and a number of runs. If Ctrl-C interrupts it, the comparison
        ends there: the last point has no further dimension and no limit.
    predict_run : callable
        Prediction for the rounded problem that was measured, from that for the sample ratio.
    """
    counts = [repeats] * len(dims) if isinstance(repeats, int) else list(repeats)
    if len(counts) != len(dims) or not dims:
        raise InvalidArgument(repeats_name, repeats, "one number, or one per dimension")
    if not alphas:
        raise InvalidArgument("alphas", alphas, "at least one sample ratio")
    points: list[Point[Theory, Runs]] = []
    for alpha in alphas:
        theory = predict(alpha)
        runs: list[Runs] = []
        interrupted = False
        for dim, count in zip(dims, counts, strict=True):
            runs.append(measure(alpha, dim, count))
            certificate = runs[-1]._certificate
            interrupted = certificate is not None and certificate.interrupted
            if interrupted:
                break
        run_theories = tuple(predict_run(theory, run) for run in runs)
        limits: tuple[Extrapolation, ...] = ()
        if len(set(dims)) > 1 and max(counts) > 1 and not interrupted:
            limits = tuple(
                extrapolate(
                    name, runs, float(getattr(theory, name)), [float(getattr(own, name)) for own in run_theories]
                )
                for name in runs[0]._comparable()
                if hasattr(theory, name)
            )
        points.append(Point(alpha=alpha, prediction=theory, runs=tuple(runs), beside=run_theories, limits=limits))
        if interrupted:
            break
    return tuple(points)
