"""Data of the second study as small files of the documentation, from which its tables and figures are made."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from studies.real_heads.data import load_files, save_files
from studies.real_heads.layer import fading, head_rows, step_rows
from studies.real_heads.layer_statistics import half_points
from studies.real_heads.layer_theory import layer_predictions, measured_variances
from studies.real_heads.measure import Row
from studies.real_heads.runs import Run
from studies.real_heads.store import finished

__all__ = ["LayerData", "collect_layer", "load_layer", "save_layer"]

FILES = {
    "heads": "real-heads-layer.csv",
    "directions": "real-heads-layer-directions.csv",
    "steps": "real-heads-layer-steps.csv",
    "fading": "real-heads-layer-fading.csv",
}
THEORY = "real-heads-layer.json"


class LayerData(NamedTuple):
    """Rows per head at the end, per direction at the end, per head and step, and per direction of long runs.

    ``run`` is the place of a run in `runs.LAYER_RUNS`; ``theory`` has the curves of the
    theory and the half points of curves and heads, by width.
    """

    heads: list[Row]
    directions: list[Row]
    steps: list[Row]
    fading: list[Row]
    theory: dict[str, Any]


def collect_layer(runs: Sequence[Run], store: Path) -> LayerData:
    """Measure the finished runs; laws are fitted to heads without decay and with the usual training."""
    found = LayerData([], [], [], [], {})
    for number, run in enumerate(runs):
        if not finished(run, store):
            continue
        usual = run.steps == Run.steps and not (run.decay or run.value_penalty or run.descent)
        for row, directions in head_rows(run, number, store, spectra=usual):
            found.heads.append(row)
            found.directions.extend(directions)
        found.steps.extend(step_rows(run, number, store))
        if run.steps > Run.steps:
            found.fading.extend(fading(run, number, store))
    curves = layer_predictions(measured_variances(found.heads))
    found.theory.update({"curves": curves, "halves": half_points(found.heads, curves)})
    return found


def save_layer(data: LayerData, folder: Path) -> None:
    """Write the files."""
    save_files(data, folder, FILES, THEORY)


def load_layer(folder: Path) -> LayerData:
    """Read the files."""
    return LayerData(*load_files(folder, FILES, THEORY))
