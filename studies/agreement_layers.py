"""Ten settings of several heads that add to one output: training compared with the prediction.

`python -m studies.agreement_layers [--store FILE] [--write]` trains the runs that the store lacks, prints the table and
with ``--write`` puts it into docs/assets/agreement-layers.md. Every run is compared with the prediction for the
singular values of its own targets, all heads together; targets of different heads hardly overlap (`draw_targets`). The
goal is that each number lies within three standard errors of its prediction, or within a relative 3/d; overlaps between
heads, which are small, within 1/d. About 15 minutes on one core; Ctrl-C loses one run.
"""

from typing import Any

import numpy as np
from checks.tool import table

from onehead.aim.targets import Atoms
from onehead.aim.task import Learner, Task
from onehead.aim.training.settings import Method
from onehead.aim.training.train import train
from onehead.aim.verbs.predict import predict
from studies.agreement_heads import Deviation, deviations
from studies.agreement_runs import Rows, Setting, Study

METHOD = Method(starts=1, test_samples=10_000)
QUANTITIES = ("test_error", "head_error", "train_loss", "rank", "q", "m", "q_cross", "m_cross")
CROSS_OVERLAPS = ("q_cross", "m_cross")
FIRST_SEED = 9000
RUNS = {30: 8, 60: 4}  # runs at each dimension


def layer(heads: int, sharing: float, alpha: float, decay: float, tokens: int = 2, **learner: Any) -> Setting:
    """Return a setting."""
    task = Task(attention="cross", heads=heads, sharing=sharing, tokens=tokens)
    return Setting(task, Learner(weight_decay=decay, **learner), alpha, RUNS)


SETTINGS = (
    layer(2, 0.5, 1.0, 0.05),
    layer(2, 0.8, 1.0, 0.05),
    layer(2, 0.9, 1.0, 0.05),
    layer(2, -0.5, 0.5, 0.05),
    layer(3, 0.5, 1.0, 0.05),
    layer(4, 0.8, 1.0, 0.05),
    layer(2, 0.5, 0.3, 0.02, tokens=3),
    layer(2, 0.7, 1.0, 0.05, param="direct"),
    layer(2, 0.5, 1.0, 0.05, values="learnt"),
    layer(2, 0.5, 1.0, 0.05, values="learnt", value_decay=0.01),
)


def name(setting: Setting) -> str:
    """Return the name of a setting."""
    task, learner = setting.task, setting.learner
    values = "" if learner.values == "fixed" else f"learnt values, λ_v = {learner.value_decay or learner.decay:g},"
    parts = [
        f"H = {task.heads}, ρ = {task.sharing:g},",
        f"T = {task.tokens}," if task.tokens > 2 else "",
        "direct," if learner.param == "direct" else "",
        values,
        f"α = {setting.alpha:g}, λ = {learner.decay:g}",
    ]
    return " ".join(part for part in parts if part)


def measure(setting: Setting, dim: int, seed: int) -> dict[str, Any]:
    """Return one run and the prediction for its own targets."""
    result = train(setting.task, setting.learner, dim=dim, alpha=setting.alpha, seeds=1, seed=seed, method=METHOD)
    run, (task, learner, alpha) = result.runs[0], result.trained
    values = np.linalg.svd(run.target, compute_uv=False).ravel()
    point = predict(task.changed(target=Atoms(eigenvalues=values)), learner, alpha)
    return {
        "run": {quantity: getattr(run, quantity) for quantity in QUANTITIES},
        "own": {quantity: getattr(point, quantity) for quantity in QUANTITIES},
        "scales": {"run": run.value_scale, "own": point.value_scale},
        "target_overlap": target_overlap(run.target),
        "stationarity": run.certificate.residual,
        "status": run.certificate.status,
        "seconds": run.seconds,
    }


def target_overlap(targets: np.ndarray) -> float:
    """Return the mean of Tr S*_h'S*_k/d over pairs of different heads, which the prediction takes as zero."""
    heads, dim = targets.shape[:2]
    overlaps = np.einsum("hab,kab->hk", targets, targets) / dim
    return float(np.mean(overlaps[~np.eye(heads, dtype=bool)]))


def agrees(one: Deviation, dim: int) -> bool:
    """Whether a number is within its errors: overlaps between heads may be off by 1/d, which is their own size."""
    return one.covered or (one.name in CROSS_OVERLAPS and abs(one.run - one.own) < 1.0 / dim)


def report(rows: Rows) -> str:
    """Return the table, and how many numbers agree."""
    lines, every = [], list[bool]()
    for setting in SETTINGS:
        for dim, runs in setting.runs.items():
            finished = [rows[name(setting), dim, k] for k in range(runs) if (name(setting), dim, k) in rows]
            if len(finished) < 2:
                continue
            found = deviations(finished, QUANTITIES)
            every += [agrees(one, dim) for one in found]
            beyond = [one.name.replace("_", " ") for one in found if not agrees(one, dim)]
            lines.append(
                [name(setting), f"{dim} × {len(finished)}", *[str(one) for one in found], ", ".join(beyond) or "none"]
            )
    overlap = max(abs(row["target_overlap"]) for row in rows.values())
    heads = ("layer", "d × runs", "test error", "error of one head", "train loss", "rank", "q", "m", "q'", "m'")
    return f"""{table((*heads, "beyond"), lines)}

Mean over runs / mean of the predictions, and the mean of their differences in standard errors. q' and m' are overlaps
between different heads. The prediction is that for the singular values of the targets of each run, which are drawn with
overlaps close to zero: at most {overlap:.1e}. κ₀ = 0.5, Δ = 0.5. {sum(every)} of {len(every)} numbers lie within three
standard errors or a relative 3/d of their prediction, q' and m' within 1/d; *beyond* names the others."""


STUDY = Study(
    module="agreement_layers",
    settings=SETTINGS,
    measure=measure,
    seed=lambda number, k: FIRST_SEED + 100 * number + k,
    name=name,
)

if __name__ == "__main__":
    STUDY.main(__doc__, report)
