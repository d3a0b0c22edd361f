"""Twenty-one settings of untied, masked and hard-label heads and of power laws: training compared with the prediction.

`python -m studies.agreement_heads [--store FILE] [--write]` trains the runs that the store lacks, prints the table and
with ``--write`` puts it into docs/assets/agreement-heads.md. Every run is compared with the prediction for the singular
values (tied: eigenvalues) of its own target, so that differences between targets do not widen the error bars. The goal
is that each number lies within three standard errors of its prediction, or within a relative 3/d. About 30 minutes on
one core; Ctrl-C loses one run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from checks.tool import table

from onehead.aim.targets import Atoms, Discrete, PowerLaw
from onehead.aim.task import Learner, Task
from onehead.aim.training.settings import Method
from onehead.aim.training.train import train
from onehead.aim.verbs.predict import predict
from onehead.aim.verbs.spectrum import spectrum
from onehead.figures.agreement import MAX_STANDARD_ERRORS, ks_distance
from onehead.results.replicates import Measured, extrapolate
from studies.agreement_runs import Rows, Setting, Study

METHOD = Method(starts=1, test_samples=40_000)
QUANTITIES = ("test_error", "q", "m", "train_loss", "rank")
ZERO_RATIO = 1e-3  # to the largest value; values below count as zero, as in training
COLUMNS = {
    "test error": ("test_error",),
    "q": ("q", "q_s", "q_a"),
    "m": ("m", "m_s", "m_a"),
    "train loss": ("train_loss",),
    "rank": ("rank",),
}
ROUNDING = 1e-9
ONE_DIMENSION, SEVERAL_DIMENSIONS = {100: 6}, {60: 12, 100: 6, 150: 4}  # runs at each dimension


def _task(attention: str, **parameters: Any) -> Task:
    return Task.read({"attention": attention, **parameters})


HARD: dict[str, Any] = {"labels": "hard"}
WINDOW, ONE_AFTER_ANOTHER = "1000/1100/0110/0011", "01100/01110/00011/10011/11000"
CAUSAL: dict[str, Any] = {"mask": "causal"}
ENTROPY: dict[str, Any] = {"loss": "cross-entropy"}

SETTINGS = (
    Setting(_task("cross"), Learner(weight_decay=0.05), 1.0, SEVERAL_DIMENSIONS),
    Setting(_task("cross"), Learner(weight_decay=0.05, **ENTROPY), 1.0, ONE_DIMENSION),
    Setting(_task("cross"), Learner(weight_decay=0.01, width=0.4), 1.0, ONE_DIMENSION),
    Setting(_task("cross", tokens=3), Learner(weight_decay=0.02), 0.3, ONE_DIMENSION),
    Setting(_task("cross", tokens=4, **CAUSAL), Learner(weight_decay=0.03, **ENTROPY), 0.3, ONE_DIMENSION),
    Setting(
        _task("cross", tokens=3, **CAUSAL, **HARD),
        Learner(weight_decay=0.05, param="direct", **ENTROPY),
        1.5,
        ONE_DIMENSION,
    ),
    Setting(_task("cross", **HARD), Learner(weight_decay=0.1, **ENTROPY), 2.0, SEVERAL_DIMENSIONS),
    Setting(Task(attention="cross", target=PowerLaw(gamma=0.75)), Learner(weight_decay=0.05), 1.0, SEVERAL_DIMENSIONS),
    Setting(_task("self"), Learner(weight_decay=0.05), 1.0, ONE_DIMENSION),
    Setting(_task("self", **CAUSAL), Learner(weight_decay=0.02), 2.0, SEVERAL_DIMENSIONS),
    Setting(_task("self", **CAUSAL), Learner(weight_decay=0.05, param="direct"), 2.0, ONE_DIMENSION),
    Setting(_task("self", tokens=3, **CAUSAL), Learner(weight_decay=0.05, **ENTROPY), 1.0, ONE_DIMENSION),
    Setting(_task("self", **HARD), Learner(weight_decay=0.1, **ENTROPY), 2.0, ONE_DIMENSION),
    Setting(_task("self", tokens=4, mask="strict"), Learner(weight_decay=0.05), 1.0, ONE_DIMENSION),
    Setting(_task("tied", **CAUSAL), Learner(weight_decay=0.02), 1.0, ONE_DIMENSION),
    Setting(_task("tied", tokens=3, **CAUSAL, **HARD), Learner(weight_decay=0.05, **ENTROPY), 1.0, ONE_DIMENSION),
    Setting(Task(target=PowerLaw(gamma=0.75)), Learner(weight_decay=0.05), 1.0, SEVERAL_DIMENSIONS),
    Setting(Task(target=PowerLaw(gamma=1.25)), Learner(weight_decay=0.05), 1.0, ONE_DIMENSION),
    Setting(_task("self", mask=WINDOW), Learner(weight_decay=0.05), 1.0, {60: 12}),
    Setting(_task("self", mask=ONE_AFTER_ANOTHER, **HARD), Learner(weight_decay=0.1, **ENTROPY), 1.0, {60: 12}),
    Setting(_task("cross", mask="1100/1100/1110/1111"), Learner(weight_decay=0.03, **ENTROPY), 0.6, {60: 12}),
)


def measure(setting: Setting, dim: int, seed: int) -> dict[str, Any]:
    """Return one run and the prediction for its own target."""
    problem = setting.task
    if isinstance(problem.target, PowerLaw):
        problem = problem.changed(target=problem.target.changed(dim=dim))
    result = train(problem, setting.learner, dim=dim, alpha=setting.alpha, seed=seed, method=METHOD)
    run, (task, learner, alpha) = result.runs[0], result.trained
    target = np.linalg.eigvalsh(run.target) if task.tied else np.linalg.svd(run.target, compute_uv=False)
    if task.tied:  # negative eigenvalues of a target made of factors are rounding errors
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


def _numbers(of: dict[str, Any], sectors: bool, quantities: Sequence[str]) -> dict[str, float]:
    """Return the compared quantities, with q and m of both sectors if the theory has two."""
    if not sectors:
        return {name: of[name] for name in quantities}
    (q_s, q_a), (m_s, m_a) = of["sectors"]["q"], of["sectors"]["m"]
    return {"q_s": q_s, "q_a": q_a, "m_s": m_s, "m_a": m_a} | {
        name: of[name] for name in quantities if name not in "qm"
    }


@dataclass(frozen=True, kw_only=True)
class Deviation(Measured):
    """Means of some runs and of their predictions.

    ``relative`` is the mean of the paired differences over the latter.
    """

    name: str
    run: float
    own: float
    relative: float
    dim: int
    seeds: int
    spread: dict[str, float]

    @property
    def z(self) -> float:
        """Relative difference in standard errors; zero if the runs do not vary."""
        error = self.spread["relative_err"]
        return self.relative / error if error > ROUNDING else 0.0

    @property
    def covered(self) -> bool:
        """Whether the difference is within three standard errors or a relative 3/d."""
        return abs(self.z) < MAX_STANDARD_ERRORS or abs(self.relative) <= self.finite_size

    def __str__(self) -> str:
        return f"{self.run:.4g} / {self.own:.4g} ({self.z:+.1f})"


def deviations(rows: list[dict[str, Any]], quantities: Sequence[str] = QUANTITIES) -> list[Deviation]:
    """Return the deviation of every quantity for the runs of a setting at one dimension."""
    two = rows[0]["own"].get("sectors") is not None
    run, own = ([_numbers(row[side], two, quantities) for row in rows] for side in ("run", "own"))
    found = []
    for name in run[0]:
        a, b = (np.array([numbers[name] for numbers in side]) for side in (run, own))
        gap = (a - b) / b.mean()
        std = float(gap.std(ddof=1))
        found.append(
            Deviation(
                name=name,
                run=float(a.mean()),
                own=float(b.mean()),
                relative=float(gap.mean()),
                dim=rows[0]["dim"],
                seeds=len(rows),
                spread={"relative_std": std, "relative_err": std / float(np.sqrt(len(rows)))},
            )
        )
    return found


def distance(setting: Setting, rows: list[dict[str, Any]]) -> str:
    """Return the Kolmogorov-Smirnov distance of the values of all runs from the limiting law; empty for a power law."""
    if isinstance(setting.task.target, Discrete):
        return ""
    law = spectrum(predict(setting.task, setting.learner, setting.alpha))
    values = np.concatenate([row["values"] for row in rows])
    found = ks_distance(
        law.x, law.density_values, law.zero_mass, np.where(values > ZERO_RATIO * values.max(), values, 0.0)
    )
    return f"{found:.3f}"


def _limits(found: list[list[Deviation]]) -> dict[str, str]:
    """Return the relative difference of every quantity extrapolated to 1/d = 0, with standard error and z."""
    limits = {}
    for several in zip(*found, strict=True):
        limit = extrapolate("relative", several, 0.0)
        z = limit.z if limit.standard_error > ROUNDING else 0.0
        limits[several[0].name] = f"{limit.value:+.1%} ± {limit.standard_error:.1%} ({z:+.1f})"
    return limits


def _line(head: str, size: str, cells: dict[str, str], ks: str, beyond: str) -> list[str]:
    columns = ["; ".join(cells[name] for name in names if name in cells) for names in COLUMNS.values()]
    return [head, size, *columns, ks, beyond]


def lines(setting: Setting, rows: Rows) -> tuple[list[list[str]], list[Deviation]]:
    """Return the lines of a setting, one per dimension and one for the limit, and its deviations."""
    head, found, table_lines = str(setting), [], []
    for dim, runs in setting.runs.items():
        finished = [rows[head, dim, k] for k in range(runs) if (head, dim, k) in rows]
        if len(finished) < 2:
            continue
        found.append(deviations(finished))
        beyond = [f"{one.name.replace('_', ' ')} {one.relative:+.1%}" for one in found[-1] if not one.covered]
        cells = {one.name: str(one) for one in found[-1]}
        table_lines.append(
            _line(head, f"{dim} × {len(finished)}", cells, distance(setting, finished), ", ".join(beyond) or "none")
        )
    if len(found) > 1:
        table_lines.append(_line(head, "1/d → 0", _limits(found), "", ""))
    return table_lines, [one for some in found for one in some]


def report(rows: Rows) -> str:
    """Return the table, and how many numbers agree."""
    table_lines, found = [], []
    for setting in SETTINGS:
        some, own_deviations = lines(setting, rows)
        table_lines += some
        found += own_deviations
    agree = sum(one.covered for one in found)
    return f"""{table(("head", "d × runs", *COLUMNS, "KS", "beyond"), table_lines)}

Mean over runs / mean of the predictions for the singular values (tied: eigenvalues) of the target of each run, and the
mean of their differences in standard errors; in the limit 1/d → 0 the relative difference itself. Untied self-attention
that sees its own logit shows q and m of the symmetric and of the antisymmetric part. KS is the Kolmogorov-Smirnov
distance of all trained values of all runs, zeros included, from the limiting law. κ₀ = 0.5, Δ = 0.5. {agree} of
{len(found)} numbers lie within three standard errors or a relative 3/d of their prediction; *beyond* names the others.
Predictions for power laws average leading directions exactly."""


STUDY = Study(
    module="agreement_heads",
    settings=SETTINGS,
    measure=measure,
    seed=lambda number, k: 1000 * number + k,
    order=lambda number, dim, k: (dim != 100, number, dim, k),
)

if __name__ == "__main__":
    STUDY.main(__doc__, report)
