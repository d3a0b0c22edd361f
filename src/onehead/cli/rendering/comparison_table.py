"""Rendering of both ``compare`` commands: theory and training at several dimensions."""

from collections.abc import Callable
from typing import Any

from onehead import plot
from onehead.cli.rendering.render import CommandResult
from onehead.results.bayes_gap import BAYES_TEST_ERROR

__all__ = ["comparison_result"]

NUMBERS = [f"{name}{end}" for name in ("test_error", "train_loss") for end in ("_theory", "", "_err", "_z")]


def comparison_result(table: Any, repeats: str, *, bayes: bool, draw: Callable[[], Any] | None = None) -> CommandResult:
    """Command result of a comparison.

    ``repeats`` is the column with the number of runs, "seeds" or "trials"; ``draw`` replaces the picture over 1/d.
    """
    rows = table.to_rows()
    start = ["start"] if rows and "start" in rows[0] else []
    return CommandResult(
        value=rows,
        table=[{**row, "dim": row["dim"] or "∞"} for row in rows],
        columns=("alpha", "dim", *start, repeats, *([BAYES_TEST_ERROR] if bayes else []), *NUMBERS, "status"),
        title=table.setting,
        draw=draw or (lambda: plot.comparison(table)),
    )
