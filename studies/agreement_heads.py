"""Sixteen settings of untied, masked and hard-label heads: training beside the prediction for the very target of each run.

`python -m studies.agreement_heads [--store FILE] [--write]` trains what the store lacks, a run at a time, prints the table and with
``--write`` puts it into docs/assets/agreement-heads.md. Every run stands beside the prediction for the singular values (tied:
eigenvalues) of its own target, so that targets that differ from seed to seed widen no error bar. The aim: each number within three
standard errors of its prediction, or within a relative 3/d. About 30 minutes on one core; Ctrl-C loses one run.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from checks.tool import append, parser, read, table, write

from onehead.aim.targets import Atoms, Discrete, PowerLaw
from onehead.aim.task import Learner, Task
from onehead.aim.training.settings import Method
from onehead.aim.training.train import train
from onehead.aim.verbs.predict import predict
from onehead.aim.verbs.spectrum import spectrum
from onehead.figures.agreement import FINITE_SIZE, LOUD, ks_distance

STORE = Path("out") / "agreement-heads.jsonl"
ASSET = "agreement-heads.md"
METHOD = Method(starts=1, test_samples=40_000)
QUANTITIES = ("test_error", "q", "m", "train_loss", "rank")
ZERO = 1e-3  # of the largest: values below count as zero, as in training
USUAL, SEVERAL = {100: 6}, {60: 12, 100: 6, 150: 4}  # runs at each dimension


class Setting(NamedTuple):
    """A problem and its runs at each dimension, which is that of a power law as well."""

    task: Task
    learner: Learner
    alpha: float
    runs: dict[int, int]

    def __str__(self) -> str:
        task, learner = self.task, self.learner
        words = [
            task.attention,
            {"none": "", "causal": "causal", "strict": "strictly causal"}[task.mask],
            f"T = {task.tokens},",
            "hard labels" if task.labels == "hard" else str(learner.loss),
            "direct" if learner.param == "direct" else "",
            f"width {learner.width:g}" if learner.width < 1.0 else "",
            f"power law {task.target.gamma:g}" if isinstance(task.target, PowerLaw) else "",
            f"α = {self.alpha:g} λ = {learner.decay:g}",
        ]
        return " ".join(word for word in words if word)


def _task(attention: str, **words: Any) -> Task:
    return Task.read({"attention": attention, **words})


HARD: dict[str, Any] = {"labels": "hard"}
CAUSAL: dict[str, Any] = {"mask": "causal"}
ENTROPY: dict[str, Any] = {"loss": "cross-entropy"}

SETTINGS = (
    Setting(_task("cross"), Learner(weight_decay=0.05), 1.0, SEVERAL),
    Setting(_task("cross"), Learner(weight_decay=0.05, **ENTROPY), 1.0, USUAL),
    Setting(_task("cross"), Learner(weight_decay=0.01, width=0.4), 1.0, USUAL),
    Setting(_task("cross", tokens=3), Learner(weight_decay=0.02), 0.3, USUAL),
    Setting(_task("cross", tokens=4, **CAUSAL), Learner(weight_decay=0.03, **ENTROPY), 0.3, USUAL),
    Setting(
        _task("cross", tokens=3, **CAUSAL, **HARD), Learner(weight_decay=0.05, param="direct", **ENTROPY), 1.5, USUAL
    ),
    Setting(_task("cross", **HARD), Learner(weight_decay=0.1, **ENTROPY), 2.0, SEVERAL),
    Setting(Task(attention="cross", target=PowerLaw(gamma=0.75)), Learner(weight_decay=0.05), 1.0, SEVERAL),
    Setting(_task("self"), Learner(weight_decay=0.05), 1.0, USUAL),
    Setting(_task("self", **CAUSAL), Learner(weight_decay=0.02), 2.0, SEVERAL),
    Setting(_task("self", **CAUSAL), Learner(weight_decay=0.05, param="direct"), 2.0, USUAL),
    Setting(_task("self", tokens=3, **CAUSAL), Learner(weight_decay=0.05, **ENTROPY), 1.0, USUAL),
    Setting(_task("self", **HARD), Learner(weight_decay=0.1, **ENTROPY), 2.0, USUAL),
    Setting(_task("self", tokens=4, mask="strict"), Learner(weight_decay=0.05), 1.0, USUAL),
    Setting(_task("tied", **CAUSAL), Learner(weight_decay=0.02), 1.0, USUAL),
    Setting(_task("tied", tokens=3, **CAUSAL, **HARD), Learner(weight_decay=0.05, **ENTROPY), 1.0, USUAL),
)


def measure(number: int, dim: int, k: int) -> dict[str, Any]:
    """One run beside the prediction for its own target."""
    setting = SETTINGS[number]
    asked = setting.task
    if isinstance(asked.target, PowerLaw):
        asked = asked.changed(target=asked.target.changed(dim=dim))
    result = train(asked, setting.learner, dim=dim, alpha=setting.alpha, seed=1000 * number + k, method=METHOD)
    run, (task, learner, alpha) = result.runs[0], result.trained
    target = np.linalg.eigvalsh(run.target) if task.tied else np.linalg.svd(run.target, compute_uv=False)
    if task.tied:  # a target of factors has no negative eigenvalue but by rounding
        target = np.clip(target, 0.0, None)
    point = predict(task.changed(target=Atoms(eigenvalues=target)), learner, alpha)
    return {
        "run": {name: getattr(run, name) for name in QUANTITIES} | {"sectors": run.sectors},
        "own": {name: getattr(point, name) for name in QUANTITIES} | {"sectors": point.sectors},
        "values": np.round(run.eigenvalues, 6).tolist(),
        "stationarity": run.certificate.residual,
        "status": run.certificate.status,
        "seconds": run.seconds,
    }


def jobs() -> Iterator[tuple[int, int, int]]:
    """Setting, dimension and number of every run: the usual dimension first."""
    every = [
        (number, dim, k) for number, one in enumerate(SETTINGS) for dim, runs in one.runs.items() for k in range(runs)
    ]
    yield from sorted(every, key=lambda job: (job[1] != 100, job[0], job[1], job[2]))


def collect(store: Path) -> dict[tuple[str, int, int], dict[str, Any]]:
    """All rows, those that the store lacks measured now, until done or interrupted."""
    rows = {(row["setting"], row["dim"], row["seed"]): row for row in read(store)}
    try:
        for number, dim, k in jobs():
            place = (str(SETTINGS[number]), dim, k)
            if place not in rows:
                rows[place] = {"setting": place[0], "dim": dim, "seed": k, **measure(number, dim, k)}
                append(store, rows[place])
                print(f"{place[0]}, d = {dim}, run {k}: {rows[place]['seconds']:.0f} s", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("interrupted: the next call goes on", file=sys.stderr)
    return rows


def _numbers(of: dict[str, Any], sectors: bool) -> dict[str, float]:
    """The compared numbers; q and m of both sectors where the theory has two."""
    if not sectors:
        return {name: of[name] for name in QUANTITIES}
    (q_s, q_a), (m_s, m_a) = of["sectors"]["q"], of["sectors"]["m"]
    return {"q_s": q_s, "q_a": q_a, "m_s": m_s, "m_a": m_a} | {
        name: of[name] for name in QUANTITIES if name not in "qm"
    }


class Deviation(NamedTuple):
    """A mean of runs, the mean of their predictions, and the standard error of the difference."""

    name: str
    run: float
    own: float
    error: float
    dim: int

    @property
    def z(self) -> float:
        """In standard errors; zero where nothing varies and both agree."""
        return (self.run - self.own) / self.error if self.error > 0.0 else 0.0

    @property
    def relative(self) -> float:
        """Over the prediction."""
        return (self.run - self.own) / self.own

    @property
    def covered(self) -> bool:
        """Within three standard errors, or within a relative 3/d."""
        return abs(self.z) < LOUD or abs(self.relative) <= FINITE_SIZE / self.dim


def deviations(rows: list[dict[str, Any]]) -> list[Deviation]:
    """What the runs of a setting at one dimension say."""
    two = rows[0]["own"]["sectors"] is not None
    run, own = ([_numbers(row[side], two) for row in rows] for side in ("run", "own"))
    found = []
    for name in run[0]:
        a, b = (np.array([numbers[name] for numbers in side]) for side in (run, own))
        error = float(np.std(a - b, ddof=1) / np.sqrt(len(a)))
        found.append(Deviation(name, float(a.mean()), float(b.mean()), 0.0 if error < 1e-9 else error, rows[0]["dim"]))
    return found


def distance(setting: Setting, rows: list[dict[str, Any]]) -> float:
    """Kolmogorov-Smirnov distance of all values of all runs, zeros included, from the limiting law."""
    law = spectrum(predict(setting.task, setting.learner, setting.alpha))
    values = np.concatenate([row["values"] for row in rows])
    return ks_distance(law.x, law.density_values, law.zero_mass, np.where(values > ZERO * values.max(), values, 0.0))


def _cells(setting: Setting, dim: int, rows: list[dict[str, Any]]) -> list[str]:
    found = deviations(rows)
    loud = [one for one in found if not one.covered]

    def cell(*names: str) -> str:
        return "; ".join(f"{o.run:.4g} / {o.own:.4g} ({o.z:+.1f})" for o in found if o.name in names)

    ks = "" if isinstance(setting.task.target, Discrete) else f"{distance(setting, rows):.3f}"
    verdict = ", ".join(f"{one.name} {one.relative:+.1%}".replace("_", " ") for one in loud) or "agrees"
    shown = (cell("test_error"), cell("q", "q_s", "q_a"), cell("m", "m_s", "m_a"), cell("train_loss"), cell("rank"))
    return [str(setting), f"{dim} × {len(rows)}", *shown, ks, verdict]


HEAD = ("head", "d × runs", "test error", "q", "m", "train loss", "rank", "KS", "beyond")


def report(rows: dict[tuple[str, int, int], dict[str, Any]]) -> str:
    """The table, and how many numbers agree."""
    lines, agree, count = [], 0, 0
    for setting in SETTINGS:
        for dim, runs in setting.runs.items():
            here = [rows[str(setting), dim, k] for k in range(runs) if (str(setting), dim, k) in rows]
            if len(here) > 1:
                found = deviations(here)
                agree, count = agree + sum(one.covered for one in found), count + len(found)
                lines.append(_cells(setting, dim, here))
    return f"""{table(HEAD, lines)}

Mean over runs / mean of the predictions for the singular values (tied: eigenvalues) of the target of each run (difference in standard
errors of the paired differences); untied self-attention shows q and m of the symmetric and of the antisymmetric part. KS is the
Kolmogorov-Smirnov distance of all trained values of all runs, zeros included, from the limiting law. κ₀ = 0.5, Δ = 0.5. {agree} of {count} numbers
lie within three standard errors or a relative 3/d of their prediction; *beyond* names the others. A power
law is known to lie higher at any d: its few largest singular values keep single logits from being Gaussian."""


def main() -> None:
    """Run from the shell."""
    words = parser("studies.agreement_heads", __doc__, f"docs/assets/{ASSET}")
    words.add_argument("--store", type=Path, default=STORE)
    asked = words.parse_args()
    write(ASSET, report(collect(asked.store)), wanted=asked.write)


if __name__ == "__main__":
    main()
