"""Heads trained on power laws compared with both theories: ``python -m studies.power WHAT FOLDER [dim seeds]``.

training: the settings of `studies.scaling` with other seeds, at one dimension. extensions: other losses and
parametrisations. directions: components of trained maps along their leading directions, at one dimension. cross:
cross-attention, with separate key tokens. Each writes a CSV into FOLDER, one row per setting as soon as it is finished.
tables: the tables of the documentation, from these files. published: predictions for the rows of `studies.scaling`,
without training.
"""

import csv
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from checks import tool

from onehead import aim
from onehead.aim.theory.output.leading_noise import DirectionNoiseEvolution
from studies.csv_rows import write_csv

SEED = 2300
SETTINGS = [(0.75, -1.0, x) for x in (1.3, 1.6, 1.9)] + [(1.25, -1.0, x) for x in (1.3, 1.6)]
SETTINGS += [(0.75, 0.0, x) for x in (1.8, 2.0)] + [(1.25, 0.0, 1.8)]
DIRECTION_SETTINGS = [(-1.0, x) for x in (1.3, 1.6, 1.9, 2.15)] + [(0.0, x) for x in (1.8, 2.0)]
LEADING = 3  # directions
METHOD = aim.Method(test_samples=100_000)
QUANTITIES = ("test_error", "q", "m", "train_loss")
LEARNERS: dict[str, dict[str, Any]] = {
    "cross-entropy": {"loss": "cross-entropy"},
    "direct": {"param": "direct"},
    "width 0.2": {"width": 0.2},
    "hardly any weight decay": {"weight_decay": 1e-4},
}
# tokens, loss, α and λ of untied heads
CROSS: list[tuple[int, str, float, float]] = [
    (2, "squared", 0.3, 0.02),
    (2, "squared", 1.0, 0.05),
    (2, "squared", 1.0, 0.2),
    (2, "squared", 3.0, 0.2),
    (2, "cross-entropy", 1.0, 0.2),
    (3, "squared", 0.3, 0.02),
    (3, "squared", 0.3, 0.2),
    (3, "squared", 1.0, 0.2),
    (4, "squared", 0.3, 0.2),
]


def compare(task: aim.Task, learner: aim.Learner, dim: int, alpha: float, seeds: int) -> dict[str, Any]:
    """Return quantities of training, of the Gaussian theory and of the theory with leading directions."""
    runs = aim.train(task, learner, dim=dim, alpha=alpha, seeds=seeds, seed=SEED, method=METHOD)
    own, head, ratio = runs.trained
    theories = {"gaussian": aim.predict(own, head.gaussian, ratio), "leading": aim.predict(own, head, ratio)}
    first = [_learned(run.target, run.map) for run in runs.runs]
    row: dict[str, Any] = {"samples": runs.samples, "seeds": seeds, "theta": float(np.mean(first))}
    row["theta_leading"] = theories["leading"].directions[0].learned if theories["leading"].directions else np.nan
    for name in QUANTITIES:
        row |= {name: getattr(runs, name), f"{name}_err": runs.spread[f"{name}_err"]}
        row |= {f"{name}_{theory}": getattr(point, name) for theory, point in theories.items()}
    for theory, point in theories.items():
        row[f"gap_{theory}"] = 100.0 * (point.test_error / runs.test_error - 1.0)
    return row


def _learned(target: np.ndarray[Any, Any], trained: np.ndarray[Any, Any]) -> float:
    """Return the component of a map along the first singular vectors of its target (tied: its first eigenvector)."""
    left, _, right = np.linalg.svd(target)
    return float(left[:, 0] @ trained @ right[0])


