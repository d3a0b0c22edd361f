"""``onehead aim scaling``, ``features`` and ``phase-diagram``: targets with many scales, such as a power law."""

from typing import TYPE_CHECKING, Any

import click

from onehead.cli.aim_flags import COUNTS, aim_options
from onehead.cli.output import (
    check_picture,
    note,
    output_options,
    print_json,
    print_rows,
    progress,
    save_figure,
    write_csv,
)
from onehead.cli.values import Range
from onehead.errors import SolveError

if TYPE_CHECKING:
    from onehead.aim import Learner, Task

__all__ = ["features", "phase_diagram", "scaling"]


class ScalingCommand(click.Command):
    """A command whose target is a power law unless another is asked for."""

    def invoke(self, ctx: click.Context) -> Any:
        """Fill in the target."""
        if ctx.params.get("target") is None:
            ctx.params["target"] = "power-law"
        return super().invoke(ctx)


@click.command(cls=ScalingCommand)
@aim_options
@click.option("--samples", type=COUNTS, required=True, help="Numbers of samples n, for example log:1e3:1e6:13.")
@click.option("--optimal", is_flag=True, help="Use the best weight decay at every n.")
@output_options()
def scaling(
    task: "Task",
    learner: "Learner",
    samples: tuple[float, ...],
    optimal: bool,
    as_json: bool,
    csv_file: str | None,
    plot: str | None,
) -> None:
    """How the error falls with the number of samples, and where it comes from.

    Example: onehead aim scaling --gamma 0.75 --dim 200 --samples log:300:1e6:15 --weight-decay 1/d
    """
    from onehead import aim
    from onehead import plot as pictures

    check_picture(plot)
    with progress("samples", len(samples)) as step:
        law = aim.scaling(task, learner, samples, optimal=optimal, progress=step)
    rows = law.to_rows()
    if csv_file:
        write_csv(csv_file, rows)
    if plot:
        save_figure(plot, lambda: pictures.scaling(law))
    if as_json:
        print_json(rows)
    else:
        columns = ["samples", "weight_decay", "test_error", "excess_error", "local_exponent"]
        parts = ["underfitting", "approximation", "overfitting", "mismatch"]
        print_rows(rows, [*columns, *parts, "outliers", "rank", "status"])
    if law.failures:
        raise SolveError(f"{len(law.failures)} of {len(law)} points failed; the first: {law.failures[0].reason}")


@click.command(cls=ScalingCommand)
@aim_options
@click.option("--samples", type=COUNTS, required=True, help="Range of samples n to search, for example log:1e3:1e6:13.")
@output_options()
def features(
    task: "Task",
    learner: "Learner",
    samples: tuple[float, ...],
    as_json: bool,
    csv_file: str | None,
    plot: str | None,
) -> None:
    """The number of samples at which each feature of the target is first learned.

    Example: onehead aim features --gamma 0.75 --dim 200 --samples log:1e3:1e6:13 --weight-decay 1
    """
    from onehead import aim
    from onehead import plot as pictures

    check_picture(plot)
    with progress("samples", len(samples)) as step:
        found = aim.features(task, learner, samples, progress=step)
    rows = [item.to_dict() for item in found]
    for warning in dict.fromkeys(item.warning for item in found if item.warning):
        note(f"note: {warning}")
    if csv_file:
        write_csv(csv_file, rows)
    if plot:
        save_figure(plot, lambda: pictures.features(found))
    if as_json:
        print_json(rows)
        return
    print_rows(rows, ["feature", "target", "samples"], title="features in the order in which they leave the noise")


@click.command("phase-diagram", cls=ScalingCommand)
@aim_options
@click.option("--log-n", type=Range(0.0, 10.0), help="Values of log_d n.  [default: 0.8:3.2:25]")
@click.option("--log-lambda", type=Range(-10.0, 10.0), help="Values of log_d λ.  [default: -1.5:1.5:7]")
@output_options()
def phase_diagram(
    task: "Task",
    learner: "Learner",
    log_n: tuple[float, ...] | None,
    log_lambda: tuple[float, ...] | None,
    as_json: bool,
    csv_file: str | None,
    plot: str | None,
) -> None:
    """Local exponents of the excess error over log_d n and log_d λ, with the mechanism behind each.

    Example: onehead aim phase-diagram --gamma 0.75 --dim 200 --plot phases.png
    """
    from onehead import aim
    from onehead import plot as pictures
    from onehead.aim.verbs.phases import LOG_DECAY, LOG_SAMPLES

    check_picture(plot)
    across, down = log_n or LOG_SAMPLES, log_lambda or LOG_DECAY
    with progress("cells", len(across) * len(down)) as step:
        found = aim.phase_diagram(task, learner, log_n=across, log_lambda=down, progress=step)
    rows = found.to_rows()
    if csv_file:
        write_csv(csv_file, rows)
    if plot:
        save_figure(plot, lambda: pictures.phases(found))
    if as_json:
        print_json(rows)
    else:
        print_rows(rows, ["log_n", "log_lambda", "excess_error", "local_exponent", "region", "status"])
    if found.failures:
        raise SolveError(f"{len(found.failures)} of {len(found)} cells failed; the first: {found.failures[0].status}")
