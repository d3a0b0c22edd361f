"""Statistics of the second study: half points and rank correlations, each with a standard error.

Heads of one run share weights and text, so that standard errors are taken over runs, or over seeds where runs differ in
their settings.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import least_squares
from scipy.stats import spearmanr

from studies.real_heads.layer_theory import strength
from studies.real_heads.measure import Array, Row
from studies.real_heads.runs import Run

__all__ = [
    "Estimate",
    "alive",
    "at_place",
    "at_start",
    "by_run",
    "correlation",
    "course_of",
    "half_point",
    "half_points",
    "mean_of",
    "only",
    "penalised",
    "select",
]

RESAMPLES = 200
SETTINGS = ("penalty", "value_penalty", "decay", "descent", "steps")
USUAL = {"value_penalty": 0.0, "decay": 0.0, "descent": 0.0, "steps": Run.steps}


class Estimate(NamedTuple):
    """A number with its standard error."""

    value: float
    error: float

    def text(self, digits: int = 2) -> str:
        """Return value ± error with this number of digits after the point."""
        error = "" if np.isnan(self.error) else f" ± {self.error:.{digits}f}"
        return f"{self.value:.{digits}f}{error}"


def select(rows: Iterable[Row], **wanted: object) -> list[Row]:
    """Return the rows of runs with these settings; settings that are not named are the usual ones."""
    known = USUAL | wanted
    return [row for row in rows if all(row[name] == value for name, value in known.items())]


def only(rows: Iterable[Row], **wanted: object) -> list[Row]:
    """Return the rows with these values."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def alive(rows: Iterable[Row]) -> list[Row]:
    """Return the heads of which at least one direction is left."""
    return [row for row in rows if row["left"]]


def by_run(rows: Iterable[Row]) -> list[list[Row]]:
    """Return the rows of each run."""
    found: dict[int, list[Row]] = {}
    for row in rows:
        found.setdefault(row["run"], []).append(row)
    return list(found.values())


def mean_of(values: Sequence[float]) -> Estimate:
    """Return mean and standard error; the error of a single value is not known."""
    known = [value for value in values if not np.isnan(value)]
    error = float(np.std(known, ddof=1) / len(known) ** 0.5) if len(known) > 1 else np.nan
    return Estimate(float(np.mean(known)) if known else np.nan, error)


def correlation(rows: Iterable[Row], x: str, y: str, *, within: str | None = None) -> Estimate:
    """Return the rank correlation of two columns over the heads of a run, its mean and standard error over runs.

    With ``within`` it is that of the heads with the same value of this column, such as the layer.
    """
    found = []
    for run in by_run(rows):
        groups = [run] if within is None else [only(run, **{within: value}) for value in {row[within] for row in run}]
        for group in groups:
            if len({row[x] for row in group}) > 1 and len({row[y] for row in group}) > 1:
                found.append(float(spearmanr([row[x] for row in group], [row[y] for row in group]).statistic))
    return mean_of(found)


def at_start(rows: Iterable[Row]) -> dict[tuple[int, int, int, int], Row]:
    """Return the heads of the runs without decay, by width, seed, layer and head."""
    return {at_place(row): row for row in select(rows, penalty=0.0)}


def at_place(row: Row) -> tuple[int, int, int, int]:
    """Return width, seed, layer and head of a row."""
    return row["width"], row["seed"], row["layer"], row["head"]


def penalised(rows: Iterable[Row], **wanted: object) -> list[Row]:
    """Return the heads of the usual runs with a penalty."""
    return [row for row in select(rows, **wanted) if row["penalty"]]


def course_of(rows: Iterable[Row]) -> dict[tuple[int, int, int], list[Row]]:
    """Return the rows of each head, by run, layer and head."""
    found: dict[tuple[int, int, int], list[Row]] = {}
    for row in rows:
        found.setdefault((row["run"], row["layer"], row["head"]), []).append(row)
    return found


def _fitted(x: Array, share: Array) -> float:
    """Return where a logistic curve of log x, fitted to shares, is one half."""
    middle = float(np.interp(0.5, np.sort(1.0 - share), np.sort(x)))

    def residuals(parameters: Array) -> Array:
        found: Array = 0.5 * (1.0 - np.tanh(0.5 * np.exp(parameters[1]) * (x - parameters[0]))) - share
        return found

    return float(least_squares(residuals, (middle, 0.7)).x[0])


def half_point(
    rows: Sequence[Row], force: Callable[[Row], float], *, seed: int = 0, resamples: int = RESAMPLES
) -> Estimate:
    """Return log λ/R, in the units of the theory, at which half of the directions are left, with its standard error.

    The error comes from runs drawn with replacement.
    """
    runs = [
        np.array(
            [(np.log(strength(row["penalty"], row["width"], force(row))), row["left"] / row["head_dim"]) for row in run]
        )
        for run in by_run(rows)
    ]
    rng = np.random.default_rng(seed)
    every = np.concatenate(runs)
    drawn = []
    for _ in range(resamples):
        part = np.concatenate([runs[place] for place in rng.integers(0, len(runs), len(runs))])
        if part[:, 1].min() < 0.5 < part[:, 1].max():
            drawn.append(_fitted(*part.T))
    return Estimate(_fitted(*every.T), float(np.std(drawn)) if len(drawn) > 1 else np.nan)


def theory_half(x: Sequence[float], share: Sequence[float]) -> float:
    """Return log x where a decreasing curve of the theory crosses one half."""
    return float(np.interp(-0.5, -np.array(share), np.log(x)))


def half_points(rows: Sequence[Row], curves: dict[str, Any]) -> dict[str, dict[str, tuple[float, float | None]]]:
    """Return log λ/R at which half of the directions are left, with its error, by width.

    ``own`` takes R of the head itself, ``before`` that of the same head in the run without decay, ``alone`` the
    information of the theory for every head; the others are those of the theory.
    """
    first = at_start(rows)
    found: dict[str, dict[str, tuple[float, float | None]]] = {}
    for width, theory in curves.items():
        here = penalised(rows, width=int(width))
        known = [row for row in here if at_place(row) in first]
        measured = {
            "own": half_point(here, lambda row: row["force"]),
            "before": half_point(known, lambda row: first[at_place(row)]["force"]),
            "alone": half_point(here, lambda _, theory=theory: theory["one"]["information"]),
        }
        found[width] = {
            name: (each.value, None if np.isnan(each.error) else each.error) for name, each in measured.items()
        }
        for name, curve in theory.items():
            for kind in ("own", "before"):
                found[width][f"theory {kind}, {name}"] = (theory_half(curve[kind], curve["share"]), None)
    return found
