"""``onehead aim map``: predictions over a grid of any two parameters."""

from typing import Any

import click

from onehead import aim
from onehead.aim.flat_parameters import PARAMETERS
from onehead.aim.task import Learner, Ratio, Task
from onehead.cli.aim.flags import accuracy_option, aim_options, tuned_option
from onehead.cli.parsing.axes import axis_options
from onehead.cli.parsing.options import bayes_option
from onehead.cli.parsing.values import flag_of
from onehead.cli.rendering.output import progress, spinner
from onehead.cli.rendering.render import CommandResult, output_options
from onehead.cli.rendering.shared_results import map_result
from onehead.fields import parameters_of
from onehead.results.grids import Axis

RATIO = parameters_of(Ratio)


@click.command("map")
@aim_options()
@axis_options({**RATIO, **PARAMETERS})
@flag_of(RATIO["alpha"])
@tuned_option
@bayes_option
@accuracy_option
@output_options()
def map_(
    task: Task,
    learner: Learner,
    x: Axis,
    y: Axis,
    alpha: float | None,
    **settings: Any,
) -> CommandResult:
    """Predictions over a grid of any two parameters, as a table or a heat map.

    Example: onehead aim map --x alpha=log:0.05:4:30 --y weight-decay=log:1e-4:1:30 --plot map.png
    """
    with progress("cells", len(x[1]) * len(y[1])) as step:
        found = aim.map(task, learner, alpha, x=x, y=y, progress=step, **settings)
    optional = [*(["weight_decay"] if settings["tuned"] else []), *(["bayes_test_error"] if settings["bayes"] else [])]
    return map_result(found, optional, lines=lambda: _lines(found))


def _lines(found: "aim.AimMap") -> dict[str, list[tuple[float, float]]]:
    """Lines to draw in a picture; the thresholds among them are computed here."""
    with spinner("thresholds"):
        return found.lines()
