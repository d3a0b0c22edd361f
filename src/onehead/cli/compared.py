"""What both ``compare`` commands show: theory beside training at several dimensions."""

from collections.abc import Callable
from typing import Any

from onehead import plot
from onehead.best import BESIDE
from onehead.cli.frame import Answer

__all__ = ["compared"]

NUMBERS = [f"{name}{end}" for name in ("test_error", "train_loss") for end in ("_theory", "", "_err", "_z")]


def compared(table: Any, repeats: str, *, bayes: bool, draw: Callable[[], Any] | None = None) -> Answer:
    """The answer that a comparison is; ``repeats`` is the word for its runs, ``draw`` another picture than that against 1/d."""
    rows = table.to_rows()
    return Answer(
        value=rows,
        shown=[{**row, "dim": row["dim"] or "∞"} for row in rows],
        columns=("alpha", "dim", repeats, *([BESIDE] if bayes else []), *NUMBERS, "status"),
        title=table.setting,
        draw=draw or (lambda: plot.comparison(table)),
    )
