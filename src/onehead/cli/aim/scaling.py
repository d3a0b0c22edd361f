"""``onehead aim scaling``, ``features`` and ``phase-diagram``: scaling laws, for a power-law target by default."""

import click

from onehead import aim, plot
from onehead.aim.task import Learner, Task
from onehead.cli.aim.flags import SAMPLE_COUNTS, aim_options
from onehead.cli.parsing.values import Range
from onehead.cli.rendering.output import progress
from onehead.cli.rendering.render import CommandResult, output_options


@click.command()
@aim_options(target="power-law")
@click.option("--samples", type=SAMPLE_COUNTS, required=True, help="Numbers of samples n, for example log:1e3:1e6:13.")
@click.option("--optimal", is_flag=True, help="Use the best weight decay at every n.")
@output_options()
def scaling(task: Task, learner: Learner, samples: tuple[float, ...], optimal: bool) -> CommandResult:
    """Decay of the error with the number of samples, and its decomposition.

    Example: onehead aim scaling --gamma 0.75 --dim 200 --samples log:300:1e6:15 --weight-decay 1/d
    """
    from onehead.aim.verbs.decompose import GAUSSIAN_PARTS

    with progress("samples", len(samples)) as step:
        law = aim.scaling(task, learner, samples, optimal=optimal, progress=step)
    columns = ("samples", "weight_decay", "test_error", "excess_error", "local_exponent")
    parts = ("underfitting", "approximation", "overfitting", "mismatch")
    return CommandResult.of_points(
        law,
        (*columns, *parts, "outliers", "rank", "status"),
        draw=lambda: plot.scaling(law),
        notes=[f"{GAUSSIAN_PARTS}."] if learner.for_decomposition.leading else [],
    )


@click.command()
@aim_options(target="power-law")
@click.option(
    "--samples", type=SAMPLE_COUNTS, required=True, help="Range of samples n to search, for example log:1e3:1e6:13."
)
@output_options()
def features(task: Task, learner: Learner, samples: tuple[float, ...]) -> CommandResult:
    """Number of samples at which each feature of the target is first learned.

    Example: onehead aim features --gamma 0.75 --dim 200 --samples log:1e3:1e6:13 --weight-decay 1
    """
    with progress("samples", len(samples)) as step:
        found = aim.features(task, learner, samples, progress=step)
    return CommandResult(
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
@output_options()
def phase_diagram(
    task: Task, learner: Learner, log_n: tuple[float, ...] | None, log_lambda: tuple[float, ...] | None
) -> CommandResult:
    """Local exponents of the excess error over log_d n and log_d λ, with the mechanism behind each.

    Example: onehead aim phase-diagram --gamma 0.75 --dim 200 --plot phases.png
    """
    from onehead.aim.verbs.phases import LOG_DECAY, LOG_SAMPLES

    log_samples, log_decay = log_n or LOG_SAMPLES, log_lambda or LOG_DECAY
    with progress("cells", len(log_samples) * len(log_decay)) as step:
        found = aim.phase_diagram(task, learner, log_n=log_samples, log_lambda=log_decay, progress=step)
    return CommandResult.of_points(
        found,
        ("log_n", "log_lambda", "excess_error", "local_exponent", "region", "status"),
        item="cells",
        draw=lambda: plot.phases(found),
    )
