"""``onehead demo``: the main job from start to end, theory over real training, with pictures."""

from typing import Any

import click
import numpy as np

from onehead.cli.output import note, print_json, print_rows, progress, save_figure
from onehead.files import check_file, check_folder
from onehead.numerics.interrupts import entire

__all__ = ["command"]

RATIOS = (0.1, 0.2, 0.4, 0.8, 1.4, 2.0)
DIM, SEEDS, WIDE = 60, 4, 100
SHOWN = {"test_error": ("_theory", "", "_err"), "train_loss": ("_theory", ""), "rank": ("_theory", "")}


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
    alphas = np.linspace(0.05, 2.0, 46)
    with progress("theory", len(alphas)) as step, entire():
        curve = aim.curve(task, learner, alphas, progress=step)
    marks = aim.thresholds(task, learner)
    with progress("training", SEEDS * (len(RATIOS) + 1)) as step:
        words: dict[str, Any] = {"seeds": SEEDS, "workers": threads(), "progress": lambda _: step()}
        with entire():
            table = aim.compare(task, learner, RATIOS, dims=(DIM,), **words)
        with entire():
            wide = aim.train(task, learner, dim=WIDE, alpha=0.5, **words)
    law = aim.spectrum(aim.predict(task, learner, alpha=0.5))
    axes = plot.learning_curve(curve, thresholds=marks)
    trained = [point.runs[0] for point in table.points]
    save_figure(paths["curve"], plot.training_points(trained, ax=axes))
    save_figure(paths["spectrum"], plot.trained_spectrum(wide, law))
    if as_json:
        print_json(paths)
        return
    columns = ["alpha", *(name + end for name in SHOWN for end in SHOWN[name])]
    title = f"one attention head: theory, and {SEEDS} heads of dimension {DIM} trained on real samples"
    print_rows(table.to_rows(), columns, title)
    note(
        f"every label can be fitted up to alpha = {marks.interpolation:.4f}; open {paths['curve']}, {paths['spectrum']}"
    )
