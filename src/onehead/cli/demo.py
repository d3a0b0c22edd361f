"""``onehead demo``: a learning curve and a spectrum, from theory and from training, with pictures."""

from typing import Any

import click
import numpy as np

from onehead.atomic_io import check_file, check_folder
from onehead.cli.rendering.output import print_json, print_rows, progress, save_figure
from onehead.cli.rendering.terminal import note
from onehead.numerics.interrupts import require_complete

# sample ratios of the predicted curve, evenly spaced on its axis and so dense that no corner can be seen
CURVE = np.geomspace(0.05, 2.0, 80)
ALPHAS = (0.1, 0.2, 0.4, 0.8, 1.4, 2.0)
DIM, SEEDS = 60, 4
SPECTRUM_DIM = 100
COLUMN_ENDINGS = {"test_error": ("_theory", "", "_err"), "train_loss": ("_theory", ""), "rank": ("_theory", "")}


@click.command()
@click.option("--out", default="out", show_default=True, metavar="DIR", help="Folder for the pictures.")
@click.option("--json", "as_json", is_flag=True, help="Print the paths as JSON and nothing else.")
def command(out: str, as_json: bool) -> None:
    """A learning curve and a spectrum of one head, predicted and then trained, in about a minute."""
    from onehead import aim, plot
    from onehead.numerics.parallel import threads

    folder = check_folder("--out", out)
    folder.mkdir(parents=True, exist_ok=True)
    paths = {"curve": str(folder / "learning_curve.png"), "spectrum": str(folder / "spectrum.png")}
    for path in paths.values():
        check_file("--out", path)
    task, learner = aim.Task(), aim.Learner(weight_decay=0.01)
    with progress("theory", len(CURVE)) as step, require_complete():
        curve = aim.curve(task, learner, CURVE, progress=step)
    thresholds = aim.thresholds(task, learner)
    with progress("training", SEEDS * (len(ALPHAS) + 1)) as step:
        settings: dict[str, Any] = {"seeds": SEEDS, "workers": threads(), "progress": lambda _: step()}
        with require_complete():
            table = aim.compare(task, learner, ALPHAS, dims=(DIM,), **settings)
        with require_complete():
            spectrum_run = aim.train(task, learner, dim=SPECTRUM_DIM, alpha=0.5, **settings)
    law = aim.spectrum(aim.predict(task, learner, alpha=0.5))
    axes = plot.learning_curve(curve, thresholds=thresholds)
    trained = [point.runs[0] for point in table.points]
    save_figure(paths["curve"], plot.training_points(trained, ax=axes))
    save_figure(paths["spectrum"], plot.trained_spectrum(spectrum_run, law))
    if as_json:
        print_json(paths)
        return
    columns = ["alpha", *(name + end for name in COLUMN_ENDINGS for end in COLUMN_ENDINGS[name])]
    title = f"one attention head: theory, and {SEEDS} heads of dimension {DIM} trained on real samples"
    print_rows(table.to_rows(), columns, title)
    note(
        f"all labels can be fitted up to alpha = {thresholds.interpolation:.4f}; open {paths['curve']}, "
        f"{paths['spectrum']}"
    )
