"""``onehead aim bayes``: the best possible learner from the same data."""

from typing import Any

import click

from onehead import aim, plot
from onehead.aim.task import Learner, Task
from onehead.cli.aim_flags import aim_options, any_alpha_option
from onehead.cli.frame import Answer, answered, failed_of, noted_of
from onehead.cli.output import progress, working

__all__ = ["bayes"]


@click.command()
@aim_options()
@any_alpha_option
@click.option("--explain", is_flag=True, help="Say in words what the numbers of one sample ratio mean.")
@answered()
def bayes(task: Task, learner: Learner, alpha: float | None, alphas: tuple[float, ...] | None, explain: bool) -> Answer:
    """The best that anybody could do with the same data, who knows how they were made.

    Example: onehead aim bayes --alpha 0.5
    """
    if alpha is None:
        return _curve(task, alphas or ())
    with working("solving"):
        best = aim.bayes(task, alpha)

    def draw() -> Any:
        return plot.best_possible(aim.bayes_curve(task, [alpha]))

    return Answer.of(
        best,
        {"status": f"kind of truth: {best.kind}"},
        title=f"the best possible learner at alpha = {alpha:g}",
        text=best.explain() if explain else "",
        draw=draw,
        warnings=best.certificate.warnings,
    )


def _curve(task: Task, alphas: tuple[float, ...]) -> Answer:
    """The same at many sample ratios."""
    with progress("sample ratios", len(alphas)) as step:
        found = aim.bayes_curve(task, alphas, progress=step)
    return Answer(
        value=found.to_rows(),
        columns=("alpha", "test_error", "test_error_clean", "head_error", "plugin_error", "mmse", "overlap", "status"),
        draw=lambda: plot.best_possible(found),
        warnings=noted_of(found),
        failed=failed_of(found),
    )
