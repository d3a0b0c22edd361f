"""What commands of the same name of both models show: ``compare``, ``data`` and ``map``, and missing predictions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from onehead import plot
from onehead.cli.rendering.render import CommandResult
from onehead.cli.rendering.terminal import note
from onehead.errors import OneheadError
from onehead.results import Result
from onehead.results.bayes_gap import BAYES_TEST_ERROR
from onehead.results.grids import Map

NUMBERS = [f"{name}{end}" for name in ("test_error", "train_loss") for end in ("_theory", "", "_err", "_z")]
INFINITE_OR_LIMIT = ("alpha", "best_possible_alpha", "weight_decay")  # a table can show inf and 0+, JSON cannot
Lines = Mapping[str, Sequence[tuple[float, float]]]
Predicted = TypeVar("Predicted")


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


def data_result(found: Result, *, title: str, explain: bool) -> CommandResult:
    """Command result of the number of samples that a test error needs; quantities without a value are left out."""
    unknown = [name for name in found.MEANINGS if getattr(found, name) is None]
    known = {name: value for name in INFINITE_OR_LIMIT if (value := getattr(found, name, None)) is not None}
    shown = {name: "0+" if name == "weight_decay" and value == 0.0 else value for name, value in known.items()}
    return CommandResult.of(found, dict.fromkeys(unknown), table=shown, kind=True, explain=explain, title=title)


def map_result(found: Map, columns: Sequence[str], *, lines: Callable[[], Lines], title: str = "") -> CommandResult:
    """Command result of a map, whose table has the two parameters, the quantity shown and further ``columns``.

    ``lines`` returns the lines of the picture; it is called only if a picture is drawn.
    """
    shown = tuple(dict.fromkeys([found.x_name, found.y_name, found.of, *columns, "status"]))
    return CommandResult.of_points(
        found, shown, item="cells", title=title, draw=lambda: plot.heat_map(found, lines=lines())
    )


def prediction_or_note(
    predict: Callable[[], Predicted], failures: type[OneheadError] = OneheadError
) -> Predicted | None:
    """Prediction to compare a run with; None, with a note, where the theory gives none."""
    try:
        return predict()
    except failures as error:
        note(f"no prediction to compare with: {error}")
        return None
