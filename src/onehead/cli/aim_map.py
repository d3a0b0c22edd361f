"""``onehead aim map``: predictions over any two words."""

from typing import Any

import click

from onehead import aim, plot
from onehead.aim.task import Learner, Ratio, Task
from onehead.aim.words import WORDS
from onehead.cli.aim_flags import accuracy_option, aim_options, bayes_option, tuned_option
from onehead.cli.axes import axis_options
from onehead.cli.frame import Answer, answered, failed_of, noted_of
from onehead.cli.output import progress, working
from onehead.cli.values import flag_of
from onehead.fields import words_of
from onehead.maps import Axis

__all__ = ["map_"]

RATIO = words_of(Ratio)


@click.command("map")
@aim_options()
@axis_options({**RATIO, **WORDS})
@flag_of(RATIO["alpha"])
@tuned_option
@bayes_option
@accuracy_option
@answered()
def map_(
    task: Task,
    learner: Learner,
    x: Axis,
    y: Axis,
    of: str,
    alpha: float | None,
    tuned: bool,
    bayes: bool,
    accuracy: float | None,
) -> Answer:
    """Any two words over a grid, as a table or a heat map.

    Example: onehead aim map --x alpha=log:0.05:4:30 --y weight-decay=log:1e-4:1:30 --plot map.png
    """
    with progress("cells", len(x[1]) * len(y[1])) as step:
        asked: dict[str, Any] = {"of": of, "bayes": bayes, "tuned": tuned, "accuracy": accuracy}
        found = aim.map(task, learner, alpha, x=x, y=y, progress=step, **asked)
    beside = [*(["weight_decay"] if tuned else []), *(["bayes_test_error"] if bayes else [])]
    return Answer(
        value=found.to_rows(),
        columns=tuple(dict.fromkeys([x[0], y[0], of, *beside, "status"])),
        draw=lambda: plot.heat_map(found, lines=_lines(found)),
        warnings=noted_of(found, "cells"),
        failed=failed_of(found, "cells"),
    )


def _lines(found: "aim.AimMap") -> dict[str, list[tuple[float, float]]]:
    """Lines for a picture: thresholds are solved for."""
    with working("thresholds"):
        return found.lines()