def training(dim: int = 50, seeds: int = 16) -> Iterator[dict[str, Any]]:
    """Yield the eight settings of the agreement table at one dimension."""
    for gamma, log_lambda, log_n in SETTINGS:
        task = aim.Task(target=aim.PowerLaw(gamma=gamma, dim=dim))
        learner = aim.Learner(weight_decay=float(dim**log_lambda))
        row = compare(task, learner, dim, float(dim ** (log_n - 2.0)), seeds)
        yield {"gamma": gamma, "dim": dim, "log_lambda": log_lambda, "log_n": log_n, **row}


def directions(dim: int = 50, seeds: int = 12) -> Iterator[dict[str, Any]]:
    """Yield trained maps in the basis of their target, with the theory without and with leading noise (P10)."""
    for log_lambda, log_n in DIRECTION_SETTINGS:
        task = aim.Task(target=aim.PowerLaw(gamma=0.75, dim=dim))
        learner = aim.Learner(weight_decay=float(dim**log_lambda), leading=LEADING)
        runs = aim.train(
            task, learner, dim=dim, alpha=float(dim ** (log_n - 2.0)), seeds=seeds, seed=SEED, method=METHOD
        )
        point = aim.predict(*runs.trained)
        found, plain = aim.directions(point), _without_noise(point)
        row: dict[str, Any] = {"dim": dim, "log_lambda": log_lambda, "samples": runs.samples, "seeds": seeds}
        for name, values in _measured(runs).items():
            row |= {name: float(np.mean(values)), f"{name}_err": float(np.std(values, ddof=1) / np.sqrt(seeds))}
            row |= {f"{name}_plain": plain[name], f"{name}_block": _block(found)[name]}
        yield row


def _measured(runs: aim.TrainingResult) -> dict[str, list[float]]:
    """Return q, m, and for each leading direction its element, the squares of its row, and its overlap, run by run."""
    found: dict[str, list[float]] = {}
    for run in runs.runs:
        _, basis = np.linalg.eigh(run.target)
        own = basis.T @ run.map @ basis
        vectors = np.linalg.eigh(run.map)[1]
        found.setdefault("q", []).append(run.q)
        found.setdefault("m", []).append(run.m)
        for k in range(1, LEADING + 1):
            found.setdefault(f"theta_{k}", []).append(float(own[-k, -k]))
            found.setdefault(f"scatter_{k}", []).append(float(own[-k] @ own[-k] - own[-k, -k] ** 2))
            found.setdefault(f"overlap_{k}", []).append(float((vectors[:, -k] @ basis[:, -k]) ** 2))
    return found


def _block(found: aim.LearnedDirections) -> dict[str, float]:
    """Return these quantities in the theory with noise of leading directions."""
    row = {"q": found.q, "m": found.m}
    for k, one in enumerate(found.directions, 1):
        row |= {f"theta_{k}": one.learned, f"scatter_{k}": one.scatter}
        row[f"overlap_{k}"] = np.nan if one.overlap is None else one.overlap
    return row


def _without_noise(point: aim.Prediction) -> dict[str, float]:
    """Return these quantities in a prediction, whose leading directions have the noise of all others."""
    problem = point.equations
    hats = problem.hats(point.q_hat, point.m_hat, point.sigma_hat, tuple(one.effective for one in point.directions))
    equations = DirectionNoiseEvolution(problem, point.alpha)
    start = equations.start(problem.overlaps_of(hats))
    row = {"q": point.q, "m": point.m}
    for k, (one, vector) in enumerate(zip(point.directions, equations.eigenvectors(start), strict=True), 1):
        row |= {f"theta_{k}": one.learned, f"scatter_{k}": problem.directions.length**2 * float(start.scatter[k - 1])}
        row[f"overlap_{k}"] = np.nan if vector is None else vector.overlap
    return row


def extensions(dim: int = 50, seeds: int = 10) -> Iterator[dict[str, Any]]:
    """Yield the same equations with another loss, input channel or limit."""
    for name, parameters in LEARNERS.items():
        for gamma in (0.75, 1.25):
            for alpha in (0.2, 1.0):
                task = aim.Task(target=aim.PowerLaw(gamma=gamma, dim=dim))
                row = compare(task, aim.Learner(**({"weight_decay": 0.05} | parameters)), dim, alpha, seeds)
                yield {"learner": name, "gamma": gamma, "dim": dim, "alpha": alpha, **row}


