"""Joint descent by twelve schedules, and alignment of sequences as long as the dimension: training and prediction.

``python -m studies.joint_training [--store FILE] [--seconds S] [--write]`` makes the runs that the store lacks, prints
both tables and with ``--write`` puts them into docs/assets/joint-training.md and docs/assets/joint-long.md. Descents
draw every token, at d = 500 to 2,000; alignments use the sampler of the two steps that is exact in law. The goal is
that each mean lies within three standard errors of its prediction, or within a relative 10/d. About ten minutes on one
core; Ctrl-C loses one run.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from checks.tool import collect, parser, table, write

from onehead import sparse
from onehead.sparse.solve.descent import STEP_QUANTITIES, Plan
from onehead.sparse.training.joint_descent import descent_run
from onehead.sparse.training.samplers import first_steps

STORE = Path("out") / "joint-training.jsonl"
VERSION = 1  # raised when the settings below change, so that no store mixes two lists
COMPARED = ("test_error", "train_loss", "cos_query", "cos_readout", "norm_query", "norm_readout", "bias")
MAX_STANDARD_ERRORS = 3.0
FINITE_SIZE = 10.0  # over the dimension: relative difference that counts as a finite-size effect
RUNS = {500: 6, 1000: 3}  # runs at each dimension
LARGE = {**RUNS, 2000: 2}


class Setting(NamedTuple):
    """A descent and the number of runs at each dimension."""

    name: str
    task: sparse.Task
    protocol: sparse.Protocol
    plan: Plan
    runs: dict[int, int]


class Alignment(NamedTuple):
    """Two gradient steps with L = ratio times d, a signal at 2.5 sqrt(log L) and 4 L/theta^3 samples over d."""

    dim: int
    ratio: float
    eta_b: float
    runs: int

    @property
    def problem(self) -> tuple[sparse.Task, sparse.Protocol]:
        """Task and protocol."""
        length = round(self.ratio * self.dim)
        strength = 2.5 * float(np.sqrt(np.log(length)))
        task = sparse.Task(length=length, strength=strength)
        return task, sparse.Protocol(alpha0=4.0 * length / strength**3, eta_b=self.eta_b, beta=1.0)


STRONG, WEAK = sparse.Task(length=10, strength=5.0), sparse.Task(length=10, strength=3.0)
RARE = sparse.Task(length=6, signal_tokens=2, strength=3.0, positive_rate=0.3)
THREE = sparse.Task(length=10, signal_tokens=3, strength=3.0, positive_rate=0.2)


def _protocol(alpha: float, rates: tuple[float, float, float], ridges: tuple[float, float], loss: str) -> Any:
    """Protocol with rates (eta_q, eta_w, eta_b) and ridges of query and readout."""
    names = ("eta_q", "eta_w", "eta_b", "ridge_query", "ridge")
    values = dict(zip(names, (*rates, *ridges), strict=True))
    return sparse.Protocol(alpha0=alpha / 2.0, alpha1=alpha / 2.0, beta=1.0, loss=loss, **values)


def _settings() -> Iterator[Setting]:
    """Yield eight schedules with the logistic and four with the square loss."""
    logistic = (
        ("constant rates, α = 2", STRONG, 2.0, (1.0, 0.5, 3.0), (0.03, 0.1), Plan(9), LARGE),
        ("constant rates, α = 1", STRONG, 1.0, (1.0, 0.3, 3.0), (0.03, 0.1), Plan(10), RUNS),
        ("no ridge", STRONG, 2.0, (1.5, 1.5, 0.5), (0.0, 0.0), Plan(12), RUNS),
        ("rare positives", RARE, 1.0, (2.0, 2.0, 2.0), (0.01, 0.01), Plan(8), RUNS),
        (
            "rates of three phases",
            STRONG,
            2.0,
            (1.0, 0.5, 3.0),
            (0.03, 0.1),
            Plan(6, schedule=[(0.0, 1.0, 4.0), (4.0, 0.0, 1.0), (1.0, 0.5, 2.0)]),
            RUNS,
        ),
        ("weak signal", WEAK, 4.0, (1.0, 0.5, 3.0), (0.03, 0.1), Plan(12), RUNS),
        ("three signal tokens", THREE, 2.0, (1.0, 0.5, 3.0), (0.03, 0.1), Plan(8), RUNS),
        ("fresh batches", STRONG, 2.0, (1.0, 1.0, 2.0), (0.0, 0.0), Plan(12, "fresh", 0.5), RUNS),
    )
    square = (
        ("constant rates", STRONG, 2.0, (0.3, 0.3, 0.3), (0.0, 0.05), Plan(8), LARGE),
        ("rare positives", RARE, 2.0, (0.3, 0.3, 0.3), (0.03, 0.05), Plan(10), RUNS),
        (
            "rates of three phases",
            STRONG,
            2.0,
            (0.3, 0.3, 0.3),
            (0.03, 0.05),
            Plan(8, schedule=[(0.0, 0.5, 0.5), (0.5, 0.0, 0.5), (0.3, 0.3, 0.3)]),
            RUNS,
        ),
        ("fresh batches", RARE, 2.0, (0.3, 0.3, 0.3), (0.0, 0.0), Plan(12, "fresh", 0.25), RUNS),
    )
    for loss, listed in (("logistic", logistic), ("square", square)):
        for name, task, alpha, rates, ridges, plan, runs in listed:
            yield Setting(f"{loss}, {name}", task, _protocol(alpha, rates, ridges, loss), plan, runs)


SETTINGS = tuple(_settings())
ALIGNMENTS = tuple(
    Alignment(dim, ratio, eta_b, runs) for dim, runs in ((500, 24), (1000, 8)) for ratio in (0.5, 1.0, 2.0)
    for eta_b in (0.5, 4.0)
)  # fmt: skip
DESCENTS = [(k, dim, run) for k, one in enumerate(SETTINGS) for dim, runs in one.runs.items() for run in range(runs)]
ALIGNED = [(k, one.dim, run) for k, one in enumerate(ALIGNMENTS) for run in range(one.runs)]
JOBS = [("descent", *job) for job in DESCENTS] + [("alignment", *job) for job in ALIGNED]


def measure(number: int) -> dict[str, Any]:
    """Make the run of this number."""
    kind, index, dim, run = JOBS[number]
    rng = np.random.default_rng([42, kind == "descent", index, dim, run])
    row: dict[str, Any] = {"number": number, "version": VERSION}
    if kind == "descent":
        setting = SETTINGS[index]
        last = list(descent_run(setting.task, setting.protocol, setting.plan, dim, rng))[-1]
        return row | {name: last[STEP_QUANTITIES.index(name)] for name in COMPARED}
    query = first_steps(*ALIGNMENTS[index].problem, dim, rng)
    return row | {"cos_query": query.cos, "norm_query": query.sharpness}


def _of(rows: dict[int, dict[str, Any]], kind: str, index: int, dim: int) -> list[dict[str, Any]]:
    """The runs of one setting at one dimension."""
    return [row for number, row in rows.items() if JOBS[number][:3] == (kind, index, dim)]


def descents(rows: dict[int, dict[str, Any]]) -> str:
    """The table of the descents: means with standard errors above the predictions, at the largest dimension."""
    lines, counted, outside = [], 0, []
    for index, setting in enumerate(SETTINGS):
        theory = sparse.descend(setting.task, setting.protocol, **setting.plan._asdict()).after(setting.plan.steps)
        for dim in setting.runs:
            runs = _of(rows, "descent", index, dim)
            if len(runs) < 2:
                continue
            cells = []
            for name in COMPARED:
                values = np.array([row[name] for row in runs])
                mean, error = float(values.mean()), float(values.std(ddof=1)) / np.sqrt(len(values))
                value = float(getattr(theory, name))
                counted += 1
                allowed = max(
                    MAX_STANDARD_ERRORS * np.hypot(error, theory.errors[name]), FINITE_SIZE / dim * abs(value)
                )
                if abs(mean - value) > allowed:
                    outside.append(f"{setting.name}, d = {dim}, {name}")
                if name in ("test_error", "train_loss", "cos_query", "norm_readout", "bias"):
                    cells.append(f"{mean:.4f} ± {error:.4f} / {value:.4f}")
            lines.append([setting.name, str(setting.plan.steps), f"{dim} ({len(runs)})", *cells])
    head = ["descent", "steps", "d (runs)", "test error", "training loss", "cos query", "norm of the readout", "bias"]
    text = f"{counted} comparisons, {len(outside)} outside three standard errors and 10/d"
    return table(head, lines, range(1, len(head))) + f"\n\n{text}{': ' if outside else ''}{'; '.join(outside)}.\n"


def alignments(rows: dict[int, dict[str, Any]]) -> str:
    """The table of the alignments: formula of short sequences, prediction at this dimension, and runs."""
    lines = []
    for index, setting in enumerate(ALIGNMENTS):
        runs = np.array([row["cos_query"] for row in _of(rows, "alignment", index, setting.dim)])
        if len(runs) < 2:
            continue
        task, protocol = setting.problem
        found = sparse.align(task, protocol, dim=setting.dim)
        error = runs.std(ddof=1) / np.sqrt(len(runs))
        lines.append(
            [
                f"{setting.dim} ({len(runs)})",
                f"{setting.ratio:g}",
                f"{setting.eta_b:g}",
                f"{found.cos_query:.3f}",
                f"{found.cos_query_mean:.3f}, {found.cos_query_spread:.3f}",
                f"{runs.mean():.3f} ± {error:.3f}, {runs.std(ddof=1):.3f}",
            ]
        )
    head = ["d (runs)", "L/d", "bias rate", "d → ∞ at fixed L", "predicted at d: mean, spread", "sampled: mean, spread"]
    return table(head, lines, range(len(head)))


def main(words: list[str] | None = None) -> int:
    """Make the missing runs, print both tables, and write them if that is wanted."""
    asked = parser("studies.joint_training", __doc__, "docs/assets/joint-training.md and docs/assets/joint-long.md")
    asked.add_argument("--store", type=Path, default=STORE)
    asked.add_argument("--seconds", type=float, default=float("inf"), help="stop after this long; the next run goes on")
    wish = asked.parse_args(words)
    rows = collect(measure, {"version": VERSION}, len(JOBS), wish.store, 1, wish.seconds)
    write("joint-training.md", descents(rows), wanted=wish.write)
    write("joint-long.md", alignments(rows), wanted=wish.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
