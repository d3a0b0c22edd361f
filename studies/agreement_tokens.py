"""Fourteen settings of heads whose tokens have a mean or a covariance: training compared with the prediction.

`python -m studies.agreement_tokens [--store FILE] [--write]` trains the runs that the store lacks, prints the table and
with ``--write`` puts it into docs/assets/agreement-tokens.md. With a mean alone every run is compared with the
prediction for the singular values (tied: eigenvalues) of its own target; with a covariance, whose target has the power
of the theory already, with the prediction for the law of the target. The goal is that each number lies within three
standard errors of its prediction, or within a relative 3/d. About 10 minutes on one core; Ctrl-C loses one run.
"""

from typing import Any

import numpy as np
from checks.tool import table

from onehead.aim.targets import Atoms
from onehead.aim.task import AS_QUERIES, Learner, Task
from onehead.aim.token_spectrum import ISOTROPIC
from onehead.aim.training.data import unasked_direction
from onehead.aim.training.settings import Method
from onehead.aim.training.train import train
from onehead.aim.verbs.predict import predict
from studies.agreement_heads import Deviation, deviations
from studies.agreement_runs import Rows, Setting, Study

METHOD = Method(starts=1, test_samples=40_000)
QUANTITIES = ("test_error", "test_cross_entropy", "train_loss", "rank", "q", "m", "unasked_scale")
FIRST_SEED = 5000
RUNS, RUNS_SEVERAL = {60: 4}, {60: 4, 100: 3}  # runs at each dimension

CROSS: dict[str, Any] = {"attention": "cross"}
HARD: dict[str, Any] = {"labels": "hard"}
CAUSAL: dict[str, Any] = {"mask": "causal"}
ENTROPY: dict[str, Any] = {"loss": "cross-entropy"}
LEVELS = {"token_spectrum": "levels:0.3,0.1"}

SETTINGS = (
    Setting(Task(**CROSS, unasked=0.5), Learner(weight_decay=0.05), 1.0, RUNS_SEVERAL),
    Setting(Task(**CROSS, **HARD, unasked=0.75), Learner(weight_decay=0.1, **ENTROPY), 2.0, RUNS),
    Setting(
        Task(**CROSS, **CAUSAL, tokens=3, unasked=0.6, token_mean=0.5), Learner(weight_decay=0.05, **ENTROPY), 0.7, RUNS
    ),
    Setting(Task(**CROSS, unasked=0.6), Learner(weight_decay=0.05, param="direct"), 1.0, RUNS),
    Setting(Task(**CROSS, tokens=16, unasked=0.5), Learner(weight_decay=0.004, **ENTROPY), 0.06, RUNS),
    Setting(Task(attention="self", unasked=0.6, token_mean=0.5), Learner(weight_decay=0.05), 1.0, RUNS),
    Setting(
        Task(attention="self", **CAUSAL, **HARD, unasked=0.6, token_mean=0.5),
        Learner(weight_decay=0.1, **ENTROPY),
        3.0,
        RUNS,
    ),
    Setting(Task(unasked=0.6), Learner(weight_decay=0.03, **ENTROPY), 0.6, RUNS),
    Setting(Task(**CAUSAL, tokens=3, unasked=0.5), Learner(weight_decay=0.02), 0.5, RUNS),
    Setting(Task(**CROSS, **LEVELS), Learner(weight_decay=0.05), 1.0, RUNS_SEVERAL),
    Setting(
        Task(**CROSS, token_spectrum="levels:0.5,0.3"), Learner(weight_decay=0.05, param="direct", **ENTROPY), 1.0, RUNS
    ),
    Setting(Task(**CROSS, token_spectrum="subspace:0.5", unasked=0.5), Learner(weight_decay=0.05), 0.5, RUNS),
    Setting(Task(**CROSS, **LEVELS, unasked=0.5), Learner(weight_decay=0.05, **ENTROPY), 1.0, RUNS),
    Setting(
        Task(**CROSS, **HARD, key_spectrum="levels:0.5,0.3", unasked=0.5),
        Learner(weight_decay=0.1, param="direct", **ENTROPY),
        2.0,
        RUNS,
    ),
)


