"""``onehead aim bayes``: the best possible (Bayes-optimal) learner from the same data."""

from typing import Any

import click

from onehead import aim, plot
from onehead.aim.task import Learner, Task
from onehead.cli.aim.flags import aim_options, any_alpha_option
from onehead.cli.rendering.output import progress, spinner
from onehead.cli.rendering.render import CommandResult, output_options


@click.command()
@aim_options()
@any_alpha_option
@click.option("--explain", is_flag=True, help="Explain the numbers of one sample ratio in sentences.")
@output_options()
def bayes(
    task: Task, learner: Learner, alpha: float | None, alphas: tuple[float, ...] | None, explain: bool
) -> CommandResult:
    """Lowest error that any learner can reach with the same data, if it knows how they were generated.

    Example: onehead aim bayes --alpha 0.5
    """
    if alpha is None:
        return _curve(task, alphas or ())
    with spinner("solving"):
        best = aim.bayes(task, alpha)

    def draw() -> Any:
        return plot.best_possible(aim.bayes_curve(task, [alpha]))

    return CommandResult.of(
        best,
        kind=True,
        title=f"best possible learner at alpha = {alpha:g}",
        explain=explain,
        draw=draw,
    )


def _curve(task: Task, alphas: tuple[float, ...]) -> CommandResult:
    """Best possible learner at many sample ratios."""
    with progress("sample ratios", len(alphas)) as step:
        found = aim.bayes_curve(task, alphas, progress=step)
    errors = ("test_error", "test_error_clean", "head_error", "plugin_error")
    return CommandResult.of_points(
        found, ("alpha", *errors, "mmse", "overlap", "status"), draw=lambda: plot.best_possible(found)
    )
