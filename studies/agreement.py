"""Twelve settings: training at d = 100, 150, 200, extrapolated in 1/d, compared with the prediction.

`python -m studies.agreement` prints a row per setting as soon as it is finished; `python -m studies.agreement 0 3` runs
only some settings. The goal is |z| < 3 for the extrapolated test error in at least 11 of 12. About 20 minutes on one
core. Settings share the seeds of their instances, so their z-scores are not independent.
"""

import json
import sys
import time
from typing import Any

from onehead.aim.targets import MarchenkoPastur
from onehead.aim.task import Learner, Task
from onehead.aim.training.compare import compare
from onehead.aim.training.settings import Method

DIMS, SEEDS = (100, 150, 200), (12, 6, 4)
# single precision changes a test error by 1e-5, a hundredth of the standard errors here, and halves the time
METHOD = Method(dtype="float32", test_samples=60_000)

SETTINGS: tuple[tuple[Task, Learner, float], ...] = (
    (Task(), Learner(weight_decay=0.01), 0.3),
    (Task(), Learner(weight_decay=0.1), 0.3),
    (Task(), Learner(weight_decay=0.001), 0.5),
    (Task(target=MarchenkoPastur(kappa0=0.2), noise=0.1), Learner(weight_decay=0.03), 0.2),
    (Task(), Learner(weight_decay=0.01, param="direct"), 0.3),
    (Task(), Learner(weight_decay=0.1, param="direct"), 0.3),
    (Task(), Learner(weight_decay=0.01, width=0.3), 0.3),
    (Task(), Learner(weight_decay=0.01, loss="cross-entropy"), 0.3),
    (Task(), Learner(weight_decay=0.1, loss="cross-entropy"), 0.3),
    (Task(), Learner(weight_decay=0.01, loss="cross-entropy", param="direct"), 0.2),
    (Task(tokens=3), Learner(weight_decay=0.01), 0.1),
    (Task(tokens=3), Learner(weight_decay=0.03, loss="cross-entropy"), 0.1),
)


def setting_name(task: Task, learner: Learner, alpha: float) -> str:
    """Return the parameters of a setting in one line."""
    target = task.target
    kappa0 = target.kappa0 if isinstance(target, MarchenkoPastur) else "-"
    return (
        f"T={task.tokens} {learner.loss} {learner.param} width={learner.width:g} λ={learner.decay:g} "
        f"κ₀={kappa0} Δ={task.noise:g} α={alpha:g}"
    )


def measure(task: Task, learner: Learner, alpha: float) -> dict[str, Any]:
    """Train at all dimensions, extrapolate, and return the comparison with the prediction."""
    clock = time.perf_counter()
    point = compare(task, learner, [alpha], DIMS, SEEDS, method=METHOD).points[0]
    limits = {limit.quantity: limit for limit in point.limits}
    test, train = limits["test_error"], limits["train_loss"]
    return {
        "name": setting_name(task, learner, alpha),
        "seconds": time.perf_counter() - clock,
        "theory": test.predicted,
        **{f"d={run.dim}": (run.test_error, run.spread["test_error_err"]) for run in point.runs},
        "limit": test.value,
        "limit_err": test.standard_error,
        "z": test.z,
        "train_z": train.z,
        "train_theory": train.predicted,
        "train_limit": train.value,
        "accuracy": test.value / test.predicted - 1.0,
    }


def run(settings: tuple[int, ...] = tuple(range(len(SETTINGS)))) -> list[dict[str, Any]]:
    """Measure and print the settings with these numbers, and return their rows."""
    rows = []
    for k in settings:
        rows.append(measure(*SETTINGS[k]))
        print(json.dumps({"setting": k, **rows[-1]}, ensure_ascii=False), flush=True)
    return rows


if __name__ == "__main__":
    chosen = tuple(int(number) for number in sys.argv[1:])
    done = run(chosen) if chosen else run()
    agreeing = sum(abs(row["z"]) < 3.0 for row in done)
    print(f"{agreeing} of {len(done)} settings have |z| < 3")
