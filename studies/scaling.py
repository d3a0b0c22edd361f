"""Three measurements about power-law targets: ``python -m studies.scaling exponents|tokens|training|draw FOLDER``.

exponents: do local exponents approach 1 - 1/(2 gamma) and 2 - 1/gamma as d grows, at a fixed log_d n?
tokens: does the sequence length change exponents, or only the scale alpha (T² + T - 2)/2?
training: trained heads compared with theory at several d.
Each writes a CSV into FOLDER, one row per solution as soon as it is finished; ``draw`` makes pictures of the CSV files.
"""

import csv
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onehead import aim
from onehead.aim.verbs.implicit_derivatives import local_exponent
from onehead.figures.drawing import line
from onehead.plot.style import finish_panel, guide, panels, training_marks, write_picture
from studies.csv_rows import write_csv

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GAMMAS = (0.75, 1.0, 1.25, 1.5)
DIMS = (100, 200, 400, 800, 1600, 3200)


def exponents() -> Iterator[dict[str, Any]]:
    """Yield local exponents and parts of the error at fixed log_d n, for growing d (7).

    With weight decay sqrt(d), features emerge from n = d² to d^(2 + gamma), and noise dominates from d³ on. With weight
    decay 1/d the first feature emerges from the noise at n = d, and the interpolation threshold is at about d²/7.
    """
    for gamma in GAMMAS:
        for log_lambda, log_samples in ((0.5, np.arange(2.2, 2.71, 0.1)), (-1.0, np.arange(1.1, 1.71, 0.1))):
            for dim in DIMS:
                task = aim.Task(target=aim.PowerLaw(gamma=gamma, dim=dim))
                learner = aim.Learner(weight_decay=float(dim**log_lambda))
                start = time.perf_counter()
                law = aim.scaling(task, learner, [float(dim**x) for x in log_samples])
                seconds = (time.perf_counter() - start) / len(log_samples)
                for x, row in zip(log_samples, law.to_rows(), strict=True):
                    names = ("excess_error", "local_exponent", "underfitting", "overfitting", "approximation", "status")
                    own = {"gamma": gamma, "log_lambda": log_lambda, "dim": dim, "log_n": float(x)}
                    yield {**own, **{name: row[name] for name in names}, "seconds": seconds}


def tokens() -> Iterator[dict[str, Any]]:
    """Yield excess error and exponents for T = 2, 3, 5 at equal alpha (T² + T - 2)/2 and equal weight decay.

    Logits are Gaussian, as in `onehead.aim.scaling`.
    """
    for count in (2, 3, 5):
        informative = (count * count + count - 2) / 2
        for decay in (1.0 / 200.0, 1.0):
            task = aim.Task(target=aim.PowerLaw(gamma=0.75, dim=200), tokens=count)
            near = None
            for scaled in np.geomspace(20.0, 0.05, 14):
                start = time.perf_counter()
                near = aim.predict(
                    task, aim.Learner(weight_decay=decay, leading=0), float(scaled / informative), near=near
                )
                yield {
                    "tokens": count,
                    "weight_decay": decay,
                    "scaled_alpha": scaled,
                    "excess_error": near.excess_error,
                    "local_exponent": local_exponent(near),
                    "seconds": time.perf_counter() - start,
                    "status": near.status,
                }


def training() -> Iterator[dict[str, Any]]:
    """Yield trained heads and theory; seeds share the spectrum of the target, and differ in eigenbasis and data."""
    settings = [(0.75, -1.0, x) for x in (1.3, 1.6, 1.9)] + [(1.25, -1.0, x) for x in (1.3, 1.6)]
    settings += [(0.75, 0.0, x) for x in (1.8, 2.0)] + [(1.25, 0.0, 1.8)]
    sizes = ((2, 50, 12), (2, 100, 8), (2, 200, 3), (3, 50, 6), (5, 50, 4))
    for count, dim, seeds in sizes:
        for gamma, log_lambda, log_n in settings:
            informative = (count * count + count - 2) / 2
            task = aim.Task(target=aim.PowerLaw(gamma=gamma, dim=dim), tokens=count)
            learner = aim.Learner(weight_decay=float(dim**log_lambda))
            alpha = 2.0 / informative * float(dim ** (log_n - 2.0))
            theory = aim.predict(task, learner, alpha)
            runs = aim.train(task, learner, dim=dim, alpha=alpha, seeds=seeds)
            floor = theory.test_error - theory.excess_error
            yield {
                "tokens": count,
                "dim": dim,
                "gamma": gamma,
                "log_lambda": log_lambda,
                "log_n": log_n,
                "samples": runs.samples,
                "seeds": seeds,
                "excess_theory": theory.excess_error,
                "excess": runs.test_error - floor,
                "excess_err": runs.spread["test_error_err"],
                "rank_theory": theory.rank,
                "rank": runs.rank,
                "seconds": runs.seconds,
            }


