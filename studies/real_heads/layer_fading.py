"""Fading of the directions that weight decay removes: predictions and measurements, head by head.

Under plain gradient descent with the sum of rates t a direction fades as exp(-2 (λ - γ) t), γ its pull at the end, the
faintest value as exp(-2 λ t), and the imbalance of query and key as exp(-2 λ t) (M9). With Adam the time of a head is
Σ rate/√v. A head that is gone and moves by its noise alone has weights in proportion to the rate, and singular values
in proportion to its square.
"""

from typing import NamedTuple

import numpy as np

from studies.real_heads.layer_data import LayerData
from studies.real_heads.layer_statistics import by_run, course_of, penalised, select
from studies.real_heads.measure import CUT, Row
from studies.real_heads.runs import Run
from studies.real_heads.training_times import descent_time, rate_at

__all__ = ["AdamHead", "DescentHead", "adam_courses", "adam_rates", "descent_heads", "rate_powers", "run_of"]

ROUNDING = 1e-12  # of the largest singular value, below which values may be rounding of single precision
TEN = float(np.log(10.0))


class DescentHead(NamedTuple):
    """A head trained by plain gradient descent; changes of values are in decades.

    ``slopes`` has, for every direction that fades, d log s/dt in units of 2λ as predicted and as measured in the second
    half of the steps, and the noise of the prediction. ``predicted`` is the change of the faintest value and of the
    imbalance, ``measured`` that of the faintest value.
    """

    run: Run
    layer: int
    head: int
    left: int
    count: int
    slopes: list[tuple[float, float, float]]
    predicted: float
    measured: float
    imbalance: float

    @property
    def few(self) -> bool:
        """Whether decay has left at most a quarter of the directions."""
        return self.left <= self.count / 4


class AdamHead(NamedTuple):
    """A head trained by Adam; ``predicted`` and ``measured`` are decades by which its faintest value has changed."""

    steps: int
    layer: int
    head: int
    left: int
    count: int
    root: float
    predicted: float
    measured: float
    rate_power: float | None

    @property
    def few(self) -> bool:
        """Whether decay has left at most a quarter of the directions."""
        return self.left <= self.count / 4


def run_of(row: Row) -> Run:
    """Return the run of a row of heads."""
    names = ("width", "penalty", "value_penalty", "decay", "descent", "steps", "seed")
    return Run(**{name: row[name] for name in names})


def descent_heads(data: LayerData) -> list[DescentHead]:
    """Return the heads that were trained by plain gradient descent."""
    found, every, last = [], course_of(data.fading), course_of(data.directions)
    for row in data.heads:
        if not row["descent"]:
            continue
        place = row["run"], row["layer"], row["head"]
        courses, ends = every[place], last[place]
        run = run_of(row)
        start = [course["at 0"] for course in courses]
        expected = -2.0 * run.penalty * descent_time(run, run.steps) / TEN
        found.append(
            DescentHead(
                run,
                row["layer"],
                row["head"],
                row["left"],
                row["head_dim"],
                _slopes(courses, ends, run, CUT * float(np.median(start))),
                expected,
                float(np.log10(courses[-1][f"at {run.steps}"] / start[-1])),
                float(np.log10(row["imbalance"])),
            )
        )
    return found


def _slopes(courses: list[Row], ends: list[Row], run: Run, limit: float) -> list[tuple[float, float, float]]:
    """Return predicted and measured slopes of directions below the limit and above rounding."""
    steps = (run.steps // 2, run.steps)
    elapsed = 2.0 * run.penalty * (descent_time(run, steps[1]) - descent_time(run, steps[0]))
    found = []
    for course, end in zip(courses, ends, strict=True):
        before, after = (course[f"at {step}"] for step in steps)
        if ROUNDING * courses[0][f"at {run.steps}"] < after < limit:
            predicted, measured = end["pull"] / run.penalty - 1.0, float(np.log(after / before)) / elapsed
            found.append((predicted, measured, end["noise"] / run.penalty))
    return found


def adam_courses(data: LayerData) -> list[AdamHead]:
    """Return the heads of width 64 at λ = 0.001, trained by Adam for both numbers of steps."""
    found, courses = [], course_of(data.steps)
    for steps in sorted({row["steps"] for row in data.heads}):
        for row in select(data.heads, width=64, penalty=1e-3, steps=steps, seed=0):
            course = courses[row["run"], row["layer"], row["head"]]
            found.append(
                AdamHead(
                    steps,
                    row["layer"],
                    row["head"],
                    row["left"],
                    row["head_dim"],
                    row["root"],
                    -2.0 * row["penalty"] * row["adam_time"] / TEN,
                    float(np.log10(max(course[-1]["faintest"], 1e-300) / course[0]["faintest"])),
                    None if row["left"] else _rate_power(course, run_of(row)),
                )
            )
    return found


def _rate_power(course: list[Row], run: Run) -> float:
    """Return the power of the rate with which the largest value changes while the rate decreases."""
    here = [row for row in course if run.steps // 2 <= row["step"] < run.steps]
    rates = [rate_at(run, row["step"]) for row in here]
    return float(np.polyfit(np.log(rates), np.log([row["first"] for row in here]), 1)[0])


def rate_powers(data: LayerData) -> list[list[float]]:
    """Return, for each run by Adam with heads that are gone before the rate decreases, their powers of the rate."""
    found, courses = [], course_of(data.steps)
    for run in by_run(penalised(data.heads)):
        powers = []
        for row in run:
            course = courses[row["run"], row["layer"], row["head"]]
            gone = all(entry["left"] == 0 for entry in course if entry["step"] >= row["steps"] // 2)
            if gone:
                powers.append(_rate_power(course, run_of(row)))
        if powers:
            found.append(powers)
    return found


def adam_rates(data: LayerData) -> dict[str, list[list[Row]]]:
    """Return the runs of width 64 by their decay."""
    found = {
        f"λ = {penalty:g}": by_run(select(data.heads, width=64, penalty=penalty))
        for penalty in sorted({row["penalty"] for row in select(data.heads, width=64)})
    }
    for decay in sorted({row["decay"] for row in data.heads if row["decay"]}):
        found[f"AdamW {decay:g}"] = by_run(select(data.heads, width=64, penalty=0.0, decay=decay))
    return found