def cross(dim: int = 50, seeds: int = 8) -> Iterator[dict[str, Any]]:
    """Yield cross-attention at one dimension: few and many samples, weak and strong decay, two to four tokens (P15)."""
    for tokens, loss, alpha, decay in CROSS:
        for gamma in (0.75, 1.25):
            task = aim.Task(target=aim.PowerLaw(gamma=gamma, dim=dim), attention="cross", tokens=tokens)
            row = compare(task, aim.Learner(weight_decay=decay, loss=loss), dim, alpha, seeds)
            yield {"tokens": tokens, "loss": loss, "gamma": gamma, "dim": dim, "alpha": alpha, "lambda": decay, **row}


def published(folder: Path) -> None:
    """Write the gaps of the test error in the rows of `studies.scaling`, by the number of directions."""
    gaps: dict[tuple[str, ...], list[list[float]]] = {}
    for line in (tool.ASSETS / "scaling-training.md").read_text(encoding="utf-8").splitlines()[2:]:
        tokens, dim, gamma, decay, _, samples, _, trained, *_ = (cell.strip() for cell in line.strip("| ").split("|"))
        target = aim.PowerLaw(gamma=float(gamma), dim=int(dim))
        task, own = aim.Task(target=target, tokens=int(tokens)), 1.0 / int(dim) if decay == "1/d" else 1.0
        points = [
            aim.predict(task, aim.Learner(weight_decay=own, leading=count), int(samples) / int(dim) ** 2)
            for count in (0, 1, 3)
        ]
        floor = points[0].test_error - points[0].excess_error  # from which the excess in the table was computed
        run = float(trained.split("±")[0]) + floor
        found = [100.0 * (point.test_error / run - 1.0) for point in points]
        gaps.setdefault((tokens, gamma if tokens == "2" else "both", dim), []).append(found)
        print(tokens, dim, gamma, decay, samples, f"{run:.4f}", *(f"{gap:+.1f}" for gap in found), flush=True)
    lines = [
        [
            *key,
            str(len(rows)),
            *(f"{np.mean(np.abs(gap)):.1f} ({np.max(np.abs(gap)):.1f})" for gap in zip(*rows, strict=True)),
        ]
        for key, rows in gaps.items()
    ]
    head = ["T", "γ", "d", "rows", "Gaussian", "one direction", "three directions"]
    (folder / "power-published.md").write_text(tool.table(head, lines) + "\n", encoding="utf-8")


def tables(folder: Path) -> None:
    """Write the tables of the page from the CSV files of a folder."""
    rows = [row for path in sorted(folder.glob("power-training-*.csv")) for row in csv.DictReader(path.open())]
    rows.sort(key=lambda row: (float(row["gamma"]), int(row["dim"])))
    head = ["γ", "d", "λ", "n", "seeds", "trained", "Gaussian", "gap", "leading directions", "gap"]
    lines = [[row["gamma"], row["dim"], "1/d" if row["log_lambda"] == "-1" else "1", *_columns(row)] for row in rows]
    for gamma in ("0.75", "1.25"):
        own = [row for row in rows if row["gamma"] == gamma]
        for dim in (*sorted({int(row["dim"]) for row in own}), "all"):
            some = [row for row in own if dim in ("all", int(row["dim"]))]
            gaps = [np.mean([abs(float(row[name])) for row in some]) for name in ("gap_gaussian", "gap_leading")]
            lines.append([gamma, str(dim), "mean size", "", "", "", "", f"{gaps[0]:.1f}%", "", f"{gaps[1]:.2f}%"])
    (folder / "power-training.md").write_text(tool.table(head, lines) + "\n", encoding="utf-8")
    rows = [row for path in sorted(folder.glob("power-extensions-*.csv")) for row in csv.DictReader(path.open())]
    lines = [[row["learner"], row["gamma"], row["alpha"], *_columns(row)[2:]] for row in rows]
    (folder / "power-extensions.md").write_text(
        tool.table(["learner", "γ", "α", *head[5:]], lines) + "\n", encoding="utf-8"
    )
    _cross_table(folder, head[4:])
    _directions_table(folder)