def name(setting: Setting) -> str:
    """Return the name of a setting, with its tokens."""
    task = setting.task
    parts = [
        str(setting).split(" α")[0],
        f"unasked {task.unasked:g}" if task.unasked else "",
        f"M = {task.token_mean:g}" if task.token_mean != 1.0 else "",
        task.token_spectrum if task.token_spectrum != ISOTROPIC else "",
        f"keys {task.key_spectrum}" if task.key_spectrum != AS_QUERIES else "",
        f"α = {setting.alpha:g} λ = {setting.learner.decay:g}",
    ]
    return " ".join(part for part in parts if part)


def own_problem(task: Task, target: np.ndarray[Any, np.dtype[np.float64]]) -> Task:
    """Return the task with the values of a run's own target, and the same variance of its unasked logits."""
    if not task.isotropic:
        return task
    if task.tied:
        values = np.clip(np.linalg.eigvalsh(target), 0.0, None)  # negative ones are rounding errors
    else:
        direction = unasked_direction(len(target))
        values = np.linalg.svd(target - np.outer(direction, target.T @ direction), compute_uv=False)
    power, field = float(np.mean(values**2)), task.unasked_variance
    return task.changed(target=Atoms(eigenvalues=values), unasked=field / (field + power))


def measure(setting: Setting, dim: int, seed: int) -> dict[str, Any]:
    """Return one run and its prediction."""
    result = train(setting.task, setting.learner, dim=dim, alpha=setting.alpha, seed=seed, method=METHOD)
    run, (task, learner, alpha) = result.runs[0], result.trained
    point = predict(own_problem(task, run.target), learner, alpha)
    known = [quantity for quantity in QUANTITIES if getattr(run, quantity) is not None]
    return {
        "run": {quantity: getattr(run, quantity) for quantity in known},
        "own": {quantity: getattr(point, quantity) for quantity in known},
        "stationarity": run.certificate.residual,
        "status": run.certificate.status,
        "seconds": run.seconds,
    }


def report(rows: Rows) -> str:
    """Return the table, and how many numbers agree."""
    lines, every = [], list[Deviation]()
    for setting in SETTINGS:
        for dim, runs in setting.runs.items():
            finished = [rows[name(setting), dim, k] for k in range(runs) if (name(setting), dim, k) in rows]
            if len(finished) < 2:
                continue
            quantities = [quantity for quantity in QUANTITIES if quantity in finished[0]["run"]]
            found = deviations(finished, quantities)
            every += found
            cells = {one.name: str(one) for one in found}
            beyond = [f"{one.name.replace('_', ' ')} {one.relative:+.1%}" for one in found if not one.covered]
            lines.append(
                [
                    name(setting),
                    f"{dim} × {len(finished)}",
                    *[cells.get(quantity, "") for quantity in QUANTITIES],
                    ", ".join(beyond) or "none",
                ]
            )
    heads = ("head", "d × runs", "test error", "test cross-entropy", "train loss", "rank", "q", "m", "c", "beyond")
    agree = sum(one.covered for one in every)
    return f"""{table(heads, lines)}

Mean over runs / mean of the predictions, and the mean of their differences in standard errors. q and m are those of the
asked part, with a covariance of the whitened map; c is the size of the unasked logits over that of the target's. With a
mean alone the prediction is that for the values of the target of each run. κ₀ = 0.5, Δ = 0.5. {agree} of {len(every)}
numbers lie within three standard errors or a relative 3/d of their prediction; *beyond* names the others."""


STUDY = Study(
    module="agreement_tokens",
    settings=SETTINGS,
    measure=measure,
    seed=lambda number, k: FIRST_SEED + 100 * number + k,
    name=name,
)

if __name__ == "__main__":
    STUDY.main(__doc__, report)
