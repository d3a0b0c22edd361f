"""``onehead sparse descend`` and ``joint``: query and readout trained together."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click

from onehead import plot, sparse
from onehead.cli.parsing.options import explain_option
from onehead.cli.parsing.values import flag_of, given
from onehead.cli.rendering.render import CommandResult, output_options
from onehead.cli.sparse.flags import Case, cases_result, joint_options, solve_cases
from onehead.errors import InvalidArgument
from onehead.fields import parameters_of
from onehead.problem import Accuracy
from onehead.results import Result
from onehead.sweep.settings import SparseDescend, TotalSamples

ALPHA, ACCURACY = parameters_of(TotalSamples)["alpha"], parameters_of(Accuracy)["accuracy"]
DESCEND = parameters_of(SparseDescend)
SCHEDULE_FORMAT = "ETA_Q:ETA_W:ETA_B for each step, separated by commas"
STATUS = {"status": "how the numbers were obtained"}
SEVERAL_COLUMNS = ("best_step", "test_error", "train_loss", "cos_query", "cos_readout", "last_test_error")


def _read_schedule(text: str | None) -> Any:
    """Rates of every step from text such as 0:0.5:0.5,64:0:0."""
    if text is None:
        return None
    try:
        return [tuple(float(rate) for rate in step.split(":")) for step in text.split(",")]
    except ValueError:
        raise InvalidArgument("--schedule", text, SCHEDULE_FORMAT) from None


@click.command()
@joint_options
@flag_of(ALPHA, ranged=True, help="All samples over dimension.")
@flag_of(DESCEND["steps"])
@flag_of(DESCEND["batch"])
@flag_of(DESCEND["batch_ratio"])
@click.option("--schedule", metavar="RATES", help=f"Rates of every step in place of constant ones: {SCHEDULE_FORMAT}.")
@flag_of(ACCURACY, default="8 sets of 512 points")
@explain_option
@output_options()
def descend(
    cases: list[Case], schedule: str | None, accuracy: float | None, explain: bool, **flags: Any
) -> CommandResult:
    """Query, readout and bias trained together by gradient descent: errors after every step, and where to stop.

    Example: onehead sparse descend --alpha 2 --steps 15 --eta-b 3 --ridge 0.1 --ridge-query 0.03
    """
    from onehead.sparse.verbs.descend import FRESH_ONLY, progress_steps

    chosen = SparseDescend(**given(flags))
    if flags["batch_ratio"] is not None and chosen.batch != "fresh":
        raise InvalidArgument("--batch-ratio", flags["batch_ratio"], FRESH_ONLY)
    rates = _read_schedule(schedule)

    def run(case: Case, advance: Callable[[], None]) -> Result:
        return sparse.descend(
            case.task, case.protocol, **dict(chosen), schedule=rates, accuracy=accuracy, progress=advance
        )

    solved = solve_cases(cases, run, "descending", steps=progress_steps(chosen.steps))
    meanings = {**sparse.Descent.MEANINGS, **STATUS}
    if len(solved) > 1:
        columns = {name: meanings[name] for name in (*SEVERAL_COLUMNS, "status")}
        return cases_result(solved, columns, title="Joint descent", draw=_draw_descents)
    (one,) = solved
    names = ("step", "test_error", "train_loss", "train_error", "cos_query", "cos_readout", "norm_query", "bias")
    found = CommandResult(
        value=one.row,
        table=one.row["steps"],
        rows=one.row["steps"],
        columns=names,
        title=f"Joint descent: stop after step {one.result.best_step}",
        draw=lambda: plot.descent([one.result]),
        notes=one.row["warnings"],
    )
    return replace(found, text=one.result.explain()) if explain else found


def _draw_descents(found: list[Any], x: list[float], name: str) -> Any:
    """Draw several descents, each with the value of the parameter that differs."""
    return plot.descent(found, labels=[f"{name.replace('_', ' ')} {value:g}" for value in x])


@click.command()
@joint_options
@flag_of(ALPHA, ranged=True, help="All samples over dimension.")
@explain_option
@output_options()
def joint(cases: list[Case], explain: bool) -> CommandResult:
    """Minimum over query, readout and bias with a ridge on both, and whether it is stable and unique.

    Example: onehead sparse joint --alpha 2 --ridge-query 0.1 --ridge 0.1
    """
    solved = solve_cases(cases, lambda case, _: sparse.joint(case.task, case.protocol), "joint minimum")
    columns = {**sparse.JointTraining.MEANINGS, **STATUS, "kind": "kind of truth"}

    def draw(found: list[Any], x: list[float], name: str) -> Any:
        return plot.error_curve({"attention": (x, found)}, name)

    return cases_result(solved, columns, title="Joint minimum", draw=draw, explain=explain)
