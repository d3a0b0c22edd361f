"""``onehead aim data``: samples that a test error needs."""

import click

from onehead import aim
from onehead.aim.task import Learner, Task
from onehead.cli.aim.flags import aim_options
from onehead.cli.parsing.options import explain_option
from onehead.cli.parsing.values import Number
from onehead.cli.rendering.output import spinner
from onehead.cli.rendering.render import CommandResult, output_options
from onehead.cli.rendering.shared_results import data_result


@click.command()
@aim_options()
@click.option("--error", type=Number(gt=0.0), required=True, help="Wanted test error, labels with noise.")
@output_options(csv_rows=False, picture=False)
@explain_option
def data(task: Task, learner: Learner, error: float, known_dim: int | None, explain: bool) -> CommandResult:
    """Number of samples that a test error needs, and the best weight decay there.

    Example: onehead aim data --error 0.1 --dim 128
    """
    with spinner("searching"):
        found = aim.data_for(task, learner, error, dim=known_dim)
    return data_result(found, title=f"samples for a test error of {error:g}", explain=explain)