def _cross_table(folder: Path, head: list[str]) -> None:
    """Write the table of cross-attention, one line per setting and dimension."""
    rows = [row for path in sorted(folder.glob("power-cross-*.csv")) for row in csv.DictReader(path.open())]
    names = ("tokens", "loss", "gamma", "alpha", "lambda", "dim")
    rows.sort(key=lambda row: (int(row["tokens"]), row["loss"] != "squared", *(float(row[name]) for name in names[2:])))
    lines = [[*(row[name] for name in names), *_columns(row)[1:]] for row in rows]
    for dim in (*sorted({int(row["dim"]) for row in rows}), "all"):
        some = [row for row in rows if dim in ("all", int(row["dim"]))]
        gaps = [np.mean([abs(float(row[name])) for row in some]) for name in ("gap_gaussian", "gap_leading")]
        lines.append(["", "mean size", "", "", "", str(dim), "", "", "", f"{gaps[0]:.1f}%", "", f"{gaps[1]:.2f}%"])
    table = tool.table(["T", "loss", "γ", "α", "λ", "d", *head], lines)
    (folder / "power-cross.md").write_text(table + "\n", encoding="utf-8")


def _directions_table(folder: Path) -> None:
    """Write the table of directions: trained / prediction / theory with noise of leading directions."""
    names = {"q": "q", "m": "m", "theta_1": "θ₁"} | {f"scatter_{k}": f"v{'₁₂₃'[k - 1]}" for k in (1, 2, 3)}
    names |= {"overlap_1": "overlap₁"}
    paths = sorted(folder.glob("power-directions-*.csv"), key=lambda path: int(path.stem.split("-")[-1]))
    lines = [
        [
            row["dim"],
            "1/d" if row["log_lambda"] == "-1" else "1",
            row["samples"],
            row["seeds"],
            *(
                f"{float(row[name]):.3g} ± {float(row[f'{name}_err']):.1g} / "
                f"{float(row[f'{name}_plain']):.3g} / {float(row[f'{name}_block']):.3g}"
                for name in names
            ),
        ]
        for path in paths
        for row in csv.DictReader(path.open())
    ]
    head = ["d", "λ", "n", "seeds", *names.values()]
    (folder / "power-directions.md").write_text(tool.table(head, lines) + "\n", encoding="utf-8")


def _columns(row: dict[str, str]) -> list[str]:
    """Return samples, seeds, the trained test error and both theories as text."""
    number = {name: float(value) for name, value in row.items() if name.startswith(("test_error", "gap"))}
    theories = (
        text
        for name in ("gaussian", "leading")
        for text in (f"{number[f'test_error_{name}']:.4f}", f"{number[f'gap_{name}']:+.1f}%")
    )
    return [row["samples"], row["seeds"], f"{number['test_error']:.4f} ± {number['test_error_err']:.4f}", *theories]


def main() -> None:
    """Write one CSV file, row by row, or the tables."""
    name, folder, *sizes = sys.argv[1:]
    if name in ("tables", "published"):
        {"tables": tables, "published": published}[name](Path(folder))
        return
    kinds = {"training": training, "extensions": extensions, "directions": directions, "cross": cross}
    rows = kinds[name](*(int(size) for size in sizes))
    write_csv(Path(folder, f"power-{name}{'-' + sizes[0] if sizes else ''}.csv"), rows)


if __name__ == "__main__":
    main()