def _read(folder: Path, name: str) -> list[dict[str, Any]]:
    """Return the rows of a CSV file, with numbers as floats."""
    with (folder / f"scaling-{name}.csv").open(newline="") as file:
        return [
            {key: value if key == "status" else float(value) for key, value in row.items()}
            for row in csv.DictReader(file)
        ]


def _panels_of(rows: list[dict[str, Any]], *names: str) -> list[dict[str, float]]:
    """Return the different values of these columns, in the order in which they occur."""
    return [
        dict(zip(names, values, strict=True)) for values in dict.fromkeys(tuple(row[n] for n in names) for row in rows)
    ]


def _where(rows: list[dict[str, Any]], **values: float) -> list[dict[str, Any]]:
    return [row for row in rows if all(row[name] == value for name, value in values.items())]


def draw_exponents(rows: list[dict[str, Any]]) -> "Figure":
    """Return the figure of local exponents at fixed log_d n, darker for larger d, with predicted values as guides."""
    chosen = [own for own in _panels_of(rows, "gamma", "log_lambda") if own["gamma"] in (0.75, 1.25)]
    picture, axes = panels(2, 2)
    for pane, own in zip(axes, chosen, strict=False):
        gamma = own["gamma"]
        for k, dim in enumerate(DIMS):
            line(pane, _where(rows, dim=dim, **own), "log_n", "local_exponent", f"d = {dim}", k)
        guide(pane, y=-(2.0 - 1.0 / gamma) if own["log_lambda"] > 0.0 else -(1.0 - 0.5 / gamma), text="predicted")
        decay = r"\sqrt{d}" if own["log_lambda"] > 0.0 else "1/d"
        finish_panel(
            pane, r"$\log_d n$", "local exponent", rf"$\gamma = {gamma:g}$, $\lambda = {decay}$", legend="best"
        )
    return picture


def draw_tokens(rows: list[dict[str, Any]]) -> "Figure":
    """Return the figure of excess errors and exponents against samples per informative combination, T = 2, 3, 5."""
    picture, axes = panels(2, 2)
    for column, own in enumerate(_panels_of(rows, "weight_decay")):
        decay = own["weight_decay"]
        for pane, name in ((axes[column], "excess_error"), (axes[2 + column], "local_exponent")):
            for k, count in enumerate((2, 3, 5)):
                line(pane, _where(rows, tokens=count, **own), "scaled_alpha", name, f"T = {count}", k)
            title = rf"$\gamma = 0.75$, $d = 200$, $\lambda = {decay:g}$"
            log = "xy" if name == "excess_error" else "x"
            finish_panel(pane, r"$\alpha (T^2 + T - 2)/2$", name.replace("_", " "), title, log=log, legend="best")
    return picture


def draw_training(rows: list[dict[str, Any]]) -> "Figure":
    """Return the figure of the gap between trained excess errors and theory against 1/d, two tokens."""
    picture, axes = panels(1, 2)
    for pane, gamma in zip(axes, (0.75, 1.25), strict=True):
        for k, own in enumerate(_panels_of(_where(rows, tokens=2, gamma=gamma), "log_lambda", "log_n")):
            found = _where(rows, tokens=2, gamma=gamma, **own)
            gaps = [row["excess"] / row["excess_theory"] - 1.0 for row in found]
            errors = [row["excess_err"] / row["excess_theory"] for row in found]
            label = f"λ = {'1/d' if own['log_lambda'] < 0.0 else '1'}, log n = {own['log_n']:g} log d"
            training_marks(pane, [1.0 / row["dim"] for row in found], gaps, errors, label, k, ls="-")
        guide(pane, y=0.0, text="theory")
        finish_panel(
            pane, "1/d", "trained / theory - 1, of the excess error", rf"$\gamma = {gamma:g}$", ylim=(-0.03, 0.5)
        )
    return picture


PICTURES = {"exponents": draw_exponents, "tokens": draw_tokens, "training": draw_training}


def main() -> None:
    """Write one CSV file, row by row, or the pictures of all that are there."""
    name, folder = sys.argv[1], Path(sys.argv[2])
    if name == "draw":
        for found, picture in PICTURES.items():
            if (folder / f"scaling-{found}.csv").exists():
                write_picture(picture(_read(folder, found)), folder / f"scaling-{found}.png", dpi=130)
        return
    rows = {"exponents": exponents, "tokens": tokens, "training": training}[name]()
    write_csv(folder / f"scaling-{name}.csv", rows)


if __name__ == "__main__":
    main()
