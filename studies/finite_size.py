"""Relative distance of a run of dimension d from its limit: training at d = 50, 100, 200 for several sample ratios.

`python -m studies.finite_size FILE` writes one CSV row per setting and dimension, as soon as it is measured, with the
relative deviation of test error, training loss, q and m from the prediction and its standard error. A deviation of
order 1/d halves from one dimension to the next. About 15 minutes on one core.
"""

import csv
import sys

from onehead.aim.targets import MarchenkoPastur
from onehead.aim.task import Learner, Task
from onehead.aim.training.settings import Method
from onehead.aim.training.train import train
from onehead.aim.verbs.predict import predict

DIMS, SEEDS = (50, 100, 200), (48, 24, 8)
QUANTITIES = ("test_error", "train_loss", "q", "m")
# single precision changes a test error by 1e-5, far below the standard errors here, and halves the time
METHOD = Method(dtype="float32", starts=1)

ALPHAS = (0.03, 0.1, 0.5)

SETTINGS: dict[str, tuple[Task, Learner, tuple[float, ...]]] = {
    "factorised": (Task(), Learner(weight_decay=0.01), ALPHAS),
    "little noise": (Task(target=MarchenkoPastur(kappa0=0.2), noise=0.1), Learner(weight_decay=0.01), ALPHAS),
    "direct": (Task(), Learner(weight_decay=0.01, param="direct"), ALPHAS),
    # as many informative combinations of logits as two tokens have at the first two ratios
    "three tokens": (Task(tokens=3), Learner(weight_decay=0.01), (0.012, 0.04)),
}


def main() -> None:
    """Write the rows."""
    with open(sys.argv[1], "w", newline="", buffering=1) as file:
        table = csv.writer(file)
        table.writerow(["setting", "alpha", "dim", *(f"{name}{end}" for name in QUANTITIES for end in ("", "_err"))])
        for name, (task, learner, alphas) in SETTINGS.items():
            for alpha in alphas:
                for dim, seeds in zip(DIMS, SEEDS, strict=True):
                    run = train(task, learner, dim=dim, alpha=alpha, seeds=seeds, method=METHOD)
                    point = predict(*run.trained)
                    row: list[object] = [name, alpha, dim]
                    for quantity in QUANTITIES:
                        theory = getattr(point, quantity)
                        row += [getattr(run, quantity) / theory - 1.0, run.errors[quantity] / theory]
                    table.writerow(row)


if __name__ == "__main__":
    main()
