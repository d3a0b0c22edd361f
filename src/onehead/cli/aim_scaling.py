"""``onehead aim scaling``, ``features`` and ``phase-diagram``: targets with many scales, a power law unless another is given."""

import click

from onehead import aim, plot
from onehead.aim.task import Learner, Task
from onehead.cli.aim_flags import COUNTS, aim_options
from onehead.cli.frame import Answer, answered, failed_of
from onehead.cli.output import progress
from onehead.cli.values import Range

__all__ = ["features", "phase_diagram", "scaling"]


@click.command()
@aim_options(target="power-law")
@click.option("--samples", type=COUNTS, required=True, help="Numbers of samples n, for example log:1e3:1e6:13.")
@click.option("--optimal", is_flag=True, help="Use the best weight decay at every n.")
@answered()
def scaling(task: Task, learner: Learner, samples: tuple[float, ...], optimal: bool) -> Answer:
    """How the error falls with the number of samples, and where it comes from.

    Example: onehead aim scaling --gamma 0.75 --dim 200 --samples log:300:1e6:15 --weight-decay 1/d
    """
    from onehead.aim.verbs.decompose import SPLIT

    with progress("samples", len(samples)) as step:
        law = aim.scaling(task, learner, samples, optimal=optimal, progress=step)
    columns = ("samples", "weight_decay", "test_error", "excess_error", "local_exponent")
    parts = ("underfitting", "approximation", "overfitting", "mismatch")
    return Answer(
        value=law.to_rows(),
        columns=(*columns, *parts, "outliers", "rank", "status"),
        draw=lambda: plot.scaling(law),
        notes=[f"{SPLIT}."] if learner.splitting.leading else [],
        failed=failed_of(law),
    )


@click.command()
@aim_options(target="power-law")
@click.option("--samples", type=COUNTS, required=True, help="Range of samples n to search, for example log:1e3:1e6:13.")
@answered()
def features(task: Task, learner: Learner, samples: tuple[float, ...]) -> Answer:
    """The number of samples at which each feature of the target is first learned.

    Example: onehead aim features --gamma 0.75 --dim 200 --samples log:1e3:1e6:13 --weight-decay 1
    """
    with progress("samples", len(samples)) as step:
        found = aim.features(task, learner, samples, progress=step)
    return Answer(
        value=[item.to_dict() for item in found],
        columns=("feature", "target", "samples"),
        title="features in the order in which they leave the noise",
        draw=lambda: plot.features(found),
        notes=list(dict.fromkeys(item.warning for item in found if item.warning)),
    )


@click.command("phase-diagram")
@aim_options(target="power-law")
@click.option("--log-n", type=Range(ge=0.0, le=10.0), help="Values of log_d n.  [default: 0.8:3.2:25]")
@click.option("--log-lambda", type=Range(ge=-10.0, le=10.0), help="Values of log_d λ.  [default: -1.5:1.5:7]")
@answered()
def phase_diagram(
    task: Task, learner: Learner, log_n: tuple[float, ...] | None, log_lambda: tuple[float, ...] | None
) -> Answer:
    """Local exponents of the excess error over log_d n and log_d λ, with the mechanism behind each.

    Example: onehead aim phase-diagram --gamma 0.75 --dim 200 --plot phases.png
    """
    from onehead.aim.verbs.phases import LOG_DECAY, LOG_SAMPLES

    across, down = log_n or LOG_SAMPLES, log_lambda or LOG_DECAY
    with progress("cells", len(across) * len(down)) as step:
        found = aim.phase_diagram(task, learner, log_n=across, log_lambda=down, progress=step)
    return Answer(
        value=found.to_rows(),
        columns=("log_n", "log_lambda", "excess_error", "local_exponent", "region", "status"),
        draw=lambda: plot.phases(found),
        failed=failed_of(found, "cells"),
    )
